//! State of the hosts at the edges of the network, and its updates by events of packets in the network.

use crate::connection::Connection;
use crate::connection_spec::{SERVER, TcpOptions};
use crate::datagram::{Datagrams, FlowId};
use crate::medium::{End, Medium, Owner};
use crate::record::{DatagramStep, Event, ServedStep};
use crate::watch::{Step, Watch};
use catnip_base::{Slab, Time};
use catnip_net::{Calendar, DropReason, NetworkEvents, Packet, PortId};
use catnip_tcp::{Segment, Sender};

/// State at the edges of the network that drops, copies and corruption of packets in the network update.
#[derive(Debug)]
pub(super) struct Hosts<M: Medium, W> {
    pub(super) tcp: Vec<TcpOptions>,
    pub(super) connections: Slab<Connection<M::End>>,
    pub(super) medium: M,
    pub(super) timers: Calendar,
    pub(super) datagrams: Datagrams,
    pub(super) data_dropped: u64,
    pub(super) watch: W,
}

impl<M: Medium, W: Watch> NetworkEvents for Hosts<M, W> {
    #[inline(always)]
    fn entered(&mut self, now: Time, at: PortId, packet: &Packet) {
        self.watch.packet(now, packet, self.medium.origin(packet.body), Step::Entered(at));
    }

    #[inline(always)]
    fn passed(&mut self, now: Time, at: PortId, packet: &Packet) {
        self.watch.packet(now, packet, self.medium.origin(packet.body), Step::Passed(at));
    }

    fn copied(&mut self, now: Time, at: PortId, packet: &Packet) -> Option<u32> {
        let body = self.medium.copy(packet.body)?;
        match self.medium.owner(body) {
            Owner::End { connection, .. } | Owner::External { connection, .. } => {
                self.connections[connection].info.on_sent_packet();
            }
            Owner::Datagram(flow, _) => self.datagrams.copied(flow),
            Owner::Other => {}
        }
        let copy = Packet { body, ..*packet };
        self.watch.packet(now, &copy, self.medium.origin(body), Step::Copied(at, packet.body));
        Some(body)
    }

    /// Corrupts packets of external hosts only; simulated hosts would discard a corrupted packet.
    fn corrupted(&mut self, now: Time, at: PortId, packet: &Packet, bit: u32) -> bool {
        let crosses_border = match self.medium.owner(packet.body) {
            Owner::End { connection, .. } => self.connections[connection].session().is_some(),
            Owner::External { .. } | Owner::Other => true,
            Owner::Datagram(..) => false,
        };
        if crosses_border {
            self.medium.corrupt(packet.body, bit);
            self.watch.packet(now, packet, self.medium.origin(packet.body), Step::Corrupted(at));
        }
        crosses_border
    }

    fn dropped(&mut self, now: Time, at: PortId, packet: Packet, reason: DropReason) {
        self.watch.packet(now, &packet, self.medium.origin(packet.body), Step::Dropped(at, reason));
        let (id, end, is_external) = match self.medium.owner(packet.body) {
            Owner::End { connection, end } => (connection, end, false),
            Owner::External { connection, end } => (connection, end, true),
            Owner::Datagram(flow, _) => {
                self.medium.release(packet.body);
                self.datagrams.dropped(flow);
                return self.record_datagram(now, flow, packet.len, DatagramStep::Dropped(at, reason));
            }
            Owner::Other => return self.medium.release(packet.body),
        };
        let (seq, len) = self.medium.data(packet.body);
        self.medium.release(packet.body);
        let connection = &mut self.connections[id];
        let data_of_server = len > 0 && end == SERVER;
        connection.info.on_dropped_packet(data_of_server);
        self.data_dropped += u64::from(data_of_server);
        if W::PACKETS {
            self.watch.record(now, &connection.info.lost(seq, at, &packet, reason));
            if data_of_server && !is_external {
                let step = ServedStep::Dropped { seq };
                self.watch.served(now, &connection.info.served(connection.written(), step));
            }
        }
        self.retire_if_over(now, id);
    }
}

impl<M: Medium, W: Watch> Hosts<M, W> {
    pub(super) fn record_datagram(&mut self, now: Time, flow: FlowId, wire_bytes: u32, step: DatagramStep) {
        if W::PACKETS {
            self.watch.record(now, &Event::Datagram { flow, wire_bytes, step });
        }
    }

    /// Records the events of a segment that has arrived at this end: the ACK, and the progress of the server's data.
    #[inline(always)]
    pub(super) fn record_segment(
        &mut self,
        now: Time,
        id: u32,
        end: usize,
        segment: &Segment,
        wire_bytes: u32,
    ) {
        if !W::PACKETS {
            return;
        }
        let connection = &self.connections[id];
        let sender = connection.ends[end].sender();
        if let Some(event) = connection.info.acked(end, sender, segment, wire_bytes) {
            self.watch.record(now, &event);
        }
        if end == SERVER
            && segment.flags.ack
            && let Some(snd_una) = sender.map(Sender::snd_una)
        {
            let step = ServedStep::Acked { snd_una };
            self.watch.served(now, &connection.info.served(connection.written(), step));
        }
    }

    /// Counts a packet of a connection that an external host has sent or received as gone from the network.
    pub(super) fn on_left_network(&mut self, now: Time, owner: Owner) {
        if let Owner::End { connection, .. } | Owner::External { connection, .. } = owner {
            self.connections[connection].info.in_network -= 1;
            self.retire_if_over(now, connection);
        }
    }

    /// Records a closed connection once its last packet has left the network, and frees its slot once the connection is no longer kept to
    /// answer retransmissions.
    pub(super) fn retire_if_over(&mut self, now: Time, id: u32) {
        let connection = &mut self.connections[id];
        if !connection.info.is_over() {
            return;
        }
        // A connection over which the client has received no document is not recorded.
        if connection.info.received.is_some() && !std::mem::replace(&mut connection.info.is_recorded, true) {
            self.watch.record(now, &Event::Connection(connection.record()));
        }
        if let Some(session) = connection.session() {
            if session.lingers(now) {
                return;
            }
            connection.planned = [Time::NEVER; 2];
            self.medium.released(id, &mut connection.ends);
        }
        self.connections.release(id);
    }
}
