//! Test with a counting allocator that an emulator in steady state does not allocate memory.

#[path = "../../net/tests/counting/mod.rs"]
mod counting;
mod fakes;

use catnip_base::{Rate, Span, Time};
use catnip_emu::datapath::frames::Frames;
use catnip_emu::datapath::gateways::Emulator;
use catnip_emu::link::LinkTopology;
use catnip_emu::mark::Marker;
use catnip_net::WireSpec;
use catnip_net::mark::SpmParameters;
use catnip_net::shape::RateSpec;
use fakes::{LateClock, Script, emulator, packet};

/// Turns a packet into a TCP segment with new data. `number` selects one of more connections than the marker tracks.
fn tcp(mut packet: Vec<u8>, number: u16) -> Vec<u8> {
    packet[9] = 6;
    packet[20..22].copy_from_slice(&(number % 9000).to_be_bytes());
    packet[24..28].copy_from_slice(&(u32::from(number) * 472).to_be_bytes());
    packet[32] = 0x50;
    packet[40..48].copy_from_slice(b"HTTP/1.1");
    packet
}

#[test]
fn an_emulator_does_not_allocate_per_packet() {
    let rate = Rate::from_bits_per_second(1_500_000).unwrap();
    for queue in ["drop-tail:10", "catnip-good:10"] {
        let wire = WireSpec {
            rate: RateSpec::Constant(rate),
            delay: Span::from_millis(5).into(),
            queue: queue.parse().unwrap(),
            jitter: None,
            before: vec!["bernoulli:0.01".parse().unwrap()],
            after: vec![],
            conditioner: vec![],
            outage: None,
            link_layer: None,
        };
        let link = LinkTopology::new(&wire, &wire);
        let mut at = Time::ZERO;
        let mut incoming = |to| {
            let mut one = |number: u16| {
                // The arrival rate exceeds the rate of the wire, so that the queue overflows repeatedly.
                at += Span::from_micros(if number % 100 < 50 { 1_000 } else { 5_000 });
                let bytes = packet(to, number, 512, if number.is_multiple_of(3) { 10 } else { 14 });
                (at, if number.is_multiple_of(2) { tcp(bytes, number) } else { bytes })
            };
            let packets: Vec<_> = (0..20_000).map(&mut one).collect();
            at = Time::ZERO;
            packets
        };
        let (inside, outside) = (incoming(2), incoming(1));
        let alarms = inside.iter().map(|(at, _)| *at).collect();
        let clock = LateClock::new(alarms, vec![Span::from_micros(300), Span::from_millis(4)]);
        let devices = [inside, outside].map(|packets| Script::new(&clock, packets).with_capacity_for(20_000));
        let marker = Marker::new(vec![Some(SpmParameters::FULL); 2], true);
        let marked = |frames: Frames<_>| frames.with_marker(Some(marker));
        let mut emulator = emulator(&link, 1, &clock, devices, marked, link.monitor());
        let turns = |emulator: &mut Emulator<_, Script, (), _>, until: usize| {
            while emulator.gateways()[0].io.remaining() > until {
                let next = emulator.poll().unwrap();
                emulator.sleep_until(next);
            }
        };
        turns(&mut emulator, 18_000);
        let before = counting::allocations();
        turns(&mut emulator, 0);
        // The packets of the fake devices are freed, which does not count as an allocation.
        assert_eq!(counting::allocations() - before, 0, "{:?}", wire.queue);
        assert!(emulator.world.watch().directions[0].dropped.iter().sum::<u64>() > 100);
    }
}
