//! Robustness against untrusted bytes: no parser panics on random bytes, on damaged packets or on a corpus.
//!
//! A file of `tests/corpus` holds one packet or capture in hexadecimal and the expected description; a `#` begins a comment. Every packet
//! that has revealed an error of a parser is added there.

use crate::{fuzz, hex};
use catnip_wire::has_valid_transport_checksum;
use catnip_wire::pcapng::Reader;
use catnip_wire::{Addresses, Ip, Tcp, TcpFlags, TcpHeader, TcpOptions, TcpSackBlocks, Udp, ip};
use proptest::prelude::*;
use std::fmt::Write;
use std::path::{Path, PathBuf};

struct Case {
    path: PathBuf,
    bytes: Vec<u8>,
    expected: String,
}

fn corpus() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut paths: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(Case::read).collect()
}

impl Case {
    fn read(path: PathBuf) -> Self {
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = text.lines().find_map(|line| line.strip_prefix("expect: ")).unwrap_or_default();
        Self { path, bytes: hex::bytes(&text), expected: expected.to_owned() }
    }
}

/// Replays inputs found by fuzzing, one per line. They are a minimal set of inputs of at most 300 bytes with the coverage of ten minutes of
/// fuzzing.
#[test]
fn what_fuzzing_has_reached_goes_through() {
    let inputs = include_str!("../fuzz/parsers.hex");
    assert!(inputs.lines().count() > 200);
    inputs.lines().for_each(|input| fuzz::parsers(&hex::bytes(input)));
}

/// Describes a packet and its parsed headers in one line, for comparison with the corpus.
fn describe(bytes: &[u8]) -> String {
    let ip = match Ip::parse(bytes) {
        Ok(ip) => ip,
        Err(error) => return error.to_string(),
    };
    let mut line = format!("{} > {} protocol {}", ip.source(), ip.destination(), ip.protocol());
    let mut append = |text: std::fmt::Arguments<'_>| write!(line, ", {text}").unwrap();
    if let Some(fragment) = ip.fragment() {
        append(format_args!("fragment at {}{}", fragment.offset, if fragment.more { "+" } else { "" }));
    }
    if ip.padding() > 0 {
        append(format_args!("padding {}", ip.padding()));
    }
    if !ip.has_valid_header_checksum() {
        append(format_args!("wrong header checksum"));
    }
    if let Ok(segment) = ip.transport(ip::TCP) {
        match Tcp::parse(segment).map(|tcp| (tcp, tcp.options())) {
            Ok((tcp, Ok(options))) => {
                append(format_args!("{:?}, {} bytes", tcp.flags(), tcp.payload().len()));
                if options != TcpOptions::default() {
                    append(format_args!("mss {:?}, scale {:?}", options.mss, options.window_scale));
                    append(format_args!("{} blocks", options.sack.as_slice().len()));
                }
            }
            Ok((_, Err(error))) | Err(error) => append(format_args!("{error}")),
        }
    }
    if let Ok(datagram) = ip.transport(ip::UDP) {
        match Udp::parse(datagram) {
            Ok(udp) => append(format_args!("{} bytes", udp.payload().len())),
            Err(error) => append(format_args!("{error}")),
        }
    }
    if has_valid_transport_checksum(&ip) == Ok(false) {
        append(format_args!("wrong checksum"));
    }
    line
}

/// Describes a capture and its packets, for comparison with the corpus.
fn describe_capture(bytes: &[u8]) -> String {
    let mut frames = 0;
    let mut read = || {
        let mut reader = Reader::new(bytes)?;
        while reader.next_record()?.is_some() {
            frames += 1;
        }
        Ok(())
    };
    let end = read().map_err(|error: catnip_wire::pcapng::CaptureError| error.to_string());
    format!("{frames} frames, {}", end.err().unwrap_or_else(|| "end".to_owned()))
}

#[test]
fn the_corpus_is_read_as_expected() {
    let cases = corpus();
    assert!(cases.len() >= 20, "{} files", cases.len());
    for Case { path, bytes, expected } in &cases {
        fuzz::parsers(bytes);
        let name = path.file_stem().unwrap().to_str().unwrap();
        let description = if name.starts_with("capture") { describe_capture(bytes) } else { describe(bytes) };
        assert_eq!(&description, expected, "{}", path.display());
    }
}

#[test]
fn every_beginning_of_every_packet_of_the_corpus_is_survived() {
    for case in corpus() {
        for len in 0..=case.bytes.len() {
            fuzz::parsers(&case.bytes[..len]);
        }
    }
}

fn full_packet(v6: bool) -> Vec<u8> {
    let end = |last: u8| match v6 {
        true => [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last].into(),
        false => [10, 0, 0, last].into(),
    };
    let addresses = Addresses { source: end(1), destination: end(2), traffic_class: 0x28, hop_limit: 64 };
    let header = TcpHeader {
        flags: TcpFlags::ACK,
        options: TcpOptions {
            timestamps: Some((1, 2)),
            sack: TcpSackBlocks::new([(3, 4), (5, 6), (7, 8)].into_iter()),
            ..TcpOptions::default()
        },
        ..TcpHeader::default()
    };
    let mut packet = vec![0; 200];
    let len = header.write(&addresses, b"some data", &mut packet).unwrap();
    packet.truncate(len);
    packet
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz::parsers(&bytes);
    }

    #[test]
    fn arbitrary_bytes_behind_a_plausible_beginning_are_survived(
        v6: bool,
        next in prop::sample::select(&[0u8, 6, 17, 43, 44, 51, 60][..]),
        mut bytes in prop::collection::vec(any::<u8>(), 40..300),
    ) {
        let len = bytes.len() as u16;
        bytes[0] = if v6 { 0x60 } else { 0x45 };
        bytes[if v6 { 6 } else { 9 }] = next;
        let (at, value) = if v6 { (4, len - 40) } else { (2, len) };
        bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
        fuzz::parsers(&bytes);
    }

    #[test]
    fn damaged_packets_are_survived(v6: bool, changes in changes(), cut in any::<prop::sample::Index>()) {
        let mut packet = full_packet(v6);
        for (at, byte) in changes {
            let at = at.index(packet.len());
            packet[at] = byte;
        }
        packet.truncate(1 + cut.index(packet.len()));
        fuzz::parsers(&packet);
    }

    #[test]
    fn damaged_files_of_the_corpus_are_survived(which in any::<prop::sample::Index>(), changes in changes()) {
        let cases = corpus();
        let mut bytes = cases[which.index(cases.len())].bytes.clone();
        for (at, byte) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        fuzz::parsers(&bytes);
    }
}
