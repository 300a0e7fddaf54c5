use super::flight::{Arrived, Flight};
use super::prr::Prr;
use super::reordering::Rack;
use super::round_trip::RoundTrip;
use super::undo::Undo;
use super::usage::Usage;
use crate::control::validated::{Validated, Validity};
use crate::control::{
    Ack, AnyControl, Cause, Congestion, CongestionControl, Control, ControlKind, Idle, Phase, Recovered,
    Sent, Start,
};
use crate::modern::stream::Stream;
use crate::pacing::{Pacing, RoundStart};
use crate::segment::earlier;
use crate::transmission::{SenderStats, Transmission};
use crate::{Segment, Stamps, TcpConfig};
use catnip_base::{FlowContext, Span, Time};

/// See [`crate::Sender`].
#[derive(Debug)]
pub struct Sender {
    stream: Stream,
    /// End of everything sent so far.
    max: u64,
    peer_window: u64,
    /// Data bytes in a full one.
    segment: u64,
    flight: Flight,
    rack: Rack,
    state: State,
    /// A state other than open lasts until this is acknowledged.
    high: u64,
    /// The window while it is being reduced.
    reduction: Option<Prr>,
    undo: Undo,
    probe: Option<Probe>,
    /// A timeout may yet prove spurious (RFC 5682).
    frto: bool,
    /// Segments that leave whatever the window: the first one after a timeout, or a probe.
    must: Option<Must>,
    /// New data goes first, and if some is sent, nothing else until the next ACK (RFC 5682, step 2b).
    new_first: NewFirst,
    timer: Option<(Timer, Time)>,
    /// Timeouts since something new was acknowledged.
    timeouts_in_a_row: u32,
    usage: Usage,
    /// Everything sent when the current round began ends here.
    round_end: u64,
    /// The next new segment says that the window was reduced.
    cwr_due: bool,
    /// Bytes that were retransmitted and have arrived since the reduction began.
    repaired: u64,
    control: Validated<AnyControl>,
    pacing: Pacing,
    paced_until: Option<Time>,
    round_trip: RoundTrip,
    /// When data was sent last.
    last_sent: Time,
    stats: SenderStats,
}

/// Linux's tcp_ca_state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Open,
    /// Something is missing, or was reported, and nothing counts as lost yet.
    Disorder,
    /// The window goes down because of a mark, or of a probe that repaired a loss.
    Reduced,
    Recovery,
    /// The timer has expired.
    Loss,
}

/// There is one timer, for one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Retransmission,
    /// PTO.
    Probe,
    /// Segments that would count as lost then.
    Reordering,
}

/// A tail loss probe that is not answered (RFC 8985, section 7).
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// TLP.end_seq.
    end: u64,
    /// TLP.is_retrans.
    is_retransmission: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Must {
    /// The segment of this number.
    Again(u64),
    New,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum NewFirst {
    No,
    Due,
    Sent,
}

/// What leaves next.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    Again(u64),
    New,
}

/// What an ACK has told.
#[derive(Debug)]
struct Heard {
    /// Segments that newly arrived, and their bytes.
    arrived: u32,
    bytes: u64,
    /// Something new is acknowledged, or reported, or a duplicate.
    advances: bool,
    reports: bool,
    duplicate: bool,
    /// It reports the probe as a duplicate.
    duplicate_probe: bool,
    ece: bool,
    echo: u32,
    /// Never retransmitted data arrived that had been sent when the timer expired.
    original: bool,
    /// Of what was acknowledged, and of what was reported, and was sent once: when the first and the last left.
    acked: Option<(Time, Time)>,
    sacked: Option<(Time, Time)>,
    /// Something was acknowledged that was sent more than once.
    resent_acked: bool,
    /// The lowest byte that arrived of what was sent once.
    lowest_once: Option<u64>,
    /// A retransmission was found lost.
    lost_again: bool,
    /// The retransmission timer is to begin anew.
    rearms: bool,
    /// Segments in the network before.
    before: u32,
    /// Segments found lost.
    lost: u32,
}

/// RFC 8985, section 7.2: "PTO = 2 * SRTT", and for a single segment what its ACK may wait; also, the least time of any timer: two
/// ticks of the kernel's clock (TCP_TIMEOUT_MIN).
const LEAST_TIMER: Span = Span::from_millis(8);

impl Sender {
    pub(crate) fn new(config: &TcpConfig) -> Self {
        let segment = u64::from(config.segment_bytes);
        let initial_window = u64::from(config.initial_window) * segment;
        Self {
            stream: Stream::default(),
            max: 0,
            peer_window: config.receive_window,
            segment,
            flight: Flight::default(),
            rack: Rack::default(),
            state: State::Open,
            high: 0,
            reduction: None,
            undo: Undo::default(),
            probe: None,
            frto: false,
            must: None,
            new_first: NewFirst::No,
            timer: None,
            timeouts_in_a_row: 0,
            usage: Usage::default(),
            round_end: 0,
            cwr_due: false,
            repaired: 0,
            control: Validated::new(
                config.control.build(&config.start()),
                config.validation,
                initial_window,
                segment,
            ),
            pacing: Pacing::new(config.pacing),
            paced_until: None,
            round_trip: RoundTrip::new(),
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
        self.stream.write(bytes, context, last && config.fin, self.una());
        if let Some(context) = context {
            self.control.on_message(now, &context);
        }
    }

    pub(crate) fn on_ack(&mut self, now: Time, segment: &Segment, config: &TcpConfig) {
        if segment.ack < self.una() || segment.ack > self.max {
            return;
        }
        self.peer_window = segment.window.into();
        let heard = self.hear(now, segment, config);
        self.must = None;
        self.new_first = NewFirst::No;
        self.rack.adapt(self.una(), self.max);
        self.end_probe(now, segment.ack, &heard);
        let heard = self.judge(now, heard);
        if heard.rearms {
            self.rearm(now, config);
        }
        self.steer(now, &heard);
        self.begin_round(config);
    }

    pub(crate) fn on_time(&mut self, now: Time, config: &TcpConfig) -> bool {
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
        let Some(next) = self.choose(config) else {
            if !self.stream.is_sent(self.max) {
                self.usage.on_sent(self.has_no_room(), self.flight.len(), self.una(), self.max);
            }
            return None;
        };
        if next == Next::New && self.stream.begins_message(self.max) {
            self.begin_message(now, config);
        }
        if next == Next::New || self.pacing.paces_retransmissions() {
            let release = self.pacing.release_at();
            if release > now && self.must.is_none() {
                self.paced_until = Some(release);
                return None;
            }
        }
        Some(match next {
            Next::Again(number) => self.send_again(now, number, config),
            Next::New => self.send_new(now, config),
        })
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        earlier(self.timer.map(|(_, at)| at), self.paced_until)
    }

    pub(crate) fn on_repeated_handshake(&mut self, config: &TcpConfig, _phase: Span) {
        self.control.replace(config.control.build(&Start { window: 1, ..config.start() }));
    }

    pub(crate) fn on_handshake_rtt(&mut self, sent: Time, now: Time, config: &TcpConfig) {
        self.round_trip.observe(now - sent);
        self.round_trip.sample(&config.rto, now - sent, 0, 0);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.una() == self.stream.end() && self.una() > 0
    }

    pub(crate) fn control(&self) -> Control {
        self.control.control()
    }

    pub(crate) fn window(&self) -> u64 {
        self.reduction.map_or_else(|| self.control.cwnd(), |prr| u64::from(prr.cwnd) * self.segment)
    }

    pub(crate) fn validity(&self) -> Option<Validity> {
        self.control.validity()
    }

    pub(crate) fn peer_window(&self) -> u64 {
        self.peer_window
    }

    /// Segments that were reported, which is what duplicate ACKs count.
    pub(crate) fn dupacks(&self) -> u32 {
        self.flight.sacked()
    }

    pub(crate) fn sent_to(&self) -> u64 {
        self.max
    }

    #[inline]
    pub(crate) fn una(&self) -> u64 {
        self.flight.una()
    }

    pub(crate) fn message_at(&self, seq: u64) -> (u64, Option<FlowContext>) {
        self.stream.message_at(seq)
    }

    pub(crate) fn in_recovery(&self) -> bool {
        self.state == State::Recovery
    }

    pub(crate) fn stats(&self) -> SenderStats {
        let (rtt_sum, rtt_samples) = self.round_trip.samples();
        SenderStats { rtt_sum, rtt_samples, ..self.stats }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.control.phase(self.stream.unsent(self.max))
    }

    /// cwnd in segments, that of a reduction if there is one.
    #[inline]
    fn cwnd(&self) -> u32 {
        self.reduction.map_or_else(|| (self.control.cwnd() / self.segment) as u32, |prr| prr.cwnd)
    }

    fn has_no_room(&self) -> bool {
        self.flight.in_network() >= self.cwnd()
    }

    /// Takes in what an ACK says of what has arrived, and of the round trip.
    fn hear(&mut self, now: Time, segment: &Segment, config: &TcpConfig) -> Heard {
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
            resent_acked: false,
            lowest_once: None,
            lost_again: false,
            rearms: false,
            before: self.flight.in_network(),
            lost: 0,
        };
        let Self { flight, rack, round_trip, repaired, undo, probe, .. } = self;
        let least = round_trip.least();
        let mut hears = |heard: &mut Heard, arrived: Arrived, is_acked: bool| {
            if arrived.is_old {
                return;
            }
            let Arrived { start, record, .. } = arrived;
            heard.arrived += 1;
            heard.bytes += record.end - start;
            rack.on_arrival(now, &arrived, least);
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
        } else if let (Some((_, last)), Some((_, head))) = (heard.sacked, self.flight.head()) {
            // What is reported left after the first segment did: the timer goes on for that one.
            heard.rearms = head < last;
        }
        self.measure(now, &heard, config);
        heard
    }

    /// The round trip of the first segment of an ACK is the sample of the timer (RFC 6298, section 3); that of the last one
    /// waited least.
    fn measure(&mut self, now: Time, heard: &Heard, config: &TcpConfig) {
        let echoed = || Stamps::since(now, heard.echo).filter(|_| heard.advances);
        if let Some((_, last)) = heard.sacked.or(heard.acked) {
            self.round_trip.observe(now - last);
        }
        let first = heard.acked.or(heard.sacked).map(|(first, _)| now - first);
        if let Some(rtt) = first.or_else(echoed) {
            self.round_trip.sample(&config.rto, rtt, self.una(), self.max);
        }
    }

    /// TLP_process_ack.
    fn end_probe(&mut self, now: Time, ack: u64, heard: &Heard) {
        let Some(probe) = self.probe.filter(|probe| ack >= probe.end) else { return };
        if !probe.is_retransmission || heard.duplicate_probe {
            // RFC 8985, section 7.4.2: "TLP of new data delivered", or "ACK has a DSACK option matching TLP.end_seq".
            self.probe = None;
        } else if ack > probe.end {
            // "Repaired the single loss": the window goes down as for one.
            self.reduce(now, Cause::Loss);
            self.state = State::Reduced;
            self.end_reduction(now);
            self.keep_open();
        } else if !heard.advances && !heard.reports && !heard.ece {
            // A duplicate: the segment and its probe have both arrived.
            self.probe = None;
        }
    }

    /// The states, and what changes them: tcp_fastretrans_alert.
    #[inline]
    fn judge(&mut self, now: Time, mut heard: Heard) -> Heard {
        let is_quiet =
            self.state == State::Open && heard.advances && !heard.reports && !heard.duplicate && !heard.ece;
        if !is_quiet {
            self.judge_slowly(now, &mut heard);
        }
        heard
    }

    #[inline(never)]
    fn judge_slowly(&mut self, now: Time, heard: &mut Heard) {
        let una = self.una();
        if heard.ece {
            self.undo_is_ruled_out();
        }
        if self.state != State::Open && una >= self.high {
            match self.state {
                State::Reduced if una > self.high => {
                    self.end_reduction(now);
                    self.state = State::Open;
                }
                State::Recovery => {
                    self.undo_or_end(now, heard.echo);
                    self.end_reduction(now);
                }
                _ => {}
            }
        }
        match self.state {
            State::Recovery => {
                if heard.advances && self.undo.is_delayed(heard.echo) {
                    // What arrives had been sent before the first retransmission.
                    self.rack.on_late_arrival(0);
                    if self.flight.resent() > 0 {
                        return;
                    }
                    self.give_back(now, true);
                    self.keep_open();
                } else if self.undo.all_were_duplicates() {
                    self.rack.on_recovered(true);
                    self.give_back(now, false);
                    self.try_open(now, heard);
                }
                self.find_lost(now, heard);
                if self.state != State::Recovery && self.flight.lost() > 0 {
                    self.enter_recovery(now);
                }
            }
            State::Loss => {
                self.judge_timeout(now, heard);
                self.find_lost(now, heard);
                let is_decided = self.state != State::Loss;
                if (is_decided || heard.lost_again) && self.flight.lost() > 0 {
                    self.enter_recovery(now);
                } else if is_decided {
                    self.try_open(now, heard);
                }
            }
            State::Open | State::Disorder | State::Reduced => {
                if self.state != State::Reduced && self.undo.all_were_duplicates() {
                    self.rack.on_recovered(true);
                    self.give_back(now, false);
                }
                self.find_lost(now, heard);
                if self.flight.lost() > 0 {
                    self.enter_recovery(now);
                } else {
                    self.try_open(now, heard);
                }
            }
        }
    }

    /// After a timeout (RFC 5682, section 3.1, as enhanced by SACK).
    fn judge_timeout(&mut self, now: Time, heard: &Heard) {
        let is_over = self.una() >= self.high;
        if heard.advances && self.undo.applies(heard.echo) {
            return self.undo_timeout(now);
        }
        if self.frto {
            // Step 3b: "(i.e., if it acknowledges data that was not retransmitted after the timeout), declare the timeout spurious"; a
            // report does, too.
            if heard.original {
                return self.undo_timeout(now);
            }
            if self.max > self.high {
                // Step 3a: something is reported behind what is missing; it was lost.
                self.frto &= heard.advances && !heard.reports;
            } else if heard.advances && !is_over {
                // Step 2b: "transmit up to two new (previously unsent) segments".
                self.high = self.max;
                let fits = self.max + self.segment <= self.una() + self.peer_window;
                if !self.stream.is_sent(self.max) && fits {
                    self.new_first = NewFirst::Due;
                    return;
                }
                self.frto = false;
            }
        }
        if is_over {
            self.undo_or_end(now, heard.echo);
        }
    }

    fn undo_timeout(&mut self, now: Time) {
        self.give_back(now, true);
        self.timeouts_in_a_row = 0;
        self.state = State::Open;
    }

    /// All that was out when the recovery began is acknowledged.
    fn undo_or_end(&mut self, now: Time, echo: u32) {
        if self.undo.applies(echo) {
            self.give_back(now, false);
        } else {
            self.rack.on_recovered(false);
        }
        self.state = State::Open;
    }

    /// The window is what it was.
    fn give_back(&mut self, now: Time, nothing_was_lost: bool) {
        if nothing_was_lost {
            self.flight.unmark();
        }
        self.reduction = None;
        self.cwr_due = false;
        self.undo.forget();
        self.rack.on_undone();
        self.control.on_spurious(now);
    }

    fn undo_is_ruled_out(&mut self) {
        if self.state < State::Reduced {
            self.undo.forget();
        }
    }

    /// tcp_try_to_open.
    fn try_open(&mut self, now: Time, heard: &Heard) {
        if !self.flight.has_resent() {
            self.undo.on_all_arrived();
        }
        if heard.ece && self.state < State::Reduced {
            self.undo.forget();
            self.reduce(now, Cause::Mark);
            self.state = State::Reduced;
        }
        if self.state != State::Reduced {
            self.keep_open();
        }
    }

    fn keep_open(&mut self) {
        let is_clean = self.flight.sacked() + self.flight.lost() == 0 && !self.flight.has_resent();
        let state = if is_clean { State::Open } else { State::Disorder };
        if self.state != state {
            self.state = state;
            self.high = self.max;
        }
    }

    /// RACK_detect_loss, if there is anything new.
    fn find_lost(&mut self, now: Time, heard: &mut Heard) {
        if !self.rack.takes_news() {
            return;
        }
        let resent = self.flight.resent();
        let (lost, wait) = self.mark_lost(now);
        heard.lost += lost;
        heard.lost_again |= self.flight.resent() < resent;
        if let Some(wait) = wait {
            self.timer = Some((Timer::Reordering, now + wait + LEAST_TIMER));
            heard.rearms = false;
        }
    }

    /// How many are newly lost, and for how long to wait with those that may be.
    fn mark_lost(&mut self, now: Time) -> (u32, Option<Span>) {
        let Self { flight, rack, round_trip, state, .. } = self;
        let zero = Span::ZERO;
        let (least, srtt) = (round_trip.least().unwrap_or(zero), round_trip.srtt().unwrap_or(zero));
        let window = rack.window(flight.sacked(), *state >= State::Recovery, least, srtt);
        let patience = rack.patience(window);
        let in_network = flight.in_network();
        let wait = flight.find_lost(
            |sent, end| rack.is_after(sent, end),
            |sent| (sent + patience > now).then(|| (sent + patience) - now),
        );
        (in_network - flight.in_network(), wait)
    }

    /// The window begins to go down; what was to be reduced is answered once.
    fn reduce(&mut self, now: Time, cause: Cause) {
        let before = self.cwnd();
        self.high = self.max;
        self.probe = None;
        self.repaired = 0;
        self.tell_of_congestion(now, cause, false);
        let ssthresh = (self.control.cwnd() / self.segment) as u32;
        self.reduction = Some(Prr::new(before, ssthresh));
    }

    fn enter_recovery(&mut self, now: Time) {
        self.undo.begin(self.una(), self.flight.resent());
        if self.reduction.is_none() {
            self.reduce(now, Cause::Loss);
        }
        self.stats.fast_retransmits += 1;
        self.state = State::Recovery;
    }

    /// The window has gone down.
    fn end_reduction(&mut self, now: Time) {
        if self.reduction.take().is_some() {
            self.control.on_recovered(&Recovered { now, taken: 0, retransmitted: self.repaired });
        }
    }

    fn tell_of_congestion(&mut self, now: Time, cause: Cause, repeated: bool) {
        self.cwr_due = true;
        self.control.on_congestion(&Congestion {
            now,
            cause,
            in_flight: u64::from(self.flight.len()) * self.segment,
            receive_window: self.peer_window,
            repeated,
        });
    }

    /// What the window becomes.
    fn steer(&mut self, now: Time, heard: &Heard) {
        if let Some(prr) = &mut self.reduction {
            prr.on_ack(heard.arrived, self.flight.in_network(), heard.advances && heard.lost == 0);
        }
        let cwnd = self.cwnd();
        let unsent = self.stream.unsent(self.max);
        let in_slow_start = self.control.phase(unsent) == Phase::SlowStart;
        let bytes = u64::from(heard.arrived) * self.segment;
        let ack = Ack {
            now,
            bytes,
            delivered: heard.bytes,
            marked: if heard.ece { bytes } else { 0 },
            in_flight: u64::from(heard.before) * self.segment,
            una: self.una(),
            next: self.max,
            unsent,
            rtt: heard.sacked.or(heard.acked).map(|(_, last)| now - last),
            srtt: self.round_trip.srtt(),
            cwnd_limited: self.usage.is_limited(cwnd, in_slow_start),
        };
        if self.reduction.is_some() {
            self.control.on_ack_while_reduced(&ack);
        } else if heard.advances {
            self.control.on_ack(&ack);
        }
    }

    /// A round begins with the first ACK beyond what was sent when the previous one began.
    #[inline]
    fn begin_round(&mut self, config: &TcpConfig) {
        if self.una() <= self.round_end {
            return;
        }
        self.round_end = self.max;
        if !self.pacing.counts_rounds() {
            return;
        }
        let (unsent, window) = (self.stream.unsent(self.max), self.control.cwnd() / self.segment);
        let next_window = match self.control.phase(unsent) {
            Phase::SlowStart => (2 * window).min(config.receive_window_segments()),
            Phase::CongestionAvoidance => window,
        };
        self.pacing.on_round(&RoundStart {
            unsent_segments: unsent.div_ceil(self.segment),
            next_window_segments: next_window,
            srtt: self.round_trip.srtt(),
        });
    }

    fn on_reordering_timer(&mut self, now: Time, config: &TcpConfig) {
        let (lost, _) = self.mark_lost(now);
        if lost > 0 {
            if self.state != State::Recovery {
                self.enter_recovery(now);
            }
            if let Some(prr) = &mut self.reduction {
                prr.on_ack(1, self.flight.in_network(), false);
            }
        }
        self.rearm_for_head(now, config);
    }

    /// TLP_send_probe.
    fn on_probe_timer(&mut self, now: Time, config: &TcpConfig) {
        if self.probe.is_none() {
            let fits = self.max + self.segment <= self.una() + self.peer_window;
            if !self.stream.is_sent(self.max) && fits {
                self.must = Some(Must::New);
            } else if let Some(newest) = self.flight.newest() {
                self.must = Some(Must::Again(newest));
            }
            self.stats.probes += u32::from(self.must.is_some());
        }
        self.rearm_for_head(now, config);
    }

    fn on_retransmission_timer(&mut self, now: Time, config: &TcpConfig) {
        let Some((head, _)) = self.flight.head() else {
            self.timer = None;
            return;
        };
        let was = self.state;
        let (sacked, rack) = (self.flight.sacked(), self.rack.clone());
        // Linux's tcp_rack_skb_timeout without a window: what was sent less than the latest round trip ago may yet arrive.
        self.flight.lose_all(|sent| sent + rack.patience(Span::ZERO) > now);
        let is_first_here = was <= State::Disorder
            || self.high <= self.una()
            || was == State::Loss && self.timeouts_in_a_row == 0;
        self.tell_of_congestion(now, Cause::Restart, !is_first_here);
        if is_first_here {
            self.undo.begin(self.una(), self.flight.resent());
        }
        let in_network = self.flight.in_network();
        if in_network > 0 {
            self.control.adopt(u64::from(in_network + 1) * self.segment, None);
        }
        if was <= State::Disorder {
            self.rack.on_timeout(sacked);
        }
        self.reduction = None;
        self.probe = None;
        self.state = State::Loss;
        self.high = self.max;
        self.frto = was < State::Recovery || self.timeouts_in_a_row > 0;
        self.timeouts_in_a_row += 1;
        self.stats.timeouts += 1;
        self.must = Some(Must::Again(head));
        self.new_first = NewFirst::No;
        self.round_trip.back_off();
        self.restart_retransmission(now, config);
    }

    /// After an ACK: a probe if one is due, else the retransmission timer.
    fn rearm(&mut self, now: Time, config: &TcpConfig) {
        let timeout = self.round_trip.timeout(&config.rto);
        if !self.schedule_probe(now, timeout, config) {
            self.rearm_retransmission(now, config);
        }
    }

    fn rearm_retransmission(&mut self, now: Time, config: &TcpConfig) {
        match self.timer {
            _ if self.flight.len() == 0 => self.timer = None,
            Some((Timer::Probe | Timer::Reordering, _)) => self.rearm_for_head(now, config),
            _ => self.restart_retransmission(now, config),
        }
    }

    fn restart_retransmission(&mut self, now: Time, config: &TcpConfig) {
        self.timer = Some((Timer::Retransmission, now + self.round_trip.timeout(&config.rto)));
    }

    /// The retransmission timer as if it had begun when the first segment was sent.
    fn rearm_for_head(&mut self, now: Time, config: &TcpConfig) {
        let due = |(_, sent): (u64, Time)| (sent + self.round_trip.timeout(&config.rto)).max(now);
        self.timer = self.flight.head().map(due).map(|at| (Timer::Retransmission, at));
    }

    /// RFC 8985, section 7.2; no later than the retransmission timer would expire.
    fn schedule_probe(&mut self, now: Time, at_most: Span, config: &TcpConfig) -> bool {
        if self.flight.len() == 0 || !matches!(self.state, State::Open | State::Reduced) {
            return false;
        }
        let pto = match self.round_trip.srtt() {
            // "PTO += TLP.max_ack_delay" for a single segment; Linux takes its least timeout.
            Some(srtt) if self.flight.len() == 1 => srtt * 2 + config.rto.min,
            Some(srtt) => srtt * 2 + LEAST_TIMER,
            None => Span::from_secs(1),
        };
        let pto = if at_most > Span::ZERO { pto.min(at_most) } else { pto };
        self.timer = Some((Timer::Probe, now + pto));
        true
    }

    fn choose(&mut self, config: &TcpConfig) -> Option<Next> {
        match self.must {
            Some(Must::Again(number)) => return Some(Next::Again(number)),
            Some(Must::New) => return Some(Next::New),
            None => {}
        }
        if self.has_no_room() {
            return None;
        }
        let again = match self.new_first {
            NewFirst::No => self.flight.next_lost(),
            NewFirst::Due | NewFirst::Sent => None,
        };
        if let Some(number) = again {
            return Some(Next::Again(number));
        }
        let held = config.nagle && self.stream.waits_for_more(self.max, self.una() < self.max, self.segment);
        let fits = self.max + self.segment <= self.una() + self.peer_window;
        if !self.stream.is_sent(self.max) && fits && !held {
            return Some(Next::New);
        }
        if self.new_first == NewFirst::Due {
            // Step 2b had nothing to send: conventional recovery.
            (self.frto, self.new_first) = (false, NewFirst::No);
            return self.flight.next_lost().map(Next::Again);
        }
        None
    }

    /// The first segment is about to leave that begins in a message.
    fn begin_message(&mut self, now: Time, config: &TcpConfig) {
        if !self.stream.begin_message(self.max) {
            return;
        }
        self.pacing.on_message();
        if self.flight.len() == 0 && self.max > 0 {
            self.control.on_idle(&Idle {
                now,
                silence: now.since(self.last_sent),
                rto: self.round_trip.timeout(&config.rto),
                restart_window: u64::from(config.initial_window) * u64::from(config.segment_bytes),
            });
        }
    }

    fn send_again(&mut self, now: Time, number: u64, config: &TcpConfig) -> Transmission {
        let (seq, end) = self.flight.range(number);
        let is_probe = self.must.take().is_some() && self.state != State::Loss;
        self.undo.on_resent(now);
        self.flight.resend(now, number);
        if is_probe {
            self.probe = Some(Probe { end: self.max, is_retransmission: true });
            self.restart_retransmission(now, config);
        } else if self.flight.head().is_some_and(|(head, _)| head == number)
            && !matches!(self.timer, Some((Timer::Reordering, _)))
        {
            self.restart_retransmission(now, config);
        }
        self.sent(now, seq, end, true, config)
    }

    fn send_new(&mut self, now: Time, config: &TcpConfig) -> Transmission {
        let (seq, end) = (self.max, self.stream.segment_end(self.max, self.segment));
        let is_probe = self.must.take().is_some();
        let was_empty = self.flight.len() == 0;
        self.max = end;
        self.flight.push(now, end);
        if self.new_first == NewFirst::Due {
            self.new_first = NewFirst::Sent;
        }
        if was_empty || matches!(self.timer, Some((Timer::Probe, _)) | None) {
            self.rearm_retransmission(now, config);
        }
        if is_probe {
            self.probe = Some(Probe { end, is_retransmission: false });
            self.restart_retransmission(now, config);
        } else {
            let (_, head_sent) = self.flight.head().unwrap_or((0, now));
            let left = (head_sent + self.round_trip.timeout(&config.rto)).since(now);
            self.schedule_probe(now, left, config);
        }
        self.usage.on_sent(self.has_no_room(), self.flight.len(), self.una(), self.max);
        self.sent(now, seq, end, false, config)
    }

    #[inline]
    fn sent(
        &mut self,
        now: Time,
        seq: u64,
        end: u64,
        retransmission: bool,
        config: &TcpConfig,
    ) -> Transmission {
        if let Some(prr) = &mut self.reduction {
            prr.on_sent();
        }
        self.last_sent = now;
        self.stats.sent += 1;
        self.stats.retransmitted += u32::from(retransmission);
        let data_end = end.min(self.stream.written());
        let len = (data_end - seq) as u32;
        if !matches!(self.pacing, Pacing::None) {
            let cwnd = u64::from(self.cwnd()) * self.segment;
            self.pacing.on_sent(now, !retransmission, len.into(), cwnd, self.round_trip.srtt());
        }
        if self.control.hears_of_sent() {
            self.control.on_sent(&Sent {
                now,
                in_flight: u64::from(self.flight.len()) * self.segment,
                drained: self.stream.is_sent(self.max),
                segment: self.segment,
                receive_window: self.peer_window,
                rto: self.round_trip.timeout(&config.rto),
            });
        }
        let cwr = !retransmission && std::mem::take(&mut self.cwr_due);
        Transmission { seq, len, fin: end > data_end, retransmission, cwr }
    }
}

#[cfg(test)]
mod tests;
