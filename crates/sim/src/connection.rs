use crate::record::{ConnectionRecord, Event, NOBODY, SenderView};
use crate::transfer::{SERVER, Transfer};
use catnip_base::Time;
use catnip_net::mark::{AnyMarker, PacketMarker, Sending, SpmParameters};
use catnip_net::{Colour, DropReason, Packet, PortId, Route};
use catnip_tcp::{Outgoing, Segment, Sender, SenderStats};

/// Both ends of a connection between two hosts of the engine.
#[derive(Debug)]
pub(crate) struct Connection<E> {
    pub(crate) ends: [E; 2],
    /// The way of what each end sends.
    pub(crate) routes: [Route; 2],
    /// Of each end's entries in the calendar of timers, only the one with this time is valid.
    pub(crate) planned: [Time; 2],
    pub(crate) account: Account,
}

/// What is known of a connection, whoever is at its ends.
#[derive(Debug)]
pub struct Account {
    /// In order of opening, from 0.
    pub number: u64,
    /// The application that opened it, or [`NOBODY`].
    pub app: u32,
    /// What it carries.
    pub transfer: Transfer,
    /// When it was opened.
    pub opened: Time,
    /// How its packets are marked.
    pub marker: AnyMarker,
    /// The server has answered.
    pub responded: bool,
    /// When the client had everything.
    pub done_at_client: Option<Time>,
    /// When the server heard of it.
    pub closed: Option<Time>,
    /// Its packets inside the network; its number is used again only when there are none.
    pub in_network: u32,
    /// Data packets of the server that were dropped.
    pub dropped: u32,
    /// Packets that the server marked HIGH.
    pub sent_high: u32,
}

impl Account {
    /// A connection that nobody has opened begins.
    pub fn new(number: u64, transfer: Transfer, opened: Time, marker: Option<SpmParameters>) -> Self {
        Self {
            number,
            app: NOBODY,
            transfer,
            opened,
            marker: marker.into(),
            responded: false,
            done_at_client: None,
            closed: None,
            in_network: 0,
            dropped: 0,
            sent_high: 0,
        }
    }

    /// A segment of this end leaves as this packet; true if that was marked.
    #[inline]
    pub fn sends(
        &mut self,
        now: Time,
        end: usize,
        segment: &Segment,
        packet: &mut Packet,
        sending: impl FnOnce() -> Option<Sending>,
    ) -> bool {
        let marked = !matches!(self.marker, AnyMarker::None) && segment.span() > 0;
        if marked {
            self.marker.mark(now, sending().as_ref(), packet);
        }
        self.in_network += 1;
        self.sent_high += u32::from(packet.dscp.colour() == Colour::Green && end == SERVER);
        marked
    }

    /// One of its packets was dropped: data of the server, or anything else.
    pub fn loses(&mut self, data_of_server: bool) {
        self.in_network -= 1;
        self.dropped += u32::from(data_of_server);
    }

    /// Its sender, if this is one, has sent what takes sequence numbers.
    pub fn sent(&self, sender: Option<&Sender>, out: &Outgoing, packet: &Packet) -> Option<Event> {
        let (seq, again, colour) = (out.segment.seq, out.retransmission, packet.dscp.colour());
        let sender = sender.filter(|_| out.segment.span() > 0)?;
        Some(Event::Sent(SenderView::new(self.number, sender, seq, packet.len, again, colour)))
    }

    /// Its sender, if this is one, has heard an ACK.
    pub fn acked(&self, sender: Option<&Sender>, segment: &Segment, wire_bytes: u32) -> Option<Event> {
        let is_ack = segment.flags.ack && !segment.flags.syn && segment.span() == 0;
        let sender = sender.filter(|_| is_ack)?;
        let view = SenderView::new(self.number, sender, segment.ack, wire_bytes, false, Colour::Red);
        Some(Event::Acked(view))
    }

    /// The timer of its sender, if this is one, has expired.
    pub fn timed_out(&self, sender: Option<&Sender>) -> Option<Event> {
        let view = |sender: &Sender| SenderView::new(self.number, sender, sender.una(), 0, true, Colour::Red);
        sender.map(view).map(Event::Timeout)
    }

    /// A packet with data from `seq` on was dropped.
    pub fn lost(&self, seq: u64, port: PortId, packet: &Packet, why: DropReason) -> Event {
        let (connection, wire_bytes, colour) = (self.number, packet.len, packet.dscp.colour());
        Event::Dropped { connection, seq, wire_bytes, port, colour, why }
    }

    /// A connection that is over, once no packet of it is in the network.
    pub fn is_over(&self) -> bool {
        self.closed.is_some() && self.done_at_client.is_some() && self.in_network == 0
    }

    /// What is to be said of a connection that is over, whose server has sent so much.
    pub fn record(&self, of_server: SenderStats) -> Option<ConnectionRecord> {
        let SenderStats { sent, retransmitted, timeouts, fast_retransmits } = of_server;
        let (received, acked) = (self.done_at_client?, self.closed?);
        let &Self { number: connection, app, opened, sent_high, dropped, .. } = self;
        let bytes = self.transfer.bytes;
        Some(ConnectionRecord {
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
            dropped,
        })
    }
}
