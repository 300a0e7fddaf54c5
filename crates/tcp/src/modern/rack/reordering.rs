use super::flight::Arrived;
use crate::recovery::DUPACK_THRESHOLD;
use catnip_base::{Span, Time};

/// RACK state of the path (RFC 8985, section 6): the latest transmission known to have arrived, and the amount of reordering that does not
/// count as a loss.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq.
    latest: Option<(Time, u64)>,
    /// RACK.rtt.
    rtt: Span,
    /// True if data has arrived since the last loss detection.
    has_new_delivery: bool,
    /// Reordering degree (tp->reordering): the largest distance, in segments, between data that arrived late and the highest data that had
    /// arrived before. It is three if no reordering was seen.
    degree: u32,
    /// RACK.reordering_seen.
    is_seen: bool,
    /// RACK.reo_wnd_mult.
    steps: u32,
    /// True if a duplicate was reported after the window was last widened.
    dsack: bool,
    /// End of the data sent when the window was last widened. Duplicates do not widen the window again until this data is acknowledged.
    widened_to: u64,
    /// Number of recoveries for which the wider window persists, RACK.reo_wnd_persist.
    persist: u32,
}

/// Number of recoveries without a duplicate after which the window returns to its initial size.
const PERSISTENCE: u32 = 16;
/// Maximum reordering degree, Linux's tcp_max_reordering.
const MAX_DEGREE: u32 = 300;
/// Maximum number of steps. Linux stores the number in a byte.
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
    /// Handles the arrival of a segment (RACK_update). If the segment was retransmitted less than the minimum RTT ago, an earlier
    /// transmission has arrived, and RACK ignores it.
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

    /// Records reordering: data that was not retransmitted has arrived after data that lies `segments` segments above it.
    pub(super) fn on_late_arrival(&mut self, segments: u32) {
        self.is_seen = true;
        self.degree = self.degree.max(segments).min(MAX_DEGREE);
    }

    /// Adapts the reordering window (RACK_update_reo_wnd). All data before `snd_una` is acknowledged, and `next` is the end of the data
    /// sent.
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

    /// Records a reported duplicate (DSACK). The duplicate is ignored if no reordering was seen.
    pub(super) fn on_duplicate(&mut self) {
        self.dsack |= self.is_seen;
    }

    /// Handles the end of a recovery. `in_vain` is true if the recovery was spurious.
    pub(super) fn on_recovered(&mut self, in_vain: bool) {
        self.persist = match in_vain {
            true => (self.persist + 1).min(PERSISTENCE),
            false => self.persist.saturating_sub(1),
        };
    }

    /// Handles a timeout with `sacked` segments SACKed. If this number reaches the reordering degree, the degree may be too high and is
    /// reset (Linux).
    pub(super) fn on_timeout(&mut self, sacked: u32) {
        if sacked >= self.degree {
            self.degree = DUPACK_THRESHOLD;
        }
    }

    /// Causes another loss detection after an undo.
    pub(super) fn on_undone(&mut self) {
        self.has_new_delivery = true;
    }

    /// Returns true if data has arrived since the last call.
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

    /// Returns true if the latest delivered transmission was later than that of a segment with transmission time `sent` and end `end`
    /// (RACK_sent_after).
    pub(super) fn is_after(&self, sent: Time, end: u64) -> bool {
        self.latest > Some((sent, end))
    }

    /// Returns the time from the last transmission of a segment until the segment counts as lost if a later transmission has arrived.
    pub(super) fn patience(&self, window: Span) -> Span {
        self.rtt + window
    }
}
