use super::{MarkerKind, PacketKind, PacketMarker, Position, SenderState, Service};
use crate::{Dscp, Packet, Place};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};

/// Configuration of the marker that states the place of each packet in its document (CAT-S26).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceSpec;

impl Kind for PlaceSpec {
    const USAGE: &'static [Usage] = &[(
        "i-of-n",
        "the place of a packet in its document, \"packet i of N\", in place of a priority: how many packets come before it and after it, \
         which a router with catnip-middle reads",
    )];
    const EXAMPLES: &'static [&'static str] = &["i-of-n"];
    fn read(_text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self)
    }
    fn write(&self, to: &mut Written) {
        to.name("i-of-n");
    }
}

impl MarkerKind for PlaceSpec {
    type Marker = Box<dyn PacketMarker>;
    fn build(&self, _service: Service, _rng: &dyn Fn() -> Rng) -> Self::Marker {
        Box::new(PlaceMarker)
    }
}

/// Marker that states the place of each packet with data, and that of a SYN. Windows do not count.
#[derive(Clone, Copy, Debug)]
struct PlaceMarker;

impl PacketMarker for PlaceMarker {
    fn mark(&mut self, _now: Time, sending: Option<&SenderState>, packet: &mut Packet) -> bool {
        let mark = sending.and_then(|sending| match sending.kind {
            PacketKind::Data => {
                let &SenderState { offset, window, context, segment, .. } = sending;
                let bytes = context.map(|context| context.bytes_left);
                self.mark_of_data_at(&Position { offset, bytes, window }, segment)
            }
            PacketKind::Syn => self.mark_of_handshake(),
            PacketKind::Ack(_) => None,
        });
        packet.dscp = mark.unwrap_or(packet.dscp);
        mark.is_some()
    }
    fn depends_only_on_position(&self) -> bool {
        true
    }
    fn mark_of_data_at(&self, position: &Position, segment: u32) -> Option<Dscp> {
        let segment = u64::from(segment.max(1));
        let before = position.offset / segment;
        let packets = position.bytes.map(|bytes| bytes.div_ceil(segment).max(1));
        let after = packets.map(|packets| packets.saturating_sub(before + 1));
        Some(Place::new(before, after).dscp())
    }
    fn mark_of_handshake(&self) -> Option<Dscp> {
        Some(Place::FIRST.dscp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Priority;
    use crate::mark::AnyMarker;
    use catnip_base::FlowContext;

    #[test]
    fn a_packet_states_how_far_it_is_from_both_ends_of_its_document() {
        let rng = || Rng::new(1, catnip_base::Stream::Workload(0));
        let mut marker: AnyMarker =
            "i-of-n".parse::<crate::mark::MarkerSpec>().unwrap().build(Service::Other, &rng);
        let mut priority = |kind, bytes: Option<u64>, offset| {
            let context = bytes.map(FlowContext::document);
            let sending = SenderState { kind, context, offset, segment: 1000, ..SenderState::default() };
            let mut packet = Packet::new(Time::ZERO, crate::Route::default(), 1040, 0);
            assert!(marker.mark(Time::ZERO, Some(&sending), &mut packet));
            Place::of(packet.dscp).unwrap().priority()
        };
        // A document of 20 001 bytes has 21 packets.
        let of_document = |offset| (offset, Some(20_001));
        for ((offset, bytes), expected) in [
            (of_document(2000), Priority::High),
            (of_document(3000), Priority::Medium),
            (of_document(10_000), Priority::Low),
            (of_document(13_000), Priority::Medium),
            (of_document(18_000), Priority::High),
            ((18_000, None), Priority::Low),
            ((0, None), Priority::High),
        ] {
            assert_eq!(priority(PacketKind::Data, bytes, offset), expected, "{offset} of {bytes:?}");
        }
        assert_eq!(priority(PacketKind::Syn, None, 0), Priority::High);
        let ack = SenderState { kind: PacketKind::Ack(None), ..SenderState::default() };
        let mut packet = Packet::new(Time::ZERO, crate::Route::default(), 40, 0);
        assert!(!marker.mark(Time::ZERO, Some(&ack), &mut packet) && packet.dscp == Dscp::DEFAULT);
    }
}
