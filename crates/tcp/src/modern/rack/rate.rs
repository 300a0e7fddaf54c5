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
    /// Stored state from which the sample of this ACK is computed, and the time that the transmission of the delivered segments took.
    sample_start: Option<(TxState, Span)>,
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

    /// Records the delivery of the segment `number`, whose last transmission was at `xmit_ts`.
    pub(super) fn on_delivered(&mut self, now: Time, number: u64, xmit_ts: Time) {
        self.delivered += 1;
        self.delivered_time = now;
        let tx_state = self.tx_states[(number - self.first_number) as usize];
        if self.sample_start.is_none_or(|(newest, _)| tx_state.delivered > newest.delivered) {
            self.first_sent_time = xmit_ts;
            self.sample_start = Some((tx_state, xmit_ts - tx_state.first_sent_time));
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
        let (tx_state, send_elapsed) = self.sample_start.take()?;
        let interval = send_elapsed.max(now - tx_state.delivered_time);
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
        // All three were sent before any segment had arrived, so the first of them gives the sample.
        let burst = rate.sample(at(130), ms(50)).unwrap();
        assert_eq!((burst.delivered, burst.interval), (4, ms(130)));
        rate.on_delivered(at(200), 4, at(100));
        let last = rate.sample(at(200), ms(50)).unwrap();
        // This segment was sent after one segment had arrived. Four have arrived since then, within 100 ms.
        assert_eq!((last.delivered, last.interval, last.prior_delivered), (4, ms(100), 1));
        assert_eq!(rate.delivered(), (5, at(200)));
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
