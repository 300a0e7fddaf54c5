use super::{End, Medium, Owner};
use crate::{ConnectionSpec, FlowId};
use catnip_base::{FlowContext, Rng, Slab, Span, Time};
use catnip_net::mark::{Position, SenderState};
use catnip_net::{Ecn, NodeId, Packet};
use catnip_tcp::{Endpoint, Outgoing, Segment, Sender, TcpConfig};

/// Medium of the simulator: segments as values in memory.
#[derive(Debug, Default)]
pub struct SegmentMedium {
    segments: Slab<Parcel>,
    datagrams: Slab<(FlowId, Time)>,
}

/// Segment in transit.
#[derive(Clone, Copy, Debug)]
struct Parcel {
    segment: Segment,
    /// Slot of the connection, and the sending end in the lowest bit.
    sender: u32,
}

// Memory use and cache misses of large networks grow with this size. It may shrink; growth needs a reason.
const _: () = assert!(size_of::<Parcel>() <= 72);

/// Flag of bodies that are datagrams, not segments.
const DATAGRAM: u32 = 1 << 31;

impl SegmentMedium {
    /// Removes all packets; keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.segments.clear();
        self.datagrams.clear();
    }
}

impl Medium for SegmentMedium {
    type End = Endpoint;

    fn connect(
        &mut self,
        now: Time,
        spec: &ConnectionSpec,
        config: &TcpConfig,
        phases: [Span; 2],
        _rng: &mut Rng,
    ) -> [Endpoint; 2] {
        let [client, server] = spec.roles();
        let end = |role, phase| Endpoint::new(now, role, config, phase);
        [end(client, phases[0]), end(server, phases[1])]
    }

    #[inline(always)]
    fn pack(
        &mut self,
        now: Time,
        end: &mut Endpoint,
        owner: Owner,
        config: &TcpConfig,
    ) -> Option<(Outgoing, u32)> {
        let out = end.transmit(now, config)?;
        let Owner::End { connection, end } = owner else { unreachable!("only ends send segments") };
        let parcel = Parcel { segment: out.segment, sender: connection << 1 | end as u32 };
        Some((out, self.segments.insert(parcel)))
    }

    fn fill(&mut self, _now: Time, _from: NodeId, _to: NodeId, owner: Owner, _bytes: u32) -> Option<u32> {
        let Owner::Datagram(flow, sent) = owner else { unreachable!("only sources send datagrams") };
        Some(DATAGRAM | self.datagrams.insert((flow, sent)))
    }

    #[inline(always)]
    fn owner(&self, body: u32) -> Owner {
        if body & DATAGRAM != 0 {
            let (flow, sent) = self.datagrams[body & !DATAGRAM];
            return Owner::Datagram(flow, sent);
        }
        let sender = self.segments[body].sender;
        Owner::End { connection: sender >> 1, end: (sender & 1) as usize }
    }

    #[inline(always)]
    fn data(&self, body: u32) -> (u64, u32) {
        let segment = &self.segments[body].segment;
        (segment.seq, segment.len)
    }

    #[inline(always)]
    fn receive(
        &mut self,
        now: Time,
        packet: &Packet,
        end: &mut Endpoint,
        config: &TcpConfig,
    ) -> Option<Segment> {
        let mut segment = self.segments[packet.body].segment;
        segment.ecn = segment.ecn.with_ce(packet.ecn == Ecn::CE);
        end.on_segment(now, &segment, config);
        Some(segment)
    }

    fn copy(&mut self, body: u32) -> Option<u32> {
        if body & DATAGRAM != 0 {
            let datagram = self.datagrams[body & !DATAGRAM];
            return Some(DATAGRAM | self.datagrams.insert(datagram));
        }
        let parcel = self.segments[body];
        Some(self.segments.insert(parcel))
    }

    #[inline(always)]
    fn release(&mut self, body: u32) {
        if body & DATAGRAM != 0 {
            self.datagrams.release(body & !DATAGRAM);
        } else {
            self.segments.release(body);
        }
    }

    fn in_use(&self) -> usize {
        self.segments.in_use() + self.datagrams.in_use()
    }
}

impl End for Endpoint {
    fn write(&mut self, now: Time, bytes: u64, context: Option<FlowContext>, last: bool, config: &TcpConfig) {
        Endpoint::write(self, now, bytes, context, last, config);
    }
    #[inline]
    fn on_timer(&mut self, now: Time, config: &TcpConfig) -> bool {
        Endpoint::on_timer(self, now, config)
    }
    #[inline]
    fn deadline(&self) -> Option<Time> {
        Endpoint::deadline(self)
    }
    #[inline]
    fn received(&self) -> u64 {
        Endpoint::received(self)
    }
    #[inline]
    fn sender(&self) -> Option<&Sender> {
        Endpoint::sender(self)
    }
    #[inline]
    fn sender_state(&self, out: &Outgoing, config: &TcpConfig) -> SenderState {
        Endpoint::sender_state(self, out, config)
    }
    #[inline]
    fn position(&self, seq: u64) -> Position {
        Endpoint::position(self, seq)
    }
    #[inline]
    fn is_open(&self) -> bool {
        Endpoint::is_open(self)
    }
    fn peer_closed(&self) -> bool {
        Endpoint::peer_closed(self)
    }
    fn syn_timeouts(&self) -> u32 {
        Endpoint::syn_timeouts(self)
    }
}
