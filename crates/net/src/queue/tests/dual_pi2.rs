use super::*;

fn build(text: &str) -> AnyQueue {
    text.parse::<QueueSpec>().unwrap().build(&PortContext::new(&RateSpec::Unlimited, 1, 0))
}

/// DualPI2 as printed in RFC 9332, figures 2, 5, 7 and 8, in seconds and floating-point numbers; names are those of the
/// RFC. p' and p_CL are bounded by one, as the text requires.
struct Printed {
    p: DualPi2Parameters,
    p_base: f64,
    prevq: f64,
    lq_count: f64,
    cq_count: f64,
}

impl Printed {
    fn update(&mut self, curq: f64) {
        self.p_base +=
            self.p.alpha_hz * (curq - self.p.target.as_secs()) + self.p.beta_hz * (curq - self.prevq);
        self.p_base = self.p_base.clamp(0.0, 1.0);
        self.prevq = curq;
    }

    fn recur(count: &mut f64, likelihood: f64) -> bool {
        *count += likelihood;
        if *count > 1.0 {
            *count -= 1.0;
            return true;
        }
        false
    }

    fn p_cl(&self) -> f64 {
        (f64::from(self.p.coupling) * self.p_base).min(1.0)
    }

    fn laqm(&self, qdelay: f64) -> f64 {
        let (min_th, range) = (self.p.ramp_from.as_secs(), self.p.ramp.as_secs());
        if qdelay >= min_th + range {
            1.0
        } else if qdelay > min_th {
            (qdelay - min_th) / range
        } else {
            0.0
        }
    }

    fn dequeue_l4s(&mut self, lq_len: u32, lq_time: f64) -> Signal {
        let p_cl = self.p_cl();
        if p_cl < 1.0 {
            let p_l_native = if lq_len > 1 { self.laqm(lq_time) } else { 0.0 };
            let p_l = p_l_native.max(p_cl);
            if Self::recur(&mut self.lq_count, p_l) { Signal::Mark } else { Signal::Pass }
        } else if Self::recur(&mut self.lq_count, self.p_base.powi(2)) {
            Signal::Drop
        } else if Self::recur(&mut self.lq_count, p_cl) {
            Signal::Mark
        } else {
            Signal::Pass
        }
    }

    fn dequeue_classic(&mut self, ecn: bool) -> Signal {
        let p_c = self.p_base.powi(2);
        let p_cmax = (1.0 / f64::from(self.p.coupling).powi(2)).min(1.0);
        if !Self::recur(&mut self.cq_count, p_c) {
            Signal::Pass
        } else if !ecn || p_c >= p_cmax {
            Signal::Drop
        } else {
            Signal::Mark
        }
    }
}

/// Phase of a comparison: lower and upper bound of the queueing delay in microseconds, number of updates, and packets per update.
type Phase = (u64, u64, u32, u32);

/// Compares the decisions with those of the program that the RFC prints. Rejects a case in which the last digits of a sum decide.
fn compare(phases: &[Phase], coupling: u32, seed: u32) -> Result<(), TestCaseError> {
    let p = DualPi2Parameters { coupling, ..DualPi2Parameters::default() };
    let mut law = DualPi2Law::new(&p);
    let mut printed = Printed { p, p_base: 0.0, prevq: 0.0, lq_count: 0.0, cq_count: 0.0 };
    let (mut random, mut now) = (rng(seed), Time::ZERO);
    for &(low, high, updates, packets) in phases {
        for _ in 0..updates {
            now += p.update;
            let waits = low.min(high) + u64::from(random.below((low.abs_diff(high) + 1) as u32));
            let since = Time::from_nanos(now.as_nanos().saturating_sub(waits * 1000));
            law.advance(&p, now, (waits > 0).then_some(since));
            printed.update((now - since).as_secs());
            let base = law.base() as f64 / MAX_PROB as f64;
            prop_assert!((base - printed.p_base).abs() < 1e-9, "{} {}", base, printed.p_base);
            for _ in 0..packets {
                let waited = Span::from_micros(u64::from(random.below(2000)));
                let (alone, ecn, is_l4s) = (random.chance(0.3), random.chance(0.5), random.chance(0.5));
                let (ours, theirs) = if is_l4s {
                    (
                        law.of_l4s(&p, waited, alone),
                        printed.dequeue_l4s(2 - u32::from(alone), waited.as_secs()),
                    )
                } else {
                    (law.of_classic(&p, ecn), printed.dequeue_classic(ecn))
                };
                let is_near = |x: f64| (x - x.round()).abs() < 1e-7;
                prop_assume!(!is_near(printed.lq_count) || printed.lq_count == 0.0);
                prop_assume!(!is_near(printed.cq_count) || printed.cq_count == 0.0);
                let edge = f64::from(coupling) * printed.p_base;
                // A probability of one is the bound, which both reach exactly.
                prop_assume!((edge - 1.0).abs() > 1e-7 || printed.p_base == 1.0);
                prop_assert_eq!(ours, theirs);
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn decisions_are_those_of_the_program_that_the_rfc_prints(
        phases in prop::collection::vec((0u64..150_000, 0u64..150_000, 1u32..40, 0u32..30), 1..10),
        coupling in 1u32..5, seed in 0u32..1000
    ) {
        compare(&phases, coupling, seed)?;
    }
}

#[test]
fn a_probability_at_the_very_edge_of_overload_is_not_compared() {
    // The printed base probability becomes exactly 1/4 = 1/coupling in floating-point numbers, and ours one digit less.
    let compared = compare(&[(16_078, 56_530, 27, 15), (30_809, 30_836, 30, 4)], 4, 875);
    assert!(matches!(compared, Err(TestCaseError::Reject(_))), "{compared:?}");
}

/// Counts of packets that left, were marked and were dropped, and the greatest queueing delay, by codepoint. Packets
/// have 1250 bytes, and one leaves each millisecond, at 10 Mbit/s.
#[derive(Default, Debug)]
struct Passed {
    left: [u32; 4],
    marked: [u32; 4],
    dropped: [u32; 4],
    longest_ms: [f64; 4],
}

impl PacketEvents for Passed {
    fn dropped(&mut self, _now: Time, packet: Packet, _reason: DropReason) {
        self.dropped[packet.body as usize] += 1;
    }
    fn marked(&mut self, _now: Time, packet: &Packet) {
        self.marked[packet.body as usize] += 1;
    }
}

/// Returns the index of a codepoint in the arrays of [`Passed`].
fn index(ecn: Ecn) -> usize {
    usize::from(ecn.bits())
}

fn passed(text: &str, senders: &[(Ecn, u64)], seconds: u64) -> Passed {
    let (mut queue, mut passed, mut now) = (build(text), Passed::default(), 0);
    let mut next: Vec<u64> = senders.iter().map(|(_, rate)| 1_000_000_000 / rate).collect();
    while now < seconds * 1_000_000_000 {
        for ((ecn, rate), at) in senders.iter().zip(&mut next) {
            while *at <= now {
                let packet = Packet { len: 1250, ecn: *ecn, ..packet(u32::from(ecn.bits()), Priority::Low) };
                queue.enqueue(Time::from_nanos(*at), packet, &mut passed);
                *at += 1_000_000_000 / rate;
            }
        }
        if let Some(packet) = queue.dequeue(Time::from_nanos(now), &mut passed) {
            passed.left[packet.body as usize] += 1;
            let longest = &mut passed.longest_ms[packet.body as usize];
            *longest = longest.max((Time::from_nanos(now) - packet.arrived).as_secs() * 1e3);
        }
        now += 1_000_000;
    }
    passed
}

#[test]
fn l4s_packets_that_come_one_by_one_wait_for_no_classic_queue() {
    let passed = passed("dual-pi2:1000", &[(Ecn::ECT_1, 200), (Ecn::NOT_ECT, 1200)], 20);
    assert!(passed.longest_ms[index(Ecn::ECT_1)] <= 1.0, "{passed:?}");
    assert!(passed.longest_ms[index(Ecn::NOT_ECT)] > 10.0, "{passed:?}");
    assert!(passed.dropped[index(Ecn::NOT_ECT)] > 0);
}

#[test]
fn l4s_packets_are_marked_as_often_as_twice_the_root_of_what_is_dropped_of_the_others() {
    // 1040 packets per second arrive and 1000 leave. The senders do not react, so that about 4 % of the classic packets must be dropped.
    let passed = passed("dual-pi2:100000", &[(Ecn::ECT_1, 40), (Ecn::NOT_ECT, 1000)], 400);
    let share = |count: u32, of: u32| f64::from(count) / f64::from(of);
    let dropped = share(passed.dropped[0], passed.left[0] + passed.dropped[0]);
    let marked = share(passed.marked[index(Ecn::ECT_1)], passed.left[index(Ecn::ECT_1)]);
    assert!((dropped - 0.04).abs() < 0.005, "{dropped}");
    assert!((marked / (2.0 * dropped.sqrt()) - 1.0).abs() < 0.05, "{marked} and {dropped}");
}

#[test]
fn classic_packets_have_their_share_of_the_wire_under_a_flood_of_l4s_packets() {
    // Neither sender reacts to signals. The high target prevents drops, which would change the shares.
    for (text, share) in
        [("dual-pi2:100000,target=100s", 0.1), ("dual-pi2:100000,target=100s,classic=30%", 0.3)]
    {
        let passed = passed(text, &[(Ecn::ECT_1, 2000), (Ecn::NOT_ECT, 900)], 10);
        let got = f64::from(passed.left[0]) / 10_000.0;
        assert!((got / share - 1.0).abs() < 0.02, "{text}: {got}, {passed:?}");
    }
}

#[test]
fn an_l4s_queue_that_nothing_slows_is_dropped_from_as_if_it_were_classic() {
    let passed = passed("dual-pi2:100000", &[(Ecn::ECT_1, 1500)], 60);
    let l4s = index(Ecn::ECT_1);
    let share = f64::from(passed.dropped[l4s]) / (60.0 * 1500.0);
    assert!((share - 1.0 / 3.0).abs() < 0.03, "{share}");
}

#[test]
fn classic_packets_that_can_be_marked_are_until_a_quarter_of_them_would_be() {
    let mild = passed("dual-pi2:100000", &[(Ecn::ECT_0, 1001)], 20);
    let classic = index(Ecn::ECT_0);
    assert!(mild.marked[classic] > 0 && mild.dropped[classic] == 0, "{mild:?}");
    let heavy = passed("dual-pi2:100000", &[(Ecn::ECT_0, 1500)], 60);
    assert!(heavy.dropped[classic] > 10_000, "{heavy:?}");
}

#[test]
fn both_queues_share_one_buffer() {
    let (mut queue, mut lost) = (build("dual-pi2:5"), Lost::default());
    for body in 0..8 {
        let ecn = if body % 2 == 0 { Ecn::ECT_1 } else { Ecn::NOT_ECT };
        queue.enqueue(Time::ZERO, Packet { ecn, ..packet(body, Priority::Low) }, &mut lost);
    }
    assert_eq!(queue.backlog().packets, 4);
    assert_eq!(
        lost.0.iter().map(|(packet, reason)| (packet.body, *reason)).collect::<Vec<_>>(),
        [4, 5, 6, 7].map(|body| (body, DropReason::Overflow))
    );
}
