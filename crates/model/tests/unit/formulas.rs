//! Comparison of the implemented formulas with the formulas printed in the papers, and tests of consequences of the formulas.

use catnip_base::{Rng, Stream};
use catnip_model::*;

fn close(left: f64, right: f64, tolerance: f64) {
    assert!((left - right).abs() <= tolerance * right.abs().max(1e-300), "{left} is not {right}");
}

const LOSSES: [f64; 8] = [1e-4, 0.001, 0.01, 0.03, 0.1, 0.3, 0.7, 0.999];

#[test]
fn packets_in_slow_start_are_the_printed_sum() {
    for p in LOSSES {
        for d in [1, 2, 5, 36, 143] {
            let sum: f64 = (0..d).map(|k| (1.0 - p).powi(k) * p * f64::from(k)).sum();
            let printed = sum + (1.0 - p).powi(d) * f64::from(d);
            close(terms::slow_start_packets(d.into(), p, false), printed, 1e-9);
            close(terms::slow_start_packets(d.into(), p, true), (printed + 1.0).min(d.into()), 1e-9);
        }
    }
}

#[test]
fn both_branches_of_the_slow_start_time_meet_at_the_largest_window() {
    for (w1, w_max, b) in [(1.0, 24.0, 2.0), (3.0, 8.0, 1.0), (1.0, 64.0, 4.0), (2.0, 2.5, 2.0)] {
        let gamma: f64 = 1.0 + 1.0 / b;
        let e = (gamma * w_max - w1) / (gamma - 1.0);
        close(terms::slow_start_window(e, w1, b), w_max, 1e-12);
        let time = |e| terms::slow_start_time(e, w1, w_max, b, 0.2);
        close(time(e * (1.0 + 1e-12)), time(e * (1.0 - 1e-12)), 1e-10);
    }
}

#[test]
fn slow_start_can_be_cut_in_two_anywhere() {
    let (w1, b, rtt) = (1.0, 2.0, 0.2);
    let time = |e, w1| terms::slow_start_time(e, w1, 1e9, b, rtt);
    for (first, second) in [(3.0, 30.0), (0.5, 7.25), (100.0, 1.0)] {
        let carried = 1.5 * terms::slow_start_window(first, w1, b);
        close(time(first, w1) + time(second, carried), time(first + second, w1), 1e-12);
    }
}

#[test]
fn the_mean_run_of_timeouts_is_the_sum_over_its_lengths() {
    for p in [0.0, 0.01, 0.1, 0.5] {
        let (mut sum, mut length) = (0.0, 0.0);
        for k in 1..400 {
            length += f64::from(1 << (k - 1).min(6));
            sum += p_power(p, k - 1) * (1.0 - p) * length;
        }
        close(terms::timeout_run(p, 1.0), sum, 1e-12);
    }
}

fn p_power(p: f64, k: i32) -> f64 {
    if k == 0 { 1.0 } else { p.powi(k) }
}

#[test]
fn q_is_the_printed_form_of_both_papers() {
    for p in &LOSSES[2..] {
        for w in [3.5, 4.5, 10.0, 24.0] {
            let (s, one) = (1.0 - p, 1.0);
            let hysteresis =
                (one - s.powi(3)) * (one + s.powi(3) * (one - s.powf(w - 3.0))) / (one - s.powf(w));
            let cardwell =
                (one + s.powi(3) * (one - s.powf(w - 3.0))) / ((one - s.powf(w)) / (one - s.powi(3)));
            close(terms::q_hat(*p, w), hysteresis.min(1.0), 1e-10);
            close(terms::q_hat(*p, w), cardwell.min(1.0), 1e-10);
        }
    }
}

#[test]
fn q_meets_its_limit_without_loss_and_is_certain_up_to_three_packets() {
    for w in [3.5, 12.0, 100.0] {
        close(terms::q_hat(1e-12, w), 3.0 / w, 1e-9);
        close(terms::q_hat(0.0, w), 3.0 / w, 1e-15);
    }
    assert_eq!(terms::q_hat(0.01, 3.0), 1.0);
    close(terms::q_hat(0.01, 3.0 + 1e-9), 1.0, 1e-6);
}

#[test]
fn the_set_up_is_the_printed_form() {
    for (pf, pr) in [(0.1, 0.1), (0.0, 0.3), (0.49, 0.02)] {
        let printed = 0.2 + 3.0 * ((1.0 - pr) / (1.0 - 2.0 * pr) + (1.0 - pf) / (1.0 - 2.0 * pf) - 2.0);
        close(terms::handshake(pf, pr, 0.2, 3.0), printed, 1e-12);
    }
}

/// Returns the number of rounds of a period in each branch of PFTK, as printed in the paper.
fn printed_rounds(p: f64, w: f64, b: f64, limited: bool) -> f64 {
    if limited { b * w / 8.0 + (1.0 - p) / (p * w) + 2.0 } else { b * w / 2.0 + 1.0 }
}

#[test]
fn pftk_is_the_printed_form_in_both_branches() {
    for p in LOSSES {
        for (w_max, b) in [(24.0, 2.0), (8.0, 1.0), (1000.0, 1.0), (4.0, 4.0)] {
            let path = Path { w_max, b, ..Path::default() };
            let free = terms::window(p, b);
            let w = free.min(w_max);
            let q = terms::q_hat(p, w);
            let time = path.rtt_s * printed_rounds(p, w, b, free >= w_max) + q * terms::timeout_run(p, 1.0);
            close(pftk_full(p, &path).unwrap(), ((1.0 - p) / p + w + q / (1.0 - p)) / time, 1e-12);
            close(pftk_throughput(p, &path).unwrap(), ((1.0 - p) / p + w / 2.0 + q) / time, 1e-12);
        }
    }
}

#[test]
fn the_branches_of_pftk_differ_by_half_a_round_less_b_quarters() {
    for b in [1.0, 2.0, 4.0] {
        for p in [0.001, 0.01, 0.1] {
            let w = terms::window(p, b);
            let limited = printed_rounds(p, w, b, true);
            close(limited - printed_rounds(p, w, b, false) + 10.0, 10.5 - b / 4.0, 1e-9);
        }
    }
}

#[test]
fn pftk_jumps_up_without_delayed_acks_and_is_continuous_with_them() {
    let across = |b: f64| {
        let p = 0.05;
        let path = Path { b, w_max: terms::window(p, b), ..Path::default() };
        let rate = |p| pftk_full(p, &path).unwrap();
        rate(p * (1.0 + 1e-9)) / rate(p * (1.0 - 1e-9))
    };
    assert!(across(1.0) > 1.001, "more loss, more rate: {}", across(1.0));
    close(across(2.0), 1.0, 1e-7);
    assert!(across(4.0) < 0.999, "{}", across(4.0));
}

#[test]
fn the_growth_law_has_its_closed_sum_and_reaches_the_largest_window_in_time() {
    for n in [1, 5, 12] {
        let sum: f64 =
            (1..=n).map(|n| ((f64::from(n) - 1.0) / 2.0).exp2() + ((f64::from(n) - 2.0) / 2.0).exp2()).sum();
        close((2.0 + 3.0 / 2f64.sqrt()) * ((f64::from(n) / 2.0).exp2() - 1.0), sum, 1e-12);
    }
    for w_max in [8, 24, 64, 1000] {
        let round = (2.0 * (2.0 * f64::from(w_max) / (1.0 + 2f64.sqrt())).log2()).ceil() as u32;
        assert_eq!(sikdar_packets(round, w_max), w_max);
        assert!(sikdar_packets(round - 1, w_max) < w_max);
    }
    let rounds: Vec<u32> = (1..=10).map(|n| sikdar_packets(n, 24)).collect();
    assert_eq!(rounds, [1, 2, 3, 4, 6, 9, 13, 19, 24, 24]);
}

#[test]
fn the_probabilities_of_the_three_cases_add_up() {
    for p in [0.0, 1e-9, 1e-4, 0.002, 0.003, 0.1, 0.9] {
        for n in [1, 2, 36, 200] {
            let r = sikdar_threecase(n, p, &Path::default()).unwrap();
            close(r.p0 + r.p1 + r.p2, 1.0, 1e-12);
            let two = f64::from(n) * f64::from(n - 1) / 2.0 * p * p;
            if p <= 1e-9 {
                close(r.p2, two, 1e-6);
            }
        }
    }
}

#[test]
fn windows_by_probability_give_the_mean_and_spread_of_the_samples() {
    for (n, p, w_max) in SAMPLED {
        let path = Path { w_max, ..Path::default() };
        let hysteresis = Hysteresis::new(n, p, &path, Options::default()).unwrap();
        agrees(SAMPLES, hysteresis.exact(), |rng| hysteresis.sample(rng));
    }
}

#[test]
fn windows_by_probability_give_the_mean_and_spread_of_the_samples_with_marks() {
    for (n, p, w_max) in SAMPLED {
        let path = Path { w_max, ..Path::default() };
        let partial = PartialCatnip::new(n, p, p / 4.0, &path).unwrap();
        agrees(SAMPLES, partial.exact(), |rng| partial.sample(rng));
    }
}

const SAMPLES: u32 = 200_000;
/// Packets, loss probability and largest window.
const SAMPLED: [(u32, f64, f64); 5] =
    [(12, 0.05, 24.0), (36, 0.01, 24.0), (36, 0.1, 24.0), (143, 0.03, 8.0), (143, 0.1, 24.0)];

/// Checks that the mean is within four standard errors of the exact mean, and the standard deviation within 2 % of the exact one.
fn agrees(samples: u32, exact: Moments, draw: impl Fn(&mut Rng) -> f64) {
    let mut rng = Rng::new(20, Stream::Connection(0));
    let (mut sum, mut squares) = (0.0, 0.0);
    for _ in 0..samples {
        let difference = draw(&mut rng) - exact.mean_s;
        sum += difference;
        squares += difference * difference;
    }
    let (n, sd) = (f64::from(samples), exact.sd_s);
    assert!((sum / n).abs() <= 4.0 * sd / n.sqrt(), "{exact:?}, mean {}", exact.mean_s + sum / n);
    close((squares / n).sqrt(), sd, 0.02);
}

#[test]
fn the_exact_mean_is_that_of_every_way_through_the_cycles() {
    for options in [(true, true), (true, false), (false, true)] {
        let options = Options { plus_one: options.0, last_cycle_loss: options.1 };
        let model = Hysteresis::new(36, 0.06, &Path::default(), options).unwrap();
        let means: Vec<f64> = (0..2)
            .map(|rule| {
                model.by_rule(if rule == 0 { Rule::AllTimeouts } else { Rule::FastRetransmitWhenPossible })
            })
            .collect();
        let exact = model.exact();
        assert!(means[1] < exact.mean_s && exact.mean_s < means[0], "{means:?} {exact:?}");
        agrees(50_000, exact, |rng| model.sample(rng));
    }
}

#[test]
fn the_trace_adds_up_to_the_latency() {
    let model = Hysteresis::new(143, 0.1, &Path::default(), Options::default()).unwrap();
    for rule in [Rule::AllTimeouts, Rule::FastRetransmitWhenPossible] {
        let cycles = model.trace(rule);
        assert_eq!(cycles.len(), model.cycles());
        close(cycles.iter().map(|c| c.t_ss_s + c.t_loss_s).sum(), model.by_rule(rule), 1e-12);
        close(cycles.iter().map(|c| c.e).sum(), 143.0, 1e-12);
    }
}

#[test]
fn without_the_lost_packet_cycles_go_on_until_less_than_one_packet_is_left() {
    for (n, p) in [(6, 0.1), (36, 0.05), (100, 0.2)] {
        let options = Options { plus_one: false, ..Options::default() };
        let model = Hysteresis::new(n, p, &Path::default(), options).unwrap();
        // Packets sent in a cycle by the hysteresis paper, Eq. 3: (1 - (1-p)^d)(1-p)/p of the d packets that are left.
        let (mut left, mut expected) = (f64::from(n), Vec::new());
        while left >= 1.0 {
            expected.push(left);
            left -= (1.0 - (1.0 - p).powf(left)) * (1.0 - p) / p;
        }
        let cycles = model.trace(Rule::AllTimeouts);
        assert_eq!((cycles.len(), model.cycles()), (expected.len(), expected.len()));
        cycles.iter().zip(expected).for_each(|(cycle, left)| close(cycle.d, left, 1e-12));
    }
}

#[test]
fn the_chain_of_timeouts_has_the_mean_of_its_samples() {
    for (packets, p, it0_s) in [(1, 0.1, 0.2), (3, 0.19, 0.2), (22, 0.1, 0.6), (8, 0.3, 1.0)] {
        let chain = Chain { packets, p, it0_s, r0_s: 3.0, clamp_s: 120.0 };
        let mut rng = Rng::new(5, Stream::Connection(1));
        let n = 200_000;
        let draws: Vec<f64> = (0..n).map(|_| chain.sample(&mut rng)).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
        let exact = chain.exact().unwrap();
        assert!((mean - exact).abs() < 4.0 * (variance / f64::from(n)).sqrt(), "{mean} {exact}");
    }
}

#[test]
fn loss_next_to_certain_ends_all_the_same() {
    let p = 1.0 - f64::EPSILON;
    let chain = Chain { packets: 3, p, it0_s: 0.2, r0_s: 3.0, clamp_s: 120.0 };
    let mut rng = Rng::new(5, Stream::Connection(1));
    assert!(chain.sample(&mut rng) > 1e9 && chain.exact().unwrap().is_finite());
    let of = |options| Hysteresis::new(36, p, &Path::default(), options);
    assert_eq!(of(Options::default()).unwrap().cycles(), 36);
    let error = of(Options { plus_one: false, ..Options::default() }).unwrap_err();
    assert_eq!(error.parameter, "p");
}

#[test]
fn the_largest_transfers_are_worked_out_with_few_windows_at_a_time() {
    let n = 1_000_000;
    let exact = Hysteresis::new(n, 0.05, &Path::default(), Options::default()).unwrap().exact();
    let per_packet = exact.mean_s / f64::from(n);
    assert!(per_packet > 0.05 && per_packet < 0.2, "{exact:?}");
}

#[test]
fn one_packet_of_the_chain_is_a_geometric_sum() {
    let q = 0.3;
    let chain = Chain { packets: 1, p: q, it0_s: 0.2, r0_s: 3.0, clamp_s: 120.0 };
    let sum: f64 = (0..200).map(|k| p_power(q, k + 1) * (3.0 * 2f64.powi(k)).min(120.0)).sum();
    close(chain.exact().unwrap(), sum, 1e-12);
}

/// Recursive definition of [`recursive_short_flow`], without the table of the implementation.
struct Printed {
    p: f64,
    path: Path,
    b: i64,
    w_max: i64,
}

impl Printed {
    fn time(&self, n: i64, x: i64, s: i64) -> f64 {
        if n <= 0 {
            return 0.0;
        }
        let Self { p, path, b, w_max } = self;
        let up = |a: i64| (a + b - 1) / b;
        let arrive = |c: i64| (1.0 - p).powi(c as i32);
        let w = (x / b).min(*w_max);
        let k = w.min(n);
        let grown = if w < s { ((w + up(w)) * b).min(b * w_max) } else { (x + 1).min(b * w_max) };
        let h = (w / 2).max(2);
        let mut time = path.rtt_s + if w == 1 { path.delack_s } else { 0.0 };
        time += arrive(k) * self.time(n - k, grown, s);
        for j in 1..=k {
            let clocked = if w < s { up(j - 1) } else { 0 };
            let c = (n - j).min(k - j + j - 1 + clocked);
            let g = if c >= 3 { arrive(c) } else { 0.0 };
            let delivered =
                if c < 3 { c as f64 * (1.0 - p) } else { (c as f64 * (1.0 - p) - c as f64 * g) / (1.0 - g) };
            let fast = path.rtt_s + self.time(n - j - c, b * h, h);
            let run = terms::timeout_run(*p, path.t0_s) + path.rtt_s;
            let slow = run + self.time(n - j - delivered as i64, 2 * b, h);
            time += arrive(j - 1) * p * (g * fast + (1.0 - g) * slow);
        }
        time
    }
}

#[test]
fn the_table_of_the_recursion_is_the_recursion_as_printed() {
    for (w_max, b, w1, n) in [
        (24, 2, 1, 11),
        (8, 1, 2, 11),
        (2, 2, 1, 8),
        (1, 3, 1, 7),
        (5, 3, 4, 10),
        // Windows that are too large for the data to fill, in all rounds or in later rounds only.
        (64, 2, 40, 11),
        (64, 1, 1, 12),
        (64, 1, 5, 12),
    ] {
        for p in [0.01, 0.1, 0.6] {
            let path = Path { w_max: w_max as f64, b: b as f64, w1: f64::from(w1), ..Path::default() };
            let printed = Printed { p, path, b, w_max }.time(n, i64::from(w1) * b, w_max);
            close(recursive_short_flow(n as u32, p, &path).unwrap(), printed, 1e-12);
        }
    }
}

#[test]
fn the_recursion_takes_thousands_of_packets_and_refuses_what_would_not_end() {
    let long = recursive_short_flow(4000, 0.02, &Path::default()).unwrap();
    let rate = 4000.0 / long;
    let steady = pftk_throughput(0.02, &Path::default()).unwrap();
    assert!(rate > 0.5 * steady && rate < 2.0 * steady, "{rate} {steady}");
    let wide = Path { w_max: 1e6, ..Path::default() };
    assert!(recursive_short_flow(36, 0.02, &wide).is_ok(), "windows that the data cannot fill cost nothing");
    // Too many table entries, too many steps, and both. In the last case, only the states of slow start make the number of steps too large.
    let [entries, steps] = [(5_100, 100.0, 100.0), (2_000, 1e6, 5.0)];
    for (n, w_max, b) in [entries, steps, (1_000_000, 1e6, 2.0), (1_000, 1e6, 2.0)] {
        let error = recursive_short_flow(n, 0.02, &Path { w_max, b, ..Path::default() }).unwrap_err();
        assert_eq!((error.parameter, error.value), ("N", f64::from(n)));
    }
}

#[test]
fn up_to_six_packets_partial_catnip_is_the_hysteresis_model_with_high_priority() {
    for n in 1..=6 {
        let partial = PartialCatnip::new(n, 0.1, 0.02, &Path::default()).unwrap().exact();
        assert_eq!(partial, Hysteresis::new(n, 0.02, &Path::default(), Options::default()).unwrap().exact());
    }
}

#[test]
fn equal_priorities_do_not_give_the_hysteresis_model_because_each_step_has_its_loss_phase() {
    let partial = PartialCatnip::new(36, 0.1, 0.1, &Path::default()).unwrap().exact();
    let plain = Hysteresis::new(36, 0.1, &Path::default(), Options::default()).unwrap().exact();
    assert!((partial.mean_s - plain.mean_s).abs() > 0.1, "{partial:?} {plain:?}");
    let without = |n| {
        let plain = Hysteresis::new(n, 0.0, &Path::default(), Options::default()).unwrap().exact();
        (PartialCatnip::new(n, 0.0, 0.0, &Path::default()).unwrap().exact().mean_s, plain.mean_s)
    };
    // Without loss, the stages form one slow start, because the window carries over.
    let (partial, plain) = without(36);
    close(partial, plain, 1e-12);
}

#[test]
fn the_probability_of_several_losses_is_the_tail_of_a_binomial_however_small() {
    for (n, p) in [(2, 1e-9), (10, 1e-4), (49, 2e-3), (51, 2e-3), (1000, 1e-6), (3, 0.3)] {
        let (mut choose, mut tail) = (1.0, 0.0);
        for k in 0..=n {
            if k >= 2 {
                tail += choose * f64::powi(p, k) * f64::powi(1.0 - p, n - k);
            }
            choose *= f64::from(n - k) / f64::from(k + 1);
        }
        let p2 = sikdar_threecase(n as u32, p, &Path::default()).unwrap().p2;
        close(p2, tail, 1e-11);
    }
}

#[test]
fn the_wait_of_a_delayed_ack_comes_once_on_top_of_cardwells_phases() {
    let path = |delack_s| Path { delack_s, ..Path::default() };
    let latency_s = |delack_s| cardwell98(7, 0.05, &path(delack_s), true).unwrap().latency_s;
    close(latency_s(0.25), latency_s(0.0) + 0.25, 1e-12);
}

#[test]
fn the_new_model_s_slow_start_is_that_of_its_acks() {
    // WZK: each phase takes log(1 + e/(b w)) round trips, with the logarithm to the base 1 + 1/b.
    for b in [1.0, 2.0, 3.0] {
        let r = wzk_new(40, 0.05, 0.1, b, 3.0, 120.0).unwrap();
        let rounds = (1.0 + r.phases.e / (b * r.w)).ln() / (1.0 + 1.0 / b).ln();
        close(r.phases.t_xfer_s, r.phases.v * rounds * 0.2, 1e-12);
        close(r.phases.q, terms::q_approx(r.p, b), 1e-12);
    }
}
