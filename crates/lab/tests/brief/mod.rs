//! Comparison of large networks by their first seconds.

use catnip_base::Span;
use catnip_lab::Plan;

/// Number of pairs of hosts above which the first seconds are enough.
const LARGE: usize = 200;
const FIRST: Span = Span::from_secs(2);

/// Returns the plan, or its first seconds if the network is large.
pub(crate) fn brief(plan: &Plan) -> Plan {
    let pairs: usize = plan.groups().map(|group| group.pairs.len()).sum();
    if pairs > LARGE { plan.until(FIRST) } else { plan.clone() }
}
