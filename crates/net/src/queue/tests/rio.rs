use super::*;
use crate::Priority::{High as HIGH, Low as LOW, Medium as MED};

fn law(parameters: RioParameters, limit: u32, seed: u32) -> RioLaw {
    RioLaw::new(&parameters, packets(limit), rng(seed))
}

/// Returns the counts of waiting packets by drop precedence.
fn waiting(high: u32, med: u32, low: u32) -> [u64; Priority::COUNT] {
    let mut waiting = [0; Priority::COUNT];
    for (priority, count) in [(HIGH, high), (MED, med), (LOW, low)] {
        waiting[priority as usize] = count.into();
    }
    waiting
}

#[test]
fn what_is_wrong_with_three_levels_is_named() {
    for (text, named) in [
        ("rio", "at least 1"),
        ("rio:0", "at least 1"),
        ("rio:0KB", "15KB (above zero)"),
        ("rio:10,low=10-25", "low=MIN%-MAX%"),
        ("rio:10,low=-1%-25%", "low=MIN%-MAX%"),
        ("rio:10,low=NaN%-25%", "low=MIN%-MAX%"),
        ("rio:10,med=60%-60%", "0 <= MIN < MAX <= 100"),
        ("rio:10,high=60%-101%", "0 <= MIN < MAX <= 100"),
        ("rio:10,med=9%-60%", "decrease from low to med to high"),
        ("rio:10,high=60%-61%,med=40%-62%", "decrease from low to med to high"),
        ("rio:10,weight=0", "weight and max_p in (0, 1]"),
        ("rio:10,max_p=2", "weight and max_p in (0, 1]"),
        ("rio:10,min=3", "min"),
    ] {
        let error = text.parse::<QueueSpec>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains(named), "{error}");
    }
    // Bands may overlap, and levels may be equal.
    for text in ["rio:10,low=10%-40%,med=25%-60%", "rio:10,low=0%-9%,med=0%-9%,high=0%-9%"] {
        assert!(text.parse::<QueueSpec>().is_ok(), "{text}");
    }
}

#[test]
fn each_level_drops_along_its_own_curve() {
    // With a weight of 1, the average equals the count. In a buffer of 1000 packets, one percent is 10 packets.
    let parameters = RioParameters { weight: 1.0, ..RioParameters::default() };
    for (seed, (priority, min, max)) in (0..).zip([(LOW, 100, 250), (MED, 400, 600), (HIGH, 600, 950)]) {
        let mut law = law(parameters, 1000, seed);
        for count in
            [0, min - 1, min, min + 1, (3 * min + max) / 4, (min + max) / 2, max - 1, max, max + 1, 1000]
        {
            let counts = match priority {
                HIGH => waiting(count, 0, 0),
                MED => waiting(count / 3, count - count / 3, 0),
                LOW => waiting(count / 4, count / 4, count - count / 4 * 2),
            };
            let trials = 40_000;
            let verdicts: Vec<Verdict> = (0..trials).map(|_| law.on_arrival(priority, counts)).collect();
            let dropped = verdicts.iter().filter(|&&verdict| verdict != Verdict::Accept).count();
            let expected = match count {
                count if count < min => 0.0,
                count if count < max => 0.1 * f64::from(count - min) / f64::from(max - min),
                _ => 1.0,
            };
            let (share, n) = (dropped as f64 / f64::from(trials), f64::from(trials));
            let error = (expected * (1.0 - expected) / n).sqrt();
            assert!(
                (share - expected).abs() <= 4.0 * error,
                "{priority:?} at {count}: {share}, not {expected}"
            );
            let forced = verdicts.contains(&Verdict::Forced);
            assert_eq!(forced, count >= max, "{priority:?} at {count}");
        }
    }
}

#[test]
fn counts_nest_and_an_arrival_moves_the_averages_of_those_that_it_is_part_of() {
    let averages = |law: &RioLaw| [HIGH, MED, LOW].map(|level| law.average(level));
    let mut law = law(RioParameters::default(), 1000, 0);
    // 2 HIGH, 4 MED and 8 LOW packets wait: counts of 2, 6 and 14.
    law.on_arrival(LOW, waiting(2, 4, 8));
    assert_eq!(averages(&law), [0.0, 0.0, 7.0]);
    law.on_arrival(MED, waiting(2, 4, 8));
    assert_eq!(averages(&law), [0.0, 3.0, 10.5]);
    law.on_arrival(HIGH, waiting(2, 4, 8));
    assert_eq!(averages(&law), [1.0, 4.5, 12.25]);
    // The averages do not decay on an idle link.
    law.on_arrival(HIGH, waiting(0, 0, 0));
    assert_eq!(averages(&law), [0.5, 2.25, 6.125]);
}

#[test]
fn a_trace_by_hand() {
    // In a buffer of ten packets, LOW packets are dropped from an average of five on. The bands are so narrow that no drop is random.
    let text = "rio:10,low=49.9%-50%,med=69.9%-70%,high=89.9%-90%";
    let mut queue = text.parse::<QueueSpec>().unwrap().build(&PortContext::new(&RATE.into(), 1, 0));
    let mut outcomes = Vec::new();
    let arrivals = [
        // Counts at arrival: 0, 1, 2 …; averages of LOW: 0, 0.5, 1.25, 2.125, 3.0625, 4.03125, 5.015625.
        (LOW, None),
        (LOW, None),
        (LOW, None),
        (LOW, None),
        (LOW, None),
        (LOW, None),
        (LOW, Some(DropReason::Forced)),
        // Counts of MED at arrival: 0, 1, 2, 3; averages: 0, 0.5, 1.25, 2.125.
        (MED, None),
        (MED, None),
        (MED, None),
        (MED, None),
        // The buffer is full. The average of HIGH is zero, since no HIGH packet waits.
        (HIGH, Some(DropReason::Overflow)),
    ];
    for (body, &(priority, _)) in (0..).zip(&arrivals) {
        let mut lost = Lost::default();
        queue.enqueue(Time::ZERO, packet(body, priority), &mut lost);
        outcomes.push((priority, lost.0.first().map(|(_, reason)| *reason)));
    }
    assert_eq!(outcomes, arrivals);
    assert_eq!(
        contents(&mut queue).iter().map(|p| p.body).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 5, 7, 8, 9, 10]
    );
}
