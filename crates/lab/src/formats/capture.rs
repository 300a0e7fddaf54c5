//! Bursts of servers in a packet capture (CWV-S17), found by the watch that records those of simulated servers.

use crate::InputError;
use crate::results::bursts::Bursts;
use crate::results::rows::{BurstRow, Run, TableName};
use crate::results::table::{Table, Tables};
use catnip_base::{Span, Time};
use catnip_sim::record::{NO_APP, Served, ServedStep};
use catnip_sim::{TcpId, Watch};
use catnip_wire::pcapng::{CaptureError, Reader, Restored};
use catnip_wire::{FlowKey, Ip, Tcp, TcpFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::Path;

/// Bursts of the servers in a capture.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedBursts {
    /// Table `bursts`. Times count from the first packet of the capture, and connections from 0 in the order of their openings.
    pub bursts: Table,
    /// Number of connections whose opening is in the capture.
    pub connections: u64,
    /// Number of TCP packets of connections, or of servers, whose opening is not in the capture, which tell no bursts.
    pub unopened: u64,
    /// True if the capture ends in the middle of a packet.
    pub is_cut: bool,
}

/// Reads the bursts of servers from a capture in the format pcapng or pcap, best taken at the server. A burst begins with data of the side
/// that accepted the connection, and ends when all data that this side has sent is acknowledged. What an application has written and TCP
/// has not sent is not in a capture: data that follows an ACK at once, without a request, belongs to the burst before.
pub fn read_bursts(path: &Path) -> Result<CapturedBursts, InputError> {
    let mut servers = Servers::default();
    let is_cut = each_packet(path, |now, flow, tcp| servers.packet(now, flow, tcp))?;
    if servers.count == 0 && servers.unopened == 0 {
        return Err(InputError::new(&path.display().to_string(), "", "it has no TCP packets"));
    }
    let Servers { mut open, mut bursts, count, unopened, .. } = servers;
    open.values_mut().for_each(|open| open.settle(&mut bursts));
    let mut tables = Tables::new(&[TableName::BURSTS]);
    let all = bursts.finished().iter().chain(bursts.unfinished());
    tables.extend(Run { variant: 0, seed: 0 }, all.map(|burst| BurstRow { group: "", burst }));
    let bursts = tables.into_map().remove(&TableName::BURSTS).expect("the table that was asked for");
    Ok(CapturedBursts { bursts, connections: count, unopened, is_cut })
}

/// Visits the TCP packets of a capture that are whole, each with the time since the first packet and its flow. Times do not decrease: where a
/// clock was set back, or captures were merged out of order, time stands still. Returns true if the capture ends in the middle of a packet.
pub(super) fn each_packet(
    path: &Path,
    mut visit: impl FnMut(Time, FlowKey, &Tcp<'_>),
) -> Result<bool, InputError> {
    let name = path.display().to_string();
    let wrong = |error: CaptureError| InputError::new(&name, "", error);
    let file =
        File::open(path).map_err(|error| InputError::new(&name, "", format!("cannot read it: {error}")))?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(wrong)?;
    let mut restored = Restored::default();
    let (mut begin, mut latest) = (None, 0);
    loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                let begin = *begin.get_or_insert(record.nanos);
                latest = latest.max(record.nanos.saturating_sub(begin));
                let Some(packet) = record.ip() else { continue };
                let (packet, _) = restored.restore(packet, record.missing());
                let Ok(ip) = Ip::parse(packet) else { continue };
                if ip.protocol() != catnip_wire::ip::TCP || ip.fragment().is_some() {
                    continue;
                }
                let Ok(tcp) = Tcp::parse(ip.payload()) else { continue };
                visit(Time::ZERO + Span::from_nanos(latest as u64), FlowKey::of_tcp(&ip, &tcp), &tcp);
            }
            Ok(None) => return Ok(false),
            Err(CaptureError::Truncated) => return Ok(true),
            Err(error) => return Err(wrong(error)),
        }
    }
}

/// Servers of the connections of a capture.
#[derive(Debug, Default)]
struct Servers {
    /// Connections by the smaller of their two flows. Addresses that are used again belong to the latest connection.
    open: BTreeMap<FlowKey, Opened>,
    /// Number of connections.
    count: u64,
    unopened: u64,
    bursts: Bursts,
}

/// Connection that was opened in the capture.
#[derive(Debug)]
struct Opened {
    number: u64,
    at: Time,
    client: SocketAddr,
    /// Initial sequence number of the client, which tells a repeated SYN from a new connection.
    client_initial: u32,
    /// Initial sequence number of the server; `None` before its SYN-ACK.
    initial: Option<u32>,
    /// Number of bytes that the server has sent.
    sent: u64,
    /// Time and SND.UNA of an ACK of all data, after which more may follow at once.
    ended: Option<(Time, u64)>,
}

/// Time within which a server sends what its window has held back.
const AT_ONCE: Span = Span::from_millis(1);

impl Servers {
    fn packet(&mut self, now: Time, flow: FlowKey, tcp: &Tcp<'_>) {
        let (key, flags) = (flow.min(flow.reversed()), tcp.flags());
        if flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK) {
            let is_repeated = self
                .open
                .get(&key)
                .is_some_and(|open| open.client == flow.source && open.client_initial == tcp.sequence());
            if !is_repeated {
                let opened = Opened {
                    number: self.count,
                    at: now,
                    client: flow.source,
                    client_initial: tcp.sequence(),
                    initial: None,
                    sent: 0,
                    ended: None,
                };
                if let Some(mut before) = self.open.insert(key, opened) {
                    before.settle(&mut self.bursts);
                }
                self.count += 1;
            }
            return;
        }
        let Some(open) = self.open.get_mut(&key) else {
            self.unopened += 1;
            return;
        };
        if flow.source == open.client {
            open.on_ack(now, tcp, &mut self.bursts);
        } else {
            open.on_sent(now, tcp, &mut self.bursts);
        }
        self.unopened += u64::from(open.initial.is_none());
    }
}

impl Opened {
    /// Handles a packet of the server.
    fn on_sent(&mut self, now: Time, tcp: &Tcp<'_>, bursts: &mut Bursts) {
        if tcp.flags().contains(TcpFlags::SYN) {
            self.initial = Some(tcp.sequence());
        }
        let bytes = tcp.payload().len() as u32;
        let Some(seq) = self.position(tcp.sequence()).filter(|_| bytes > 0) else { return };
        let ended = self.ended.take();
        if let Some((at, snd_una)) = ended.filter(|(at, _)| now.since(*at) > AT_ONCE) {
            self.served(at, ServedStep::Acked { snd_una }, bursts);
        }
        let retransmission = seq < self.sent;
        self.sent = self.sent.max(seq + u64::from(bytes));
        if let Some((at, snd_una)) = ended.filter(|(at, _)| now.since(*at) <= AT_ONCE) {
            self.served(at, ServedStep::Acked { snd_una }, bursts);
        }
        self.served(now, ServedStep::Sent { seq, bytes, retransmission }, bursts);
    }

    /// Handles a packet of the client.
    fn on_ack(&mut self, now: Time, tcp: &Tcp<'_>, bursts: &mut Bursts) {
        let acked = self.position(tcp.acknowledgement()).filter(|_| tcp.flags().contains(TcpFlags::ACK));
        let is_first = self.ended.is_none();
        match acked {
            Some(snd_una) if snd_una >= self.sent && is_first => self.ended = Some((now, snd_una)),
            Some(snd_una) if is_first => self.served(now, ServedStep::Acked { snd_una }, bursts),
            _ => {}
        }
        if !tcp.payload().is_empty() {
            self.settle(bursts);
        }
    }

    /// Ends the burst of which all data is acknowledged.
    fn settle(&mut self, bursts: &mut Bursts) {
        if let Some((at, snd_una)) = self.ended.take() {
            self.served(at, ServedStep::Acked { snd_una }, bursts);
        }
    }

    fn served(&self, now: Time, step: ServedStep, bursts: &mut Bursts) {
        let &Self { number, at, sent, .. } = self;
        let served =
            Served { connection: number, app: NO_APP, tcp: TcpId(0), opened: at, written: sent, step };
        bursts.served(now, &served);
    }

    /// Returns the number of bytes before a sequence number, which is less than 2 GB from the last data; `None` if it is not known.
    fn position(&self, sequence: u32) -> Option<u64> {
        let first = self.initial?.wrapping_add(1);
        let ahead = sequence.wrapping_sub(first).wrapping_sub(self.sent as u32) as i32;
        self.sent.checked_add_signed(ahead.into())
    }
}
