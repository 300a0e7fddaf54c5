use super::*;
use catnip_base::{Span, Time};
use proptest::prelude::*;

/// Packet read from a capture: time, interface, frame, comment.
type Read = (i64, u32, Vec<u8>, Option<String>);

fn read(bytes: &[u8]) -> Result<Vec<Read>, CaptureError> {
    let mut reader = Reader::new(bytes)?;
    let mut records = Vec::new();
    while let Some(r) = reader.next_record()? {
        records.push((r.nanos, r.interface, r.frame.to_vec(), r.comment.map(str::to_owned)));
    }
    Ok(records)
}

/// Builds a block from 32-bit words and trailing bytes, big-endian if `big` is true.
fn block(big: bool, kind: u32, words: &[u32], tail: &[u8]) -> Vec<u8> {
    let order = |word: u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
    let len = (12 + 4 * words.len() + tail.len()) as u32;
    let mut block = [order(kind), order(len)].concat();
    block.extend(words.iter().flat_map(|&word| order(word)));
    block.extend_from_slice(tail);
    block.extend(order(len));
    block
}

/// Returns a word with major version 1 and minor version 0.
const fn version(big: bool) -> u32 {
    if big { 1 << 16 } else { 1 }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        began in 0u64..2_000_000_000_000_000_000,
        packets in prop::collection::vec(
            (0u64..1 << 60, 0usize..2, prop::collection::vec(any::<u8>(), 0..70), "[ -~é]{0,20}"),
            0..20,
        ),
    ) {
        let mut writer = Writer::new(Vec::new(), Span::from_nanos(began)).unwrap();
        let interfaces = ["left", "right"].map(|name| writer.interface(name).unwrap());
        for (at, interface, packet, comment) in &packets {
            writer.packet(Time::from_nanos(*at), interfaces[*interface], packet, comment).unwrap();
        }
        let expected: Vec<_> = packets
            .into_iter()
            .map(|(at, interface, packet, comment)| {
                ((began + at) as i64, interface as u32, packet, (!comment.is_empty()).then_some(comment))
            })
            .collect();
        prop_assert_eq!(read(&writer.finish().unwrap()).unwrap(), expected);
    }

    #[test]
    fn damaged_captures_are_errors_and_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        big: bool,
    ) {
        let mut bytes = block(big, SECTION_HEADER, &[BYTE_ORDER, version(big), u32::MAX, u32::MAX], &[]);
        bytes.extend(block(big, INTERFACE, &[if big { 101 << 16 } else { 101 }, 0], &[]));
        bytes.extend(block(big, ENHANCED_PACKET, &[0, 0, 1, 4, 4], b"abcd"));
        bytes.extend(block(big, SIMPLE_PACKET, &[4], b"abcd"));
        bytes.truncate(1 + cut.index(bytes.len()));
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = read(&bytes);
    }
}

#[test]
fn either_byte_order_resolution_and_offset_are_understood() {
    for big in [false, true] {
        let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut options = [half(RESOLUTION), half(1), [0x8a, 0], [0, 0], half(OFFSET), half(8)].concat();
        options.extend(if big { 5u64.to_be_bytes() } else { 5u64.to_le_bytes() });
        let link = if big { 1 << 16 } else { 1 };
        let mut bytes = block(big, SECTION_HEADER, &[BYTE_ORDER, version(big), u32::MAX, u32::MAX], &[]);
        bytes.extend(block(big, INTERFACE, &[link, 3], &options));
        bytes.extend(block(big, 0x0bad_cafe, &[], b"skip"));
        bytes.extend(block(big, ENHANCED_PACKET, &[0, 1, 512, 2, 1500], b"ab\0\0"));
        bytes.extend(block(big, SIMPLE_PACKET, &[9], b"abc\0"));
        let frames = read(&bytes).unwrap();
        // The timestamp is 2^32 + 512 units of 1/1024 s, and the offset is 5 s.
        let expected = (1_i64 << 22) * 1_000_000_000 + 500_000_000 + 5_000_000_000;
        assert_eq!(frames[0], (expected, 0, b"ab".to_vec(), None));
        assert_eq!(frames[1], (0, 0, b"abc".to_vec(), None), "cut to three bytes by the interface");
    }
}

#[test]
fn classic_captures_of_either_byte_order_and_resolution_are_understood() {
    for (magic, nanos) in [(0xa1b2_c3d4_u32, 7_000), (0xa1b2_3c4d, 7)] {
        for big in [false, true] {
            let order = |word: u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
            let words = [magic, if big { 2 << 16 | 4 } else { 4 << 16 | 2 }, 0, 0, 262_144, 1];
            let mut bytes: Vec<u8> = words.into_iter().flat_map(order).collect();
            bytes.extend([1_700_000_000, 7, 2, 60].into_iter().flat_map(order));
            bytes.extend(b"ab");
            let frames = read(&bytes).unwrap();
            assert_eq!(frames, [(1_700_000_000_000_000_000 + nanos, 0, b"ab".to_vec(), None)]);
        }
    }
}

#[test]
fn each_section_has_its_own_byte_order_and_interfaces() {
    let section = |big| block(big, SECTION_HEADER, &[BYTE_ORDER, version(big), u32::MAX, u32::MAX], &[]);
    let mut bytes = section(false);
    bytes.extend(block(false, INTERFACE, &[101, 0], &[]));
    bytes.extend(section(true));
    bytes.extend(block(true, ENHANCED_PACKET, &[0, 0, 0, 0, 0], &[]));
    assert!(
        matches!(read(&bytes), Err(CaptureError::Block(_))),
        "the interface belongs to the first section"
    );
}

#[test]
fn a_length_field_cannot_take_memory() {
    let mut bytes = block(false, SECTION_HEADER, &[BYTE_ORDER, 1, u32::MAX, u32::MAX], &[]);
    bytes.extend([6, 0, 0, 0, 0xfc, 0xff, 0xff, 0xff]);
    assert!(matches!(read(&bytes), Err(CaptureError::BlockLength(_))));
    assert!(matches!(read(b"text"), Err(CaptureError::Magic(_))));
}

#[test]
fn ip_is_found_behind_link_layers() {
    let mut ethernet = vec![0; 12];
    for tag in [0x88a8_u16, 0x8100] {
        ethernet.extend(tag.to_be_bytes());
        ethernet.extend([0, 7]);
    }
    ethernet.extend([0x08, 0x00, 0x45]);
    assert_eq!(LinkType::Ethernet.ip(&ethernet), Some(&[0x45][..]));
    ethernet.drain(12..20);
    assert_eq!(LinkType::Ethernet.ip(&ethernet), Some(&[0x45][..]), "without tags");
    ethernet[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(LinkType::Ethernet.ip(&ethernet), None, "ARP");
    assert_eq!(LinkType::Ethernet.ip(&ethernet[..13]), None, "cut");
    let cooked = [&[0; 14][..], &[0x86, 0xdd, 0x60]].concat();
    assert_eq!(LinkType::LinuxCooked.ip(&cooked), Some(&[0x60][..]));
    let cooked2 = [&[0x86, 0xdd][..], &[0; 18], &[0x60]].concat();
    assert_eq!(LinkType::LinuxCooked2.ip(&cooked2), Some(&[0x60][..]));
    assert_eq!(LinkType::from_number(0).ip(&cooked), None);
    for number in [1, 101, 113, 276, 9] {
        assert_eq!(LinkType::from_number(number).number(), number);
    }
}

#[test]
fn a_packet_may_have_been_longer_on_the_wire_than_it_is_shown_and_never_shorter() {
    let mut writer = Writer::new(Vec::new(), Span::ZERO).unwrap();
    let interface = writer.interface("a").unwrap();
    for wire_bytes in [0, 3, 4, 1500] {
        writer.packet_of(Time::ZERO, interface, &[0x45, 0, 0, 4], wire_bytes, "").unwrap();
    }
    let capture = writer.finish().unwrap();
    let mut reader = Reader::new(&capture[..]).unwrap();
    for original_len in [4, 4, 4, 1500] {
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!((record.frame.len(), record.original_len), (4, original_len));
    }
}
