use crate::{ModelError, check};

/// Properties of a path other than loss. The defaults are those of the hysteresis paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Round trip time in seconds, without the wait for a delayed ACK.
    pub rtt_s: f64,
    /// Mean duration of the first timeout of a run of consecutive timeouts, in seconds.
    pub t0_s: f64,
    /// Largest window in packets, usually the receive window.
    pub w_max: f64,
    /// Packets acknowledged by one ACK: 2 with delayed ACKs, 1 without. In slow start, the window grows by the factor 1 + 1/b per round
    /// trip.
    pub b: f64,
    /// Initial window in packets, clamped to [1, w_max].
    pub w1: f64,
    /// Expected wait for the delayed ACK of a single packet, in seconds: half of a 200 ms heartbeat timer, or 0 for a receiver that
    /// acknowledges the first packets at once.
    pub delack_s: f64,
}

impl Default for Path {
    fn default() -> Self {
        Self { rtt_s: 0.2, t0_s: 1.0, w_max: 24.0, b: 2.0, w1: 1.0, delack_s: 0.1 }
    }
}

impl Path {
    /// Returns the path with its initial window clamped to [1, w_max], or an error for the first parameter that is out of range.
    pub fn check(self) -> Result<Self, ModelError> {
        check::time("RTT_s", self.rtt_s)?;
        check::time("T0_s", self.t0_s)?;
        check::at_least_one("Wmax", self.w_max)?;
        check::at_least_one("b", self.b)?;
        check::ensure(self.w1.is_finite(), "w1", self.w1, "a finite number of packets")?;
        check::nonnegative_time("delack_s", self.delack_s)?;
        Ok(Self { w1: self.w1.clamp(1.0, self.w_max), ..self })
    }

    /// Returns the largest window and `b` as whole numbers, for models that count packets one by one.
    pub(crate) fn integer_limits(&self) -> Result<(u32, u32), ModelError> {
        let expected = "at most 1000000 packets in a model that counts them";
        check::ensure(self.w_max <= 1e6, "Wmax", self.w_max, expected)?;
        Ok((self.w_max as u32, check::positive_integer("b", self.b)?))
    }
}
