use super::*;
use crate::{Dscp, Ecn, Route};
use catnip_base::{Span, Stream};

const PACKETS: u32 = 200_000;

/// Sends many packets, every third of them HIGH, through a stage. Returns the priority of each packet, and true if the packet is lost.
fn lost(text: &str) -> Vec<(Priority, bool)> {
    let mut model = text.parse::<StageSpec>().unwrap().build(Rng::new(3, Stream::Before(0, 0)));
    let one = |n: u32| {
        let priority = if n.is_multiple_of(3) { Priority::High } else { Priority::Low };
        let mut packet =
            Packet { dscp: priority.into(), ..Packet::new(Time::ZERO, Route::default(), 512, n) };
        (priority, model.pass(Time::ZERO, &mut packet).is_err())
    };
    (0..PACKETS).map(one).collect()
}

fn rate(lost: &[(Priority, bool)], of: impl Fn(Priority) -> bool) -> (f64, f64) {
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
    assert_near(rate(&split, |p| p == Priority::High), 0.01);
    assert_near(rate(&split, |p| p == Priority::Low), 0.1);
    assert_eq!(lost("priority:high=0.05,low=0.05"), lost("bernoulli:0.05"));
}

#[test]
fn gilbert_elliott_has_the_stationary_rate_and_the_burst_length_of_its_chain() {
    // The bad state lasts for 1 / 0.25 = 4 packets on average, and for a share of 0.05 / (0.05 + 0.25) of all packets.
    let spec = "gilbert-elliott:to_bad=0.05,to_good=0.25,loss_bad=1";
    let losses: Vec<bool> = lost(spec).into_iter().map(|(_, lost)| lost).collect();
    let bursts = losses.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
    let lost = losses.iter().filter(|lost| **lost).count() as f64;
    assert!((lost / f64::from(PACKETS) - 1.0 / 6.0).abs() < 0.005, "{}", lost / f64::from(PACKETS));
    assert!((lost / bursts - 4.0).abs() < 0.15, "{}", lost / bursts);
}

#[test]
fn four_states_have_the_stationary_rate_and_the_bursts_of_their_chain() {
    let flags = |text| lost(text).into_iter().map(|(_, lost)| lost).collect::<Vec<bool>>();
    let share = |losses: &[bool]| losses.iter().filter(|lost| **lost).count() as f64 / f64::from(PACKETS);
    // Balance of the states: π1 p13 = π3 p31, π3 p32 = π2 p23, and π4 = π1 p14.
    let (p13, p31, p32, p23, p14) = (0.02, 0.2, 0.1, 0.4, 0.01);
    let (three, four) = (p13 / p31, p14);
    let all = 1.0 + three * (1.0 + p32 / p23) + four;
    let losses = flags("four-state:p13=0.02,p31=0.2,p32=0.1,p23=0.4,p14=0.01");
    assert!((share(&losses) - (three + four) / all).abs() < 0.004, "{}", share(&losses));
    // Without reception within bursts the model is Gilbert's channel, and with p13 alone losses are independent.
    assert!((share(&flags("four-state:p13=0.05,p31=0.25")) - 1.0 / 6.0).abs() < 0.005);
    assert!((share(&flags("four-state:p13=0.05")) - 0.05).abs() < 0.003);
    // With isolated losses alone, two consecutive packets are never lost.
    let alone = flags("four-state:p13=0,p14=0.3");
    assert!((share(&alone) - 0.3 / 1.3).abs() < 0.004 && alone.windows(2).all(|w| !(w[0] && w[1])));
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
        ("evenly:0.1", "one of bernoulli, priority, gilbert-elliott, packets, policer, tb-marker, "),
        ("policer", "high=RATE/DEPTH"),
        ("policer:high=250kbit", "high=RATE/DEPTH"),
        ("policer:high=250kbit/6000B,action=shape", "action=remark or drop"),
        ("policer:high=250kbit/6000B,low=250kbit/6000B", "unknown parameter \"low\""),
        ("outage:every=2s", "every=30s,for=2s"),
        ("outage:every=2s,for=1s,to=3s", "unknown parameter \"to\""),
        ("reorder", "a probability"),
        ("reorder:1", "in [0, 1)"),
        ("reorder:0.1,by=0ms", "a time above zero"),
        ("reorder:0.1,by=some", "a time above zero"),
        ("reorder:0.1,by=3,within=0ms", "a time above zero"),
        ("reorder:0.1,by=5ms,within=9ms", "unknown parameter \"within\""),
        ("late:by=5ms", "from 1"),
        ("late:3,by=0ms", "a time above zero"),
        ("marks:0", "from 1"),
        ("marks:3,by=2ms", "unknown parameter \"by\""),
        ("duplicate:-0.1", "in [0, 1)"),
        ("tb-marker:med=250kbit/6000B", "high=RATE/DEPTH"),
        ("tb-marker:high=250kbit/6000B,action=drop", "unknown parameter \"action\""),
    ] {
        let error = text.parse::<StageSpec>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains(named), "{error}");
    }
}

/// Sends packets of 1000 bytes with these codepoints through a stage, one per millisecond. Returns the new codepoint of each packet, or the
/// reason for its drop.
fn conditioned(text: &str, codepoints: &[u8]) -> Vec<Result<u8, DropReason>> {
    let mut stage = text.parse::<StageSpec>().unwrap().build(Rng::new(3, Stream::Conditioner(0, 0)));
    let one = |(n, &codepoint): (u32, &u8)| {
        let now = Time::from_nanos(u64::from(n) * 1_000_000);
        let dscp = Dscp::new(codepoint);
        let mut packet = Packet { dscp, ..Packet::new(now, Route::default(), 1000, n) };
        stage.pass(now, &mut packet).map(|()| packet.dscp.codepoint())
    };
    (0..).zip(codepoints).map(one).collect()
}

#[test]
fn a_policer_takes_what_is_beyond_its_profile_one_level_down_after_the_other() {
    // 8 Mbit/s are a packet of 1000 bytes per millisecond. The second of two consecutive HIGH packets conforms, too.
    let (high, med) = ("high=4Mbit/2000B", "med=4Mbit/1000B");
    let af11 = [10; 8];
    // The HIGH bucket holds 2000, 1500, 1000 bytes and so on: tokens for three packets, and then for every second packet. The MED bucket
    // has tokens for every second packet.
    let conditioned_11 = [10, 10, 10, 12, 10, 12, 10, 12].map(Ok);
    assert_eq!(conditioned(&format!("policer:{high},{med}"), &af11), conditioned_11);
    assert_eq!(conditioned(&format!("policer:{high}"), &af11), [10, 10, 10, 14, 10, 14, 10, 14].map(Ok));
    let dropped = Err(DropReason::Policed);
    let (ok, no) = (Ok(10), dropped);
    assert_eq!(
        conditioned(&format!("policer:{high},{med},action=drop"), &af11),
        [ok, ok, ok, no, ok, no, ok, no],
        "a dropped packet takes no tokens of MED"
    );
    // MED has its own bucket, against which remarked packets are checked, too. LOW and unmarked packets are not limited and keep their
    // codepoints.
    assert_eq!(
        conditioned(&format!("policer:{high},{med}"), &[12, 12, 12, 14, 0, 46, 12]),
        [12, 14, 12, 14, 0, 46, 12].map(Ok)
    );
    let slow = "policer:high=4Mbit/2000B,med=1kbit/1000B";
    assert_eq!(
        conditioned(slow, &[10, 10, 10, 10, 12, 10, 10, 10]),
        [10, 10, 10, 12, 14, 10, 10, 14].map(Ok)
    );
    assert_eq!(
        conditioned(&format!("policer:{high}"), &[12, 14]),
        [14, 14].map(Ok),
        "without a profile of MED"
    );
    assert_eq!(conditioned(&format!("policer:{high},action=drop"), &[12, 14]), [dropped, Ok(14)]);
    // Remarking keeps the class.
    assert_eq!(conditioned("policer:high=1bit/999B,med=1bit/1000B", &[34, 34, 18]), [36, 38, 22].map(Ok));
}

#[test]
fn an_edge_marks_what_its_buckets_admit_whatever_it_said() {
    let marker = "tb-marker:high=4Mbit/1000B,med=2Mbit/1000B";
    assert_eq!(conditioned(marker, &[0, 14, 12, 10, 0, 0]), [10, 12, 10, 14, 10, 12].map(Ok));
    assert_eq!(
        conditioned(marker, &[22, 38, 46, 18]),
        [18, 36, 10, 22].map(Ok),
        "in the class that it has, or in the first"
    );
    assert_eq!(conditioned("tb-marker:high=4Mbit/1000B", &[0, 0, 0]), [10, 14, 10].map(Ok));
    // A packet larger than the depth never conforms.
    assert_eq!(conditioned("tb-marker:high=4Mbit/999B,med=4Mbit/1000B", &[0]), [Ok(12)]);
}

#[test]
fn the_packets_that_were_named_are_marked_if_they_can_be_and_no_others() {
    let mut stage = "marks:2,4".parse::<StageSpec>().unwrap().build(Rng::new(1, Stream::After(0, 0)));
    let marked = [Ecn::ECT_0, Ecn::ECT_0, Ecn::ECT_1, Ecn::NOT_ECT].map(|ecn| {
        let mut packet = Packet { ecn, ..Packet::new(Time::ZERO, Route::default(), 1000, 0) };
        stage.pass(Time::ZERO, &mut packet).unwrap();
        packet.ecn
    });
    assert_eq!(marked, [Ecn::ECT_0, Ecn::CE, Ecn::ECT_1, Ecn::NOT_ECT]);
}

#[test]
fn the_packets_that_were_named_come_late_and_no_others() {
    let mut stage = "late:1,3,by=5ms".parse::<StageSpec>().unwrap().build(Rng::new(1, Stream::After(0, 0)));
    let packet = Packet::new(Time::ZERO, Route::default(), 1000, 0);
    let late = [0; 4].map(|_| matches!(stage.forwarding(&packet), Forwarding::Delayed { by, overtakers: None } if by == Span::from_millis(5)));
    assert_eq!(late, [true, false, true, false]);
}
