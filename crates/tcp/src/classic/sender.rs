use super::recovery::{AckContext, DupackAction, NewAckAction, Recovery, Sack};
use crate::control::validated::ValidationSpec;
use crate::control::{
    Ack, AnyControl, Cause, Congestion, CongestionControl, Control, ControlKind, Phase, Recovered, Start,
};
use crate::messages::{Message, Messages};
use crate::pacing::{PacedSegment, Pacing};
use crate::recovery::{DUPACK_THRESHOLD, RecoveryKind};
use crate::segment::earlier;
use crate::transmission::{SenderStats, Transmission};
use crate::{Halving, Rto, RtoConfig, Segment, TcpConfig};
use catnip_base::{FlowContext, Span, Time};

/// Sending half of a connection.
///
/// Its inputs are data to send, ACKs and the time. `Sender::transmit` returns segments until no further segment may be sent.
#[derive(Debug)]
pub struct Sender {
    /// First unacknowledged byte, SND.UNA.
    snd_una: u64,
    /// Next byte to send, SND.NXT.
    snd_nxt: u64,
    /// End of the data sent so far, SND.MAX.
    snd_max: u64,
    /// Bytes written by the application.
    written: u64,
    messages: Messages,
    /// End of the message to which the first byte of the newest segment belongs.
    message_end: u64,
    /// True if the application has ended the stream, so that a FIN follows the data.
    fin: bool,
    peer_window: u64,
    dupacks: u32,
    /// Maximum number of segments that may be sent before the next ACK or timeout.
    burst_limit: u32,
    /// Increase of the window by limited transmit, bytes.
    limited_transmit_credit: u64,
    /// Start of the segment to retransmit immediately, regardless of the window.
    retransmit_at: Option<u64>,
    /// Segment whose round trip is being measured: its end and its transmission time.
    rtt_probe: Option<(u64, Time)>,
    /// Expiry time of the retransmission timer.
    deadline: Option<Time>,
    /// Release time of the next segment, if pacing delays it.
    paced_until: Option<Time>,
    /// True if the retransmission timer has expired since the last new ACK.
    timed_out: bool,
    /// End of the data that was sent before the current round began.
    round_end: u64,
    recovery: Recovery,
    control: AnyControl,
    pacing: Pacing,
    rto: Rto,
    /// Time of the last transmission.
    last_sent: Time,
    stats: SenderStats,
}

impl Sender {
    /// Creates a sender without data to send. `phase` is the phase of the clock tick of the sender's host.
    pub fn new(config: &TcpConfig, phase: Span) -> Self {
        Self {
            snd_una: 0,
            snd_nxt: 0,
            snd_max: 0,
            written: 0,
            messages: Messages::default(),
            message_end: 0,
            fin: false,
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
            recovery: Recovery::new(
                config.recovery,
                u64::from(config.earliest_fast_retransmit) * u64::from(config.segment_bytes),
            ),
            control: config.control.build(&config.start()),
            pacing: Pacing::new(config.pacing),
            rto: Rto::new(&config.rto, phase),
            last_sent: Time::ZERO,
            stats: SenderStats::default(),
        }
    }

    /// Appends a message of `bytes` bytes, described by `context`, to the stream. The `last` message ends the stream. Controllers, pacing
    /// and markers treat each message separately.
    pub fn write(
        &mut self,
        now: Time,
        bytes: u64,
        context: Option<FlowContext>,
        last: bool,
        config: &TcpConfig,
    ) {
        if bytes > 0 {
            let (start, end) = (self.written, self.written + bytes);
            self.messages.push(Message { start, end, context }, self.snd_una);
            self.written = end;
        }
        self.fin |= last && config.fin;
        if let Some(context) = context {
            self.control.on_message(now, &context);
        }
    }

    /// Handles an acknowledgement from the peer.
    pub fn on_ack(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        // RFC 9293, section 3.10.7.4: "If the ACK acks something not yet sent (SEG.ACK > SND.NXT), then ... drop the segment". ACKs below
        // SND.UNA are ignored, too.
        if segment.ack < self.snd_una || segment.ack > self.snd_max {
            return;
        }
        self.peer_window = u64::from(segment.window);
        self.burst_limit = u32::MAX;
        self.limited_transmit_credit = 0;
        let has_new_delivery = self.update_scoreboard(segment);
        if segment.ack > self.snd_una {
            self.on_new_ack(now, segment.ack, config);
        // RFC 5681, section 2, a duplicate: "(a) the receiver of the ACK has outstanding data, (b) the incoming
        // acknowledgment carries no data, (c) the SYN and FIN bits are both off".
        } else if self.snd_una < self.snd_max && segment.seq_len() == 0 {
            self.on_duplicate_ack(now, has_new_delivery, config);
        }
    }

    /// Returns true if the retransmission timer has expired by `now`. In this case, backs off the RTO and restarts the transmission at
    /// SND.UNA.
    pub fn on_timer(&mut self, now: Time, config: &TcpConfig) -> bool {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return false;
        }
        self.stats.timeouts += 1;
        self.apply_deflation(now, self.recovery.deflation(), config);
        self.recovery.on_timeout(self.snd_max);
        self.notify_congestion(now, Cause::Restart);
        self.timed_out = true;
        if !config.tahoe_keeps_dupacks || config.recovery != RecoveryKind::Tahoe {
            self.dupacks = 0;
        }
        self.burst_limit = u32::MAX;
        self.limited_transmit_credit = 0;
        self.retransmit_at = None;
        // RFC 6298, section 5.5: "The host MUST set RTO <- RTO * 2". 5.4: "Retransmit the earliest segment that has not
        // been acknowledged". 5.6: "Start the retransmission timer".
        self.rto.back_off(&config.rto);
        self.go_back_n();
        self.restart_timer(now, config);
        true
    }

    /// Returns the next segment to send at `now`, if any.
    #[inline]
    pub(crate) fn transmit(&mut self, now: Time, config: &TcpConfig) -> Option<Transmission> {
        self.paced_until = None;
        if let Some(seq) = self.retransmit_at.take() {
            return Some(self.send(now, seq, config));
        }
        if self.burst_limit == 0 {
            return None;
        }
        let segment = u64::from(config.segment_bytes);
        let seq = self.next_seq(segment, config)?;
        if seq >= self.snd_max {
            if config.nagle && self.is_nagle_delayed(segment) {
                return None;
            }
            if seq >= self.message_end {
                self.begin_message(now, seq, config);
            }
            let release = self.pacing.release_at();
            if release > now {
                self.paced_until = Some(release);
                return None;
            }
            self.pacing.on_sent(&PacedSegment {
                now,
                is_new: true,
                bytes: segment,
                cwnd: 0,
                in_slow_start: false,
                srtt: None,
                rate: None,
            });
        }
        self.burst_limit = self.burst_limit.saturating_sub(1);
        let sent = self.send(now, seq, config);
        if let Recovery::Sack(sack) = &mut self.recovery {
            sack.on_sent(sent.end(), sent.retransmission);
        }
        Some(sent)
    }

    /// Returns the time at which the sender must be called if no ACK arrives before: the expiry of the retransmission timer or the release
    /// time of a paced segment, whichever is earlier.
    pub fn deadline(&self) -> Option<Time> {
        earlier(self.deadline, self.paced_until)
    }

    /// Handles a handshake that needed a retransmission: RFC 6298, rule 5.7, and RFC 6928, section 2. The function must be called before
    /// any data is sent.
    pub(crate) fn on_handshake_retransmitted(&mut self, config: &TcpConfig, phase: Span) {
        let rto = RtoConfig { first: config.rto.first.max(Span::from_secs(3)), ..config.rto };
        self.rto = Rto::new(&rto, phase);
        self.control = config.control.build(&Start { window: 1, ..config.start() });
    }

    /// Uses the round trip of the handshake as an RTT sample.
    pub(crate) fn on_handshake_rtt(&mut self, sent: Time, now: Time, config: &TcpConfig) {
        self.rto.sample(&config.rto, sent, now);
    }

    /// Returns true if all data and the FIN are acknowledged.
    pub fn is_done(&self) -> bool {
        self.snd_una == self.end() && self.snd_una > 0
    }

    /// Returns cwnd and ssthresh, with cwnd deflated by partial ACKs.
    pub fn control(&self) -> Control {
        let control = self.control.control();
        Control { cwnd: self.recovery.deflated(control.cwnd), ..control }
    }

    /// Returns the window in use, bytes: cwnd with the inflation and deflation of recovery.
    pub fn window(&self) -> u64 {
        self.recovery.window(self.control.cwnd())
    }

    /// Returns the peer's receive window, bytes.
    pub fn peer_window(&self) -> u64 {
        self.peer_window
    }

    /// Returns the number of consecutive duplicate ACKs.
    pub fn dupacks(&self) -> u32 {
        self.dupacks
    }

    /// Returns the end of the data sent so far (SND.MAX).
    pub fn snd_max(&self) -> u64 {
        self.snd_max
    }

    /// Returns the first unacknowledged byte (SND.UNA).
    pub fn snd_una(&self) -> u64 {
        self.snd_una
    }

    /// Returns the smoothed round-trip time; `None` before the first sample.
    pub fn srtt(&self) -> Option<Span> {
        self.rto.srtt()
    }

    /// Returns the current RTO.
    pub fn rto(&self, config: &TcpConfig) -> Span {
        self.rto.timeout(&config.rto)
    }

    /// Returns the start and the context of the message to which byte `seq` belongs.
    pub fn message_at(&self, seq: u64) -> (u64, Option<FlowContext>) {
        let message = self.messages.at(seq);
        (message.start, message.context)
    }

    /// Returns true during a loss recovery that duplicate ACKs or SACK have started.
    pub fn in_recovery(&self) -> bool {
        self.recovery.in_recovery()
    }

    /// Returns the counters of the sender.
    pub fn stats(&self) -> SenderStats {
        let (rtt_sum, rtt_samples) = self.rto.samples();
        SenderStats { rtt_sum, rtt_samples, ..self.stats }
    }

    /// Returns the phase of congestion control that applies to the next ACK.
    pub fn phase(&self) -> Phase {
        self.control.phase(self.unsent())
    }

    fn end(&self) -> u64 {
        self.written + u64::from(self.fin)
    }

    /// Returns the number of unsent bytes of the current message, or of the next message if the current message is sent completely.
    fn unsent(&self) -> u64 {
        self.messages.at(self.snd_max).end.saturating_sub(self.snd_max)
    }

    /// Adds the SACK blocks of `segment` to the scoreboard. Returns true if they report new data, or if the recovery does not use SACK.
    #[inline]
    fn update_scoreboard(&mut self, segment: &Segment) -> bool {
        let Some(board) = self.recovery.scoreboard() else { return true };
        let mut has_new_delivery = board.advance(segment.ack);
        for (start, end) in segment.sack.ranges(segment.ack) {
            // RFC 6675 counts bytes of data, without the FIN.
            has_new_delivery |= end <= self.snd_max && board.add(start, end.min(self.written));
        }
        has_new_delivery
    }

    fn ack_context(&self, ack: u64, config: &TcpConfig) -> AckContext {
        AckContext {
            ack,
            snd_una: self.snd_una,
            snd_max: self.snd_max,
            dupacks: self.dupacks,
            segment: u64::from(config.segment_bytes),
            second_always_fast: config.second_always_fast,
            inflate_without_retransmit: config.inflate_without_retransmit,
        }
    }

    #[inline]
    fn on_new_ack(&mut self, now: Time, ack: u64, config: &TcpConfig) {
        let cwnd = self.control.cwnd();
        let action = self.recovery.on_new_ack(&self.ack_context(ack, config));
        let (acked, in_flight) = (ack - self.snd_una, self.snd_nxt.saturating_sub(self.snd_una));
        self.snd_una = ack;
        self.snd_nxt = self.snd_nxt.max(ack);
        self.timed_out = false;
        let probe = self.rtt_probe.take_if(|(end, _)| *end <= ack);
        if let NewAckAction::Partial { retransmit, restart_timer, ends_backoff } = action {
            // No RTT measurement ends here: the measured segment was sent after the recovery began and lies beyond its end.
            if ends_backoff {
                self.rto.end_backoff();
            }
            if restart_timer {
                self.restart_timer(now, config);
            }
            self.retransmit_at = retransmit.then_some(self.snd_una);
            if retransmit && self.dupacks >= DUPACK_THRESHOLD {
                self.burst_limit = config.recovery_burst;
            }
            return;
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
        let grows_cwnd = match action {
            NewAckAction::Recovered { deflation, grows_cwnd } => {
                self.apply_deflation(now, deflation, config);
                grows_cwnd && config.grow_on_exit
            }
            _ => true,
        };
        if grows_cwnd {
            self.control.on_ack(&Ack {
                now,
                bytes: acked,
                delivered: acked,
                marked: 0,
                in_flight,
                snd_una: self.snd_una,
                snd_max: self.snd_max,
                unsent: self.unsent(),
                rtt: probe.map(|(_, sent)| now - sent),
                srtt: self.rto.srtt(),
                cwnd_limited: in_flight + u64::from(config.segment_bytes) > cwnd,
            });
        }
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
        self.dupacks += 1;
        let action = self.recovery.on_duplicate(&self.ack_context(self.snd_una, config), has_new_delivery);
        match action {
            DupackAction::Ignore => self.dupacks -= 1,
            DupackAction::Count => {}
            DupackAction::FastRetransmit => {
                self.stats.fast_retransmits += 1;
                self.notify_congestion(now, Cause::Loss);
                self.rtt_probe = None;
                self.restart_timer(now, config);
                self.retransmit_at = Some(self.snd_una);
            }
            DupackAction::SlowStart => {
                self.stats.fast_retransmits += 1;
                self.notify_congestion(now, Cause::Restart);
                self.go_back_n();
                self.restart_timer(now, config);
            }
        }
        let is_below_threshold =
            self.dupacks > 0 && self.dupacks < DUPACK_THRESHOLD && !self.recovery.in_recovery();
        if self.paced_until.is_some() {
            // A segment that pacing delays was permitted by an earlier event. A duplicate ACK does not revoke that permission.
            self.burst_limit = u32::MAX;
        } else if is_below_threshold && config.limited_transmit {
            // RFC 5681, section 3.2, step 1: "On the first and second duplicate ACKs received at a sender, a TCP SHOULD
            // send a segment of previously unsent data per [RFC3042]".
            self.burst_limit = 1;
            self.limited_transmit_credit = u64::from(self.dupacks) * u64::from(config.segment_bytes);
        } else {
            self.burst_limit = match config.recovery {
                RecoveryKind::Tahoe => u32::MAX,
                RecoveryKind::Reno if !is_below_threshold => u32::MAX,
                RecoveryKind::NewReno if !is_below_threshold => config.recovery_burst,
                // ns-2 sends only the retransmission in response to this ACK.
                RecoveryKind::Sack1 if action == DupackAction::FastRetransmit => 0,
                RecoveryKind::Sack1 if self.recovery.in_recovery() || self.dupacks == 0 => u32::MAX,
                _ => 0,
            };
        }
    }

    fn notify_congestion(&mut self, now: Time, cause: Cause) {
        self.control.on_congestion(&Congestion {
            now,
            cause,
            in_flight: self.snd_max - self.snd_una,
            receive_window: self.peer_window,
            repeated: self.timed_out,
        });
    }

    /// Reduces cwnd by `deflation` at the end of a recovery, as ns-2 does. RFC 6582, section 3.2, step 3, specifies "set cwnd to
    /// ... ssthresh" instead.
    fn apply_deflation(&mut self, now: Time, deflation: u64, config: &TcpConfig) {
        if deflation > 0 && config.halving != Halving::Flight {
            self.control.on_recovered(&Recovered { now, deflation, retransmitted: 0 });
        }
    }

    /// Moves SND.NXT back to SND.UNA and discards the RTT measurement.
    fn go_back_n(&mut self) {
        self.snd_nxt = self.snd_una;
        self.rtt_probe = None;
    }

    fn restart_timer(&mut self, now: Time, config: &TcpConfig) {
        self.deadline = Some(now + self.rto.timeout(&config.rto));
    }

    /// Returns the next byte to send that the window and the recovery permit.
    #[inline]
    fn next_seq(&self, segment: u64, config: &TcpConfig) -> Option<u64> {
        let cwnd = self.control.cwnd();
        if let Recovery::Sack(sack) = &self.recovery
            && sack.in_recovery()
        {
            return self.next_seq_in_recovery(sack, cwnd, segment, config);
        }
        // RFC 5681, section 2: never beyond "the minimum of cwnd and rwnd".
        let window = (self.recovery.window(cwnd) + self.limited_transmit_credit).min(self.peer_window);
        // A short last segment counts as a full segment, so that windows contain whole segments.
        (self.snd_nxt < self.end() && self.snd_nxt + segment <= self.snd_una + window).then_some(self.snd_nxt)
    }

    /// Returns the next byte to send during a SACK recovery. This is a separate function so that it does not take registers from
    /// `next_seq`.
    #[inline(never)]
    fn next_seq_in_recovery(&self, sack: &Sack, cwnd: u64, segment: u64, config: &TcpConfig) -> Option<u64> {
        if !sack.can_send(cwnd, segment) {
            return None;
        }
        let in_peer_window = |seq: &u64| *seq + segment <= self.snd_una + self.peer_window;
        let is_nagle_delayed = config.nagle && self.is_nagle_delayed(segment);
        let new_data = || Some(self.snd_nxt).filter(|&next| next < self.end() && !is_nagle_delayed);
        sack.next_missing(self.snd_una).or_else(new_data).filter(in_peer_window)
    }

    /// Returns true if Nagle's algorithm delays a short segment. RFC 896: "inhibit the sending of new TCP segments when new outgoing data
    /// arrives from the user if any previously transmitted data on the connection remains unacknowledged." RFC 1122, section 4.2.3.4: "or
    /// until the TCP can send a full-sized segment". No data follows a FIN, so a segment with a FIN is not delayed.
    fn is_nagle_delayed(&self, segment: u64) -> bool {
        let short = self.snd_nxt >= self.snd_max && self.written.saturating_sub(self.snd_nxt) < segment;
        short && !self.fin && self.snd_una < self.snd_max
    }

    /// Begins the message that contains byte `seq`, the start of the next segment. The first bytes of the message may have been sent at the
    /// end of the previous segment.
    fn begin_message(&mut self, now: Time, seq: u64, config: &TcpConfig) {
        let &Message { end, .. } = self.messages.at(seq);
        // Only the FIN is left.
        if end <= seq {
            return;
        }
        self.message_end = end;
        self.pacing.on_message();
        // RFC 5681, section 4.1: "a TCP SHOULD set cwnd to no more than RW before beginning transmission if the TCP has not
        // sent data in an interval exceeding the retransmission timeout."
        let idle = self.snd_una == self.snd_max && now.since(self.last_sent) > self.rto.timeout(&config.rto);
        if config.validation == ValidationSpec::Restart && self.snd_max > 0 && idle {
            // "we define RW = min(IW,cwnd)".
            self.control.clamp_cwnd(config.initial_window_bytes());
        }
    }

    #[inline]
    fn send(&mut self, now: Time, seq: u64, config: &TcpConfig) -> Transmission {
        let data_end = (seq + u64::from(config.segment_bytes)).min(self.written).max(seq);
        let fin = self.fin && data_end == self.written;
        let end = data_end + u64::from(fin);
        let retransmission = seq < self.snd_max;
        if retransmission && config.recovery != RecoveryKind::Sack1 {
            // RFC 6298, section 3: "RTT samples MUST NOT be made using segments that were retransmitted" (Karn's rule). ns-2's Sack1 does
            // not apply it.
            self.rtt_probe = self.rtt_probe.filter(|(probe, _)| !(seq < *probe && *probe <= end));
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
        Transmission { seq, len: (data_end - seq) as u32, fin, retransmission, cwr: false }
    }
}
