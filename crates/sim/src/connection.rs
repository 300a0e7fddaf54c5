use crate::dialogue::{News, Stream};
use crate::parties::{CLIENT, Parties, SERVER, TcpOptions};
use crate::record::{ConnectionRecord, Event, SenderView, Served, ServedStep};
use catnip_base::{Rng, Time};
use catnip_net::mark::{AnyMarker, Carries, MarkerSpec, PacketMarker, Sending, Service};
use catnip_net::{Colour, DropReason, Dscp, Packet, PortId, Route};
use catnip_tcp::{Outgoing, Segment, Sender, SenderStats, TcpConfig};

/// Both ends of a connection between two hosts of the engine.
#[derive(Debug)]
pub(crate) struct Connection<E> {
    pub(crate) ends: [E; 2],
    /// The way of what each end sends.
    pub(crate) routes: [Route; 2],
    /// Of each end's entries in the calendar of timers, only the one with this time is valid.
    pub(crate) planned: [Time; 2],
    /// There is nothing to say to the program at an end before it has received so many bytes.
    pub(crate) news_at: [u64; 2],
    pub(crate) account: Account,
    /// The program at each end, or [`NOBODY`](crate::record::NOBODY).
    pub(crate) programs: [u32; 2],
    /// What each end sends.
    pub(crate) streams: [Stream; 2],
}

// Each byte of it is one per connection: memory and cache misses of large networks follow. It may shrink; growing needs a reason.
const _: () = assert!(size_of::<Connection<catnip_tcp::Endpoint>>() <= 984);

impl<E: crate::medium::End> Connection<E> {
    /// The next thing to say to the program at this end.
    pub(crate) fn news(&mut self, end: usize, config: &TcpConfig) -> Option<News> {
        let (here, peer) = (&self.ends[end], &mut self.streams[1 - end]);
        // Where no FIN is sent, programs know without.
        let ended = peer.closed && (here.peer_closed() || !config.fin);
        let news = peer.news(here.received(), here.is_open(), ended);
        self.news_at[end] = peer.news_at();
        news
    }

    /// The mark of the packet as which a segment of this end leaves. Both are given by value and apart from the way of packets
    /// that nobody marks, so that theirs stay in registers.
    #[inline(never)]
    pub(crate) fn mark(
        &mut self,
        now: Time,
        end: usize,
        out: Outgoing,
        mut packet: Packet,
        config: &TcpConfig,
    ) -> Dscp {
        let sending = self.ends[end].sending(&out, config);
        self.account.mark(now, end, sending, &mut packet);
        self.account.counts(end, packet.dscp);
        packet.dscp
    }

    /// What is to be said of it, now or at its end.
    pub(crate) fn record(&self) -> ConnectionRecord {
        let of_server = self.ends[SERVER].sender().map(Sender::stats).unwrap_or_default();
        self.account.record(of_server, self.ends.iter().map(E::syn_timeouts).sum())
    }

    /// Both ends have closed, and all that they have sent is acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.streams[CLIENT].closed
            && self.streams[SERVER].closed
            && self.ends.iter().all(|end| end.sender().is_none_or(Sender::is_done))
    }
}

/// What is known of a connection, whoever is at its ends.
#[derive(Debug)]
pub struct Account {
    /// In order of opening, from 0.
    pub number: u64,
    /// The program that opened it, or [`NOBODY`](crate::record::NOBODY).
    pub app: u32,
    /// Who is at its ends.
    pub parties: Parties,
    /// Bytes of the documents that the server has sent.
    pub bytes: u64,
    /// When it was opened.
    pub opened: Time,
    /// How the packets of each end are marked.
    pub markers: [AnyMarker; 2],
    /// What the data was marked with that came last to each end.
    heard: [Option<Dscp>; 2],
    /// When the client had the last document.
    pub received: Option<Time>,
    /// When all was over.
    pub closed: Option<Time>,
    /// Its packets inside the network; its number is used again only when there are none.
    pub in_network: u32,
    /// An output scheduler knows it by a weight of its own.
    pub(crate) is_weighted: bool,
    /// Data packets of the server that were dropped.
    pub dropped: u32,
    /// Packets that the server marked HIGH.
    pub sent_high: u32,
}

impl Account {
    /// A connection begins that this program has opened, or [`NOBODY`](crate::record::NOBODY); `rng` is for markers that draw.
    pub fn new(
        number: u64,
        app: u32,
        parties: Parties,
        opened: Time,
        options: &TcpOptions,
        rng: &Rng,
    ) -> Self {
        let marker = |end: u32| match &options.marker {
            None => AnyMarker::None,
            Some(spec) => spec.build(options.service, || rng.branch(end)),
        };
        Self {
            number,
            app,
            parties,
            bytes: 0,
            opened,
            markers: [marker(0), marker(1)],
            heard: [None; 2],
            received: None,
            closed: None,
            in_network: 0,
            is_weighted: false,
            dropped: 0,
            sent_high: 0,
        }
    }

    /// Its application wants its packets to be marked otherwise.
    pub fn set_marker(&mut self, end: usize, service: Service, spec: &MarkerSpec, rng: impl FnOnce() -> Rng) {
        self.markers[end] = spec.build(service, rng);
    }

    /// Are there packets of this end that are marked?
    #[inline]
    pub fn is_marked(&self, end: usize) -> bool {
        !matches!(self.markers[end], AnyMarker::None)
    }

    /// Marks the packet as which a segment of this end leaves, if its marker looks at such; true if it was marked.
    #[inline]
    pub fn mark(&mut self, now: Time, end: usize, mut sending: Sending, packet: &mut Packet) -> bool {
        match &mut self.markers[end] {
            AnyMarker::None => false,
            AnyMarker::Spm(marker) => {
                let mark = marker.mark_of_sending(&sending);
                packet.dscp = mark.unwrap_or(packet.dscp);
                mark.is_some()
            }
            marker => {
                if let Carries::Ack(colour) = &mut sending.carries {
                    *colour = self.heard[end].map(Dscp::colour);
                }
                marker.mark(now, Some(&sending), packet);
                true
            }
        }
    }

    /// A packet enters the network.
    #[inline]
    pub fn enters(&mut self) {
        self.in_network += 1;
    }

    /// A packet of this end was marked so.
    #[inline]
    pub fn counts(&mut self, end: usize, mark: Dscp) {
        self.sent_high += u32::from(mark.colour() == Colour::Green && end == SERVER);
    }

    /// Data with this mark has come to an end.
    #[inline]
    pub fn hears(&mut self, end: usize, mark: Dscp) {
        self.heard[end] = Some(mark);
    }

    /// One of its packets was dropped: data of the server, or anything else.
    pub fn loses(&mut self, data_of_server: bool) {
        self.in_network -= 1;
        self.dropped += u32::from(data_of_server);
    }

    /// The sender at this end, if there is one, has sent what takes sequence numbers.
    pub fn sent(
        &self,
        end: usize,
        sender: Option<&Sender>,
        out: &Outgoing,
        packet: &Packet,
    ) -> Option<Event> {
        let sender = sender.filter(|_| out.segment.span() > 0)?;
        Some(Event::Sent(SenderView {
            seq: out.segment.seq,
            wire_bytes: packet.len,
            data_bytes: out.segment.len,
            fin: out.segment.flags.fin,
            colour: packet.dscp.colour(),
            retransmission: out.retransmission,
            ..SenderView::new(self.number, end, sender)
        }))
    }

    /// The sender at this end, if there is one, has heard an ACK.
    pub fn acked(
        &self,
        end: usize,
        sender: Option<&Sender>,
        segment: &Segment,
        wire_bytes: u32,
    ) -> Option<Event> {
        let is_ack = segment.flags.ack && !segment.flags.syn && segment.span() == 0;
        let sender = sender.filter(|_| is_ack)?;
        let view = SenderView::new(self.number, end, sender);
        Some(Event::Acked(SenderView { seq: segment.ack, wire_bytes, ..view }))
    }

    /// The timer of the sender at this end, if there is one, has expired.
    pub fn timed_out(&self, end: usize, sender: Option<&Sender>) -> Option<Event> {
        let view = |sender| SenderView { retransmission: true, ..SenderView::new(self.number, end, sender) };
        sender.map(view).map(Event::Timeout)
    }

    /// A packet with data from `seq` on was dropped.
    pub fn lost(&self, seq: u64, port: PortId, packet: &Packet, why: DropReason) -> Event {
        let (connection, wire_bytes, colour) = (self.number, packet.len, packet.dscp.colour());
        Event::Dropped { connection, seq, wire_bytes, port, colour, why }
    }

    /// A step of what the server sends, whose program has handed over so many bytes.
    pub fn served(&self, written: u64, step: ServedStep) -> Served {
        let &Self { number: connection, app, opened, .. } = self;
        Served { connection, app, tcp: self.parties.tcp, opened, written, step }
    }

    /// A connection that is over, once no packet of it is in the network.
    pub fn is_over(&self) -> bool {
        self.closed.is_some() && self.in_network == 0
    }

    /// What is to be said of a connection, whose server has sent so much and whose handshake was begun again so often.
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
