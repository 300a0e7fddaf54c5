use super::stream::Stream;
use super::{Sack, Sample, SentSegments};
use crate::control::validated::{Burst, Validated, Validity};
use crate::control::{
    Ack, AnyControl, Cause, Congestion, CongestionControl, Control, ControlKind, Idle, Phase, Recovered,
    Sent, Start, TxStart,
};
use crate::pacing::{PacedSegment, Pacing};
use crate::recovery::DUPACK_THRESHOLD;
use crate::segment::earlier;
use crate::transmission::{SenderStats, Transmission};
use crate::{Rto, RtoConfig, Segment, TcpConfig};
use catnip_base::{FlowContext, Span, Time};

/// Sender of current standards, with or without SACK. See [`crate::Sender`].
#[derive(Debug)]
pub struct Sender {
    /// First unacknowledged byte, SND.UNA.
    snd_una: u64,
    /// Next byte to send, SND.NXT.
    snd_nxt: u64,
    /// End of the data sent so far, SND.MAX.
    snd_max: u64,
    /// Data written by the application.
    stream: Stream,
    peer_window: u64,
    dupacks: u32,
    /// Maximum number of segments that may be sent before the next ACK or timeout.
    burst_limit: u32,
    /// Increase of the window by limited transmit, bytes.
    limited_transmit_credit: u64,
    /// Start of the segment to retransmit immediately, regardless of the window.
    retransmit_at: Option<u64>,
    /// Segment whose round trip is being measured for the RTO: its end and its transmission time.
    rtt_probe: Option<(u64, Time)>,
    /// Expiry time of the retransmission timer.
    deadline: Option<Time>,
    /// Release time of the next segment, if pacing delays it.
    paced_until: Option<Time>,
    /// True if the retransmission timer has expired since the last new ACK.
    timed_out: bool,
    /// End of the data that was sent before the current round began.
    round_end: u64,
    /// End of the data sent at the last reduction. ECN marks of data before this byte cause no further reduction.
    high_seq: u64,
    /// True if the next new segment carries CWR.
    cwr_due: bool,
    sent_segments: SentSegments,
    sack: Sack,
    control: Validated<AnyControl>,
    pacing: Pacing,
    rto: Rto,
    /// Time of the last transmission.
    last_sent: Time,
    stats: SenderStats,
}

/// Next segment to send, with the reason for sending it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum NextSegment {
    /// Fast retransmit after a loss was detected.
    FastRetransmit(u64),
    /// Segment that the window or the pipe permits.
    Permitted(u64),
    /// Rescue retransmission, if there is no other segment to send.
    Rescue(u64),
}

impl Sender {
    pub(crate) fn new(config: &TcpConfig, phase: Span) -> Self {
        Self {
            snd_una: 0,
            snd_nxt: 0,
            snd_max: 0,
            stream: Stream::default(),
            peer_window: config.receive_window,
            dupacks: 0,
            burst_limit: u32::MAX,
            limited_transmit_credit: 0,
            retransmit_at: None,
            rtt_probe: None,
            deadline: None,
            paced_until: None,
            timed_out: false,
            round_end: 0,
            high_seq: 0,
            cwr_due: false,
            sent_segments: SentSegments::default(),
            sack: Sack::default(),
            control: config.controller(),
            pacing: Pacing::new(config.pacing),
            rto: Rto::new(&config.rto, phase),
            last_sent: Time::ZERO,
            stats: SenderStats::default(),
        }
    }

    pub(crate) fn write(
        &mut self,
        now: Time,
        bytes: u64,
        context: Option<FlowContext>,
        last: bool,
        config: &TcpConfig,
    ) {
        self.stream.write(bytes, context, last && config.fin, self.snd_una);
        if let Some(context) = context {
            self.control.on_message(now, &context);
        }
    }

    pub(crate) fn on_ack(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        // RFC 9293, section 3.10.7.4: "If the ACK acks something not yet sent (SEG.ACK > SND.NXT), then ... drop the segment". ACKs below
        // SND.UNA are ignored, too.
        if segment.ack < self.snd_una || segment.ack > self.snd_max {
            return;
        }
        let same_window = std::mem::replace(&mut self.peer_window, segment.window.into()) == self.peer_window;
        self.burst_limit = u32::MAX;
        self.limited_transmit_credit = 0;
        let mut sample = self.sent_segments.begin_sample(now);
        let board = self.sack.scoreboard();
        let mut has_new_delivery = board.advance(segment.ack);
        for (start, end) in segment.sack.ranges(segment.ack) {
            // RFC 6675 counts bytes of data, without the FIN.
            let end = if end <= self.snd_max { end.min(self.stream.written()) } else { start };
            has_new_delivery |=
                board.add_with(start, end, |from, to| self.sent_segments.on_sack(from, to, &mut sample));
        }
        if segment.ack > self.snd_una {
            self.sent_segments.on_cumulative_ack(segment.ack.min(self.stream.written()), &mut sample);
            let sample = self.sent_segments.finish_sample(sample);
            self.on_new_ack(now, segment.ack, &sample, segment.ecn.ece(), config);
        // RFC 5681, section 2, a duplicate: "(a) the receiver of the ACK has outstanding data, (b) the incoming
        // acknowledgment carries no data, (c) the SYN and FIN bits are both off".
        } else if self.snd_una < self.snd_max && segment.seq_len() == 0 {
            if !config.recovery.uses_sack() {
                // "... (e) the advertised window in the incoming acknowledgment is equal to the advertised window in the last incoming
                // acknowledgment." Each such ACK shows that a segment has arrived.
                has_new_delivery = same_window;
                if self.sack.counts_dupack(has_new_delivery) {
                    self.sack.add_reno_sack(self.snd_una, self.snd_max, config.segment_bytes.into());
                }
            }
            self.on_duplicate_ack(now, has_new_delivery, config);
        }
        if segment.ecn.ece() {
            self.on_ece(now);
        }
    }

    pub(crate) fn on_timer(&mut self, now: Time, config: &TcpConfig) -> bool {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return false;
        }
        self.stats.timeouts += 1;
        self.sack.on_timeout(self.snd_max);
        self.notify_congestion(now, Cause::Restart);
        self.timed_out = true;
        self.dupacks = 0;
        self.burst_limit = u32::MAX;
        self.limited_transmit_credit = 0;
        self.retransmit_at = None;
        // RFC 6298, section 5.5: "The host MUST set RTO <- RTO * 2". 5.4: "Retransmit the earliest segment that has not
        // been acknowledged". 5.6: "Start the retransmission timer".
        self.rto.back_off(&config.rto);
        self.snd_nxt = self.snd_una;
        self.rtt_probe = None;
        self.restart_timer(now, config);
        true
    }

    #[inline]
    pub(crate) fn transmit(&mut self, now: Time, config: &TcpConfig) -> Option<Transmission> {
        self.paced_until = None;
        let segment = u64::from(config.segment_bytes);
        let next = self.next_segment(segment, config)?;
        let (NextSegment::FastRetransmit(seq) | NextSegment::Permitted(seq) | NextSegment::Rescue(seq)) =
            next;
        let is_new = seq >= self.snd_max;
        if is_new {
            if config.nagle && self.is_nagle_delayed(segment) {
                return None;
            }
            if self.stream.begins_message(seq) {
                self.begin_message(now, seq, config);
            }
        }
        if is_new || self.pacing.paces_retransmissions() {
            let release = self.pacing.release_at();
            if release > now {
                self.paced_until = Some(release);
                return None;
            }
        }
        match next {
            NextSegment::FastRetransmit(_) => self.retransmit_at = None,
            NextSegment::Permitted(_) => self.burst_limit = self.burst_limit.saturating_sub(1),
            NextSegment::Rescue(_) => self.sack.on_rescue_sent(),
        }
        let sent = self.send(now, seq, !matches!(next, NextSegment::Rescue(_)), config);
        if sent.retransmission && matches!(next, NextSegment::Permitted(_)) {
            self.sack.on_retransmitted(sent.end());
        }
        self.notify_sent(now, is_new, sent.len, segment, config);
        Some(sent)
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        earlier(self.deadline, self.paced_until)
    }

    pub(crate) fn on_handshake_retransmitted(&mut self, config: &TcpConfig, phase: Span) {
        let rto = RtoConfig { first: config.rto.first.max(Span::from_secs(3)), ..config.rto };
        self.rto = Rto::new(&rto, phase);
        self.control.replace(config.control.build(&Start { window: 1, ..config.start() }));
    }

    pub(crate) fn on_handshake_rtt(&mut self, sent: Time, now: Time, config: &TcpConfig) {
        self.rto.sample(&config.rto, sent, now);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.snd_una == self.stream.end() && self.snd_una > 0
    }

    pub(crate) fn control(&self) -> Control {
        self.control.control()
    }

    pub(crate) fn validity(&self) -> Option<Validity> {
        self.control.validity()
    }

    pub(crate) fn peer_window(&self) -> u64 {
        self.peer_window
    }

    pub(crate) fn dupacks(&self) -> u32 {
        self.dupacks
    }

    pub(crate) fn snd_max(&self) -> u64 {
        self.snd_max
    }

    pub(crate) fn snd_una(&self) -> u64 {
        self.snd_una
    }

    pub(crate) fn srtt(&self) -> Option<Span> {
        self.rto.srtt()
    }
    pub(crate) fn rto(&self, config: &TcpConfig) -> Span {
        self.rto.timeout(&config.rto)
    }

    pub(crate) fn message_at(&self, seq: u64) -> (u64, Option<FlowContext>) {
        self.stream.message_at(seq)
    }

    pub(crate) fn in_recovery(&self) -> bool {
        self.sack.in_recovery()
    }

    pub(crate) fn stats(&self) -> SenderStats {
        let (rtt_sum, rtt_samples) = self.rto.samples();
        SenderStats { rtt_sum, rtt_samples, ..self.stats }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.control.phase(self.unsent())
    }

    /// Returns the end of the data sent so far, excluding the FIN.
    fn sent_data(&self) -> u64 {
        self.snd_max.min(self.stream.written())
    }

    fn unsent(&self) -> u64 {
        self.stream.unsent(self.snd_max)
    }

    #[inline]
    fn on_new_ack(&mut self, now: Time, ack: u64, sample: &Sample, marked: bool, config: &TcpConfig) {
        let cwnd = self.control.cwnd();
        let episode_ends = self.sack.on_new_ack(ack);
        let (acked, in_flight) = (ack - self.snd_una, self.snd_nxt.saturating_sub(self.snd_una));
        self.snd_una = ack;
        self.snd_nxt = self.snd_nxt.max(ack);
        self.timed_out = false;
        let probe = self.rtt_probe.take_if(|(end, _)| *end <= ack);
        if episode_ends == Some(false) {
            // Partial ACK. No RTT measurement ends here: the measured segment was sent after the episode began and lies beyond its end.
            self.rto.end_backoff();
            self.restart_timer(now, config);
            self.retransmit_at = None;
            if !config.recovery.uses_sack() {
                self.sack.on_partial_ack(acked, ack, config.segment_bytes.into());
                self.retransmit_at = Some(ack);
            }
            return;
        }
        if !config.recovery.uses_sack() {
            self.sack.on_full_ack();
        }
        self.dupacks = 0;
        if let Some((_, sent)) = probe {
            self.rto.end_backoff();
            self.rto.sample(&config.rto, sent, now);
        }
        // RFC 6298, section 5.3: "When an ACK is received that acknowledges new data, restart the retransmission timer".
        // 5.2: "When all outstanding data has been acknowledged, turn off the retransmission timer."
        if self.snd_una < self.snd_max {
            self.restart_timer(now, config);
        } else {
            self.deadline = None;
        }
        self.begin_round(ack, config);
        if episode_ends == Some(true) {
            let retransmitted = self.sent_segments.retransmitted();
            return self.control.on_recovered(&Recovered { now, deflation: 0, retransmitted });
        }
        self.control.on_ack(&Ack {
            now,
            bytes: acked,
            delivered: sample.delivered,
            marked: if marked { acked } else { 0 },
            in_flight,
            snd_una: self.snd_una,
            snd_max: self.snd_max,
            unsent: self.unsent(),
            rtt: sample.rtt,
            srtt: self.rto.srtt(),
            // If pacing delays a segment, the window is not full, but the sender uses the whole pacing rate.
            cwnd_limited: in_flight + u64::from(config.segment_bytes) > cwnd || self.paced_until.is_some(),
        });
    }

    /// Begins a round if `ack` acknowledges data beyond that sent before the current round began.
    #[inline]
    fn begin_round(&mut self, ack: u64, config: &TcpConfig) {
        if ack <= self.round_end {
            return;
        }
        self.round_end = self.snd_max;
        if !self.pacing.needs_on_round() {
            return;
        }
        self.pacing.on_round(&config.round_start(&self.control, self.unsent(), self.rto.srtt()));
    }

    fn on_duplicate_ack(&mut self, now: Time, has_new_delivery: bool, config: &TcpConfig) {
        let segment = u64::from(config.segment_bytes);
        if self.sack.counts_dupack(has_new_delivery) {
            self.dupacks += 1;
            if self.sack.try_enter_recovery(self.dupacks, self.snd_una, self.snd_max, segment) {
                self.stats.fast_retransmits += 1;
                self.sent_segments.begin_episode();
                self.notify_congestion(now, Cause::Loss);
                self.rtt_probe = None;
                self.restart_timer(now, config);
                self.retransmit_at = Some(self.snd_una);
            }
        }
        let is_below_threshold = (1..DUPACK_THRESHOLD).contains(&self.dupacks);
        self.burst_limit = match self.dupacks {
            // A segment that pacing delays was permitted by an earlier event. A duplicate ACK does not revoke that permission.
            _ if self.paced_until.is_some() || self.sack.in_recovery() => u32::MAX,
            0 => u32::MAX,
            // RFC 5681, section 3.2, step 1: "On the first and second duplicate ACKs received at a sender, a TCP SHOULD
            // send a segment of previously unsent data per [RFC3042]".
            _ if is_below_threshold && config.limited_transmit => 1,
            _ => 0,
        };
        if is_below_threshold && config.limited_transmit && !self.sack.in_recovery() {
            self.limited_transmit_credit = u64::from(self.dupacks) * segment;
        }
    }

    /// Handles ECN-Echo. RFC 3168, section 6.1.2: "TCP should not react to congestion indications more than once every window of data". A
    /// mark also has no effect if cwnd was reduced for a loss in the same window of data.
    #[inline(never)]
    fn on_ece(&mut self, now: Time) {
        if self.snd_una > self.high_seq && !self.sack.in_recovery() {
            self.notify_congestion(now, Cause::Mark);
            // No data is lost, so the reduction is complete immediately.
            self.control.on_recovered(&Recovered { now, deflation: 0, retransmitted: 0 });
            self.cwr_due = true;
        }
    }

    /// Notifies pacing and the controller of the transmission of a segment if they need this notification.
    #[inline]
    fn notify_sent(&mut self, now: Time, is_new: bool, bytes: u32, segment: u64, config: &TcpConfig) {
        if !matches!(self.pacing, Pacing::None) {
            let Control { cwnd, ssthresh } = self.control.control();
            self.pacing.on_sent(&PacedSegment {
                now,
                is_new,
                bytes: bytes.into(),
                cwnd,
                in_slow_start: ssthresh.is_none_or(|ssthresh| cwnd < ssthresh / 2),
                srtt: self.rto.srtt(),
                rate: None,
            });
        }
        if self.control.needs_on_sent() {
            self.control.on_sent(&Sent {
                now,
                in_flight: self.snd_max - self.snd_una,
                drained: self.stream.is_sent(self.snd_max),
                segment,
                receive_window: self.peer_window,
                rto: self.rto.timeout(&config.rto),
            });
        }
        if self.control.needs_on_burst() {
            let in_flight = self.snd_max - self.snd_una;
            self.control.on_burst(&Burst {
                now,
                is_cwnd_limited: in_flight + segment > self.control.cwnd().min(self.peer_window),
                in_flight,
                rto: self.rto.timeout(&config.rto),
                is_open: !self.sack.in_recovery(),
            });
        }
    }

    fn notify_congestion(&mut self, now: Time, cause: Cause) {
        self.high_seq = self.snd_max;
        self.control.on_congestion(&Congestion {
            now,
            cause,
            in_flight: self.snd_max - self.snd_una,
            receive_window: self.peer_window,
            repeated: self.timed_out,
        });
    }

    fn restart_timer(&mut self, now: Time, config: &TcpConfig) {
        self.deadline = Some(now + self.rto.timeout(&config.rto));
    }

    /// Returns the next segment that the window and the recovery permit.
    #[inline]
    fn next_segment(&self, segment: u64, config: &TcpConfig) -> Option<NextSegment> {
        if let Some(seq) = self.retransmit_at {
            return Some(NextSegment::FastRetransmit(seq));
        }
        if self.burst_limit == 0 {
            return None;
        }
        let cwnd = self.control.cwnd();
        if self.sack.in_recovery() {
            return self.next_segment_in_recovery(cwnd, segment, config);
        }
        // RFC 5681, section 2: never beyond "the minimum of cwnd and rwnd".
        let window = (cwnd + self.limited_transmit_credit).min(self.peer_window);
        // A short last segment counts as a full segment, so that windows contain whole segments.
        let in_window = !self.stream.is_sent(self.snd_nxt) && self.snd_nxt + segment <= self.snd_una + window;
        in_window.then_some(NextSegment::Permitted(self.snd_nxt))
    }

    /// Returns the next segment to send during a recovery. This is a separate function so that it does not take registers from
    /// `next_segment`.
    #[inline(never)]
    fn next_segment_in_recovery(&self, cwnd: u64, segment: u64, config: &TcpConfig) -> Option<NextSegment> {
        let (snd_una, end) = (self.snd_una, self.sent_data());
        if !self.sack.can_send(cwnd, snd_una, end, segment) {
            return None;
        }
        let in_peer_window = |seq: &u64| *seq + segment <= snd_una + self.peer_window;
        let is_nagle_delayed = config.nagle && self.is_nagle_delayed(segment);
        let new_data = Some(self.snd_nxt).filter(|&next| !self.stream.is_sent(next) && !is_nagle_delayed);
        if !config.recovery.uses_sack() {
            // RFC 6582: only the first missing segment is known, and each partial ACK causes its retransmission.
            return new_data.filter(in_peer_window).map(NextSegment::Permitted);
        }
        // RFC 6675, section 4, NextSeg: rule 1 selects lost segments, rule 2 new data, rule 3 segments that may be lost, and rule 4 the
        // rescue retransmission.
        let lost = self.sack.next_lost(snd_una, segment).or(new_data.filter(in_peer_window));
        let next =
            lost.or_else(|| self.sack.next_hole(snd_una)).filter(in_peer_window).map(NextSegment::Permitted);
        next.or_else(|| self.sack.rescue_seq(snd_una, end, segment).map(NextSegment::Rescue))
    }

    fn is_nagle_delayed(&self, segment: u64) -> bool {
        self.snd_nxt >= self.snd_max
            && self.stream.is_nagle_delayed(self.snd_nxt, self.snd_una < self.snd_max, segment)
    }

    /// Begins the message that contains byte `seq`, the start of the next segment. The first bytes of the message may have been sent at the
    /// end of the previous segment.
    fn begin_message(&mut self, now: Time, seq: u64, config: &TcpConfig) {
        if !self.stream.begin_message(seq) {
            return;
        }
        self.pacing.on_message();
        if self.snd_una == self.snd_max && self.snd_max > 0 {
            self.control.on_idle(&Idle {
                now,
                idle_time: now.since(self.last_sent),
                rto: self.rto.timeout(&config.rto),
                restart_window: config.initial_window_bytes(),
            });
            let since_sent = now.since(self.last_sent);
            self.control.on_tx_start(&TxStart { now, since_sent, is_app_limited: true });
        }
    }

    #[inline]
    fn send(&mut self, now: Time, seq: u64, was_lost: bool, config: &TcpConfig) -> Transmission {
        let end = self.stream.segment_end(seq, config.segment_bytes.into());
        let data_end = end.min(self.stream.written()).max(seq);
        let fin = end > data_end;
        let retransmission = seq < self.snd_max;
        if retransmission {
            // RFC 6298, section 3: "RTT samples MUST NOT be made using segments that were retransmitted" (Karn's rule).
            self.rtt_probe = self.rtt_probe.filter(|(probe, _)| !(seq < *probe && *probe <= end));
            if seq < data_end {
                self.sent_segments.retransmit(now, seq, data_end, was_lost);
            }
        } else if seq < data_end {
            self.sent_segments.push(now, data_end);
        }
        if end > self.snd_max {
            self.rtt_probe = self.rtt_probe.or(Some((end, now)));
            self.snd_max = end;
        }
        // RFC 6298, section 5.1: "if the timer is not running, start it running".
        if self.deadline.is_none() {
            self.restart_timer(now, config);
        }
        self.snd_nxt = self.snd_nxt.max(end);
        self.last_sent = now;
        self.stats.sent += 1;
        self.stats.retransmitted += u32::from(retransmission);
        // RFC 3168, section 6.1.2: "the first new data packet sent after the window reduction".
        let cwr = !retransmission && std::mem::take(&mut self.cwr_due);
        Transmission { seq, len: (data_end - seq) as u32, fin, retransmission, cwr }
    }
}

#[cfg(test)]
mod tests;
