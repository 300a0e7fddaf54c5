/// Proportional rate reduction (RFC 6937), in segments. While more than ssthresh segments are in the network, transmissions are
/// proportional to deliveries. Otherwise the window grows at most as in slow start, and at most by the number of delivered segments if an
/// ACK is not safe (RFC 9937's SafeACK).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prr {
    ssthresh: u32,
    /// Window before the reduction (RecoverFS).
    recover_fs: u32,
    /// Segments delivered since the start of the reduction (prr_delivered).
    prr_delivered: u32,
    /// Segments sent since the start of the reduction (prr_out).
    prr_out: u32,
    /// Current window.
    pub(super) cwnd: u32,
}

impl Prr {
    /// Starts a reduction of the window from `recover_fs` to `ssthresh`.
    pub(super) fn new(recover_fs: u32, ssthresh: u32) -> Self {
        Self { ssthresh, recover_fs: recover_fs.max(1), prr_delivered: 0, prr_out: 0, cwnd: recover_fs }
    }

    /// Handles an ACK that reports `delivered` newly delivered segments, after which `packets_in_flight` segments are in the network.
    /// `is_safe_ack` is true if the ACK advances SND.UNA and no further loss was detected.
    pub(super) fn on_ack(&mut self, delivered: u32, packets_in_flight: u32, is_safe_ack: bool) {
        if delivered == 0 {
            return;
        }
        self.prr_delivered += delivered;
        let sndcnt = if packets_in_flight > self.ssthresh {
            let share = u64::from(self.prr_delivered) * u64::from(self.ssthresh);
            (share.div_ceil(self.recover_fs.into()) as u32).saturating_sub(self.prr_out)
        } else {
            let limit =
                self.prr_delivered.saturating_sub(self.prr_out).max(delivered) + u32::from(is_safe_ack);
            limit.min(self.ssthresh - packets_in_flight)
        };
        // RFC 9937: "Force a fast retransmit upon entering recovery".
        let sndcnt = sndcnt.max(u32::from(self.prr_out == 0));
        self.cwnd = packets_in_flight + sndcnt;
    }

    /// Records a transmission.
    pub(super) fn on_sent(&mut self) {
        self.prr_out += 1;
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
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_lets_leave_what_the_rfc_prints_but_for_the_first_segment_that_always_may(
            recover_fs in 2u32..200,
            share in 2u32..10,
            acks in prop::collection::vec((1u32..4, 0u32..220), 1..60),
        ) {
            let ssthresh = (recover_fs * share / 10).max(2);
            let mut prr = Prr::new(recover_fs, ssthresh);
            let mut printed = Printed {
                recover_fs: recover_fs.into(),
                ssthresh: ssthresh.into(),
                prr_delivered: 0,
                prr_out: 0,
            };
            for (delivered, packets_in_flight) in acks {
                let expected = printed.sndcnt(delivered.into(), packets_in_flight.into()).max(i64::from(printed.prr_out == 0)).max(0);
                prr.on_ack(delivered, packets_in_flight, true);
                prop_assert_eq!(i64::from(prr.cwnd - packets_in_flight), expected);
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
            let (mut packets_in_flight, mut sent, mut delivered_all) = (0u32, 0u32, 0u32);
            for delivered in arrivals {
                packets_in_flight = packets_in_flight.saturating_sub(delivered);
                prr.on_ack(delivered, packets_in_flight, false);
                delivered_all += delivered;
                while packets_in_flight < prr.cwnd {
                    prr.on_sent();
                    packets_in_flight += 1;
                    sent += 1;
                }
                prop_assert!(sent <= delivered_all.max(1), "{sent} for {delivered_all}");
                prop_assert!(packets_in_flight <= 50.max(delivered_all));
            }
        }
    }

    #[test]
    fn a_window_of_20_with_one_loss_sends_seven_for_ten_and_ends_at_its_threshold() {
        // RFC 6937, section 4, similar to figure 1: RecoverFS is 20, ssthresh is 14, and each of 19 ACKs reports one more segment.
        let mut prr = Prr::new(20, 14);
        let (mut packets_in_flight, mut sent) = (19, 0);
        for _ in 0..19 {
            packets_in_flight -= 1;
            prr.on_ack(1, packets_in_flight, false);
            while packets_in_flight < prr.cwnd {
                prr.on_sent();
                (packets_in_flight, sent) = (packets_in_flight + 1, sent + 1);
            }
        }
        assert_eq!((sent, packets_in_flight), (14, 14));
    }
}
