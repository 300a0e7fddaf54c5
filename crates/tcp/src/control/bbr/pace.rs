use super::{Bandwidth, bandwidth, bytes_per_second};
use catnip_base::Span;

/// The rate of BBR, whatever its version: at first an initial window per round trip times a gain, then what the bandwidth says.
#[derive(Clone, Debug)]
pub(in crate::control) struct Pace {
    segment: u64,
    gain: u64,
    /// Bytes per second.
    rate: u64,
    /// The first rate comes from a round trip that was measured.
    is_known: bool,
}

impl Pace {
    /// Of a window of so many segments, as if it went around in a millisecond.
    pub(in crate::control) fn new(segment: u64, window: u32, gain: u64) -> Self {
        let mut new = Self { segment, gain, rate: 0, is_known: false };
        new.begin(window, Span::from_millis(1));
        new
    }

    /// A round trip was measured, the first one.
    pub(in crate::control) fn on_handshake(&mut self, window: u32, rtt: Span) {
        self.is_known = true;
        self.begin(window, rtt);
    }

    /// The rate follows the bandwidth; before the pipe is full it only rises.
    pub(in crate::control) fn follow(
        &mut self,
        (bw, gain): (Bandwidth, u64),
        is_full: bool,
        window: u32,
        srtt: Option<Span>,
    ) {
        if let Some(srtt) = srtt.filter(|_| !self.is_known) {
            self.on_handshake(window, srtt);
        }
        let rate = bytes_per_second(bw, gain, self.segment);
        if is_full || rate > self.rate {
            self.rate = rate;
        }
    }

    pub(in crate::control) fn rate(&self) -> u64 {
        self.rate
    }

    /// Segments that leave at once (Linux's TSO goal): a millisecond's worth, at least two from 1.2 Mbit/s on.
    pub(in crate::control) fn burst(&self) -> u32 {
        let least = if self.rate < 1_200_000 / 8 { 1 } else { 2 };
        ((self.rate >> 10).min(65_215) / self.segment).clamp(least, 0x7f) as u32
    }

    fn begin(&mut self, window: u32, rtt: Span) {
        self.rate = bytes_per_second(bandwidth(window, rtt), self.gain, self.segment);
    }
}
