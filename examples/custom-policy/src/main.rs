//! Runs a scenario with a queue, a loss model and a congestion control of this crate, and adds an application of this crate to its traffic.
//! Like a built-in component, each of these components is one file and is registered in one line.

mod drop_middle;
mod every;
mod gentle;
mod probe;

use catnip_base::{Span, Time};
use catnip_lab::{Kinds, Plan, Scenario};
use catnip_net::NodeId;
use catnip_sim::app::AnyApp;
use catnip_sim::{DatagramCounters, Sim};
use drop_middle::DropMiddleSpec;
use every::EverySpec;
use gentle::GentleSpec;
use probe::Probe;
use std::path::Path;
use std::sync::Arc;

fn kinds() -> Kinds {
    let mut kinds = Kinds::default();
    kinds.queues.add(|queue: DropMiddleSpec| Arc::new(queue));
    kinds.stages.add(|stage: EverySpec| Arc::new(stage));
    kinds.controls.add(|control: GentleSpec| Arc::new(control));
    kinds
}

/// Runs a plan together with a [`Probe`]. Returns the finished simulation and the counters of the probe's packets.
fn run(plan: &Plan) -> (Sim<()>, DatagramCounters) {
    let mut sim = Sim::new(plan.topology(), 1, ());
    plan.start(1, &mut sim);
    let node =
        |name| (0..).map(NodeId).find(|&node| plan.topology().name(node) == name).expect("it is there");
    let flow = sim.add_flow(node("server[0]"), node("client[0]"));
    sim.add_app(AnyApp::Custom(Box::new(Probe::new(flow, Span::from_millis(10), 500))));
    sim.run(Time::ZERO + plan.duration());
    let probe = sim.datagrams(flow);
    (sim, probe)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenario.toml");
    let scenario = Scenario::load_with(&path, &kinds())?;
    for variant in scenario.variants() {
        let plan = scenario.plan(variant)?;
        let (sim, probe) = run(plan);
        let port = plan.port("bottleneck").ok_or("no bottleneck")?;
        let queue = &plan.topology().ports()[port.0 as usize].wire.queue;
        let dropped: u64 = sim.fabric().counters(port).dropped.iter().flatten().sum();
        println!(
            "{variant:<12}  {queue:<13}  {} transfers in {:.2} s, {dropped} packets dropped; a probe takes {:.0} ms",
            sim.tally().completed,
            sim.now().as_secs(),
            1e3 * probe.delay_s.mean(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_net::DropReason;

    fn scenario(change: impl Fn(&str) -> String) -> Result<Scenario, String> {
        let text = change(include_str!("../scenario.toml"));
        Scenario::parse_with(Path::new("scenario.toml"), &text, &kinds()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_scenario_runs_with_all_of_them() {
        let scenario = scenario(str::to_string).unwrap();
        let [(built_in, _), (outside, probe)] =
            ["built in", "from outside"].map(|name| run(scenario.plan(name).unwrap()));
        assert_eq!([built_in.tally().completed, outside.tally().completed], [10, 10]);
        assert_ne!(built_in.now(), outside.now());
        let bottleneck = scenario.plan("from outside").unwrap().port("bottleneck").unwrap();
        let counters = outside.fabric().counters(bottleneck);
        let dropped = |why| counters.dropped.iter().map(|of| of[why as usize]).sum::<u64>();
        assert!(dropped(DropReason::PushedOut) > 0 && dropped(DropReason::Overflow) == 0, "{counters:?}");
        // The loss model is behind the queue, so the packets that it receives are either delivered or lost by it.
        let passed = counters.delivered + dropped(DropReason::Loss);
        assert_eq!(dropped(DropReason::Loss), passed / 500, "{counters:?}");
        assert_eq!((probe.sent, probe.received + probe.dropped), (500, 500));
    }

    #[test]
    fn what_is_wrong_with_it_is_said_as_of_any_other() {
        let error = scenario(|text| text.replace("drop-middle:50", "drop-middle:1")).unwrap_err();
        let place = "scenario.toml: variant \"from outside\": link.bottleneck.queue";
        assert_eq!(error, format!("{place}: \"drop-middle:1\": expected a limit of at least 2 packets"));
        let error = scenario(|text| text.replace("gentle:0.7", "gentle:2")).unwrap_err();
        assert!(error.contains(": tcp.control: ") && error.contains("[0, 1)"), "{error}");
    }
}
