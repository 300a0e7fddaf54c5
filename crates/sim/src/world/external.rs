//! Connections with external hosts: the engine has one end, the medium exchanges packets with the other one.

use super::{Handler, Timer, World};
use crate::app::AppEvent;
use crate::connection::Connection;
use crate::connection_info::ConnectionInfo;
use crate::connection_spec::{CLIENT, ConnectionSpec, SERVER};
use crate::host::Conn;
use crate::medium::{End, Owner};
use crate::record::{Event, NO_APP};
use crate::session::SessionEvent;
use crate::watch::Watch;
use catnip_base::{Rng, Span, Time};
use catnip_net::{NodeId, Packet};
use catnip_tcp::TcpConfig;

impl<M: Handler, W: Watch> World<M, W> {
    /// Adds the connection of an external client to the listener of a simulated server, and sends the answer to its SYN. `create_ends`
    /// creates the ends from the TCP parameters, the phases of both clocks and the random stream of the connection. Returns the slot of the
    /// connection.
    pub fn accept(
        &mut self,
        now: Time,
        spec: ConnectionSpec,
        create_ends: impl FnOnce(&mut M, &TcpConfig, [Span; 2], &mut Rng) -> [M::End; 2],
    ) -> u32 {
        let programs = [NO_APP, self.service(spec.server, spec.tcp)];
        let id = self.add_connection(now, NO_APP, spec, programs, create_ends);
        self.transmit_pending(now, id, SERVER);
        id
    }

    /// Returns the end of a connection in this slot.
    pub fn end(&self, id: u32, end: usize) -> &M::End {
        &self.hosts.connections[id].ends[end]
    }

    /// Returns the state of the connection in this slot.
    pub fn connection_info(&self, id: u32) -> &ConnectionInfo {
        &self.hosts.connections[id].info
    }

    /// Sends a packet of an external host into the network.
    pub fn inject_external(&mut self, now: Time, from: NodeId, packet: Packet) {
        let hosts = &mut self.hosts;
        if let Owner::External { connection, end } = hosts.medium.owner(packet.body) {
            let (_, data_bytes) = hosts.medium.data(packet.body);
            self.tally.data_sent += u64::from(data_bytes > 0 && end == SERVER);
            let connection = &mut hosts.connections[connection];
            connection.info.on_sent_packet();
            connection.info.count_mark(end, packet.dscp);
            hosts.medium.observe(packet.body, &mut connection.ends[end]);
        }
        self.inject(now, from, packet);
    }

    /// Handles a packet of an external peer that arrives at this end of a connection, and releases its body. A connection that has ended
    /// answers retransmissions, until a reset ends that, too.
    pub fn on_external_packet(&mut self, now: Time, packet: Packet, id: u32, end: usize) {
        let hosts = &mut self.hosts;
        let connection = &mut hosts.connections[id];
        // The slot is not reused before the packet is processed.
        connection.info.on_sent_packet();
        let has_ended = connection.info.closed.is_some();
        let config = &hosts.tcp[connection.info.spec.tcp.0 as usize].config;
        let received = hosts.medium.receive(now, &packet, &mut connection.ends[end], config);
        hosts.medium.release(packet.body);
        if let Some(segment) = received {
            if segment.seq_len() > 0 {
                connection.info.on_data_received(end, packet.dscp);
            }
            hosts.record_segment(now, id, end, &segment, packet.len);
        }
        self.deliver_session_events(now, id, end);
        self.transmit_pending(now, id, end);
        self.close_if_done(now, id);
        let hosts = &mut self.hosts;
        let connection = &mut hosts.connections[id];
        if has_ended && connection.session().is_some_and(|session| session.was_reset()) {
            hosts.medium.released(id, &mut connection.ends);
        }
        hosts.on_left_network(now, Owner::External { connection: id, end });
    }

    /// Delivers the events that a packet has caused for the application at this end.
    fn deliver_session_events(&mut self, now: Time, id: u32, end: usize) {
        let connection = &mut self.hosts.connections[id];
        let (program, number) = (connection.programs[end], connection.info.number as u32);
        let Some(session) = connection.ends[end].session_mut() else { return };
        let conn = Conn { id, number };
        for event in session.events(now, &connection.info) {
            let event = match event {
                SessionEvent::Open if end == CLIENT => AppEvent::Opened(conn),
                SessionEvent::Open => AppEvent::Accepted(conn),
                SessionEvent::Message { message, complete } => AppEvent::Message { conn, message, complete },
                SessionEvent::Response { message, complete, reply } => {
                    self.count_responses(now, 1);
                    self.tally.completed += u64::from(complete);
                    self.hosts.connections[id].info.received = Some(now);
                    // Records assign an activity to the last response, so the response precedes the event.
                    if let Some(reply) = reply {
                        self.hosts.watch.record(now, &Event::Reply(reply));
                    }
                    AppEvent::Message { conn, message, complete }
                }
                SessionEvent::Abandoned(count) => {
                    self.count_responses(now, count);
                    continue;
                }
                SessionEvent::Progress(tag) => AppEvent::Progress { conn, tag },
                SessionEvent::PeerClosed => {
                    if program == NO_APP
                        && let Some(session) = self.hosts.connections[id].ends[end].session_mut()
                    {
                        session.close(now);
                    }
                    AppEvent::PeerClosed(conn)
                }
            };
            self.deliver(now, program, event);
        }
    }

    /// Counts responses for which applications no longer wait.
    fn count_responses(&mut self, now: Time, count: usize) {
        self.tally.waiting -= count;
        self.tally.last_end = now;
    }

    /// Ends the session of a closed connection, and schedules the end of the time for which the connection answers retransmissions.
    pub(super) fn end_session(&mut self, now: Time, id: u32) {
        let hosts = &mut self.hosts;
        let connection = &mut hosts.connections[id];
        let end = if connection.ends[SERVER].is_external() { CLIENT } else { SERVER };
        if end == SERVER {
            connection.info.received.get_or_insert(now);
        }
        let Some(session) = connection.ends[end].session_mut() else { return };
        let lingers_until = session.end(now);
        if let Some(reply) = session.reply(&connection.info) {
            hosts.watch.record(now, &Event::Reply(reply));
        }
        if let Some(until) = lingers_until {
            connection.planned[end] = until;
            hosts.medium.ended(id, connection.info.number);
            hosts.timers.push(until, Timer::End { connection: id, end }.pack());
        }
    }

    /// Handles the timer of a closed connection: the end of the time for which it answers retransmissions.
    pub(super) fn end_lingering(&mut self, now: Time, id: u32, end: usize) {
        let connection = &mut self.hosts.connections[id];
        if connection.session().is_some() {
            self.now = now;
            connection.planned[end] = Time::NEVER;
            self.hosts.retire_if_over(now, id);
        }
    }

    /// Ends the time for which a connection answers retransmissions, so that another connection may have the same addresses.
    pub fn forget(&mut self, now: Time, id: u32) {
        let hosts = &mut self.hosts;
        hosts.medium.released(id, &mut hosts.connections[id].ends);
        hosts.retire_if_over(now, id);
    }

    /// Ends the run: records connections with external hosts whose documents have arrived, even if the close is incomplete.
    pub fn finish(&mut self, now: Time) {
        let hosts = &mut self.hosts;
        let external = hosts.connections.iter().filter(|(_, connection)| connection.session().is_some());
        let ids: Vec<u32> = external.map(|(id, _)| id).collect();
        for id in ids {
            let info = &mut hosts.connections[id].info;
            if info.received.is_some() && !std::mem::replace(&mut info.is_recorded, true) {
                info.closed.get_or_insert(now);
                hosts.watch.record(now, &Event::Connection(hosts.connections[id].record()));
            }
        }
    }

    /// Returns true if a connection of a simulated server with an external client is open.
    pub fn serves_external(&self) -> bool {
        let is_open = |connection: &Connection<M::End>| {
            connection.ends[CLIENT].is_external() && connection.info.closed.is_none()
        };
        self.hosts.connections.iter().any(|(_, connection)| is_open(connection))
    }
}
