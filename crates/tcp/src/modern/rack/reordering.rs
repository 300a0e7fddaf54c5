use super::flight::Arrived;
use crate::recovery::DUPACK_THRESHOLD;
use catnip_base::{Span, Time};

/// What RACK knows of the path (RFC 8985, section 6): the latest transmission that is known to have arrived, and how far out of order
/// segments may arrive without being lost.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq.
    latest: Option<(Time, u64)>,
    /// RACK.rtt.
    rtt: Span,
    /// Something has arrived since losses were looked for.
    has_news: bool,
    /// Segments that arrived above a hole that was then filled without a retransmission; three where none was seen.
    degree: u32,
    /// RACK.reordering_seen.
    is_seen: bool,
    /// RACK.reo_wnd_mult.
    steps: u32,
    /// A duplicate was reported, and the window has not been widened for it.
    dsack: bool,
    /// What was sent before this was sent with the window as it is.
    widened_to: u64,
    /// RACK.reo_wnd_persist: recoveries that a wider window outlives.
    persist: u32,
}

/// Recoveries without a duplicate after which the window is what it was.
const PERSISTENCE: u32 = 16;
/// Linux's bounds: tcp_max_reordering, and a byte for the steps.
const MAX_DEGREE: u32 = 300;
const MAX_STEPS: u32 = 255;

impl Default for Rack {
    fn default() -> Self {
        Self {
            latest: None,
            rtt: Span::ZERO,
            has_news: false,
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
    /// RACK_update, for each segment that arrives. Of one that was sent again less than the least round trip ago, an earlier transmission
    /// has arrived.
    pub(super) fn on_arrival(&mut self, now: Time, arrived: &Arrived, min_rtt: Option<Span>) {
        let record = &arrived.record;
        let rtt = now - record.sent;
        if record.was_resent && min_rtt.is_some_and(|least| rtt < least) {
            return;
        }
        self.has_news = true;
        self.rtt = rtt;
        self.latest = self.latest.max(Some((record.sent, record.end)));
    }

    /// Non-retransmitted data below what has arrived arrives, so many segments late: it was not lost, only late.
    pub(super) fn on_late_arrival(&mut self, segments: u32) {
        self.is_seen = true;
        self.degree = self.degree.max(segments).min(MAX_DEGREE);
    }

    /// RACK_update_reo_wnd. `una` is acknowledged, `next` is the end of all that was sent.
    pub(super) fn adapt(&mut self, una: u64, next: u64) {
        if una < self.widened_to {
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

    /// A duplicate was reported. Without reordering it says nothing of it.
    pub(super) fn on_duplicate(&mut self) {
        self.dsack |= self.is_seen;
    }

    /// A recovery has ended: had it begun in vain?
    pub(super) fn on_recovered(&mut self, in_vain: bool) {
        self.persist = match in_vain {
            true => (self.persist + 1).min(PERSISTENCE),
            false => self.persist.saturating_sub(1),
        };
    }

    /// The timer has expired although so many were reported: the degree may be too high (Linux).
    pub(super) fn on_timeout(&mut self, sacked: u32) {
        if sacked >= self.degree {
            self.degree = DUPACK_THRESHOLD;
        }
    }

    /// Losses were undone: they are to be looked for again.
    pub(super) fn on_undone(&mut self) {
        self.has_news = true;
    }

    /// Is there anything new to look for losses with? Asked once.
    pub(super) fn takes_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// RACK.reo_wnd.
    pub(super) fn window(&self, sacked: u32, is_recovering: bool, min_rtt: Span, srtt: Span) -> Span {
        if !self.is_seen && (is_recovering || sacked >= self.degree) {
            return Span::ZERO;
        }
        Span::from_nanos(min_rtt.as_nanos() / 4 * u64::from(self.steps)).min(srtt)
    }

    /// RACK_sent_after: did the latest that has arrived leave after a segment that was sent then and ends there?
    pub(super) fn is_after(&self, sent: Time, end: u64) -> bool {
        self.latest > Some((sent, end))
    }

    /// How long after its last transmission a segment is lost, if another that was sent later has arrived.
    pub(super) fn patience(&self, window: Span) -> Span {
        self.rtt + window
    }
}
