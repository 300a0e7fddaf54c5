use crate::control::{LossSample, RateSample};
use catnip_base::{Span, Time};
use std::collections::VecDeque;

/// Delivery rate estimator (draft-cheng-iccrg-delivery-rate-estimation-02; Linux's tcp_rate.c). The delivery state is stored for each
/// segment when it is sent. The ACK of the segment then yields the number of segments delivered since, and the time that this took.
#[derive(Debug, Default)]
pub(super) struct DeliveryRate {
    /// Delivery state stored for each segment in flight.
    memories: VecDeque<Memory>,
    /// Number of the first segment in `memories`.
    first: u64,
    /// Number of segments delivered, C.delivered.
    delivered: u64,
    /// Time of the last delivery, C.delivered_time.
    delivered_at: Time,
    /// Transmission time of the most recently delivered segment, C.first_sent_time.
    first_sent: Time,
    /// Number of segments found lost.
    lost: u64,
    /// Number of delivered segments up to which samples are application-limited, C.app_limited; `None` without a limit.
    app_limited: Option<u64>,
    /// Stored state from which the sample of this ACK is computed, and the time that the transmission of the delivered segments took.
    latest: Option<(Memory, Span)>,
    /// Loss sample with the highest loss rate since the last call of [`Self::take_loss`].
    worst: Option<LossSample>,
}

/// Delivery state when a segment was sent.
#[derive(Clone, Copy, Debug)]
struct Memory {
    /// Number of segments delivered, P.delivered.
    delivered: u64,
    /// Time of the last delivery, P.delivered_time.
    delivered_at: Time,
    /// Transmission time of the most recently delivered segment, P.first_sent_time.
    first_sent: Time,
    /// True if the sample is application-limited, P.is_app_limited.
    is_app_limited: bool,
    /// Number of segments found lost.
    lost: u64,
    /// Number of segments in the network, including this one.
    in_network: u32,
}

impl DeliveryRate {
    /// Records the first or a later transmission of the segment `number`. `is_alone` is true if no other segment is in flight.
    pub(super) fn on_sent(&mut self, now: Time, number: u64, is_alone: bool, in_network: u32) {
        if is_alone {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        let memory = Memory {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            is_app_limited: self.app_limited.is_some(),
            lost: self.lost,
            in_network,
        };
        match self.memories.get_mut((number - self.first) as usize) {
            Some(known) => *known = memory,
            None => self.memories.push_back(memory),
        }
    }

    /// Records the delivery of the segment `number`, whose last transmission was at `sent`.
    pub(super) fn on_arrival(&mut self, now: Time, number: u64, sent: Time) {
        self.delivered += 1;
        self.delivered_at = now;
        let memory = self.memories[(number - self.first) as usize];
        if self.latest.is_none_or(|(latest, _)| memory.delivered > latest.delivered) {
            self.first_sent = sent;
            self.latest = Some((memory, sent - memory.first_sent));
        }
    }

    /// Discards the state of the segments below `number`, which are acknowledged.
    pub(super) fn forget_below(&mut self, number: u64) {
        let count = (number - self.first).min(self.memories.len() as u64);
        self.memories.drain(..count as usize);
        self.first = number;
    }

    /// Records the loss of the segment `number`.
    pub(super) fn on_lost(&mut self, number: u64) {
        self.lost += 1;
        let memory = self.memories[(number - self.first) as usize];
        let new = LossSample {
            lost: (self.lost - memory.lost) as u32,
            in_network: memory.in_network,
            is_app_limited: memory.is_app_limited,
        };
        let is_less = |old: &LossSample| old.lost * new.in_network <= new.lost * old.in_network;
        if self.worst.as_ref().is_none_or(is_less) {
            self.worst = Some(new);
        }
    }

    /// Returns the loss sample with the highest loss rate since the last call; `None` without a loss since then.
    pub(super) fn take_loss(&mut self) -> Option<LossSample> {
        self.worst.take()
    }

    /// Starts an application-limited phase, in which the application or the sender itself leaves cwnd unused. The phase ends when the
    /// `in_network` segments in the network are delivered.
    pub(super) fn limit(&mut self, in_network: u32) {
        self.app_limited = Some((self.delivered + u64::from(in_network)).max(1));
    }

    /// Returns the rate sample of an ACK; `None` if no segment was delivered. A sample below the minimum RTT `least` has no interval.
    pub(super) fn sample(&mut self, now: Time, least: Option<Span>) -> Option<RateSample> {
        self.app_limited = self.app_limited.filter(|&until| self.delivered <= until);
        let (memory, sending) = self.latest.take()?;
        let interval = sending.max(now - memory.delivered_at);
        Some(RateSample {
            delivered: (self.delivered - memory.delivered) as u32,
            interval: (least.is_none_or(|least| interval >= least) && interval > Span::ZERO)
                .then_some(interval),
            prior_delivered: memory.delivered,
            lost: (self.lost - memory.lost) as u32,
            in_network: memory.in_network,
            is_app_limited: memory.is_app_limited,
        })
    }

    /// Returns true if samples are application-limited; see [`Self::limit`].
    pub(super) fn is_limited(&self) -> bool {
        self.app_limited.is_some()
    }

    /// Returns the number of segments delivered and the time of the last delivery.
    pub(super) fn delivered(&self) -> (u64, Time) {
        (self.delivered, self.delivered_at)
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
        rate.on_arrival(at(100), 0, at(0));
        rate.forget_below(1);
        let first = rate.sample(at(100), ms(50)).unwrap();
        assert_eq!((first.delivered, first.interval, first.prior_delivered), (1, ms(100), 0));
        rate.on_sent(at(100), 4, false, 4);
        for number in 1..4 {
            rate.on_arrival(at(130), number, at(10 * number));
        }
        rate.forget_below(4);
        // All three were sent before any segment had arrived, so the first of them gives the sample.
        let burst = rate.sample(at(130), ms(50)).unwrap();
        assert_eq!((burst.delivered, burst.interval), (4, ms(130)));
        rate.on_arrival(at(200), 4, at(100));
        let last = rate.sample(at(200), ms(50)).unwrap();
        // This segment was sent after one segment had arrived. Four have arrived since then, within 100 ms.
        assert_eq!((last.delivered, last.interval, last.prior_delivered), (4, ms(100), 1));
        assert_eq!(rate.delivered(), (5, at(200)));
    }

    #[test]
    fn an_interval_below_the_least_round_trip_is_none() {
        let mut rate = DeliveryRate::default();
        rate.on_sent(at(0), 0, true, 1);
        rate.on_arrival(at(20), 0, at(0));
        assert_eq!(rate.sample(at(20), ms(50)).unwrap().interval, None);
        assert_eq!(rate.sample(at(20), ms(50)), None, "nothing has arrived since");
    }

    #[test]
    fn samples_are_limited_by_the_application_until_what_was_out_has_arrived() {
        let mut rate = DeliveryRate::default();
        rate.limit(0);
        rate.on_sent(at(0), 0, true, 1);
        rate.on_sent(at(0), 1, false, 2);
        rate.on_arrival(at(10), 0, at(0));
        assert!(rate.sample(at(10), None).unwrap().is_app_limited);
        rate.on_arrival(at(11), 1, at(0));
        assert!(rate.sample(at(11), None).unwrap().is_app_limited);
        // Two segments have arrived, more than the limit of one, so later samples are not application-limited.
        rate.forget_below(2);
        rate.on_sent(at(12), 2, true, 1);
        rate.on_lost(2);
        assert_eq!(rate.take_loss().map(|loss| (loss.lost, loss.in_network)), Some((1, 1)));
        rate.on_arrival(at(22), 2, at(12));
        let clean = rate.sample(at(22), None).unwrap();
        assert!(!clean.is_app_limited);
        assert_eq!((clean.lost, clean.interval), (1, ms(10)));
    }
}
