//! Time series of links and connections, interval by interval.

use crate::results::rows::{ConnectionSample, LinkSample, Run};
use crate::{Plan, Records, Tables};
use catnip_base::Time;
use catnip_net::{Backlog, PortCounters, PortId};
use catnip_sim::record::ConnectionRecord;
use catnip_sim::{Handler, Watch, World};
use std::collections::BTreeMap;

/// State of a connection when it is sampled: its record, its delivered bytes, and cwnd and ssthresh if the connection is open.
type Sample = (ConnectionRecord, u64, Option<(u64, Option<u64>)>);

/// Sampler of the time series of a run, which reports the changes since the previous sample.
pub(crate) struct Series {
    /// Time of the previous sample.
    last: Time,
    /// Counters at the previous sample, for each entry of [`Plan::ports`].
    ports: Vec<PortCounters>,
    /// Connections that were open at the previous sample, by number: record and delivered bytes.
    open: BTreeMap<u64, (ConnectionRecord, u64)>,
    /// Number of connections that had ended at the previous sample.
    ended: usize,
}

impl Series {
    /// Creates the sampler for a run of `plan`, before the first event.
    pub(crate) fn new(plan: &Plan) -> Self {
        let ports = vec![PortCounters::default(); plan.ports().len()];
        Self { last: Time::ZERO, ports, open: BTreeMap::new(), ended: 0 }
    }

    /// Adds the rows of the interval that ends at `now`. The state of the ports must be up to date, see [`World::catch_up`].
    pub(crate) fn sample<M: Handler, W: Watch>(
        &mut self,
        now: Time,
        world: &World<M, W>,
        records: &Records,
        plan: &Plan,
        run: Run,
        tables: &mut Tables,
    ) {
        if now <= self.last {
            return;
        }
        let interval = now.since(self.last);
        let links = plan.ports().iter().zip(&mut self.ports).map(|(named, before)| {
            let mut capacity_bits = 0.0;
            let mut waiting = Backlog::default();
            for id in &named.ids {
                let rate = &plan.topology().ports()[id.0 as usize].wire.rate;
                capacity_bits += rate.capacity_bits(self.last, now);
                let backlog = world.fabric().port(*id).waiting(now);
                waiting.packets += backlog.packets;
                waiting.bytes += backlog.bytes;
            }
            let all: PortCounters = named.ids.iter().map(|&id: &PortId| world.fabric().counters(id)).sum();
            let counters = all.since(before);
            *before = all;
            LinkSample { name: &named.name, at: now, counters, capacity_bits, waiting }
        });
        tables.extend(run, links);
        let mut samples: Vec<Sample> = Vec::new();
        let ended = records.ended_from(self.ended);
        self.ended += ended.len();
        samples.extend(ended.iter().map(|(record, _)| (*record, record.bytes, None)));
        world.for_each_open(&mut |it| {
            samples.push((it.record, it.delivered, it.cwnd.map(|cwnd| (cwnd, it.ssthresh))));
        });
        samples.retain(|(record, ..)| plan.measured_group(record.app).is_some());
        let mut open = BTreeMap::new();
        let rows = samples.into_iter().map(|(record, delivered, window)| {
            let before = self.open.get(&record.connection).copied();
            let (before, delivered_before) = before.unwrap_or((ConnectionRecord::none(), 0));
            if window.is_some() {
                open.insert(record.connection, (record, delivered));
            }
            let delivered = delivered.saturating_sub(delivered_before);
            ConnectionSample {
                group: plan.group_of(record.app),
                at: now,
                interval,
                record,
                before,
                delivered,
                window,
            }
        });
        tables.extend(run, rows);
        self.open = open;
        self.last = now;
    }
}
