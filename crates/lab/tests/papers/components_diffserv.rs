//! Components of the DiffServ study (Noureddine and Tobagi 2002) driven by many random arrivals. The measurements are stored in
//! python/catnip/measured/components-diffserv.csv, from which the reproduction of the study reads them.

mod buckets;
mod drive;
mod marks;
mod queues;
mod scheduler;
mod worlds;

use crate::kept;

#[test]
fn components_of_differentiated_services_stay_within_their_limits_and_measure_what_the_reproduction_reports()
{
    kept::keep("components-diffserv.csv", |seed| {
        let mut checks: Vec<kept::Check> =
            [queues::checks, buckets::checks, marks::checks, scheduler::checks, worlds::checks]
                .into_iter()
                .flat_map(|of| of(seed))
                .collect();
        // Order of the components in the study.
        checks.sort_by_key(|check| check.id.trim_start_matches("IDS-S").parse::<u32>().ok());
        checks
    });
}
