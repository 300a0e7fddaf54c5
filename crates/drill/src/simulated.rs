//! Simulated host that is stepped by the events of a script.

use crate::packet::{Options, Packet};
use crate::record::Record;
use crate::script::{self, Call, Event, Field, Script};
use catnip_base::{Span, Time};
use catnip_net::Ecn;
use catnip_tcp::control::ControlSpec;
use catnip_tcp::{
    EcnBits, EcnKind, Endpoint, Flags, Outgoing, Role, SackBlocks, Segment, TcpConfig, Timestamps, profile,
};
use catnip_wire::{Announcement, TIMESTAMPS_LEN, TcpFlags};

/// Steps a simulated host by a script. An error says what the host does not know.
pub fn run(script: &Script) -> Result<Record, String> {
    let syn = script.peer_syn().ok_or("a script without a SYN from the peer")?;
    let mut host = Host::new(&script.options, syn)?;
    for line in script.steps() {
        host.advance(line.from);
        host.step(line.from, &line.event)?;
    }
    host.advance(script.end());
    Ok(host.record)
}

/// ssthresh of the kernel before a reduction, TCP_INFINITE_SSTHRESH, segments.
const INFINITE: u64 = 0x7fff_ffff;

/// Simulated host with one connection.
#[derive(Debug)]
pub struct Host {
    config: TcpConfig,
    endpoint: Option<Endpoint>,
    /// Shift count of the peer's windows.
    peer_scale: u8,
    record: Record,
}

impl Host {
    /// Creates a host whose peer sends or answers with the options of `syn`.
    pub fn new(options: &script::Options, syn: &Packet) -> Result<Self, String> {
        let base = profile::by_name(&options.profile).map_err(|error| error.to_string())?;
        let peer = syn.options.clone().unwrap_or_default();
        let mss = u32::from(peer.mss.ok_or("a SYN without an MSS")?);
        if !peer.sack_permitted && base.recovery.uses_sack() {
            return Err(format!("the profile {} needs sackOK", options.profile));
        }
        let timestamps = base.timestamps && peer.timestamps.is_some();
        let config = TcpConfig {
            segment_bytes: mss - if timestamps { TIMESTAMPS_LEN } else { 0 },
            timestamps,
            ecn: if options.ecn { EcnKind::Classic } else { EcnKind::None },
            nagle: true,
            ..base
        };
        Ok(Self {
            config,
            endpoint: None,
            peer_scale: peer.window_scale.unwrap_or(0),
            record: Record::default(),
        })
    }

    /// Returns what the host has done.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the time at which the host does something by itself; `None` if it only waits.
    pub fn deadline(&self) -> Option<Time> {
        self.endpoint.as_ref().and_then(Endpoint::deadline)
    }

    /// Lets the timers expire that are due before `until`, or at it.
    pub fn advance(&mut self, until: Time) {
        while let Some(at) = self.deadline().filter(|&at| at <= until) {
            if let Some(endpoint) = &mut self.endpoint {
                endpoint.on_timer(at, &self.config);
            }
            self.drain(at);
        }
    }

    /// Handles an event at `now`.
    pub fn step(&mut self, now: Time, event: &Event) -> Result<(), String> {
        match event {
            Event::Call(call) => self.call(now, call)?,
            Event::Receive(packet) => {
                let segment = self.segment(packet);
                let Some(endpoint) = &mut self.endpoint else {
                    return Err("a packet before listen or connect".into());
                };
                endpoint.on_segment(now, &segment, &self.config);
            }
            Event::Assert(field, _) => {
                let value = self.value(*field).unwrap_or(u64::from(self.config.initial_window));
                self.record.values.push(value);
            }
            Event::Send(_) => {}
        }
        self.drain(now);
        Ok(())
    }

    fn call(&mut self, now: Time, call: &Call) -> Result<(), String> {
        let config = &mut self.config;
        match call {
            Call::Socket | Call::Nothing(_) | Call::Accept => {}
            Call::Listen => self.endpoint = Some(Endpoint::new(now, Role::Passive, config, Span::ZERO)),
            Call::Connect => self.endpoint = Some(Endpoint::new(now, Role::Active, config, Span::ZERO)),
            Call::NoDelay => config.nagle = false,
            Call::Congestion(name) => {
                // The kernel's names.
                let name = if name == "cubic" { "linux-cubic" } else { name };
                config.control = name.parse::<ControlSpec>().map_err(|error| error.to_string())?;
            }
            Call::Write(_) | Call::Close => {
                let bytes = if let Call::Write(bytes) = call { *bytes } else { 0 };
                let Some(endpoint) = &mut self.endpoint else {
                    return Err("a write before listen or connect".into());
                };
                endpoint.write(now, bytes, None, *call == Call::Close, config);
            }
        }
        Ok(())
    }

    /// Returns a value of the sender; `None` before it has data to send.
    pub fn value(&self, field: Field) -> Option<u64> {
        let sender = self.endpoint.as_ref().and_then(Endpoint::sender)?;
        let segment = u64::from(self.config.segment_bytes);
        Some(match field {
            Field::Cwnd => sender.window() / segment,
            Field::Ssthresh => {
                sender.control().ssthresh.map_or(INFINITE, |bytes| (bytes / segment).min(INFINITE))
            }
        })
    }

    fn drain(&mut self, now: Time) {
        while let Some(out) = self.endpoint.as_mut().and_then(|endpoint| endpoint.transmit(now, &self.config))
        {
            let packet = self.packet(&out);
            self.record.sent.push((now, packet));
        }
    }

    /// Translates a received packet. Byte 0 of a segment has the relative number 1.
    fn segment(&self, packet: &Packet) -> Segment {
        let syn = packet.has(TcpFlags::SYN);
        let options = packet.options.clone().unwrap_or_default();
        let offset = |number: u64| number.saturating_sub(1);
        let ack = packet.ack.map_or(0, offset);
        let scale = if syn { 0 } else { self.peer_scale };
        let (tsval, tsecr) = options.timestamps.unwrap_or_default();
        Segment {
            seq: if syn { 0 } else { offset(packet.seq) },
            ack,
            len: packet.len,
            window: u32::from(packet.window.unwrap_or(u16::MAX)) << scale,
            flags: Flags { syn, ack: packet.has(TcpFlags::ACK), fin: packet.has(TcpFlags::FIN) },
            sack: SackBlocks::new(ack, options.sack.iter().map(|&(start, end)| (offset(start), offset(end)))),
            ecn: EcnBits::new(packet.has(TcpFlags::ECE), packet.has(TcpFlags::CWR))
                .with_ce(packet.ecn == Some(Ecn::CE)),
            timestamps: if self.config.timestamps {
                Timestamps { tsval, tsecr }
            } else {
                Timestamps::default()
            },
        }
    }

    fn packet(&self, out: &Outgoing) -> Packet {
        let Outgoing { segment, ecn, .. } = out;
        let Flags { syn, ack, fin } = segment.flags;
        let bits = [
            (syn, TcpFlags::SYN),
            (ack, TcpFlags::ACK),
            (fin, TcpFlags::FIN),
            (segment.ecn.ece(), TcpFlags::ECE),
            (segment.ecn.cwr(), TcpFlags::CWR),
        ];
        let announcement = syn.then(|| Announcement::of(&self.config));
        let stamps = (segment.timestamps.tsval, segment.timestamps.tsecr);
        Packet {
            ecn: Some(*ecn),
            flags: bits
                .iter()
                .filter(|(is_set, _)| *is_set)
                .fold(TcpFlags::default(), |all, (_, bit)| all | *bit),
            seq: if syn { 0 } else { segment.seq + 1 },
            len: segment.len,
            ack: ack.then_some(segment.ack + 1),
            window: None,
            options: Some(Options {
                mss: announcement.map(|it| it.mss),
                window_scale: announcement.and_then(|it| it.window_scale),
                sack_permitted: announcement.is_some_and(|it| it.sack),
                sack: segment.sack.ranges(segment.ack).map(|(start, end)| (start + 1, end + 1)).collect(),
                timestamps: self.config.timestamps.then_some(stamps),
            }),
        }
    }
}
