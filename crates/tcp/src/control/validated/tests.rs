use super::*;
use crate::TcpConfig;
use crate::control::{Cause, ControlSpec, Reno};
use crate::recovery::RecoveryKind::SackRfc6675;
use crate::testing::{SEGMENT, Scene, rfc};
use catnip_base::Span;
use catnip_law::newcwv::PipeAck;

/// Controller with a validation rule, for a flow with an RTT of 100 ms. Times are in milliseconds, sizes in segments.
struct Flow<C> {
    control: Validated<C>,
    now: u64,
    snd_una: u64,
    snd_max: u64,
}

const INITIAL_WINDOW: u64 = 4;
const RTO_MS: u64 = 1000;

/// Creates a flow with Reno and the given cwnd and ssthresh, as after an earlier loss.
fn flow(spec: ValidationSpec, cwnd: u64, ssthresh: u64) -> Flow<Reno> {
    let mut reno = Reno::new(&rfc(SackRfc6675, INITIAL_WINDOW as u32).start());
    reno.set_cwnd(cwnd * SEGMENT, Some(ssthresh * SEGMENT));
    let control = Validated::new(reno, spec, INITIAL_WINDOW * SEGMENT, SEGMENT);
    Flow { control, now: 0, snd_una: 0, snd_max: 0 }
}

fn newcwv(cwnd: u64, ssthresh: u64) -> Flow<Reno> {
    flow(ValidationSpec::NewCwv(Filter::Max), cwnd, ssthresh)
}

impl<C: CongestionControl> Flow<C> {
    fn time(&self) -> Time {
        Time::ZERO + Span::from_millis(self.now)
    }

    fn at(&mut self, now: u64) -> &mut Self {
        assert!(now >= self.now);
        self.now = now;
        self
    }

    /// Sends `segments` segments. After the last segment, no more data is waiting.
    fn sends(&mut self, segments: u64) -> &mut Self {
        for left in (0..segments).rev() {
            self.snd_max += 1;
            let (now, in_flight) = (self.time(), (self.snd_max - self.snd_una) * SEGMENT);
            let (receive_window, rto, drained) = (1000 * SEGMENT, Span::from_millis(RTO_MS), left == 0);
            let segment = SEGMENT;
            self.control.on_sent(&Sent { now, in_flight, drained, segment, receive_window, rto });
        }
        let in_flight = (self.snd_max - self.snd_una) * SEGMENT;
        self.control.on_burst(&Burst {
            now: self.time(),
            is_cwnd_limited: in_flight + SEGMENT > self.control.control().cwnd,
            in_flight,
            rto: Span::from_millis(RTO_MS),
            is_open: true,
        });
        self
    }

    /// Acknowledges the next `segments` segments one by one.
    fn acks(&mut self, segments: u64) -> &mut Self {
        for _ in 0..segments {
            let in_flight = (self.snd_max - self.snd_una) * SEGMENT;
            self.snd_una += 1;
            let cwnd_limited = in_flight + SEGMENT > self.control.control().cwnd;
            self.control.on_ack(&Ack {
                now: self.time(),
                bytes: SEGMENT,
                delivered: SEGMENT,
                marked: 0,
                in_flight,
                snd_una: self.snd_una * SEGMENT,
                snd_max: self.snd_max * SEGMENT,
                unsent: 0,
                rtt: None,
                srtt: Some(Span::from_millis(100)),
                cwnd_limited,
            });
        }
        self
    }

    /// Sends `segments` segments, which are acknowledged one round trip later.
    fn flight(&mut self, segments: u64) -> &mut Self {
        let answered = self.now + 100;
        self.sends(segments).at(answered).acks(segments)
    }

    /// Ends an idle period of `silence_ms` milliseconds by the next segment.
    fn idle_for(&mut self, silence_ms: u64) -> &mut Self {
        self.at(self.now + silence_ms);
        let (idle_time, rto) = (Span::from_millis(silence_ms), Span::from_millis(RTO_MS));
        let restart_window = INITIAL_WINDOW * SEGMENT;
        self.control.on_idle(&Idle { now: self.time(), idle_time, rto, restart_window });
        self
    }

    fn congestion(&mut self, cause: Cause) -> &mut Self {
        let (in_flight, receive_window) = ((self.snd_max - self.snd_una) * SEGMENT, 1000 * SEGMENT);
        let now = self.time();
        self.control.on_congestion(&Congestion { now, cause, in_flight, receive_window, repeated: false });
        self
    }

    fn recovered(&mut self, retransmitted: u64) -> &mut Self {
        let now = self.time();
        self.snd_una = self.snd_max;
        self.control.on_recovered(&Recovered { now, deflation: 0, retransmitted: retransmitted * SEGMENT });
        self
    }

    #[track_caller]
    fn validity(&mut self, pipe_ack: Option<u64>, is_validated: bool) -> &mut Self {
        let expected = Validity { pipe_ack: pipe_ack.map(|segments| segments * SEGMENT), is_validated };
        assert_eq!(self.control.validity(), Some(expected), "at {} ms", self.now);
        self
    }

    /// Asserts the values of cwnd and ssthresh, in segments.
    #[track_caller]
    fn windows(&mut self, cwnd: f64, ssthresh: f64) -> &mut Self {
        let bytes = |segments: f64| (segments * SEGMENT as f64) as u64;
        let Control { cwnd: is, ssthresh: is_ssthresh } = self.control.control();
        assert_eq!((is, is_ssthresh), (bytes(cwnd), Some(bytes(ssthresh))), "at {} ms", self.now);
        self
    }
}

#[test]
fn a_connection_starts_validated_with_pipe_ack_undefined_until_a_flight_is_acknowledged() {
    // RFC 7661, section 4.1: "A sender starts a TCP connection in the validated phase and initialises the pipeACK variable to
    // the 'undefined' value."
    let mut flow = newcwv(10, 100);
    flow.validity(None, true).sends(4).validity(None, true).at(100).acks(3).validity(None, true);
    // Section 4.2: "the volume of data that was acknowledged by the network over the period of a measured Round-Trip Time".
    flow.acks(1).validity(Some(4), false);
}

#[test]
fn pipe_ack_is_the_largest_sample_of_the_sampling_period_with_the_filter_and_the_last_one_without() {
    for (filter, expected) in [(Filter::Max, [12, 12, 12, 12, 3]), (Filter::Last, [12, 2, 9, 2, 3])] {
        let mut flow = flow(ValidationSpec::NewCwv(filter), 20, 20);
        let mut seen = [0; 5];
        // The samples are taken at 100, 200, 300, 1100 and 1201 ms.
        for (nth, (start, segments)) in
            [(0, 12), (100, 2), (200, 9), (1000, 2), (1101, 3)].into_iter().enumerate()
        {
            flow.at(start).flight(segments);
            seen[nth] = flow.control.validity().unwrap().pipe_ack.unwrap() / SEGMENT;
        }
        // "Max(3*RTT, 1 second)": the first sample counts until 1100 ms. At 1201 ms the sample of 300 ms, 9, is the largest remaining one.
        let expected = if filter == Filter::Max { [12, 12, 12, 12, 9] } else { expected };
        assert_eq!(seen, expected, "{filter}");
    }
}

#[test]
fn pipe_ack_of_a_constant_rate_is_rate_times_round_trip() {
    let mut flow = newcwv(100, 100);
    // A segment is sent every 7 ms and acknowledged after 100 ms: 14.3 segments per round trip.
    for step in 0..2000u64 {
        flow.at(7 * step).sends(1);
        if 7 * step >= 100 {
            flow.acks(1);
        }
    }
    let pipe_ack = flow.control.validity().unwrap().pipe_ack.unwrap() as f64 / SEGMENT as f64;
    assert!((pipe_ack / (100.0 / 7.0) - 1.0).abs() < 0.1, "{pipe_ack}");
}

#[test]
fn a_long_round_trip_makes_the_sampling_period_three_of_them() {
    let mut pipe_ack = PipeAck::new(false);
    let at = |ms: u64| ms * 1_000_000;
    pipe_ack.on_ack(at(1000), 10, 10, 10, at(800));
    assert_eq!([3399, 3400, 3401].map(|ms| pipe_ack.at(at(ms))), [10, 10, 0]);
}

#[test]
fn after_a_silence_longer_than_the_sampling_period_pipe_ack_is_zero_and_cwnd_stays() {
    let mut flow = newcwv(20, 20);
    flow.flight(20).validity(Some(20), true);
    let cwnd = flow.control.control().cwnd;
    // Section 4.5.1: "the pipeACK samples may be regarded as zero". Section 4.4: "preserves the cwnd".
    flow.idle_for(1000).validity(Some(20), true).idle_for(1).validity(Some(0), false);
    assert_eq!(flow.control.control().cwnd, cwnd);
    // A flight of more than half of the window validates it again.
    flow.flight(11).validity(Some(11), true);
}

#[test]
fn half_of_the_window_in_use_is_enough_to_validate_it() {
    // Section 4.3: "Validated phase: pipeACK >=(1/2)*cwnd".
    for (segments, is_validated) in [(10, true), (9, false)] {
        let mut flow = newcwv(20, 10);
        flow.sends(segments).at(100).acks(segments - 1);
        flow.control.set_cwnd(20 * SEGMENT, None);
        let control = &mut flow.control;
        let Rule::NewCwv(rule) = &control.rule else { unreachable!() };
        assert_eq!(rule.validity(20 * SEGMENT).pipe_ack, None);
        flow.acks(1);
        assert_eq!(flow.control.validity().unwrap().pipe_ack, Some(segments * SEGMENT));
        let Rule::NewCwv(rule) = &flow.control.rule else { unreachable!() };
        assert_eq!(rule.validity(20 * SEGMENT).is_validated, is_validated);
    }
}

#[test]
fn in_the_validated_phase_the_window_grows_as_the_standard_says_and_in_the_other_one_only_if_it_is_used() {
    // Section 4.4: "A sender that is not cwnd-limited MUST NOT increase the cwnd when ACK packets are received in this phase".
    let mut flow = newcwv(20, 100);
    flow.flight(4).validity(Some(4), false);
    let unused = flow.control.control().cwnd;
    flow.flight(4).flight(4);
    assert_eq!(flow.control.control().cwnd, unused);
    // "A sender that is cwnd-limited MAY use the standard TCP method to increase cwnd": this holds for the first ACK of a full window.
    let full = unused / SEGMENT;
    let answered = flow.now + 100;
    flow.sends(full).validity(Some(4), false).at(answered).acks(1);
    assert_eq!(flow.control.control().cwnd, unused + SEGMENT);
    // After the whole flight is acknowledged, the window is validated again and grows although it is not fully used.
    flow.acks(full - 1).validity(Some(full), true);
    let before = flow.control.control().cwnd;
    flow.sends(full * 3 / 4).at(answered + 100).acks(1);
    assert_eq!(flow.control.control().cwnd, before + SEGMENT);
}

#[test]
fn a_loss_in_the_non_validated_phase_halves_what_was_in_use_and_takes_off_what_had_to_be_sent_again() {
    // Section 4.4.1: cwnd = Max(pipeACK,LossFlightSize)/2 for the recovery, then (Max(pipeACK,LossFlightSize) - R)/2.
    // Columns: segments of the previous flight, segments of the flight with the loss, R, cwnd during and after the recovery.
    for (measured, in_flight, retransmitted, during, after) in [
        (6, 16, 0, 8.0, 8.0),
        (6, 16, 4, 8.0, 6.0),
        (14, 5, 1, 7.0, 6.5),
        (14, 5, 14, 7.0, 1.0),
        (6, 4, 20, 3.0, 1.0),
    ] {
        let mut flow = newcwv(40, 30);
        flow.flight(measured)
            .validity(Some(measured), false)
            .sends(in_flight)
            .at(150)
            .congestion(Cause::Loss);
        assert_eq!(flow.control.control().cwnd, (during * SEGMENT as f64) as u64);
        // "ssthresh [is] equal to cwnd at the end of the loss recovery", and pipeACK is undefined again.
        flow.at(300).recovered(retransmitted).windows(after, after).validity(None, true);
    }
}

#[test]
fn a_loss_in_the_validated_phase_has_the_standard_answer() {
    let mut flow = newcwv(20, 20);
    flow.flight(20).validity(Some(20), true).sends(20).congestion(Cause::Loss);
    // RFC 5681, equation 4: half of the flight.
    flow.windows(10.0, 10.0).at(300).recovered(3).windows(10.0, 10.0);
    // RFC 7661, section 4.4.1: "After completing the loss recovery phase, the sender MUST re-initialise the pipeACK variable".
    flow.validity(None, true);
}

#[test]
fn the_flight_of_a_recovery_is_no_sample() {
    // Section 4.2: "the sender stops collecting pipeACK samples during loss recovery". The sender reports no ACKs during recovery. Data in
    // flight before the recovery yields no sample after it.
    let mut flow = newcwv(20, 20);
    flow.flight(20).sends(12).congestion(Cause::Loss).at(400).recovered(2).validity(None, true);
    flow.flight(5).validity(Some(5), true);
}

#[test]
fn a_timeout_ends_the_non_validated_phase_in_the_standard_way() {
    // Section 4.4: "the sender MUST exit the non-validated phase. It then resumes using the standard TCP RTO mechanism".
    let mut flow = newcwv(40, 30);
    flow.flight(6).validity(Some(6), false).sends(10).at(1200).congestion(Cause::Restart);
    flow.windows(1.0, 5.0).validity(None, true);
}

#[test]
fn a_window_that_was_not_validated_for_five_minutes_is_halved_and_no_earlier() {
    // Section 4.4.3: "ssthresh = max(ssthresh, 3*cwnd/4)", "cwnd = max((1/2)*cwnd, IW)".
    let used = || {
        let mut flow = newcwv(40, 10);
        flow.flight(40).validity(Some(40), true);
        flow.control.set_cwnd(40 * SEGMENT, None);
        flow
    };
    // Samples count for one second. The window may stay unvalidated for 300 seconds, so an idle period of 301 seconds halves it.
    used().idle_for(299_000).windows(40.0, 10.0);
    used().idle_for(300_000).windows(40.0, 10.0);
    used().idle_for(301_000).windows(20.0, 30.0);
    // Section 4.5.2: "make one reduction ... for each NVP".
    used().idle_for(601_000).windows(10.0, 30.0);
    used().idle_for(901_000).windows(5.0, 30.0);
    used().idle_for(1_201_000).windows(4.0, 30.0);
    used().idle_for(86_400_000).windows(4.0, 30.0);
    // A window below the initial window is not increased: "not greater than".
    let mut small = newcwv(3, 10);
    small.idle_for(1).sends(1).at(100).acks(1).idle_for(400_000).windows(3.0, 10.0);
}

#[test]
fn five_minutes_of_little_use_count_like_five_minutes_of_silence() {
    let mut flow = newcwv(40, 10);
    flow.flight(40);
    flow.control.set_cwnd(40 * SEGMENT, None);
    // Two segments are sent every 10 seconds.
    (1..=30).for_each(|_| _ = flow.idle_for(9_900).flight(2));
    flow.windows(40.0, 10.0).validity(Some(2), false);
    flow.idle_for(9_900).flight(2).windows(20.0, 30.0);
    // The next non-validated period begins at this reduction.
    (1..=29).for_each(|_| _ = flow.idle_for(9_900).flight(2));
    flow.windows(20.0, 30.0);
    flow.idle_for(9_900).flight(2).windows(10.0, 30.0);
}

#[test]
fn the_restart_of_rfc_5681_comes_after_more_than_a_timeout() {
    // RFC 5681, section 4.1: "in an interval exceeding the retransmission timeout", "RW = min(IW,cwnd)".
    flow(ValidationSpec::Restart, 40, 20).idle_for(1000).windows(40.0, 20.0);
    flow(ValidationSpec::Restart, 40, 20).idle_for(1001).windows(4.0, 20.0);
    flow(ValidationSpec::Restart, 3, 20).idle_for(5000).windows(3.0, 20.0);
    flow(ValidationSpec::None, 40, 20).idle_for(500_000).windows(40.0, 20.0);
}

#[test]
fn linux_halves_the_window_for_each_timeout_of_silence_down_to_the_restart_window() {
    // tcp_cwnd_restart: "while ((delta -= inet_csk(sk)->icsk_rto) > 0 && cwnd > restart_cwnd) cwnd >>= 1;"
    for (idle_time, cwnd) in
        [(1000, 41.0), (1001, 20.0), (2000, 20.0), (2001, 10.0), (3001, 5.0), (4001, 4.0), (9000, 4.0)]
    {
        let ssthresh = if idle_time > 1000 { 30.75 } else { 20.0 };
        flow(ValidationSpec::Linux, 41, 20).idle_for(idle_time).windows(cwnd, ssthresh);
    }
}

#[test]
fn linux_takes_a_window_that_is_not_used_halfway_down_once_per_timeout() {
    // tcp_cwnd_application_limited: "win_used = max(tp->snd_cwnd_used, init_win); ... tp->snd_cwnd = (tp->snd_cwnd + win_used) >> 1".
    let mut flow = flow(ValidationSpec::Linux, 40, 10);
    flow.sends(6).at(100).acks(6);
    let mut windows = Vec::new();
    for start in [900, 1900, 2800, 3800, 4800] {
        flow.at(start).sends(6).acks(6);
        windows.push(flow.control.control().cwnd / SEGMENT);
    }
    // ACKs renew the time, too (snd_cwnd_stamp). (40 + 6) / 2 = 23, (23 + 6) / 2 = 14, (14 + 6) / 2 = 10.
    assert_eq!(windows, [40, 23, 23, 14, 10]);
}

/// Algorithm of RFC 2861, section 3.2, as printed. Sizes are in bytes.
struct Printed {
    cwnd: u64,
    ssthresh: u64,
    t_last: u64,
    t_prev: u64,
    w_used: u64,
}

impl Printed {
    fn after_sending(&mut self, now: u64, unacknowledged: u64, drained: bool, rwnd: u64) {
        let rto = RTO_MS;
        if now - self.t_last >= rto {
            self.ssthresh = self.ssthresh.max(3 * self.cwnd / 4);
            for _ in 1..=((now - self.t_last) / rto) {
                let win = self.cwnd.min(rwnd);
                self.cwnd = (win / 2).max(SEGMENT);
            }
            self.t_prev = now;
            self.w_used = 0;
        }
        self.t_last = now;
        if unacknowledged + SEGMENT > self.cwnd.min(rwnd) {
            self.t_prev = now;
            self.w_used = 0;
        } else if drained {
            self.w_used = self.w_used.max(unacknowledged);
            if now - self.t_prev >= rto {
                self.ssthresh = self.ssthresh.max(3 * self.cwnd / 4);
                let win = self.cwnd.min(rwnd);
                self.cwnd = (win + self.w_used) / 2;
                self.t_prev = now;
                self.w_used = 0;
            }
        }
    }
}

proptest::proptest! {
    #[test]
    fn cwv_does_what_its_rfc_prints(
        steps in proptest::collection::vec((0u64..4000, 1u64..30, 0u64..30), 1..60), rwnd in 4u64..60
    ) {
        let rwnd = rwnd * SEGMENT;
        let mut reno = Reno::new(&rfc(SackRfc6675, 4).start());
        reno.set_cwnd(32 * SEGMENT, Some(20 * SEGMENT));
        let mut control = Validated::new(reno, ValidationSpec::Cwv, 4 * SEGMENT, SEGMENT);
        let mut printed = Printed { cwnd: 32 * SEGMENT, ssthresh: 20 * SEGMENT, t_last: 0, t_prev: 0, w_used: 0 };
        // "Initially: T_last = tcpnow, T_prev = tcpnow": the times are those of the first segment.
        let (mut now, mut out) = (steps[0].0, 0u64);
        (printed.t_last, printed.t_prev) = (now, now);
        for (nth, (pause, sent, acked)) in steps.into_iter().enumerate() {
            now += if nth == 0 { 0 } else { pause };
            out = out.saturating_sub(acked);
            for left in (0..sent).rev() {
                out += 1;
                let in_flight = out * SEGMENT;
                printed.after_sending(now, in_flight, left == 0, rwnd);
                let sent = Sent {
                    now: Time::ZERO + Span::from_millis(now),
                    in_flight,
                    drained: left == 0,
                    segment: SEGMENT,
                    receive_window: rwnd,
                    rto: Span::from_millis(RTO_MS),
                };
                control.on_sent(&sent);
                let Control { cwnd, ssthresh } = control.control();
                proptest::prop_assert_eq!((cwnd, ssthresh), (printed.cwnd, Some(printed.ssthresh)));
            }
        }
    }
}

#[test]
fn cwv_opens_the_window_only_if_it_was_full() {
    // RFC 2861, section 3: "the sender should increase the congestion window only if the window was full when the
    // acknowledgment arrived."
    let config = TcpConfig { validation: ValidationSpec::Cwv, grow_unused: true, ..rfc(SackRfc6675, 4) };
    Scene::new(config.clone(), 2).sends(&[1, 2]).at(100).ack(1).cwnd(4.0);
    Scene::new(config, 100).sends(&[1, 2, 3, 4]).at(100).ack(1).cwnd(5.0).take();
}

fn sender(control: ControlSpec, initial_window: u32) -> TcpConfig {
    let validation = ValidationSpec::NewCwv(Filter::Max);
    TcpConfig { validation, control, ..rfc(SackRfc6675, initial_window) }
}

fn reno() -> ControlSpec {
    ControlSpec::Reno(crate::control::RenoSpec::default())
}

#[test]
fn a_sender_with_newcwv_sends_after_a_silence_what_it_sent_before() {
    for control in [reno(), "cubic".parse().unwrap()] {
        let mut tcp = Scene::new(sender(control, 4), 12);
        tcp.sends(&[1, 2, 3, 4]).validity(None, true);
        tcp.at(100);
        (1..=4).for_each(|acked| _ = tcp.ack(acked));
        tcp.sends(&[5, 6, 7, 8, 9, 10, 11, 12]).cwnd(8.0).validity(Some(4), true);
        tcp.at(200);
        (5..=12).for_each(|acked| _ = tcp.ack(acked));
        let cwnd = tcp.sender().control().cwnd;
        assert!(cwnd > 8 * SEGMENT);
        // After an idle period of ten seconds, RFC 5681 would restart with four segments.
        tcp.at(10_200).writes(20 * SEGMENT).validity(Some(0), false);
        assert_eq!(tcp.take().len() as u64, cwnd / SEGMENT);
    }
}

#[test]
fn a_loss_of_a_preserved_window_is_answered_by_what_was_out_less_what_was_retransmitted() {
    // After an idle period, the flight is 12 segments and the window 24 segments.
    let mut tcp = Scene::new(sender(reno(), 24), 24);
    tcp.take();
    tcp.at(100);
    (1..=24).for_each(|acked| _ = tcp.ack(acked));
    tcp.at(5000).writes(12 * SEGMENT).validity(Some(0), false);
    assert_eq!(tcp.take(), (25..=36).collect::<Vec<u64>>());
    // Segments 25 and 30 are lost: LossFlightSize is 12, pipeACK 0.
    tcp.at(5100).sack(24, &[26..=26]).sack(24, &[26..=27]).sack(24, &[26..=28]).sends(&[25]).cwnd(6.0);
    tcp.sack(24, &[26..=29]).sack(24, &[31..=31, 26..=29]).sack(24, &[31..=32, 26..=29]);
    // Segment 36 is a rescue retransmission. No ACK indicates its loss.
    tcp.sack(24, &[31..=33, 26..=29]).sends(&[30, 36]).sack(24, &[31..=36, 26..=29]).sends(&[]);
    // R is 2, "segments retransmitted and considered lost": (12 - 2) / 2.
    tcp.at(5200).ack(29).cwnd(6.0).ack(36).cwnd(5.0).ssthresh(5.0).validity(None, true);
}
