use crate::control::{LossSample, RateSample};
use catnip_base::{Span, Time};
use std::collections::VecDeque;

/// Delivery rate estimator (draft-cheng-iccrg-delivery-rate-estimation-02; Linux's tcp_rate.c). The delivery state is stored for each
/// segment when it is sent. The ACK of the segment then yields the number of segments delivered since, and the time that this took.
#[derive(Debug, Default)]
pub(super) struct DeliveryRate {
    /// Delivery state stored for each segment in flight.
    tx_states: VecDeque<TxState>,
    /// Number of the first segment in `tx_states`.
    first_number: u64,
    /// Number of segments delivered, C.delivered.
    delivered: u64,
    /// Time of the last delivery, C.delivered_time.
    delivered_time: Time,
    /// Transmission time of the most recently delivered segment, C.first_sent_time.
    first_sent_time: Time,
    /// Number of segments found lost.
    lost: u64,
    /// Number of delivered segments up to which samples are application-limited, C.app_limited; `None` without a limit.
    app_limited: Option<u64>,
    /// Stored state of the most recently sent segment among those that this ACK delivers, from which its sample is computed.
    sample_start: Option<SampleStart>,
    /// Loss sample with the highest loss rate since the last call of [`Self::take_loss`].
    worst_loss: Option<LossSample>,
}

/// Delivery state when a segment was sent.
#[derive(Clone, Copy, Debug)]
struct TxState {
    /// Number of segments delivered, P.delivered.
    delivered: u64,
    /// Time of the last delivery, P.delivered_time.
    delivered_time: Time,
    /// Transmission time of the most recently delivered segment, P.first_sent_time.
    first_sent_time: Time,
    /// True if the sample is application-limited, P.is_app_limited.
    is_app_limited: bool,
    /// Number of segments found lost.
    lost: u64,
    /// Number of segments in the network, including this one.
    tx_in_flight: u32,
}

/// Start of a sample: the most recently sent one of the delivered segments.
#[derive(Clone, Copy, Debug)]
struct SampleStart {
    tx_state: TxState,
    /// Last transmission of the segment, and its number.
    sent: (Time, u64),
}

impl DeliveryRate {
    /// Records the first or a later transmission of the segment `number`. `is_only_segment` is true if no other segment is in flight.
    pub(super) fn on_sent(&mut self, now: Time, number: u64, is_only_segment: bool, tx_in_flight: u32) {
        if is_only_segment {
            (self.first_sent_time, self.delivered_time) = (now, now);
        }
        let tx_state = TxState {
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent_time: self.first_sent_time,
            is_app_limited: self.app_limited.is_some(),
            lost: self.lost,
            tx_in_flight,
        };
        match self.tx_states.get_mut((number - self.first_number) as usize) {
            Some(stored) => *stored = tx_state,
            None => self.tx_states.push_back(tx_state),
        }
    }

    /// Records the delivery of the segment `number`, whose last transmission was at `xmit_ts`. The most recently sent segment gives the
    /// sample, whatever the order of the segments is (IsNewestPacket; tcp_skb_sent_after).
    pub(super) fn on_delivered(&mut self, now: Time, number: u64, xmit_ts: Time) {
        self.delivered += 1;
        self.delivered_time = now;
        let tx_state = self.tx_states[(number - self.first_number) as usize];
        let sent = (xmit_ts, number);
        if self.sample_start.is_none_or(|newest| sent > newest.sent) {
            self.first_sent_time = xmit_ts;
            self.sample_start = Some(SampleStart { tx_state, sent });
        }
    }

    /// Records the delivery of `segments` segments that had been delivered before, as a DSACK reports it.
    pub(super) fn on_duplicates(&mut self, now: Time, segments: u32) {
        if segments > 0 {
            self.delivered += u64::from(segments);
            self.delivered_time = now;
        }
    }

    /// Discards the state of the segments below `number`, which are acknowledged.
    pub(super) fn discard_below(&mut self, number: u64) {
        let count = (number - self.first_number).min(self.tx_states.len() as u64);
        self.tx_states.drain(..count as usize);
        self.first_number = number;
    }

    /// Records the loss of the segment `number`.
    pub(super) fn on_lost(&mut self, number: u64) {
        self.lost += 1;
        let tx_state = self.tx_states[(number - self.first_number) as usize];
        let new = LossSample {
            lost: (self.lost - tx_state.lost) as u32,
            tx_in_flight: tx_state.tx_in_flight,
            is_app_limited: tx_state.is_app_limited,
        };
        let is_less = |old: &LossSample| old.lost * new.tx_in_flight <= new.lost * old.tx_in_flight;
        if self.worst_loss.as_ref().is_none_or(is_less) {
            self.worst_loss = Some(new);
        }
    }

    /// Returns the loss sample with the highest loss rate since the last call; `None` without a loss since then.
    pub(super) fn take_loss(&mut self) -> Option<LossSample> {
        self.worst_loss.take()
    }

    /// Starts an application-limited phase, in which the application or the sender itself leaves cwnd unused. The phase ends when the
    /// `packets_in_flight` segments in the network are delivered.
    pub(super) fn mark_app_limited(&mut self, packets_in_flight: u32) {
        self.app_limited = Some((self.delivered + u64::from(packets_in_flight)).max(1));
    }

    /// Returns the rate sample of an ACK; `None` if no segment was delivered. A sample below the minimum RTT `min_rtt` has no interval.
    pub(super) fn sample(&mut self, now: Time, min_rtt: Option<Span>) -> Option<RateSample> {
        self.app_limited = self.app_limited.filter(|&until| self.delivered <= until);
        let SampleStart { tx_state, sent: (xmit_ts, _) } = self.sample_start.take()?;
        let interval = (xmit_ts - tx_state.first_sent_time).max(now - tx_state.delivered_time);
        Some(RateSample {
            delivered: (self.delivered - tx_state.delivered) as u32,
            interval: (min_rtt.is_none_or(|min_rtt| interval >= min_rtt) && interval > Span::ZERO)
                .then_some(interval),
            prior_delivered: tx_state.delivered,
            lost: (self.lost - tx_state.lost) as u32,
            tx_in_flight: tx_state.tx_in_flight,
            is_app_limited: tx_state.is_app_limited,
        })
    }

    /// Returns true if samples are application-limited; see [`Self::mark_app_limited`].
    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited.is_some()
    }

    /// Returns the number of segments delivered and the time of the last delivery.
    pub(super) fn delivered(&self) -> (u64, Time) {
        (self.delivered, self.delivered_time)
    }

    /// Returns the number of segments found lost.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn ms(millis: u64) -> Option<Span> {
        Some(Span::from_millis(millis))
    }

    #[test]
    fn the_rate_is_what_arrived_since_a_segment_was_sent_over_the_longer_of_sending_and_arriving() {
        let mut rate = DeliveryRate::default();
        // Four segments are sent, 10 ms apart. Their ACKs arrive 100 ms later or more, the last three at the same time.
        for number in 0..4 {
            rate.on_sent(at(10 * number), number, number == 0, number as u32 + 1);
        }
        rate.on_delivered(at(100), 0, at(0));
        rate.discard_below(1);
        let first = rate.sample(at(100), ms(50)).unwrap();
        assert_eq!((first.delivered, first.interval, first.prior_delivered), (1, ms(100), 0));
        rate.on_sent(at(100), 4, false, 4);
        for number in 1..4 {
            rate.on_delivered(at(130), number, at(10 * number));
        }
        rate.discard_below(4);
        // All three were sent before any segment had arrived. The last of them gives the sample: sending took 30 ms, arriving 130 ms.
        let burst = rate.sample(at(130), ms(50)).unwrap();
        assert_eq!((burst.delivered, burst.interval), (4, ms(130)));
        rate.on_delivered(at(200), 4, at(100));
        let last = rate.sample(at(200), ms(50)).unwrap();
        // This segment was sent after one segment had arrived. Four have arrived since then, within 100 ms.
        assert_eq!((last.delivered, last.interval, last.prior_delivered), (4, ms(100), 1));
        assert_eq!(rate.delivered(), (5, at(200)));
    }

    #[test]
    fn what_arrives_together_is_sampled_by_what_was_sent_last() {
        let mut rate = DeliveryRate::default();
        rate.on_sent(at(0), 0, true, 1);
        rate.on_sent(at(10), 1, false, 2);
        // The first ACK is late, so that sending takes longer than arriving.
        rate.on_delivered(at(150), 0, at(0));
        rate.discard_below(1);
        rate.sample(at(150), None);
        rate.on_sent(at(150), 2, false, 2);
        rate.on_sent(at(180), 3, false, 3);
        for (number, sent) in [(1, at(10)), (2, at(150)), (3, at(180))] {
            rate.on_delivered(at(230), number, sent);
        }
        // tcp_rate_skb_delivered: "the most recently sent" of the delivered segments.
        let sample = rate.sample(at(230), None).unwrap();
        assert_eq!((sample.delivered, sample.interval, sample.prior_delivered), (3, ms(180), 1));
        // Within an ACK, a later retransmission of an earlier segment is the newest.
        let mut rate = DeliveryRate::default();
        (0..3).for_each(|number| rate.on_sent(at(number), number, number == 0, 1));
        rate.on_delivered(at(100), 1, at(1));
        rate.on_sent(at(100), 0, false, 1);
        rate.sample(at(100), None);
        rate.on_delivered(at(200), 0, at(100));
        rate.on_delivered(at(200), 2, at(2));
        assert_eq!(rate.sample(at(200), None).unwrap().prior_delivered, 1);
    }

    #[test]
    fn a_segment_that_arrives_twice_is_delivered_twice() {
        let mut rate = DeliveryRate::default();
        rate.on_sent(at(0), 0, true, 1);
        rate.on_sent(at(0), 1, false, 2);
        rate.on_duplicates(at(90), 0);
        assert_eq!(rate.delivered(), (0, at(0)));
        // tcp_dsack_seen: "A spurious retransmission is delivered".
        rate.on_duplicates(at(100), 1);
        assert_eq!((rate.delivered(), rate.sample(at(100), None)), ((1, at(100)), None));
        rate.on_delivered(at(110), 0, at(0));
        assert_eq!(rate.sample(at(110), None).unwrap().delivered, 2);
    }

    #[test]
    fn an_interval_below_the_least_round_trip_is_none() {
        let mut rate = DeliveryRate::default();
        rate.on_sent(at(0), 0, true, 1);
        rate.on_delivered(at(20), 0, at(0));
        assert_eq!(rate.sample(at(20), ms(50)).unwrap().interval, None);
        assert_eq!(rate.sample(at(20), ms(50)), None, "nothing has arrived since");
    }

    #[test]
    fn samples_are_limited_by_the_application_until_what_was_out_has_arrived() {
        let mut rate = DeliveryRate::default();
        rate.mark_app_limited(0);
        rate.on_sent(at(0), 0, true, 1);
        rate.on_sent(at(0), 1, false, 2);
        rate.on_delivered(at(10), 0, at(0));
        assert!(rate.sample(at(10), None).unwrap().is_app_limited);
        rate.on_delivered(at(11), 1, at(0));
        assert!(rate.sample(at(11), None).unwrap().is_app_limited);
        // Two segments have arrived, more than the limit of one, so later samples are not application-limited.
        rate.discard_below(2);
        rate.on_sent(at(12), 2, true, 1);
        rate.on_lost(2);
        assert_eq!(rate.take_loss().map(|loss| (loss.lost, loss.tx_in_flight)), Some((1, 1)));
        rate.on_delivered(at(22), 2, at(12));
        let clean = rate.sample(at(22), None).unwrap();
        assert!(!clean.is_app_limited);
        assert_eq!((clean.lost, clean.interval), (1, ms(10)));
    }
}
