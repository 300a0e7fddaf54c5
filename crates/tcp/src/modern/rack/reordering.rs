use super::flight::Arrived;
use crate::recovery::DUPACK_THRESHOLD;
use catnip_base::{Span, Time};

/// RACK state of the path (RFC 8985, section 6): the latest transmission known to have arrived, and the amount of reordering that is not
/// taken for a loss.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq.
    latest: Option<(Time, u64)>,
    /// RACK.rtt.
    rtt: Span,
    /// True if data has arrived since the last loss detection.
    has_new_delivery: bool,
    /// Reordering degree (tp->reordering): the number of segments above a hole that was then filled without a retransmission; three if no
    /// reordering was seen.
    degree: u32,
    /// RACK.reordering_seen.
    is_seen: bool,
    /// RACK.reo_wnd_mult.
    steps: u32,
    /// True if a duplicate was reported for which the window has not been widened.
    dsack: bool,
    /// End of the data sent when the window was last widened; until it is acknowledged, duplicates do not widen the window again.
    widened_to: u64,
    /// Number of recoveries for which the wider window persists, RACK.reo_wnd_persist.
    persist: u32,
}

/// Number of recoveries without a duplicate after which the window returns to its initial size.
const PERSISTENCE: u32 = 16;
/// Maximum reordering degree, Linux's tcp_max_reordering.
const MAX_DEGREE: u32 = 300;
/// Maximum number of steps; Linux stores them in a byte.
const MAX_STEPS: u32 = 255;

impl Default for Rack {
    fn default() -> Self {
        Self {
            latest: None,
            rtt: Span::ZERO,
            has_new_delivery: false,
            degree: DUPACK_THRESHOLD,
            is_seen: false,
            steps: 1,
            dsack: false,
            widened_to: 0,
            persist: 0,
        }
    }
}

impl Rack {
    /// Handles each segment that arrives (RACK_update). If a segment was retransmitted less than the minimum round trip ago, an earlier
    /// transmission of it has arrived.
    pub(super) fn on_arrival(&mut self, now: Time, arrived: &Arrived, min_rtt: Option<Span>) {
        let record = &arrived.record;
        let rtt = now - record.sent;
        if record.was_resent && min_rtt.is_some_and(|least| rtt < least) {
            return;
        }
        self.has_new_delivery = true;
        self.rtt = rtt;
        self.latest = self.latest.max(Some((record.sent, record.end)));
    }

    /// Records reordering: data that was not retransmitted has arrived late, after data `segments` segments above it.
    pub(super) fn on_late_arrival(&mut self, segments: u32) {
        self.is_seen = true;
        self.degree = self.degree.max(segments).min(MAX_DEGREE);
    }

    /// Adapts the reordering window (RACK_update_reo_wnd). `snd_una` is acknowledged, `next` is the end of the data sent.
    pub(super) fn adapt(&mut self, snd_una: u64, next: u64) {
        if snd_una < self.widened_to {
            self.dsack = false;
        }
        if std::mem::take(&mut self.dsack) {
            self.steps = (self.steps + 1).min(MAX_STEPS);
            self.widened_to = next;
            self.persist = PERSISTENCE;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// Records a reported duplicate (DSACK). It is ignored if no reordering was seen.
    pub(super) fn on_duplicate(&mut self) {
        self.dsack |= self.is_seen;
    }

    /// Handles the end of a recovery; `in_vain` is true if it was spurious.
    pub(super) fn on_recovered(&mut self, in_vain: bool) {
        self.persist = match in_vain {
            true => (self.persist + 1).min(PERSISTENCE),
            false => self.persist.saturating_sub(1),
        };
    }

    /// Handles a timeout with `sacked` segments SACKed: if they reach the reordering degree, it may be too high and is reset (Linux).
    pub(super) fn on_timeout(&mut self, sacked: u32) {
        if sacked >= self.degree {
            self.degree = DUPACK_THRESHOLD;
        }
    }

    /// Requests another loss detection after an undo.
    pub(super) fn on_undone(&mut self) {
        self.has_new_delivery = true;
    }

    /// Returns true, once, if data has arrived since the last loss detection.
    pub(super) fn take_new_delivery(&mut self) -> bool {
        std::mem::take(&mut self.has_new_delivery)
    }

    /// Returns the reordering window, RACK.reo_wnd.
    pub(super) fn window(&self, sacked: u32, is_recovering: bool, min_rtt: Span, srtt: Span) -> Span {
        if !self.is_seen && (is_recovering || sacked >= self.degree) {
            return Span::ZERO;
        }
        Span::from_nanos(min_rtt.as_nanos() / 4 * u64::from(self.steps)).min(srtt)
    }

    /// Returns true if the latest delivered transmission was later than that of a segment with this time and end (RACK_sent_after).
    pub(super) fn is_after(&self, sent: Time, end: u64) -> bool {
        self.latest > Some((sent, end))
    }

    /// Returns the time after its last transmission from which a segment counts as lost if a later transmission has arrived.
    pub(super) fn patience(&self, window: Span) -> Span {
        self.rtt + window
    }
}
