//! State of a connection apart from its ends, and the events and records of its packets.

use crate::connection_spec::{ConnectionSpec, SERVER, TcpOptions};
use crate::record::{ConnectionRecord, Event, SenderView, Served, ServedStep};
use catnip_base::{Rng, Time};
use catnip_net::mark::{AnyMarker, MarkerKind, MarkerSpec, PacketKind, PacketMarker, SenderState, Service};
use catnip_net::{DropReason, Dscp, Packet, PortId, Priority};
use catnip_tcp::{Outgoing, Segment, Sender, SenderStats};

/// State of a connection apart from its ends.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// Number of the connection in order of opening, from 0.
    pub number: u64,
    /// Application that opened the connection, or [`NO_APP`](crate::record::NO_APP).
    pub app: u32,
    /// Client and server.
    pub spec: ConnectionSpec,
    /// Bytes of the documents that the server has sent.
    pub bytes: u64,
    /// Time at which the connection was opened.
    pub opened: Time,
    /// Marker of the packets of each end.
    pub markers: [AnyMarker; 2],
    /// Mark of the last data received by each end.
    received_marks: [Option<Dscp>; 2],
    /// Time at which the client had completely received the last document; `None` if no document has arrived.
    pub received: Option<Time>,
    /// Time at which both ends had closed and everything was acknowledged; `None` if this has not happened.
    pub closed: Option<Time>,
    /// True once the connection is recorded.
    pub(crate) is_recorded: bool,
    /// Number of packets inside the network. The slot of the connection is reused only when this number is 0.
    pub in_network: u32,
    /// True if an output scheduler may hold a weight for the connection.
    pub(crate) is_weighted: bool,
    /// Data packets of the server that were dropped.
    pub dropped: u32,
    /// Packets of the server marked HIGH.
    pub sent_high: u32,
}

impl ConnectionInfo {
    /// Creates the state of a new connection, opened by the application `app` or by [`NO_APP`](crate::record::NO_APP). Markers that mark at
    /// random use `rng`.
    pub fn new(
        number: u64,
        app: u32,
        spec: ConnectionSpec,
        opened: Time,
        options: &TcpOptions,
        rng: &Rng,
    ) -> Self {
        let marker = |end: u32| match &options.marker {
            None => AnyMarker::default(),
            Some(spec) => spec.build(options.service, &|| rng.branch(end)),
        };
        Self {
            number,
            app,
            spec,
            bytes: 0,
            opened,
            markers: [marker(0), marker(1)],
            received_marks: [None; 2],
            received: None,
            closed: None,
            is_recorded: false,
            in_network: 0,
            is_weighted: false,
            dropped: 0,
            sent_high: 0,
        }
    }

    /// Replaces the marker of an end.
    pub fn set_marker(&mut self, end: usize, service: Service, spec: &MarkerSpec, rng: &dyn Fn() -> Rng) {
        self.markers[end] = spec.build(service, rng);
    }

    /// Returns true if packets of this end are marked.
    #[inline]
    pub fn is_marked(&self, end: usize) -> bool {
        !self.markers[end].is_none()
    }

    /// Marks the packet that carries a segment of this end, if the marker covers such segments. Returns true if the packet was marked.
    #[inline]
    pub fn mark(&mut self, now: Time, end: usize, mut sending: SenderState, packet: &mut Packet) -> bool {
        if let PacketKind::Ack(priority) = &mut sending.kind {
            *priority = self.received_marks[end].map(Dscp::priority);
        }
        self.markers[end].mark(now, Some(&sending), packet)
    }

    /// Counts a packet that enters the network.
    #[inline]
    pub fn on_sent_packet(&mut self) {
        self.in_network += 1;
    }

    /// Counts a packet that this end sends with this mark, if the end is the server and the mark is HIGH.
    #[inline]
    pub fn count_mark(&mut self, end: usize, mark: Dscp) {
        self.sent_high += u32::from(mark.priority() == Priority::High && end == SERVER);
    }

    /// Records the mark of data that an end has received.
    #[inline]
    pub fn on_data_received(&mut self, end: usize, mark: Dscp) {
        self.received_marks[end] = Some(mark);
    }

    /// Counts a dropped packet. `data_of_server` is true if the packet carried data of the server.
    pub fn on_dropped_packet(&mut self, data_of_server: bool) {
        self.in_network -= 1;
        self.dropped += u32::from(data_of_server);
    }

    /// Returns the event of a sent segment. Returns `None` if this end has no sender, or if the segment carries neither data nor a FIN.
    pub fn sent(
        &self,
        end: usize,
        sender: Option<&Sender>,
        out: &Outgoing,
        packet: &Packet,
    ) -> Option<Event> {
        let sender = sender.filter(|_| out.segment.seq_len() > 0)?;
        Some(Event::Sent(SenderView {
            seq: out.segment.seq,
            wire_bytes: packet.len,
            data_bytes: out.segment.len,
            fin: out.segment.flags.fin,
            priority: packet.dscp.priority(),
            retransmission: out.retransmission,
            ..SenderView::new(self.number, end, sender)
        }))
    }

    /// Returns the event of a received ACK. Returns `None` if this end has no sender, or if the segment carries data, a SYN or a FIN.
    pub fn acked(
        &self,
        end: usize,
        sender: Option<&Sender>,
        segment: &Segment,
        wire_bytes: u32,
    ) -> Option<Event> {
        let is_ack = segment.flags.ack && !segment.flags.syn && segment.seq_len() == 0;
        let sender = sender.filter(|_| is_ack)?;
        let view = SenderView::new(self.number, end, sender);
        Some(Event::Acked(SenderView { seq: segment.ack, wire_bytes, ..view }))
    }

    /// Returns the event of an expired retransmission timer, or `None` if this end has no sender.
    pub fn timed_out(&self, end: usize, sender: Option<&Sender>) -> Option<Event> {
        let view = |sender| SenderView { retransmission: true, ..SenderView::new(self.number, end, sender) };
        sender.map(view).map(Event::Timeout)
    }

    /// Returns the event of a dropped packet with data from `seq` on.
    pub fn lost(&self, seq: u64, port: PortId, packet: &Packet, reason: DropReason) -> Event {
        let (connection, wire_bytes, priority) = (self.number, packet.len, packet.dscp.priority());
        Event::Dropped { connection, seq, wire_bytes, port, priority, reason }
    }

    /// Returns the record of a step in the transmission of the server's data, after the server's application has written `written` bytes.
    pub fn served(&self, written: u64, step: ServedStep) -> Served {
        let &Self { number: connection, app, opened, .. } = self;
        Served { connection, app, tcp: self.spec.tcp, opened, written, step }
    }

    /// Returns true if the connection is closed and has no packet in the network.
    pub fn is_over(&self) -> bool {
        self.closed.is_some() && self.in_network == 0
    }

    /// Returns the record of the connection so far, from the statistics of the server's sender and the number of handshake retransmissions.
    pub fn record(&self, of_server: SenderStats, syn_timeouts: u32) -> ConnectionRecord {
        let SenderStats { sent, retransmitted, timeouts, fast_retransmits, probes, rtt_samples, rtt_sum } =
            of_server;
        let [received, acked] = [self.received, self.closed].map(|at| at.unwrap_or(Time::NEVER));
        let &Self { number: connection, app, opened, sent_high, dropped, bytes, .. } = self;
        ConnectionRecord {
            connection,
            app,
            bytes,
            opened,
            received,
            acked,
            sent,
            sent_high,
            retransmitted,
            timeouts,
            fast_retransmits,
            probes,
            dropped,
            syn_timeouts,
            rtt_samples,
            rtt_sum,
        }
    }
}
