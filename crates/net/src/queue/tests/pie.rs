use super::*;

fn build(text: &str) -> AnyQueue {
    text.parse::<QueueSpec>().unwrap().build(&PortContext::new(&RateSpec::Unlimited, 1, 0))
}

/// PIE as printed in RFC 8033, appendices A and B, in seconds and floating-point numbers; names are those of the RFC.
struct Printed {
    p: PieParameters,
    drop_prob: f64,
    current_qdelay: f64,
    qdelay_old: f64,
    burst_allowance: f64,
    accu_prob: f64,
}

impl Printed {
    fn new(p: PieParameters) -> Self {
        let burst_allowance = p.burst.as_secs();
        Self { p, drop_prob: 0.0, current_qdelay: 0.0, qdelay_old: 0.0, burst_allowance, accu_prob: 0.0 }
    }

    fn calculate_drop_prob(&mut self) {
        let mut p = self.p.alpha_hz * (self.current_qdelay - self.p.target.as_secs())
            + self.p.beta_hz * (self.current_qdelay - self.qdelay_old);
        if self.drop_prob < 0.000001 {
            p /= 2048.0;
        } else if self.drop_prob < 0.00001 {
            p /= 512.0;
        } else if self.drop_prob < 0.0001 {
            p /= 128.0;
        } else if self.drop_prob < 0.001 {
            p /= 32.0;
        } else if self.drop_prob < 0.01 {
            p /= 8.0;
        } else if self.drop_prob < 0.1 {
            p /= 2.0;
        }
        if self.drop_prob >= 0.1 && p > 0.02 {
            p = 0.02;
        }
        self.drop_prob += p;
        if self.current_qdelay == 0.0 && self.qdelay_old == 0.0 {
            self.drop_prob *= 0.98;
        }
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
        self.qdelay_old = self.current_qdelay;
        self.burst_allowance = (self.burst_allowance - self.p.update.as_secs()).max(0.0);
    }

    fn drop_early(&mut self, byte_length: u64, mean_pktsize: u64, u: f64) -> bool {
        let qdelay_ref = self.p.target.as_secs();
        if (self.qdelay_old < qdelay_ref / 2.0 && self.drop_prob < 0.2) || byte_length <= 2 * mean_pktsize {
            return false;
        }
        if self.p.even {
            if self.drop_prob == 0.0 {
                self.accu_prob = 0.0;
            }
            self.accu_prob += self.drop_prob;
            if self.accu_prob < 0.85 {
                return false;
            }
            if self.accu_prob >= 8.5 {
                return true;
            }
        }
        u < self.drop_prob
    }

    fn enque(&mut self, byte_length: u64, mean_pktsize: u64, u: f64) -> bool {
        let half = self.p.target.as_secs() / 2.0;
        if self.drop_prob == 0.0 && self.current_qdelay < half && self.qdelay_old < half {
            self.burst_allowance = self.p.burst.as_secs();
        }
        let drops = self.burst_allowance <= 1e-12 && self.drop_early(byte_length, mean_pktsize, u);
        if drops {
            self.accu_prob = 0.0;
        }
        drops
    }
}

proptest! {
    #[test]
    fn decisions_are_those_of_the_program_that_the_rfc_prints(
        // Phases: lower and upper bound of the queueing delay in microseconds, number of updates, and arrivals per update.
        phases in prop::collection::vec((0u64..200_000, 0u64..200_000, 1u32..60, 0u32..30), 1..12),
        (target_ms, update_ms, burst_ms) in (2u64..40, 1u64..40, 0u64..200), even: bool, seed in 0u32..1000
    ) {
        let p = PieParameters {
            target: Span::from_millis(target_ms),
            update: Span::from_millis(update_ms),
            burst: Span::from_millis(burst_ms),
            even,
            ..PieParameters::default()
        };
        let (mut law, mut printed, mut random) = (PieLaw::new(&p), Printed::new(p), rng(seed));
        let mut now = Time::ZERO;
        for (low, high, updates, arrivals) in phases {
            for _ in 0..updates {
                let waited = low.min(high) + u64::from(random.below((low.abs_diff(high) + 1) as u32));
                law.on_departure(Span::from_micros(waited), waited == 0);
                printed.current_qdelay = waited as f64 / 1e6;
                for _ in 0..arrivals {
                    let (waiting, number) = (u64::from(random.below(20_000)), random.next_u32());
                    let u = f64::from(number) / 2f64.powi(32);
                    // The results may differ if the last digits of a sum decide.
                    let near = |a: f64, b: f64| (a - b).abs() < 1e-8;
                    let sum = printed.accu_prob + printed.drop_prob;
                    prop_assume!(!near(u, printed.drop_prob) && !near(sum, 0.85) && !near(sum, 8.5));
                    prop_assert_eq!(law.should_drop(&p, waiting, 1500, number), printed.enque(waiting, 1500, u));
                }
                now += p.update;
                prop_assume!([1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1].iter().all(|edge| (printed.drop_prob / edge - 1.0).abs() > 1e-6));
                law.advance(&p, now);
                printed.calculate_drop_prob();
                let probability = law.probability() as f64 / MAX_PROB as f64;
                prop_assert!((probability - printed.drop_prob).abs() < 1e-9, "{} {}", probability, printed.drop_prob);
            }
        }
    }

    #[test]
    fn the_law_does_not_depend_on_when_it_is_asked(gaps_ms in prop::collection::vec((0u64..400, 0u64..100), 1..40)) {
        let p = PieParameters::default();
        let (mut seldom, mut often, mut now) = (PieLaw::new(&p), PieLaw::new(&p), Time::ZERO);
        for (gap_ms, waited_ms) in gaps_ms {
            for _ in 0..gap_ms {
                now += Span::from_millis(1);
                often.advance(&p, now);
            }
            seldom.advance(&p, now);
            prop_assert_eq!(seldom.probability(), often.probability());
            for law in [&mut seldom, &mut often] {
                law.on_departure(Span::from_millis(waited_ms), waited_ms == 0);
            }
        }
    }
}

/// Sends packets of 1250 bytes through a queue for `millis` milliseconds; they arrive at 12 Mbit/s and leave at 10 Mbit/s. Returns the
/// queue and its dropped and marked packets.
fn overloaded(text: &str, ecn: Ecn, millis: u64) -> (AnyQueue, EventLog) {
    let (mut queue, mut event_log) = (build(text), EventLog::default());
    let (mut comes, mut goes) = (0, 0);
    for body in 0.. {
        if comes > millis * 1_000_000 {
            break;
        }
        while goes <= comes {
            queue.dequeue(Time::from_nanos(goes), &mut event_log);
            goes += 1_000_000;
        }
        let packet = Packet { len: 1250, ecn, ..packet(body, Priority::Low) };
        queue.enqueue(Time::from_nanos(comes), packet, &mut event_log);
        comes += 1_000_000 * 10 / 12;
    }
    (queue, event_log)
}

#[test]
fn what_does_not_react_is_dropped_until_the_delay_is_the_target() {
    let (queue, event_log) = overloaded("pie:1000", Ecn::NOT_ECT, 60_000);
    // One packet in six exceeds the rate. A queue of 15 packets takes 15 ms.
    let share = event_log.0.len() as f64 / 72_000.0;
    assert!((share - 1.0 / 6.0).abs() < 0.01, "{share}");
    assert!((5..=30).contains(&queue.backlog().packets), "{:?}", queue.backlog());
    assert!(event_log.0.iter().all(|(_, reason)| *reason == DropReason::Early));
}

#[test]
fn a_burst_of_150_ms_passes() {
    let (_, event_log) = overloaded("pie:1000", Ecn::NOT_ECT, 150);
    assert_eq!(event_log.0, []);
}

#[test]
fn what_can_be_marked_is_marked_up_to_a_probability_of_ten_percent_and_dropped_beyond() {
    let (_, event_log) = overloaded("pie:1000", Ecn::ECT_0, 60_000);
    assert!(
        event_log.1.len() > 10 && event_log.0.len() > 100,
        "{} marked, {} dropped",
        event_log.1.len(),
        event_log.0.len()
    );
    let last_mark = event_log.1.last().unwrap();
    assert!(event_log.0.iter().filter(|(body, _)| body > last_mark).count() > 100, "in the end it drops");
    let (_, event_log) = overloaded("pie:1000,ecn=false", Ecn::ECT_0, 60_000);
    assert_eq!(event_log.1, []);
}

#[test]
fn a_full_buffer_drops_arrivals() {
    let (queue, event_log) = overloaded("pie:10,target=1s,burst=10s", Ecn::NOT_ECT, 1000);
    assert!(event_log.0.iter().all(|(_, reason)| *reason == DropReason::Overflow) && !event_log.0.is_empty());
    assert!(queue.backlog().packets <= 9);
}
