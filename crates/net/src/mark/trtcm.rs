use super::{MarkerKind, PacketMarker, SenderState, Service};
use crate::{Bucket, Dscp, Packet, Priority, Profile};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{Bytes, ParseError, Rate, Rng, Time};
use std::num::NonZeroU64;

/// Configuration of the two rate three color marker (RFC 2698): packets above the peak rate are LOW, other packets above the committed rate
/// are MED, and packets within the committed rate are HIGH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrtcmSpec {
    /// Committed information rate (CIR) and burst size (CBS). Packets within this profile are HIGH.
    pub committed: Profile,
    /// Peak information rate (PIR) and burst size (PBS). Packets within this profile are at least MED.
    pub peak: Profile,
    /// True in color-aware mode: the marker may lower the existing priority of a packet, but never raises it.
    pub aware: bool,
}

impl Kind for TrtcmSpec {
    const USAGE: &'static [Usage] = &[(
        "trtcm:cir=RATE,cbs=BYTES,pir=RATE,pbs=BYTES[,aware=false]",
        "two rate three color marker (RFC 2698): LOW above the peak rate, MED above the committed rate, else HIGH",
    )];

    const EXAMPLES: &'static [&'static str] = &["trtcm:cir=1Mbit,cbs=4KB,pir=2Mbit,pbs=8KB"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let mut profile = |rate: &str, size: &str| -> Result<Profile, ParseError> {
            let (rate, Bytes(depth)) = (text.key::<Rate>(rate)?, text.key::<Bytes>(size)?);
            let depth = NonZeroU64::new(depth).ok_or_else(|| text.error(format!("{size} above zero")))?;
            Ok(Profile { rate, depth })
        };
        let (committed, peak) = (profile("cir", "cbs")?, profile("pir", "pbs")?);
        // Section 2: "The PIR must be equal to or greater than the CIR."
        if peak.rate.bits_per_second() < committed.rate.bits_per_second() {
            return Err(text.error(format!("pir of at least cir, not {} and {}", peak.rate, committed.rate)));
        }
        Ok(Self { committed, peak, aware: text.option("aware", false)? })
    }

    fn write(&self, to: &mut Written) {
        let Self { committed, peak, aware } = *self;
        to.name("trtcm").key("cir", committed.rate).key("cbs", Bytes(committed.depth.get()));
        to.key("pir", peak.rate).key("pbs", Bytes(peak.depth.get())).option("aware", aware, false);
    }
}

/// Two rate three color marker.
#[derive(Debug)]
pub(super) struct Trtcm {
    committed: Bucket,
    peak: Bucket,
    aware: bool,
    /// Assured forwarding class of a sender's packets.
    class: u8,
}

impl Trtcm {
    fn new(spec: TrtcmSpec, class: u8) -> Self {
        Self {
            committed: Bucket::new(spec.committed),
            peak: Bucket::new(spec.peak),
            aware: spec.aware,
            class,
        }
    }

    /// Returns the new priority of a packet of `len` bytes with the existing priority `before` (section 3).
    fn meter(&mut self, now: Time, len: u32, before: Priority) -> Priority {
        let before = if self.aware { before } else { Priority::High };
        if before == Priority::Low || !self.peak.conforms(now, len) {
            return Priority::Low;
        }
        self.peak.take(now, len);
        if before == Priority::Medium || !self.committed.conforms(now, len) {
            return Priority::Medium;
        }
        self.committed.take(now, len);
        Priority::High
    }
}

impl MarkerKind for TrtcmSpec {
    type Marker = Box<dyn PacketMarker>;
    fn build(&self, service: Service, _rng: &dyn Fn() -> Rng) -> Box<dyn PacketMarker> {
        Box::new(Trtcm::new(*self, service.class()))
    }
    fn needs_sender(&self) -> bool {
        false
    }
}

impl PacketMarker for Trtcm {
    fn mark(&mut self, now: Time, sending: Option<&SenderState>, packet: &mut Packet) -> bool {
        packet.dscp = match sending {
            // A packet at its sender has no existing priority.
            Some(_) => Dscp::assured(self.class, self.meter(now, packet.len, Priority::High)),
            None => packet.dscp.with_priority(self.meter(now, packet.len, packet.dscp.priority())),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Priority::{High, Low, Medium};

    fn read(text: &str) -> Result<TrtcmSpec, ParseError> {
        TrtcmSpec::read(&mut Notation::parse(text).unwrap())
    }

    /// Returns the new priorities of packets of 1000 bytes, each given by its time in milliseconds and its existing priority.
    fn met(meter: &mut Trtcm, packets: &[(u64, Priority)]) -> Vec<Priority> {
        packets
            .iter()
            .map(|&(ms, before)| meter.meter(Time::from_nanos(ms * 1_000_000), 1000, before))
            .collect()
    }

    #[test]
    fn packets_are_metered_against_both_rates_as_in_rfc_2698() {
        // 8 Mbit/s are 1000 bytes per millisecond: the committed rate is one packet per millisecond, the peak rate two.
        let spec = read("trtcm:cir=8Mbit,cbs=2000B,pir=16Mbit,pbs=4000B").unwrap();
        let mut blind = Trtcm::new(spec, 1);
        assert_eq!(met(&mut blind, &[(0, High); 6]), [High, High, Medium, Medium, Low, Low]);
        assert_eq!(met(&mut blind, &[(1, High); 3]), [High, Medium, Low]);
        // LOW packets take no tokens; MED packets take only peak tokens.
        assert_eq!(met(&mut blind, &[(3, High); 5]), [High, High, Medium, Medium, Low]);
    }

    #[test]
    fn color_aware_packets_never_gain_a_priority() {
        let spec = read("trtcm:cir=8Mbit,cbs=2000B,pir=16Mbit,pbs=4000B,aware=true").unwrap();
        let packets = [(0, Medium), (0, Low), (0, High), (0, Medium), (0, High), (0, High)];
        assert_eq!(met(&mut Trtcm::new(spec, 1), &packets), [Medium, Low, High, Medium, High, Low]);
    }

    #[test]
    fn a_peak_below_the_committed_rate_and_empty_buckets_are_refused() {
        for (text, named) in [
            ("trtcm:cir=9Mbit,cbs=1B,pir=8Mbit,pbs=1B", "pir of at least cir"),
            ("trtcm:cir=8Mbit,cbs=0B,pir=8Mbit,pbs=1B", "cbs above zero"),
            ("trtcm:cir=8Mbit,cbs=1B,pir=8Mbit", "pbs="),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
