/// Kind of transfer that users wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Name of the kind, in the plural.
    pub name: &'static str,
    /// Name of the mean transfer time in summaries, in seconds.
    pub measure: &'static str,
    /// Label of the mean transfer time for readers.
    pub label: &'static str,
    /// True if all transfers with the same number have the same weight together in the mean of a run that completes all of them: the pages
    /// of a list, as in the averages of the papers.
    pub by_number: bool,
}

impl Unit {
    /// Page, until it is complete.
    pub const PAGE: Self =
        Self { name: "pages", measure: "page_time_s", label: "page time, s", by_number: true };
    /// Keystroke, until its echo arrives.
    pub const KEYSTROKE: Self =
        Self { name: "keystrokes", measure: "echo_s", label: "echo, s", by_number: false };
    /// Connection, until it is over.
    pub const TRANSFER: Self =
        Self { name: "transfers", measure: "completed_s", label: "completion time, s", by_number: false };
    /// No transfer: connections last as long as the run.
    pub const FLOW: Self = Self { name: "flows", ..Self::TRANSFER };
}
