//! A port in steady state allocates nothing: a counting allocator proves it for every queue discipline.

use catnip_base::{Rate, Span, Time};
use catnip_net::loss::LossSpec;
use catnip_net::queue::{AnyQueue, QueueSpec, RedParameters, VictimRule};
use catnip_net::shape::{AnyShaper, Constant};
use catnip_net::{DropReason, Fate, Next, Packet, Port, Priority, Route};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is handed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is that of `System`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Ignore;

impl Fate for Ignore {
    fn dropped(&mut self, _now: Time, _packet: Packet, _why: DropReason) {}
}

#[test]
fn no_queue_discipline_allocates_per_packet() {
    let parameters = RedParameters {
        min_threshold: 2.0,
        max_threshold: 6.0,
        weight: 0.1,
        max_probability: 0.1,
        gentle: false,
        wait: true,
        mean_packet_bytes: 512,
    };
    let victim = VictimRule::Random;
    let specs = [
        QueueSpec::DropTail { limit: 10 },
        QueueSpec::DropTailBytes { limit: 5_000 },
        QueueSpec::DropTailWait { limit: Span::from_millis(20) },
        QueueSpec::Red { limit: 10, parameters },
        QueueSpec::CatnipGood { limit: 10, victim },
        QueueSpec::CatnipBad { limit: 10, victim },
        QueueSpec::CatnipRed { limit: 10, parameters, victim },
    ];
    let rate = Rate::from_bits_per_second(1_500_000).unwrap();
    for spec in specs {
        let queue = spec.build(&rate.into(), 1, 0);
        let loss = LossSpec::Bernoulli { probability: 0.01 }
            .build(catnip_base::Rng::new(1, catnip_base::Stream::Loss(0)));
        let lossy = AnyQueue::Lossy(Box::new(catnip_net::loss::Lossy { loss, queue }));
        let mut port = Port::new(lossy, AnyShaper::Constant(Constant::new(rate)), Span::from_millis(5));
        let mut at = Time::ZERO;
        let mut feed = |packets: u32| {
            for body in 0..packets {
                // Faster than the wire, so that the queue overflows again and again.
                at += Span::from_micros(if body % 100 < 50 { 1_000 } else { 5_000 });
                let priority = if body % 3 == 0 { Priority::High } else { Priority::Low };
                let packet = Packet { priority, ..Packet::new(at, Route::default(), 512, body) };
                port.arrive(at, packet, &mut Ignore);
                while let Next::Deliver(..) = port.poll(at, &mut Ignore) {}
            }
        };
        feed(1_000);
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        feed(100_000);
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0, "{spec:?}");
    }
}
