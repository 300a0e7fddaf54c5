use super::{AnyWorld, BuildContext, Connections, TrafficKind, User, Workload};
use crate::error::KeyError;
use crate::results::activities::{ActivityKind, ActivityRow, ActivityTable};
use crate::results::column::Columns;
use crate::results::rows::Unit;
use crate::scenario::describe::Nodes;
use crate::scenario::external::Protocol;
use crate::scenario::tcp::TcpFile;
use crate::scenario::text::{Text, Times, yes};
use catnip_base::{Bytes, Distribution, Rate, Rng, Span, Stream, Time};
use catnip_sim::app::{AnyApp, AppEvent, Application, Interest};
use catnip_sim::record::{Activity, ConnectionRecord, ConnectionStats};
use catnip_sim::{Conn, ConnectionSpec, Host, Message, SERVER};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// Measurement of throughput as by iperf3: each server sends to its client over one or more connections, as fast as TCP allows or at a
/// given rate, and reports each interval.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "iperf")]
pub(crate) struct IperfFile {
    /// Sending nodes: the servers.
    #[schemars(with = "Nodes", example = &"server")]
    from: String,
    /// Receiving nodes: the clients. Each server serves a block of neighbouring clients.
    #[schemars(with = "Nodes", example = &"client[0..50]")]
    to: String,
    /// Start time of the measurement; a distribution or a time.
    #[serde(alias = "start_s")]
    #[schemars(example = &"uniform:minimum=0s,maximum=2s", extend("default" = START))]
    start: Option<Times>,
    /// Time during which the servers send (`iperf3 --time`).
    #[schemars(example = &"10s", extend("x-default" = "until the end of the run"))]
    duration: Option<Text<Span>>,
    /// Length of an interval, after which each connection adds a row to the table `intervals` (`iperf3 --interval`).
    #[serde(default = "second")]
    #[schemars(example = &"100ms")]
    interval: Text<Span>,
    /// Number of parallel connections of each pair of hosts (`iperf3 --parallel`).
    #[serde(default = "one")]
    #[schemars(range(min = 1), example = 4)]
    streams: u32,
    /// Rate at which the application of each connection writes (`iperf3 --bitrate`). An application that TCP has slowed down catches up.
    #[schemars(example = &"2Mbit", extend("x-default" = "as fast as TCP accepts data"))]
    rate: Option<Text<Rate>>,
    /// Size of the blocks that the application writes (`iperf3 --length`).
    #[serde(default = "block")]
    #[schemars(example = &"8KB")]
    length: Text<Bytes>,
    /// True if results have rows for the intervals and connections. The packets of the group are counted in any case.
    #[serde(default = "yes")]
    #[schemars(example = false)]
    measured: bool,
    /// TCP parameters of the connections of the group that differ from `[tcp]`.
    #[serde(default)]
    #[schemars(example = json!({ "control": "cubic" }), extend("x-default" = "same as `[tcp]`"))]
    tcp: TcpFile,
}

/// Default start time of the measurement, seconds.
const START: f64 = 0.0;

fn second() -> Text<Span> {
    Text(Span::from_secs(1))
}

fn one() -> u32 {
    1
}

/// Returns the size of a block of iperf3 over TCP.
fn block() -> Text<Bytes> {
    Text(Bytes(128 << 10))
}

impl TrafficKind for IperfFile {
    fn activities() -> Vec<ActivityKind> {
        vec![ActivityKind::of::<IntervalRecord>()]
    }

    fn ends(&self) -> [(&'static str, &str); 2] {
        [("from", &self.from), ("to", &self.to)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let protocol = Protocol::Http { persistent: false };
        Some(Connections { tcp: &self.tcp, tells_size: false, port: None, protocol, paths: "/" })
    }

    fn is_measured(&self) -> bool {
        self.measured
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Arc<dyn Workload>, KeyError> {
        let positive = |key: &str, value: u64| {
            if value > 0 { Ok(()) } else { Err((context.key(key), "0: expected more".into())) }
        };
        if context.has_external_hosts() {
            return Err((
                context.key("from"),
                "only between simulated hosts; external hosts can run iperf3".into(),
            ));
        }
        positive("streams", self.streams.into())?;
        positive("length", self.length.0.0)?;
        positive("interval", self.interval.0.as_nanos())?;
        if let Some(duration) = &self.duration {
            positive("duration", duration.0.as_nanos())?;
        }
        let every = self.rate.as_ref().map(|rate| rate.0.time_of(self.length.0.0));
        if every == Some(Span::ZERO) {
            return Err((
                context.key("rate"),
                "more than a block per nanosecond: expected a larger length".into(),
            ));
        }
        Ok(Arc::new(IperfWorkload {
            start_s: self.start.as_ref().map_or(Distribution::Constant(START), |value| value.0.clone()),
            config: IperfConfig {
                duration: self.duration.as_ref().map(|value| value.0),
                interval: self.interval.0,
                streams: self.streams,
                block_bytes: self.length.0.0,
                every,
            },
        }))
    }
}

#[derive(Debug)]
struct IperfWorkload {
    start_s: Distribution,
    config: IperfConfig,
}

impl Workload for IperfWorkload {
    fn unit(&self) -> Unit {
        if self.config.duration.is_some() { Unit::TRANSFER } else { Unit::FLOW }
    }

    fn app(&self, user: &User, _world: &mut dyn AnyWorld) -> AnyApp {
        let start_s = self.start_s.draw(&mut Rng::new(user.seed, Stream::Start(user.number)));
        let start = Time::ZERO + Span::from_secs_f64(start_s);
        let spec = ConnectionSpec { opener: SERVER, ..user.connection_spec() };
        let (config, streams, interval_start) = (self.config, Vec::new(), Time::ZERO);
        AnyApp::Custom(Box::new(Iperf { config, spec, start, streams, interval: 0, interval_start }))
    }
}

/// Configuration of an iperf server's sending application.
#[derive(Clone, Copy, Debug)]
struct IperfConfig {
    duration: Option<Span>,
    interval: Span,
    streams: u32,
    block_bytes: u64,
    /// Time between two blocks on a connection; `None` if blocks are written as fast as TCP accepts them.
    every: Option<Span>,
}

/// Sending application of an iperf server, for one client.
#[derive(Debug)]
struct Iperf {
    config: IperfConfig,
    spec: ConnectionSpec,
    start: Time,
    streams: Vec<TestStream>,
    /// Number of the current interval, from 0.
    interval: u32,
    /// Start of the current interval.
    interval_start: Time,
}

/// Connection over which an iperf application sends.
#[derive(Debug)]
struct TestStream {
    conn: Conn,
    /// Number of blocks that are due but not written, because TCP has not sent the previous blocks.
    due_blocks: u64,
    /// True if TCP accepts another block.
    is_writable: bool,
    /// Statistics at the start of the current interval; `None` if the server had not sent anything.
    before: Option<ConnectionStats>,
}

const OPEN: u64 = 0;
const INTERVAL: u64 = 1;
const BLOCK: u64 = 2;
const STOP: u64 = 3;

impl Iperf {
    fn open(&mut self, host: &mut Host<'_>) {
        let stream = |conn| TestStream { conn, due_blocks: 0, is_writable: true, before: None };
        self.streams = (0..self.config.streams).map(|_| stream(host.open(self.spec))).collect();
        self.interval_start = host.now();
        host.timer(host.now() + self.config.interval, INTERVAL);
        if let Some(duration) = self.config.duration {
            host.timer(host.now() + duration, STOP);
        }
        self.write_blocks(host);
    }

    /// Makes the next block of each connection due, and writes it as soon as TCP accepts it.
    fn write_blocks(&mut self, host: &mut Host<'_>) {
        for stream in &mut self.streams {
            stream.due_blocks += 1;
            stream.write(self.config.block_bytes, host);
        }
        if let Some(every) = self.config.every {
            host.timer(host.now() + every, BLOCK);
        }
    }

    fn on_drained(&mut self, conn: Conn, host: &mut Host<'_>) {
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.conn == conn) {
            stream.is_writable = true;
            stream.due_blocks += u64::from(self.config.every.is_none());
            stream.write(self.config.block_bytes, host);
        }
    }

    fn end_interval(&mut self, host: &mut Host<'_>) {
        for (stream, number) in self.streams.iter_mut().zip(0..) {
            if let Some(now) = host.stats(stream.conn) {
                let before = stream.before.replace(now);
                let none = ConnectionStats { record: ConnectionRecord::none(), delivered: 0, ..now };
                host.record(&IntervalRecord {
                    app: host.program(),
                    stream: number,
                    number: self.interval,
                    start: self.interval_start,
                    before: before.unwrap_or(none),
                    now,
                });
            }
        }
        self.interval += 1;
        self.interval_start = host.now();
    }

    fn stop(&mut self, host: &mut Host<'_>) {
        if self.interval_start < host.now() {
            self.end_interval(host);
        }
        [INTERVAL, BLOCK].into_iter().for_each(|key| host.cancel(key));
        self.streams.drain(..).for_each(|stream| host.close(stream.conn));
    }
}

impl TestStream {
    fn write(&mut self, bytes: u64, host: &mut Host<'_>) {
        if self.is_writable && self.due_blocks > 0 {
            host.send(self.conn, Message { bytes, ..Message::default() });
            host.notify_drained(self.conn, bytes);
            self.due_blocks -= 1;
            self.is_writable = false;
        }
    }
}

impl Application for Iperf {
    fn interest(&self) -> Interest {
        Interest::MESSAGES
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Start => host.timer(self.start, OPEN),
            AppEvent::Timer(OPEN) => self.open(host),
            AppEvent::Timer(INTERVAL) => {
                self.end_interval(host);
                host.timer(host.now() + self.config.interval, INTERVAL);
            }
            AppEvent::Timer(BLOCK) => self.write_blocks(host),
            AppEvent::Timer(_) => self.stop(host),
            AppEvent::Drained(conn) => self.on_drained(conn, host),
            _ => {}
        }
    }
}

/// Record of an interval of an iperf connection: its statistics at the start and at the end of the interval.
#[derive(Clone, Copy, Debug, Hash)]
struct IntervalRecord {
    app: u32,
    stream: u32,
    number: u32,
    start: Time,
    before: ConnectionStats,
    now: ConnectionStats,
}

impl Activity for IntervalRecord {
    fn app(&self) -> u32 {
        self.app
    }
}

impl IntervalRecord {
    fn delivered(&self) -> u64 {
        self.now.delivered - self.before.delivered
    }

    /// Returns the increase of the counter `of` during the interval.
    fn count(&self, of: fn(&ConnectionRecord) -> u32) -> u64 {
        u64::from(of(&self.now.record) - of(&self.before.record))
    }

    fn rtt_samples(&self) -> u64 {
        self.count(|record| record.rtt_samples)
    }
}

impl ActivityTable for IntervalRecord {
    const NAME: &'static str = "intervals";
    const ABOUT: &'static str = "One row per interval and connection of an iperf server, in order of time.";

    fn number(&self) -> u64 {
        self.number.into()
    }

    fn start(&self) -> Time {
        self.start
    }

    fn columns<'a>(to: &mut impl Columns<ActivityRow<'a, Self>>) {
        to.integer("connection", "Number of the connection, as in the table of connections.", |row| {
            row.record.now.record.connection
        });
        to.integer("stream", "Number of the connection among those of its user, from 0.", |row| {
            row.record.stream.into()
        });
        to.integer("interval", "Number of the interval, from 0.", |row| row.record.number());
        to.float("start_s", "Time at which the interval started.", |row| row.record.start.as_secs());
        to.float("end_s", "Time at which the interval ended.", |row| row.end.as_secs());
        to.integer("delivered_bytes", "Bytes that arrived at the client in the interval.", |row| {
            row.record.delivered()
        });
        to.float(
            "goodput_mbps",
            "Goodput: `delivered_bytes` divided by the length of the interval.",
            |row| 8e-6 * row.record.delivered() as f64 / (row.end - row.record.start).as_secs(),
        );
        to.integer("sent", "Data packets sent by the server, retransmissions included.", |row| {
            row.record.count(|record| record.sent)
        });
        to.integer("retransmitted", "Data packets retransmitted by the server.", |row| {
            row.record.count(|record| record.retransmitted)
        });
        to.integer("timeouts", "Retransmission timeouts of the server.", |row| {
            row.record.count(|record| record.timeouts)
        });
        to.integer("dropped", "Data packets of the server dropped by the network.", |row| {
            row.record.count(|record| record.dropped)
        });
        to.integer("rtt_samples", "Number of round-trip times measured by the server.", |row| {
            row.record.rtt_samples()
        });
        to.float("rtt_mean_s", "Mean of the round-trip times measured by the server; NaN if none.", |row| {
            let IntervalRecord { now, before, .. } = row.record;
            now.record.rtt_sum.saturating_sub(before.record.rtt_sum).as_secs()
                / row.record.rtt_samples() as f64
        });
        to.float("cwnd_bytes", "Congestion window of the server at the end of the interval.", |row| {
            row.record.now.cwnd.map_or(f64::NAN, |cwnd| cwnd as f64)
        });
    }
}
