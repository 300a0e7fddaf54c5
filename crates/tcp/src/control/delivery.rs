use catnip_base::{Span, Time};

/// What an ACK says of the path, to a controller that decides by itself about window and rate (Linux's rate_sample, and where the
/// connection stands). Segments count as Linux counts them: a short one as a full one.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// When the ACK arrived.
    pub now: Time,
    /// Segments that are newly known to have arrived.
    pub arrived: u32,
    /// Segments newly found lost.
    pub lost: u32,
    /// How fast segments arrive, if this ACK can tell.
    pub rate: Option<RateSample>,
    /// The round trip of the latest segment that has arrived, if it was sent once.
    pub rtt: Option<Span>,
    /// It acknowledges a short segment alone, for which the other side may have waited.
    pub may_be_delayed: bool,
    /// Smoothed round trip, once there was a sample.
    pub srtt: Option<Span>,
    /// Segments in the network before this ACK, and after it.
    pub before: u32,
    /// See [`Self::before`].
    pub in_network: u32,
    /// Segments that have arrived in all, and the time when one did last.
    pub delivered: u64,
    /// See [`Self::delivered`].
    pub delivered_at: Time,
    /// Of the segments that were found lost since the last ACK that told of any, the one that says most.
    pub loss: Option<LossSample>,
    /// Segments found lost in all, each time that it was.
    pub lost_in_all: u64,
    /// Is a loss being repaired?
    pub repair: Repair,
    /// When the next segment may leave, as far as pacing goes.
    pub next_departure: Time,
}

/// A sample of the delivery rate (draft-cheng-iccrg-delivery-rate-estimation): from when the segment was sent that tells most until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Segments that have arrived in between.
    pub delivered: u32,
    /// In how long; `None`: too short to be true.
    pub interval: Option<Span>,
    /// Segments that had arrived in all when it was sent.
    pub prior_delivered: u64,
    /// Segments found lost in between.
    pub lost: u32,
    /// Segments in the network when it had been sent.
    pub in_network: u32,
    /// The application had less to send than there was room for.
    pub is_app_limited: bool,
}

/// What a lost segment says: how much was lost of what was out when it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossSample {
    /// Segments found lost since it left, this one included.
    pub lost: u32,
    /// Segments in the network when it had left.
    pub in_network: u32,
    /// The application had less to send than there was room for.
    pub is_app_limited: bool,
}

/// How a connection gets over a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repair {
    /// There is none.
    #[default]
    None,
    /// Fast recovery.
    Recovery,
    /// The timer has expired.
    Loss,
}
