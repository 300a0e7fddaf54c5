//! Captures of all arriving packets: pcapng with the fate of each packet in a comment.

use crate::observe::chunks::{Chunks, Sink};
use catnip_base::{Span, Time};
use catnip_net::{DropReason, NodeId, Packet, Priority};
use catnip_sim::watch::{GatewayEvent, Origin, Step};
use catnip_sim::{Event, Watch};
use catnip_wire::pcapng::{InterfaceId, LinkType, Writer};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

/// Size of the chunks that are passed to the writing thread, bytes.
const CHUNK: usize = 1 << 18;
/// Size of the next chunk above which packets are left out of the capture, bytes. The chunk grows while the writing thread is too slow.
const MAX_CHUNK: usize = 16 << 20;

/// Capture of packets in order of arrival. Each packet has the bytes and the time of its arrival, and a comment such as `up high, flow
/// 51966: delivered after 33.1 ms, 12 us late`.
///
/// All packets share one interface of the file, because libpcap cannot read a file with several interfaces of raw IP. Instead, the comment
/// begins with a name for the node at which the packet has entered.
#[derive(Debug)]
pub struct Capture {
    chunks: Chunks,
    /// Number of bytes at the beginning of each packet that are not captured.
    skip: usize,
    omitted: u64,
}

/// Fate of a packet in the network.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Held,
    Delivered { after: Span, lateness: Span, written: bool },
    Dropped(DropReason),
    Passed { written: bool },
}

impl Capture {
    /// Creates the file and starts the writing thread. `since_1970` is the time from the beginning of 1970 to time zero of the run. `edges`
    /// has a name for each node at which packets enter. The first `skip` bytes of each packet are left out.
    pub fn create(
        path: &Path,
        link: LinkType,
        since_1970: Span,
        edges: Vec<String>,
        skip: usize,
    ) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 16, File::create(path)?);
        let mut writer = Writer::new(file, since_1970)?;
        let interface = writer.interface_of(link, "catnip-emu")?;
        let capture_writer =
            CaptureWriter { writer, interface, edges, pending: VecDeque::new(), comment: String::new() };
        Ok(Self { chunks: Chunks::start("capture", CHUNK, capture_writer)?, skip, omitted: 0 })
    }

    /// Writes the remaining packets. Packets that are still in the network are marked as held. Returns the number of packets that were left
    /// out because the disk was too slow.
    pub fn finish(self) -> io::Result<u64> {
        self.chunks.finish()?;
        Ok(self.omitted)
    }

    fn push_record(&mut self, kind: RecordKind, number: u64, values: [u64; 4], bytes: &[u8]) {
        let chunk = &mut self.chunks.buffer;
        chunk.push(kind as u8);
        chunk.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        chunk.extend_from_slice(&number.to_le_bytes());
        values.iter().for_each(|value| chunk.extend_from_slice(&value.to_le_bytes()));
        chunk.extend_from_slice(bytes);
        self.chunks.flush_if_full();
    }

    fn captured_bytes<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        if self.chunks.buffer.len() >= MAX_CHUNK {
            self.omitted += 1;
            return None;
        }
        bytes.get(self.skip..)
    }
}

/// Type of a message to the writing thread.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
enum RecordKind {
    /// Arrival of a packet. Values: time, edge, flow, priority.
    Arrived,
    /// Drop of a packet. Values: reason.
    Dropped,
    /// Delivery of a packet. Values: delay, lateness, written.
    Delivered,
    /// Frame that a bridge has forwarded at once. Values: time, edge, written.
    Passed,
}

const RECORD_KINDS: [RecordKind; 4] =
    [RecordKind::Arrived, RecordKind::Dropped, RecordKind::Delivered, RecordKind::Passed];
const HEADER: usize = 1 + 4 + 8 + 4 * 8;

impl Watch for Capture {
    const PACKETS: bool = false;
    fn record(&mut self, _now: Time, _event: &Event) {}

    fn packet(&mut self, now: Time, packet: &Packet, origin: Origin, step: Step<'_>) {
        let number = origin.number;
        match step {
            Step::Sent(bytes) => {
                let Some(bytes) = self.captured_bytes(bytes) else { return };
                let priority = packet.dscp.priority() as u64;
                let values = [origin.at.as_nanos(), origin.from.0.into(), packet.flow.into(), priority];
                self.push_record(RecordKind::Arrived, number, values, bytes);
            }
            Step::Dropped(_, reason) => {
                self.push_record(RecordKind::Dropped, number, [reason as u64, 0, 0, 0], &[])
            }
            Step::Egress { actual, written, .. } => {
                let (after, lateness) = (actual.since(origin.at), actual.since(now));
                let values = [after.as_nanos(), lateness.as_nanos(), u64::from(written), 0];
                self.push_record(RecordKind::Delivered, number, values, &[]);
            }
            Step::Delivered(_) => {
                let values = [now.since(origin.at).as_nanos(), 0, 1, 0];
                self.push_record(RecordKind::Delivered, number, values, &[]);
            }
            Step::Entered(_) | Step::Passed(_) | Step::Copied(..) | Step::Corrupted(_) => {}
        }
    }

    fn gateway(&mut self, now: Time, at: NodeId, event: GatewayEvent<'_>) {
        let GatewayEvent::Bridged { bytes, written } = event else { return };
        let Some(bytes) = self.captured_bytes(bytes) else { return };
        self.push_record(RecordKind::Passed, 0, [now.as_nanos(), at.0.into(), u64::from(written), 0], bytes);
    }
}

fn priority_name(number: u64) -> &'static str {
    Priority::NAMES.iter().find(|(priority, _)| *priority as u64 == number).map_or("", |(_, name)| name)
}

/// Packet that is not written yet, because its fate or the fate of an earlier packet is unknown.
#[derive(Debug)]
struct PendingPacket {
    number: u64,
    at: Time,
    edge: usize,
    flow: u64,
    /// Name of the packet's priority.
    priority: &'static str,
    bytes: Vec<u8>,
    fate: Option<Fate>,
}

/// Writer of the capture file in the writing thread, which combines packets with their fates.
#[derive(Debug)]
struct CaptureWriter {
    writer: Writer<BufWriter<File>>,
    interface: InterfaceId,
    edges: Vec<String>,
    /// Packets in order of arrival. A frame that was forwarded at once has the number of the packet before it.
    pending: VecDeque<PendingPacket>,
    comment: String,
}

impl Sink for CaptureWriter {
    fn write(&mut self, mut chunk: &[u8]) -> io::Result<()> {
        while let Some((header, rest)) = chunk.split_at_checked(HEADER) {
            let value = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
            let len = u32::from_le_bytes(header[1..5].try_into().expect("four bytes")) as usize;
            let (bytes, rest) = rest.split_at(len);
            chunk = rest;
            let number = value(5);
            let values = [value(13), value(21), value(29), value(37)];
            let pending = |number, fate| PendingPacket {
                number,
                at: Time::from_nanos(values[0]),
                edge: values[1] as usize,
                flow: values[2],
                priority: priority_name(values[3]),
                bytes: bytes.to_vec(),
                fate,
            };
            match RECORD_KINDS[usize::from(header[0])] {
                RecordKind::Arrived => self.pending.push_back(pending(number, None)),
                RecordKind::Passed => {
                    let before = self.pending.back().map_or(0, |last| last.number);
                    let fate = Fate::Passed { written: values[2] != 0 };
                    self.pending.push_back(pending(before, Some(fate)));
                }
                RecordKind::Dropped => {
                    let (reason, _) = DropReason::NAMES[values[0] as usize];
                    self.set_fate(number, Fate::Dropped(reason));
                }
                RecordKind::Delivered => {
                    let (after, lateness) = (Span::from_nanos(values[0]), Span::from_nanos(values[1]));
                    self.set_fate(number, Fate::Delivered { after, lateness, written: values[2] != 0 });
                }
            }
        }
        while self.pending.front().is_some_and(|first| first.fate.is_some()) {
            self.write_first()?;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            self.write_first()?;
        }
        self.writer.finish().map(|_| ())
    }
}

impl CaptureWriter {
    /// Records the fate of a packet. Packets that were left out of the capture are ignored.
    fn set_fate(&mut self, number: u64, fate: Fate) {
        let first = self.pending.partition_point(|pending| pending.number < number);
        let same = self.pending.range_mut(first..).take_while(|pending| pending.number == number);
        let open = same.into_iter().find(|pending| pending.fate.is_none());
        if let Some(pending) = open {
            pending.fate = Some(fate);
        }
    }

    fn write_first(&mut self) -> io::Result<()> {
        use std::fmt::Write;
        let Some(packet) = self.pending.pop_front() else { return Ok(()) };
        let edge = self.edges.get(packet.edge).map_or("?", String::as_str);
        let priority = packet.priority;
        let flow = packet.flow;
        let text = &mut self.comment;
        text.clear();
        let ms = |span: Span| span.as_nanos() as f64 / 1e6;
        // Writing to a `String` cannot fail.
        let _ = match packet.fate.unwrap_or(Fate::Held) {
            Fate::Passed { written: true } => write!(text, "{edge}: passed without delay"),
            Fate::Passed { written: false } => write!(text, "{edge}: passed without delay, unwritable"),
            _ => write!(text, "{edge} {priority}, flow {flow}: "),
        };
        let _ = match packet.fate.unwrap_or(Fate::Held) {
            Fate::Passed { .. } => Ok(()),
            Fate::Held => write!(text, "held"),
            Fate::Dropped(reason) => write!(text, "dropped, {}", DropReason::NAMES[reason as usize].1),
            Fate::Delivered { after, lateness, written } => {
                let unwritable = if written { "" } else { ", unwritable" };
                let lateness = lateness.as_nanos() / 1000;
                write!(text, "delivered after {:.3} ms, {lateness} us late{unwritable}", ms(after))
            }
        };
        self.writer.packet(packet.at, self.interface, &packet.bytes, text)
    }
}
