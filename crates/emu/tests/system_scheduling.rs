//! Test of scheduling, in a separate process because a limit of CPU time applies to the whole process.

mod skip;

use catnip_base::Span;
use catnip_linux::sys::{cpu_time, run_as_sched_other, run_in_real_time};

#[test]
fn who_has_left_real_time_may_compute_for_longer_than_its_limit() {
    let limit = Span::from_millis(100);
    if let Err(error) = run_in_real_time(limit) {
        return skip::skipped(&format!("SCHED_FIFO: {error}"));
    }
    run_as_sched_other().unwrap();
    let began = cpu_time();
    while cpu_time() < began + limit + limit + limit {}
}
