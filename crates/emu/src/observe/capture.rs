//! Captures of all arriving packets: pcapng with the fate of each packet in a comment.

use crate::observe::chunks::{Chunks, Sink};
use catnip_base::{Span, Time};
use catnip_net::{Colour, DropReason, NodeId, Packet};
use catnip_sim::watch::{Gate, Origin, Step};
use catnip_sim::{Event, Watch};
use catnip_wire::pcapng::{InterfaceId, LinkType, Writer};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

/// Size of the chunks for the writing thread, bytes.
const CHUNK: usize = 1 << 18;
/// Size of the next chunk above which packets are left out of the capture, bytes. The chunk grows while the writing thread is too slow.
const LARGEST_CHUNK: usize = 16 << 20;

/// Capture of packets in order of arrival. Each packet has the bytes and the time of its arrival, and a comment such as `up high, flow
/// 51966: delivered after 33.1 ms, 12 us late`.
///
/// All edges share one interface of the file, because libpcap cannot read a file with several interfaces of raw IP. Instead, the comment
/// begins with the name of the edge of entry.
#[derive(Debug)]
pub struct Capture {
    chunks: Chunks,
    /// Number of bytes at the beginning of each packet that are not captured.
    skip: usize,
    left_out: u64,
}

/// Fate of a packet.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Held,
    Delivered { after: Span, late: Span, written: bool },
    Dropped(DropReason),
    Passed { written: bool },
}

impl Capture {
    /// Creates the file and starts the writing thread. `since_1970` is the time from the beginning of 1970 to time zero of the run, and
    /// `edges` are the names of the edges. The first `skip` bytes of each packet are left out.
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
        let sorter = Sorter { writer, interface, edges, waiting: VecDeque::new(), comment: String::new() };
        Ok(Self { chunks: Chunks::start("capture", CHUNK, sorter)?, skip, left_out: 0 })
    }

    /// Writes the remaining packets. Packets that are still in the network are marked as held. Returns the number of packets that were left
    /// out because the disk was too slow.
    pub fn finish(self) -> io::Result<u64> {
        self.chunks.finish()?;
        Ok(self.left_out)
    }

    fn put(&mut self, kind: Kind, number: u64, words: [u64; 4], bytes: &[u8]) {
        let chunk = &mut self.chunks.gathered;
        chunk.push(kind as u8);
        chunk.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        chunk.extend_from_slice(&number.to_le_bytes());
        words.iter().for_each(|word| chunk.extend_from_slice(&word.to_le_bytes()));
        chunk.extend_from_slice(bytes);
        self.chunks.hand_over();
    }

    fn shown<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        if self.chunks.gathered.len() >= LARGEST_CHUNK {
            self.left_out += 1;
            return None;
        }
        bytes.get(self.skip..)
    }
}

/// Type of a message to the writing thread.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
enum Kind {
    /// Arrival of a packet. Words: time, edge, flow, priority.
    Arrived,
    /// Drop of a packet. Words: reason.
    Dropped,
    /// Delivery of a packet. Words: delay, lateness, written.
    Delivered,
    /// Frame that a bridge forwarded at once. Words: time, edge, written.
    Passed,
}

const KINDS: [Kind; 4] = [Kind::Arrived, Kind::Dropped, Kind::Delivered, Kind::Passed];
const HEADER: usize = 1 + 4 + 8 + 4 * 8;

impl Watch for Capture {
    const PACKETS: bool = false;
    fn record(&mut self, _now: Time, _event: &Event) {}

    fn packet(&mut self, now: Time, packet: &Packet, origin: Origin, step: Step<'_>) {
        let number = origin.number;
        match step {
            Step::Sent(bytes) => {
                let Some(bytes) = self.shown(bytes) else { return };
                let colour = packet.dscp.colour() as u64;
                let words = [origin.at.as_nanos(), origin.from.0.into(), packet.flow.into(), colour];
                self.put(Kind::Arrived, number, words, bytes);
            }
            Step::Dropped(_, why) => self.put(Kind::Dropped, number, [why as u64, 0, 0, 0], &[]),
            Step::Left { actual, written, .. } => {
                let (after, late) = (actual.since(origin.at), actual.since(now));
                let words = [after.as_nanos(), late.as_nanos(), u64::from(written), 0];
                self.put(Kind::Delivered, number, words, &[]);
            }
            Step::Delivered(_) => {
                let words = [now.since(origin.at).as_nanos(), 0, 1, 0];
                self.put(Kind::Delivered, number, words, &[]);
            }
            Step::Entered(_) | Step::Passed(_) | Step::Copied(..) | Step::Corrupted(_) => {}
        }
    }

    fn gate(&mut self, now: Time, at: NodeId, what: Gate<'_>) {
        let Gate::Bridged { bytes, written } = what else { return };
        let Some(bytes) = self.shown(bytes) else { return };
        self.put(Kind::Passed, 0, [now.as_nanos(), at.0.into(), u64::from(written), 0], bytes);
    }
}

fn colour_name(number: u64) -> &'static str {
    Colour::NAMES.iter().find(|(colour, _)| *colour as u64 == number).map_or("", |(_, name)| name)
}

/// Packet that is not written yet, because its fate or the fate of an earlier packet is unknown.
#[derive(Debug)]
struct Waiting {
    number: u64,
    at: Time,
    edge: usize,
    flow: u64,
    /// Name of the priority in results.
    colour: &'static str,
    bytes: Vec<u8>,
    fate: Option<Fate>,
}

/// Writer that combines packets with their fates.
#[derive(Debug)]
struct Sorter {
    writer: Writer<BufWriter<File>>,
    interface: InterfaceId,
    edges: Vec<String>,
    /// Packets in order of arrival. A frame that was forwarded at once has the number of the packet before it.
    waiting: VecDeque<Waiting>,
    comment: String,
}

impl Sink for Sorter {
    fn write(&mut self, mut chunk: &[u8]) -> io::Result<()> {
        while let Some((header, rest)) = chunk.split_at_checked(HEADER) {
            let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
            let len = u32::from_le_bytes(header[1..5].try_into().expect("four bytes")) as usize;
            let (bytes, rest) = rest.split_at(len);
            chunk = rest;
            let number = word(5);
            let words = [word(13), word(21), word(29), word(37)];
            let waiting = |number, fate| Waiting {
                number,
                at: Time::from_nanos(words[0]),
                edge: words[1] as usize,
                flow: words[2],
                colour: colour_name(words[3]),
                bytes: bytes.to_vec(),
                fate,
            };
            match KINDS[usize::from(header[0])] {
                Kind::Arrived => self.waiting.push_back(waiting(number, None)),
                Kind::Passed => {
                    let before = self.waiting.back().map_or(0, |last| last.number);
                    let fate = Fate::Passed { written: words[2] != 0 };
                    self.waiting.push_back(waiting(before, Some(fate)));
                }
                Kind::Dropped => {
                    let (why, _) = DropReason::NAMES[words[0] as usize];
                    self.ended(number, Fate::Dropped(why));
                }
                Kind::Delivered => {
                    let (after, late) = (Span::from_nanos(words[0]), Span::from_nanos(words[1]));
                    self.ended(number, Fate::Delivered { after, late, written: words[2] != 0 });
                }
            }
        }
        while self.waiting.front().is_some_and(|first| first.fate.is_some()) {
            self.write_first()?;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            self.write_first()?;
        }
        self.writer.finish().map(|_| ())
    }
}

impl Sorter {
    /// Records the fate of a packet. Packets that were left out of the capture are ignored.
    fn ended(&mut self, number: u64, fate: Fate) {
        let first = self.waiting.partition_point(|waiting| waiting.number < number);
        let same = self.waiting.range_mut(first..).take_while(|waiting| waiting.number == number);
        let open = same.into_iter().find(|waiting| waiting.fate.is_none());
        if let Some(waiting) = open {
            waiting.fate = Some(fate);
        }
    }

    fn write_first(&mut self) -> io::Result<()> {
        use std::fmt::Write;
        let Some(packet) = self.waiting.pop_front() else { return Ok(()) };
        let edge = self.edges.get(packet.edge).map_or("?", String::as_str);
        let priority = packet.colour;
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
            Fate::Dropped(why) => write!(text, "dropped, {}", DropReason::NAMES[why as usize].1),
            Fate::Delivered { after, late, written } => {
                let unwritable = if written { "" } else { ", unwritable" };
                let late = late.as_nanos() / 1000;
                write!(text, "delivered after {:.3} ms, {late} us late{unwritable}", ms(after))
            }
        };
        self.writer.packet(packet.at, self.interface, &packet.bytes, text)
    }
}
