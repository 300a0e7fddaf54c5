//! Large networks are compared by what they do first.

use catnip_base::Span;
use catnip_lab::Plan;

/// Of networks with more pairs of hosts than this, the first seconds are enough.
const LARGE: usize = 200;
const FIRST: Span = Span::from_secs(2);

/// The plan, or the first seconds of one for a large network.
pub(crate) fn brief(plan: &Plan) -> Plan {
    let pairs: usize = plan.groups().map(|group| group.pairs.len()).sum();
    if pairs > LARGE { plan.until(FIRST) } else { plan.clone() }
}
