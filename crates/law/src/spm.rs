//! Selective packet marking (CATNIP paper, section III-B): marks crucial packets, those whose loss would cost a timeout.

/// Parameters of selective packet marking.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Number of leading packets of a document that are crucial (catp25).
    pub leading: u32,
    /// Number of trailing packets of a document that are crucial (catp26).
    pub trailing: u32,
    /// Congestion window below which all packets are crucial, segments (catp27).
    pub small_window: u32,
}

/// Position of a packet in its document, and congestion window of its sender.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Offset of the packet's data in its document, bytes.
    pub offset: u64,
    /// Length of the document, bytes, or [`UNKNOWN`].
    pub bytes: u64,
    /// Congestion window, bytes.
    pub window: u64,
}

/// Document length that is unknown. Trailing packets of such a document are not marked.
pub const UNKNOWN: u64 = u64::MAX;

/// Reason for which a packet is crucial.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No reason: the packet is not crucial.
    None = 0,
    /// Leading packet of a document.
    Leading = 1,
    /// Trailing packet of a document.
    Trailing = 2,
    /// Packet sent while the congestion window is small.
    SmallWindow = 3,
}

/// Returns the first of the rules for which a packet is crucial, in the order of [`Reason`]. A full segment has `segment` bytes.
#[inline]
pub fn reason(rules: &Rules, position: &Position, segment: u32) -> Reason {
    let segments = |count: u32| count as u64 * segment as u64;
    if position.offset < segments(rules.leading) {
        return Reason::Leading;
    }
    let remaining = position.bytes.saturating_sub(position.offset);
    if rules.trailing > 0 && position.bytes != UNKNOWN && remaining <= segments(rules.trailing) {
        return Reason::Trailing;
    }
    if position.window < segments(rules.small_window) { Reason::SmallWindow } else { Reason::None }
}
