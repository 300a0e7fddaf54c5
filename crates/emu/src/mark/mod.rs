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

use catnip_net::Priority;
use catnip_net::mark::SpmParameters;
use catnip_tcp::recovery::DUPACK_THRESHOLD;
use catnip_wire::http::{self, Head, Progress};
use catnip_wire::{FlowKey, Ip, Tcp, TcpFlags, ip, unwrap_sequence};
use table::Table;

/// Largest number of connections that a marker tracks. A new connection replaces one that was not used for long.
pub const CONNECTIONS: usize = 8192;

/// Default maximum segment size for IPv4 (RFC 9293, section 3.7.1).
const DEFAULT_MSS: u64 = 536;

/// Configuration of the marking of packets that enter a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    /// Parameters of the marker for packets that enter at the inside end and at the outside end; `None` leaves packets unmarked.
    pub edges: [Option<SpmParameters>; 2],
    /// True if packets leave the link with their marks; otherwise the marks apply inside the link only.
    pub writes_marks: bool,
}

impl Marking {
    /// Returns the marker, or `None` if neither direction is marked.
    pub fn marker(&self) -> Option<Marker> {
        let Self { edges, writes_marks } = *self;
        edges.iter().any(Option::is_some).then(|| Marker::new(edges.to_vec(), writes_marks))
    }
}

/// Marker of the packets that enter a network at its edges.
#[derive(Debug)]
pub struct Marker {
    /// Parameters for the packets that enter at each node, by index of the node; `None` leaves packets unmarked.
    edges: Vec<Option<SpmParameters>>,
    writes_marks: bool,
    connections: Table<[End; 2]>,
}

impl Marker {
    /// Creates a marker of the packets that enter at each edge, by index of the edge; `None` leaves the packets of an edge unmarked.
    ///
    /// If `writes_marks` is true, packets leave the network with their marks; otherwise the marks apply inside the network only.
    pub fn new(edges: Vec<Option<SpmParameters>>, writes_marks: bool) -> Self {
        Self { edges, writes_marks, connections: Table::new(CONNECTIONS) }
    }

    /// Returns true if marks are written into the packets.
    pub fn writes_marks(&self) -> bool {
        self.writes_marks
    }

    /// Returns the priority of the next packet, which enters at the node with the index `from`. If `from` is `None`, the packet only
    /// advances the state of its connection. Returns `None` if the marker does not apply: to other protocols than TCP, to fragments and
    /// malformed packets, and to directions that are not marked.
    pub fn mark(&mut self, from: Option<usize>, packet: &[u8]) -> Option<Priority> {
        let ip = Ip::parse(packet).ok().filter(|ip| ip.protocol() == ip::TCP && ip.fragment().is_none())?;
        let tcp = Tcp::parse(ip.payload()).ok()?;
        let flow = FlowKey::of_tcp(&ip, &tcp);
        let reversed = flow.reversed();
        let [first, second] = self.connections.get(flow.min(reversed));
        let (sender, receiver) = if flow < reversed { (first, second) } else { (second, first) };
        let rules = from.and_then(|from| self.edges.get(from).copied().flatten());
        // Unmarked directions are tracked as well.
        let priority = on_segment(sender, receiver, &tcp, rules.unwrap_or(SpmParameters::FULL));
        rules.map(|_| priority)
    }
}

/// State of one end of a connection as a sender. Positions count bytes as sequence numbers do, without wrapping.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// Sequence number of the SYN, or of the first packet seen. `None` before the first packet.
    isn: Option<u32>,
    /// Maximum segment size that this end has announced in its SYN.
    mss: Option<u16>,
    /// Data bytes of a full segment.
    segment_bytes: u64,
    /// Position of the end of all data sent (SND.MAX).
    snd_max: u64,
    snd_una: u64,
    /// Position of the end of the data sent when the last recovery began. Until all of it is acknowledged, data in flight is no measure of
    /// the window.
    recover: u64,
    /// Number of consecutive duplicate ACKs.
    dup_acks: u32,
    /// Lower bound on the congestion window of this end, bytes.
    cwnd: u64,
    /// Position of the beginning of the current response.
    response_start: u64,
    /// Number of segments of the current response so far.
    segments: u32,
    /// Position of the end of the current response; `None` if it is unknown.
    response_end: Option<u64>,
    head: Head,
    /// True if the peer may have sent a request since this end last sent new data, or if this end has not sent data yet.
    has_request: bool,
    /// True if the last request was HEAD, whose response has no body (RFC 9110, section 9.3.2).
    has_no_body: bool,
}

/// Data of one segment, and its positions in the stream.
#[derive(Clone, Copy)]
struct Data<'a> {
    start: u64,
    end: u64,
    bytes: &'a [u8],
}

fn on_segment(from: &mut End, to: &mut End, tcp: &Tcp<'_>, rules: SpmParameters) -> Priority {
    let flags = tcp.flags();
    let syn = flags.contains(TcpFlags::SYN);
    from.open(tcp, syn);
    if flags.contains(TcpFlags::ACK) {
        to.acknowledge(tcp.acknowledgement(), tcp.payload().is_empty() && !syn);
    }
    let start = from.offset_of(tcp.sequence()) + u64::from(syn);
    let bytes = tcp.payload();
    let data = Data { start, end: start + bytes.len() as u64, bytes };
    let is_crucial = !bytes.is_empty() && {
        if data.end > from.snd_max {
            to.on_request(from, bytes);
        }
        from.send(data, segment_bytes(from.mss, to.mss, tcp), rules)
    };
    let fin = flags.contains(TcpFlags::FIN);
    if syn || fin || !bytes.is_empty() {
        from.snd_max = from.snd_max.max(data.end + u64::from(fin));
    }
    let is_high_syn = syn && rules.handshake != Some(Priority::Low);
    if is_crucial || is_high_syn || fin || flags.contains(TcpFlags::RST) {
        Priority::High
    } else {
        Priority::Low
    }
}

/// Returns the data bytes of a full segment: the smaller of the two announced maximum segment sizes, less the options (RFC 6691). Returns
/// `None` if one of the SYNs was not seen.
fn segment_bytes(ours: Option<u16>, theirs: Option<u16>, tcp: &Tcp<'_>) -> Option<u64> {
    let mss = ours?.min(theirs?);
    let options = tcp.header_len() as u64 - 20;
    Some(u64::from(mss).saturating_sub(options).max(1))
}

impl End {
    /// Resets the state at the first packet, and at a SYN with a new sequence number.
    fn open(&mut self, tcp: &Tcp<'_>, syn: bool) {
        let sequence = tcp.sequence();
        if self.isn.is_none_or(|isn| syn && isn != sequence) {
            // Positions begin one round of sequence numbers above zero, so that older packets have positions, too.
            let base = (1 << 32) + u64::from(sequence);
            *self = Self {
                isn: Some(sequence),
                snd_max: base + u64::from(syn),
                snd_una: base,
                has_request: true,
                has_no_body: self.has_no_body && self.isn.is_none(),
                ..Self::default()
            };
        }
        if syn {
            self.mss = tcp.options().ok().and_then(|options| options.mss);
        }
    }

    fn offset_of(&self, sequence: u32) -> u64 {
        unwrap_sequence(self.snd_max, sequence).unwrap_or(self.snd_max)
    }

    /// Processes an acknowledgement from the peer, up to the sequence number `number`. `is_pure_ack` is true for an ACK without data.
    fn acknowledge(&mut self, number: u32, is_pure_ack: bool) {
        let offset = self.offset_of(number);
        if self.isn.is_none() || offset > self.snd_max {
            return;
        }
        if offset > self.snd_una {
            if self.snd_una < self.recover {
                self.cwnd += self.segment_bytes;
            }
            (self.snd_una, self.dup_acks) = (offset, 0);
        } else if offset == self.snd_una && is_pure_ack && self.snd_una < self.snd_max {
            self.dup_acks += 1;
        }
    }

    /// Records new data from the peer, whose state is `other`. The data may be a request.
    fn on_request(&mut self, other: &Self, bytes: &[u8]) {
        if other.has_request {
            self.has_no_body = bytes.starts_with(b"HEAD ");
        }
        self.has_request = true;
    }

    /// Processes a packet with data that this end sends. Returns true if the packet is HIGH.
    fn send(&mut self, data: Data<'_>, segment_bytes: Option<u64>, rules: SpmParameters) -> bool {
        let Data { start, end, bytes } = data;
        let len = bytes.len() as u64;
        self.segment_bytes = self.segment_bytes.max(segment_bytes.unwrap_or(len.max(DEFAULT_MSS)));
        let in_flight = end.max(self.snd_max) - self.snd_una;
        if start < self.snd_max && self.snd_una >= self.recover {
            let is_fast_retransmit = self.dup_acks >= DUPACK_THRESHOLD;
            self.cwnd = if is_fast_retransmit { in_flight / 2 } else { self.segment_bytes };
            self.recover = self.snd_max;
        }
        if self.snd_una >= self.recover {
            self.cwnd = self.cwnd.max(in_flight);
        }
        let segment_bytes = self.segment_bytes;
        let bytes_of = |count: u32| u64::from(count) * segment_bytes;
        let has_small_window = self.cwnd < bytes_of(rules.small_window);
        let trailing_bytes = bytes_of(rules.trailing);
        if end <= self.snd_max {
            let leading = start < self.response_start + bytes_of(rules.leading);
            let trailing =
                self.response_end.is_some_and(|document_end| start + trailing_bytes >= document_end);
            return rules.repairs || leading || trailing && trailing_bytes > 0 || has_small_window;
        }
        let is_retransmission = start < self.snd_max;
        if start > self.snd_max {
            self.head = Head::LOST;
        }
        let has_request = std::mem::take(&mut self.has_request);
        let is_new_response = match self.response_end {
            Some(end) => start >= end || has_request && bytes.starts_with(http::PREFIX),
            None => has_request,
        };
        if is_new_response && !is_retransmission {
            self.begin_response(start);
        }
        let mut leading = self.segments < rules.leading;
        // A packet may contain many segments, if segmentation is offloaded.
        self.segments = self.segments.saturating_add(len.div_ceil(self.segment_bytes) as u32);
        let last_segment = end - ((len - 1) % self.segment_bytes + 1);
        let mut trailing = false;
        let mut at = start.max(self.snd_max);
        // Several responses may share a packet.
        loop {
            if self.head.is_open() {
                match self.head.read(&bytes[(at - start) as usize..]) {
                    Progress::More => break,
                    Progress::Complete { used, body } => {
                        at += used as u64;
                        let body = if self.has_no_body { Some(0) } else { body };
                        self.response_end = body.and_then(|body| at.checked_add(body));
                    }
                }
            }
            let Some(document_end) = self.response_end else { break };
            trailing |= document_end.saturating_sub(last_segment) <= trailing_bytes && trailing_bytes > 0;
            if end <= document_end {
                break;
            }
            at = at.max(document_end);
            self.begin_response(at);
            self.segments = 1;
            leading |= rules.leading > 0;
        }
        leading || trailing || has_small_window
    }

    /// Starts a response at the position `at`.
    fn begin_response(&mut self, at: u64) {
        (self.response_start, self.segments, self.response_end, self.head) = (at, 0, None, Head::default());
    }
}

#[cfg(test)]
mod tests;
