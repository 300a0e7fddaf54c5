//! Tests of scripts in this machine's kernel, in real time.

#[path = "../scripts/mod.rs"]
mod scripts;
#[path = "../../../emu/tests/skip/mod.rs"]
mod skip;

use catnip_drill::kernel::Lane;
use catnip_drill::record::first_difference;
use scripts::{open_scripts, scripts};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of network namespaces at a time.
const LANES: usize = 16;
/// Number of runs, one of which must agree: what disturbs the machine's clock makes a difference, but none go away.
const RUNS: usize = 5;

#[test]
fn this_kernel_does_what_each_script_says() {
    if !std::path::Path::new("/dev/net/tun").exists() || Lane::enter().is_err() {
        return skip::skipped("scripts in the kernel need root and TUN devices");
    }
    let (mut scripts, next) = (scripts(), AtomicUsize::new(0));
    scripts.extend(open_scripts());
    let worker = || {
        let (mut lane, mut differing) = (Lane::enter().expect("it was entered before"), Vec::new());
        while let Some((name, script)) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut differences = (0..RUNS).map(|_| {
                let record = lane.run(script).unwrap_or_else(|failure| panic!("{name}: {failure}"));
                first_difference(script, &record)
            });
            let mut last = None;
            if differences.all(|difference| {
                last.clone_from(&difference);
                difference.is_some()
            }) {
                differing.extend(last.map(|it| format!("{name}: {it}")));
            }
        }
        differing
    };
    let differing: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..LANES).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker ends")).collect()
    });
    assert!(scripts.len() > 330);
    assert_eq!(differing, Vec::<String>::new());
}
