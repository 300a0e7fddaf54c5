//! Tests of traffic of the kind `video`: what is played, when it stalls, and when segments are asked for.

use catnip_base::math;
use catnip_lab::{Column, RunRequest, Scenario, Table, TableName, run_all};
use std::collections::BTreeMap;
use std::path::Path;

/// Returns the tables of videos and segments of a user behind a link of this rate. A video has 30 segments of 1 s and 250 KB.
fn run(rate: &str, keys: &str) -> [Table; 2] {
    let text = format!(
        "id = 'X'\ntitle = 'x'\nduration = '200s'\n[tcp]\nprofile = 'rfc'\n\
         [node]\nserver = {{ kind = 'host' }}\nuser = {{ kind = 'host' }}\n\
         [link.l]\nfrom = 'server'\nto = 'user'\nrate = '{rate}'\ndelay = '20ms'\nqueue = 'drop-tail:100'\n\
         [traffic.video]\nkind = 'video'\nclients = 'user'\nservers = 'server'\n\
         segment = '1s'\nlength = '30s'\npause = '1s'\n{keys}\n{}\n",
        if keys.contains("ladder") { "" } else { "rate = '2Mbit'" }
    );
    let scenario = Scenario::parse(Path::new("x.toml"), &text).unwrap_or_else(|error| panic!("{error}"));
    let wanted = ["videos", "segments"].map(|name| name.parse::<TableName>().unwrap());
    let (variants, seeds, tables) = (vec!["default"], vec![1], wanted.to_vec());
    let request = RunRequest { variants, seeds, tables, threads: 1, every: None };
    let mut tables: BTreeMap<_, _> = run_all(&scenario, &request, &mut |_| true).unwrap().unwrap();
    wanted.map(|name| tables.remove(&name).unwrap())
}

fn column(table: &Table, name: &str) -> Vec<f64> {
    match table.column(name) {
        Column::Float(values) => values.clone(),
        Column::Integer(values) => values.iter().map(|&value| value as f64).collect(),
        Column::Text(_) => panic!("{name} has names"),
    }
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

#[test]
fn a_fast_link_stalls_nowhere_and_a_full_buffer_asks_for_a_segment_each_second() {
    let [videos, segments] = run("20Mbit", "buffer = '6s'\nstart = '3s'");
    let of = |name| column(&videos, name);
    assert_eq!((of("stalls")[0], of("stalled_s")[0], of("segments")[0]), (0.0, 0.0, 30.0));
    let (starts, times) = (column(&segments, "start_s"), column(&segments, "time_s"));
    // Playing begins with the third segment, and a video takes its 30 s from then on.
    let startup = of("startup_s")[0];
    assert!(close(startup, starts[2] + times[2] - starts[0]), "{startup}");
    assert!(close(of("time_s")[0], startup + 30.0));
    // The next video begins a second later.
    assert!(close(of("start_s")[1], of("start_s")[0] + startup + 31.0));
    // Five segments ahead leave room for one more. From then on each second of playing makes room for one.
    let begins = starts[0] + startup;
    let waited: Vec<f64> = (0..30)
        .filter(|&n| n > 0 && !close(starts[n], starts[n - 1] + times[n - 1]))
        .map(|n| n as f64)
        .collect();
    assert!(waited.len() > 20 && waited.len() == 30 - waited[0] as usize, "{waited:?}");
    for &n in &waited {
        assert!(close(starts[n as usize], begins + n - 5.0), "segment {n}");
    }
    let fetching: f64 = times[..30].iter().sum();
    assert!(close(of("rate_mbps")[0], 8.0 * 0.25 * 30.0 / fetching));
}

#[test]
fn a_slow_link_stalls_and_what_stalls_and_starts_adds_up_to_the_time_of_the_video() {
    let [videos, segments] = run("1.5Mbit", "start = '2s'");
    let of = |name| column(&videos, name)[0];
    let (starts, times) = (column(&segments, "start_s"), column(&segments, "time_s"));
    // Without room to wait for, requests follow each other.
    assert!((1..30).all(|n| close(starts[n], starts[n - 1] + times[n - 1])));
    // Two segments are ready, and play for two seconds; a segment takes about 1.39 s, so that a third comes and no fourth before they are
    // over. With each stall two more are waited for, but for the last one.
    let fetched_at: Vec<f64> = (0..30).map(|n| starts[n] + times[n] - starts[0]).collect();
    let (mut playing_until, mut stalls, mut stalled, mut ready) = (fetched_at[1] + 2.0, 0, 0.0, 2);
    for (n, &fetched) in fetched_at.iter().enumerate().skip(2) {
        if fetched < playing_until {
            playing_until += 1.0;
            ready = n + 1;
        } else if n + 1 == ready + 2 || n == 29 {
            stalls += 1;
            stalled += fetched - playing_until;
            playing_until = fetched + (n + 1 - ready) as f64;
            ready = n + 1;
        }
    }
    assert!(stalls > 3);
    assert_eq!(of("stalls"), f64::from(stalls));
    assert!(close(of("stalled_s"), stalled), "{} is not {stalled}", of("stalled_s"));
    assert!(close(of("time_s"), of("startup_s") + 30.0 + stalled));
}

#[test]
fn each_rule_settles_where_its_law_says_and_what_was_fetched_is_told() {
    let ladder = "ladder = ['500kbit', '1Mbit', '2Mbit', '4Mbit']\nbuffer = '20s'\nstart = '2s'";
    for (rule, last, reason) in [
        ("throughput", 2.0, "nine tenths of 3 Mbit/s are above 2 and below 4"),
        ("throughput:safety=50%", 1.0, "half of 3 Mbit/s is above 1 and below 2"),
        ("bba:reservoir=2s,cushion=4s", 4.0, "with 6 s in the buffer, the highest rate"),
    ] {
        let [videos, segments] = run("3Mbit", &format!("{ladder}\nrule = '{rule}'"));
        let (rates, bytes) = (column(&segments, "rate_mbps"), column(&segments, "bytes"));
        assert_eq!(rates[0], 0.5, "{rule}: nothing is known, and nothing is in the buffer");
        assert!(rates[5..30].contains(&last), "{rule}: {reason}: {rates:?}");
        assert!(rates.iter().zip(&bytes).all(|(rate, bytes)| close(rate * 1e6 / 8.0, *bytes)));
        let of = |name| column(&videos, name)[0];
        assert!(close(of("mean_rate_mbps"), rates[..30].iter().sum::<f64>() / 30.0));
        let switches = rates[..30].windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(of("switches"), switches as f64, "{rates:?}");
    }
    // By the law of BOLA, no rate is fetched with more in the buffer than V (v + gp) s.
    let [videos, segments] = run("3Mbit", &format!("{ladder}\nrule = 'bola'"));
    let v = 19.0 / (math::ln(8.0) + 5.0);
    let (rates, starts) = (column(&segments, "rate_mbps"), column(&segments, "start_s"));
    let begins = column(&videos, "start_s")[0] + column(&videos, "startup_s")[0];
    for n in 1..30 {
        let ahead_s = n as f64 - (starts[n] - begins).max(0.0);
        assert!(
            ahead_s <= v * (math::ln(rates[n] / 0.5) + 5.0) + 1e-9,
            "segment {n} of {} with {ahead_s} s",
            rates[n]
        );
    }
}

#[test]
fn what_a_video_cannot_have_is_named() {
    for (keys, named) in [
        ("buffer = '4s'\nstart = '4s'", "traffic.video.buffer"),
        ("rule = 'adaptive'", "one of fixed, throughput, bba, bola"),
        ("rule = 'bola'", "traffic.video.ladder: required with rule bola"),
        ("ladder = ['1Mbit', '2Mbit']", "traffic.video.ladder: rule fixed has no choice"),
        (
            "rule = 'bola'\nladder = ['1Mbit', '2Mbit']",
            "traffic.video.ladder: required with rule bola:gp=5, without rate",
        ),
        ("rule = 'throughput:safety=0'", "a share above 0"),
        ("rule = 'bba:cushion=0s'", "a cushion above zero"),
        ("request_bytes = 0", "traffic.video.request_bytes"),
    ] {
        let text = format!(
            "id = 'X'\ntitle = 'x'\nduration = '9s'\n[node]\na = {{ kind = 'host' }}\nb = {{ kind = 'host' }}\n\
             [link.l]\nfrom = 'a'\nto = 'b'\nrate = '1Mbit'\ndelay = '1ms'\nqueue = 'drop-tail:9'\n\
             [traffic.video]\nkind = 'video'\nclients = 'b'\nservers = 'a'\nrate = '2Mbit'\nlength = '9s'\n{keys}\n"
        );
        let error = Scenario::parse(Path::new("x.toml"), &text).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}
