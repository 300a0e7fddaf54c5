//! Comparison of the marking and congestion control code of the kernel programs with that of the simulator: equal events give equal
//! results.

use catnip_agent as _;
use catnip_base::{Rng, Stream};
use catnip_law::bucket::{Bucket, MAX_DEPTH};
use catnip_law::newcwv::{NewCwv, UNDEFINED, Windows};
use catnip_law::spm::{self, Position, Rules, UNKNOWN};
use catnip_law::tcp_state::{self, Thresholds};
use catnip_law::{eca, last_window};
use catnip_wire::http::{Head, Progress};

unsafe extern "C" {
    fn c_spm_reason(rules: *const Rules, position: *const Position, segment: u32) -> u32;
    fn c_tcp_state_level(
        of: *const Thresholds,
        window: u32,
        is_protected: bool,
        first: u32,
        second: u32,
    ) -> u32;
    fn c_bucket_init(bucket: *mut Bucket, rate: u64, depth: u64);
    fn c_bucket_admits(bucket: *mut Bucket, now: u64, len: u32) -> bool;
    fn c_bucket_earn(bucket: *mut Bucket, len: u32, share_pct: u32);
    fn c_eca_last_round(window: u64, remaining: u64) -> bool;
    fn c_eca_final_window(window: u64, remaining: u64) -> bool;
    fn c_last_window_gap_ns(unsent: u64, next: u64, srtt_ns: u64) -> u64;
    fn c_newcwv_init(it: *mut NewCwv, last_only: bool, initial_window: u64, segment: u64);
    fn c_newcwv_on_ack(it: *mut NewCwv, now: u64, snd_una: u64, acked: u64, next: u64, srtt: u64);
    fn c_newcwv_on_ack_while_reduced(it: *mut NewCwv, snd_una: u64);
    fn c_newcwv_check_nvp(it: *mut NewCwv, now: u64, windows: *mut Windows) -> bool;
    fn c_newcwv_grows(it: *const NewCwv, cwnd: u64, cwnd_limited: bool) -> bool;
    fn c_newcwv_on_congestion(it: *mut NewCwv, cwnd: u64, in_flight: u64) -> u64;
    fn c_newcwv_on_timeout(it: *mut NewCwv, now: u64);
    fn c_newcwv_on_recovered(it: *mut NewCwv, now: u64, retransmitted: u64) -> u64;
    fn c_http(bytes: *const u8, len: u64, piece: u64, body: *mut u64) -> u64;
}

/// Number of random events in each comparison.
const EVENTS: u32 = 1_000_000;

/// Generator of random numbers of all magnitudes, including the smallest and the largest.
struct Numbers(Rng);

impl Numbers {
    fn new(stream: u32) -> Self {
        Self(Rng::new(1, Stream::Workload(stream)))
    }

    fn any(&mut self) -> u64 {
        let bits = self.0.below(65);
        let (high, low) = (u64::from(self.0.next_u32()), u64::from(self.0.next_u32()));
        let number = (high << 32 | low).checked_shr(bits).unwrap_or(0);
        match self.0.below(16) {
            0 => 0,
            1 => u64::MAX,
            2 => number.wrapping_neg(),
            _ => number,
        }
    }

    fn small(&mut self, below: u32) -> u64 {
        self.0.below(below).into()
    }

    fn flag(&mut self) -> bool {
        self.0.below(2) == 1
    }
}

#[test]
fn marks_are_the_same() {
    let mut some = Numbers::new(1);
    for _ in 0..EVENTS {
        let wild = some.flag();
        let mut size = |usual: u32| if wild { some.any() } else { some.small(usual) };
        let rules = Rules { leading: size(5) as u32, trailing: size(5) as u32, small_window: size(5) as u32 };
        let (offset, bytes, window) = (size(20_000), size(20_000), size(9_000));
        let bytes = if some.small(4) == 0 { UNKNOWN } else { bytes };
        let (position, segment) =
            (Position { offset, bytes, window }, if wild { some.any() as u32 } else { 1000 });
        // SAFETY: the function reads the rules and the place.
        let theirs = unsafe { c_spm_reason(&rules, &position, segment) };
        assert_eq!(
            theirs,
            spm::reason(&rules, &position, segment) as u32,
            "{rules:?} {position:?} {segment}"
        );

        let high = if wild { some.any() as u32 } else { some.small(10) as u32 };
        let thresholds = Thresholds { high, med: high.saturating_add(some.small(10) as u32) };
        let window = if wild { some.any() as u32 } else { some.small(40) as u32 };
        let draws = if some.flag() { [some.any() as u32, some.any() as u32] } else { [tcp_state::NEVER; 2] };
        let is_protected = some.small(8) == 0;
        let mut drawn = draws.into_iter();
        let ours = tcp_state::level(&thresholds, window, is_protected, || drawn.next().unwrap_or_default());
        // The first draw decides HIGH and the second MED, in both implementations.
        // SAFETY: the function reads the thresholds.
        let theirs = unsafe { c_tcp_state_level(&thresholds, window, is_protected, draws[0], draws[1]) };
        assert_eq!(theirs, ours as u32, "{thresholds:?} {window} {is_protected} {draws:?}");
    }
}

#[test]
fn early_congestion_avoidance_and_the_last_window_are_the_same() {
    let mut some = Numbers::new(2);
    for _ in 0..EVENTS {
        let wild = some.small(4) == 0;
        let mut size = || if wild { some.any() } else { some.small(50) };
        let (window, remaining) = (size(), size());
        // SAFETY: the functions take and return numbers.
        let theirs = unsafe { (c_eca_last_round(window, remaining), c_eca_final_window(window, remaining)) };
        assert_eq!(
            theirs,
            (eca::last_round(window, remaining), eca::final_window(window, remaining)),
            "{window} {remaining}"
        );
        let srtt = some.any();
        // SAFETY: the function takes and returns numbers.
        let theirs = unsafe { c_last_window_gap_ns(remaining, window, srtt) };
        assert_eq!(theirs, last_window::gap_ns(remaining, window, srtt), "{remaining} {window} {srtt}");
    }
}

#[test]
fn buckets_are_the_same() {
    let mut some = Numbers::new(3);
    for _ in 0..EVENTS / 100 {
        let wild = some.flag();
        let (rate, depth) = if wild {
            (some.any().max(1), some.any())
        } else {
            (some.small(10_000_000) + 1, some.small(20_000))
        };
        let mut ours = Bucket::new(rate, depth);
        let mut theirs = Bucket::new(1, 1);
        // SAFETY: the function writes the bucket.
        unsafe { c_bucket_init(&mut theirs, rate, depth) };
        assert_eq!(ours, theirs, "{rate} {depth} {MAX_DEPTH}");
        let mut now = 0u64;
        for _ in 0..100 {
            // A clock can seem to run backwards if two processors read it.
            now = if wild { some.any() } else { now + some.small(50_000_000) };
            let len = if wild { some.any() as u32 } else { some.small(3000) as u32 };
            let expected = ours.admits(now, len);
            // SAFETY: the function reads and writes the bucket.
            assert_eq!(unsafe { c_bucket_admits(&mut theirs, now, len) }, expected);
            let share_pct = if wild { some.any() as u32 } else { some.small(101) as u32 };
            ours.earn(len, share_pct);
            // SAFETY: the function reads and writes the bucket.
            unsafe { c_bucket_earn(&mut theirs, len, share_pct) };
            assert_eq!(ours, theirs, "at {now}, {len} bytes");
        }
    }
}

#[test]
fn newcwv_is_the_same() {
    let mut some = Numbers::new(4);
    let (mut reductions, mut repairs) = (0, 0);
    for _ in 0..EVENTS / 200 {
        let (wild, last_only) = (some.small(4) == 0, some.small(4) == 0);
        let mut ours = NewCwv::new(last_only, 14_480, 1448);
        let mut theirs = NewCwv::new(false, 0, 0);
        // SAFETY: the function writes the state.
        unsafe { c_newcwv_init(&mut theirs, last_only, 14_480, 1448) };
        let mut windows = Windows { cwnd: 14_480, ssthresh: UNDEFINED };
        let (mut now, mut snd_una, mut next) = (some.small(1_000_000), 0u64, 0u64);
        for _ in 0..200 {
            now = if wild {
                some.any()
            } else {
                now.saturating_add(match some.small(64) {
                    0 => some.small(4) * 200_000_000_000,
                    1..8 => some.small(2_000_000_000),
                    _ => some.small(30_000_000),
                })
            };
            match some.small(16) {
                0 => {
                    let in_flight = next.saturating_sub(snd_una);
                    let expected = ours.on_congestion(windows.cwnd, in_flight);
                    // SAFETY: here and below the functions read and write the state.
                    assert_eq!(
                        unsafe { c_newcwv_on_congestion(&mut theirs, windows.cwnd, in_flight) },
                        expected
                    );
                    repairs += u32::from(expected != UNDEFINED);
                }
                1 => {
                    let retransmitted = if wild { some.any() } else { some.small(20_000) };
                    let expected = ours.on_recovered(now, retransmitted);
                    assert_eq!(unsafe { c_newcwv_on_recovered(&mut theirs, now, retransmitted) }, expected);
                    if expected != UNDEFINED {
                        windows = Windows { cwnd: expected, ssthresh: expected };
                    }
                }
                2 if some.flag() => {
                    ours.on_timeout(now);
                    unsafe { c_newcwv_on_timeout(&mut theirs, now) };
                    windows.cwnd = 1448;
                }
                3 => {
                    snd_una = snd_una.saturating_add(some.small(3000)).min(next);
                    ours.on_ack_while_reduced(snd_una);
                    unsafe { c_newcwv_on_ack_while_reduced(&mut theirs, snd_una) };
                }
                4..10 => next = next.wrapping_add(some.small(30_000)),
                _ => {
                    let before = snd_una;
                    snd_una =
                        if wild { some.any() } else { snd_una.saturating_add(some.small(6000)).min(next) };
                    let (acked, srtt) = (
                        snd_una.saturating_sub(before),
                        if some.flag() { 0 } else { some.small(900_000_000) },
                    );
                    ours.on_ack(now, snd_una, acked, next, srtt);
                    unsafe { c_newcwv_on_ack(&mut theirs, now, snd_una, acked, next, srtt) };
                }
            }
            for _ in 0..20 {
                let (mut ours_windows, mut theirs_windows) = (windows, windows);
                let is_reduced = ours.check_nvp(now, &mut ours_windows);
                assert_eq!(unsafe { c_newcwv_check_nvp(&mut theirs, now, &mut theirs_windows) }, is_reduced);
                assert_eq!(ours_windows, theirs_windows);
                windows = ours_windows;
                reductions += u32::from(is_reduced);
                if !is_reduced {
                    break;
                }
            }
            let limited = some.flag();
            let grows = ours.grows(windows.cwnd, limited);
            assert_eq!(unsafe { c_newcwv_grows(&theirs, windows.cwnd, limited) }, grows);
            windows.cwnd += if grows { some.small(1448) } else { 0 };
            assert_eq!(ours, theirs);
        }
    }
    assert!(reductions > 1000 && repairs > 1000, "{reductions} reductions and {repairs} repairs are too few");
}

/// Returns a nearly valid HTTP header, composed of valid and invalid lines.
fn header(some: &mut Numbers) -> Vec<u8> {
    const LINES: [&str; 24] = [
        "HTTP/1.1 200 OK",
        "HTTP/1.0 304 Not Modified",
        "HTTP/1.1 100 Continue",
        "HTTP/1.1 204",
        "HTTP/1.1 101 Switching",
        "HTTP/2 200",
        "HTTP/1.1 2x0 OK",
        "HTTP/1.",
        "Content-Length: ",
        "content-length:",
        "CONTENT-LENGTH:\t",
        "Content-Length : ",
        "Transfer-Encoding: chunked",
        "transfer-encoding:",
        "Server: nginx",
        "X-Content-Length: 7",
        "Date: ",
        "",
        "  ",
        "\t",
        "Content-Length: 12, 12",
        "Content-Length: 00000000000000000000000000000000012",
        "Connection: close",
        "Content-Length: 1234",
    ];
    let mut text = Vec::new();
    if some.small(4) > 0 {
        text.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    for _ in 0..some.small(8) {
        text.extend_from_slice(LINES[some.small(LINES.len() as u32) as usize].as_bytes());
        match some.small(6) {
            0 => text.extend_from_slice((some.any() & (u64::MAX >> 4)).to_string().as_bytes()),
            1 => text.extend_from_slice(b"99999999999999999999999"),
            2 => text.extend(std::iter::repeat_n(b' ', some.small(60) as usize)),
            3 => text.push(some.small(256) as u8),
            _ => {}
        }
        text.extend_from_slice(if some.small(5) == 0 { b"\n" } else { b"\r\n" });
    }
    if some.flag() {
        text.extend_from_slice(b"\r\n");
    }
    text
}

/// Returns the length of a header, 0 if it has no end, and that of the body, as the law in C has them.
fn read_in_pieces(text: &[u8], piece: u64) -> (usize, Option<u64>) {
    let mut body = UNKNOWN;
    // SAFETY: the function reads the text and writes the body.
    let used = unsafe { c_http(text.as_ptr(), text.len() as u64, piece, &mut body) };
    (used as usize, Some(body).filter(|&body| used > 0 && body != UNKNOWN))
}

#[test]
fn headers_that_are_too_long_end_at_the_same_byte() {
    for begin in 0..20 {
        let mut text = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
        text.resize(text.len() + begin, b'a');
        while text.len() < 65 << 10 {
            text.extend_from_slice(b"abcdefghijklmnopq\r\nY: ");
        }
        let Progress::Complete { used, body: None } = Head::default().read(&text) else { panic!("{begin}") };
        for piece in [1, 7, 256] {
            assert_eq!(read_in_pieces(&text, piece), (used, None), "{begin} {piece}");
        }
    }
}

#[test]
fn headers_end_at_the_same_byte_and_say_the_same_length() {
    let mut some = Numbers::new(5);
    let (mut known, mut unknown, mut open) = (0, 0, 0);
    for _ in 0..EVENTS / 2 {
        let text = header(&mut some);
        let expected = match Head::default().read(&text) {
            Progress::More => (0, None),
            Progress::Complete { used, body } => (used, body),
        };
        let piece = [1, 7, 256][some.0.below(3) as usize];
        assert_eq!(read_in_pieces(&text, piece), expected, "{piece} {:?}", String::from_utf8_lossy(&text));
        match expected {
            (0, _) => open += 1,
            (_, None) => unknown += 1,
            _ => known += 1,
        }
    }
    assert!(known > 10_000 && unknown > 10_000 && open > 10_000, "{known} {unknown} {open}");
}
