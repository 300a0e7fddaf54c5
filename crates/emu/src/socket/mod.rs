//! TCP of simulated hosts over real packets.

mod inbox;
mod outbox;

use catnip_base::{FlowContext, Span, Time};
use catnip_net::Ecn;
use catnip_net::mark::{Place, Sending};
use catnip_tcp::{Endpoint, Flags, Outgoing, Role, Segment, Sender, TcpConfig};
use catnip_wire::ip::{self, Ip};
use catnip_wire::{
    Addresses, Announcement, Incoming, TIMESTAMPS_LEN, Tcp, TcpFlags, TcpHeader, Translation,
    transport_is_right,
};
use inbox::Inbox;
use outbox::Outbox;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

pub use outbox::filling;

/// One end of a TCP connection of a simulated host: the simulator's endpoint, which speaks with real packets.
///
/// It is told of segments and of time and hands out packets, as the endpoint does. What it does beyond that is what
/// only a real other side asks for: it keeps bytes in order, answers keep-alives, judges resets, looks whether a
/// closed window has opened, and minds the other side's segment size.
#[derive(Debug)]
pub struct Socket {
    endpoint: Endpoint,
    translation: Translation,
    config: Arc<TcpConfig>,
    role: Role,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    /// A real host is at the other end; else this is the simulator's connection and nothing may differ.
    stranger: bool,
    isn: u32,
    remote_isn: Option<u32>,
    /// The window that they have offered last, and the largest one.
    peer_window: Option<u32>,
    largest_window: u32,
    /// Most data bytes in a segment, whatever the window.
    mss: u32,
    open: bool,
    reset: bool,
    inbox: Option<Inbox>,
    outbox: Outbox,
    closing: bool,
    /// Where their FIN ends.
    fin_end: Option<u64>,
    /// No answer to a stray segment before then.
    quiet_until: Time,
    /// When to ask whether the window has opened, and how often that was done.
    probe_at: Option<Time>,
    probes: u32,
}

/// What a packet was for a socket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Heard {
    /// A segment of the connection.
    Segment(Segment),
    /// The other side has ended the connection at once.
    Reset,
    /// It acknowledges what was never said, before the connection is open: the answer is a reset.
    Impossible,
    /// Nothing that matters.
    Nothing,
}

/// Who talks to whom, and from which numbers they count.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Our address.
    pub local: SocketAddrV4,
    /// Theirs.
    pub remote: SocketAddrV4,
    /// Our initial sequence number.
    pub initial_sequence: u32,
    /// A real host is at the other end.
    pub stranger: bool,
}

/// Stray segments are answered once in this time (RFC 5961, section 7).
const QUIET: Span = Span::from_millis(10);
/// First time to ask for a window.
const PROBE: Span = Span::from_secs(1);
/// From the last number of a connection to the first one of the next: more than any segment that may still be under way.
const BETWEEN_CONNECTIONS: u32 = 1 << 16;
/// Least segment that is sent, whatever the other side says.
const LEAST_MSS: u16 = 64;
/// RFC 9293, section 3.7.1, for IPv4.
const DEFAULT_MSS: u16 = 536;
const HOP_LIMIT: u8 = 64;

impl Socket {
    /// A socket that begins its part of the handshake at `now`; a passive one waits for the SYN.
    pub fn new(now: Time, role: Role, config: &Arc<TcpConfig>, phase: Span, identity: Identity) -> Self {
        let Identity { local, remote, initial_sequence, stranger } = identity;
        let announcement = Announcement::of(config);
        let unit = 1u64 << announcement.window_scale.unwrap_or(0);
        let mut config = config.clone();
        if !config.receive_window.is_multiple_of(unit) {
            // The header counts in units; a window that is a little larger is as good.
            let receive_window = config.receive_window.next_multiple_of(unit);
            config = Arc::new(TcpConfig { receive_window, ..(*config).clone() });
        }
        let mss = config.segment_bytes;
        Self {
            endpoint: Endpoint::new(now, role, &config, phase),
            translation: Translation::new(initial_sequence, announcement),
            open: !config.handshake,
            config,
            role,
            local,
            remote,
            stranger,
            isn: initial_sequence,
            remote_isn: None,
            peer_window: None,
            largest_window: 0,
            mss,
            reset: false,
            inbox: stranger.then(Inbox::default),
            outbox: Outbox::default(),
            closing: false,
            fin_end: None,
            quiet_until: Time::ZERO,
            probe_at: None,
            probes: 0,
        }
    }

    /// Lets two sockets whose configuration has no handshake know what one would have told them.
    pub fn introduce(client: &mut Self, server: &mut Self) {
        let flags = |syn, ack| Flags { syn, ack, fin: false };
        let say = |from: &mut Self, to: &mut Self, flags| {
            let window = from.config.receive_window.min(u64::from(u32::MAX)) as u32;
            let header = from.translation.outgoing(&Segment { flags, window, ..Segment::default() });
            let mut packet = [0; 80];
            let len = header.write(&from.addresses(), &[], &mut packet).expect("a SYN has 52 bytes");
            let tcp = Tcp::parse(&packet[20..len]).expect("it was just written");
            to.translation.incoming(&tcp).expect("its options were just written");
        };
        say(client, server, flags(true, false));
        say(server, client, flags(true, true));
        say(client, server, flags(false, true));
        say(server, client, flags(false, true));
    }

    /// Sends a message of these bytes and of so many filling ones behind them.
    pub fn say(&mut self, now: Time, bytes: &[u8], filling: u64, context: Option<FlowContext>) {
        self.outbox.push(bytes, filling, self.endpoint.sender().map_or(0, Sender::una));
        self.hand_over(now, bytes.len() as u64 + filling, context, false);
    }

    /// Sends so many bytes, whatever they are; after the `last` ones it closes.
    pub fn fill(&mut self, now: Time, bytes: u64, context: Option<FlowContext>, last: bool) {
        self.outbox.push(&[], bytes, self.endpoint.sender().map_or(0, Sender::una));
        self.hand_over(now, bytes, context, last);
    }

    /// Says that nothing more will be sent.
    pub fn close(&mut self, now: Time) {
        if !self.closing {
            self.hand_over(now, 0, None, true);
        }
    }

    fn hand_over(&mut self, now: Time, bytes: u64, context: Option<FlowContext>, last: bool) {
        self.closing |= last;
        self.endpoint.write(now, bytes, context, last, &self.config);
        self.tell_window(now);
    }

    /// A sender begins with its own window for theirs; what theirs is may have been said before.
    fn tell_window(&mut self, now: Time) {
        let nothing_sent = self.endpoint.sender().is_some_and(|sender| sender.stats().sent == 0);
        if let Some(window) = self.peer_window.filter(|_| self.stranger && self.open && nothing_sent) {
            let flags = Flags { ack: true, ..Flags::default() };
            self.endpoint.on_segment(now, &Segment { window, flags, ..Segment::default() }, &self.config);
        }
    }

    /// A packet has come, with this codepoint. Its bytes are handed to `hear` when all before them have come.
    pub fn receive(&mut self, now: Time, ecn: Ecn, tcp: &Tcp<'_>, hear: impl FnMut(&[u8])) -> Heard {
        let bits = tcp.flags();
        if self.reset || !self.may_be_meant(bits) {
            return Heard::Nothing;
        }
        if self.stranger && self.is_impossible(tcp) {
            return Heard::Impossible;
        }
        if self.stranger && self.open && bits.contains(TcpFlags::SYN) && !bits.contains(TcpFlags::RST) {
            // RFC 5961, section 4.2: "If the SYN bit is set, irrespective of the sequence number, TCP MUST send an ACK (also
            // referred to as challenge ACK) to the remote peer".
            self.answer(now);
            return Heard::Nothing;
        }
        match self.translation.incoming(tcp) {
            Ok(Incoming::Segment(mut segment)) => {
                segment.ecn = segment.ecn.heard(ecn == Ecn::CE);
                self.on_segment(now, tcp, segment, hear)
            }
            Ok(Incoming::Reset) => self.on_reset(now, tcp),
            Ok(Incoming::Stray) => {
                if !bits.contains(TcpFlags::RST) {
                    self.answer(now);
                }
                Heard::Nothing
            }
            Err(_) => Heard::Nothing,
        }
    }

    /// Without an acknowledgement there is only a SYN or a reset, and no SYN crosses another here.
    fn may_be_meant(&self, bits: TcpFlags) -> bool {
        if !self.stranger {
            return true;
        }
        let syn = bits.contains(TcpFlags::SYN);
        let crossing = syn && self.role == Role::Active && !self.open;
        bits.contains(TcpFlags::ACK) || bits.contains(TcpFlags::RST) || (syn && !crossing)
    }

    /// Before the connection is open only our SYN can be acknowledged (RFC 9293, section 3.10.7.3, and 3.10.7.4 for
    /// SYN-RECEIVED, where what is outside of the window is judged first).
    fn is_impossible(&self, tcp: &Tcp<'_>) -> bool {
        let bits = tcp.flags();
        let acknowledges = bits.contains(TcpFlags::ACK) && !bits.contains(TcpFlags::RST);
        if self.open || !acknowledges || tcp.acknowledgement() == self.isn.wrapping_add(1) {
            return false;
        }
        let Some(remote) = self.remote_isn else { return true };
        let beyond = tcp.sequence().wrapping_sub(remote.wrapping_add(1));
        !bits.contains(TcpFlags::SYN) && u64::from(beyond) < self.config.receive_window
    }

    /// Would this SYN begin another connection behind this one, which is over? Not if it may be an old duplicate: RFC 6191, section
    /// 2, for a SYN without timestamps.
    pub fn is_followed_by(&self, tcp: &Tcp<'_>) -> bool {
        let bits = tcp.flags();
        let is_new =
            bits.contains(TcpFlags::SYN) && !bits.contains(TcpFlags::ACK) && !bits.contains(TcpFlags::RST);
        let next =
            self.remote_isn.map(|isn| isn.wrapping_add(1).wrapping_add(self.endpoint.receiver.next() as u32));
        is_new && next.is_some_and(|next| (tcp.sequence().wrapping_sub(next) as i32) > 0)
    }

    /// Where a connection between the same ends is to count from, behind this one. RFC 1122, section 4.2.2.13: a host may accept it
    /// if it "assigns its initial sequence number for the new connection to be larger than the largest sequence number it used
    /// on the previous connection incarnation".
    pub fn numbers_behind(&self) -> u32 {
        self.isn.wrapping_add(self.outbox.end() as u32).wrapping_add(BETWEEN_CONNECTIONS)
    }

    fn on_segment(
        &mut self,
        now: Time,
        tcp: &Tcp<'_>,
        mut segment: Segment,
        hear: impl FnMut(&[u8]),
    ) -> Heard {
        if segment.flags.syn {
            self.on_syn(tcp);
        }
        self.open |= segment.flags.ack && segment.flags.syn == (self.role == Role::Active);
        let next = self.endpoint.receiver.next();
        if self.stranger && !segment.flags.syn {
            if segment.span() == 0 && segment.seq < next {
                // A keep-alive, or one that was overtaken.
                self.answer(now);
            }
            if !self.trim(&mut segment, next) {
                self.answer(now);
                return Heard::Nothing;
            }
        }
        if let Some(inbox) = &mut self.inbox
            && segment.len > 0
            && !inbox.take(segment.seq, &tcp.payload()[..segment.len as usize], hear)
        {
            return Heard::Nothing;
        }
        if segment.flags.fin {
            self.fin_end = Some(segment.seq + segment.span());
        }
        self.offers(segment.window);
        let una = self.una();
        self.endpoint.on_segment(now, &segment, &self.config);
        self.tell_window(now);
        if self.una() > una || segment.window >= self.config.segment_bytes {
            (self.probe_at, self.probes) = (None, 0);
        }
        Heard::Segment(segment)
    }

    /// They offer this window. A segment takes no more than half of the largest one that they have offered, or all of it if
    /// that is small: who has less room than a segment would never get one (RFC 9293, section 3.8.6.2.1: "at least a fraction
    /// Fs of the maximum window can be sent"; Linux, `tcp_bound_to_half_wnd`).
    fn offers(&mut self, window: u32) {
        self.peer_window = Some(window);
        self.largest_window = self.largest_window.max(window);
        if !self.stranger {
            return;
        }
        let fits = if self.largest_window > DEFAULT_MSS.into() {
            self.largest_window / 2
        } else {
            self.largest_window
        };
        // What was made to fit into a window that has shrunk stays so until a whole segment fits again.
        let is_squeezed = self.config.segment_bytes < self.mss && window < self.mss;
        if !is_squeezed || fits < self.config.segment_bytes {
            self.send_segments_of(self.mss.min(fits.max(1)));
        }
    }

    fn send_segments_of(&mut self, bytes: u32) {
        if bytes != self.config.segment_bytes {
            self.config = Arc::new(TcpConfig { segment_bytes: bytes, ..(*self.config).clone() });
        }
    }

    fn una(&self) -> u64 {
        self.endpoint.sender().map_or(0, Sender::una)
    }

    fn on_syn(&mut self, tcp: &Tcp<'_>) {
        self.remote_isn.get_or_insert(tcp.sequence());
        if self.stranger {
            let most = self.translation.peer_mss().unwrap_or(DEFAULT_MSS).max(LEAST_MSS);
            // RFC 6691: the maximum segment size counts no options.
            let times = if self.translation.uses_timestamps() { TIMESTAMPS_LEN } else { 0 };
            self.mss = self.mss.min(u32::from(most) - times);
            self.send_segments_of(self.mss);
            if !self.translation.uses_sack() && self.config.recovery.uses_sack() {
                let recovery = self.config.recovery.without_sack();
                self.config = Arc::new(TcpConfig { recovery, ..(*self.config).clone() });
            }
            if !self.translation.uses_timestamps() && self.config.timestamps {
                self.config = Arc::new(TcpConfig { timestamps: false, ..(*self.config).clone() });
            }
        }
    }

    /// Cuts off what lies outside of the window or behind the end of their stream. False if nothing is left of it.
    fn trim(&self, segment: &mut Segment, next: u64) -> bool {
        if segment.span() == 0 {
            return true;
        }
        let window_end = next + self.config.receive_window;
        let end = self.fin_end.unwrap_or(window_end).min(window_end);
        if segment.flags.fin && self.fin_end.is_some_and(|fin| fin != segment.seq + segment.span()) {
            return false;
        }
        if segment.seq + segment.span() <= end {
            return true;
        }
        let room = end.saturating_sub(segment.seq) as u32;
        // A FIN whose place is known is part of the end; no data stands there.
        segment.len = if self.fin_end == Some(end) { room.saturating_sub(1) } else { room };
        segment.flags.fin = false;
        segment.len > 0
    }

    /// Only a reset with exactly the number expected next ends a connection; one in the window is questioned (RFC 5961,
    /// section 3.2).
    fn on_reset(&mut self, now: Time, tcp: &Tcp<'_>) -> Heard {
        let next = self.endpoint.receiver.next() as u32;
        let expected = self.remote_isn.map(|isn| isn.wrapping_add(1).wrapping_add(next));
        if expected.is_none_or(|expected| expected == tcp.sequence()) {
            self.reset = true;
            return Heard::Reset;
        }
        self.answer(now);
        Heard::Nothing
    }

    /// Tells a stranger where we are, but not too often.
    fn answer(&mut self, now: Time) {
        if self.stranger && now >= self.quiet_until {
            self.quiet_until = now + QUIET;
            self.endpoint.receiver.ask_for_ack();
        }
    }

    /// Time has passed; true if a retransmission timer expired.
    pub fn on_time(&mut self, now: Time) -> bool {
        let expired = !self.reset && self.endpoint.on_time(now, &self.config);
        if expired
            && self.stranger
            && self.peer_window.is_some_and(|window| window < self.config.segment_bytes)
        {
            // What is out may be beyond a window that has shrunk, and cannot be sent again.
            self.probe_at = Some(now);
        }
        expired
    }

    /// The next packet to send, written to the beginning of `buffer`; its length, and what it is.
    pub fn transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<(Outgoing, usize)> {
        if self.reset {
            return None;
        }
        let mut out = self.endpoint.transmit(now, &self.config);
        if out.is_none() && self.asks_for_a_window(now) {
            // RFC 9293, section 3.8.6.2.1, (4): after the override timeout what fits is sent.
            match self.peer_window {
                Some(window @ 1..) if window < self.config.segment_bytes => {
                    self.send_segments_of(window);
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
        if out.segment.len > 0 && end == self.outbox.end() {
            header.flags = header.flags | TcpFlags::PSH;
        }
        let len = self.put(header, out.segment.seq, out.segment.len, buffer);
        if out.ecn != Ecn::NOT_ECT {
            ip::set_ecn(&mut buffer[..len], out.ecn).expect("it was just written");
        }
        Some((out, len))
    }

    /// Data waits, and either no timer runs or it has expired in vain: their window is closed, or too small. Is it time to ask?
    fn asks_for_a_window(&mut self, now: Time) -> bool {
        if !self.stranger || !self.open || self.endpoint.sender().is_none() || self.una() >= self.outbox.end()
        {
            return false;
        }
        if self.endpoint.deadline().is_none() {
            self.probe_at.get_or_insert(now + PROBE);
        }
        self.probe_at.is_some_and(|at| at <= now)
    }

    /// A segment that they have already makes them say whether their window has opened. RFC 9293, section 3.8.6.1: "SHOULD
    /// increase exponentially the interval between successive probes".
    fn probe(&mut self, now: Time, buffer: &mut [u8]) -> (Outgoing, usize) {
        self.probes += 1;
        self.probe_at = Some(now + PROBE * (1 << self.probes.min(6)));
        let segment = Segment {
            ack: self.endpoint.receiver.next(),
            window: self.config.receive_window.min(u64::from(u32::MAX)) as u32,
            flags: Flags { ack: true, ..Flags::default() },
            ..Segment::default()
        };
        let mut header = self.translation.outgoing(&segment);
        // The last byte that they have: data begins behind the SYN.
        header.sequence = self.isn.wrapping_add(self.una() as u32);
        let len = self.put(header, 0, 0, buffer);
        (Outgoing { segment, retransmission: false, ecn: Ecn::NOT_ECT }, len)
    }

    fn put(&self, mut header: TcpHeader, seq: u64, len: u32, buffer: &mut [u8]) -> usize {
        header.source_port = self.local.port();
        header.destination_port = self.remote.port();
        let payload = self.outbox.bytes(seq, len as usize);
        header.write(&self.addresses(), &payload, buffer).expect("a buffer holds the longest segment")
    }

    fn addresses(&self) -> Addresses {
        addresses(*self.local.ip(), *self.remote.ip())
    }

    /// When to be asked again if nothing arrives.
    pub fn deadline(&self) -> Option<Time> {
        let probe_at = self.probe_at.filter(|_| self.una() < self.outbox.end());
        let deadlines = [self.endpoint.deadline(), probe_at];
        if self.reset { None } else { deadlines.into_iter().flatten().min() }
    }

    /// Data bytes received in order.
    pub fn received(&self) -> u64 {
        self.endpoint.received()
    }

    /// Has the other side said that it will send no more, and has everything before that arrived?
    pub fn peer_closed(&self) -> bool {
        self.endpoint.peer_closed()
    }

    /// Both sides have closed and know it, or the connection was reset.
    pub fn is_over(&self) -> bool {
        let done = || self.sender().is_some_and(Sender::is_done);
        self.reset || (self.closing && self.peer_closed() && done())
    }

    /// How often a segment of the handshake was sent again for want of an answer.
    pub fn syn_timeouts(&self) -> u32 {
        self.endpoint.syn_timeouts()
    }

    /// Has this side said that it will send no more?
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Bytes that this side has been handed to send, so far.
    pub fn written(&self) -> u64 {
        self.outbox.end()
    }

    /// Is the handshake over?
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Was it ended by a reset?
    pub fn was_reset(&self) -> bool {
        self.reset
    }

    /// The sending half, if anything was ever written.
    pub fn sender(&self) -> Option<&Sender> {
        self.endpoint.sender()
    }

    /// What a marker may know about a segment that leaves.
    pub fn sending(&self, out: &Outgoing) -> Sending {
        self.endpoint.sending(out, &self.config)
    }

    /// What selective packet marking may know about data that leaves.
    pub fn place(&self, seq: u64) -> Place {
        self.endpoint.place(seq)
    }

    /// Its parameters.
    pub fn config(&self) -> &TcpConfig {
        &self.config
    }

    /// Our address and theirs.
    pub fn ends(&self) -> (SocketAddrV4, SocketAddrV4) {
        (self.local, self.remote)
    }
}

/// How simulated hosts address their packets.
pub(crate) fn addresses(from: Ipv4Addr, to: Ipv4Addr) -> Addresses {
    Addresses { source: from.into(), destination: to.into(), traffic_class: 0, hop_limit: HOP_LIMIT }
}

/// The two addresses of a connection, ours first.
pub(crate) type Ends = (SocketAddrV4, SocketAddrV4);

/// The addresses in a TCP packet, the receiver's first.
pub(crate) fn parse(bytes: &[u8]) -> Option<(Ends, Tcp<'_>)> {
    ends_and_tcp(&Ip::parse(bytes).ok()?)
}

/// The same for who has read the IP header already.
pub(crate) fn ends_and_tcp<'a>(ip: &Ip<'a>) -> Option<(Ends, Tcp<'a>)> {
    let tcp = Tcp::parse(ip.transport(ip::TCP).ok()?).ok()?;
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (ip.source(), ip.destination()) else { return None };
    // A piece of a packet is not the packet.
    if ip.fragment().is_some() {
        return None;
    }
    let to = SocketAddrV4::new(destination, tcp.destination_port());
    Some(((to, SocketAddrV4::new(source, tcp.source_port())), tcp))
}

/// A packet whose checksums are right, or of a protocol without one that is known here.
pub(crate) fn whole(packet: &[u8]) -> Option<Ip<'_>> {
    let ip = Ip::parse(packet).ok()?;
    (ip.header_is_right() && transport_is_right(&ip) != Ok(false)).then_some(ip)
}

/// The answer to a packet of a connection that nobody has (RFC 9293, section 3.10.7.1), unless it is a reset itself.
pub fn refuse(tcp: &Tcp<'_>, addresses: &Addresses, buffer: &mut [u8]) -> Option<usize> {
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
