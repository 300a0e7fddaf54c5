//! Plans of large networks shortened to their first seconds, for comparisons of runs.

use catnip_base::Span;
use catnip_lab::Plan;

/// Number of pairs of hosts above which a plan is shortened.
const LARGE: usize = 200;
const FIRST: Span = Span::from_secs(2);

/// Returns the plan, with its duration limited to [`FIRST`] if the network is large.
pub(crate) fn brief(plan: &Plan) -> Plan {
    let pairs: usize = plan.groups().map(|group| group.pairs.len()).sum();
    if pairs > LARGE { plan.until(FIRST) } else { plan.clone() }
}
