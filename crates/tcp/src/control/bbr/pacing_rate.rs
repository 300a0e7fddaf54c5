use super::{Bandwidth, bandwidth, bytes_per_second, bytes_per_second_of};
use catnip_base::Span;

/// Pacing rate of both BBR versions. Initially it is the initial window per RTT, later the estimated bandwidth less the margin, each
/// multiplied by a gain.
#[derive(Clone, Debug)]
pub(in crate::control) struct PacingRate {
    segment: u64,
    gain: u64,
    /// Share of `gain` times the initial window per RTT at which the rate starts, per cent.
    first_pct: u64,
    /// Pacing rate, bytes per second.
    rate: u64,
    /// True after the initial rate has been computed from a measured RTT.
    has_seen_rtt: bool,
}

impl PacingRate {
    /// Creates the pacing rate for a window of `cwnd` segments, with an assumed RTT of 1 ms.
    pub(in crate::control) fn new(segment: u64, cwnd: u32, (gain, first_pct): (u64, u64)) -> Self {
        let mut new = Self { segment, gain, first_pct, rate: 0, has_seen_rtt: false };
        new.init(cwnd, Span::from_millis(1));
        new
    }

    /// Handles the first RTT sample.
    pub(in crate::control) fn on_handshake(&mut self, cwnd: u32, rtt: Span) {
        self.has_seen_rtt = true;
        self.init(cwnd, rtt);
    }

    /// Sets the rate for a bandwidth and a gain. The rate does not decrease until the pipe is full.
    pub(in crate::control) fn update(
        &mut self,
        (bw, gain): (Bandwidth, u64),
        full_bw_reached: bool,
        cwnd: u32,
        srtt: Option<Span>,
    ) {
        if let Some(srtt) = srtt.filter(|_| !self.has_seen_rtt) {
            self.on_handshake(cwnd, srtt);
        }
        let rate = bytes_per_second(bw, gain, self.segment);
        if full_bw_reached || rate > self.rate {
            self.rate = rate;
        }
    }

    pub(in crate::control) fn rate(&self) -> u64 {
        self.rate
    }

    /// Returns the burst size, segments (Linux's TSO goal): the data of about a millisecond, and at least two segments from 1.2 Mbit/s on.
    pub(in crate::control) fn burst(&self) -> u32 {
        let min_burst = if self.rate < 1_200_000 / 8 { 1 } else { 2 };
        ((self.rate >> 10).min(65_215) / self.segment).clamp(min_burst, 0x7f) as u32
    }

    fn init(&mut self, cwnd: u32, rtt: Span) {
        self.rate = bytes_per_second_of(bandwidth(cwnd, rtt), self.gain, self.segment, self.first_pct);
    }
}
