//! Selective packet marking at the edge where packets of an unmarked server enter the network (CATNIP paper, section III-B).
//!
//! A marker on the server has the congestion window and the size of the document. A marker at the edge derives both from packets:
//! - A response begins with the first data after a request, and not before the end of the previous response.
//! - It ends at the length that an unencrypted HTTP/1 header gives. The end of encrypted, chunked and other responses is unknown, so that
//!   marking is partial, as in the paper's section V-G.
//! - The window is estimated by the largest amount of data in flight, a lower bound. The estimate is too small at the beginning of a
//!   connection, and because ACKs pass the edge before they reach the server. The first retransmission of a recovery sets it to half of the
//!   data in flight after three duplicate ACKs, and to one segment otherwise (RFC 5681). It then grows by one segment per ACK of new data
//!   until all data sent before the recovery is acknowledged.
//!
//! Retransmissions are marked as first transmissions are, by their offset and by the window, unless the parameters specify otherwise. FIN
//! and RST are HIGH, as are SYN and SYN-ACK unless the parameters specify otherwise. All other packets without data are LOW.

mod table;

use catnip_net::Colour;
use catnip_net::mark::SpmParameters;
use catnip_tcp::recovery::DUPACK_THRESHOLD;
use catnip_wire::http::{self, Head, Progress};
use catnip_wire::{FlowKey, Ip, Tcp, TcpFlags, ip, unwrap_near};
use table::Table;

/// Number of tracked connections; a new one replaces one that was not used for long.
pub const CONNECTIONS: usize = 8192;

/// Default maximum segment size for IPv4 (RFC 9293, section 3.7.1).
const DEFAULT_MSS: u64 = 536;

/// Marking of the packets that enter a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    /// Parameters for packets from inside and from outside; `None` leaves packets unmarked.
    pub edges: [Option<SpmParameters>; 2],
    /// True if packets leave the network with their marks.
    pub writes: bool,
}

impl Marking {
    /// Returns the marker, if any direction is marked.
    pub fn marker(&self) -> Option<Marker> {
        let Self { edges, writes } = *self;
        edges.iter().any(Option::is_some).then(|| Marker::new(edges.to_vec(), writes))
    }
}

/// Marker of the packets that enter a network.
#[derive(Debug)]
pub struct Marker {
    /// Parameters for packets from each edge; `None` leaves packets unmarked.
    edges: Vec<Option<SpmParameters>>,
    writes: bool,
    connections: Table<[End; 2]>,
}

impl Marker {
    /// Creates a marker for packets from each edge, by its index; `None` leaves packets unmarked.
    ///
    /// If `writes` is true, packets leave the network with their marks; otherwise the marks apply inside the network only.
    pub fn new(edges: Vec<Option<SpmParameters>>, writes: bool) -> Self {
        Self { edges, writes, connections: Table::new(CONNECTIONS) }
    }

    /// Returns true if marks are written into the packets.
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// Returns the priority of the next packet, which comes from this edge; from no edge, the packet only advances the state of its
    /// connection. Returns `None` if the marker does not apply: to other protocols than TCP, to fragments and malformed packets, and to
    /// directions that are not marked.
    pub fn mark(&mut self, from: Option<usize>, packet: &[u8]) -> Option<Colour> {
        let ip = Ip::parse(packet).ok().filter(|ip| ip.protocol() == ip::TCP && ip.fragment().is_none())?;
        let tcp = Tcp::parse(ip.payload()).ok()?;
        let flow = FlowKey::of_tcp(&ip, &tcp);
        let reversed = flow.reversed();
        let [first, second] = self.connections.get(flow.min(reversed));
        let (sender, receiver) = if flow < reversed { (first, second) } else { (second, first) };
        let rules = from.and_then(|from| self.edges.get(from).copied().flatten());
        // Unmarked directions are tracked as well.
        let priority = hear(sender, receiver, &tcp, rules.unwrap_or(SpmParameters::FULL));
        rules.map(|_| priority)
    }
}

/// One end of a connection as a sender. Positions count bytes as sequence numbers do, without wrapping.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// Sequence number of the SYN, or of the first packet seen.
    initial: Option<u32>,
    /// Maximum segment size that the SYN announces.
    mss: Option<u16>,
    /// Data bytes of a full segment.
    segment: u64,
    /// End of all data sent.
    sent: u64,
    acknowledged: u64,
    /// End of the data sent when the last recovery began. Until all of it is acknowledged, data in flight is no measure of the window.
    recover: u64,
    /// Number of consecutive duplicate ACKs.
    duplicates: u32,
    /// Lower bound on the congestion window, bytes.
    window: u64,
    /// Beginning of the response.
    begun: u64,
    /// Number of segments of the response so far.
    segments: u32,
    /// End of the response, if known.
    end: Option<u64>,
    head: Head,
    /// True if the next data follows a request, or is the first.
    asked: bool,
    /// True if the request was HEAD, whose response has no body (RFC 9110, section 9.3.2).
    bodiless: bool,
}

/// Data of one segment.
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

/// Returns the data bytes of a full segment: the smaller of the two maximum segment sizes, less the options (RFC 6691), if both SYNs were
/// seen.
fn segment_bytes(ours: Option<u16>, theirs: Option<u16>, tcp: &Tcp<'_>) -> Option<u64> {
    let mss = ours?.min(theirs?);
    let options = tcp.header_len() as u64 - 20;
    Some(u64::from(mss).saturating_sub(options).max(1))
}

impl End {
    /// Starts a connection at a SYN with a new sequence number, or at the first packet.
    fn open(&mut self, tcp: &Tcp<'_>, syn: bool) {
        let sequence = tcp.sequence();
        if self.initial.is_none_or(|initial| syn && initial != sequence) {
            // Positions begin one round of sequence numbers above zero, so that older packets have positions, too.
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

    /// Processes an acknowledgement of the peer; `bare` is true for an ACK without data.
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

    /// Records new data of the peer, which may be a request.
    fn asked_by(&mut self, other: &Self, bytes: &[u8]) {
        if other.asked {
            self.bodiless = bytes.starts_with(b"HEAD ");
        }
        self.asked = true;
    }

    /// Processes a packet with data. Returns true if the packet is HIGH.
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
        // A packet may contain many segments, if segmentation is offloaded.
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

    /// Starts a response.
    fn begin(&mut self, at: u64) {
        (self.begun, self.segments, self.end, self.head) = (at, 0, None, Head::default());
    }
}

#[cfg(test)]
mod tests;
