//! Selective packet marking (CATNIP paper, section III-B): the packets whose loss would cost a timeout.

/// What it looks at.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Leading packets of a document that are crucial (catp25).
    pub leading: u32,
    /// Trailing ones (catp26).
    pub trailing: u32,
    /// What is sent while the window is below so many segments is crucial, too (catp27).
    pub small_window: u32,
}

/// Where a packet stands.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where in its document its data begins.
    pub offset: u64,
    /// Length of the document, or [`UNKNOWN`].
    pub bytes: u64,
    /// cwnd.
    pub window: u64,
}

/// The length of a document of which nobody has said it: where it ends is not marked.
pub const UNKNOWN: u64 = u64::MAX;

/// Why a packet is crucial.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is not.
    None = 0,
    /// It is one of the first.
    Leading = 1,
    /// It is one of the last.
    Trailing = 2,
    /// The window is small.
    SmallWindow = 3,
}

/// The first reason for which a packet is crucial, in segments of so many bytes.
#[inline]
pub fn reason(rules: &Rules, place: &Place, segment: u32) -> Reason {
    let segments = |count: u32| count as u64 * segment as u64;
    if place.offset < segments(rules.leading) {
        return Reason::Leading;
    }
    let left = place.bytes.saturating_sub(place.offset);
    if rules.trailing > 0 && place.bytes != UNKNOWN && left <= segments(rules.trailing) {
        return Reason::Trailing;
    }
    if place.window < segments(rules.small_window) { Reason::SmallWindow } else { Reason::None }
}
