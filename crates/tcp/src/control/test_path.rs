//! Path for tests of controllers that set cwnd and the pacing rate themselves.

use super::{CongestionControl, ControlKind, Delivery, RateSample, RecoveryState};
use catnip_base::{Span, Time};

pub(super) const SEGMENT: u32 = 1000;
pub(super) const RTT: Span = Span::from_millis(100);

/// Controller on a path that delivers a given number of segments per round trip, with one ACK per round.
pub(super) struct Path<C> {
    pub(super) control: C,
    pub(super) now: Time,
    pub(super) delivered: u64,
    pub(super) lost: u64,
}

impl<C: CongestionControl> Path<C> {
    pub(super) fn new<K: ControlKind<Control = Box<C>>>(kind: K) -> Self {
        let config = crate::TcpConfig { segment_bytes: SEGMENT, initial_window: 10, ..crate::profile::rfc() };
        let mut control = *kind.build(&config.start());
        let now = Time::ZERO + RTT;
        control.on_handshake(now, RTT);
        Self { control, now, delivered: 1, lost: 0 }
    }

    fn ack(&self, acked_sacked: u32) -> Delivery {
        let prior = self.delivered - u64::from(acked_sacked);
        Delivery {
            now: self.now,
            acked_sacked,
            lost: 0,
            rate: Some(RateSample {
                delivered: acked_sacked,
                interval: Some(RTT),
                prior_delivered: prior,
                lost: 0,
                tx_in_flight: acked_sacked,
                is_app_limited: false,
            }),
            rtt: Some(RTT),
            is_ack_delayed: false,
            srtt: Some(RTT),
            prior_in_flight: acked_sacked,
            packets_in_flight: acked_sacked,
            delivered: self.delivered,
            delivered_time: self.now,
            loss: None,
            total_lost: self.lost,
            recovery_state: RecoveryState::None,
            next_departure: self.now,
        }
    }

    /// Runs a round in which `acked_sacked` segments arrive. `change` modifies the ACK before the controller receives it.
    pub(super) fn round(&mut self, acked_sacked: u32, change: impl FnOnce(&mut Delivery)) {
        self.now += RTT + Span::from_micros(1);
        self.delivered += u64::from(acked_sacked);
        let mut ack = self.ack(acked_sacked);
        change(&mut ack);
        self.control.on_delivery(&ack);
    }

    /// Lets a timeout detect the loss of `lost` segments, without an ACK since the last round.
    pub(super) fn timeout(&mut self, lost: u64) {
        self.lost += lost;
        let delivery = Delivery { rate: None, rtt: None, ..self.ack(0) };
        self.control.on_timeout(&delivery);
    }

    pub(super) fn segments(&self) -> u64 {
        self.control.control().cwnd / u64::from(SEGMENT)
    }

    /// Returns the pacing rate in segments per round trip.
    pub(super) fn paced(&self) -> f64 {
        self.control.pacing_rate().unwrap_or(0) as f64 * RTT.as_secs() / f64::from(SEGMENT)
    }
}

pub(super) fn close(a: f64, b: f64) {
    assert!((a / b - 1.0).abs() < 0.01, "{a} is not {b}");
}
