use super::flight::DeliveredSegment;
use crate::recovery::DUPACK_THRESHOLD;
use catnip_base::{Span, Time};

/// RACK state of the path (RFC 8985, section 6): the latest transmission known to have arrived, and the amount of reordering that does not
/// count as a loss.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq.
    newest_delivered: Option<(Time, u64)>,
    /// RACK.rtt.
    rtt: Span,
    /// True if data has arrived since the last loss detection.
    advanced: bool,
    /// Reordering degree (tp->reordering): the largest distance, in segments, between data that arrived late and the highest data that had
    /// arrived before. It is three if no reordering was seen.
    reordering: u32,
    /// RACK.reordering_seen.
    reordering_seen: bool,
    /// RACK.reo_wnd_mult.
    reo_wnd_mult: u32,
    /// True if a duplicate was reported after the window was last widened.
    dsack_seen: bool,
    /// SND.NXT when the reordering window was last widened (RACK.dsack_round). Until it is acknowledged, DSACKs do not widen the window.
    dsack_round: u64,
    /// Number of recoveries for which the wider window persists, RACK.reo_wnd_persist.
    reo_wnd_persist: u32,
}

/// Number of recoveries without a duplicate after which the window returns to its initial size.
const REO_WND_PERSIST: u32 = 16;
/// Maximum reordering degree, Linux's tcp_max_reordering.
const MAX_REORDERING: u32 = 300;
/// Maximum number of steps. Linux stores the number in a byte.
const MAX_REO_WND_MULT: u32 = 255;

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest_delivered: None,
            rtt: Span::ZERO,
            advanced: false,
            reordering: DUPACK_THRESHOLD,
            reordering_seen: false,
            reo_wnd_mult: 1,
            dsack_seen: false,
            dsack_round: 0,
            reo_wnd_persist: 0,
        }
    }
}

impl Rack {
    /// Handles the arrival of a segment (RACK_update). If the segment was retransmitted less than the minimum RTT ago, an earlier
    /// transmission has arrived, and RACK ignores it.
    pub(super) fn on_delivered(&mut self, now: Time, delivered: &DeliveredSegment, min_rtt: Option<Span>) {
        let record = &delivered.record;
        let rtt = now - record.xmit_ts;
        if record.ever_retrans && min_rtt.is_some_and(|min_rtt| rtt < min_rtt) {
            return;
        }
        self.advanced = true;
        self.rtt = rtt;
        self.newest_delivered = self.newest_delivered.max(Some((record.xmit_ts, record.end_seq)));
    }

    /// Records reordering: data that was not retransmitted has arrived after data that lies `segments` segments above it.
    pub(super) fn on_reordering(&mut self, segments: u32) {
        self.reordering_seen = true;
        self.reordering = self.reordering.max(segments).min(MAX_REORDERING);
    }

    /// Adapts the reordering window (RACK_update_reo_wnd). All data before `snd_una` is acknowledged, and `snd_nxt` is the end of the data
    /// sent.
    pub(super) fn update_reo_wnd(&mut self, snd_una: u64, snd_nxt: u64) {
        if snd_una < self.dsack_round {
            self.dsack_seen = false;
        }
        if std::mem::take(&mut self.dsack_seen) {
            self.reo_wnd_mult = (self.reo_wnd_mult + 1).min(MAX_REO_WND_MULT);
            self.dsack_round = snd_nxt;
            self.reo_wnd_persist = REO_WND_PERSIST;
        } else if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }

    /// Records a reported duplicate (DSACK). The duplicate is ignored if no reordering was seen.
    pub(super) fn on_dsack(&mut self) {
        self.dsack_seen |= self.reordering_seen;
    }

    /// Handles the end of a recovery. `is_spurious` is true if the recovery was spurious.
    pub(super) fn on_recovered(&mut self, is_spurious: bool) {
        self.reo_wnd_persist = match is_spurious {
            true => (self.reo_wnd_persist + 1).min(REO_WND_PERSIST),
            false => self.reo_wnd_persist.saturating_sub(1),
        };
    }

    /// Handles a timeout with `sacked_out` segments SACKed. If this number reaches the reordering degree, the degree may be too high and is
    /// reset (Linux).
    pub(super) fn on_timeout(&mut self, sacked_out: u32) {
        if sacked_out >= self.reordering {
            self.reordering = DUPACK_THRESHOLD;
        }
    }

    /// Returns true if the reordering degree exceeds its initial value.
    pub(super) fn is_reordering_high(&self) -> bool {
        self.reordering > DUPACK_THRESHOLD
    }

    /// Causes another loss detection after an undo.
    pub(super) fn on_undo(&mut self) {
        self.advanced = true;
    }

    /// Returns true if data has arrived since the last call.
    pub(super) fn take_advanced(&mut self) -> bool {
        std::mem::take(&mut self.advanced)
    }

    /// Returns the reordering window, RACK.reo_wnd.
    pub(super) fn reo_wnd(&self, sacked_out: u32, in_recovery: bool, min_rtt: Span, srtt: Span) -> Span {
        if !self.reordering_seen && (in_recovery || sacked_out >= self.reordering) {
            return Span::ZERO;
        }
        Span::from_nanos(min_rtt.as_nanos() / 4 * u64::from(self.reo_wnd_mult)).min(srtt)
    }

    /// Returns true if the latest delivered transmission was later than that of a segment with transmission time `xmit_ts` and end
    /// `end_seq` (RACK_sent_after).
    pub(super) fn sent_after(&self, xmit_ts: Time, end_seq: u64) -> bool {
        self.newest_delivered > Some((xmit_ts, end_seq))
    }

    /// Returns the time from the last transmission of a segment until the segment counts as lost if a later transmission has arrived.
    pub(super) fn rtt_plus_reo_wnd(&self, reo_wnd: Span) -> Span {
        self.rtt + reo_wnd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN_RTT: Span = Span::from_millis(100);

    /// Returns the reordering window of an open connection with an SRTT of `srtt_ms`, ms.
    fn window_ms(rack: &Rack, srtt_ms: u64) -> u64 {
        rack.reo_wnd(0, false, MIN_RTT, Span::from_millis(srtt_ms)).in_units_of(Span::from_millis(1))
    }

    /// Reports a duplicate with an ACK of all data before `snd_una`, when all data before `snd_nxt` is sent.
    fn duplicate(rack: &mut Rack, snd_una: u64, snd_nxt: u64) {
        rack.on_dsack();
        rack.update_reo_wnd(snd_una, snd_nxt);
    }

    /// Returns the state after reordering and a duplicate, with an SRTT that does not bound the window.
    fn widened() -> Rack {
        let mut rack = Rack::default();
        rack.on_reordering(4);
        duplicate(&mut rack, 10, 20);
        assert_eq!(window_ms(&rack, 1000), 50);
        rack
    }

    /// Ends a recovery, and handles the next ACK.
    fn recovers(rack: &mut Rack, is_spurious: bool) {
        rack.on_recovered(is_spurious);
        rack.update_reo_wnd(100, 200);
    }

    #[test]
    fn a_wider_window_persists_for_sixteen_recoveries_without_a_duplicate() {
        // RFC 8985, section 6.2, step 4: "RACK.reo_wnd_persist = 16", and at the end of each recovery "RACK.reo_wnd_persist -= 1; If
        // RACK.reo_wnd_persist <= 0: RACK.reo_wnd_mult = 1".
        let mut rack = widened();
        for recovery in 1..=15 {
            recovers(&mut rack, false);
            assert_eq!(window_ms(&rack, 1000), 50, "after {recovery} recoveries");
        }
        recovers(&mut rack, false);
        assert_eq!(window_ms(&rack, 1000), 25);
    }

    #[test]
    fn a_recovery_without_need_prolongs_a_wider_window_by_one_but_not_beyond_sixteen() {
        // tcp_try_undo_dsack: "tp->rack.reo_wnd_persist = min(TCP_RACK_RECOVERY_THRESH, tp->rack.reo_wnd_persist + 1)".
        let mut rack = widened();
        (0..15).for_each(|_| recovers(&mut rack, false));
        recovers(&mut rack, true);
        recovers(&mut rack, false);
        assert_eq!(window_ms(&rack, 1000), 50, "one of two is left");
        recovers(&mut rack, false);
        assert_eq!(window_ms(&rack, 1000), 25);
        let mut rack = widened();
        (0..5).for_each(|_| recovers(&mut rack, true));
        (0..16).for_each(|_| recovers(&mut rack, false));
        assert_eq!(window_ms(&rack, 1000), 25);
    }

    #[test]
    fn duplicates_widen_the_window_only_where_reordering_was_seen() {
        // tcp_dsack_seen sets dsack_seen only "if (tp->reord_seen ...)": without reordering, a duplicate tells of a lost ACK.
        let mut rack = Rack::default();
        duplicate(&mut rack, 10, 20);
        assert_eq!(window_ms(&rack, 1000), 25);
        rack.on_reordering(4);
        rack.update_reo_wnd(20, 30);
        assert_eq!(window_ms(&rack, 1000), 25, "the earlier duplicate does not count later");
        duplicate(&mut rack, 30, 40);
        assert_eq!(window_ms(&rack, 1000), 50);
    }

    #[test]
    fn duplicates_widen_the_window_by_a_quarter_once_per_round_trip_up_to_srtt() {
        // RFC 8985, section 6.2, step 4: the window grows if "RACK.dsack_round is None", which it is once "SND.UNA >= RACK.dsack_round".
        let mut rack = widened();
        (10..20).for_each(|snd_una| duplicate(&mut rack, snd_una, 30));
        assert_eq!(
            window_ms(&rack, 1000),
            50,
            "not all data that was sent when the window grew is acknowledged"
        );
        duplicate(&mut rack, 20, 30);
        assert_eq!(window_ms(&rack, 1000), 75);
        // "Return min(RACK.reo_wnd_mult * RACK.min_RTT / 4, SRTT)".
        (3..20).for_each(|round| duplicate(&mut rack, 10 * round, 10 * (round + 1)));
        assert_eq!([window_ms(&rack, 1000), window_ms(&rack, 110)], [500, 110]);
    }

    #[test]
    fn without_reordering_there_is_no_window_in_a_recovery_or_from_three_reports_on() {
        // RFC 8985, section 6.2, step 4: "If RACK.reordering_seen is FALSE: If in Fast Recovery or RTO recovery: Return 0; If
        // RACK.segs_sacked >= DupThresh: Return 0".
        let mut rack = Rack::default();
        let windows = |rack: &Rack| {
            [(2, false), (3, false), (0, true)]
                .map(|(sacked_out, in_recovery)| rack.reo_wnd(sacked_out, in_recovery, MIN_RTT, MIN_RTT))
        };
        let quarter = Span::from_millis(25);
        assert_eq!(windows(&rack), [quarter, Span::ZERO, Span::ZERO]);
        rack.on_reordering(0);
        assert_eq!(windows(&rack), [quarter; 3]);
    }
}
