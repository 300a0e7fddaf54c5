//! Tests that other programs read the captures that this crate writes, and the reverse: the crate pcap-file, and tcpdump if it is
//! installed.

use crate::skip::skipped;
use catnip_base::{Span, Time};
use catnip_wire::pcapng::{LinkType, Reader, Writer};
use catnip_wire::{Addresses, PriorityCodec, TcpFlags, TcpHeader, TcpOptions};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgBlock, PcapNgReader, PcapNgWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use std::borrow::Cow;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Start time of the captures, 2023-11-14, so that tools do not print times in 1970.
const BEGAN: Span = Span::from_secs(1_700_000_000);
const COMMENTS: [&str; 3] = ["high, class 0", "dropped: overflow", ""];

fn packets() -> Vec<(u64, Vec<u8>)> {
    let ends = [
        [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))],
        [IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
        [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))],
    ];
    (0..)
        .zip(ends)
        .map(|(i, [source, destination])| (1_000_000_123 * i, packet(source, destination)))
        .collect()
}

fn packet(source: IpAddr, destination: IpAddr) -> Vec<u8> {
    let options = TcpOptions {
        mss: Some(1460),
        sack_permitted: true,
        window_scale: Some(7),
        timestamps: Some((11, 22)),
        ..TcpOptions::default()
    };
    let header = TcpHeader {
        source_port: 4000,
        destination_port: 8080,
        sequence: 1000,
        acknowledgement: 77,
        flags: TcpFlags::SYN | TcpFlags::ACK,
        window: 4096,
        urgent: 0,
        options,
    };
    let mut packet = vec![0; 200];
    let addresses = Addresses { source, destination, traffic_class: 2, hop_limit: 61 };
    let len = header.write(&addresses, b"hello", &mut packet).unwrap();
    packet.truncate(len);
    PriorityCodec::default().write(&mut packet, catnip_net::Priority::High).unwrap();
    packet
}

fn ours(names: &[&str]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), BEGAN).unwrap();
    let interfaces: Vec<_> = names.iter().map(|name| writer.interface(name).unwrap()).collect();
    for (i, ((at, packet), comment)) in packets().into_iter().zip(COMMENTS).enumerate() {
        let interface = interfaces[i % interfaces.len()];
        writer.packet(Time::from_nanos(at), interface, &packet, comment).unwrap();
    }
    writer.finish().unwrap()
}

fn read_ours(capture: &[u8]) -> Vec<(i64, Vec<u8>)> {
    let mut reader = Reader::new(capture).unwrap();
    let mut frames = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        frames.push((record.nanos, record.ip().unwrap().to_vec()));
    }
    frames
}

fn expected(resolution: i64) -> Vec<(i64, Vec<u8>)> {
    let nanos = |at: u64| (BEGAN.as_nanos() + at) as i64 / resolution * resolution;
    packets().into_iter().map(|(at, packet)| (nanos(at), packet)).collect()
}

#[test]
fn pcap_file_reads_packets_times_names_and_comments_of_ours() {
    let capture = ours(&["left", "right"]);
    let mut reader = PcapNgReader::new(capture.as_slice()).unwrap();
    let (mut names, mut seen) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.unwrap().into_owned() {
            Block::InterfaceDescription(interface) => {
                assert_eq!((interface.linktype, interface.snaplen), (DataLink::RAW, 0));
                assert!(interface.options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
                names.extend(interface.options.into_iter().filter_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.into_owned()),
                    _ => None,
                }));
            }
            Block::EnhancedPacket(packet) => {
                let comment = packet.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Comment(comment) => Some(comment.to_string()),
                    _ => None,
                });
                seen.push((packet.interface_id, packet.timestamp, packet.data.into_owned(), comment));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(names, ["left", "right"]);
    for (i, ((at, packet), comment)) in packets().into_iter().zip(COMMENTS).enumerate() {
        let comment = (!comment.is_empty()).then(|| comment.to_owned());
        // This version of pcap-file always takes the units of timestamps for nanoseconds, which is correct here.
        let at = Duration::from_nanos(BEGAN.as_nanos() + at);
        assert_eq!(seen[i], (u32::from(i == 1), at, packet, comment));
    }
}

#[test]
fn captures_of_pcap_file_are_read() {
    let ethernet = |packet: &[u8]| {
        let kind: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        [&[0; 12], &kind[..], packet].concat()
    };
    for endianness in [Endianness::Big, Endianness::Little] {
        for datalink in [DataLink::RAW, DataLink::ETHERNET] {
            let frame = |packet: &[u8]| match datalink {
                DataLink::RAW => packet.to_vec(),
                _ => ethernet(packet),
            };
            for (ts_resolution, resolution) in
                [(TsResolution::NanoSecond, 1), (TsResolution::MicroSecond, 1000)]
            {
                let header = PcapHeader { datalink, ts_resolution, endianness, ..PcapHeader::default() };
                let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
                for (at, packet) in packets() {
                    let (at, frame) = (Duration::from_nanos(BEGAN.as_nanos() + at), frame(&packet));
                    writer.write_packet(&PcapPacket::new(at, frame.len() as u32, &frame)).unwrap();
                }
                assert_eq!(read_ours(&writer.into_writer()), expected(resolution));
            }
            let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
            let mut interface = InterfaceDescriptionBlock::new(datalink, 0xffff);
            interface.options.push(InterfaceDescriptionOption::IfTsResol(9));
            writer.write_pcapng_block(interface).unwrap();
            for (at, packet) in packets() {
                let frame = frame(&packet);
                let block = EnhancedPacketBlock {
                    interface_id: 0,
                    timestamp: Duration::from_nanos(BEGAN.as_nanos() + at),
                    original_len: frame.len() as u32,
                    data: Cow::Owned(frame),
                    options: vec![EnhancedPacketOption::Comment(Cow::Borrowed("as ours"))],
                };
                writer.write_block(&block.into_block()).unwrap();
            }
            let capture = writer.into_inner();
            assert_eq!(read_ours(&capture), expected(1));
            let mut reader = Reader::new(capture.as_slice()).unwrap();
            let record = reader.next_record().unwrap().unwrap();
            assert_eq!(record.comment, Some("as ours"));
            assert_eq!(record.link.number(), u32::from(datalink) as u16);
        }
    }
}

/// Runs tcpdump on a capture and returns its output. If tcpdump is not installed, reports this and returns `None`.
fn tcpdump(capture: &Path, arguments: &[&str]) -> Option<String> {
    match Command::new("tcpdump").arg("-r").arg(capture).args(arguments).env("TZ", "UTC").output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skipped("tcpdump is not installed");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn tcpdump_shows_what_was_written() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shown.pcapng");
    std::fs::write(&path, ours(&["tun0"])).unwrap();
    let Some(shown) = tcpdump(&path, &["-nn", "-vv", "-tt", "--nano"]) else { return };
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 5, "two lines for IPv4, one for IPv6: {shown}");
    assert!(lines[0].starts_with("1700000000.000000000 IP (tos 0x2a,ECT(0), ttl 61, id 0,"), "{shown}");
    assert!(lines[0].contains("flags [DF], proto TCP (6), length 65)"), "{shown}");
    let tcp = "Flags [S.], cksum 0x";
    let rest = "(correct), seq 1000:1005, ack 77, win 4096, \
                options [mss 1460,sackOK,TS val 11 ecr 22,wscale 7,nop], length 5";
    assert!(lines[1].contains(&format!("10.0.0.1.4000 > 10.0.0.2.8080: {tcp}")), "{shown}");
    assert!(
        lines[2].starts_with("1700000001.000000123 IP6 (class 0x2a, hlim 61, next-header TCP (6)"),
        "{shown}"
    );
    assert!(lines[2].contains(&format!("::1.4000 > ::1.8080: {tcp}")), "{shown}");
    for tcp in [lines[1], lines[2], lines[4]] {
        assert!(tcp.contains(rest), "{shown}");
    }
    assert!(!shown.contains("bad"), "{shown}");
}

#[test]
fn captures_of_tcpdump_are_read() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = directory.join("given.pcapng");
    std::fs::write(&path, ours(&["tun0"])).unwrap();
    for (precision, resolution) in [("nano", 1), ("micro", 1000)] {
        let copy = directory.join(format!("{precision}.pcap"));
        let precision = format!("--time-stamp-precision={precision}");
        if tcpdump(&path, &[&precision, "-w", copy.to_str().unwrap()]).is_none() {
            return;
        }
        let copy = std::fs::read(copy).unwrap();
        assert_eq!(read_ours(&copy), expected(resolution));
        let mut reader = Reader::new(copy.as_slice()).unwrap();
        assert_eq!(reader.next_record().unwrap().unwrap().link, LinkType::Raw);
    }
}
