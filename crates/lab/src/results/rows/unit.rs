/// Kind of transfer that users wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Name of the kind of transfer, in the plural.
    pub name: &'static str,
    /// Name of the mean transfer time, in seconds, in summaries.
    pub measure: &'static str,
    /// Label of the mean transfer time, in words.
    pub label: &'static str,
    /// True if the mean transfer time of a run is the mean over the transfer numbers of the mean time of each number, as in the averages of
    /// the papers over the pages of a list. Applies if all runs have completed transfers with the same numbers.
    pub by_number: bool,
}

impl Unit {
    /// Page; the transfer ends when the page is complete.
    pub const PAGE: Self =
        Self { name: "pages", measure: "page_time_s", label: "page time, s", by_number: true };
    /// Keystroke; the transfer ends when the echo arrives.
    pub const KEYSTROKE: Self =
        Self { name: "keystrokes", measure: "echo_s", label: "echo, s", by_number: false };
    /// Segment of a video; the transfer ends when the segment is complete.
    pub const SEGMENT: Self =
        Self { name: "segments", measure: "segment_s", label: "segment, s", by_number: false };
    /// Connection; the transfer ends with the connection.
    pub const TRANSFER: Self =
        Self { name: "transfers", measure: "completed_s", label: "completion time, s", by_number: false };
    /// Connection that lasts as long as the run and is therefore not a transfer.
    pub const FLOW: Self = Self { name: "flows", ..Self::TRANSFER };
}
