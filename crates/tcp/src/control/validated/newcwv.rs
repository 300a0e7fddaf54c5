use super::Validity;
use crate::control::{Ack, Cause, Congestion, CongestionControl, Control, Idle, Recovered, Sent};
use catnip_base::{Time, keywords};
use catnip_law::newcwv::{self as law, UNDEFINED, Windows};

keywords! {
    /// Filter of the pipeACK samples.
    pub enum Filter {
        /// Largest sample of the sampling period.
        Max = ("max", "largest sample of the sampling period"),
        /// Last sample if it is not older than the sampling period.
        Last = ("last", "last sample"),
    }
}

/// New congestion window validation (RFC 7661): applies its [law](law::NewCwv) to a controller.
#[derive(Debug)]
pub struct NewCwv(law::NewCwv);

impl NewCwv {
    pub(super) fn new(filter: Filter, initial_window: u64, segment: u64) -> Self {
        Self(law::NewCwv::new(filter == Filter::Last, initial_window, segment))
    }

    pub(super) fn validity(&self, cwnd: u64) -> Validity {
        Validity { pipe_ack: to_option(self.0.pipe_ack()), is_validated: self.0.is_validated(cwnd) }
    }

    pub(super) fn on_ack_while_reduced(&mut self, ack: &Ack) {
        self.0.on_ack_while_reduced(ack.snd_una);
    }

    pub(super) fn on_ack(&mut self, ack: &Ack, control: &mut impl CongestionControl) {
        let srtt = ack.srtt.map_or(0, |srtt| srtt.as_nanos());
        self.0.on_ack(ack.now.as_nanos(), ack.snd_una, ack.bytes, ack.snd_max, srtt);
        self.check_nvp(ack.now, control);
        if self.0.grows(control.control().cwnd, ack.cwnd_limited) {
            control.on_ack(&Ack { cwnd_limited: true, ..*ack });
        }
    }

    pub(super) fn on_congestion(&mut self, event: &Congestion, control: &mut impl CongestionControl) {
        let prior = control.control().cwnd;
        control.on_congestion(event);
        if event.cause == Cause::Restart {
            return self.0.on_timeout(event.now.as_nanos());
        }
        if let Some(cwnd) = to_option(self.0.on_congestion(prior, event.in_flight)) {
            control.set_cwnd(cwnd, None);
        }
    }

    pub(super) fn on_recovered(&mut self, end: &Recovered, control: &mut impl CongestionControl) {
        if let Some(window) = to_option(self.0.on_recovered(end.now.as_nanos(), end.retransmitted)) {
            control.set_cwnd(window, Some(window));
        }
    }

    pub(super) fn on_sent(&mut self, sent: &Sent, control: &mut impl CongestionControl) {
        self.check_nvp(sent.now, control);
    }

    pub(super) fn on_idle(&mut self, idle: &Idle, control: &mut impl CongestionControl) {
        self.check_nvp(idle.now, control);
    }

    fn check_nvp(&mut self, now: Time, control: &mut impl CongestionControl) {
        loop {
            let Control { cwnd, ssthresh } = control.control();
            let mut windows = Windows { cwnd, ssthresh: ssthresh.unwrap_or(UNDEFINED) };
            if !self.0.check_nvp(now.as_nanos(), &mut windows) {
                return;
            }
            control.set_cwnd(windows.cwnd, to_option(windows.ssthresh));
        }
    }
}

fn to_option(bytes: u64) -> Option<u64> {
    Some(bytes).filter(|&bytes| bytes != UNDEFINED)
}
