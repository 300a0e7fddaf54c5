use catnip_base::{Span, Time};

/// Delivery information of an ACK, for a controller that sets cwnd and the pacing rate itself (Linux's rate_sample, with some state of the
/// connection). As in Linux, a short segment counts as a full one.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// Arrival time of the ACK.
    pub now: Time,
    /// Newly delivered segments, whether acknowledged or reported by SACK.
    pub acked_sacked: u32,
    /// Segments newly detected as lost.
    pub lost: u32,
    /// Delivery rate sample; `None` if the ACK yields no sample.
    pub rate: Option<RateSample>,
    /// RTT sample from the most recently sent segment that has arrived; `None` if the ACK yields no sample.
    pub rtt: Option<Span>,
    /// True if the ACK acknowledges a single short segment, so that the peer may have delayed it.
    pub is_ack_delayed: bool,
    /// SRTT; `None` before the first RTT sample.
    pub srtt: Option<Span>,
    /// Segments in flight before this ACK.
    pub prior_in_flight: u32,
    /// Segments in flight after this ACK.
    pub packets_in_flight: u32,
    /// Total number of segments delivered.
    pub delivered: u64,
    /// Time of the last delivery.
    pub delivered_time: Time,
    /// Loss sample with the highest loss rate among the segments detected as lost since the previous ACK.
    pub loss: Option<LossSample>,
    /// Total number of segments detected as lost. A segment counts each time that it is detected as lost.
    pub total_lost: u64,
    /// State of loss recovery.
    pub recovery_state: RecoveryState,
    /// Earliest departure time of the next segment under pacing.
    pub next_departure: Time,
}

/// Delivery rate sample (draft-cheng-iccrg-delivery-rate-estimation): the deliveries since the reference segment was sent. The reference
/// segment is the most recently sent one of the newly delivered segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Segments delivered since the reference segment was sent.
    pub delivered: u32,
    /// Sampling interval; `None` if it is implausible because it is shorter than the minimum RTT.
    pub interval: Option<Span>,
    /// Total number of segments delivered when the reference segment was sent.
    pub prior_delivered: u64,
    /// Segments detected as lost since the reference segment was sent.
    pub lost: u32,
    /// Segments in flight when the reference segment was sent, including the reference segment.
    pub tx_in_flight: u32,
    /// True if the sender was application-limited when the reference segment was sent.
    pub is_app_limited: bool,
}

/// Loss sample of a lost segment: the losses since it was sent, and the data in flight when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossSample {
    /// Segments detected as lost since the segment was sent, including the segment.
    pub lost: u32,
    /// Segments in flight when the segment was sent, including the segment.
    pub tx_in_flight: u32,
    /// True if the sender was application-limited when the segment was sent.
    pub is_app_limited: bool,
}

/// State of loss recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecoveryState {
    /// No recovery.
    #[default]
    None,
    /// Fast recovery.
    Recovery,
    /// Recovery after a timeout.
    Loss,
}
