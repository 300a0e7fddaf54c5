//! Tests of traffic of the kind `iperf` and of its table of intervals.

use catnip_lab::{Column, RunRequest, Scenario, Table, TableName, run_all};
use std::collections::BTreeMap;
use std::path::Path;

/// Returns a scenario of one iperf group with the keys `keys`, over a link of 10 Mbit/s and 10 ms with the keys `link`.
fn text(link: &str, keys: &str) -> String {
    format!(
        "id = 'X'\ntitle = 'x'\nduration = '20s'\n[tcp]\nprofile = 'rfc'\n\
         [node]\na = {{ kind = 'host' }}\nb = {{ kind = 'host' }}\n\
         [link.ab]\nfrom = 'a'\nto = 'b'\nrate = '10Mbit'\ndelay = '10ms'\nqueue = 'drop-tail:40'\n{link}\n\
         [traffic.test]\nkind = 'iperf'\nfrom = 'a'\nto = 'b'\n{keys}\n"
    )
}

/// Returns the tables of intervals, connections and groups of a run of this scenario.
fn run(link: &str, keys: &str) -> [Table; 3] {
    let scenario = Scenario::parse(Path::new("x.toml"), &text(link, keys)).unwrap();
    let intervals: TableName = "intervals".parse().unwrap();
    let wanted = [intervals, TableName::CONNECTIONS, TableName::GROUPS];
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

#[test]
fn one_stream_has_the_rate_of_the_link_without_headers_in_every_interval_after_slow_start() {
    let [intervals, ..] = run("", "");
    let goodput_mbps = column(&intervals, "goodput_mbps");
    assert_eq!(column(&intervals, "start_s"), (0..20).map(f64::from).collect::<Vec<_>>());
    // Packets of 1500 bytes have headers of 40 bytes and timestamps of 12 bytes. The buffer is larger than the product of bandwidth and
    // delay, so that the link never becomes idle.
    let expected_mbps = 10.0 * 1448.0 / 1500.0;
    let mean_mbps = goodput_mbps[1..].iter().sum::<f64>() / 19.0;
    assert!((mean_mbps / expected_mbps - 1.0).abs() < 1e-3, "{mean_mbps} Mbit/s, {goodput_mbps:?}");
}

#[test]
fn intervals_add_up_to_the_row_of_their_connection() {
    let [intervals, connections, _] = run("loss = 'bernoulli:1%'", "streams = 3\ninterval = '250ms'");
    assert_eq!((intervals.rows(), connections.rows()), (3 * 80, 3));
    let mut losses = 0.0;
    for name in ["delivered_bytes", "sent", "retransmitted", "timeouts", "dropped", "rtt_samples"] {
        let (parts, whole) = (column(&intervals, name), column(&connections, name));
        let numbers = column(&intervals, "connection");
        for (stream, whole) in whole.into_iter().enumerate() {
            let of_stream = numbers.iter().zip(&parts).filter(|(number, _)| **number == stream as f64);
            assert_eq!(of_stream.map(|(_, part)| part).sum::<f64>(), whole, "{name} of stream {stream}");
            losses += if name == "dropped" { whole } else { 0.0 };
        }
    }
    assert!(losses > 20.0, "{losses} losses");
    let (samples, rtt_s) = (column(&intervals, "rtt_samples"), column(&intervals, "rtt_mean_s"));
    assert!(samples.iter().zip(&rtt_s).all(|(samples, rtt_s)| rtt_s.is_nan() == (*samples == 0.0)));
    assert!(
        rtt_s.iter().all(|rtt_s| rtt_s.is_nan() || *rtt_s >= 0.020),
        "the propagation delay is 10 ms each way"
    );
}

#[test]
fn a_rate_is_kept_and_what_an_outage_delays_is_caught_up() {
    let keys = "rate = '2Mbit'\nlength = '5000B'\nduration = '10s'";
    let total = |link: &str| {
        let [intervals, connections, groups] = run(link, keys);
        // The test stops after 10 s and closes its connection, which then ends as a transfer.
        assert_eq!(column(&intervals, "end_s").last(), Some(&10.0));
        assert_eq!((column(&groups, "started"), column(&groups, "finished")), (vec![1.0], vec![1.0]));
        (column(&intervals, "delivered_bytes"), column(&connections, "bytes")[0])
    };
    let (even, whole) = total("");
    // 2 Mbit/s for 10 s are 500 blocks of 5000 bytes; the first one is written at the start and the last one just before the end.
    assert_eq!(whole, 2.5e6);
    assert!(even[1..9].iter().all(|bytes| (bytes - 250_000.0).abs() <= 5000.0), "{even:?}");
    let (late, whole) = total("outage = 'every=60s,for=2s,first=3s'");
    assert_eq!(whole, 2.5e6);
    assert_eq!(late[4], 0.0);
    assert!(late[5] + late[6] > 600_000.0, "{late:?}");
}

#[test]
fn an_interval_that_the_end_of_the_test_cuts_short_has_a_row_of_its_own_length() {
    let [intervals, ..] = run("", "start = '1s'\nduration = '2500ms'");
    assert_eq!(column(&intervals, "start_s"), [1.0, 2.0, 3.0]);
    assert_eq!(column(&intervals, "end_s"), [2.0, 3.0, 3.5]);
    let (bytes, goodput_mbps) = (column(&intervals, "delivered_bytes"), column(&intervals, "goodput_mbps"));
    assert!((goodput_mbps[2] - 8e-6 * bytes[2] / 0.5).abs() < 1e-9);
}

#[test]
fn values_that_measure_nothing_are_refused() {
    let refused = |keys: &str| Scenario::parse(Path::new("x.toml"), &text("", keys)).unwrap_err().to_string();
    assert_eq!(refused("streams = 0"), "x.toml: traffic.test.streams: 0: expected more");
    assert_eq!(refused("interval = '0s'"), "x.toml: traffic.test.interval: 0: expected more");
    assert_eq!(refused("length = '0B'"), "x.toml: traffic.test.length: 0: expected more");
    let too_fast = "x.toml: traffic.test.rate: more than a block per nanosecond: expected a larger length";
    assert_eq!(refused("rate = '100Gbit'\nlength = '1B'"), too_fast);
}
