mod ack;
mod burst;
mod ca_state;
mod timers;

use super::cwnd_usage::CwndUsage;
use super::flight::Flight;
use super::prr::Prr;
use super::rate::DeliveryRate;
use super::reordering::Rack;
use super::rtt::RttEstimator;
use super::tso;
use super::undo::Undo;
use crate::control::validated::{Validated, Validity};
use crate::control::{
    AnyControl, CongestionControl, Control, ControlKind, Idle, Phase, Sent, Start, TxStart,
};
use crate::modern::stream::Stream;
use crate::pacing::{PacedSegment, Pacing};
use crate::segment::earlier;
use crate::transmission::{SenderStats, Transmission};
use crate::{Segment, TcpConfig};
use catnip_base::{FlowContext, Span, Time};

/// Sender of Linux with RACK-TLP. See [`crate::Sender`].
#[derive(Debug)]
pub struct Sender {
    stream: Stream,
    /// End of the data sent so far, SND.MAX.
    snd_max: u64,
    peer_window: u64,
    /// Data bytes in a full segment.
    segment: u64,
    flight: Flight,
    rack: Rack,
    ca_state: CaState,
    /// Byte whose acknowledgement ends any state except open (high_seq).
    high_seq: u64,
    /// Window during a reduction (PRR); `None` at other times.
    prr: Option<Prr>,
    undo: Undo,
    tlp: Option<Tlp>,
    /// True if F-RTO may still find the last timeout spurious (RFC 5682).
    frto: bool,
    /// Segment to send regardless of cwnd: the first segment after a timeout, or a probe.
    forced: Option<ForcedTransmit>,
    /// Progress of the transmission of new data before retransmissions. After this transmission, no other segment is sent until the next
    /// ACK (RFC 5682, step 2b).
    frto_phase: FrtoPhase,
    timer: Option<(Timer, Time)>,
    /// Phase of the host's clock, at whose ticks timers expire.
    phase: Span,
    /// Number of timeouts since new data was acknowledged.
    consecutive_timeouts: u32,
    cwnd_usage: CwndUsage,
    /// End of the unsent data that leaves together with the newest segment.
    unit_end: u64,
    /// Time of the last write to which what was unsent before left room in a unit of the send queue.
    pushed_at: Option<Time>,
    /// End of the newest short segment (snd_sml).
    short_end: u64,
    /// True if new data was sent since the last time that no segment could be sent.
    sent_in_burst: bool,
    /// True if a segment waits for others because cwnd is nearly full.
    is_deferred_by_cwnd: bool,
    /// True if the window from before the reduction may be restored (prior_ssthresh).
    has_prior: bool,
    /// End of the data that was sent before the current round began.
    round_end: u64,
    /// True if the next new segment carries CWR.
    cwr_due: bool,
    /// Number of segments that were reported as duplicates (dsack_dups).
    duplicates: u32,
    /// Number of bytes that were retransmitted and delivered since the reduction began.
    retransmitted: u64,
    control: Validated<AnyControl>,
    pacing: Pacing,
    /// Pacing at the rate that the controller sets, if it sets a rate.
    controller_pacing: Pacing,
    /// Delivery rate estimator; `None` if the controller does not use it.
    rate: Option<Box<DeliveryRate>>,
    paced_until: Option<Time>,
    rtt: RttEstimator,
    /// Time of the last transmission.
    last_sent: Time,
    stats: SenderStats,
}

/// Congestion state, Linux's tcp_ca_state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CaState {
    Open,
    /// Data is missing or SACKed, but no segment counts as lost yet.
    Disorder,
    /// Reduction of the window after an ECN mark, or after a probe that repaired a loss (TCP_CA_CWR).
    Cwr,
    Recovery,
    /// Recovery after a timeout.
    Loss,
}

/// Purpose of the timer. The sender has one timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Retransmission,
    /// Probe timeout, PTO.
    Probe,
    /// Reordering timeout, at which segments that were presumed reordered count as lost.
    Reordering,
}

/// Tail loss probe that is not answered yet (RFC 8985, section 7).
#[derive(Clone, Copy, Debug)]
struct Tlp {
    /// TLP.end_seq.
    end_seq: u64,
    /// TLP.is_retrans.
    is_retrans: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ForcedTransmit {
    /// Retransmission of the segment with this number.
    Retransmit(u64),
    New,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum FrtoPhase {
    No,
    Due,
    Sent,
}

/// Next segment to send.
#[derive(Clone, Copy, Debug, PartialEq)]
enum NextSegment {
    Retransmit(u64),
    New,
}

impl Sender {
    pub(crate) fn new(config: &TcpConfig, phase: Span) -> Self {
        let control = config.controller();
        Self {
            stream: Stream::default(),
            snd_max: 0,
            peer_window: config.receive_window,
            segment: config.segment_bytes.into(),
            flight: Flight::default(),
            rack: Rack::default(),
            ca_state: CaState::Open,
            high_seq: 0,
            prr: None,
            undo: Undo::default(),
            tlp: None,
            frto: false,
            forced: None,
            frto_phase: FrtoPhase::No,
            timer: None,
            phase,
            consecutive_timeouts: 0,
            cwnd_usage: CwndUsage::default(),
            unit_end: 0,
            pushed_at: None,
            short_end: 0,
            sent_in_burst: false,
            is_deferred_by_cwnd: false,
            has_prior: false,
            round_end: 0,
            cwr_due: false,
            duplicates: 0,
            retransmitted: 0,
            pacing: Pacing::new(config.pacing),
            controller_pacing: Pacing::of_controller(&control),
            rate: control.uses_cong_control().then(Box::default),
            control,
            paced_until: None,
            rtt: RttEstimator::new(),
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
        let is_below_cwnd = !self.is_cwnd_full() && self.flight.lost_out() <= self.flight.retrans_out();
        if let Some(rate) = &mut self.rate
            && is_below_cwnd
            && self.stream.unsent(self.snd_max) < self.segment
        {
            rate.mark_app_limited(self.flight.packets_in_flight());
        }
        let unsent = self.stream.written().saturating_sub(self.snd_max);
        self.pushed_at = (unsent < tso::unit_goal(self.segment, self.peer_window)).then_some(now);
        self.stream.write(bytes, context, last && config.fin, self.snd_una());
        if let Some(context) = context {
            self.control.on_message(now, &context);
        }
    }

    pub(crate) fn on_ack(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        if segment.ack > self.snd_max {
            return;
        }
        if segment.ack < self.snd_una() {
            return self.on_old_ack(now, segment, config);
        }
        self.peer_window = segment.window.into();
        let ack_info = self.process_ack(now, segment, config);
        self.forced = None;
        self.frto_phase = FrtoPhase::No;
        self.unit_end = 0;
        self.rack.update_reo_wnd(self.snd_una(), self.snd_max);
        self.process_tlp_ack(now, segment.ack, &ack_info);
        let ack_info = self.update_state(now, ack_info, config);
        if ack_info.set_timer {
            self.set_xmit_timer(now, config);
        }
        self.cong_control(now, &ack_info);
        self.begin_round(config);
    }

    /// Handles an ACK below SND.UNA. Its SACK blocks may report data that no other ACK does (tcp_ack, "old_ack").
    #[inline(never)]
    fn on_old_ack(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        if !segment.sack.is_empty() {
            let mut ack_info = self.process_ack(now, segment, config);
            self.fastretrans_alert(now, &mut ack_info, config);
        }
    }

    pub(crate) fn on_timer(&mut self, now: Time, config: &TcpConfig) -> bool {
        let Some((timer, _)) = self.timer.filter(|(_, at)| *at <= now) else { return false };
        match timer {
            Timer::Reordering => self.on_reordering_timer(now, config),
            Timer::Probe => self.on_probe_timer(now, config),
            Timer::Retransmission => self.on_retransmission_timer(now, config),
        }
        timer == Timer::Retransmission
    }

    pub(crate) fn transmit(&mut self, now: Time, config: &TcpConfig) -> Option<Transmission> {
        self.paced_until = None;
        let Some(next) = self.next_segment(now, config) else {
            self.end_burst(now, config);
            return None;
        };
        if next == NextSegment::New && self.stream.begins_message(self.snd_max) {
            self.begin_message(now, config);
        }
        let release = self.release_at(next == NextSegment::New);
        if release > now && self.forced.is_none() {
            self.paced_until = Some(release);
            self.end_burst(now, config);
            return None;
        }
        Some(match next {
            NextSegment::Retransmit(number) => self.retransmit(now, number, config),
            NextSegment::New => self.send_new(now, config),
        })
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        earlier(self.timer.map(|(_, at)| at), self.paced_until)
    }

    /// Handles a handshake with `count` retransmissions (tcp_init_cwnd, tcp_init_metrics). `tsecr_rtt` is the round trip by the echoed
    /// timestamp, or zero without one.
    pub(crate) fn on_handshake_retransmitted(&mut self, config: &TcpConfig, (count, tsecr_rtt): (u32, Span)) {
        if count > 1 {
            self.control.replace(config.control.build(&Start { window: 1, ..config.start() }));
        }
        if tsecr_rtt > Span::ZERO {
            self.rtt.update_min_rtt(tsecr_rtt);
            self.rtt.sample(&config.rto, tsecr_rtt, 0, 0);
        } else {
            self.rtt.on_untimed_handshake();
        }
    }

    pub(crate) fn on_first_window(&mut self, window: u64) {
        self.peer_window = window;
    }

    pub(crate) fn on_handshake_rtt(&mut self, sent: Time, now: Time, config: &TcpConfig) {
        self.rtt.update_min_rtt(now - sent);
        self.rtt.sample(&config.rto, now - sent, 0, 0);
        self.control.on_handshake(now, now - sent);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.snd_una() == self.stream.end() && self.snd_una() > 0
    }

    pub(crate) fn control(&self) -> Control {
        self.control.control()
    }

    pub(crate) fn window(&self) -> u64 {
        self.prr.map_or_else(|| self.control.cwnd(), |prr| u64::from(prr.cwnd) * self.segment)
    }

    pub(crate) fn validity(&self) -> Option<Validity> {
        self.control.validity()
    }

    pub(crate) fn peer_window(&self) -> u64 {
        self.peer_window
    }

    /// Returns the number of SACKed segments, which corresponds to the number of duplicate ACKs.
    pub(crate) fn dupacks(&self) -> u32 {
        self.flight.sacked_out()
    }

    pub(crate) fn snd_max(&self) -> u64 {
        self.snd_max
    }

    #[inline]
    pub(crate) fn snd_una(&self) -> u64 {
        self.flight.snd_una()
    }

    pub(crate) fn srtt(&self) -> Option<Span> {
        self.rtt.srtt()
    }
    pub(crate) fn rto(&self, config: &TcpConfig) -> Span {
        self.rtt.timeout(&config.rto)
    }

    pub(crate) fn message_at(&self, seq: u64) -> (u64, Option<FlowContext>) {
        self.stream.message_at(seq)
    }

    pub(crate) fn in_recovery(&self) -> bool {
        self.ca_state == CaState::Recovery
    }

    pub(crate) fn stats(&self) -> SenderStats {
        let (rtt_sum, rtt_samples) = self.rtt.samples();
        SenderStats { rtt_sum, rtt_samples, ..self.stats }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.control.phase(self.stream.unsent(self.snd_max))
    }

    /// Returns cwnd in segments. During a reduction, returns the window of PRR.
    #[inline]
    fn cwnd(&self) -> u32 {
        self.prr.map_or_else(|| (self.control.cwnd() / self.segment) as u32, |prr| prr.cwnd)
    }

    /// Returns the release time of the next segment under pacing.
    fn release_at(&self, is_new: bool) -> Time {
        if is_new || self.pacing.paces_retransmissions() {
            self.pacing.release_at().max(self.controller_pacing.release_at())
        } else {
            self.controller_pacing.release_at()
        }
    }

    fn is_cwnd_full(&self) -> bool {
        self.flight.packets_in_flight() >= self.cwnd()
    }

    /// Begins a round if the ACK acknowledges data beyond that sent before the current round began.
    #[inline]
    fn begin_round(&mut self, config: &TcpConfig) {
        if self.snd_una() <= self.round_end {
            return;
        }
        self.round_end = self.snd_max;
        if !self.pacing.needs_on_round() {
            return;
        }
        let unsent = self.stream.unsent(self.snd_max);
        self.pacing.on_round(&config.round_start(&self.control, unsent, self.rtt.srtt()));
    }

    fn next_segment(&mut self, now: Time, config: &TcpConfig) -> Option<NextSegment> {
        match self.forced {
            Some(ForcedTransmit::Retransmit(number)) => return Some(NextSegment::Retransmit(number)),
            Some(ForcedTransmit::New) => return Some(NextSegment::New),
            None => {}
        }
        if self.is_cwnd_full() {
            return None;
        }
        let next_lost = match self.frto_phase {
            FrtoPhase::No => self.flight.next_lost(),
            FrtoPhase::Due | FrtoPhase::Sent => None,
        };
        if let Some(number) = next_lost {
            return Some(NextSegment::Retransmit(number));
        }
        if !self.stream.is_sent(self.snd_max) && self.may_send_new(now, config) {
            return Some(NextSegment::New);
        }
        if self.frto_phase == FrtoPhase::Due {
            // Step 2b found no data to send, so conventional recovery follows.
            (self.frto, self.frto_phase) = (false, FrtoPhase::No);
            return self.flight.next_lost().map(NextSegment::Retransmit);
        }
        None
    }

    /// Begins the message that contains the first byte of the next new segment, unless it has begun.
    fn begin_message(&mut self, now: Time, config: &TcpConfig) {
        if !self.stream.begin_message(self.snd_max) {
            return;
        }
        self.pacing.on_message();
        if self.flight.packets_out() == 0 && self.snd_max > 0 {
            let idle = Idle {
                now,
                idle_time: now.since(self.last_sent),
                rto: self.rtt.timeout(&config.rto),
                restart_window: config.initial_window_bytes(),
            };
            match &mut self.prr {
                // The window of the reduction is the one that restarts.
                Some(prr) => {
                    let restarted = self.control.restarted(&idle, u64::from(prr.cwnd) * self.segment);
                    prr.cwnd = (restarted / self.segment) as u32;
                }
                None => self.control.on_idle(&idle),
            }
        }
    }

    fn retransmit(&mut self, now: Time, number: u64, config: &TcpConfig) -> Transmission {
        let (seq, end) = self.flight.range(number);
        let is_probe = self.forced.take().is_some() && self.ca_state != CaState::Loss;
        self.undo.on_retransmit(now);
        self.notify_tx_start(now);
        self.flight.retransmit(now, number);
        if let Some(rate) = &mut self.rate {
            rate.on_sent(now, number, false, self.flight.packets_in_flight());
        }
        if is_probe {
            self.tlp = Some(Tlp { end_seq: self.snd_max, is_retrans: true });
            self.restart_rto(now, config);
        } else if self.flight.head().is_some_and(|(head, _)| head == number)
            && !matches!(self.timer, Some((Timer::Reordering, _)))
        {
            self.restart_rto(now, config);
        }
        self.finish_send(now, seq, end, true, config)
    }

    fn send_new(&mut self, now: Time, config: &TcpConfig) -> Transmission {
        let seq = self.snd_max;
        let end = self.stream.segment_end(seq, self.segment);
        // What leaves together may be cut at the end of the peer's window.
        let end = if self.forced.is_none() { end.min(self.unit_end) } else { end };
        let is_probe = self.forced.take().is_some();
        let was_empty = self.flight.packets_out() == 0;
        self.snd_max = end;
        self.notify_tx_start(now);
        self.flight.push(now, end);
        if let Some(rate) = &mut self.rate {
            let number = self.flight.first_number() + u64::from(self.flight.packets_out() - 1);
            rate.on_sent(now, number, was_empty, self.flight.packets_in_flight());
        }
        if self.frto_phase == FrtoPhase::Due {
            self.frto_phase = FrtoPhase::Sent;
        }
        if was_empty || matches!(self.timer, Some((Timer::Probe, _)) | None) {
            self.rearm_rto(now, config);
        }
        if is_probe {
            self.tlp = Some(Tlp { end_seq: end, is_retrans: false });
            self.restart_rto(now, config);
        } else {
            let (_, head_sent) = self.flight.head().unwrap_or((0, now));
            let remaining = (head_sent + self.rtt.timeout(&config.rto)).since(now);
            self.schedule_loss_probe(now, remaining, config);
        }
        if end - seq < self.segment {
            self.short_end = end;
        }
        self.sent_in_burst = true;
        self.finish_send(now, seq, end, false, config)
    }

    /// Notifies the controller of a transmission into an empty network (CA_EVENT_TX_START).
    #[inline]
    fn notify_tx_start(&mut self, now: Time) {
        if self.flight.packets_in_flight() == 0 {
            self.control.on_tx_start(&TxStart {
                now,
                since_sent: now.since(self.last_sent),
                is_app_limited: self.rate.as_ref().is_some_and(|rate| rate.is_app_limited()),
            });
        }
    }

    #[inline]
    fn finish_send(
        &mut self,
        now: Time,
        seq: u64,
        end: u64,
        retransmission: bool,
        config: &TcpConfig,
    ) -> Transmission {
        if let Some(prr) = &mut self.prr {
            prr.on_sent();
        }
        self.last_sent = now;
        self.stats.sent += 1;
        self.stats.retransmitted += u32::from(retransmission);
        let data_end = end.min(self.stream.written());
        let len = (data_end - seq) as u32;
        if !matches!((&self.pacing, &self.controller_pacing), (Pacing::None, Pacing::None)) {
            let Control { ssthresh, .. } = self.control.control();
            let paced = PacedSegment {
                now,
                is_new: !retransmission,
                bytes: len.into(),
                cwnd: u64::from(self.cwnd().max(self.flight.packets_out())) * self.segment,
                in_slow_start: ssthresh.is_none_or(|ssthresh| self.control.cwnd() < ssthresh / 2),
                srtt: self.rtt.srtt(),
                rate: self.control.pacing_rate(),
            };
            self.pacing.on_sent(&paced);
            self.controller_pacing.on_sent(&paced);
        }
        if self.control.needs_on_sent() {
            self.control.on_sent(&Sent {
                now,
                in_flight: u64::from(self.flight.packets_out()) * self.segment,
                drained: self.stream.is_sent(self.snd_max),
                segment: self.segment,
                receive_window: self.peer_window,
                rto: self.rtt.timeout(&config.rto),
            });
        }
        let cwr = !retransmission && std::mem::take(&mut self.cwr_due);
        Transmission { seq, len, fin: end > data_end, retransmission, cwr }
    }
}

#[cfg(test)]
mod tests;
