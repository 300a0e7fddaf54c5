//! What links and connections do over time, interval by interval.

use crate::results::records::Measured;
use crate::results::rows::{ConnectionSample, LinkSample, Run};
use crate::{Plan, Records, Tables};
use catnip_base::Time;
use catnip_net::{Backlog, PortCounters, PortId};
use catnip_sim::record::ConnectionRecord;
use catnip_sim::{Handler, Watch, World};
use std::collections::BTreeMap;

/// What is said of a connection, what has been delivered, and cwnd and ssthresh if it is open.
type Seen = (ConnectionRecord, u64, Option<(u64, Option<u64>)>);

/// Looks at a run again and again and tells what has changed since the last time.
pub(crate) struct Series {
    /// When that was.
    last: Time,
    /// Of each name in [`Plan::ports`].
    ports: Vec<PortCounters>,
    /// Of each connection that was open: what was to be said of it, and what had been delivered.
    open: BTreeMap<u64, (ConnectionRecord, u64)>,
    /// Connections that had ended.
    ended: usize,
    measured: Measured,
}

impl Series {
    /// At the beginning of a run.
    pub(crate) fn new(plan: &Plan) -> Self {
        let ports = vec![PortCounters::default(); plan.ports().len()];
        Self { last: Time::ZERO, ports, open: BTreeMap::new(), ended: 0, measured: Measured::of(plan) }
    }

    /// Adds the rows of the interval that ends now; ports have caught up.
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
                let here = world.fabric().port(*id).waiting(now);
                waiting.packets += here.packets;
                waiting.bytes += here.bytes;
            }
            let all: PortCounters = named.ids.iter().map(|&id: &PortId| world.fabric().counters(id)).sum();
            let counters = all.since(before);
            *before = all;
            LinkSample { name: &named.name, at: now, counters, capacity_bits, waiting }
        });
        tables.extend(run, links);
        let mut seen: Vec<Seen> = Vec::new();
        let ended = records.ended_from(self.ended);
        self.ended += ended.len();
        seen.extend(ended.iter().map(|(record, _)| (*record, record.bytes, None)));
        world.each_open(&mut |record, delivered, sender| {
            let window = sender.map(|sender| {
                let control = sender.control();
                (control.cwnd, control.ssthresh)
            });
            seen.push((record, delivered, window));
        });
        seen.retain(|(record, ..)| self.measured.app(record.app));
        let mut open = BTreeMap::new();
        let rows = seen.into_iter().map(|(record, delivered, window)| {
            let before = self.open.get(&record.connection).copied();
            let (before, had) = before.unwrap_or((ConnectionRecord::none(), 0));
            if window.is_some() {
                open.insert(record.connection, (record, delivered));
            }
            let delivered = delivered.saturating_sub(had);
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
