//! Connections from opening to final record.

use super::{Handler, Timer, World};
use crate::app::AppEvent;
use crate::connection::Connection;
use crate::connection_info::ConnectionInfo;
use crate::connection_spec::{CLIENT, ConnectionSpec, SERVER, tick_phase};
use crate::host::Conn;
use crate::medium::{End, Owner};
use crate::message_stream::{Stream, StreamEvent};
use crate::record::{NO_APP, ServedStep};
use crate::watch::{Created, Watch};
use catnip_base::{self as base, Rng, Span, Time};
use catnip_net::Packet;
use catnip_net::mark::PacketMarker;
use catnip_tcp::{Sender, TcpConfig};

impl<M: Handler, W: Watch> World<M, W> {
    pub(super) fn connect(&mut self, now: Time, program: u32, spec: ConnectionSpec) -> Conn {
        self.tally.open += 1;
        let ConnectionSpec { opener, tcp, .. } = spec;
        let node = spec.node(1 - opener);
        let mut programs = [program; 2];
        programs[1 - opener] =
            if self.hosts.medium.is_external(node) { NO_APP } else { self.service(node, tcp) };
        let create_ends = |medium: &mut M, config: &TcpConfig, phases, rng: &mut Rng| {
            medium.connect(now, &spec, config, phases, rng)
        };
        let id = self.add_connection(now, program, spec, programs, create_ends);
        self.mark_dirty(id, opener);
        for end in [opener, 1 - opener] {
            if self.hosts.connections[id].next_event_at[end] == 0 {
                self.queue_app_events(now, id, end);
            }
        }
        Conn { id, number: self.hosts.connections[id].info.number as u32 }
    }

    /// Adds a connection that the application `app`, or an external host, has opened, and returns its slot. `create_ends` creates its ends
    /// from the TCP parameters, the phases of both clocks and the random stream of the connection.
    pub(super) fn add_connection(
        &mut self,
        now: Time,
        app: u32,
        spec: ConnectionSpec,
        programs: [u32; 2],
        create_ends: impl FnOnce(&mut M, &TcpConfig, [Span; 2], &mut Rng) -> [M::End; 2],
    ) -> u32 {
        let ConnectionSpec { client, server, tcp, .. } = spec;
        let routes = [self.fabric.checked_route(client, server), self.fabric.checked_route(server, client)];
        let number = self.tally.opened;
        self.tally.opened += 1;
        let mut rng = Rng::new(self.seed, base::Stream::Connection(number as u32));
        let is_external = [client, server].map(|node| self.hosts.medium.is_external(node));
        let (clock, fixed_phase) = (self.tcp(tcp).config.slowest_clock(), self.tick_phase);
        let mut phase = |end: usize| {
            if is_external[end] {
                return Span::ZERO;
            }
            let drawn = tick_phase(clock, rng.uniform());
            fixed_phase.unwrap_or(drawn)
        };
        let (server_phase, client_phase) = (phase(SERVER), phase(CLIENT));
        let hosts = &mut self.hosts;
        let options = &hosts.tcp[tcp.0 as usize];
        let ends = create_ends(&mut hosts.medium, &options.config, [client_phase, server_phase], &mut rng);
        let has_session = is_external != [false; 2];
        // The client's stream is received by the server, and the server's by the client. A session has no streams.
        let streams = [SERVER, CLIENT]
            .map(|end| Stream::new(!has_session && self.programs.interest(programs[end]).opened));
        let info = ConnectionInfo::new(number, app, spec, now, options, &rng);
        let id = hosts.connections.insert(Connection {
            ends,
            routes,
            planned: [Time::NEVER; 2],
            next_event_at: [streams[SERVER].next_event_at(), streams[CLIENT].next_event_at()],
            info,
            programs,
            streams,
        });
        hosts.medium.opened(id, &hosts.connections[id].ends);
        // The network identifies the packets of a session by addresses and ports.
        if self.fabric.isolates_hosts() && !has_session {
            let spec = [client, server].map(|node| node.0);
            self.fabric.set_hosts(id as u16, routes[CLIENT], spec);
            self.fabric.set_hosts(id as u16, routes[SERVER], [spec[1], spec[0]]);
        }
        let weight = self.tcp(tcp).weight;
        if weight != 1 && !has_session {
            [CLIENT, SERVER].into_iter().for_each(|end| self.set_flow_weight(id, end, weight));
        }
        id
    }

    /// Sets the weight of a connection at the uplink of this end's host.
    pub(super) fn set_flow_weight(&mut self, id: u32, end: usize, weight: u32) {
        let info = &mut self.hosts.connections[id].info;
        info.is_weighted |= weight != 1;
        self.fabric.set_weight(info.spec.node(end), id as u16, weight);
    }

    /// Returns the end of a connection that this application has, if the connection still exists.
    pub(super) fn end_of(&self, conn: Conn, program: u32) -> Option<usize> {
        let connection = &self.hosts.connections[conn.id];
        let is_current = connection.info.number as u32 == conn.number && connection.info.closed.is_none();
        let end = || connection.programs.iter().position(|&it| it == program);
        is_current.then(end).flatten()
    }

    /// Queues the events due for the application at an end of a connection.
    pub(super) fn queue_app_events(&mut self, now: Time, id: u32, end: usize) {
        loop {
            let connection = &mut self.hosts.connections[id];
            let config = &self.hosts.tcp[connection.info.spec.tcp.0 as usize].config;
            let Some(stream_event) = connection.next_event(end, config) else { break };
            let conn = Conn { id, number: connection.info.number as u32 };
            let event = match stream_event {
                StreamEvent::Open if end == connection.info.spec.opener => AppEvent::Opened(conn),
                StreamEvent::Open => AppEvent::Accepted(conn),
                StreamEvent::Message(message) => {
                    self.tally.waiting -= 1;
                    if end == CLIENT {
                        self.tally.completed += 1;
                        connection.info.received = Some(now);
                    }
                    self.tally.last_end = now;
                    AppEvent::Message { conn, message, complete: true }
                }
                StreamEvent::Progress(tag) => AppEvent::Progress { conn, tag },
                StreamEvent::PeerClosed => AppEvent::PeerClosed(conn),
            };
            let program = connection.programs[end];
            if program == NO_APP {
                connection.streams[end].closed |= stream_event == StreamEvent::PeerClosed;
            } else if stream_event != StreamEvent::PeerClosed || self.programs.interest(program).peer_closed {
                self.pending_events.push_back((program, event));
            }
        }
    }

    /// Handles a segment that arrives at this end of a connection. If an event for the application results, what the application then
    /// writes to this connection carries the ACK; what it writes to other connections leaves after the ACK.
    pub(super) fn on_segment(&mut self, now: Time, packet: Packet, id: u32, end: usize) {
        let hosts = &mut self.hosts;
        let connection = &mut hosts.connections[id];
        connection.info.in_network -= 1;
        if connection.info.closed.is_some() {
            hosts.medium.release(packet.body);
            return hosts.retire_if_over(now, id);
        }
        let config = &hosts.tcp[connection.info.spec.tcp.0 as usize].config;
        let received = hosts.medium.receive(now, &packet, &mut connection.ends[end], config);
        hosts.medium.release(packet.body);
        let Some(segment) = received else { return };
        let is_closing = connection.streams[CLIENT].closed && connection.streams[SERVER].closed;
        let next_event_at = connection.next_event_at[end];
        let mut has_event = next_event_at == 0;
        if segment.seq_len() > 0 {
            connection.info.on_data_received(end, packet.dscp);
            has_event |= segment.flags.fin || connection.ends[end].received() >= next_event_at;
        }
        hosts.record_segment(now, id, end, &segment, packet.len);
        if has_event {
            self.queue_app_events(now, id, end);
            if !self.pending_events.is_empty() {
                self.mark_dirty(id, end);
                return self.deliver_pending(now);
            }
        }
        self.transmit_pending(now, id, end);
        if is_closing || has_event {
            self.close_if_done(now, id);
        }
    }

    /// Ends a connection once both applications have closed it and everything is acknowledged. Not inlined, since the check is rare and
    /// would take registers from the processing of segments.
    #[inline(never)]
    pub(super) fn close_if_done(&mut self, now: Time, id: u32) {
        let connection = &self.hosts.connections[id];
        if connection.info.closed.is_none() && connection.is_done() {
            self.end_connection(now, id);
        }
    }

    #[inline(never)]
    pub(super) fn end_connection(&mut self, now: Time, id: u32) {
        let connection = &mut self.hosts.connections[id];
        let &mut Connection { ref mut info, programs, .. } = connection;
        info.closed = Some(now);
        let of_application = usize::from(info.app != NO_APP);
        let conn = Conn { id, number: info.number as u32 };
        if info.is_weighted {
            // Another connection will reuse the slot.
            for end in [CLIENT, SERVER] {
                self.fabric.set_weight(info.spec.node(end), id as u16, 1);
            }
        }
        self.tally.open -= of_application;
        if self.hosts.connections[id].session().is_some() {
            self.end_session(now, id);
        }
        self.hosts.retire_if_over(now, id);
        for program in programs {
            if self.programs.interest(program).closed {
                self.pending_events.push_back((program, AppEvent::Closed(conn)));
            }
        }
        if !self.pending_events.is_empty() {
            self.deliver_pending(now);
        }
    }

    /// Sends the segments that this end has to send, and sets its timer.
    pub(super) fn transmit_pending(&mut self, now: Time, id: u32, end: usize) {
        loop {
            let hosts = &mut self.hosts;
            let connection = &mut hosts.connections[id];
            let config = &hosts.tcp[connection.info.spec.tcp.0 as usize].config;
            let owner = Owner::End { connection: id, end };
            let packed = hosts.medium.pack(now, &mut connection.ends[end], owner, config);
            let Some((out, body)) = packed else { break };
            let segment = &out.segment;
            let route = connection.routes[end];
            let mut packet = hosts.medium.packet(now, id, route, &connection.ends[end], (&out, body), config);
            let marker = &connection.info.markers[end];
            if marker.is_none() {
            } else if marker.depends_only_on_position() && connection.session().is_none() {
                let mark = if segment.seq_len() > 0 {
                    marker.mark_of_data_at(&connection.ends[end].position(segment.seq), config.segment_bytes)
                } else {
                    marker.mark_of_handshake().filter(|_| segment.flags.syn)
                };
                if let Some(mark) = mark {
                    packet.dscp = mark;
                    connection.info.count_mark(end, packet.dscp);
                    hosts.medium.stamp(&packet);
                }
            } else if let Some(mark) = connection.mark(now, end, out, packet, config) {
                packet.dscp = mark;
                hosts.medium.stamp(&packet);
            }
            connection.info.on_sent_packet();
            self.tally.data_sent += u64::from(segment.len > 0 && end == SERVER);
            let &ConnectionInfo { number, ref spec, .. } = &connection.info;
            hosts.watch.created(now, &packet, Created::Segment { connection: number, end, spec, segment });
            let sender = connection.ends[end].sender();
            if W::PACKETS
                && let Some(event) = connection.info.sent(end, sender, &out, &packet)
            {
                hosts.watch.record(now, &event);
            }
            if W::PACKETS && end == SERVER && segment.len > 0 {
                let (seq, bytes, retransmission) = (segment.seq, segment.len, out.retransmission);
                let step = ServedStep::Sent { seq, bytes, retransmission };
                hosts.watch.served(now, &connection.info.served(connection.written(), step));
            }
            let from = connection.info.spec.node(end);
            self.inject(now, from, packet);
        }
        let connection = &mut self.hosts.connections[id];
        if let Some(deadline) = connection.ends[end].deadline()
            && deadline < connection.planned[end]
        {
            connection.planned[end] = deadline;
            self.hosts.timers.push(deadline, Timer::End { connection: id, end }.pack());
        }
        if connection.streams[end].awaits_drain() {
            self.deliver_drained(now, id, end);
        }
    }

    /// Notifies the application at an end if the unsent part of its data is below the requested number of bytes.
    #[inline(never)]
    pub(super) fn deliver_drained(&mut self, now: Time, id: u32, end: usize) {
        let connection = &mut self.hosts.connections[id];
        let sent = connection.ends[end].sender().map_or(0, Sender::snd_max);
        if connection.streams[end].is_drained(sent) {
            let conn = Conn { id, number: connection.info.number as u32 };
            let program = connection.programs[end];
            self.deliver(now, program, AppEvent::Drained(conn));
        }
    }

    /// Returns the number of bytes of the next message that have arrived at an application's end of a connection.
    pub(super) fn arrived(&self, conn: Conn, program: u32) -> u64 {
        let Some(end) = self.end_of(conn, program) else { return 0 };
        let connection = &self.hosts.connections[conn.id];
        if let Some(session) = connection.session() {
            return session.arrived(&connection.info)[0];
        }
        connection.streams[1 - end].arrived(connection.ends[end].received())
    }
}
