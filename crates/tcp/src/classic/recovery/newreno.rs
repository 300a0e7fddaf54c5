use super::{AckContext, DUPACK_THRESHOLD, DupackAction, FastRetransmitGate, NewAckAction};

/// NewReno (RFC 6582): fast recovery lasts until all data outstanding at its start is acknowledged. Each partial ACK causes the
/// retransmission of the next missing segment and deflates the window by the data that has left the network.
#[derive(Debug)]
pub struct NewReno {
    gate: FastRetransmitGate,
    recovery: Option<Episode>,
    /// Inflation of the window by duplicate ACKs outside of recovery, bytes.
    inflation_outside_recovery: u64,
}

#[derive(Debug)]
struct Episode {
    /// End of the data sent before the episode began.
    recovery_point: u64,
    /// Inflation of the window by duplicate ACKs, bytes.
    inflation: u64,
    /// Deflation of cwnd itself by partial ACKs, bytes. cwnd always remains at least one segment.
    deflation: u64,
    segment: u64,
    had_partial_ack: bool,
}

impl NewReno {
    pub(super) fn new(gate: FastRetransmitGate) -> Self {
        Self { gate, recovery: None, inflation_outside_recovery: 0 }
    }

    pub(super) fn on_duplicate(&mut self, ctx: &AckContext) -> DupackAction {
        if let Some(episode) = &mut self.recovery {
            episode.inflation += ctx.segment;
        } else if self.inflation_outside_recovery > 0 {
            self.inflation_outside_recovery += ctx.segment;
        } else if ctx.dupacks == DUPACK_THRESHOLD {
            let inflation = u64::from(DUPACK_THRESHOLD) * ctx.segment;
            if !self.gate.is_open(ctx) {
                self.inflation_outside_recovery = if ctx.inflate_without_retransmit { inflation } else { 0 };
                return DupackAction::Count;
            }
            self.gate.close(ctx.snd_max);
            let (recovery_point, segment) = (ctx.snd_max, ctx.segment);
            self.recovery =
                Some(Episode { recovery_point, inflation, deflation: 0, segment, had_partial_ack: false });
            return DupackAction::FastRetransmit;
        }
        DupackAction::Count
    }

    #[inline]
    pub(super) fn on_new_ack(&mut self, ctx: &AckContext) -> NewAckAction {
        let Some(episode) = &mut self.recovery else {
            self.inflation_outside_recovery = 0;
            return NewAckAction::Normal;
        };
        if ctx.ack >= episode.recovery_point {
            let deflation = episode.deflation;
            self.recovery = None;
            return NewAckAction::Recovered { deflation, grows_cwnd: true };
        }
        // RFC 6582, step 3: deflate by the acknowledged data, then add back one segment. If the deflation exceeds the inflation, the excess
        // reduces cwnd.
        let acked = ctx.ack - ctx.snd_una;
        if episode.inflation > acked {
            episode.inflation -= acked - ctx.segment.min(acked);
        } else {
            episode.deflation += acked - episode.inflation;
            episode.inflation = ctx.segment;
        }
        let is_first = !std::mem::replace(&mut episode.had_partial_ack, true);
        // Only the first partial ACK restarts the timer ("impatient", RFC 6582, section 4).
        NewAckAction::Partial { retransmit: true, restart_timer: is_first, ends_backoff: false }
    }

    pub(super) fn on_timeout(&mut self, snd_max: u64) {
        self.gate.close(snd_max);
        self.recovery = None;
        self.inflation_outside_recovery = 0;
    }

    pub(super) fn in_recovery(&self) -> bool {
        self.recovery.is_some()
    }

    #[inline]
    pub(super) fn window(&self, cwnd: u64) -> u64 {
        match &self.recovery {
            None => cwnd + self.inflation_outside_recovery,
            Some(episode) => self.deflated(cwnd) + episode.inflation,
        }
    }

    /// Returns the deflation of cwnd due to partial ACKs, bytes.
    pub(super) fn deflation(&self) -> u64 {
        self.recovery.as_ref().map_or(0, |episode| episode.deflation)
    }

    /// Returns cwnd reduced by the deflation due to partial ACKs.
    #[inline]
    pub(super) fn deflated(&self, cwnd: u64) -> u64 {
        match &self.recovery {
            Some(Episode { deflation: 1.., segment, .. }) => {
                cwnd.saturating_sub(self.deflation()).max(*segment)
            }
            _ => cwnd,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::TcpConfig;
    use crate::recovery::RecoveryKind;
    use crate::testing::{Scene, ns2, rfc};

    const NEW_RENO: RecoveryKind = RecoveryKind::NewReno;

    #[test]
    fn a_partial_ack_resends_the_next_missing_segment_and_takes_from_the_window_what_has_left() {
        let mut tcp = Scene::new(rfc(NEW_RENO, 10), 100);
        // 1 and 4 are lost, so there are eight duplicate ACKs.
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).at(100).dup().dup().sends(&[]);
        tcp.dup().sends(&[1]).cwnd(5.0).ssthresh(5.0).window(8);
        tcp.dup().dup().sends(&[]).dup().sends(&[11]).dup().sends(&[12]).dup().sends(&[13]).window(13);
        // RFC 6582, section 3.2, step 3: "retransmit the first unacknowledged segment. Deflate the congestion window by the
        // amount of new data acknowledged by the Cumulative Acknowledgment field. If the partial ACK acknowledges at least
        // one SMSS of new data, then add back SMSS bytes to the congestion window."
        tcp.at(200).ack(3).window(13 - 3 + 1).sends(&[4, 14]);
        tcp.dup().sends(&[15]).dup().sends(&[16]).dup().sends(&[17]).window(14);
        // Step 3: an ACK of all data outstanding at the start of the recovery (up to 10) ends it, "Set cwnd to ... ssthresh".
        tcp.at(300).ack(13).cwnd(5.0).window(5).sends(&[18]);
        assert_eq!((tcp.sender().stats().fast_retransmits, tcp.sender().stats().retransmitted), (1, 2));
    }

    #[test]
    fn what_a_partial_ack_takes_is_counted_from_the_ack_before() {
        let mut tcp = Scene::new(rfc(NEW_RENO, 9), 100);
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8, 9]).at(100).ack(1).sends(&[10, 11]);
        // 2 and 5 are lost, so there are eight duplicate ACKs.
        tcp.dup().dup().dup().sends(&[2]).cwnd(5.0).window(8).dup().dup().sends(&[]);
        tcp.dup().sends(&[12]).dup().sends(&[13]).dup().sends(&[14]).window(13);
        tcp.at(200).ack(4).window(13 - 3 + 1).sends(&[5, 15]);
    }

    #[test]
    fn an_ack_of_all_but_the_last_segment_of_before_is_partial() {
        let mut tcp = Scene::new(rfc(NEW_RENO, 6), 100);
        tcp.sends(&[1, 2, 3, 4, 5, 6]).at(100).dup().dup().dup().sends(&[1]).window(6);
        tcp.dup().sends(&[7]).at(200).dup().sends(&[8]).ack(5).sends(&[6, 9]).window(8 - 5 + 1);
        tcp.at(300).ack(6).cwnd(3.0).window(3).sends(&[]);
    }

    /// Returns a scene with sixteen segments in flight, of which 1 and 6 are lost. A partial ACK arrives after three duplicate ACKs; the
    /// deflation that it causes exceeds the inflation by the duplicate ACKs.
    fn deep_partial_ack(config: TcpConfig) -> Scene {
        let mut tcp = Scene::new(config, 100);
        tcp.take();
        tcp.at(200).dup().dup().dup().sends(&[1]).cwnd(8.0).window(11);
        tcp.at(400).ack(5).sends(&[6]).cwnd(8.0 - (5.0 - 3.0)).window(6 + 1);
        tcp
    }

    #[test]
    fn what_partial_acks_took_is_given_back_at_the_end_of_a_recovery_and_not_so_in_ns_2() {
        // RFC 6582, section 3.2, step 3: "set cwnd to either (1) min (ssthresh, max(FlightSize, SMSS) + SMSS) or (2) ssthresh".
        deep_partial_ack(rfc(NEW_RENO, 16)).at(600).ack(16).cwnd(8.0).take();
        deep_partial_ack(ns2(NEW_RENO, 16)).at(600).ack(16).cwnd(6.0 + 1.0).take();
    }

    #[test]
    fn a_timeout_in_a_recovery_halves_the_flight_and_in_ns_2_what_partial_acks_left_of_the_window() {
        // RFC 5681, equation 4, without the data that recovery sent beyond cwnd: min(11, 8) / 2.
        deep_partial_ack(rfc(NEW_RENO, 16)).at(1400).times_out().sends(&[6]).cwnd(1.0).ssthresh(4.0);
        deep_partial_ack(ns2(NEW_RENO, 16)).at(6400).times_out().sends(&[6]).cwnd(1.0).ssthresh(3.0);
    }

    #[test]
    fn only_the_first_partial_ack_restarts_the_timer() {
        let mut tcp = Scene::new(rfc(NEW_RENO, 10), 10);
        // 1, 4 and 7 are lost, so there are seven duplicate ACKs.
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).at(100);
        (0..7).for_each(|_| _ = tcp.dup());
        tcp.sends(&[1]).timer(1100);
        // RFC 6582, section 3.2, step 3: "For the first partial ACK that arrives during fast recovery, also reset the
        // retransmit timer."
        tcp.at(200).ack(3).sends(&[4]).timer(1200).at(300).ack(6).sends(&[7]).timer(1200);
    }

    #[test]
    fn a_timeout_ends_the_recovery_and_duplicates_of_what_was_out_start_no_other_one() {
        let mut tcp = Scene::new(rfc(NEW_RENO, 8), 12);
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(100).dup().dup().dup().dup().dup().sends(&[1, 9]).window(9);
        // RFC 6582, section 3.2, step 4: "After a retransmit timeout, record the highest sequence number transmitted in the
        // variable recover, and exit the fast recovery procedure if applicable."
        tcp.at(1100).times_out().sends(&[1]).window(1);
        tcp.at(1200).ack(1).sends(&[2, 3]).dup().dup().dup().dup().sends(&[]).window(2);
        // Step 1: "the TCP sender first checks the value of recover to see if the Cumulative Acknowledgment field covers
        // more than recover". 9 is recover.
        tcp.at(1300).ack(9).sends(&[10, 11]).dup().dup().dup().sends(&[]);
        tcp.at(1400).ack(10).sends(&[12]).dup().dup().dup().sends(&[11]);
    }

    #[test]
    fn while_there_are_duplicates_ns_2_sends_two_segments_per_ack_at_most() {
        let config = TcpConfig { earliest_fast_retransmit: 2, ..ns2(NEW_RENO, 8) };
        let mut tcp = Scene::new(config.clone(), 100);
        // The third duplicate ACK may not trigger a retransmission but inflates the window by three segments: ns-2 calls send_much(0, 0,
        // 2).
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(200).dup().dup().sends(&[]);
        tcp.dup().window(11).sends(&[9, 10]).dup().window(12).sends(&[11, 12]).dup().sends(&[13]);
        // The next new ACK removes the inflation.
        tcp.at(400).ack(1).window(9).sends(&[]);

        let mut tcp = Scene::new(TcpConfig { inflate_without_retransmit: false, ..config }, 100);
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(200).dup().dup().dup().dup().window(8).sends(&[]);
    }
}
