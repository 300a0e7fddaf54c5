//! Operations of applications on their connections, datagrams and timers.

use super::{Handler, Timer, World};
use crate::connection_spec::{ConnectionSpec, SERVER};
use crate::datagram::FlowId;
use crate::host::{Conn, Engine, ServiceOptions};
use crate::medium::End;
use crate::message_stream::Message;
use crate::record::{Activity, ConnectionStats};
use crate::session::Written;
use crate::watch::Watch;
use catnip_base::{self as base, Rng, Time};

impl<M: Handler, W: Watch> Engine for World<M, W> {
    fn open(&mut self, now: Time, program: u32, spec: ConnectionSpec) -> Conn {
        self.connect(now, program, spec)
    }

    fn write(&mut self, now: Time, conn: Conn, program: u32, message: Message) {
        let Some(end) = self.end_of(conn, program) else { return };
        let connection = &mut self.hosts.connections[conn.id];
        if let Some(session) = connection.ends[end].session_mut() {
            let Written { document_bytes, awaits_response } = session.send(now, message, &connection.info);
            connection.info.bytes += document_bytes;
            self.tally.waiting += usize::from(awaits_response);
            return self.mark_dirty(conn.id, end);
        }
        if connection.streams[end].closed {
            return;
        }
        self.tally.waiting += 1;
        connection.streams[end].push(&message);
        connection.next_event_at[1 - end] = connection.streams[end].next_event_at();
        if end == SERVER {
            connection.info.bytes += message.bytes;
        }
        if message.bytes > 0 {
            let config = &self.hosts.tcp[connection.info.spec.tcp.0 as usize].config;
            connection.ends[end].write(now, message.bytes, message.context, false, config);
            self.mark_dirty(conn.id, end);
        } else {
            self.queue_app_events(now, conn.id, 1 - end);
        }
    }

    fn close(&mut self, now: Time, conn: Conn, program: u32) {
        let Some(end) = self.end_of(conn, program) else { return };
        let connection = &mut self.hosts.connections[conn.id];
        if let Some(session) = connection.ends[end].session_mut() {
            session.close(now);
            return self.mark_dirty(conn.id, end);
        }
        if std::mem::replace(&mut connection.streams[end].closed, true) {
            return;
        }
        // No FIN is needed from the end that closes second.
        if !connection.streams[1 - end].closed {
            let config = &self.hosts.tcp[connection.info.spec.tcp.0 as usize].config;
            if config.fin {
                connection.ends[end].write(now, 0, None, true, config);
            } else {
                self.queue_app_events(now, conn.id, 1 - end);
            }
        }
        self.mark_dirty(conn.id, end);
    }

    fn notify(&mut self, conn: Conn, program: u32, bytes: u64) {
        let Some(end) = self.end_of(conn, program) else { return };
        let connection = &mut self.hosts.connections[conn.id];
        if let Some(session) = connection.ends[end].session_mut() {
            return session.notify(bytes);
        }
        connection.streams[1 - end].notify(bytes);
        connection.next_event_at[end] = connection.streams[1 - end].next_event_at();
    }

    fn notify_drained(&mut self, conn: Conn, program: u32, bytes: u64) {
        let Some(end) = self.end_of(conn, program) else { return };
        let connection = &mut self.hosts.connections[conn.id];
        if connection.session().is_some() {
            return;
        }
        connection.streams[end].notify_drained(bytes);
        // The condition may be met as soon as the end has sent all data that it may send now.
        self.mark_dirty(conn.id, end);
    }

    fn set_service(&mut self, conn: Conn, program: u32, options: ServiceOptions) {
        let Some(end) = self.end_of(conn, program) else { return };
        let info = &mut self.hosts.connections[conn.id].info;
        let service = self.hosts.tcp[info.spec.tcp.0 as usize].service;
        let stream = base::Stream::Connection(info.number as u32);
        if let Some(spec) = &options.marker {
            let rng = || Rng::new(self.seed, stream).branch(2 + end as u32);
            info.set_marker(end, service, spec, &rng);
        }
        if let Some(weight) = options.weight.filter(|_| self.hosts.connections[conn.id].session().is_none()) {
            self.set_flow_weight(conn.id, end, weight);
        }
    }

    fn has_external_peer(&self, conn: Conn, program: u32) -> bool {
        let connection = &self.hosts.connections[conn.id];
        self.end_of(conn, program).is_some_and(|end| connection.ends[1 - end].is_external())
    }

    fn stats(&self, conn: Conn, program: u32) -> Option<ConnectionStats> {
        self.end_of(conn, program)?;
        Some(self.hosts.connections[conn.id].stats())
    }

    fn datagram(&mut self, now: Time, flow: FlowId, bytes: u32) {
        self.send_datagram(now, flow, bytes);
    }

    fn receive(&mut self, flow: FlowId, program: u32) {
        self.hosts.datagrams.set_receiver(flow, program);
    }

    fn timer(&mut self, at: Time, number: u32, key: u64) {
        self.hosts.timers.push(at, Timer::App(number).pack());
        let program = self.programs.get_mut(number);
        if !program.timers.plan(key, at) {
            let is_source = program.is_source;
            *self.programs.running(is_source) += 1;
        }
    }

    fn cancel(&mut self, number: u32, key: u64) {
        let program = self.programs.get_mut(number);
        if program.timers.take(|(other, _)| *other == key).is_some() {
            let is_source = program.is_source;
            *self.programs.running(is_source) -= 1;
        }
    }

    fn record(&mut self, now: Time, activity: &dyn Activity) {
        self.hosts.watch.activity(now, activity);
    }
}
