//! What happens between two simulated hosts: all that the simulator does.

use super::audience::Audience;
use super::connection::{CLIENT, Kind, SERVER, sender_view};
use super::hosts::Hosts;
use super::socket::Socket;
use catnip_base::{FlowContext, Time};
use catnip_net::{Fabric, Packet, Priority};
use catnip_sim::app::AppEvent;
use catnip_sim::record::Event;
use catnip_tcp::{Segment, Sender};

impl<A: Audience> Hosts<A> {
    /// A simulated server hands over the document once the request is there.
    pub(super) fn respond_if_asked(&mut self, now: Time, id: u32) {
        let connection = &mut self.connections[id];
        let transfer = connection.transfer;
        if connection.responded || !matches!(connection.kind, Kind::Simulated) {
            return;
        }
        let Some(server) = &mut connection.ends[SERVER] else { return };
        if server.received() >= transfer.request_bytes {
            connection.responded = true;
            let context = transfer.tells_size.then(|| FlowContext::document(transfer.bytes));
            server.fill(now, transfer.bytes, context, true);
        }
    }

    /// The simulator's reaction to a segment between simulated hosts.
    #[expect(clippy::too_many_arguments, reason = "what is known of a delivery")]
    pub(super) fn on_segment(
        &mut self,
        fabric: &mut Fabric,
        now: Time,
        id: u32,
        end: usize,
        packet: &Packet,
        segment: Segment,
        received_before: u64,
    ) {
        let connection = &mut self.connections[id];
        if A::PACKETS
            && segment.flags.ack
            && !segment.flags.syn
            && segment.span() == 0
            && let Some(sender) = connection.ends[end].as_ref().and_then(Socket::sender)
        {
            let view = sender_view(connection.number, sender, segment.ack, packet.len, false, Priority::Low);
            self.audience.record(now, &Event::Acked(view));
        }
        if segment.len > 0 {
            if end == CLIENT {
                self.on_client_data(fabric, now, id, received_before);
            } else {
                self.respond_if_asked(now, id);
            }
        }
        self.pump(fabric, now, id, end);
        if end == SERVER {
            self.close_if_done(now, id);
        }
    }

    fn on_client_data(&mut self, fabric: &mut Fabric, now: Time, id: u32, received_before: u64) {
        let connection = &mut self.connections[id];
        let transfer = connection.transfer;
        let received = connection.ends[CLIENT].as_ref().map_or(0, Socket::received);
        let (app, tag) = (connection.app, transfer.tag);
        if received == transfer.bytes && connection.done_at_client.is_none() {
            connection.done_at_client = Some(now);
            self.completed += 1;
            self.users_waiting -= 1;
            self.last_done = now;
            // The ACK leaves before the application reacts.
            self.pump(fabric, now, id, CLIENT);
            self.tell(fabric, now, app, AppEvent::Complete { tag });
        } else if transfer.notify_at.is_some_and(|at| received_before < at && at <= received) {
            self.pump(fabric, now, id, CLIENT);
            self.tell(fabric, now, app, AppEvent::Reached { tag });
        }
    }

    /// A connection is closed once the client has the document and the server knows it.
    fn close_if_done(&mut self, now: Time, id: u32) {
        let connection = &mut self.connections[id];
        let server = connection.ends[SERVER].as_ref().and_then(Socket::sender);
        if connection.done_at_client.is_some() && server.is_some_and(Sender::is_done) {
            self.close(now, id);
            self.retire_if_over(now, id);
        }
    }
}
