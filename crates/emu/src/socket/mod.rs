//! TCP sockets of simulated hosts, which send and receive real packets.

mod reassembly;
mod send_buffer;

use catnip_base::{FlowContext, Span, Time};
use catnip_net::Ecn;
use catnip_net::mark::{Position, SenderState};
use catnip_tcp::{Endpoint, Flags, Outgoing, Role, Segment, Sender, TcpConfig};
use catnip_wire::ip::{self, Ip};
use catnip_wire::{
    Addresses, Announcement, Incoming, TIMESTAMPS_LEN, Tcp, TcpFlags, TcpHeader, Translation,
    has_valid_transport_checksum,
};
use reassembly::ReassemblyBuffer;
use send_buffer::SendBuffer;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

pub use send_buffer::padding;

/// One end of a TCP connection of a simulated host: the simulator's endpoint with real packets.
///
/// Like the endpoint, a socket has no I/O: inputs are segments, data to send and the time, outputs are packets. It adds the functions that
/// only an external peer requires: reassembly of the stream, answers to keep-alives, validation of resets, window probes, and the peer's
/// maximum segment size.
#[derive(Debug)]
pub struct Socket {
    endpoint: Endpoint,
    translation: Translation,
    config: Arc<TcpConfig>,
    role: Role,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    /// True if the peer is an external host. Otherwise the socket must behave exactly as the simulator's endpoint.
    is_external: bool,
    isn: u32,
    remote_isn: Option<u32>,
    /// Window that the peer has advertised last, and largest window that it has ever advertised, bytes.
    peer_window: Option<u32>,
    max_window: u32,
    /// Largest number of data bytes in a segment, regardless of the window.
    mss: u32,
    open: bool,
    reset: bool,
    reassembly: Option<ReassemblyBuffer>,
    send_buffer: SendBuffer,
    closing: bool,
    /// Sequence number after the peer's FIN; `None` until the FIN has arrived.
    fin_end: Option<u64>,
    /// Time before which further unacceptable segments are not answered.
    challenge_ack_after: Time,
    /// Time of the next window probe, and number of probes since the window was last open.
    probe_at: Option<Time>,
    probes: u32,
}

/// Result of processing a received packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Received {
    /// Segment of the connection.
    Segment(Segment),
    /// Reset of the connection by the peer.
    Reset,
    /// Acknowledgement of data that was never sent, received before the connection is open. The answer is a reset.
    UnacceptableAck,
    /// Packet that the socket has discarded. The socket may answer it with an ACK.
    Discarded,
}

/// Addresses and initial sequence number of a socket.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Local address and port.
    pub local: SocketAddrV4,
    /// Remote address and port.
    pub remote: SocketAddrV4,
    /// Local initial sequence number.
    pub isn: u32,
    /// True if the peer is an external host.
    pub is_external: bool,
}

/// Least time between two answers to unacceptable segments (RFC 5961, section 7).
const CHALLENGE_ACK_INTERVAL: Span = Span::from_millis(10);
/// Time from the close of the peer's window to the first window probe.
const PROBE_INTERVAL: Span = Span::from_secs(1);
/// Distance from the last sequence number of a connection to the first one of the next: more than any segment that may still be in the
/// network.
const ISN_GAP: u32 = 1 << 16;
/// Smallest maximum segment size that a peer can announce, bytes. Smaller values are raised to this one.
const MIN_MSS: u16 = 64;
/// Default maximum segment size for IPv4 (RFC 9293, section 3.7.1).
const DEFAULT_MSS: u16 = 536;
const HOP_LIMIT: u8 = 64;

impl Socket {
    /// Creates a socket at the time `now`. An active socket begins the handshake, a passive socket waits for the SYN.
    pub fn new(now: Time, role: Role, config: &Arc<TcpConfig>, phase: Span, identity: Identity) -> Self {
        let Identity { local, remote, isn, is_external } = identity;
        let announcement = Announcement::of(config);
        let unit = 1u64 << announcement.window_scale.unwrap_or(0);
        let mut config = config.clone();
        if !config.receive_window.is_multiple_of(unit) {
            // The header gives the window in units of the window scale, so the window is rounded up to a whole number of units.
            let receive_window = config.receive_window.next_multiple_of(unit);
            config = Arc::new(TcpConfig { receive_window, ..(*config).clone() });
        }
        let mss = config.segment_bytes;
        Self {
            endpoint: Endpoint::new(now, role, &config, phase),
            translation: Translation::new(isn, announcement),
            open: !config.handshake,
            config,
            role,
            local,
            remote,
            is_external,
            isn,
            remote_isn: None,
            peer_window: None,
            max_window: 0,
            mss,
            reset: false,
            reassembly: is_external.then(ReassemblyBuffer::default),
            send_buffer: SendBuffer::default(),
            closing: false,
            fin_end: None,
            challenge_ack_after: Time::ZERO,
            probe_at: None,
            probes: 0,
        }
    }

    /// Exchanges the TCP options of two sockets whose connection begins without a handshake.
    pub fn introduce(client: &mut Self, server: &mut Self) {
        let flags = |syn, ack| Flags { syn, ack, fin: false };
        let pass_options = |from: &mut Self, to: &mut Self, flags| {
            let window = from.config.receive_window.min(u64::from(u32::MAX)) as u32;
            let header = from.translation.outgoing(&Segment { flags, window, ..Segment::default() });
            let mut packet = [0; 80];
            let len = header.write(&from.addresses(), &[], &mut packet).expect("a SYN has 52 bytes");
            let tcp = Tcp::parse(&packet[20..len]).expect("it was just written");
            to.translation.incoming(&tcp).expect("its options were just written");
        };
        pass_options(client, server, flags(true, false));
        pass_options(server, client, flags(true, true));
        pass_options(client, server, flags(false, true));
        pass_options(server, client, flags(false, true));
    }

    /// Sends a message that consists of the bytes `bytes`, followed by `padding` bytes of padding.
    pub fn write(&mut self, now: Time, bytes: &[u8], padding: u64, context: Option<FlowContext>) {
        self.send_buffer.push(bytes, padding, self.endpoint.sender().map_or(0, Sender::snd_una));
        self.write_endpoint(now, bytes.len() as u64 + padding, context, false);
    }

    /// Sends `bytes` bytes of padding. If `last` is true, the socket then closes its sending direction.
    pub fn write_padding(&mut self, now: Time, bytes: u64, context: Option<FlowContext>, last: bool) {
        self.send_buffer.push(&[], bytes, self.endpoint.sender().map_or(0, Sender::snd_una));
        self.write_endpoint(now, bytes, context, last);
    }

    /// Closes the sending direction.
    pub fn close(&mut self, now: Time) {
        if !self.closing {
            self.write_endpoint(now, 0, None, true);
        }
    }

    fn write_endpoint(&mut self, now: Time, bytes: u64, context: Option<FlowContext>, last: bool) {
        self.closing |= last;
        self.endpoint.write(now, bytes, context, last, &self.config);
        self.update_peer_window(now);
    }

    /// Passes the peer's window to a sender that has not sent yet. A new sender assumes that the peer has the same receive window as this
    /// end, although the peer may have advertised another window before the sender existed.
    fn update_peer_window(&mut self, now: Time) {
        let nothing_sent = self.endpoint.sender().is_some_and(|sender| sender.stats().sent == 0);
        if let Some(window) = self.peer_window.filter(|_| self.is_external && self.open && nothing_sent) {
            let flags = Flags { ack: true, ..Flags::default() };
            self.endpoint.on_segment(now, &Segment { window, flags, ..Segment::default() }, &self.config);
        }
    }

    /// Processes the segment of a packet with the ECN codepoint `ecn`. Passes in-order bytes to `deliver`.
    pub fn receive(&mut self, now: Time, ecn: Ecn, tcp: &Tcp<'_>, deliver: impl FnMut(&[u8])) -> Received {
        let bits = tcp.flags();
        if self.reset || !self.has_valid_flags(bits) {
            return Received::Discarded;
        }
        if self.answers_with_reset(tcp) {
            return Received::UnacceptableAck;
        }
        if self.is_external && self.open && bits.contains(TcpFlags::SYN) && !bits.contains(TcpFlags::RST) {
            // RFC 5961, section 4.2: "If the SYN bit is set, irrespective of the sequence number, TCP MUST send an ACK (also
            // referred to as challenge ACK) to the remote peer".
            self.request_limited_ack(now);
            return Received::Discarded;
        }
        match self.translation.incoming(tcp) {
            Ok(Incoming::Segment(mut segment)) => {
                segment.ecn = segment.ecn.with_ce(ecn == Ecn::CE);
                self.on_segment(now, tcp, segment, deliver)
            }
            Ok(Incoming::Reset) => self.on_reset(now, tcp),
            Ok(Incoming::Unacceptable) => {
                if !bits.contains(TcpFlags::RST) {
                    self.request_limited_ack(now);
                }
                Received::Discarded
            }
            Err(_) => Received::Discarded,
        }
    }

    /// Returns true if a segment with the flags `bits` may belong to this connection: it must have ACK, RST or SYN. A SYN that crosses the
    /// own SYN is ignored, since simultaneous open is not supported.
    fn has_valid_flags(&self, bits: TcpFlags) -> bool {
        if !self.is_external {
            return true;
        }
        let syn = bits.contains(TcpFlags::SYN);
        let crossing = syn && self.role == Role::Active && !self.open;
        bits.contains(TcpFlags::ACK) || bits.contains(TcpFlags::RST) || (syn && !crossing)
    }

    /// Returns true if the answer to a segment of an external peer is a reset.
    pub(crate) fn answers_with_reset(&self, tcp: &Tcp<'_>) -> bool {
        self.is_external && !self.reset && self.has_valid_flags(tcp.flags()) && self.has_unacceptable_ack(tcp)
    }

    /// Returns true if the connection is not open yet and a segment acknowledges anything other than the own SYN (RFC 9293, section
    /// 3.10.7.3; for SYN-RECEIVED section 3.10.7.4, which checks the window first).
    fn has_unacceptable_ack(&self, tcp: &Tcp<'_>) -> bool {
        let bits = tcp.flags();
        let acknowledges = bits.contains(TcpFlags::ACK) && !bits.contains(TcpFlags::RST);
        if self.open || !acknowledges || tcp.acknowledgement() == self.isn.wrapping_add(1) {
            return false;
        }
        let Some(remote) = self.remote_isn else { return true };
        let beyond = tcp.sequence().wrapping_sub(remote.wrapping_add(1));
        !bits.contains(TcpFlags::SYN) && u64::from(beyond) < self.config.receive_window
    }

    /// Returns true if this SYN may open a new incarnation of this closed connection. Its sequence number must be larger than all previous
    /// ones, which shows that the SYN is not an old duplicate (RFC 6191, section 2, for a SYN without timestamps).
    pub fn accepts_new_incarnation(&self, tcp: &Tcp<'_>) -> bool {
        let bits = tcp.flags();
        let is_new =
            bits.contains(TcpFlags::SYN) && !bits.contains(TcpFlags::ACK) && !bits.contains(TcpFlags::RST);
        let next = self
            .remote_isn
            .map(|isn| isn.wrapping_add(1).wrapping_add(self.endpoint.receiver.rcv_nxt() as u32));
        is_new && next.is_some_and(|next| (tcp.sequence().wrapping_sub(next) as i32) > 0)
    }

    /// Returns the initial sequence number for a new incarnation of this connection. RFC 1122, section 4.2.2.13: a host may accept a new
    /// SYN if it "assigns its initial sequence number for the new connection to be larger than the largest sequence number it used on the
    /// previous connection incarnation".
    pub fn next_isn(&self) -> u32 {
        self.isn.wrapping_add(self.send_buffer.end() as u32).wrapping_add(ISN_GAP)
    }

    fn on_segment(
        &mut self,
        now: Time,
        tcp: &Tcp<'_>,
        mut segment: Segment,
        deliver: impl FnMut(&[u8]),
    ) -> Received {
        if segment.flags.syn {
            self.on_syn(tcp);
        }
        self.open |= segment.flags.ack && segment.flags.syn == (self.role == Role::Active);
        let next = self.endpoint.receiver.rcv_nxt();
        if self.is_external && !segment.flags.syn {
            if segment.seq_len() == 0 && segment.seq < next {
                // Keep-alive, or an old segment that a later one has overtaken.
                self.request_limited_ack(now);
            }
            if !self.trim(&mut segment, next) {
                self.request_limited_ack(now);
                return Received::Discarded;
            }
        }
        if let Some(reassembly) = &mut self.reassembly
            && segment.len > 0
            && !reassembly.insert(segment.seq, &tcp.payload()[..segment.len as usize], deliver)
        {
            return Received::Discarded;
        }
        if segment.flags.fin {
            self.fin_end = Some(segment.seq + segment.seq_len());
        }
        self.on_peer_window(segment.window);
        let snd_una = self.snd_una();
        self.endpoint.on_segment(now, &segment, &self.config);
        self.update_peer_window(now);
        if self.snd_una() > snd_una || segment.window >= self.config.segment_bytes {
            (self.probe_at, self.probes) = (None, 0);
        }
        Received::Segment(segment)
    }

    /// Processes the window that the peer advertises. A segment has at most half of the largest window advertised so far, or this whole
    /// window if it is small. Otherwise a peer whose window is always smaller than a segment would never receive data (RFC 9293, section
    /// 3.8.6.2.1: "at least a fraction Fs of the maximum window can be sent"; Linux, `tcp_bound_to_half_wnd`).
    fn on_peer_window(&mut self, window: u32) {
        self.peer_window = Some(window);
        self.max_window = self.max_window.max(window);
        if !self.is_external {
            return;
        }
        let max_bytes =
            if self.max_window > DEFAULT_MSS.into() { self.max_window / 2 } else { self.max_window };
        // Segments that were reduced to fit into a window that has shrunk stay small until a full segment fits again.
        let is_reduced = self.config.segment_bytes < self.mss && window < self.mss;
        if !is_reduced || max_bytes < self.config.segment_bytes {
            self.set_segment_bytes(self.mss.min(max_bytes.max(1)));
        }
    }

    fn set_segment_bytes(&mut self, bytes: u32) {
        if bytes != self.config.segment_bytes {
            self.config = Arc::new(TcpConfig { segment_bytes: bytes, ..(*self.config).clone() });
        }
    }

    fn snd_una(&self) -> u64 {
        self.endpoint.sender().map_or(0, Sender::snd_una)
    }

    fn on_syn(&mut self, tcp: &Tcp<'_>) {
        self.remote_isn.get_or_insert(tcp.sequence());
        if self.is_external {
            let peer_mss = self.translation.peer_mss().unwrap_or(DEFAULT_MSS).max(MIN_MSS);
            // RFC 6691: the maximum segment size does not include options.
            let timestamps_len = if self.translation.uses_timestamps() { TIMESTAMPS_LEN } else { 0 };
            self.mss = self.mss.min(u32::from(peer_mss) - timestamps_len);
            self.set_segment_bytes(self.mss);
            if !self.translation.uses_sack() && self.config.recovery.uses_sack() {
                let recovery = self.config.recovery.without_sack();
                self.config = Arc::new(TcpConfig { recovery, ..(*self.config).clone() });
            }
            if !self.translation.uses_timestamps() && self.config.timestamps {
                self.config = Arc::new(TcpConfig { timestamps: false, ..(*self.config).clone() });
            }
        }
    }

    /// Removes the part of a segment that lies outside the window or after the peer's FIN. Returns false if nothing remains.
    fn trim(&self, segment: &mut Segment, next: u64) -> bool {
        if segment.seq_len() == 0 {
            return true;
        }
        let window_end = next + self.config.receive_window;
        let end = self.fin_end.unwrap_or(window_end).min(window_end);
        if segment.flags.fin && self.fin_end.is_some_and(|fin| fin != segment.seq + segment.seq_len()) {
            return false;
        }
        if segment.seq + segment.seq_len() <= end {
            return true;
        }
        let max_len = end.saturating_sub(segment.seq) as u32;
        // A known FIN occupies the last sequence number, which carries no data.
        segment.len = if self.fin_end == Some(end) { max_len.saturating_sub(1) } else { max_len };
        segment.flags.fin = false;
        segment.len > 0
    }

    /// Processes a reset. Only a reset with exactly the next expected sequence number ends the connection; one within the window gets a
    /// challenge ACK (RFC 5961, section 3.2).
    fn on_reset(&mut self, now: Time, tcp: &Tcp<'_>) -> Received {
        let next = self.endpoint.receiver.rcv_nxt() as u32;
        let expected = self.remote_isn.map(|isn| isn.wrapping_add(1).wrapping_add(next));
        if expected.is_none_or(|expected| expected == tcp.sequence()) {
            self.reset = true;
            return Received::Reset;
        }
        self.request_limited_ack(now);
        Received::Discarded
    }

    /// Requests an ACK to an external peer, at most once per [`CHALLENGE_ACK_INTERVAL`].
    fn request_limited_ack(&mut self, now: Time) {
        if self.is_external && now >= self.challenge_ack_after {
            self.challenge_ack_after = now + CHALLENGE_ACK_INTERVAL;
            self.endpoint.receiver.request_ack();
        }
    }

    /// Processes the timers due at `now`. Returns true if a retransmission timer expired.
    pub fn on_timer(&mut self, now: Time) -> bool {
        let expired = !self.reset && self.endpoint.on_timer(now, &self.config);
        if expired
            && self.is_external
            && self.peer_window.is_some_and(|window| window < self.config.segment_bytes)
        {
            // Data in flight may lie beyond a window that has shrunk, and then cannot be retransmitted.
            self.probe_at = Some(now);
        }
        expired
    }

    /// Writes the next packet to send to the beginning of `buffer`. Returns the segment and the length of the packet; `None` if there is
    /// nothing to send.
    pub fn transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<(Outgoing, usize)> {
        if self.reset {
            return None;
        }
        let mut out = self.endpoint.transmit(now, &self.config);
        if out.is_none() && self.is_probe_due(now) {
            // RFC 9293, section 3.8.6.2.1, (4): after the override timeout, as much as fits into the window is sent.
            match self.peer_window {
                Some(window @ 1..) if window < self.config.segment_bytes => {
                    self.set_segment_bytes(window);
                    out = self.endpoint.transmit(now, &self.config);
                }
                _ => {}
            }
            if out.is_none() {
                return Some(self.probe(now, buffer));
            }
            (self.probe_at, self.probes) = (None, 0);
        }
        let out = out?;
        let mut header = self.translation.outgoing(&out.segment);
        let end = out.segment.seq + u64::from(out.segment.len);
        if out.segment.len > 0 && end == self.send_buffer.end() {
            header.flags = header.flags | TcpFlags::PSH;
        }
        let len = self.write_packet(header, out.segment.seq, out.segment.len, buffer);
        if out.ecn != Ecn::NOT_ECT {
            ip::set_ecn(&mut buffer[..len], out.ecn).expect("it was just written");
        }
        Some((out, len))
    }

    /// Returns true if a window probe is due. Probes are sent if data waits and either no timer runs or the retransmission timer has
    /// expired with a window smaller than a segment: the peer's window is closed, or too small.
    fn is_probe_due(&mut self, now: Time) -> bool {
        if !self.is_external
            || !self.open
            || self.endpoint.sender().is_none()
            || self.snd_una() >= self.send_buffer.end()
        {
            return false;
        }
        if self.endpoint.deadline().is_none() {
            self.probe_at.get_or_insert(now + PROBE_INTERVAL);
        }
        self.probe_at.is_some_and(|at| at <= now)
    }

    /// Writes a window probe: a segment that the peer already has, which the peer must answer with an ACK that gives its window. RFC 9293,
    /// section 3.8.6.1: "SHOULD increase exponentially the interval between successive probes".
    fn probe(&mut self, now: Time, buffer: &mut [u8]) -> (Outgoing, usize) {
        self.probes += 1;
        self.probe_at = Some(now + PROBE_INTERVAL * (1 << self.probes.min(6)));
        let segment = Segment {
            ack: self.endpoint.receiver.rcv_nxt(),
            window: self.config.receive_window.min(u64::from(u32::MAX)) as u32,
            flags: Flags { ack: true, ..Flags::default() },
            ..Segment::default()
        };
        let mut header = self.translation.outgoing(&segment);
        // Last byte that the peer has: data begins after the SYN.
        header.sequence = self.isn.wrapping_add(self.snd_una() as u32);
        let len = self.write_packet(header, 0, 0, buffer);
        (Outgoing { segment, retransmission: false, ecn: Ecn::NOT_ECT }, len)
    }

    fn write_packet(&self, mut header: TcpHeader, seq: u64, len: u32, buffer: &mut [u8]) -> usize {
        header.source_port = self.local.port();
        header.destination_port = self.remote.port();
        let payload = self.send_buffer.bytes(seq, len as usize);
        header.write(&self.addresses(), &payload, buffer).expect("a buffer holds the longest segment")
    }

    fn addresses(&self) -> Addresses {
        addresses(*self.local.ip(), *self.remote.ip())
    }

    /// Returns the time at which the caller must call [`Self::on_timer`] and [`Self::transmit`] if no packet arrives earlier; `None` if no
    /// timer runs.
    pub fn deadline(&self) -> Option<Time> {
        let probe_at = self.probe_at.filter(|_| self.snd_una() < self.send_buffer.end());
        let deadlines = [self.endpoint.deadline(), probe_at];
        if self.reset { None } else { deadlines.into_iter().flatten().min() }
    }

    /// Returns the number of data bytes received in order.
    pub fn received(&self) -> u64 {
        self.endpoint.received()
    }

    /// Returns true if the peer's FIN and all data before it have arrived.
    pub fn peer_closed(&self) -> bool {
        self.endpoint.peer_closed()
    }

    /// Returns true if both directions are closed and acknowledged, or the connection was reset.
    pub fn is_over(&self) -> bool {
        let done = || self.sender().is_some_and(Sender::is_done);
        self.reset || (self.closing && self.peer_closed() && done())
    }

    /// Returns the number of retransmissions of handshake segments.
    pub fn syn_timeouts(&self) -> u32 {
        self.endpoint.syn_timeouts()
    }

    /// Returns true if the sending direction is closed.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Returns the number of bytes that the application has written so far.
    pub fn written(&self) -> u64 {
        self.send_buffer.end()
    }

    /// Returns true if the handshake is complete.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns true if the connection was reset.
    pub fn was_reset(&self) -> bool {
        self.reset
    }

    /// Returns the sending half, if any data was ever written.
    pub fn sender(&self) -> Option<&Sender> {
        self.endpoint.sender()
    }

    /// Returns the properties of the outgoing segment `out` that a marker may use.
    pub fn sender_state(&self, out: &Outgoing) -> SenderState {
        self.endpoint.sender_state(out, &self.config)
    }

    /// Returns the properties of the data at `seq` that selective packet marking may use. This end must have sent the data.
    pub fn position(&self, seq: u64) -> Position {
        self.endpoint.position(seq)
    }

    /// Returns the TCP parameters.
    pub fn config(&self) -> &TcpConfig {
        &self.config
    }

    /// Returns the local and the remote address and port.
    pub fn ends(&self) -> (SocketAddrV4, SocketAddrV4) {
        (self.local, self.remote)
    }
}

/// Returns the IP header fields of a packet from a simulated host.
pub(crate) fn addresses(from: Ipv4Addr, to: Ipv4Addr) -> Addresses {
    Addresses { source: from.into(), destination: to.into(), traffic_class: 0, hop_limit: HOP_LIMIT }
}

/// Local and remote address and port of a connection.
pub(crate) type Ends = (SocketAddrV4, SocketAddrV4);

/// Parses a TCP packet. Returns its addresses and ports, the receiver's first, and the segment; `None` if the packet is not a complete IPv4
/// segment.
pub(crate) fn parse(bytes: &[u8]) -> Option<(Ends, Tcp<'_>)> {
    ends_and_tcp(&Ip::parse(bytes).ok()?)
}

/// Parses the segment of a packet with a parsed IP header, as [`parse`] does.
pub(crate) fn ends_and_tcp<'a>(ip: &Ip<'a>) -> Option<(Ends, Tcp<'a>)> {
    let tcp = Tcp::parse(ip.transport(ip::TCP).ok()?).ok()?;
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (ip.source(), ip.destination()) else { return None };
    // A fragment is not a complete segment.
    if ip.fragment().is_some() {
        return None;
    }
    let to = SocketAddrV4::new(destination, tcp.destination_port());
    Some(((to, SocketAddrV4::new(source, tcp.source_port())), tcp))
}

/// Parses a packet and verifies its checksums. Returns `None` if a checksum is wrong. The checksums of unknown protocols are not verified.
pub(crate) fn parse_verified(packet: &[u8]) -> Option<Ip<'_>> {
    let ip = Ip::parse(packet).ok()?;
    (ip.has_valid_header_checksum() && has_valid_transport_checksum(&ip) != Ok(false)).then_some(ip)
}

/// Writes the reset that answers a packet for a connection that does not exist (RFC 9293, section 3.10.7.1). Returns its length; `None` if
/// the packet is itself a reset.
pub fn write_reset(tcp: &Tcp<'_>, addresses: &Addresses, buffer: &mut [u8]) -> Option<usize> {
    let bits = tcp.flags();
    if bits.contains(TcpFlags::RST) {
        return None;
    }
    let bit = |flag| u32::from(bits.contains(flag));
    let mut header = TcpHeader {
        source_port: tcp.destination_port(),
        destination_port: tcp.source_port(),
        flags: TcpFlags::RST,
        ..TcpHeader::default()
    };
    if bits.contains(TcpFlags::ACK) {
        header.sequence = tcp.acknowledgement();
    } else {
        let span = tcp.payload().len() as u32 + bit(TcpFlags::SYN) + bit(TcpFlags::FIN);
        header.acknowledgement = tcp.sequence().wrapping_add(span);
        header.flags = TcpFlags::RST | TcpFlags::ACK;
    }
    header.write(addresses, &[], buffer).ok()
}
