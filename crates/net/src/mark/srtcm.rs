use super::{MarkerKind, PacketMarker, SenderState, Service};
use crate::{Dscp, Packet, Priority};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{Bytes, ParseError, Rate, Rng, Time};

/// Configuration of the single rate three color marker (RFC 2697). The tokens that the committed bucket cannot hold fill the excess bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrtcmSpec {
    /// Committed information rate (CIR).
    pub cir: Rate,
    /// Committed burst size (CBS). Packets within this burst size are HIGH.
    pub cbs: Bytes,
    /// Excess burst size (EBS). Packets beyond the CBS but within this burst size are MED.
    pub ebs: Bytes,
    /// True in color-aware mode: the marker may lower the existing priority of a packet, but never raises it.
    pub aware: bool,
}

impl Kind for SrtcmSpec {
    const USAGE: &'static [Usage] = &[(
        "srtcm:cir=RATE,cbs=BYTES,ebs=BYTES[,aware=false]",
        "single rate three color marker (RFC 2697): HIGH within the committed burst, MED within the excess burst, else LOW",
    )];
    const EXAMPLES: &'static [&'static str] =
        &["srtcm:cir=1Mbit,cbs=4KB,ebs=8KB", "srtcm:cir=1Mbit,cbs=4KB,ebs=0B,aware=true"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let spec = Self {
            cir: text.key("cir")?,
            cbs: text.key("cbs")?,
            ebs: text.key("ebs")?,
            aware: text.option("aware", false)?,
        };
        // Section 2: "at least one of them MUST be larger than 0".
        if spec.cbs.0 == 0 && spec.ebs.0 == 0 {
            return Err(text.error("cbs or ebs above zero"));
        }
        Ok(spec)
    }

    fn write(&self, to: &mut Written) {
        let Self { cir, cbs, ebs, aware } = *self;
        to.name("srtcm").key("cir", cir).key("cbs", cbs).key("ebs", ebs).option("aware", aware, false);
    }
}

/// Single rate three color marker.
#[derive(Debug)]
pub(super) struct Srtcm {
    spec: SrtcmSpec,
    /// Assured forwarding class of a sender's packets.
    class: u8,
    /// Tokens of the committed and the excess bucket, in billionths of a bit.
    tokens: [u128; 2],
    updated: Time,
}

/// Tokens per byte.
const BYTE: u128 = 8 * 1_000_000_000;

impl Srtcm {
    fn new(spec: SrtcmSpec, class: u8) -> Self {
        // Section 3: "The token buckets C and E are initially (at time 0) full".
        let tokens = [spec.cbs, spec.ebs].map(|size| u128::from(size.0) * BYTE);
        Self { spec, class, tokens, updated: Time::ZERO }
    }

    /// Returns the new priority of a packet of `len` bytes with the existing priority `before`.
    fn meter(&mut self, now: Time, len: u32, before: Priority) -> Priority {
        let [committed, excess] = &mut self.tokens;
        let [cbs, ebs] = [self.spec.cbs, self.spec.ebs].map(|size| u128::from(size.0) * BYTE);
        let elapsed_ns = u128::from(now.since(self.updated).as_nanos());
        let filled = *committed + elapsed_ns * u128::from(self.spec.cir.bits_per_second());
        // "If Tc is less than CBS, Tc is incremented by one, else if Te is less then EBS, Te is incremented by one".
        *excess = ebs.min(*excess + filled.saturating_sub(cbs));
        *committed = filled.min(cbs);
        self.updated = self.updated.max(now);
        let before = if self.spec.aware { before } else { Priority::High };
        let cost = u128::from(len) * BYTE;
        if before == Priority::High && *committed >= cost {
            *committed -= cost;
            Priority::High
        } else if before != Priority::Low && *excess >= cost {
            *excess -= cost;
            Priority::Medium
        } else {
            Priority::Low
        }
    }
}

impl MarkerKind for SrtcmSpec {
    type Marker = Box<dyn PacketMarker>;
    fn build(&self, service: Service, _rng: &dyn Fn() -> Rng) -> Box<dyn PacketMarker> {
        Box::new(Srtcm::new(*self, service.class()))
    }
    fn needs_sender(&self) -> bool {
        false
    }
}

impl PacketMarker for Srtcm {
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

    fn meter(text: &str) -> Srtcm {
        let mut text = Notation::parse(text).unwrap();
        Srtcm::new(SrtcmSpec::read(&mut text).unwrap(), 1)
    }

    /// Returns the new priorities of packets of 1000 bytes, each given by its time in milliseconds and its existing priority.
    fn met(meter: &mut Srtcm, packets: &[(u64, Priority)]) -> Vec<Priority> {
        packets
            .iter()
            .map(|&(ms, before)| meter.meter(Time::from_nanos(ms * 1_000_000), 1000, before))
            .collect()
    }

    #[test]
    fn buckets_are_full_at_first_and_overflow_into_each_other_as_in_rfc_2697() {
        // 8 Mbit/s are 1000 bytes per millisecond; the buckets hold two and three packets.
        let mut blind = meter("srtcm:cir=8Mbit,cbs=2000B,ebs=3000B");
        let at_once = [(0, High); 6];
        assert_eq!(met(&mut blind, &at_once), [High, High, Medium, Medium, Medium, Low]);
        // The committed bucket receives the tokens of one packet, the excess bucket none.
        assert_eq!(met(&mut blind, &[(1, High), (1, High)]), [High, Low]);
        // The first two of four milliseconds fill the committed bucket, the other two go to the excess bucket.
        assert_eq!(met(&mut blind, &[(5, High); 5]), [High, High, Medium, Medium, Low]);
    }

    #[test]
    fn color_aware_packets_never_gain_a_priority() {
        let mut aware = meter("srtcm:cir=8Mbit,cbs=2000B,ebs=2000B,aware=true");
        // A MED packet takes excess tokens although committed tokens are available.
        let packets = [(0, Medium), (0, Low), (0, High), (0, Medium), (0, Medium), (0, High), (0, High)];
        assert_eq!(met(&mut aware, &packets), [Medium, Low, High, Medium, Low, High, Low]);
    }

    #[test]
    fn a_packet_that_takes_no_tokens_leaves_them_to_smaller_ones() {
        let mut blind = meter("srtcm:cir=8kbit,cbs=1500B,ebs=0B");
        let lens = [1000, 1000, 500, 1].map(|len| blind.meter(Time::ZERO, len, High));
        assert_eq!(lens, [High, Low, High, Low]);
    }

    #[test]
    fn both_buckets_empty_for_ever_are_refused() {
        let error =
            SrtcmSpec::read(&mut Notation::parse("srtcm:cir=8kbit,cbs=0B,ebs=0B").unwrap()).unwrap_err();
        assert!(error.to_string().contains("cbs or ebs above zero"), "{error}");
    }
}
