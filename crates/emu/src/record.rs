//! Every arrival and what became of it, as a file, and the same network driven by the recorded arrivals alone.

use crate::buffers::Entry;
use crate::classify::Refusal;
use crate::pump::Observer;
use catnip_base::Time;
use catnip_net::{DropReason, Ecn, Fabric, NetworkFate, NodeId, Out, Packet, PortId, Priority};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

/// A packet that entered a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Time,
    /// Counted from 0 in order of arrival at any edge.
    pub number: u64,
    /// Index of the edge.
    pub edge: u32,
    /// Where it goes.
    pub flow: u32,
    /// Bytes.
    pub len: u32,
    /// Loss priority.
    pub priority: Priority,
    /// ECN codepoint.
    pub ecn: Ecn,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// When: the ideal time of a departure, the time of a drop.
    pub at: Time,
    /// Which packet.
    pub number: u64,
    /// Nothing if it came out; else the name of the reason why not.
    pub dropped: Option<&'static str>,
}

fn reason(why: DropReason) -> &'static str {
    DropReason::NAMES[why as usize].1
}

/// Keeps everything in memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// What entered.
    pub arrivals: Vec<Arrival>,
    /// What became of it, in the order in which the host heard of it.
    pub ends: Vec<End>,
}

impl Memory {
    /// What became of the packets, in order of time and number.
    pub fn sorted_ends(mut self) -> Vec<End> {
        self.ends.sort_unstable();
        self.ends
    }
}

impl Observer for Memory {
    fn arrived(&mut self, entry: &Entry, packet: &Packet) {
        self.arrivals.push(arrival(entry, packet));
    }
    fn dropped(&mut self, at: Time, entry: &Entry, _packet: &Packet, _port: PortId, why: DropReason) {
        self.ends.push(End { at, number: entry.number, dropped: Some(reason(why)) });
    }
    fn delivered(&mut self, ideal: Time, _actual: Time, entry: &Entry, _packet: &Packet, _written: bool) {
        self.ends.push(End { at: ideal, number: entry.number, dropped: None });
    }
}

fn arrival(entry: &Entry, packet: &Packet) -> Arrival {
    Arrival {
        at: entry.arrived,
        number: entry.number,
        edge: entry.from,
        flow: packet.flow,
        len: packet.len,
        priority: packet.priority,
        ecn: packet.ecn,
    }
}

/// Drives a network by recorded arrivals, as the simulator does, up to the time `until`. Edge `n` sends as the `n`-th
/// of `senders`; the destinations of the flows must have been set.
pub fn replay(mut fabric: Fabric, senders: &[NodeId], arrivals: &[Arrival], until: Time) -> Vec<End> {
    struct Fates<'a>(&'a [Arrival], Vec<End>);
    impl NetworkFate for Fates<'_> {
        fn dropped(&mut self, now: Time, _at: PortId, packet: Packet, why: DropReason) {
            let number = self.0[packet.body as usize].number;
            self.1.push(End { at: now, number, dropped: Some(reason(why)) });
        }
    }
    let mut fates = Fates(arrivals, Vec::new());
    let deliver = |fabric: &mut Fabric, fates: &mut Fates<'_>, until| {
        while let Out::Deliver(at, _, packet) = fabric.poll(until, fates) {
            fates.1.push(End { at, number: arrivals[packet.body as usize].number, dropped: None });
        }
    };
    for (body, arrival) in arrivals.iter().enumerate() {
        let &Arrival { at, edge, flow, len, priority, ecn, .. } = arrival;
        deliver(&mut fabric, &mut fates, at);
        let packet = Packet { arrived: at, flow, len, body: body as u32, ecn, priority, class: 0 };
        fabric.arrive(at, senders[edge as usize], packet, &mut fates);
    }
    deliver(&mut fabric, &mut fates, until);
    fates.1.sort_unstable();
    fates.1
}

/// The columns of a log.
const HEADER: &str = "event,time_ns,number,edge,flow,len_bytes,priority,ecn,reason,lateness_ns\n";
/// Bytes handed to the writing thread at a time.
const CHUNK: usize = 1 << 16;
const CHUNKS: usize = 64;

/// Writes everything to a file, as CSV, from a thread of its own, so that a slow disk makes no packet late. Events are
/// `arrive`; `depart`, at the ideal time, with how late it was written; `drop`; `refuse`; `end`.
#[derive(Debug)]
pub struct Log {
    chunk: Vec<u8>,
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    writer: JoinHandle<io::Result<()>>,
}

impl Log {
    /// Opens the file and starts the thread.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        let (full, chunks) = sync_channel::<Vec<u8>>(CHUNKS);
        let (give_back, empty) = channel();
        let writer = std::thread::Builder::new().name("log".into()).spawn(move || {
            file.write_all(HEADER.as_bytes())?;
            for mut chunk in chunks {
                file.write_all(&chunk)?;
                chunk.clear();
                // At the end nobody wants it any more.
                let _ = give_back.send(chunk);
            }
            Ok(())
        })?;
        Ok(Self { chunk: Vec::with_capacity(2 * CHUNK), full, empty, writer })
    }

    /// Writes what is left, and when the run ended.
    pub fn finish(mut self, end: Time) -> io::Result<()> {
        self.line(format_args!("end,{},,,,,,,,\n", end.as_nanos()));
        // If it fails, the thread has ended with an error, which is the one to tell.
        let _ = self.full.send(self.chunk);
        drop(self.full);
        self.writer.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread failed")))
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a `Vec` cannot fail.
        let _ = self.chunk.write_fmt(line);
        if self.chunk.len() < CHUNK {
            return;
        }
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(2 * CHUNK));
        match self.full.try_send(std::mem::replace(&mut self.chunk, next)) {
            // The disk is behind: keep it and try again with the next line.
            Err(TrySendError::Full(chunk)) => self.chunk = chunk,
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

impl Observer for Log {
    fn arrived(&mut self, entry: &Entry, packet: &Packet) {
        let Arrival { at, number, edge, flow, len, priority, ecn } = arrival(entry, packet);
        let priority = if priority == Priority::High { "high" } else { "low" };
        let at = at.as_nanos();
        self.line(format_args!("arrive,{at},{number},{edge},{flow},{len},{priority},{},,\n", ecn as u8));
    }
    fn dropped(&mut self, at: Time, entry: &Entry, packet: &Packet, _port: PortId, why: DropReason) {
        let (at, number, edge) = (at.as_nanos(), entry.number, entry.from);
        self.line(format_args!(
            "drop,{at},{number},{edge},{},{},,,{},\n",
            packet.flow,
            packet.len,
            reason(why)
        ));
    }
    fn delivered(&mut self, ideal: Time, actual: Time, entry: &Entry, packet: &Packet, written: bool) {
        let (at, number, edge) = (ideal.as_nanos(), entry.number, entry.from);
        let late = actual.since(ideal).as_nanos();
        let refused = if written { "" } else { "unwritable" };
        self.line(format_args!(
            "depart,{at},{number},{edge},{},{},,,{refused},{late}\n",
            packet.flow, packet.len
        ));
    }
    fn refused(&mut self, at: Time, from: u32, len: u32, why: Refusal) {
        let name = Refusal::NAMES[why as usize].1;
        self.line(format_args!("refuse,{},,{from},,{len},,,{name},\n", at.as_nanos()));
    }
}

/// Reads a log: the arrivals, what became of them, and when the run ended.
pub fn read_log(text: &str) -> Result<(Memory, Time), String> {
    let mut memory = Memory::default();
    let mut end = Time::ZERO;
    let mut lines = text.lines().enumerate();
    if lines.next().map(|(_, line)| line) != Some(HEADER.trim_end()) {
        return Err(format!("line 1: expected {}", HEADER.trim_end()));
    }
    for (index, line) in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let wrong = |what: &str| format!("line {}: {what}: {line:?}", index + 1);
        if fields.len() != 10 {
            return Err(wrong("expected 10 fields"));
        }
        let number = |field: usize| fields[field].parse::<u64>().map_err(|_| wrong("expected a number"));
        let at = Time::from_nanos(number(1)?);
        match fields[0] {
            "arrive" => memory.arrivals.push(Arrival {
                at,
                number: number(2)?,
                edge: number(3)? as u32,
                flow: number(4)? as u32,
                len: number(5)? as u32,
                priority: if fields[6] == "high" { Priority::High } else { Priority::Low },
                ecn: match fields[7] {
                    "0" => Ecn::NotEct,
                    "1" => Ecn::Ect1,
                    "2" => Ecn::Ect0,
                    "3" => Ecn::Ce,
                    _ => return Err(wrong("expected an ECN codepoint from 0 to 3")),
                },
            }),
            "depart" => memory.ends.push(End { at, number: number(2)?, dropped: None }),
            "drop" => {
                let known = DropReason::NAMES.iter().find(|(_, name)| *name == fields[8]);
                let (_, name) = known.ok_or_else(|| wrong("unknown reason"))?;
                memory.ends.push(End { at, number: number(2)?, dropped: Some(name) });
            }
            "refuse" => {}
            "end" => end = at,
            _ => return Err(wrong("unknown event")),
        }
    }
    Ok((memory, end))
}
