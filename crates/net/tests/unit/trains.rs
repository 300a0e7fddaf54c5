//! Recorded trains of cellular links, as CellReplay plays them.

use catnip_base::{Span, Time};
use catnip_net::queue::{PortContext, QueueKind, QueueSpec};
use catnip_net::shape::RateSpec;
use catnip_net::{Approach, DropReason, Next, Packet, PacketEvents, Port, PortExtensions, Route};

#[derive(Default)]
struct Drops(u32);

impl PacketEvents for Drops {
    fn dropped(&mut self, _at: Time, _packet: Packet, _reason: DropReason) {
        self.0 += 1;
    }
}

/// Three trains, with delays that fall from 20 to 10 ms and rise again.
const LIGHT: &str = "0 20 0 0 5 10\n100 10 0 2\n200 30 1\n";
/// One opportunity per 5 ms.
const HEAVY: &str = "5\n10\n15\n20\n";

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn hand_made(file: &str) -> Result<String, String> {
    match file {
        "light" => Ok(LIGHT.to_string()),
        "heavy" => Ok(HEAVY.into()),
        "offsets" => Ok("100 0\n1400 13\n".into()),
        _ => Err(format!("{file}: no such file")),
    }
}

/// Returns when packets with these arrivals (ms) and lengths are delivered (ms), and the number of drops.
fn deliveries(options: &str, queue: &str, packets: &[(u64, u32)]) -> (Vec<f64>, u32) {
    played(&format!("cell-trains:light,heavy=heavy{options}"), hand_made, queue, packets)
}

fn played(
    text: &str,
    open: impl Fn(&str) -> Result<String, String>,
    queue: &str,
    packets: &[(u64, u32)],
) -> (Vec<f64>, u32) {
    let rate = RateSpec::read(text, open).unwrap();
    assert_eq!(rate.to_string(), text);
    let queue: QueueSpec = queue.parse().unwrap();
    let context = PortContext::new(&rate, 1, 0);
    let approach = rate.trains().map(|trains| Approach::new(trains.clone()));
    let extensions = PortExtensions { approach, ..PortExtensions::default() };
    let mut port = Port::with_extensions(queue.build(&context), rate.build(), Span::ZERO, extensions);
    let mut drops = Drops::default();
    let mut delivered = vec![f64::INFINITY; packets.len()];
    let mut waiting = packets.iter().zip(0..).peekable();
    let mut now = Time::ZERO;
    loop {
        let arrival = waiting.peek().map(|((ms, _), _)| at(*ms));
        match port.poll(now, &mut drops) {
            Next::Deliver(when, packet) => {
                delivered[packet.body as usize] = when.as_nanos() as f64 / 1e6;
                continue;
            }
            Next::Wait(next) if arrival.is_none_or(|arrival| next <= arrival) => now = next,
            Next::Idle if arrival.is_none() => return (delivered, drops.0),
            _ => {
                let (&(ms, len), number) = waiting.next().expect("one is peeked at");
                now = at(ms);
                port.arrive(now, Packet::new(now, Route::default(), len, number), &mut drops);
            }
        }
    }
}

#[test]
fn packets_are_released_when_cellreplay_releases_them() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/unit/data/cellreplay");
    let open =
        |file: &str| std::fs::read_to_string(format!("{data}/{file}")).map_err(|error| error.to_string());
    for (case, light, options, within_ms) in [
        ("plain", "constant", "", 0.0),
        ("offsets", "constant", ",size_offsets=size-offsets.txt", 0.0),
        ("idle", "constant", ",idle=40ms", 0.0),
        ("offsets-idle", "constant", ",idle=15ms,size_offsets=size-offsets.txt", 0.0),
        // CellReplay cuts interpolated delays off to whole milliseconds.
        ("varying", "varying", "", 1.0),
    ] {
        let lines = open(&format!("{case}.txt")).unwrap();
        let rows = lines.lines().map(|line| {
            let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
            ((numbers[0], numbers[1] as u32), numbers[2] as f64)
        });
        let (packets, expected): (Vec<(u64, u32)>, Vec<f64>) = rows.unzip();
        let text = format!("cell-trains:light-{light}.txt,heavy=heavy.txt{options}");
        let (delivered, _) = played(&text, open, "drop-tail:1GB", &packets);
        for (number, (ours, theirs)) in delivered.into_iter().zip(expected).enumerate() {
            let late_ms = ours - theirs;
            assert!(
                (0.0..=within_ms).contains(&late_ms),
                "{case}, packet {number}: {ours} ms, there {theirs} ms"
            );
        }
    }
}

#[test]
fn the_packets_of_a_train_have_its_opportunities() {
    // The first packet has the delay of 20 ms and the first opportunity. The next one comes at once, then one after 5 and one after 10 ms.
    let (delivered, _) = deliveries("", "drop-tail:100", &[(0, 1400); 4]);
    assert_eq!(delivered, [20.0, 20.0, 25.0, 30.0]);
    // Small packets share an opportunity. A packet that comes after an opportunity has the next one.
    let (delivered, _) =
        deliveries(",idle=10ms", "drop-tail:100", &[(0, 700), (0, 700), (2, 700), (3, 700), (4, 100)]);
    assert_eq!(delivered, [20.0, 20.0, 25.0, 25.0, 30.0]);
}

#[test]
fn packets_after_the_train_wait_for_opportunities_of_the_saturated_link() {
    let (delivered, _) = deliveries("", "drop-tail:100", &[(0, 1400); 8]);
    // The train has opportunities for four packets. The others reach the queue with the last one, at 30 ms, and miss the
    // opportunity of that time.
    assert_eq!(delivered, [20.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0]);
    let (delivered, drops) = deliveries("", "drop-tail:2", &[(0, 1400); 8]);
    assert_eq!(
        (drops, &delivered[4..]),
        (2, &[35.0, 40.0, f64::INFINITY, f64::INFINITY][..]),
        "one waits for its end, one behind it"
    );
    // A packet of the train that comes to a queue with packets waits in it, so that packets keep their order.
    for (count, last) in [(6, 47.9), (12, 75.0)] {
        let all: Vec<(u64, u32)> = vec![(0, 1400); count].into_iter().chain([(31, 1400)]).collect();
        let (delivered, _) = deliveries(",idle=0ms", "drop-tail:100", &all);
        assert_eq!(delivered[count], last, "at 31 ms, a train with 16.9 ms begins");
    }
}

#[test]
fn a_train_starts_when_the_link_was_idle() {
    // At 50 ms, the delay is halfway between 20 and 10 ms; at 150 ms between 10 and 30 ms.
    assert_eq!(deliveries("", "drop-tail:9", &[(50, 1400), (150, 1400)]).0, [65.0, 170.0]);
    // The recording repeats after 200 ms.
    assert_eq!(deliveries("", "drop-tail:9", &[(250, 1400), (1150, 1400)]).0, [265.0, 1170.0]);
    // The train of 0 ms releases its last packet at 20 ms. Without a time of idleness, the next train starts at once.
    let packets = [(0, 1400), (2, 1400), (40, 1400)];
    assert_eq!(deliveries("", "drop-tail:9", &packets).0, [20.0, 21.8, 56.0]);
    // With 40 ms, the packet of 2 ms has the opportunity at 5 ms, and that of 40 ms comes after all opportunities of the train.
    assert_eq!(deliveries(",idle=40ms", "drop-tail:9", &packets).0, [20.0, 25.0, 65.0]);
}

#[test]
fn longer_packets_are_later_but_never_overtake() {
    let (delivered, _) =
        deliveries(",size_offsets=offsets", "drop-tail:9", &[(0, 750), (60, 1400), (120, 40)]);
    assert_eq!(delivered, [26.5, 60.0 + 14.0 + 13.0, 120.0 + 14.0]);
    let (delivered, _) = deliveries(",size_offsets=offsets", "drop-tail:9", &[(0, 1400), (0, 100)]);
    assert_eq!(delivered, [33.0, 35.0], "the second waits in the queue for an opportunity");
}

#[test]
fn what_is_no_recording_is_refused() {
    let read = |text: &str, light: &str, heavy: &str, offsets: &str| {
        let open = |file: &str| match file {
            "light" => Ok(light.to_string()),
            "heavy" => Ok(heavy.into()),
            "offsets" => Ok(offsets.into()),
            _ => Err(format!("{file}: no such file")),
        };
        RateSpec::read(text, open).unwrap_err().to_string()
    };
    let all = "cell-trains:light,heavy=heavy,size_offsets=offsets";
    for (text, light, heavy, offsets, problem) in [
        ("cell-trains:light", LIGHT, HEAVY, "", "heavy="),
        ("cell-trains:none,heavy=heavy", LIGHT, HEAVY, "", "none: no such file"),
        ("cell-trains:light,heavy=heavy,bytes=0", LIGHT, HEAVY, "", "positive number of bytes"),
        (all, "0 20\n", HEAVY, "", "light: expected at least two trains"),
        (all, "0 20\n5\n", HEAVY, "", "light: line 2: \"5\""),
        (all, "0 20\n0 20\n", HEAVY, "", "light: line 2: \"0 20\": the times of trains must increase"),
        (all, "0 20 3 2\n5 20\n", HEAVY, "", "light: line 1: \"0 20 3 2\": opportunities must not decrease"),
        (all, LIGHT, "5\n3\n", "100 1\n", "heavy: line 2: 3 comes after 5"),
        (all, LIGHT, HEAVY, "", "offsets: no lengths"),
        (all, LIGHT, HEAVY, "100 1\n100 2\n", "offsets: line 2: \"100 2\""),
    ] {
        let error = read(text, light, heavy, offsets);
        assert!(error.contains(problem), "{text}: {error}");
    }
}
