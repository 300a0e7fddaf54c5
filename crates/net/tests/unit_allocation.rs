//! Verification that a port in steady state allocates no memory, for every queue discipline, with a counting allocator.

mod counting;

use catnip_base::notation::Family;
use catnip_base::{Rate, Rng, Span, Stream, Time};
use catnip_net::queue::{PortContext, QueueKind, QueueSpec};
use catnip_net::shape::{AnyShaper, Constant, RateSpec};
use catnip_net::stage::{StageKind, StageSpec};
use catnip_net::{
    ArqSpec, DropReason, Next, OutageSpec, Packet, PacketEvents, Port, PortExtensions, Priority, Route,
};

struct Ignore;

impl PacketEvents for Ignore {
    fn dropped(&mut self, _now: Time, _packet: Packet, _reason: DropReason) {}
    fn copied(&mut self, _now: Time, packet: &Packet) -> Option<u32> {
        Some(packet.body)
    }
}

#[test]
fn neither_do_links_that_hold_packets_back_copy_them_stand_still_or_send_them_again() {
    let rate: RateSpec = Rate::from_bits_per_second(1_500_000).unwrap().into();
    let outage = "every=53ms,for=5ms".parse::<OutageSpec>().unwrap();
    for in_order in [false, true] {
        let arq = format!("arq:loss=0.2,retry=9ms,tries=3,in_order={in_order}").parse::<ArqSpec>().unwrap();
        let stages =
            ["reorder:0.1,by=20ms", "duplicate:0.1", "reorder:0.1,by=3", "outage:every=1s,for=100ms"];
        let stages = stages.map(|text| text.parse::<StageSpec>().unwrap());
        let build = |(number, stage): (u32, &StageSpec)| stage.build(Rng::new(1, Stream::After(0, number)));
        let after = (0..).zip(&stages).map(build).collect();
        let arq = Some(arq.build(Rng::new(1, Stream::Arq(0))));
        let context = PortContext::new(&rate, 1, 0).with_outages(Some(outage));
        let queue = "drop-tail:10".parse::<QueueSpec>().unwrap().build(&context);
        let extras = PortExtensions { arq, after, ..PortExtensions::default() };
        let mut port = Port::with_extensions(queue, context.wire(), Span::from_millis(5), extras);
        let (mut at, mut delivered) = (Time::ZERO, 0);
        let mut feed = |packets: u32| {
            for body in 0..packets {
                at += Span::from_micros(if body % 100 < 50 { 1_000 } else { 5_000 });
                port.arrive(at, Packet::new(at, Route::default(), 512, body), &mut Ignore);
                while let Next::Deliver(..) = port.poll(at, &mut Ignore) {
                    delivered += 1;
                }
            }
        };
        feed(20_000);
        let before = counting::allocations();
        feed(100_000);
        assert_eq!(counting::allocations() - before, 0, "in order: {in_order}");
        assert!(delivered > 50_000);
    }
}

#[test]
fn no_queue_discipline_allocates_per_packet() {
    let rate = Rate::from_bits_per_second(1_500_000).unwrap();
    for spec in QueueSpec::examples() {
        let queue = spec.build(&PortContext::new(&rate.into(), 1, 0));
        let loss = "bernoulli:0.01".parse::<StageSpec>().unwrap().build(Rng::new(1, Stream::Before(0, 0)));
        let extras = PortExtensions { before: vec![loss], ..PortExtensions::default() };
        let wire = AnyShaper::Constant(Constant::new(rate));
        let mut port = Port::with_extensions(queue, wire, Span::from_millis(5), extras);
        let mut at = Time::ZERO;
        let mut feed = |packets: u32| {
            for body in 0..packets {
                // The first half of every 100 arrivals is faster than the wire, so that the queue overflows again and again.
                at += Span::from_micros(if body % 100 < 50 { 1_000 } else { 5_000 });
                let priority = if body % 3 == 0 { Priority::High } else { Priority::Low };
                let flow = (body % 7) as u16;
                let packet =
                    Packet { dscp: priority.into(), flow, ..Packet::new(at, Route::default(), 512, body) };
                port.arrive(at, packet, &mut Ignore);
                while let Next::Deliver(..) = port.poll(at, &mut Ignore) {}
            }
        };
        feed(1_000);
        let before = counting::allocations();
        feed(100_000);
        assert_eq!(counting::allocations() - before, 0, "{spec}");
    }
}
