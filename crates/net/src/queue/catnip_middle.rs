use super::catnip::CatnipQueue;
use super::victim::VictimRule;
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind, QueueTraits};
use crate::{Backlog, DropReason, Dscp, Packet, PacketEvents, Place, Priority};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Time};

/// Configuration of drop-tail in which an arriving packet pushes out one that is nearer to the middle of its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatnipMiddleSpec {
    limit: Capacity,
    victim: VictimRule,
}

impl Kind for CatnipMiddleSpec {
    const USAGE: &'static [Usage] = &[(
        "catnip-middle:LIMIT[,victim=…]",
        "catnip-good by places that i-of-n states: packets from the eighth on from both ends of a document, and those without a place, are \
         pushed out first, then those from the fourth on",
    )];
    const EXAMPLES: &'static [&'static str] = &["catnip-middle:5", "catnip-middle:5,victim=newest"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self { limit: Capacity::read(text)?, victim: VictimRule::read(text)? })
    }
    fn write(&self, to: &mut Written) {
        to.name("catnip-middle").value(self.limit).option("victim", self.victim, VictimRule::default());
    }
}

impl QueueKind for CatnipMiddleSpec {
    type Queue = Box<dyn QueueDiscipline>;
    fn build(&self, context: &PortContext<'_>) -> Self::Queue {
        Box::new(CatnipMiddle(CatnipQueue::good(self.limit, self.victim, context.victim_rng())))
    }
    fn buffer_bounds(&self) -> BufferBounds {
        self.limit.buffer_bounds()
    }
    fn counts_packets(&self) -> bool {
        !self.limit.is_in_bytes()
    }
    fn traits(&self) -> QueueTraits {
        QueueTraits { reads_priority: true, ..QueueTraits::default() }
    }
}

/// CATNIP-Good by [`Place`]. While they wait here, packets have the priority of their places; they leave as they came.
#[derive(Debug)]
struct CatnipMiddle(CatnipQueue);

impl QueueDiscipline for CatnipMiddle {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        let priority = Place::of(packet.dscp).map_or(Priority::Low, Place::priority);
        let packet = Packet { dscp: packet.dscp.treated_as(priority), ..packet };
        self.0.enqueue(now, packet, &mut AsTheyCame(events));
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet> {
        self.0.dequeue(now, &mut AsTheyCame(events)).map(as_it_came)
    }

    fn released(&mut self) {
        self.0.released();
    }

    fn backlog(&self) -> Backlog {
        self.0.backlog()
    }
}

fn as_it_came(packet: Packet) -> Packet {
    Packet { dscp: Dscp::new(packet.dscp.codepoint()), ..packet }
}

/// Events of packets with the priorities with which they came.
struct AsTheyCame<'a>(&'a mut dyn PacketEvents);

impl PacketEvents for AsTheyCame<'_> {
    fn dropped(&mut self, now: Time, packet: Packet, reason: DropReason) {
        self.0.dropped(now, as_it_came(packet), reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Route;
    use crate::queue::QueueSpec;
    use catnip_base::Rate;

    #[derive(Default)]
    struct Dropped(Vec<(u32, DropReason)>);

    impl PacketEvents for Dropped {
        fn dropped(&mut self, _now: Time, packet: Packet, reason: DropReason) {
            assert_eq!(packet.dscp, Dscp::new(packet.dscp.codepoint()), "it is dropped as it came");
            self.0.push((packet.body, reason));
        }
    }

    /// Returns the bodies of the packets that leave a queue of four besides the one in transmission, and of those that are dropped, with the
    /// reasons. A packet is given by the number of packets before and after it in its document; `None` has no place.
    fn outcome(places: &[Option<(u64, u64)>]) -> (Vec<u32>, Vec<(u32, DropReason)>) {
        let spec: QueueSpec = "catnip-middle:5,victim=oldest".parse().unwrap();
        let rate = Rate::from_bits_per_second(1_000_000).unwrap().into();
        let mut queue = spec.build(&PortContext::new(&rate, 1, 0));
        let mut dropped = Dropped::default();
        for (body, place) in (0..).zip(places) {
            let dscp = place.map_or(Dscp::DEFAULT, |(before, after)| Place::new(before, Some(after)).dscp());
            let packet = Packet { dscp, ..Packet::new(Time::ZERO, Route::default(), 1000, body) };
            queue.enqueue(Time::ZERO, packet, &mut dropped);
        }
        let mut left = Vec::new();
        while let Some(packet) = queue.dequeue(Time::ZERO, &mut dropped) {
            assert_eq!(packet.dscp, Dscp::new(packet.dscp.codepoint()), "it leaves as it came");
            left.push(packet.body);
        }
        (left, dropped.0)
    }

    #[test]
    fn the_middle_of_a_document_is_pushed_out_first_and_its_ends_never_for_it() {
        let (first, near, middle) = (Some((0, 30)), Some((5, 25)), Some((15, 15)));
        let (pushed, full) = (DropReason::PushedOut, DropReason::Overflow);
        assert_eq!(outcome(&[first, near, middle, near, first]), (vec![0, 1, 3, 4], vec![(2, pushed)]));
        assert_eq!(outcome(&[first, near, first, near, first]), (vec![0, 2, 3, 4], vec![(1, pushed)]));
        assert_eq!(outcome(&[first, near, first, near, middle]), (vec![0, 1, 2, 3], vec![(4, full)]));
        assert_eq!(outcome(&[first, first, first, first, first]), (vec![0, 1, 2, 3], vec![(4, full)]));
        // What states no place is in the middle.
        assert_eq!(outcome(&[None, middle, middle, middle, near]), (vec![1, 2, 3, 4], vec![(0, pushed)]));
    }
}
