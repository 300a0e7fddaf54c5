use super::recovery::{Facts, OnAdvance, OnDuplicate, Recovery, Sack};
use crate::control::validated::ValidationSpec;
use crate::control::{
    Ack, AnyControl, Cause, Congestion, CongestionControl, Control, ControlKind, Phase, Recovered, Start,
};
use crate::messages::{Message, Messages};
use crate::pacing::{Leaving, Pacing};
use crate::recovery::{DUPACK_THRESHOLD, RecoveryKind};
use crate::segment::earlier;
use crate::transmission::{SenderStats, Transmission};
use crate::{Halving, Rto, RtoConfig, Segment, TcpConfig};
use catnip_base::{FlowContext, Span, Time};

/// The sending half of a connection.
///
/// It is told of data to send, of ACKs and of time; `Sender::transmit` then hands out segments until there is
/// nothing more to send for now.
#[derive(Debug)]
pub struct Sender {
    /// First byte not acknowledged.
    una: u64,
    /// Next byte to send.
    next: u64,
    /// End of everything sent so far.
    max: u64,
    /// Bytes handed over by the application.
    written: u64,
    messages: Messages,
    /// Where the message ends in which the newest segment begins.
    message_end: u64,
    /// No more will be; the end is announced with a FIN.
    fin: bool,
    peer_window: u64,
    dupacks: u32,
    /// Segments that may be sent before the next ACK or timeout.
    burst_limit: u32,
    /// What limited transmit adds to the window, bytes.
    limited_transmit_credit: u64,
    /// To be sent again at once, whatever the window.
    retransmit_at: Option<u64>,
    /// The segment whose round trip is being measured: its end and when it was sent.
    rtt_probe: Option<(u64, Time)>,
    /// When the retransmission timer expires.
    deadline: Option<Time>,
    /// The next segment waits for its turn.
    paced_until: Option<Time>,
    /// The timer has expired since the last new ACK.
    timed_out: bool,
    /// Everything sent when the current round began ends here.
    round_end: u64,
    recovery: Recovery,
    control: AnyControl,
    pacing: Pacing,
    rto: Rto,
    /// When data was sent last.
    last_sent: Time,
    stats: SenderStats,
}

impl Sender {
    /// A sender with nothing to send. `phase` is the phase of its host's clock tick.
    pub fn new(config: &TcpConfig, phase: Span) -> Self {
        Self {
            una: 0,
            next: 0,
            max: 0,
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

    /// The application hands over a message of so many bytes and says what it knows about it; after the `last` one it closes.
    /// Controllers, pacing and markers look at each message by itself.
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
            self.messages.push(Message { start, end, context }, self.una);
            self.written = end;
        }
        self.fin |= last && config.fin;
        if let Some(context) = context {
            self.control.on_message(now, &context);
        }
    }

    /// The other side acknowledges.
    pub fn on_ack(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        // RFC 9293, section 3.10.7.4: "If the ACK acks something not yet sent (SEG.ACK > SND.NXT), then ... drop the
        // segment". What was acknowledged before is old news.
        if segment.ack < self.una || segment.ack > self.max {
            return;
        }
        self.peer_window = u64::from(segment.window);
        self.burst_limit = u32::MAX;
        self.limited_transmit_credit = 0;
        let news = self.read_sack(segment);
        if segment.ack > self.una {
            self.on_new_ack(now, segment.ack, config);
        // RFC 5681, section 2, a duplicate: "(a) the receiver of the ACK has outstanding data, (b) the incoming
        // acknowledgment carries no data, (c) the SYN and FIN bits are both off".
        } else if self.una < self.max && segment.span() == 0 {
            self.on_duplicate_ack(now, news, config);
        }
    }

    /// Time has passed; if the retransmission timer expires by `now`, everything begins anew. True if it did.
    pub fn on_time(&mut self, now: Time, config: &TcpConfig) -> bool {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return false;
        }
        self.stats.timeouts += 1;
        self.take_from_window(now, self.recovery.taken(), config);
        self.recovery.on_timeout(self.max);
        self.cut(now, Cause::Restart);
        self.timed_out = true;
        if !config.tahoe_counts_on || config.recovery != RecoveryKind::Tahoe {
            self.dupacks = 0;
        }
        self.burst_limit = u32::MAX;
        self.limited_transmit_credit = 0;
        self.retransmit_at = None;
        // RFC 6298, section 5.5: "The host MUST set RTO <- RTO * 2". 5.4: "Retransmit the earliest segment that has not
        // been acknowledged". 5.6: "Start the retransmission timer".
        self.rto.back_off(&config.rto);
        self.start_over();
        self.restart_timer(now, config);
        true
    }

    /// The next segment to send at `now`, if any.
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
        let seq = self.choose(segment, config)?;
        if seq >= self.max {
            if config.nagle && self.waits_for_more(segment) {
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
            self.pacing.on_sent(&Leaving {
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

    /// When to be asked again if nothing arrives: the retransmission timer, or the turn of a paced segment.
    pub fn deadline(&self) -> Option<Time> {
        earlier(self.deadline, self.paced_until)
    }

    /// The handshake needed more than one try: RFC 6298, rule 5.7, and RFC 6928, section 2. Before any data only.
    pub(crate) fn on_repeated_handshake(&mut self, config: &TcpConfig, phase: Span) {
        let rto = RtoConfig { first: config.rto.first.max(Span::from_secs(3)), ..config.rto };
        self.rto = Rto::new(&rto, phase);
        self.control = config.control.build(&Start { window: 1, ..config.start() });
    }

    /// A round trip that was measured outside of the data: the handshake.
    pub(crate) fn on_handshake_rtt(&mut self, sent: Time, now: Time, config: &TcpConfig) {
        self.rto.sample(&config.rto, sent, now);
    }

    /// Everything handed over, and the FIN, is acknowledged.
    pub fn is_done(&self) -> bool {
        self.una == self.end() && self.una > 0
    }

    /// What the controller allows, less what partial ACKs have taken from it.
    pub fn control(&self) -> Control {
        let control = self.control.control();
        Control { cwnd: self.recovery.deflated(control.cwnd), ..control }
    }

    /// The window in use: cwnd with what recovery adds or takes, bytes.
    pub fn window(&self) -> u64 {
        self.recovery.window(self.control.cwnd())
    }

    /// What the other side can take in, bytes.
    pub fn peer_window(&self) -> u64 {
        self.peer_window
    }

    /// Duplicate ACKs in a row.
    pub fn dupacks(&self) -> u32 {
        self.dupacks
    }

    /// End of everything sent so far.
    pub fn sent_to(&self) -> u64 {
        self.max
    }

    /// First byte not acknowledged.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// Of the message to which a byte belongs: where it begins, and what the application said about it.
    pub fn message_at(&self, seq: u64) -> (u64, Option<FlowContext>) {
        let message = self.messages.at(seq);
        (message.start, message.context)
    }

    /// Does it repair a loss that duplicate ACKs or SACK have shown?
    pub fn in_recovery(&self) -> bool {
        self.recovery.in_recovery()
    }

    /// What this sender has done.
    pub fn stats(&self) -> SenderStats {
        let (rtt_sum, rtt_samples) = self.rto.samples();
        SenderStats { rtt_sum, rtt_samples, ..self.stats }
    }

    /// How the next ACK would open the window.
    pub fn phase(&self) -> Phase {
        self.control.phase(self.unsent())
    }

    fn end(&self) -> u64 {
        self.written + u64::from(self.fin)
    }

    /// Bytes never sent of the message that is being sent, or comes next.
    fn unsent(&self) -> u64 {
        self.messages.at(self.max).end.saturating_sub(self.max)
    }

    /// Notes what SACK blocks say; true if they say anything new, or if this recovery does not look at them.
    #[inline]
    fn read_sack(&mut self, segment: &Segment) -> bool {
        let Some(board) = self.recovery.scoreboard() else { return true };
        let mut news = board.advance(segment.ack);
        for (start, end) in segment.sack.ranges(segment.ack) {
            // RFC 6675 counts bytes of data; the FIN is none.
            news |= end <= self.max && board.add(start, end.min(self.written));
        }
        news
    }

    fn facts(&self, ack: u64, config: &TcpConfig) -> Facts {
        Facts {
            ack,
            una: self.una,
            max: self.max,
            dupacks: self.dupacks,
            segment: u64::from(config.segment_bytes),
            second_always_fast: config.second_always_fast,
            inflate_without_retransmit: config.inflate_without_retransmit,
        }
    }

    #[inline]
    fn on_new_ack(&mut self, now: Time, ack: u64, config: &TcpConfig) {
        let cwnd = self.control.cwnd();
        let advance = self.recovery.on_advance(&self.facts(ack, config));
        let (acked, in_flight) = (ack - self.una, self.next.saturating_sub(self.una));
        self.una = ack;
        self.next = self.next.max(ack);
        self.timed_out = false;
        let probe = self.rtt_probe.take_if(|(end, _)| *end <= ack);
        if let OnAdvance::Partial { resend, restart_timer, ends_backoff } = advance {
            // No probe ends here: what is measured was sent after the recovery began, and is beyond its end.
            if ends_backoff {
                self.rto.end_backoff();
            }
            if restart_timer {
                self.restart_timer(now, config);
            }
            self.retransmit_at = resend.then_some(self.una);
            if resend && self.dupacks >= DUPACK_THRESHOLD {
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
        if self.una < self.max {
            self.restart_timer(now, config);
        } else {
            self.deadline = None;
        }
        self.begin_round(ack, config);
        let grows = match advance {
            OnAdvance::Recovered { taken, grows } => {
                self.take_from_window(now, taken, config);
                grows && config.grow_on_exit
            }
            _ => true,
        };
        if grows {
            self.control.on_ack(&Ack {
                now,
                bytes: acked,
                delivered: acked,
                marked: 0,
                in_flight,
                una: self.una,
                next: self.max,
                unsent: self.unsent(),
                rtt: probe.map(|(_, sent)| now - sent),
                srtt: self.rto.srtt(),
                cwnd_limited: in_flight + u64::from(config.segment_bytes) > cwnd,
            });
        }
    }

    /// A round begins with the first ACK beyond what was sent when the previous one began.
    #[inline]
    fn begin_round(&mut self, ack: u64, config: &TcpConfig) {
        if ack <= self.round_end {
            return;
        }
        self.round_end = self.max;
        if !self.pacing.counts_rounds() {
            return;
        }
        self.pacing.on_round(&config.round_start(&self.control, self.unsent(), self.rto.srtt()));
    }

    fn on_duplicate_ack(&mut self, now: Time, news: bool, config: &TcpConfig) {
        self.dupacks += 1;
        let answer = self.recovery.on_duplicate(&self.facts(self.una, config), news);
        match answer {
            OnDuplicate::Ignore => self.dupacks -= 1,
            OnDuplicate::Count => {}
            OnDuplicate::FastRetransmit => {
                self.stats.fast_retransmits += 1;
                self.cut(now, Cause::Loss);
                self.rtt_probe = None;
                self.restart_timer(now, config);
                self.retransmit_at = Some(self.una);
            }
            OnDuplicate::SlowStart => {
                self.stats.fast_retransmits += 1;
                self.cut(now, Cause::Restart);
                self.start_over();
                self.restart_timer(now, config);
            }
        }
        let few = self.dupacks > 0 && self.dupacks < DUPACK_THRESHOLD && !self.recovery.in_recovery();
        if self.paced_until.is_some() {
            // A segment that waits for its turn was allowed before; a duplicate takes nothing back.
            self.burst_limit = u32::MAX;
        } else if few && config.limited_transmit {
            // RFC 5681, section 3.2, step 1: "On the first and second duplicate ACKs received at a sender, a TCP SHOULD
            // send a segment of previously unsent data per [RFC3042]".
            self.burst_limit = 1;
            self.limited_transmit_credit = u64::from(self.dupacks) * u64::from(config.segment_bytes);
        } else {
            self.burst_limit = match config.recovery {
                RecoveryKind::Tahoe => u32::MAX,
                RecoveryKind::Reno if !few => u32::MAX,
                RecoveryKind::NewReno if !few => config.recovery_burst,
                // ns-2: that ACK sends the retransmission only.
                RecoveryKind::Sack1 if answer == OnDuplicate::FastRetransmit => 0,
                RecoveryKind::Sack1 if self.recovery.in_recovery() || self.dupacks == 0 => u32::MAX,
                _ => 0,
            };
        }
    }

    fn cut(&mut self, now: Time, cause: Cause) {
        self.control.on_congestion(&Congestion {
            now,
            cause,
            in_flight: self.max - self.una,
            receive_window: self.peer_window,
            repeated: self.timed_out,
        });
    }

    /// A recovery is over. By RFC 6582, section 3.2, step 3, "set cwnd to ... ssthresh"; ns-2 leaves it where partial ACKs
    /// have brought it.
    fn take_from_window(&mut self, now: Time, taken: u64, config: &TcpConfig) {
        if taken > 0 && config.halving != Halving::Flight {
            self.control.on_recovered(&Recovered { now, taken, retransmitted: 0 });
        }
    }

    /// Goes back to the first byte that is not acknowledged.
    fn start_over(&mut self) {
        self.next = self.una;
        self.rtt_probe = None;
    }

    fn restart_timer(&mut self, now: Time, config: &TcpConfig) {
        self.deadline = Some(now + self.rto.timeout(&config.rto));
    }

    /// The next byte to send that window and recovery allow.
    #[inline]
    fn choose(&self, segment: u64, config: &TcpConfig) -> Option<u64> {
        let cwnd = self.control.cwnd();
        if let Recovery::Sack(sack) = &self.recovery
            && sack.in_recovery()
        {
            return self.choose_in_recovery(sack, cwnd, segment, config);
        }
        // RFC 5681, section 2: never beyond "the minimum of cwnd and rwnd".
        let window = (self.recovery.window(cwnd) + self.limited_transmit_credit).min(self.peer_window);
        // A short last segment counts as a full one, so that windows hold whole segments.
        (self.next < self.end() && self.next + segment <= self.una + window).then_some(self.next)
    }

    /// The same during a recovery that SACK guides; apart, so that it takes no registers from the rest.
    #[inline(never)]
    fn choose_in_recovery(&self, sack: &Sack, cwnd: u64, segment: u64, config: &TcpConfig) -> Option<u64> {
        if !sack.has_room(cwnd, segment) {
            return None;
        }
        let fits = |seq: &u64| *seq + segment <= self.una + self.peer_window;
        let held = config.nagle && self.waits_for_more(segment);
        let fresh = || Some(self.next).filter(|&next| next < self.end() && !held);
        sack.next_missing(self.una).or_else(fresh).filter(fits)
    }

    /// RFC 896: "inhibit the sending of new TCP segments when new outgoing data arrives from the user if any previously
    /// transmitted data on the connection remains unacknowledged." RFC 1122, section 4.2.3.4: "or until the TCP can send a
    /// full-sized segment". A FIN says that no more will come.
    fn waits_for_more(&self, segment: u64) -> bool {
        let short = self.next >= self.max && self.written.saturating_sub(self.next) < segment;
        short && !self.fin && self.una < self.max
    }

    /// The first segment is to be sent that begins in a message; its first bytes may have left with the one before it.
    fn begin_message(&mut self, now: Time, seq: u64, config: &TcpConfig) {
        let &Message { end, .. } = self.messages.at(seq);
        // Only a FIN is left.
        if end <= seq {
            return;
        }
        self.message_end = end;
        self.pacing.on_message();
        // RFC 5681, section 4.1: "a TCP SHOULD set cwnd to no more than RW before beginning transmission if the TCP has not
        // sent data in an interval exceeding the retransmission timeout."
        let idle = self.una == self.max && now.since(self.last_sent) > self.rto.timeout(&config.rto);
        if config.validation == ValidationSpec::Restart && self.max > 0 && idle {
            // "we define RW = min(IW,cwnd)".
            self.control.restrict(config.initial_window_bytes());
        }
    }

    #[inline]
    fn send(&mut self, now: Time, seq: u64, config: &TcpConfig) -> Transmission {
        let data_end = (seq + u64::from(config.segment_bytes)).min(self.written).max(seq);
        let fin = self.fin && data_end == self.written;
        let end = data_end + u64::from(fin);
        let retransmission = seq < self.max;
        if retransmission && config.recovery != RecoveryKind::Sack1 {
            // RFC 6298, section 3: "RTT samples MUST NOT be made using segments that were retransmitted" (Karn's rule).
            // ns-2's Sack1 forgets this.
            self.rtt_probe = self.rtt_probe.filter(|(probe, _)| !(seq < *probe && *probe <= end));
        }
        if end > self.max {
            self.rtt_probe = self.rtt_probe.or(Some((end, now)));
            self.max = end;
        }
        // RFC 6298, section 5.1: "if the timer is not running, start it running".
        if self.deadline.is_none() {
            self.restart_timer(now, config);
        }
        self.next = self.next.max(end);
        self.last_sent = now;
        self.stats.sent += 1;
        self.stats.retransmitted += u32::from(retransmission);
        Transmission { seq, len: (data_end - seq) as u32, fin, retransmission, cwr: false }
    }
}
