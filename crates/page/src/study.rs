//! Runs of a variant with one seed after the other, and their summary, whose intervals become narrower.

use crate::Message;
use catnip_lab::summary::{self, GroupSummary, Interval, TABLES};
use catnip_lab::{Plan, Table, TableName, run_one};
use catnip_sim::Memory;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Runs of one variant so far.
#[derive(Debug, Default)]
pub(crate) struct Study {
    variant: String,
    first: u64,
    seeds: Vec<u64>,
    tables: BTreeMap<TableName, Table>,
    memory: Memory,
}

impl Study {
    /// Creates a study of a variant without runs, whose first seed is `first`.
    pub(crate) fn of(variant: &str, first: u64) -> Self {
        Self { variant: variant.into(), first, ..Self::default() }
    }

    pub(crate) fn is_of(&self, variant: &str, first: u64) -> bool {
        (self.variant.as_str(), self.first) == (variant, first)
    }

    /// Returns the number of seeds so far, which ascend one by one.
    pub(crate) fn seeds(&self) -> u64 {
        self.seeds.len() as u64
    }

    /// Runs the variant with the next seed. Returns `None` if `should_continue` has stopped the run, which then leaves nothing.
    pub(crate) fn run_next(&mut self, plan: &Plan, should_continue: &mut dyn FnMut() -> bool) -> Option<()> {
        let seed = self.first + self.seeds();
        let names = TABLES.map(|(name, _)| name);
        let rows = run_one(plan, seed, &names, None, should_continue, &mut self.memory)?;
        for (name, rows) in rows {
            match self.tables.get_mut(&name) {
                Some(table) => table.append(rows),
                None => drop(self.tables.insert(name, rows)),
            }
        }
        self.seeds.push(seed);
        Some(())
    }

    /// Returns the summary of all runs so far: the key `groups` has for each traffic group its name, kind, numbers of transfers, means
    /// `[mean, low, high, n]` and values by measure; the arrays `N.times`, `N.above`, `N.low` and `N.high` have the survival curve of the group
    /// with the index N and its band. The key `links` has the means of each link. What is not known is null.
    pub(crate) fn summary(&self) -> Message {
        let found = match self.seeds[..] {
            [] => None,
            ref seeds => summary::summarize_tables(&self.tables, 1, seeds).pop(),
        };
        let Some(found) = found else {
            return Message::new(json!({ "seeds": 0, "groups": [], "links": [] }));
        };
        let groups: Vec<Value> = found.groups.iter().map(|(name, of)| group(name, of)).collect();
        let links =
            found.links.iter().map(|(name, means)| json!({ "name": &**name, "means": intervals(means) }));
        let mut message = Message::new(json!({
            "seeds": self.seeds.len(),
            "groups": groups,
            "links": links.collect::<Vec<_>>(),
        }));
        for (number, (_, of)) in found.groups.iter().enumerate() {
            let curves =
                [("times", &of.curve.0), ("above", &of.curve.1), ("low", &of.band.0), ("high", &of.band.1)];
            for (name, values) in curves {
                message.floats(&format!("{number}.{name}"), values.iter().copied());
            }
        }
        message
    }
}

/// Returns an interval as an array; a bound that is not known is null.
pub(crate) fn interval(of: &Interval) -> Value {
    json!([of.mean, of.low, of.high, of.n])
}

fn group(name: &str, of: &GroupSummary) -> Value {
    let values: Map<String, Value> =
        of.values.iter().map(|(measure, values)| ((*measure).into(), json!(values))).collect();
    json!({
        "name": name,
        "kind": &*of.kind,
        "started": of.started,
        "finished": of.finished,
        "means": intervals(&of.means),
        "values": values,
    })
}

fn intervals(means: &[(&'static str, Interval)]) -> Map<String, Value> {
    means.iter().map(|(measure, of)| ((*measure).into(), interval(of))).collect()
}
