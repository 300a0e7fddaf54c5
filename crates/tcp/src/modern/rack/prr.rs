/// Proportional rate reduction (RFC 6937), in segments. While more than ssthresh segments are in the network, transmissions are
/// proportional to deliveries. Otherwise the window grows at most as in slow start, and at most by the number of delivered segments if an
/// ACK is not safe (RFC 9937's SafeACK).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prr {
    ssthresh: u32,
    /// Window before the reduction (RecoverFS).
    before: u32,
    /// Segments delivered since the start of the reduction (prr_delivered).
    delivered: u32,
    /// Segments sent since the start of the reduction (prr_out).
    out: u32,
    /// Current window.
    pub(super) cwnd: u32,
}

impl Prr {
    /// Starts a reduction of the window from `before` to `ssthresh`.
    pub(super) fn new(before: u32, ssthresh: u32) -> Self {
        Self { ssthresh, before: before.max(1), delivered: 0, out: 0, cwnd: before }
    }

    /// Handles an ACK that reports `arrived` newly delivered segments, after which `in_network` segments are in the network. `is_safe` is
    /// true if the ACK advances SND.UNA and no further loss was detected.
    pub(super) fn on_ack(&mut self, arrived: u32, in_network: u32, is_safe: bool) {
        if arrived == 0 {
            return;
        }
        self.delivered += arrived;
        let may_send = if in_network > self.ssthresh {
            let share = u64::from(self.delivered) * u64::from(self.ssthresh);
            (share.div_ceil(self.before.into()) as u32).saturating_sub(self.out)
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(arrived) + u32::from(is_safe);
            limit.min(self.ssthresh - in_network)
        };
        // RFC 9937: "Force a fast retransmit upon entering recovery".
        let may_send = may_send.max(u32::from(self.out == 0));
        self.cwnd = in_network + may_send;
    }

    /// Records a transmission.
    pub(super) fn on_sent(&mut self) {
        self.out += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Algorithm as printed in RFC 6937, section 3.1, with the slow start reduction bound and segments of one byte.
    struct Printed {
        recover_fs: i64,
        ssthresh: i64,
        prr_delivered: i64,
        prr_out: i64,
    }

    impl Printed {
        fn sndcnt(&mut self, delivered_data: i64, pipe: i64) -> i64 {
            self.prr_delivered += delivered_data;
            if pipe > self.ssthresh {
                // "sndcnt = CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out".
                (self.prr_delivered * self.ssthresh + self.recover_fs - 1) / self.recover_fs - self.prr_out
            } else {
                // "limit = MAX(prr_delivered - prr_out, DeliveredData) + MSS"; "sndcnt = MIN(ssthresh - pipe, limit)".
                let limit = (self.prr_delivered - self.prr_out).max(delivered_data) + 1;
                (self.ssthresh - pipe).min(limit)
            }
        }
    }

    proptest! {
        #[test]
        fn it_lets_leave_what_the_rfc_prints_but_for_the_first_segment_that_always_may(
            before in 2u32..200,
            share in 2u32..10,
            acks in prop::collection::vec((1u32..4, 0u32..220), 1..60),
        ) {
            let ssthresh = (before * share / 10).max(2);
            let mut prr = Prr::new(before, ssthresh);
            let mut printed = Printed {
                recover_fs: before.into(),
                ssthresh: ssthresh.into(),
                prr_delivered: 0,
                prr_out: 0,
            };
            for (arrived, in_network) in acks {
                let expected = printed.sndcnt(arrived.into(), in_network.into()).max(i64::from(printed.prr_out == 0)).max(0);
                prr.on_ack(arrived, in_network, true);
                prop_assert_eq!(i64::from(prr.cwnd - in_network), expected);
                for _ in 0..expected {
                    prr.on_sent();
                    printed.prr_out += 1;
                }
            }
        }

        #[test]
        fn what_is_sent_never_exceeds_what_arrived_by_more_than_one_for_each_safe_ack_below_ssthresh(
            arrivals in prop::collection::vec(1u32..4, 1..60),
        ) {
            // All other segments are lost, so that the network contains only the segments sent during the reduction.
            let mut prr = Prr::new(100, 50);
            let (mut in_network, mut sent, mut arrived_all) = (0u32, 0u32, 0u32);
            for arrived in arrivals {
                in_network = in_network.saturating_sub(arrived);
                prr.on_ack(arrived, in_network, false);
                arrived_all += arrived;
                while in_network < prr.cwnd {
                    prr.on_sent();
                    in_network += 1;
                    sent += 1;
                }
                prop_assert!(sent <= arrived_all.max(1), "{sent} for {arrived_all}");
                prop_assert!(in_network <= 50.max(arrived_all));
            }
        }
    }

    #[test]
    fn a_window_of_20_with_one_loss_sends_seven_for_ten_and_ends_at_its_threshold() {
        // RFC 6937, section 4, similar to figure 1: RecoverFS is 20, ssthresh is 14, and each of 19 ACKs reports one more segment.
        let mut prr = Prr::new(20, 14);
        let (mut in_network, mut sent) = (19, 0);
        for _ in 0..19 {
            in_network -= 1;
            prr.on_ack(1, in_network, false);
            while in_network < prr.cwnd {
                prr.on_sent();
                (in_network, sent) = (in_network + 1, sent + 1);
            }
        }
        assert_eq!((sent, in_network), (14, 14));
    }
}
