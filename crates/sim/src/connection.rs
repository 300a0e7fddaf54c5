use crate::connection_info::ConnectionInfo;
use crate::connection_spec::{CLIENT, SERVER};
use crate::medium::End;
use crate::message_stream::{Stream, StreamEvent};
use crate::record::{ConnectionRecord, ConnectionStats};
use crate::session::Session;
use catnip_base::Time;
use catnip_net::{Dscp, Packet, Route};
use catnip_tcp::{Outgoing, Sender, TcpConfig};

/// Connection between two hosts of the engine.
#[derive(Debug)]
pub(crate) struct Connection<E> {
    pub(crate) ends: [E; 2],
    /// Route of the packets that each end sends.
    pub(crate) routes: [Route; 2],
    /// Time of each end's valid entry in the calendar of timers; other entries are stale.
    pub(crate) planned: [Time; 2],
    /// Number of received bytes below which no event is due for the application at each end.
    pub(crate) next_event_at: [u64; 2],
    pub(crate) info: ConnectionInfo,
    /// Application at each end, or [`NO_APP`](crate::record::NO_APP).
    pub(crate) programs: [u32; 2],
    /// Stream that each end sends.
    pub(crate) streams: [Stream; 2],
}

// Memory use and cache misses of large networks grow with this size. It may shrink; growth needs a reason.
const _: () = assert!(size_of::<Connection<catnip_tcp::Endpoint>>() <= 984);

impl<E: End> Connection<E> {
    /// Returns the next event for the application at this end.
    pub(crate) fn next_event(&mut self, end: usize, config: &TcpConfig) -> Option<StreamEvent> {
        let (local, peer) = (&self.ends[end], &mut self.streams[1 - end]);
        // If the configuration has no FINs, the close of the peer is reported without a FIN.
        let peer_ended = peer.closed && (local.peer_closed() || !config.fin);
        let event = peer.next_event(local.received(), local.is_open(), peer_ended);
        self.next_event_at[end] = peer.next_event_at();
        event
    }

    /// Returns the mark of the packet that carries a segment of this end, if the marker covers such segments. Takes segment and packet by
    /// value and is not inlined, so that unmarked packets stay in registers on their own path.
    #[inline(never)]
    pub(crate) fn mark(
        &mut self,
        now: Time,
        end: usize,
        out: Outgoing,
        mut packet: Packet,
        config: &TcpConfig,
    ) -> Option<Dscp> {
        let sending = self.ends[end].sender_state(&out, config);
        self.info.mark(now, end, sending, &mut packet).then(|| {
            self.info.count_mark(end, packet.dscp);
            packet.dscp
        })
    }

    /// Returns the record of the connection so far.
    pub(crate) fn record(&self) -> ConnectionRecord {
        self.info.record(self.ends[SERVER].stats(), self.ends.iter().map(E::syn_timeouts).sum())
    }

    /// Returns the statistics of the connection so far.
    pub(crate) fn stats(&self) -> ConnectionStats {
        let record = self.record();
        let (delivered, received) = match self.session() {
            Some(session) => (session.arrived(&self.info)[1], record.received),
            None => {
                let delivered = self.ends[CLIENT].received();
                (delivered, if delivered < record.bytes { Time::NEVER } else { record.received })
            }
        };
        let sender = self.ends[SERVER].sender();
        let control = sender.map(Sender::control);
        ConnectionStats {
            record: ConnectionRecord { received, ..record },
            delivered,
            cwnd: control.map(|control| control.cwnd),
            ssthresh: control.and_then(|control| control.ssthresh),
            in_flight: sender.map_or(0, |sender| sender.snd_max() - sender.snd_una()),
            srtt: sender.and_then(Sender::srtt),
        }
    }

    /// Returns the application protocol with an external peer; `None` if both ends are simulated.
    #[inline(always)]
    pub(crate) fn session(&self) -> Option<&dyn Session> {
        self.ends[CLIENT].session().or_else(|| self.ends[SERVER].session())
    }

    /// Returns the number of bytes that an end's application has written.
    pub(crate) fn written(&self) -> u64 {
        self.session().map_or(self.info.bytes, |session| session.written())
    }

    /// Returns true if both ends have closed and everything sent is acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        if let Some(session) = self.session() {
            return session.is_over();
        }
        self.streams[CLIENT].closed
            && self.streams[SERVER].closed
            && self.ends.iter().all(|end| end.sender().is_none_or(Sender::is_done))
    }
}
