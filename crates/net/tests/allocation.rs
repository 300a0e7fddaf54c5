//! A port in steady state allocates nothing: a counting allocator proves it for every queue discipline.

mod counting;

use catnip_base::{Rate, Rng, Span, Stream, Time};
use catnip_net::queue::{QueueKind, QueueSpec, Site};
use catnip_net::shape::{AnyShaper, Constant};
use catnip_net::stage::{StageKind, StageSpec};
use catnip_net::{Colour, DropReason, Extras, Fate, Next, Packet, Port, Route};

struct Ignore;

impl Fate for Ignore {
    fn dropped(&mut self, _now: Time, _packet: Packet, _why: DropReason) {}
}

#[test]
fn no_queue_discipline_allocates_per_packet() {
    let queues = [
        "drop-tail:10",
        "drop-tail:5000B",
        "drop-tail:20ms",
        "red:10,weight=0.1",
        "catnip-good:10",
        "catnip-bad:10",
        "catnip-red:10,weight=0.1",
        "shaper:10,high=250kbit/6000B,med=110kbit/600B",
        "scheduler:10,high=250kbit/6000B,med=110kbit/600B",
        "wrr:af1=20(drop-tail:5),rest=80(drop-tail:5000B)",
        "codel:10",
        "fq-codel:10,flows=4",
        "fq-codel:5000B,target=1ms,interval=9ms",
        "rio:10,low=50%-99%,med=50%-99%,high=50%-99%",
    ];
    let rate = Rate::from_bits_per_second(1_500_000).unwrap();
    for text in queues {
        let queue = text.parse::<QueueSpec>().unwrap().build(&Site::new(&rate.into(), 1, 0));
        let loss = "bernoulli:0.01".parse::<StageSpec>().unwrap().build(Rng::new(1, Stream::Before(0, 0)));
        let extras = Extras { before: vec![loss], ..Extras::default() };
        let wire = AnyShaper::Constant(Constant::new(rate));
        let mut port = Port::new(queue, wire, Span::from_millis(5)).with(extras);
        let mut at = Time::ZERO;
        let mut feed = |packets: u32| {
            for body in 0..packets {
                // Faster than the wire, so that the queue overflows again and again.
                at += Span::from_micros(if body % 100 < 50 { 1_000 } else { 5_000 });
                let priority = if body % 3 == 0 { Colour::Green } else { Colour::Red };
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
        assert_eq!(counting::allocations() - before, 0, "{text}");
    }
}
