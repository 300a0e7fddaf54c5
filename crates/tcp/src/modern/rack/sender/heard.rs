use super::{Sender, State};
use crate::modern::rack::flight::Arrived;
use crate::{Segment, Stamps, TcpConfig};
use catnip_base::{Span, Time};

/// What an ACK has told.
#[derive(Debug)]
pub(super) struct Heard {
    /// Segments that newly arrived, and their bytes.
    pub(super) arrived: u32,
    pub(super) bytes: u64,
    /// Something new is acknowledged, or reported, or a duplicate.
    pub(super) advances: bool,
    pub(super) reports: bool,
    pub(super) duplicate: bool,
    /// It reports the probe as a duplicate.
    pub(super) duplicate_probe: bool,
    pub(super) ece: bool,
    pub(super) echo: u32,
    /// Never retransmitted data arrived that had been sent when the timer expired.
    pub(super) original: bool,
    /// Of what was acknowledged, and of what was reported, and was sent once: when the first and the last left.
    pub(super) acked: Option<(Time, Time)>,
    pub(super) sacked: Option<(Time, Time)>,
    /// The round trip that waited least.
    pub(super) rtt: Option<Span>,
    /// Something was acknowledged that was sent more than once.
    pub(super) resent_acked: bool,
    /// The lowest byte that arrived of what was sent once.
    pub(super) lowest_once: Option<u64>,
    /// A retransmission was found lost.
    pub(super) lost_again: bool,
    /// The retransmission timer is to begin anew.
    pub(super) rearms: bool,
    /// Segments in the network before.
    pub(super) before: u32,
    /// Segments found lost.
    pub(super) lost: u32,
}

impl Sender {
    /// Takes in what an ACK says of what has arrived, and of the round trip.
    pub(super) fn hear(&mut self, now: Time, segment: &Segment, config: &TcpConfig) -> Heard {
        let (una, fack, high) = (self.una(), self.flight.fack(), self.high);
        let mut heard = Heard {
            arrived: 0,
            bytes: 0,
            advances: segment.ack > una,
            reports: false,
            duplicate: false,
            duplicate_probe: false,
            ece: segment.ecn.ece(),
            echo: segment.stamps.echo,
            original: false,
            acked: None,
            sacked: None,
            rtt: None,
            resent_acked: false,
            lowest_once: None,
            lost_again: false,
            rearms: false,
            before: self.flight.in_network(),
            lost: 0,
        };
        let Self { flight, rack, round_trip, repaired, undo, probe, rate, .. } = self;
        let least = round_trip.least();
        let mut hears = |heard: &mut Heard, arrived: Arrived, is_acked: bool| {
            if arrived.is_old {
                return;
            }
            let Arrived { start, record, .. } = arrived;
            heard.arrived += 1;
            heard.bytes += record.end - start;
            rack.on_arrival(now, &arrived, least);
            if let Some(rate) = rate {
                rate.on_arrival(now, arrived.number, record.sent);
            }
            if record.was_resent {
                *repaired += record.end - start;
                heard.resent_acked |= is_acked;
                return;
            }
            let times = if is_acked { &mut heard.acked } else { &mut heard.sacked };
            *times = Some((times.map_or(record.sent, |(first, _)| first), record.sent));
            heard.original |= record.end <= high;
            heard.lowest_once = Some(heard.lowest_once.map_or(start, |lowest| lowest.min(start)));
        };
        for (at, (start, end)) in segment.sack.ranges(segment.ack).enumerate() {
            if at == 0 && segment.sack.reports_duplicate(segment.ack) {
                heard.duplicate = true;
                heard.duplicate_probe =
                    probe.is_some_and(|probe| probe.is_retransmission && end == probe.end);
                undo.on_duplicate(end, (end - start).div_ceil(config.segment_bytes.into()) as u32);
            } else if segment.ack < start && end <= self.max {
                flight.report(start, end, |arrived| hears(&mut heard, arrived, false));
            }
        }
        heard.reports = heard.arrived > 0;
        flight.acknowledge(segment.ack, |arrived| hears(&mut heard, arrived, true));
        if let Some(rate) = rate {
            rate.forget_below(flight.first());
        }
        // Karn's rule: which of its transmissions is answered is not known, nor what the others waited for.
        heard.acked = heard.acked.filter(|_| !heard.resent_acked);
        if heard.duplicate && !heard.duplicate_probe {
            self.rack.on_duplicate();
        }
        if let Some(lowest) = heard.lowest_once.filter(|lowest| *lowest < fack)
            && (self.state != State::Loss || self.undo.is_possible())
        {
            let segments = (fack - lowest).div_ceil(config.segment_bytes.into());
            self.rack.on_late_arrival(segments.min(u64::from(u32::MAX)) as u32);
        }
        if heard.advances {
            self.timeouts_in_a_row = 0;
            heard.rearms = true;
        } else if let (Some((first, _)), Some((_, head))) = (heard.sacked, self.flight.head()) {
            // What is reported left after the first segment did: the timer goes on for that one (tcp_clean_rtx_queue).
            heard.rearms = first < head;
        }
        self.measure(now, &mut heard, config);
        heard
    }

    /// The round trip of the first segment of an ACK is the sample of the timer (RFC 6298, section 3); that of the last one
    /// waited least. Where it is not known which transmission is answered, the echoed time says it, to a millisecond.
    fn measure(&mut self, now: Time, heard: &mut Heard, config: &TcpConfig) {
        let echoed = || Stamps::since(now, heard.echo).filter(|_| heard.advances);
        heard.rtt = heard.sacked.or(heard.acked).map(|(_, last)| now - last).or_else(echoed);
        if let Some(rtt) = heard.rtt {
            self.round_trip.observe(rtt);
        }
        let first = heard.acked.or(heard.sacked).map(|(first, _)| now - first);
        if let Some(rtt) = first.or_else(echoed) {
            self.round_trip.sample(&config.rto, rtt, self.una(), self.max);
        }
    }
}
