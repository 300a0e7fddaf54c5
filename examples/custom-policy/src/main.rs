//! Runs a scenario that names a queue and a congestion control of this crate. Each is written as the built-in ones are:
//! one file that reads, writes and builds it. Registering it takes one line.

mod drop_head;
mod gentle;

use catnip_lab::{Kinds, Scenario};
use drop_head::DropHeadSpec;
use gentle::GentleSpec;
use std::path::Path;
use std::sync::Arc;

fn kinds() -> Kinds {
    let mut kinds = Kinds::default();
    kinds.queues.add(|queue: DropHeadSpec| Arc::new(queue));
    kinds.controls.add(|control: GentleSpec| Arc::new(control));
    kinds
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenario.toml");
    let scenario = Scenario::load_with(&path, &kinds())?;
    for variant in scenario.variants() {
        let plan = scenario.plan(variant)?;
        let sim = plan.run(1, ());
        let port = plan.ports().iter().find(|(name, _)| name == "bottleneck").ok_or("no bottleneck")?.1;
        let queue = &plan.topology().ports()[port.0 as usize].wire.queue;
        let dropped: u64 = sim.fabric().counters(port).dropped.iter().flatten().sum();
        println!(
            "{variant:<12}  {queue:<13}  {} transfers in {:.2} s, {dropped} packets dropped",
            sim.tally().completed,
            sim.now().as_secs()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(change: impl Fn(&str) -> String) -> Result<Scenario, String> {
        let text = change(include_str!("../scenario.toml"));
        Scenario::parse_with(Path::new("scenario.toml"), &text, &kinds()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_scenario_runs_with_a_queue_and_a_controller_from_outside() {
        let scenario = scenario(str::to_string).unwrap();
        let [built_in, outside] =
            ["built in", "from outside"].map(|name| scenario.plan(name).unwrap().run(1, ()));
        assert_eq!([built_in.tally().completed, outside.tally().completed], [10, 10]);
        let bottleneck =
            scenario.plan("from outside").unwrap().ports().iter().find(|(name, _)| name == "bottleneck");
        let dropped = outside.fabric().counters(bottleneck.unwrap().1).dropped;
        let pushed_out: u64 = dropped.iter().map(|of| of[catnip_net::DropReason::PushedOut as usize]).sum();
        assert!(pushed_out > 0 && pushed_out == dropped.iter().flatten().sum::<u64>(), "{dropped:?}");
        assert_ne!(built_in.now(), outside.now());
    }

    #[test]
    fn what_is_wrong_with_it_is_said_as_of_any_other() {
        let error = scenario(|text| text.replace("drop-head:50", "drop-head:1")).unwrap_err();
        let place = "scenario.toml: variant \"from outside\": link.bottleneck.queue";
        assert_eq!(error, format!("{place}: \"drop-head:1\": expected a limit of at least 2 packets"));
        let error = scenario(|text| text.replace("gentle:0.7", "gentle:2")).unwrap_err();
        assert!(error.contains("traffic.transfers.tcp.control") && error.contains("[0, 1)"), "{error}");
    }
}
