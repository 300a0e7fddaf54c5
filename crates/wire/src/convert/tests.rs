use super::*;
use proptest::prelude::*;

const ANNOUNCEMENT: Announcement =
    Announcement { mss: 1460, window_scale: Some(7), sack: true, timestamps: false };

fn flags(syn: bool, ack: bool, fin: bool) -> Flags {
    Flags { syn, ack, fin }
}

/// Two connected translations: each endpoint receives the segments that the other endpoint sends.
struct Pair {
    ends: [Translation; 2],
}

impl Pair {
    fn new(initial: [u32; 2], announcements: [Announcement; 2]) -> Self {
        let [a, b] = [0, 1].map(|i| Translation::new(initial[i], announcements[i]));
        Self { ends: [a, b] }
    }

    /// Creates a pair that has completed the handshake.
    fn open(initial: [u32; 2], announcements: [Announcement; 2]) -> Self {
        let mut pair = Self::new(initial, announcements);
        let syn = |ack| Segment { window: 65_535, flags: flags(true, ack, false), ..Segment::default() };
        assert_eq!(pair.carry(0, &syn(false), 0), Incoming::Segment(syn(false)));
        assert_eq!(pair.carry(1, &syn(true), 0), Incoming::Segment(syn(true)));
        pair
    }

    fn carry(&mut self, from: usize, segment: &Segment, invalid: u32) -> Incoming {
        let header = self.ends[from].outgoing(segment);
        let header = TcpHeader { sequence: header.sequence.wrapping_add(invalid), ..header };
        self.deliver(1 - from, &header, segment.len)
    }

    fn deliver(&mut self, to: usize, header: &TcpHeader, len: u32) -> Incoming {
        let localhost = std::net::Ipv4Addr::LOCALHOST.into();
        let addresses =
            crate::Addresses { source: localhost, destination: localhost, traffic_class: 0, hop_limit: 1 };
        let mut buffer = vec![0; 80 + len as usize];
        let len = header.write(&addresses, &vec![0; len as usize], &mut buffer).unwrap();
        let ip = crate::Ip::parse(&buffer[..len]).unwrap();
        self.ends[to].incoming(&Tcp::parse(ip.payload()).unwrap()).unwrap()
    }
}

#[test]
fn a_number_unwraps_to_the_nearest_value() {
    assert_eq!(unwrap_sequence(0, 5), Some(5));
    assert_eq!(unwrap_sequence(0xffff_fff0, 5), Some(0x1_0000_0005));
    assert_eq!(unwrap_sequence(0x1_0000_0005, 0xffff_fff0), Some(0xffff_fff0));
    assert_eq!(unwrap_sequence(5, 0xffff_fff0), None, "there is nothing before byte 0");
    assert_eq!(unwrap_sequence(u64::MAX, 5), None);
}

#[test]
fn ends_that_know_each_other_write_what_ends_with_a_handshake_behind_them_write() {
    let initial = [u32::MAX - 1, 7];
    let sack = SackBlocks::new(500, [(700, 900)].into_iter());
    let data =
        Segment { seq: 0, len: 100, window: 9_000, flags: flags(false, true, false), ..Segment::default() };
    let ack =
        Segment { ack: 500, window: 70_000, sack, flags: flags(false, true, false), ..Segment::default() };
    for announcement in [ANNOUNCEMENT, Announcement { window_scale: None, sack: false, ..ANNOUNCEMENT }] {
        let mut met = Pair::open(initial, [announcement; 2]);
        let mut known =
            [(0, 1), (1, 0)].map(|(us, them)| Translation::between(initial[us], initial[them], announcement));
        for (known, met) in known.iter_mut().zip(&mut met.ends) {
            for segment in [&data, &ack] {
                assert_eq!(known.outgoing(segment), met.outgoing(segment));
            }
        }
        // The first SYN is also the same: it has no acknowledgement, even for a known peer.
        let mut strangers = Pair::new(initial, [announcement; 2]);
        let mut known = Translation::between(initial[0], initial[1], announcement);
        let syn = Segment { flags: flags(true, false, false), ..Segment::default() };
        assert_eq!(known.outgoing(&syn), strangers.ends[0].outgoing(&syn));
    }
}

#[test]
fn a_host_announces_its_segment_its_blocks_and_the_least_shift_that_shows_its_window() {
    use catnip_tcp::{profile, recovery::RecoveryKind};
    let shift = |receive_window| {
        let config = TcpConfig { receive_window, ..profile::rfc() };
        Announcement::of(&config).window_scale.unwrap()
    };
    assert_eq!([0, 65_535, 65_536, 131_070, 131_071].map(shift), [0, 0, 1, 1, 2]);
    // RFC 7323, section 2.3: the shift is at most 14.
    assert_eq!(shift(1 << 40), 14);
    let reno = TcpConfig { recovery: RecoveryKind::Reno, segment_bytes: 70_000, ..profile::rfc() };
    let (reno, sack) = (Announcement::of(&reno), Announcement::of(&profile::rfc()));
    assert_eq!((reno.mss, reno.sack, sack.mss, sack.sack), (65_535, false, 1448, true));
}

#[test]
fn the_syn_stands_before_byte_0_and_the_fin_behind_the_last() {
    let mut end = Translation::new(u32::MAX, ANNOUNCEMENT);
    let syn = end.outgoing(&Segment { flags: flags(true, false, false), ..Segment::default() });
    assert_eq!((syn.sequence, syn.flags), (u32::MAX, TcpFlags::SYN));
    let last = Segment { seq: 0, len: 10, flags: flags(false, true, true), ..Segment::default() };
    assert_eq!(end.outgoing(&last).sequence, 0);
    let bare = Segment { seq: 11, flags: flags(false, true, false), ..Segment::default() };
    assert_eq!(end.outgoing(&bare).sequence, 11, "a bare ACK stands behind data and FIN");
}

#[test]
fn options_of_an_answer_are_those_that_were_offered() {
    let plain = Announcement { mss: 536, window_scale: None, sack: false, timestamps: false };
    for (ours, theirs, scaled, sack) in [
        (ANNOUNCEMENT, ANNOUNCEMENT, true, true),
        (ANNOUNCEMENT, plain, false, false),
        (plain, ANNOUNCEMENT, false, false),
    ] {
        let mut pair = Pair::new([1, 2], [theirs, ours]);
        let syn = Segment { window: 65_535, flags: flags(true, false, false), ..Segment::default() };
        pair.carry(0, &syn, 0);
        let answer = pair.ends[1].outgoing(&Segment { flags: flags(true, true, false), ..syn });
        assert_eq!(answer.options.mss, Some(ours.mss));
        assert_eq!(answer.options.window_scale.is_some(), scaled);
        assert_eq!(answer.options.sack_permitted, sack);
        assert_eq!(answer.acknowledgement, 2);
        assert_eq!(pair.ends[1].peer_mss(), Some(theirs.mss));
    }
}

#[test]
fn windows_are_scaled_after_the_handshake_only() {
    let mut pair =
        Pair::open([0, 0], [ANNOUNCEMENT, Announcement { window_scale: Some(20), ..ANNOUNCEMENT }]);
    let segment = Segment { window: 1 << 20, flags: flags(false, true, false), ..Segment::default() };
    assert_eq!(pair.ends[0].outgoing(&segment).window, 1 << 13);
    assert_eq!(pair.ends[1].outgoing(&segment).window, 1 << 6, "a shift above 14 is 14");
    assert_eq!(pair.carry(0, &segment, 0), Incoming::Segment(segment));
    assert_eq!(pair.carry(1, &segment, 0), Incoming::Segment(segment), "each side's own shift");
    let huge = Segment { window: u32::MAX, ..segment };
    assert_eq!(pair.ends[0].outgoing(&huge).window, u16::MAX);
    assert_eq!(
        Translation::new(0, ANNOUNCEMENT)
            .outgoing(&Segment { flags: flags(true, false, false), ..huge })
            .window,
        u16::MAX
    );
}

#[test]
fn numbers_outside_of_the_window_are_stray() {
    let mut pair = Pair::open([100, 200], [ANNOUNCEMENT; 2]);
    let data = Segment { len: 10, window: 65_535, flags: flags(false, true, false), ..Segment::default() };
    assert!(matches!(pair.carry(0, &data, 65_535), Incoming::Segment(_)));
    assert_eq!(pair.carry(0, &data, 65_536), Incoming::Unacceptable);
    assert_eq!(pair.carry(0, &data, 1 << 31), Incoming::Unacceptable);
    assert_eq!(pair.carry(0, &data, u32::MAX), Incoming::Unacceptable, "before byte 0");
    let header = TcpHeader { acknowledgement: 212, ..pair.ends[0].outgoing(&data) };
    assert_eq!(pair.deliver(1, &header, 10), Incoming::Unacceptable, "acknowledges what was never sent");
    let syn = TcpHeader { sequence: 5, flags: TcpFlags::SYN, ..TcpHeader::default() };
    assert_eq!(pair.deliver(1, &syn, 0), Incoming::Unacceptable, "opens another connection");
    let early = TcpHeader { sequence: 5, flags: TcpFlags::ACK, acknowledgement: 1, ..TcpHeader::default() };
    assert_eq!(Pair::new([0, 0], [ANNOUNCEMENT; 2]).deliver(1, &early, 0), Incoming::Unacceptable);
}

#[test]
fn a_reset_counts_if_it_lies_in_the_window_or_answers_the_syn() {
    let mut pair = Pair::open([100, 200], [ANNOUNCEMENT; 2]);
    let reset = |sequence| TcpHeader { sequence, flags: TcpFlags::RST, ..TcpHeader::default() };
    assert_eq!(pair.deliver(1, &reset(101), 0), Incoming::Reset);
    assert_eq!(pair.deliver(1, &reset(100), 0), Incoming::Unacceptable);
    assert_eq!(pair.deliver(1, &reset(101 + 70_000), 0), Incoming::Unacceptable);
    let mut opening = Pair::new([100, 200], [ANNOUNCEMENT; 2]);
    opening.ends[0].outgoing(&Segment { flags: flags(true, false, false), ..Segment::default() });
    let refused = |acknowledgement| TcpHeader {
        acknowledgement,
        flags: TcpFlags::RST | TcpFlags::ACK,
        ..TcpHeader::default()
    };
    assert_eq!(opening.deliver(0, &refused(100), 0), Incoming::Unacceptable);
    assert_eq!(opening.deliver(0, &refused(101), 0), Incoming::Reset);
}

#[test]
fn blocks_that_cannot_be_are_left_out() {
    let mut pair = Pair::open([0, 0], [ANNOUNCEMENT; 2]);
    let data = Segment { len: 1000, window: 65_535, flags: flags(false, true, false), ..Segment::default() };
    pair.carry(0, &data, 0);
    let blocks = [(51, 101), (301, 401), (401, 301), (901, 2001), (501, 601)];
    let sack = TcpSackBlocks::new(blocks.into_iter().take(4));
    let bare = Segment { ack: 200, len: 0, ..data };
    let header = pair.ends[1].outgoing(&bare);
    let header = TcpHeader { options: TcpOptions { sack, ..header.options }, ..header };
    let Incoming::Segment(segment) = pair.deliver(0, &header, 0) else { panic!("in the window") };
    let ranges: Vec<_> = segment.sack.ranges(segment.ack).collect();
    assert_eq!(ranges, [(300, 400)], "not the duplicate, the reversed one and the one never sent");
}

proptest! {
    #[test]
    fn unwrapping_inverts_wrapping_within_2_to_the_31(reference: u64, distance in -(1i64 << 31)..(1 << 31)) {
        if let Some(value) = reference.checked_add_signed(distance) {
            prop_assert_eq!(unwrap_sequence(reference, value as u32), Some(value));
        }
    }

    /// Sends more than 2^32 bytes in one direction, in strides of up to 2^30, with losses reported by SACK.
    #[test]
    fn segments_survive_both_translations_across_many_wraps(
        strides in prop::collection::vec((0u64..1 << 30, 0u32..1461, 0u32..1 << 16, any::<bool>()), 1..60),
        (ece, cwr) in any::<(bool, bool)>(), initial in any::<[u32; 2]>(),
    ) {
        let ecn = EcnBits::new(ece, cwr);
        let mut pair = Pair::open(initial, [ANNOUNCEMENT; 2]);
        let mut at = 0u64;
        for (stride, len, window, fin) in strides {
            // The window is large enough for the stride. Only multiples of the scale factor arrive unchanged.
            let window = (window << 7).max(1 << 22) / 128 * 128;
            let seq = at;
            let data = Segment { seq, ack: 0, len, window, flags: flags(false, true, fin), ecn, ..Segment::default() };
            let carried = pair.carry(0, &data, 0);
            let expected = if data.seq_len() == 0 { Segment { seq: pair.ends[0].snd_max, ..data } } else { data };
            prop_assert_eq!(carried, Incoming::Segment(expected));
            // The position jumps ahead. The skipped data counts as sent and acknowledged.
            at = seq + data.seq_len() + stride;
            pair.ends[0].snd_max = at + 10_000;
            pair.ends[1].right_edge = at + (1 << 30);
            let ranges = [(at + 4000, at + 6000), (at + 1000, at + 2000)];
            let answer = Segment {
                seq: 0,
                ack: at,
                len: 0,
                window,
                flags: flags(false, true, false),
                sack: SackBlocks::new(at, ranges.into_iter()),
                ecn,
                timestamps: Timestamps::default(),
            };
            prop_assert_eq!(pair.carry(1, &answer, 0), Incoming::Segment(answer));
            pair.ends[0].snd_max = at;
        }
    }
}

/// Creates a pair that has negotiated timestamps. The SYN of each side carried a timestamp.
fn timed() -> Pair {
    let announcement = Announcement { timestamps: true, ..ANNOUNCEMENT };
    let mut pair = Pair::new([7, 1000], [announcement; 2]);
    let syn = |ack, timestamps| Segment {
        window: 65_535,
        flags: flags(true, ack, false),
        timestamps,
        ..Segment::default()
    };
    let [ours, theirs] = [Timestamps { tsval: 100, tsecr: 0 }, Timestamps { tsval: 900, tsecr: 100 }];
    // The timestamp of a SYN is read before timestamps are negotiated.
    assert!(
        matches!(pair.carry(0, &syn(false, ours), 0), Incoming::Segment(segment) if segment.timestamps == ours)
    );
    assert!(
        matches!(pair.carry(1, &syn(true, theirs), 0), Incoming::Segment(segment) if segment.timestamps == theirs)
    );
    pair
}

fn data(seq: u64, value: u32) -> Segment {
    let timestamps = Timestamps { tsval: value, tsecr: 900 };
    Segment {
        seq,
        len: 100,
        window: 65_535,
        flags: flags(false, true, false),
        timestamps,
        ..Segment::default()
    }
}

#[test]
fn times_are_carried_if_both_sides_announce_them_and_by_nobody_else() {
    let mut pair = timed();
    assert!(pair.ends.iter().all(Translation::uses_timestamps));
    assert!(
        matches!(pair.carry(0, &data(0, 101), 0), Incoming::Segment(segment) if segment.timestamps == data(0, 101).timestamps)
    );
    let mixed = [Announcement { timestamps: true, ..ANNOUNCEMENT }, ANNOUNCEMENT];
    let mut pair = Pair::open([7, 1000], mixed);
    assert!(!pair.ends.iter().any(Translation::uses_timestamps));
    assert!(
        matches!(pair.carry(0, &data(0, 101), 0), Incoming::Segment(segment) if segment.timestamps == Timestamps::default())
    );
}

#[test]
fn an_old_duplicate_is_dropped_by_its_time_and_so_is_a_segment_without_one() {
    let mut pair = timed();
    pair.carry(0, &data(0, 200), 0);
    pair.ends[1].last_ack_sent = 100;
    // RFC 7323, section 5.3: "SEG.TSval < TS.Recent".
    assert_eq!(pair.carry(0, &data(100, 199), 0), Incoming::Unacceptable);
    assert!(matches!(pair.carry(0, &data(100, 200), 0), Incoming::Segment(_)));
    // A segment that has arrived before is accepted, so that the endpoint can report it.
    assert!(matches!(pair.carry(0, &data(0, 150), 0), Incoming::Segment(_)));
    // Section 3.2: "If a non-<RST> segment is received without a TSopt, a TCP SHOULD silently drop the segment."
    let header = pair.ends[0].outgoing(&data(200, 300));
    let bare = TcpHeader { options: TcpOptions::default(), ..header };
    assert_eq!(pair.deliver(1, &bare, 100), Incoming::Unacceptable);
}

#[test]
fn a_duplicate_is_reported_below_the_acknowledgement_to_who_asks_for_times() {
    for (announcement, expected) in
        [(Announcement { timestamps: true, ..ANNOUNCEMENT }, vec![(0, 100)]), (ANNOUNCEMENT, vec![])]
    {
        let mut pair = Pair::open([7, 1000], [announcement; 2]);
        (pair.ends[0].snd_max, pair.ends[1].right_edge) = (1000, 65_535);
        let sack = SackBlocks::new(500, [(0, 100)].into_iter());
        let ack = Segment {
            ack: 500,
            flags: flags(false, true, false),
            sack,
            timestamps: Timestamps { tsval: 901, tsecr: 1 },
            ..Segment::default()
        };
        let Incoming::Segment(segment) = pair.carry(1, &ack, 0) else { panic!("it is one") };
        assert_eq!(segment.sack.ranges(500).collect::<Vec<_>>(), expected);
    }
}
