use super::*;
use crate::Route;
use catnip_base::Stream;

const PACKETS: u32 = 200_000;

/// Which of many packets, every third of them HIGH, are lost.
fn lost(text: &str) -> Vec<(Colour, bool)> {
    let mut model = text.parse::<StageSpec>().unwrap().build(Rng::new(3, Stream::Before(0, 0)));
    let one = |n: u32| {
        let priority = if n.is_multiple_of(3) { Colour::Green } else { Colour::Red };
        let mut packet =
            Packet { dscp: priority.into(), ..Packet::new(Time::ZERO, Route::default(), 512, n) };
        (priority, model.pass(Time::ZERO, &mut packet).is_err())
    };
    (0..PACKETS).map(one).collect()
}

fn rate(lost: &[(Colour, bool)], of: impl Fn(Colour) -> bool) -> (f64, f64) {
    let chosen: Vec<bool> =
        lost.iter().filter(|(priority, _)| of(*priority)).map(|(_, lost)| *lost).collect();
    (chosen.iter().filter(|lost| **lost).count() as f64 / chosen.len() as f64, chosen.len() as f64)
}

fn assert_near((measured, n): (f64, f64), p: f64) {
    assert!((measured - p).abs() < 4.0 * (p * (1.0 - p) / n).sqrt() + 1e-9, "{measured} is not near {p}");
}

#[test]
fn bernoulli_loses_the_share_it_is_told_to() {
    assert_near(rate(&lost("bernoulli:0.05"), |_| true), 0.05);
}

#[test]
fn each_priority_has_its_own_rate_and_equal_rates_lose_the_same_packets_as_bernoulli() {
    let split = lost("priority:high=0.01,low=0.1");
    assert_near(rate(&split, |p| p == Colour::Green), 0.01);
    assert_near(rate(&split, |p| p == Colour::Red), 0.1);
    assert_eq!(lost("priority:high=0.05,low=0.05"), lost("bernoulli:0.05"));
}

#[test]
fn gilbert_elliott_has_the_stationary_rate_and_the_burst_length_of_its_chain() {
    // The bad state holds for 1 / 0.25 = 4 packets on average and a share of 0.05 / (0.05 + 0.25) of the time.
    let spec = "gilbert-elliott:to_bad=0.05,to_good=0.25,loss_bad=1";
    let losses: Vec<bool> = lost(spec).into_iter().map(|(_, lost)| lost).collect();
    let bursts = losses.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
    let lost = losses.iter().filter(|lost| **lost).count() as f64;
    assert!((lost / f64::from(PACKETS) - 1.0 / 6.0).abs() < 0.005, "{}", lost / f64::from(PACKETS));
    assert!((lost / bursts - 4.0).abs() < 0.15, "{}", lost / bursts);
}

#[test]
fn a_list_loses_exactly_its_packets_once_each() {
    let losses = lost("packets:20,1,22,20");
    let numbers: Vec<usize> = (1..=losses.len()).filter(|&n| losses[n - 1].1).collect();
    assert_eq!(numbers, [1, 20, 22]);
}

#[test]
fn what_is_wrong_with_a_stage_is_named() {
    for (text, named) in [
        ("bernoulli:1.5", "in [0, 1)"),
        ("bernoulli", "a probability"),
        ("priority:high=1", "in [0, 1)"),
        ("gilbert-elliott:to_bad=2", "in [0, 1]"),
        ("packets:0", "from 1"),
        ("packets", "from 1"),
        ("packets:3,x", "from 1"),
        ("uniform:0.1", "one of bernoulli, priority, gilbert-elliott, packets"),
    ] {
        let error = text.parse::<StageSpec>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains(named), "{error}");
    }
}
