//! Selective packet marking where an unmarked server's packets enter the network (CATNIP paper, section III-B).
//!
//! A marker on the server knows its window and the size of its document. At the edge both are read off the packets:
//! - A response begins with the first data after a request, and after the end of the one before.
//! - It ends where an unencrypted HTTP/1 header says. Encrypted, chunked and other responses have no known end, so
//!   that marking is partial, as in the paper's section V-G.
//! - The window is no smaller than the most data that was in flight. It looks smaller than it is at the beginning of a
//!   connection, and because acknowledgements are seen before the server hears of them. A retransmission after three
//!   duplicate ACKs halves it, another one sets it to one segment (RFC 5681); from there it grows by a segment per ACK
//!   until all that was out is acknowledged.
//!
//! Retransmissions are judged as first transmissions are, by their place and by the window, unless the marker says otherwise. FIN and RST are HIGH, as
//! are SYN and SYN-ACK unless the marker says otherwise. Everything else of TCP is LOW.

mod table;

use catnip_net::Colour;
use catnip_net::mark::SpmParameters;
use catnip_tcp::recovery::DUPACK_THRESHOLD;
use catnip_wire::http::{self, Head, Progress};
use catnip_wire::{FlowKey, Ip, Tcp, TcpFlags, ip, unwrap_near};
use table::Table;

/// Connections that are watched at a time; a new one takes the place of one that was silent for long.
pub const CONNECTIONS: usize = 8192;

/// RFC 9293, section 3.7.1.
const DEFAULT_MSS: u64 = 536;

/// What a link is to mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    /// How to mark what comes from inside and from outside, if at all.
    pub edges: [Option<SpmParameters>; 2],
    /// Marks leave the network with the packets.
    pub writes: bool,
}

impl Marking {
    /// A marker, if there is anything to mark.
    pub fn marker(&self) -> Option<Marker> {
        let Self { edges, writes } = *self;
        edges.iter().any(Option::is_some).then(|| Marker::new(edges.to_vec(), writes))
    }
}

/// Marks the packets that enter a network.
#[derive(Debug)]
pub struct Marker {
    /// How to mark what comes from each edge, if at all.
    edges: Vec<Option<SpmParameters>>,
    writes: bool,
    connections: Table<[End; 2]>,
}

impl Marker {
    /// A marker for what comes from each edge, by its index; `None` leaves packets as they are.
    ///
    /// If it writes, packets leave the network with their marks; otherwise the network alone knows of them.
    pub fn new(edges: Vec<Option<SpmParameters>>, writes: bool) -> Self {
        Self { edges, writes, connections: Table::new(CONNECTIONS) }
    }

    /// Are marks to be written into the packets?
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// The priority of the next packet, which comes from this edge. Nothing if it is not the marker's business: not
    /// TCP, only a fragment, damaged, or of a direction that is not marked.
    pub fn mark(&mut self, from: usize, packet: &[u8]) -> Option<Colour> {
        let ip = Ip::parse(packet).ok().filter(|ip| ip.protocol() == ip::TCP && ip.fragment().is_none())?;
        let tcp = Tcp::parse(ip.payload()).ok()?;
        let flow = FlowKey::of_tcp(&ip, &tcp);
        let reversed = flow.reversed();
        let [first, second] = self.connections.get(flow.min(reversed));
        let (sender, receiver) = if flow < reversed { (first, second) } else { (second, first) };
        let rules = self.edges.get(from).copied().flatten();
        // Unmarked directions are watched all the same.
        let priority = hear(sender, receiver, &tcp, rules.unwrap_or(SpmParameters::FULL));
        rules.map(|_| priority)
    }
}

/// One side of a connection as a sender. Positions count bytes as sequence numbers do, without wrapping.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// Sequence number of its SYN or of the first packet seen.
    initial: Option<u32>,
    /// The segment size that its SYN announces.
    mss: Option<u16>,
    /// Bytes of data in a full segment.
    segment: u64,
    /// End of all that was sent.
    sent: u64,
    acknowledged: u64,
    /// Until all before this is acknowledged, what is in flight says nothing about the window.
    recover: u64,
    /// ACKs in a row that repeat the one before.
    duplicates: u32,
    /// The window is no smaller, bytes.
    window: u64,
    /// Where the response begins.
    begun: u64,
    /// Segments of the response so far.
    segments: u32,
    /// Where the response ends.
    end: Option<u64>,
    head: Head,
    /// The next data follows a request, or is the first.
    asked: bool,
    /// What was asked for is a header without a body (RFC 9110, section 9.3.2).
    bodiless: bool,
}

/// One segment of data.
#[derive(Clone, Copy)]
struct Data<'a> {
    start: u64,
    end: u64,
    bytes: &'a [u8],
}

fn hear(from: &mut End, to: &mut End, tcp: &Tcp<'_>, rules: SpmParameters) -> Colour {
    let flags = tcp.flags();
    let syn = flags.contains(TcpFlags::SYN);
    from.open(tcp, syn);
    if flags.contains(TcpFlags::ACK) {
        to.acknowledge(tcp.acknowledgement(), tcp.payload().is_empty() && !syn);
    }
    let start = from.place(tcp.sequence()) + u64::from(syn);
    let bytes = tcp.payload();
    let data = Data { start, end: start + bytes.len() as u64, bytes };
    let crucial = !bytes.is_empty() && {
        if data.end > from.sent {
            to.asked_by(from, bytes);
        }
        from.send(data, segment_bytes(from.mss, to.mss, tcp), rules)
    };
    let fin = flags.contains(TcpFlags::FIN);
    if syn || fin || !bytes.is_empty() {
        from.sent = from.sent.max(data.end + u64::from(fin));
    }
    let opens = syn && rules.handshake != Some(Colour::Red);
    if crucial || opens || fin || flags.contains(TcpFlags::RST) { Colour::Green } else { Colour::Red }
}

/// What both sides can take, less the options (RFC 6691), if their SYNs were seen.
fn segment_bytes(ours: Option<u16>, theirs: Option<u16>, tcp: &Tcp<'_>) -> Option<u64> {
    let mss = ours?.min(theirs?);
    let options = tcp.header_len() as u64 - 20;
    Some(u64::from(mss).saturating_sub(options).max(1))
}

impl End {
    /// A SYN with another number, or the first packet, begins a connection.
    fn open(&mut self, tcp: &Tcp<'_>, syn: bool) {
        let sequence = tcp.sequence();
        if self.initial.is_none_or(|initial| syn && initial != sequence) {
            // One round of numbers above zero, so that older packets have a place, too.
            let sent = (1 << 32) + u64::from(sequence);
            *self = Self {
                initial: Some(sequence),
                sent: sent + u64::from(syn),
                acknowledged: sent,
                asked: true,
                bodiless: self.bodiless && self.initial.is_none(),
                ..Self::default()
            };
        }
        if syn {
            self.mss = tcp.options().ok().and_then(|options| options.mss);
        }
    }

    fn place(&self, sequence: u32) -> u64 {
        unwrap_near(self.sent, sequence).unwrap_or(self.sent)
    }

    /// The other side has got all before this; a `bare` ACK carries nothing else.
    fn acknowledge(&mut self, number: u32, bare: bool) {
        let place = self.place(number);
        if self.initial.is_none() || place > self.sent {
            return;
        }
        if place > self.acknowledged {
            if self.acknowledged < self.recover {
                self.window += self.segment;
            }
            (self.acknowledged, self.duplicates) = (place, 0);
        } else if place == self.acknowledged && bare && self.acknowledged < self.sent {
            self.duplicates += 1;
        }
    }

    /// The other side sends something new.
    fn asked_by(&mut self, other: &Self, bytes: &[u8]) {
        if other.asked {
            self.bodiless = bytes.starts_with(b"HEAD ");
        }
        self.asked = true;
    }

    /// Is this packet of data crucial?
    fn send(&mut self, data: Data<'_>, segment: Option<u64>, rules: SpmParameters) -> bool {
        let Data { start, end, bytes } = data;
        let len = bytes.len() as u64;
        self.segment = self.segment.max(segment.unwrap_or(len.max(DEFAULT_MSS)));
        let in_flight = end.max(self.sent) - self.acknowledged;
        if start < self.sent && self.acknowledged >= self.recover {
            let fast = self.duplicates >= DUPACK_THRESHOLD;
            self.window = if fast { in_flight / 2 } else { self.segment };
            self.recover = self.sent;
        }
        if self.acknowledged >= self.recover {
            self.window = self.window.max(in_flight);
        }
        let segment = self.segment;
        let far = |count: u32| u64::from(count) * segment;
        let small = self.window < far(rules.small_window);
        let far_tail = far(rules.trailing);
        if end <= self.sent {
            let leading = start < self.begun + far(rules.leading);
            let trailing = self.end.is_some_and(|document_end| start + far_tail >= document_end);
            return rules.repairs || leading || trailing && far_tail > 0 || small;
        }
        let again = start < self.sent;
        if start > self.sent {
            self.head = Head::LOST;
        }
        let asked = std::mem::take(&mut self.asked);
        let over = match self.end {
            Some(end) => start >= end || asked && bytes.starts_with(http::BEGIN),
            None => asked,
        };
        if over && !again {
            self.begin(start);
        }
        let mut leading = self.segments < rules.leading;
        // A packet may be many segments, if the kernel has left it to others to cut it.
        self.segments = self.segments.saturating_add(len.div_ceil(self.segment) as u32);
        let last_segment = end - ((len - 1) % self.segment + 1);
        let mut trailing = false;
        let mut at = start.max(self.sent);
        // Several responses may share a packet.
        loop {
            if self.head.is_open() {
                match self.head.read(&bytes[(at - start) as usize..]) {
                    Progress::More => break,
                    Progress::Complete { used, body } => {
                        at += used as u64;
                        let body = if self.bodiless { Some(0) } else { body };
                        self.end = body.and_then(|body| at.checked_add(body));
                    }
                }
            }
            let Some(document_end) = self.end else { break };
            trailing |= document_end.saturating_sub(last_segment) <= far_tail && far_tail > 0;
            if end <= document_end {
                break;
            }
            at = at.max(document_end);
            self.begin(at);
            self.segments = 1;
            leading |= rules.leading > 0;
        }
        leading || trailing || small
    }

    /// A response begins.
    fn begin(&mut self, at: u64) {
        (self.begun, self.segments, self.end, self.head) = (at, 0, None, Head::default());
    }
}

#[cfg(test)]
mod tests;
