//! Tables of a run, with the columns of the simulator's and a few more, and the certificates of its links.

use super::audience::Reply;
use super::connection::NOBODY;
use super::run::Finished;
use super::watch::{LinkWatch, Watch};
use super::world::World;
use crate::certificate::{Asked, Certificate, Tolerance, Verdict};
use crate::histogram::Histogram;
use crate::link::Outcome;
use catnip_base::Span;
use catnip_lab::{Column, Plan, Table};
use catnip_net::{DropReason, PortId, Priority};
use catnip_sim::FlowId;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// All that a run has to tell.
#[derive(Debug)]
pub struct Results {
    /// By name.
    pub tables: Vec<(&'static str, Table)>,
    /// One per named link, and one for what concerns all of them.
    pub certificate: RunCertificate,
}

/// What the emulator was asked and what it did.
#[derive(Clone, Debug, Serialize)]
pub struct RunCertificate {
    /// In or out of tolerance.
    pub verdict: Verdict,
    /// What is wrong beside the links.
    pub failures: Vec<String>,
    /// Packets inside at the end, as the network counts and as their memory is counted.
    pub packets_inside: [u64; 2],
    /// Packets for connections and services that do not exist.
    pub stray_packets: u64,
    /// How much later than they should have simulated hosts have heard of packets, us: median, 99th percentile, maximum.
    pub lateness_us: [f64; 3],
    /// Named links; up is from `from` to `to`.
    pub links: Vec<LinkCertificate>,
    /// Real hosts.
    pub hosts: Vec<HostCertificate>,
}

/// One link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkCertificate {
    /// Its name.
    pub name: String,
    /// As if it were alone.
    pub certificate: Certificate,
}

/// One real host.
#[derive(Clone, Debug, Serialize)]
pub struct HostCertificate {
    /// Its name.
    pub name: String,
    /// Packets written to its device.
    pub written: u64,
    /// Packets that its device did not take.
    pub unwritable: u64,
    /// Packets that the kernel has dropped before they could be read.
    pub missed: u64,
    /// How much later than ideal packets were written, us: median, 99th percentile, maximum.
    pub lateness_us: [f64; 3],
}

impl Results {
    /// Puts together what is known of a run.
    pub fn new(
        plan: &Plan,
        variant: usize,
        seed: u64,
        finished: &Finished,
        world: &World<Watch>,
        tolerance: Tolerance,
    ) -> Self {
        let tables = Tables { plan, variant: variant as u64, seed, world, watch: world.audience() };
        let all = vec![
            ("runs", tables.runs(finished)),
            ("pages", tables.pages()),
            ("objects", tables.objects()),
            ("connections", tables.connections()),
            ("ports", tables.ports()),
            ("datagrams", tables.datagrams()),
        ];
        Self { tables: all, certificate: certify(seed, finished, world, tolerance) }
    }

    /// A table by name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|(other, _)| *other == name).map(|(_, table)| table)
    }

    /// Everything as one JSON document: tables by column, and the certificate.
    pub fn json(&self) -> Value {
        let tables = self.tables.iter().map(|(name, table)| {
            let columns = table.columns().iter().map(|(name, column)| {
                let values = match column {
                    Column::Float(values) => json!(values),
                    Column::Integer(values) => json!(values),
                    Column::Text(values) => json!(values),
                };
                (name.to_string(), values)
            });
            (name.to_string(), Value::Object(columns.collect()))
        });
        let mut document: Map<String, Value> = tables.collect();
        document.insert("certificate".into(), json!(self.certificate));
        Value::Object(document)
    }
}

/// Writes a table as CSV.
pub fn write_csv(table: &Table, out: &mut impl Write) -> io::Result<()> {
    let names: Vec<&str> = table.columns().iter().map(|(name, _)| *name).collect();
    writeln!(out, "{}", names.join(","))?;
    let rows = table.columns().first().map_or(0, |(_, column)| match column {
        Column::Float(values) => values.len(),
        Column::Integer(values) => values.len(),
        Column::Text(values) => values.len(),
    });
    for row in 0..rows {
        for (index, (_, column)) in table.columns().iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            match column {
                // Nothing is how CSV says that there is no number.
                Column::Float(values) if values[row].is_nan() => write!(out, "{separator}")?,
                Column::Float(values) => write!(out, "{separator}{}", values[row])?,
                Column::Integer(values) => write!(out, "{separator}{}", values[row])?,
                Column::Text(values) if values[row].contains([',', '"']) => {
                    write!(out, "{separator}\"{}\"", values[row].replace('"', "\"\""))?;
                }
                Column::Text(values) => write!(out, "{separator}{}", values[row])?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

struct Tables<'a> {
    plan: &'a Plan,
    variant: u64,
    seed: u64,
    world: &'a World<Watch>,
    watch: &'a Watch,
}

impl Tables<'_> {
    fn start<'a>(&self, table: &'a mut Table) -> &'a mut Table {
        table.integer("variant", self.variant).integer("seed", self.seed)
    }

    fn runs(&self, finished: &Finished) -> Table {
        let mut table = Table::default();
        let world = self.world;
        let (sent, dropped) = world.data_segments();
        let ports = 0..self.plan.topology().ports().len() as u32;
        let hops = ports.map(|port| world.fabric().counters(PortId(port)).delivered).sum();
        let (opened, completed) = world.connections();
        self.start(&mut table)
            .float("end_s", world.now().as_secs())
            .integer("packets_sent", sent)
            .integer("packets_dropped", dropped)
            .integer("packets_open", world.packets_inside() as u64)
            .integer("connections", opened)
            .integer("hops", hops)
            .integer("transfers_completed", completed)
            .float("duration_s", finished.duration.as_secs())
            .float("cpu_s", finished.cpu.as_secs())
            .integer("real_time", finished.real_time.into());
        table
    }

    fn pages(&self) -> Table {
        let mut table = Table::default();
        for (end, page) in &self.watch.pages {
            self.start(&mut table)
                .text("group", self.plan.group_of(page.app))
                .integer("client", page.app.into())
                .integer("page", u64::from(page.page) + 1)
                .float("start_s", page.start.as_secs())
                .float("time_s", (*end - page.start).as_secs())
                .integer("bytes", page.bytes)
                .integer("connections", page.connections.into());
        }
        table
    }

    fn objects(&self) -> Table {
        let mut table = Table::default();
        for (end, object, reply) in &self.watch.objects {
            self.start(&mut table)
                .integer("client", object.app.into())
                .integer("page", u64::from(object.page) + 1)
                .integer("object", object.object.into())
                .integer("bytes", object.bytes)
                .float("start_s", object.start.as_secs())
                .float("time_s", (*end - object.start).as_secs());
            answer(&mut table, reply.as_ref(), object.bytes);
        }
        table
    }

    fn connections(&self) -> Table {
        let mut table = Table::default();
        let names: Vec<&str> = self.plan.groups().map(|group| group.name).collect();
        for (c, reply) in &self.watch.connections {
            let by_real_client = reply.as_ref().filter(|_| c.app == NOBODY);
            let group = match by_real_client {
                Some(reply) => names[reply.tcp.0 as usize],
                None if c.app == NOBODY => "",
                None => self.plan.group_of(c.app),
            };
            self.start(&mut table)
                .integer("connection", c.connection)
                .text("group", group)
                .integer("client", c.app.into())
                .integer("bytes", c.bytes)
                .float("start_s", c.opened.as_secs())
                .float("received_s", c.received.as_secs())
                .float("acked_s", c.acked.as_secs())
                .integer("sent", c.sent.into())
                .integer("sent_high", c.sent_high.into())
                .integer("retransmitted", c.retransmitted.into())
                .integer("timeouts", c.timeouts.into())
                .integer("fast_retransmits", c.fast_retransmits.into())
                .integer("dropped", c.dropped.into());
            answer(&mut table, reply.as_ref(), c.bytes);
        }
        table
    }

    fn ports(&self) -> Table {
        let mut table = Table::default();
        for (name, id) in self.plan.ports() {
            let counters = self.world.fabric().counters(*id);
            let rate = self.plan.topology().ports()[id.0 as usize].wire.rate.mean();
            let bits_per_s = rate.map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64);
            let capacity = bits_per_s * self.world.now().as_secs();
            self.start(&mut table)
                .text("port", name)
                .integer("arrived_high", counters.arrived[Priority::High as usize])
                .integer("arrived_low", counters.arrived[Priority::Low as usize])
                .integer("dropped_high", counters.dropped_of(Priority::High))
                .integer("dropped_low", counters.dropped_of(Priority::Low))
                .integer("delivered", counters.delivered)
                .integer("delivered_bytes", counters.delivered_bytes)
                .float("utilization", counters.delivered_bytes as f64 * 8.0 / capacity);
            for (why, name) in DropReason::NAMES {
                table.integer(name, counters.dropped.iter().map(|of| of[why as usize]).sum());
            }
        }
        table
    }

    fn datagrams(&self) -> Table {
        let mut table = Table::default();
        for (app, flow) in self.plan.sources() {
            let FlowId(_) = flow;
            let counters = self.world.datagrams(flow);
            let (mean, variance) = counters.delay_s();
            self.start(&mut table)
                .text("group", self.plan.group_of(app))
                .integer("source", app.into())
                .integer("sent", counters.sent)
                .integer("sent_bytes", counters.sent_bytes)
                .integer("received", counters.received)
                .integer("dropped", counters.dropped)
                .float("delay_mean_s", mean)
                .float("delay_variance_s2", variance);
        }
        table
    }
}

/// What came from a real server, or what would have come from one.
fn answer(table: &mut Table, reply: Option<&Reply>, bytes: u64) {
    let digest = reply.map_or(String::new(), |reply| format!("{:016x}", reply.digest));
    table
        .integer("status", reply.map_or(200, |reply| reply.status.into()))
        .integer("body_bytes", reply.map_or(bytes, |reply| reply.body_bytes))
        .integer("whole", reply.is_none_or(|reply| reply.whole).into())
        .text("body_fnv1a", &digest);
}

fn certify(seed: u64, finished: &Finished, world: &World<Watch>, tolerance: Tolerance) -> RunCertificate {
    let us = |span: Span| span.as_nanos() as f64 / 1e3;
    let quantiles = |h: &Histogram| [us(h.quantile(0.5)), us(h.quantile(0.99)), us(h.max())];
    let mut failures = Vec::new();
    let inside = [world.fabric().packets_inside(), world.packets_inside() as u64];
    if inside[0] != inside[1] {
        failures.push(format!("{} packets inside, {} in memory", inside[0], inside[1]));
    }
    let hosts: Vec<HostCertificate> = finished
        .hosts
        .iter()
        .map(|host| {
            if host.missed > 0 {
                let count = host.missed;
                failures.push(format!(
                    "{}: the kernel dropped {count} packets that were not read in time",
                    host.name
                ));
            }
            HostCertificate {
                name: host.name.clone(),
                written: host.written[0],
                unwritable: host.written[1],
                missed: host.missed,
                lateness_us: quantiles(&host.lateness),
            }
        })
        .collect();
    let lateness_us = quantiles(&world.audience().lateness);
    let heard = ("simulated hosts", lateness_us);
    for (name, [_, p99, _]) in hosts.iter().map(|host| (host.name.as_str(), host.lateness_us)).chain([heard])
    {
        let most = tolerance.lateness_p99_ms;
        if p99 > 1e3 * most {
            failures.push(format!("{name}: lateness p99 {:.2} ms > {most} ms", p99 / 1e3));
        }
    }
    let links: Vec<LinkCertificate> = world
        .audience()
        .links
        .iter()
        .map(|link| certify_link(seed, finished, world, link, tolerance))
        .collect();
    let green = failures.is_empty() && links.iter().all(|link| link.certificate.verdict == Verdict::Green);
    RunCertificate {
        verdict: if green { Verdict::Green } else { Verdict::Red },
        failures,
        packets_inside: inside,
        stray_packets: world.stray_packets(),
        lateness_us,
        links,
        hosts,
    }
}

fn certify_link(
    seed: u64,
    finished: &Finished,
    world: &World<Watch>,
    link: &LinkWatch,
    tolerance: Tolerance,
) -> LinkCertificate {
    let held = link.ports.map(|port| u64::from(world.fabric().port(port).backlog().packets));
    let outcome = Outcome {
        code: finished.code,
        duration: finished.duration,
        cpu: finished.cpu,
        real_time: finished.real_time,
        spin: finished.spin,
        missed: [0; 2],
        broken: [0; 2],
        held,
        buffers_in_use: link.inside.iter().sum(),
        ended: world.told(),
    };
    let wires = [&*link.wires[0], &*link.wires[1]];
    let asked = wires.map(Asked::of);
    let certificate = Certificate::new(wires, seed, asked, &outcome, &link.monitor, tolerance);
    LinkCertificate { name: link.name.clone(), certificate }
}
