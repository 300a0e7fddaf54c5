//! Congestion marks (ECN) end to end: ECN-capable packets are marked instead of dropped, and their senders reduce cwnd.

use catnip_lab::Scenario;
use catnip_net::PortCounters;

/// Runs `senders` bulk transfers of `packets` segments over a link of 10 Mbit/s with this queue. Returns the counters of the link, and the
/// time at which the last transfer finished, seconds.
fn run(senders: u32, packets: u32, queue: &str, tcp: &str) -> (PortCounters, f64) {
    let text = format!(
        r#"
id = "X"
title = "Congestion marks"
[node]
a = {{ kind = "host", processing = "none", count = {senders} }}
r = {{ kind = "router" }}
s = {{ kind = "router" }}
b = {{ kind = "host", processing = "none", count = {senders} }}
[link.l]
from = "r"
to = "s"
rate = "10Mbit"
delay = "10ms"
queue = "{queue}"
[link.a]
from = "a"
to = "r"
rate = "100Mbit"
delay = "1ms"
queue = "drop-tail:1000"
[link.b]
from = "s"
to = "b"
rate = "100Mbit"
delay = "1ms"
queue = "drop-tail:1000"
[tcp]
{tcp}
[traffic.t]
kind = "bulk"
from = "a"
to = "b"
packets = {packets}
"#
    );
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/x.toml");
    let scenario = Scenario::parse(&file, &text).unwrap();
    let plan = scenario.plan("default").unwrap();
    let sim = plan.run(1, ());
    assert_eq!((sim.tally().completed, sim.packets_out()), (u64::from(senders), 0), "{queue} {tcp}");
    (sim.fabric().counters(plan.port("l").unwrap()), sim.now().since(catnip_base::Time::ZERO).as_secs())
}

fn dropped(port: &PortCounters) -> u64 {
    port.dropped.iter().flatten().sum()
}

const RED: &str = "red:100,min=10,max=60,weight=0.02,max_p=0.1";

#[test]
fn who_can_be_marked_loses_nothing_where_others_do() {
    for control in ["reno", "cubic"] {
        let tcp = |ecn| format!("control = \"{control}\"\necn = \"{ecn}\"");
        for queue in [format!("{RED},ecn=true"), "codel:1000".into(), "fq-codel:1000".into()] {
            let (plain, _) = run(2, 4000, &queue, &tcp("none"));
            assert!(dropped(&plain) > 10 && plain.marked == 0, "{queue} {control}: {plain:?}");
            let (marked, _) = run(2, 4000, &queue, &tcp("classic"));
            assert!(
                marked.marked > 10 && dropped(&marked) < dropped(&plain) / 5,
                "{queue} {control}: {marked:?}"
            );
            // Total queueing delays with and without ECN agree within a factor of two: a sender reduces cwnd after a mark as after a loss.
            let ratio = marked.waited.as_secs() / plain.waited.as_secs();
            assert!((0.5..2.0).contains(&ratio), "{queue} {control}: {ratio}");
        }
    }
}

#[test]
fn dctcp_holds_a_queue_near_a_step_of_marks_and_fills_the_link() {
    // RED configured as in RFC 8257: all arrivals are marked as soon as about 20 packets wait.
    let step = "red:400,min=20,max=21,weight=1,max_p=1,wait=false,hard=false,ecn=true";
    let tcp = "control = \"dctcp\"\necn = \"exact\"";
    let (port, secs) = run(2, 20_000, step, tcp);
    assert_eq!(dropped(&port), 0, "{port:?}");
    let utilization = port.delivered_bytes as f64 * 8.0 / (secs * 10e6);
    assert!(utilization > 0.98, "{utilization}");
    let queue = port.waited.as_secs() / secs;
    assert!((10.0..30.0).contains(&queue), "{queue} packets wait on average");
    // Reno with the same marks leaves the link idle at times, so that the transfers take longer.
    let (reno, reno_secs) = run(2, 20_000, step, "control = \"reno\"\necn = \"classic\"");
    assert!(reno_secs > secs, "{reno_secs} {secs} {reno:?}");
}

#[test]
fn l4s_data_waits_for_a_packet_or_two_and_classic_data_for_its_target() {
    // L4S and classic traffic run separately and do not compete. The transmission of a packet takes 1.2 ms.
    let alone = |ecn, control| {
        let (port, secs) =
            run(2, 20_000, "dual-pi2:1000", &format!("control = \"{control}\"\necn = \"{ecn}\""));
        let utilization = port.delivered_bytes as f64 * 8.0 / (secs * 10e6);
        (port.waited.as_secs() / port.started as f64, utilization)
    };
    let (l4s, l4s_used) = alone("l4s", "dctcp");
    let (classic, classic_used) = alone("none", "cubic");
    assert!(l4s < 0.0025 && l4s_used > 0.9, "{l4s} {l4s_used}");
    assert!((0.005..0.025).contains(&classic) && classic_used > 0.95, "{classic} {classic_used}");
}

#[test]
fn what_the_old_senders_do_not_know_is_refused() {
    let refused = |tcp: &str| {
        let text = format!(
            "id = \"X\"\ntitle = \"x\"\n[node]\na = {{ kind = \"host\" }}\nb = {{ kind = \"host\" }}\n[link.l]\nfrom = \"a\"\nto = \"b\"\nrate = \"1Mbit\"\ndelay = \"1ms\"\nqueue = \"drop-tail:9\"\n[tcp]\n{tcp}\n[traffic.t]\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\npackets = 9\n"
        );
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/x.toml");
        Scenario::parse(&file, &text).unwrap_err().to_string()
    };
    let error = refused("recovery = \"reno\"\necn = \"classic\"");
    assert!(error.contains("tcp.ecn") && error.contains("needs recovery = \"sack\""), "{error}");
    let error = refused("control = \"dctcp\"");
    assert!(error.contains("tcp.control") && error.contains("needs ecn = \"exact\""), "{error}");
    let error = refused("control = \"prague\"\necn = \"exact\"");
    assert!(error.contains("tcp.control") && error.contains("needs ecn = \"l4s\""), "{error}");
    for control in ["bbr", "bbr3"] {
        let error = refused(&format!("recovery = \"sack\"\ncontrol = \"{control}\""));
        assert!(error.contains("tcp.control") && error.contains("needs recovery = \"rack\""), "{error}");
    }
    let error = refused("recovery = \"reno\"\npacing = \"linux\"");
    assert!(error.contains("tcp.pacing") && error.contains("needs recovery = \"sack\""), "{error}");
}
