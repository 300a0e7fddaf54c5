use super::{AckContext, DUPACK_THRESHOLD, DupackAction, FastRetransmitGate, NewAckAction};

/// 4.3BSD Reno (1990; RFC 5681, section 3.2): each duplicate ACK inflates the window during fast recovery, which ends with the first new
/// ACK even if more segments are missing.
#[derive(Debug)]
pub struct Reno {
    gate: FastRetransmitGate,
    in_recovery: bool,
    /// Inflation of the window by duplicate ACKs, bytes.
    inflation: u64,
}

impl Reno {
    pub(super) fn new(gate: FastRetransmitGate) -> Self {
        Self { gate, in_recovery: false, inflation: 0 }
    }

    pub(super) fn on_duplicate(&mut self, ctx: &AckContext) -> DupackAction {
        // RFC 5681, section 3.2, step 4: "For each additional duplicate ACK received (after the third), cwnd MUST be
        // incremented by SMSS."
        if self.inflation > 0 {
            self.inflation += ctx.segment;
            return DupackAction::Count;
        }
        let is_gate_open = self.gate.is_open(ctx);
        if ctx.dupacks != DUPACK_THRESHOLD || !(is_gate_open || ctx.inflate_without_retransmit) {
            return DupackAction::Count;
        }
        // Step 3: "cwnd set to ssthresh plus 3*SMSS".
        self.inflation = u64::from(DUPACK_THRESHOLD) * ctx.segment;
        if !is_gate_open {
            return DupackAction::Count;
        }
        self.in_recovery = true;
        self.gate.close(ctx.snd_max);
        DupackAction::FastRetransmit
    }

    #[inline]
    pub(super) fn on_new_ack(&mut self) -> NewAckAction {
        // Step 6: "When the next ACK arrives that acknowledges previously unacknowledged data, a TCP MUST set cwnd to
        // ssthresh".
        self.inflation = 0;
        match std::mem::take(&mut self.in_recovery) {
            true => NewAckAction::Recovered { deflation: 0, grows_cwnd: true },
            false => NewAckAction::Normal,
        }
    }

    pub(super) fn on_timeout(&mut self, snd_max: u64) {
        self.gate.close(snd_max);
        self.in_recovery = false;
        self.inflation = 0;
    }

    pub(super) fn in_recovery(&self) -> bool {
        self.in_recovery
    }

    pub(super) fn inflation(&self) -> u64 {
        self.inflation
    }
}

#[cfg(test)]
mod tests {
    use crate::TcpConfig;
    use crate::recovery::RecoveryKind;
    use crate::testing::{Scene, ns2, rfc};

    const RENO: RecoveryKind = RecoveryKind::Reno;

    #[test]
    fn duplicates_inflate_half_of_the_window_and_the_first_new_ack_takes_that_back() {
        let mut tcp = Scene::new(rfc(RENO, 8), 100);
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(100).dup().dup().sends(&[]).window(8);
        // RFC 5681, section 3.2, step 3: "The lost segment starting at SND.UNA MUST be retransmitted and cwnd set to ssthresh plus 3*SMSS."
        // The timer restarts.
        tcp.dup().sends(&[1]).ssthresh(4.0).cwnd(4.0).window(4 + 3).timer(100 + 1000);
        // Step 4: "For each additional duplicate ACK received (after the third), cwnd MUST be incremented by SMSS." Step 5: new data is
        // sent as the window permits.
        tcp.dup().sends(&[]).window(8).dup().sends(&[9]).dup().sends(&[10]).dup().sends(&[11]).window(11);
        // Step 6: "When the next ACK arrives that acknowledges previously unacknowledged data, a TCP MUST set cwnd to
        // ssthresh (the value set in step 2)."
        tcp.at(200).ack(8).sends(&[12]).cwnd(4.0).window(4);
        assert_eq!(tcp.sender().stats().fast_retransmits, 1);
    }

    #[test]
    fn a_partial_ack_ends_the_recovery_and_a_second_loss_waits_for_the_timer() {
        let mut tcp = Scene::new(rfc(RENO, 8), 100);
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(100).dup().dup().dup().sends(&[1]);
        tcp.dup().dup().dup().sends(&[9, 10]);
        // Fall and Floyd 1996, section 3: Reno leaves fast recovery after a partial ACK. Segment 3 is missing, too, but it was already
        // outstanding at the start of this episode.
        tcp.at(200).ack(2).sends(&[]).window(4).dup().dup().dup().dup().sends(&[]).cwnd(4.0);
        tcp.at(1200).times_out().sends(&[3]).cwnd(1.0);
    }

    #[test]
    fn ns_2_opens_the_window_also_by_the_ack_that_ends_the_recovery() {
        let mut tcp = Scene::new(ns2(RENO, 8), 100);
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(200).dup().dup().dup().sends(&[1]).cwnd(4.0);
        tcp.at(400).ack(8).sends(&[9, 10, 11, 12]).cwnd(4.25);
    }

    #[test]
    fn ns_2_of_2002_inflates_the_window_also_where_it_may_not_retransmit() {
        // ns-2 permits a fast retransmit from the third segment on. For earlier segments, duplicate ACKs only inflate the window
        // (exitFastRetrans_ off).
        let mut tcp = Scene::new(TcpConfig { earliest_fast_retransmit: 2, ..ns2(RENO, 8) }, 100);
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(200).dup().dup().sends(&[]);
        tcp.dup().sends(&[9, 10, 11]).cwnd(8.0).dup().sends(&[12]).window(12);
        // The next new ACK ends the inflation, so the window is cwnd.
        tcp.at(400).ack(1).sends(&[]).window(9).ack(7).sends(&[13, 14, 15, 16, 17]).window(10);

        let config =
            TcpConfig { earliest_fast_retransmit: 2, inflate_without_retransmit: false, ..ns2(RENO, 8) };
        let mut tcp = Scene::new(config, 100);
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(200).dup().dup().dup().dup().sends(&[]).window(8);
    }

    #[test]
    fn the_earliest_fast_retransmit_is_that_of_the_third_segment_or_of_the_second_one_if_it_always_may() {
        let config =
            TcpConfig { earliest_fast_retransmit: 2, inflate_without_retransmit: false, ..ns2(RENO, 6) };
        let third_duplicate = |config: TcpConfig, acked: u64, sent: &[u64], resent: &[u64]| {
            let mut tcp = Scene::new(config, 9);
            tcp.sends(&[1, 2, 3, 4, 5, 6]).at(200);
            tcp.ack(acked).sends(sent).dup().dup().dup().sends(resent);
        };
        third_duplicate(config.clone(), 1, &[7, 8], &[]);
        third_duplicate(config.clone(), 2, &[7, 8, 9], &[3]);
        // ns-2 2.35: bugFix_ss_.
        third_duplicate(TcpConfig { second_always_fast: true, ..config }, 1, &[7, 8], &[2]);
    }

    #[test]
    fn after_a_timeout_duplicates_of_what_was_out_start_no_recovery() {
        let mut tcp = Scene::new(rfc(RENO, 8), 11);
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(100).dup().dup().dup().sends(&[1]).window(7);
        tcp.at(1100).times_out().sends(&[1]).cwnd(1.0).window(1);
        tcp.at(1200).ack(1).sends(&[2, 3]).dup().dup().dup().dup().sends(&[]).window(2);
        // RFC 6582, section 3.2, step 2, requires an ACK beyond the data that was outstanding: 8 is not beyond it, 9 is.
        tcp.at(1300).ack(8).sends(&[9, 10]).cwnd(2.5).dup().dup().dup().sends(&[]);
        tcp.at(1400).ack(9).sends(&[11]).dup().dup().dup().sends(&[10]);
    }
}
