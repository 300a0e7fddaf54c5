use super::{AckContext, DUPACK_THRESHOLD, DupackAction, FastRetransmitGate};

/// 4.3BSD Tahoe (1988): the third duplicate ACK starts slow start from the lost segment with a cwnd of one segment.
#[derive(Debug)]
pub struct Tahoe {
    gate: FastRetransmitGate,
}

impl Tahoe {
    pub(super) fn new(gate: FastRetransmitGate) -> Self {
        Self { gate }
    }

    pub(super) fn on_duplicate(&mut self, ctx: &AckContext) -> DupackAction {
        if ctx.dupacks != DUPACK_THRESHOLD || !self.gate.is_open(ctx) {
            return DupackAction::Count;
        }
        self.gate.close(ctx.snd_max);
        DupackAction::SlowStart
    }

    pub(super) fn on_timeout(&mut self, snd_max: u64) {
        self.gate.close(snd_max);
    }
}

#[cfg(test)]
mod tests {
    use crate::TcpConfig;
    use crate::recovery::RecoveryKind::Tahoe;
    use crate::testing::{Scene, ns2};

    #[test]
    fn the_third_duplicate_starts_over_with_a_window_of_one() {
        let mut tcp = Scene::new(ns2(Tahoe, 8), 100);
        // Fall and Floyd 1996, section 3: Tahoe retransmits "without waiting for a retransmission timer to expire" and goes through slow
        // start. The threshold is three duplicate ACKs (catp23).
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(200).dup().dup().sends(&[]).cwnd(8.0);
        tcp.dup().sends(&[1]).cwnd(1.0).ssthresh(4.0).timer(200 + 6000);
        tcp.dup().dup().sends(&[]).cwnd(1.0).window(1);
        // Only segment 1 was lost, so the ACK of all segments ends the recovery.
        tcp.at(400).ack(8).sends(&[9, 10]).cwnd(2.0);
        assert_eq!((tcp.sender().stats().fast_retransmits, tcp.sender().stats().timeouts), (1, 0));
    }

    #[test]
    fn what_came_after_the_lost_segment_goes_out_again_until_it_turns_out_to_have_arrived() {
        let mut tcp = Scene::new(ns2(Tahoe, 8), 100);
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(200).dup().dup().dup().sends(&[1]);
        tcp.at(400).ack(3).sends(&[4, 5]).at(600).ack(8).sends(&[9, 10, 11]);
    }

    #[test]
    fn duplicates_for_data_of_before_a_fast_retransmit_start_no_other_one() {
        let mut tcp = Scene::new(ns2(Tahoe, 8), 100);
        tcp.sends(&[1, 2, 3, 4, 5, 6, 7, 8]).at(200).dup().dup().dup().sends(&[1]);
        // ns-2's bugFix_: 4 was outstanding at the last fast retransmit.
        tcp.at(400).ack(3).sends(&[4, 5]).dup().dup().dup().sends(&[]).cwnd(2.0);
        tcp.at(600).ack(8).sends(&[9, 10, 11]).at(800).ack(9).sends(&[12, 13]);
        tcp.dup().dup().dup().sends(&[10]).cwnd(1.0).ssthresh(2.0);
    }

    #[test]
    fn duplicates_for_data_of_before_a_timeout_start_no_fast_retransmit() {
        let mut tcp = Scene::new(ns2(Tahoe, 4), 100);
        tcp.sends(&[1, 2, 3, 4]).at(6000).times_out().sends(&[1]);
        tcp.at(6200).ack(1).sends(&[2, 3]).dup().dup().dup().sends(&[]).cwnd(2.0);
    }

    #[test]
    fn over_a_timeout_ns_2_s_tahoe_goes_on_counting_duplicates_and_another_one_begins_anew() {
        let late_duplicate = |tahoe_keeps_dupacks| {
            let config = TcpConfig { limited_transmit: true, tahoe_keeps_dupacks, ..ns2(Tahoe, 4) };
            let mut tcp = Scene::new(config, 100);
            tcp.sends(&[1, 2, 3, 4]).at(200).dup().dup().sends(&[5, 6]).at(6000).times_out().sends(&[1]);
            tcp.at(6100).dup();
            tcp.take()
        };
        // RFC 5681, section 3.2, step 1: "On the first and second duplicate ACKs received at a sender, a TCP SHOULD send a segment". ns-2
        // counts this duplicate ACK as the third one.
        assert_eq!(late_duplicate(false), [2]);
        assert_eq!(late_duplicate(true), []);
    }
}
