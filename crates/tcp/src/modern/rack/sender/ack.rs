use super::{CaState, Sender};
use crate::modern::rack::flight::DeliveredSegment;
use crate::{Segment, TcpConfig, Timestamps};
use catnip_base::{Span, Time};

/// Summary of an ACK: the data that it newly acknowledges or reports, and its RTT samples.
#[derive(Debug)]
pub(super) struct AckInfo {
    /// Number of newly delivered segments, including duplicates that the ACK reports.
    pub(super) delivered: u32,
    /// Number of newly delivered bytes.
    pub(super) delivered_bytes: u64,
    /// True if the ACK acknowledges new data.
    pub(super) snd_una_advanced: bool,
    /// True if the ACK SACKs new data.
    pub(super) data_sacked: bool,
    /// True if the ACK reports a duplicate (DSACK).
    pub(super) dsack: bool,
    /// True if the ACK reports the probe as a duplicate.
    pub(super) dsacks_probe: bool,
    pub(super) ece: bool,
    pub(super) tsecr: u32,
    /// True if data arrived that was never retransmitted and had been sent before the timer expired (FLAG_ORIG_SACK_ACKED).
    pub(super) orig_sack_acked: bool,
    /// First and last transmission time of the newly acknowledged segments that were sent once; `None` without such segments.
    pub(super) acked_xmit_ts: Option<(Time, Time)>,
    /// First and last transmission time of the newly SACKed segments that were sent once; `None` without such segments.
    pub(super) sacked_xmit_ts: Option<(Time, Time)>,
    /// RTT of the last segment that the ACK acknowledges or reports. The delay of the ACK affects this segment least.
    pub(super) rtt: Option<Span>,
    /// True if data that was sent more than once was acknowledged.
    pub(super) retrans_data_acked: bool,
    /// Lowest newly arrived byte of data that was sent once; `None` without such data.
    pub(super) reord: Option<u64>,
    /// True if a retransmission was found lost.
    pub(super) lost_retrans: bool,
    /// True if the retransmission timer must be restarted.
    pub(super) set_timer: bool,
    /// Number of segments in the network before the ACK.
    pub(super) prior_in_flight: u32,
    /// Number of segments found lost.
    pub(super) newly_lost: u32,
}

impl Sender {
    /// Processes the acknowledgements and the RTT samples of an ACK, and returns a summary.
    pub(super) fn process_ack(&mut self, now: Time, segment: &Segment, config: &TcpConfig) -> AckInfo {
        let (snd_una, fack, high_seq) = (self.snd_una(), self.flight.fack(), self.high_seq);
        let ack = segment.ack.max(snd_una);
        let mut ack_info = AckInfo {
            delivered: 0,
            delivered_bytes: 0,
            snd_una_advanced: segment.ack > snd_una,
            data_sacked: false,
            dsack: false,
            dsacks_probe: false,
            ece: segment.ecn.ece(),
            tsecr: segment.timestamps.tsecr,
            orig_sack_acked: false,
            acked_xmit_ts: None,
            sacked_xmit_ts: None,
            rtt: None,
            retrans_data_acked: false,
            reord: None,
            lost_retrans: false,
            set_timer: false,
            prior_in_flight: self.flight.packets_in_flight(),
            newly_lost: 0,
        };
        let Self { flight, rack, rtt, retransmitted, undo, tlp, rate, duplicates, stats, .. } = self;
        let min_rtt = rtt.min_rtt();
        let mut on_delivered = |ack_info: &mut AckInfo, delivered: DeliveredSegment, is_acked: bool| {
            if delivered.was_sacked {
                return;
            }
            let DeliveredSegment { start, record, .. } = delivered;
            ack_info.delivered += 1;
            ack_info.delivered_bytes += record.end_seq - start;
            // tcp_skb_spurious_retrans: the ACK answers a transmission before the last one.
            let is_spurious = is_acked
                && record.ever_retrans
                && Timestamps::is_echo_before(segment.timestamps.tsecr, record.xmit_ts);
            if !is_spurious {
                rack.on_delivered(now, &delivered, min_rtt);
            }
            if let Some(rate) = rate {
                rate.on_delivered(now, delivered.number, record.xmit_ts);
            }
            if record.ever_retrans {
                *retransmitted += record.end_seq - start;
                ack_info.retrans_data_acked |= is_acked;
                return;
            }
            let times = if is_acked { &mut ack_info.acked_xmit_ts } else { &mut ack_info.sacked_xmit_ts };
            *times = Some((times.map_or(record.xmit_ts, |(first, _)| first), record.xmit_ts));
            ack_info.orig_sack_acked |= record.end_seq <= high_seq;
            ack_info.reord = Some(ack_info.reord.map_or(start, |lowest| lowest.min(start)));
        };
        let mut duplicated = 0;
        for (at, (start, end)) in segment.sack.ranges(segment.ack).enumerate() {
            if at == 0 && segment.sack.has_dsack(segment.ack) {
                let segments = (end - start).div_ceil(config.segment_bytes.into()) as u32;
                *duplicates += segments;
                // tcp_dsack_seen: "Skip the DSACK if dup segs weren't retransmitted by sender".
                if *duplicates > stats.retransmitted {
                    continue;
                }
                ack_info.dsack = true;
                ack_info.dsacks_probe = tlp.is_some_and(|tlp| tlp.is_retrans && end == tlp.end_seq);
                undo.on_dsack(end, segments);
                // "A spurious retransmission is delivered".
                ack_info.delivered += segments;
                duplicated += segments;
            } else if ack < start && end <= self.snd_max {
                flight.on_sack(start, end, |delivered| on_delivered(&mut ack_info, delivered, false));
            }
        }
        ack_info.data_sacked = ack_info.delivered_bytes > 0;
        flight.on_cumulative_ack(ack, |delivered| on_delivered(&mut ack_info, delivered, true));
        if let Some(rate) = rate {
            rate.discard_below(flight.first_number());
            rate.on_duplicates(now, duplicated);
        }
        // Karn's rule: it is unknown which transmission the ACK answers, and so is the delay of the other acknowledged segments.
        ack_info.acked_xmit_ts = ack_info.acked_xmit_ts.filter(|_| !ack_info.retrans_data_acked);
        if ack_info.dsack && !ack_info.dsacks_probe {
            self.rack.on_dsack();
        }
        if let Some(lowest) = ack_info.reord.filter(|lowest| *lowest < fack)
            && (self.ca_state != CaState::Loss || self.undo.can_undo())
        {
            let segments = (fack - lowest).div_ceil(config.segment_bytes.into());
            self.rack.on_reordering(segments.min(u64::from(u32::MAX)) as u32);
        }
        if ack_info.snd_una_advanced {
            self.consecutive_timeouts = 0;
            ack_info.set_timer = true;
        } else if let (Some((first, _)), Some((_, head))) = (ack_info.sacked_xmit_ts, self.flight.head()) {
            // The timer restarts only if the first SACKed segment was sent before the last transmission of the first segment in flight
            // (tcp_clean_rtx_queue).
            ack_info.set_timer = first < head;
        }
        if segment.ack >= snd_una {
            self.update_rtt(now, &mut ack_info, config);
        }
        ack_info
    }

    /// Uses the RTT samples of an ACK. The RTT of its first segment is the sample for the RTO (RFC 6298, section 3). The RTT of its last
    /// segment, which the delay of the ACK affects least, is the sample for the minimum RTT. If it is unknown which transmission the ACK
    /// answers, the echoed timestamp yields the sample, with a resolution of a millisecond.
    fn update_rtt(&mut self, now: Time, ack_info: &mut AckInfo, config: &TcpConfig) {
        let tsecr_rtt = || Timestamps::rtt(now, ack_info.tsecr).filter(|_| ack_info.snd_una_advanced);
        ack_info.rtt =
            ack_info.sacked_xmit_ts.or(ack_info.acked_xmit_ts).map(|(_, last)| now - last).or_else(tsecr_rtt);
        if let Some(rtt) = ack_info.rtt {
            self.rtt.update_min_rtt(rtt);
        }
        let first = ack_info.acked_xmit_ts.or(ack_info.sacked_xmit_ts).map(|(first, _)| now - first);
        if let Some(rtt) = first.or_else(tsecr_rtt) {
            self.rtt.sample(&config.rto, rtt, self.snd_una(), self.snd_max);
        }
    }
}
