use super::{Sender, State};
use crate::modern::rack::flight::Arrived;
use crate::{Segment, Stamps, TcpConfig};
use catnip_base::{Span, Time};

/// Summary of an ACK: the data that it newly acknowledges or reports, and its RTT samples.
#[derive(Debug)]
pub(super) struct AckInfo {
    /// Number of newly delivered segments.
    pub(super) arrived: u32,
    /// Number of newly delivered bytes.
    pub(super) bytes: u64,
    /// True if the ACK acknowledges new data.
    pub(super) advances: bool,
    /// True if the ACK SACKs new data.
    pub(super) reports: bool,
    /// True if the ACK reports a duplicate (DSACK).
    pub(super) duplicate: bool,
    /// True if the ACK reports the probe as a duplicate.
    pub(super) duplicate_probe: bool,
    pub(super) ece: bool,
    pub(super) echo: u32,
    /// True if data arrived that was never retransmitted and had been sent before the timer expired (FLAG_ORIG_SACK_ACKED).
    pub(super) original: bool,
    /// First and last transmission time of the newly acknowledged segments that were sent once; `None` without such segments.
    pub(super) acked: Option<(Time, Time)>,
    /// First and last transmission time of the newly SACKed segments that were sent once; `None` without such segments.
    pub(super) sacked: Option<(Time, Time)>,
    /// RTT of the last segment that the ACK acknowledges or reports. The delay of the ACK affects this segment least.
    pub(super) rtt: Option<Span>,
    /// True if data that was sent more than once was acknowledged.
    pub(super) resent_acked: bool,
    /// Lowest newly arrived byte of data that was sent once; `None` without such data.
    pub(super) lowest_once: Option<u64>,
    /// True if a retransmission was found lost.
    pub(super) lost_again: bool,
    /// True if the retransmission timer must be restarted.
    pub(super) rearms: bool,
    /// Number of segments in the network before the ACK.
    pub(super) before: u32,
    /// Number of segments found lost.
    pub(super) lost: u32,
}

impl Sender {
    /// Processes the acknowledgements and the RTT samples of an ACK, and returns a summary.
    pub(super) fn hear(&mut self, now: Time, segment: &Segment, config: &TcpConfig) -> AckInfo {
        let (snd_una, fack, high) = (self.snd_una(), self.flight.fack(), self.high_seq);
        let mut heard = AckInfo {
            arrived: 0,
            bytes: 0,
            advances: segment.ack > snd_una,
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
        let mut hears = |heard: &mut AckInfo, arrived: Arrived, is_acked: bool| {
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
            } else if segment.ack < start && end <= self.snd_max {
                flight.report(start, end, |arrived| hears(&mut heard, arrived, false));
            }
        }
        heard.reports = heard.arrived > 0;
        flight.acknowledge(segment.ack, |arrived| hears(&mut heard, arrived, true));
        if let Some(rate) = rate {
            rate.forget_below(flight.first());
        }
        // Karn's rule: it is unknown which transmission the ACK answers, and so is the delay of the other acknowledged segments.
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
            // The timer restarts only if the first SACKed segment was sent before the last transmission of the first segment in flight
            // (tcp_clean_rtx_queue).
            heard.rearms = first < head;
        }
        self.measure(now, &mut heard, config);
        heard
    }

    /// Uses the RTT samples of an ACK. The RTT of its first segment is the sample for the RTO (RFC 6298, section 3). The RTT of its last
    /// segment, which the delay of the ACK affects least, is the sample for the minimum RTT. If it is unknown which transmission the ACK
    /// answers, the echoed timestamp yields the sample, with a resolution of a millisecond.
    fn measure(&mut self, now: Time, heard: &mut AckInfo, config: &TcpConfig) {
        let echoed = || Stamps::since(now, heard.echo).filter(|_| heard.advances);
        heard.rtt = heard.sacked.or(heard.acked).map(|(_, last)| now - last).or_else(echoed);
        if let Some(rtt) = heard.rtt {
            self.round_trip.observe(rtt);
        }
        let first = heard.acked.or(heard.sacked).map(|(first, _)| now - first);
        if let Some(rtt) = first.or_else(echoed) {
            self.round_trip.sample(&config.rto, rtt, self.snd_una(), self.snd_max);
        }
    }
}
