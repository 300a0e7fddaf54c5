//! Log file of all packet events.

use crate::observe::chunks::{Chunks, Sink};
use catnip_base::Time;
use catnip_net::{DropReason, NodeId, Packet};
use catnip_sim::watch::{GatewayEvent, Origin, Refusal, Step};
use catnip_sim::{Event, Watch};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Columns of a log.
const HEADER: &str = "event,time_ns,number,edge,flow,len_bytes,priority,ecn,reason,lateness_ns\n";
/// Size of the chunks for the writing thread, bytes.
const CHUNK: usize = 1 << 16;

/// Log of packet events as CSV. The events are `arrive`, `depart`, `drop`, `refuse` and `end`. A `depart` event has the ideal time of the
/// departure and the lateness of the write.
#[derive(Debug)]
pub struct Log(Chunks);

impl Log {
    /// Creates the file and starts the writing thread.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(HEADER.as_bytes())?;
        Chunks::start("log", CHUNK, file).map(Self)
    }

    /// Writes the remaining events and the event `end`.
    pub fn finish(mut self, end: Time) -> io::Result<()> {
        self.line(format_args!("end,{},,,,,,,,\n", end.as_nanos()));
        self.0.finish()
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a `Vec` cannot fail.
        let _ = self.0.buffer.write_fmt(line);
        self.0.flush_if_full();
    }
}

impl Sink for File {
    fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.write_all(chunk)
    }

    fn finish(self) -> io::Result<()> {
        Ok(())
    }
}

impl Watch for Log {
    const PACKETS: bool = false;
    fn record(&mut self, _now: Time, _event: &Event) {}

    fn packet(&mut self, now: Time, packet: &Packet, origin: Origin, step: Step<'_>) {
        let (at, number, edge) = (now.as_nanos(), origin.number, origin.from.0);
        let Packet { flow, len, .. } = *packet;
        match step {
            Step::Sent(_) => {
                let priority = packet.dscp.priority().name();
                let (at, ecn) = (origin.at.as_nanos(), packet.ecn.bits());
                self.line(format_args!("arrive,{at},{number},{edge},{flow},{len},{priority},{ecn},,\n"));
            }
            Step::Dropped(_, reason) => {
                let reason = DropReason::NAMES[reason as usize].1;
                self.line(format_args!("drop,{at},{number},{edge},{flow},{len},,,{reason},\n"));
            }
            Step::Egress { actual, written, .. } => {
                let lateness = actual.since(now).as_nanos();
                let refused = if written { "" } else { "unwritable" };
                self.line(format_args!("depart,{at},{number},{edge},{flow},{len},,,{refused},{lateness}\n"));
            }
            Step::Entered(_)
            | Step::Passed(_)
            | Step::Copied(..)
            | Step::Corrupted(_)
            | Step::Delivered(_) => {}
        }
    }

    fn gateway(&mut self, now: Time, at: NodeId, event: GatewayEvent<'_>) {
        if let GatewayEvent::Refused(len, reason) = event {
            let name = Refusal::NAMES[reason as usize].1;
            self.line(format_args!("refuse,{},,{},,{len},,,{name},\n", now.as_nanos(), at.0));
        }
    }
}
