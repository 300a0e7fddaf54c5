use super::FrameWorld;
use crate::datapath::classify::flow;
use crate::datapath::frames::{ConnectionRef, Egress};
use catnip_base::Time;
use catnip_net::Packet;
use catnip_sim::medium::Medium;
use catnip_sim::record::ServedStep;
use catnip_sim::{SERVER, Watch};

/// Sends all segments that the socket has ready, and schedules its timer.
pub(super) fn transmit_pending<O: Egress, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, id: u32) {
    while let Some(body) = world.medium_mut().take() {
        let (frames, watch) = world.parts_mut();
        let (room, strangers) = frames.room_and_foreign(body);
        let connection = &mut strangers.connections[id];
        let from_server = connection.side == SERVER;
        let Some((out, len)) = connection.socket.transmit(now, room) else {
            frames.release(body);
            break;
        };
        let mut packet = Packet { ecn: out.ecn, ..Packet::new(now, connection.route, len as u32, body) };
        let (info, socket) = (&mut connection.info, &connection.socket);
        let side = connection.side;
        let marked = info.is_marked(side) && info.mark(now, side, socket.sending(&out), &mut packet);
        info.enters();
        if marked {
            info.counts(side, packet.dscp);
        }
        if W::PACKETS
            && let Some(event) = connection.info.sent(side, socket.sender(), &out, &packet)
        {
            watch.record(now, &event);
        }
        if W::PACKETS && out.segment.len > 0 {
            let (seq, bytes, retransmission) = (out.segment.seq, out.segment.len, out.retransmission);
            let sent = connection.served(ServedStep::Sent { seq, bytes, retransmission });
            sent.iter().for_each(|what| watch.served(now, what));
        }
        let from = connection.info.spec.node(connection.side);
        let (seq, data_bytes) = (out.segment.seq, out.segment.len);
        frames.put(body, len, Some(ConnectionRef { connection: id, from_server, seq, data_bytes }));
        packet.flow = flow(frames.ip_packet(body));
        if marked {
            frames.stamp(&packet);
        }
        world.tally_mut().data_sent += u64::from(out.segment.len > 0 && from_server);
        world.inject(now, from, packet);
    }
    let connection = &mut world.medium_mut().external.connections[id];
    if connection.info.closed.is_none()
        && let Some(deadline) = connection.socket.deadline()
        && deadline < connection.planned
    {
        connection.planned = deadline;
        world.plan(deadline, id);
    }
}
