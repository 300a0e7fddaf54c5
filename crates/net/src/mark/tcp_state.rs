use super::application::{read_class, write_class};
use super::{MarkerKind, PacketKind, PacketMarker, SenderState, Service};
use crate::{Dscp, Packet, Priority};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};
use catnip_law::tcp_state as law;
use std::fmt;
use std::str::FromStr;

/// Configuration of marking by the state of TCP (IDS-S16; Noureddine and Tobagi 2002, section VI-A, Algorithm 1): packets sent under a
/// small window are HIGH, packets sent under a medium window are MED, and packets sent under a large window are LOW. The window is the
/// smaller of cwnd and the receive window. The marks protect connections whose window is too small to recover from a loss without a
/// timeout, and the beginning of long transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpStateSpec {
    /// Largest window at which all packets are HIGH; `None` selects the default of the service.
    pub high: Option<Threshold>,
    /// Largest window at which all packets are at least MED; `None` selects the default of the service.
    pub med: Option<Threshold>,
    /// Assured forwarding class, 1 to 4; `None` selects the default of the service.
    pub class: Option<u8>,
    /// True for the randomized version, in which a packet sent under a window above a threshold still gets the priority of that threshold
    /// with the probability threshold / window.
    pub random: bool,
}

/// Window threshold in segments. No window exceeds [`Threshold::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Threshold(pub u32);

impl Threshold {
    /// Threshold above every window, the default of highly interactive applications such as Telnet: all their packets are HIGH.
    pub const ALL: Self = Self(u32::MAX);
}

impl FromStr for Threshold {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text == "all" {
            return Ok(Self::ALL);
        }
        text.parse().map(Self).map_err(|_| ParseError::new(text, "a window in segments, or all"))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL { f.write_str("all") } else { self.0.fmt(f) }
    }
}

impl Kind for TcpStateSpec {
    const USAGE: &'static [Usage] = &[
        (
            "tcp-state[:high=4,med=8,class=]",
            "marking by the state of TCP: HIGH for handshakes, recoveries and windows of at most high segments, MED for windows of at most \
             med segments, LOW otherwise; by default HIGH for all packets of Telnet",
        ),
        (
            "tcp-state-random[:…]",
            "tcp-state, but above a threshold a packet keeps the priority with the probability threshold / window",
        ),
    ];
    const EXAMPLES: &'static [&'static str] = &["tcp-state", "tcp-state:med=all,class=2", "tcp-state-random"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let mut threshold = |key| text.take(key).map(Threshold::from_str).transpose();
        let (high, med) = (threshold("high")?, threshold("med")?);
        if let (Some(high), Some(med)) = (high, med)
            && high > med
        {
            return Err(text.error(format!("high <= med, not {high} and {med}")));
        }
        let random = text.name() == "tcp-state-random";
        Ok(Self { high, med, class: read_class(text)?, random })
    }

    fn write(&self, to: &mut Written) {
        to.name(if self.random { "tcp-state-random" } else { "tcp-state" });
        for (key, threshold) in [("high", self.high), ("med", self.med)] {
            if let Some(threshold) = threshold {
                to.key(key, threshold);
            }
        }
        write_class(to, self.class);
    }
}

impl TcpStateSpec {
    /// Default thresholds for HIGH and MED: the window that TCP needs for a fast retransmit (section VI-C, HIGHthresh), and twice this
    /// window (MEDthresh).
    pub const DEFAULT: [Threshold; 2] = [Threshold(4), Threshold(8)];

    /// Returns the thresholds for HIGH and MED of an application with the requirements `service`.
    pub fn thresholds(&self, service: Service) -> [Threshold; 2] {
        let defaults = if service == Service::Highly { [Threshold::ALL; 2] } else { Self::DEFAULT };
        let high = self.high.unwrap_or(defaults[0]);
        [high, self.med.unwrap_or(defaults[1]).max(high)]
    }

    /// Returns the priority by the plain version of Algorithm 1 with these thresholds for HIGH and MED, for a window in segments.
    /// `recovering` is true during a loss recovery.
    pub fn priority([high, med]: [Threshold; 2], window: u32, recovering: bool) -> Priority {
        let thresholds = law::Thresholds { high: high.0, med: med.0 };
        priority(law::level(&thresholds, window, recovering, || law::NEVER))
    }
}

/// Marker that sets the priority of the packets of one connection by its window.
#[derive(Clone, Debug)]
pub struct TcpState {
    thresholds: law::Thresholds,
    class: u8,
    /// Random stream of the randomized version; `None` for the deterministic version.
    rng: Option<Rng>,
}

impl TcpState {
    /// Creates the marker of a connection of an application with the requirements `service`. The randomized version takes its random stream
    /// from `rng`.
    pub fn new(spec: TcpStateSpec, service: Service, rng: impl FnOnce() -> Rng) -> Self {
        let [high, med] = spec.thresholds(service).map(|threshold| threshold.0);
        let thresholds = law::Thresholds { high, med };
        Self { thresholds, class: spec.class.unwrap_or(service.class()), rng: spec.random.then(rng) }
    }

    /// Returns the priority by Algorithm 1 for a window in segments. `protected` is true during a loss recovery.
    fn priority(&mut self, window: u32, protected: bool) -> Priority {
        let draw = || self.rng.as_mut().map_or(law::NEVER, |rng| (rng.uniform() * 2f64.powi(32)) as u32);
        priority(law::level(&self.thresholds, window, protected, draw))
    }
}

fn priority(level: law::Level) -> Priority {
    match level {
        law::Level::High => Priority::High,
        law::Level::Medium => Priority::Medium,
        law::Level::Low => Priority::Low,
    }
}

impl MarkerKind for TcpStateSpec {
    type Marker = Box<TcpState>;
    fn build(&self, service: Service, rng: &dyn Fn() -> Rng) -> Box<TcpState> {
        Box::new(TcpState::new(*self, service, rng))
    }
}

impl PacketMarker for TcpState {
    fn mark(&mut self, _now: Time, sending: Option<&SenderState>, packet: &mut Packet) -> bool {
        let Some(sending) = sending else { return false };
        let window = sending.window.min(sending.receive_window) / u64::from(sending.segment.max(1));
        let priority = match sending.kind {
            // An ACK sent before any data has arrived ends a handshake: section VI-A protects "the connection establishment segments".
            PacketKind::Ack(priority) => priority.unwrap_or(Priority::High),
            PacketKind::Syn => Priority::High,
            PacketKind::Data => self.priority(window.min(u64::from(u32::MAX)) as u32, sending.recovering),
        };
        packet.dscp = Dscp::assured(self.class, priority);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Route;
    use crate::mark::MarkerSpec;
    use catnip_base::Stream;

    fn rng() -> Rng {
        Rng::new(1, Stream::Workload(9))
    }

    fn marked(marker: &mut TcpState, sending: &SenderState) -> Priority {
        let mut packet = Packet::new(Time::ZERO, Route::default(), 1040, 0);
        marker.mark(Time::ZERO, Some(sending), &mut packet);
        packet.dscp.priority()
    }

    /// Returns the state for a segment of 1000 bytes under a window in segments.
    fn data(window: u64) -> SenderState {
        SenderState { segment: 1000, window: window * 1000, receive_window: 64_000, ..SenderState::default() }
    }

    #[test]
    fn windows_up_to_four_are_high_up_to_eight_medium_and_larger_ones_low() {
        let mut marker = TcpState::new(TcpStateSpec::default(), Service::Interactive, rng);
        let (high, med, low) = (Priority::High, Priority::Medium, Priority::Low);
        let table = [(1, high), (3, high), (4, high), (5, med), (8, med), (9, low), (64, low)];
        for (window, priority) in table {
            assert_eq!(marked(&mut marker, &data(window)), priority, "{window} segments");
        }
        // A fraction of a segment does not count, and the receive window also limits the window.
        assert_eq!(marked(&mut marker, &SenderState { window: 4999, ..data(0) }), high);
        assert_eq!(marked(&mut marker, &SenderState { receive_window: 4000, ..data(20) }), high);
    }

    #[test]
    fn handshakes_and_recoveries_are_high_and_acks_as_the_data_that_they_answer() {
        let mut marker = TcpState::new(TcpStateSpec::default(), Service::Other, rng);
        assert_eq!(marked(&mut marker, &SenderState { kind: PacketKind::Syn, ..data(20) }), Priority::High);
        assert_eq!(marked(&mut marker, &SenderState { recovering: true, ..data(20) }), Priority::High);
        // The ACK that ends a handshake answers no data.
        assert_eq!(
            marked(&mut marker, &SenderState { kind: PacketKind::Ack(None), ..data(20) }),
            Priority::High
        );
        for priority in [Priority::High, Priority::Medium, Priority::Low] {
            let ack = SenderState { kind: PacketKind::Ack(Some(priority)), ..data(1) };
            assert_eq!(marked(&mut marker, &ack), priority);
        }
    }

    #[test]
    fn thresholds_are_set_per_connection_and_those_of_telnet_protect_everything() {
        let mut telnet = TcpState::new(TcpStateSpec::default(), Service::Highly, rng);
        assert_eq!(marked(&mut telnet, &data(64)), Priority::High);
        let spec =
            TcpStateSpec { high: Some(Threshold(2)), med: Some(Threshold(3)), ..TcpStateSpec::default() };
        let mut narrow = TcpState::new(spec, Service::Highly, rng);
        assert_eq!(
            [2, 3, 4].map(|window| marked(&mut narrow, &data(window))),
            [Priority::High, Priority::Medium, Priority::Low]
        );
    }

    #[test]
    fn the_med_threshold_is_never_below_the_high_one() {
        // Section VI-A, Algorithm 1 asks for HIGHthresh first and then for MEDthresh, so HIGHthresh <= MEDthresh.
        let thresholds = |text: &str, service| {
            let MarkerSpec::TcpState(spec) = text.parse().unwrap() else { panic!("{text}") };
            spec.thresholds(service).map(|threshold| threshold.0)
        };
        assert_eq!(thresholds("tcp-state:high=6", Service::Interactive), [6, 8], "the default of MED");
        assert_eq!(thresholds("tcp-state:high=12", Service::Interactive), [12, 12], "no less than HIGH");
        assert_eq!(thresholds("tcp-state:med=6", Service::Interactive), [4, 6]);
        assert_eq!(thresholds("tcp-state:med=3", Service::Interactive), [4, 4]);
        assert_eq!(thresholds("tcp-state:high=all", Service::Other), [u32::MAX; 2]);
        assert_eq!(thresholds("tcp-state:high=6,med=6", Service::Other), [6, 6]);
        let refused = "tcp-state:high=7,med=6".parse::<MarkerSpec>().unwrap_err().to_string();
        assert!(refused.contains("high <= med, not 7 and 6"), "{refused}");
    }

    #[test]
    fn the_randomized_version_keeps_a_threshold_s_share_of_the_window() {
        let spec = TcpStateSpec { random: true, ..TcpStateSpec::default() };
        let mut marker = TcpState::new(spec, Service::Interactive, rng);
        const PACKETS: u32 = 40_000;
        let mut shares = |window: u64| {
            let mut counts = [0u32; Priority::COUNT];
            (0..PACKETS).for_each(|_| counts[marked(&mut marker, &data(window)) as usize] += 1);
            counts.map(|count| f64::from(count) / f64::from(PACKETS))
        };
        let within_3_sigma = |share: f64, p: f64| {
            let sigma = (p * (1.0 - p) / f64::from(PACKETS)).sqrt();
            assert!((share - p).abs() <= 3.0 * sigma, "{share} where {p} is expected");
        };
        for window in [6, 16, 32] {
            let found = shares(window);
            let w = window as f64;
            let high = 4.0 / w;
            let med = (1.0 - high) * if window <= 8 { 1.0 } else { 8.0 / w };
            within_3_sigma(found[Priority::High as usize], high);
            within_3_sigma(found[Priority::Medium as usize], med);
            within_3_sigma(found[Priority::Low as usize], 1.0 - high - med);
        }
        assert_eq!(shares(4)[Priority::High as usize], 1.0);
    }
}
