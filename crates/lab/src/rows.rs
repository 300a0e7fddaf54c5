//! Every table of results, declared once: what its rows are made of, and each column with its name, which ends in its
//! unit, with a sentence, and with its value. The simulator and the emulator fill the same tables.

use crate::bursts::Burst;
use crate::column::{Columns, Heading, Headings};
use catnip_base::{Span, Time, words};
use catnip_net::{Backlog, Colour, DropReason, PortCounters};
use catnip_sim::record::{ConnectionRecord, EchoRecord, ObjectRecord, PageRecord, Reply, SenderView};
use catnip_sim::{DatagramCounters, Event, SERVER, Tally};

words! {
    /// The tables that a run can fill, and what each has rows for.
    #[derive(PartialOrd, Ord)]
    pub enum TableName {
        /// One row per run.
        Runs = ("runs", "One row per run."),
        /// One per group of traffic.
        Groups = (
            "groups",
            "One row per group of traffic: what its users got and what it took, from the end of the warm-up to the end of the run.",
        ),
        /// One per page, keystroke or connection.
        Transfers = (
            "transfers",
            "One row per page, keystroke or else connection that the users of a group wait for, begun after the warm-up.",
        ),
        /// One per page fetched.
        Pages = ("pages", "One row per page that a user has begun to load, in order of completion; behind them those that are not complete."),
        /// One per object fetched.
        Objects = ("objects", "One row per object of a page that was asked for, in order of completion; behind them those that are not complete."),
        /// One per connection.
        Connections = ("connections", "One row per TCP connection, in the order in which they ended; behind them those that are open."),
        /// One per keystroke.
        Echoes = ("echoes", "One row per keystroke of a user of Telnet, in the order in which they came back; behind them those that have not."),
        /// One per port of a named link.
        Ports = (
            "ports",
            "One row per direction of each `[link]`; `:back` is from `to` to `from`.",
        ),
        /// One per port and sample.
        LinkSeries = ("link_series", "One row per direction of each `[link]` and interval of `--series`."),
        /// One per open connection and sample.
        ConnectionSeries = (
            "connection_series",
            "One row per connection that was open in an interval of `--series`, and interval.",
        ),
        /// One per source of background traffic.
        Datagrams = ("datagrams", "One row per source of background traffic."),
        /// One per burst of a server.
        Bursts = (
            "bursts",
            "One row per burst in which a server sends, in the order in which they ended, behind them those that have not: a maximal \
             time in which something that its program has handed over is not acknowledged.",
        ),
        /// One per packet sent, ACK received, drop and timeout of a connection.
        Events = ("events", "One row per data packet sent, ACK received, drop and timeout of a connection."),
    }
}

impl TableName {
    /// Its columns, in order.
    pub fn headings(self) -> Vec<Heading> {
        match self {
            Self::Runs => headings::<RunRow>(),
            Self::Groups => headings::<GroupRow<'_>>(),
            Self::Transfers => headings::<TransferRow<'_>>(),
            Self::Pages => headings::<PageRow<'_>>(),
            Self::Objects => headings::<ObjectRow<'_>>(),
            Self::Connections => headings::<ConnectionRow<'_>>(),
            Self::Echoes => headings::<EchoRow<'_>>(),
            Self::Ports => headings::<PortRow<'_>>(),
            Self::LinkSeries => headings::<LinkSample<'_>>(),
            Self::ConnectionSeries => headings::<ConnectionSample<'_>>(),
            Self::Datagrams => headings::<DatagramRow<'_>>(),
            Self::Bursts => headings::<BurstRow<'_>>(),
            Self::Events => headings::<EventRow>(),
        }
    }
}

fn headings<R: Row>() -> Vec<Heading> {
    let mut headings = Headings::default();
    Run::columns(&mut headings);
    R::columns(&mut headings);
    headings.0
}

/// Which run a row is of: the first columns of every table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of the variant among those of the tables.
    pub variant: u64,
    /// Its seed.
    pub seed: u64,
}

impl Run {
    pub(crate) fn columns(to: &mut impl Columns<Self>) {
        to.integer("variant", "The scenario's variant: its name in files, its number elsewhere.", |run| {
            run.variant
        });
        to.integer("seed", "The seed of all random choices.", |run| run.seed);
    }
}

/// What a table has a row for.
pub trait Row: Sized {
    /// The table.
    const TABLE: TableName;
    /// Declares the table's columns in order: each with its name, what it holds, and its value in a row.
    fn columns(to: &mut impl Columns<Self>);
}

/// A run as a whole.
#[derive(Clone, Copy, Debug)]
pub struct RunRow {
    /// When it ended.
    pub end: Time,
    /// Before then nothing was counted in sums.
    pub warm_up: Span,
    /// What became of its transfers.
    pub tally: Tally,
    /// Packets that hosts have sent and whose end they have not heard of.
    pub open: u64,
    /// Packets times links.
    pub hops: u64,
    /// What it was like to do it in real time.
    pub real: Option<RealTime>,
}

/// What it was like to do a run in real time.
#[derive(Clone, Copy, Debug)]
pub struct RealTime {
    /// The clock at the end.
    pub duration: Span,
    /// CPU time of the emulator.
    pub cpu: Span,
    /// It ran under SCHED_FIFO.
    pub scheduled: bool,
}

impl Row for RunRow {
    const TABLE: TableName = TableName::Runs;
    fn columns(to: &mut impl Columns<Self>) {
        to.float("end_s", "When the run ended, on its own clock, which starts at 0.", |run| {
            run.end.as_secs()
        });
        to.float(
            "warm_up_s",
            "What the tables groups, transfers and ports leave out at its beginning.",
            |run| run.warm_up.as_secs(),
        );
        to.integer("packets_sent", "Data packets that TCP senders sent, retransmissions included.", |run| {
            run.tally.data_sent
        });
        to.integer("packets_dropped", "Of these, dropped by the network.", |run| run.tally.data_dropped);
        to.integer("packets_open", "Packets still in the network at the end, as the hosts count.", |run| {
            run.open
        });
        to.integer("connections", "TCP connections opened.", |run| run.tally.opened);
        to.integer("hops", "Packets times the links they crossed.", |run| run.hops);
        to.integer("transfers_completed", "Documents that have arrived whole.", |run| run.tally.completed);
        let seconds = |run: &Self, of: fn(&RealTime) -> Span| {
            run.real.as_ref().map_or(f64::NAN, |real| of(real).as_secs())
        };
        to.float("duration_s", "Emulator: how long the run took; NaN if simulated.", |run| {
            seconds(run, |real| real.duration)
        });
        to.float("cpu_s", "Emulator: its CPU time; NaN if simulated.", |run| seconds(run, |real| real.cpu));
        to.integer("real_time", "1 if an emulator ran under SCHED_FIFO.", |run| {
            run.real.is_some_and(|real| real.scheduled).into()
        });
    }
}

/// What users wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A page is complete.
    Page,
    /// What was typed has come back.
    Keystroke,
    /// A connection is over.
    Transfer,
    /// Nothing: their connections last as long as the run.
    Flow,
}

impl Unit {
    /// What several of them are called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Page => "pages",
            Self::Keystroke => "keystrokes",
            Self::Transfer => "transfers",
            Self::Flow => "flows",
        }
    }
}

/// A group of traffic.
#[derive(Clone, Copy, Debug)]
pub struct GroupRow<'a> {
    /// Its name.
    pub group: &'a str,
    /// What its users wait for.
    pub unit: Unit,
    /// How long it was looked at.
    pub measured: Span,
    /// How many of these were begun in that time.
    pub started: u64,
    /// Of these, how many are over.
    pub finished: u64,
    /// Connections that were open in that time.
    pub connections: u64,
    /// Bytes that clients have got.
    pub delivered_bytes: u64,
    /// Data packets of servers, retransmissions included.
    pub sent: u64,
    /// Of these, retransmissions.
    pub retransmitted: u64,
    /// Expired timers of servers.
    pub timeouts: u64,
    /// Data packets of servers that the network dropped.
    pub dropped: u64,
    /// Round trips that servers have measured.
    pub rtt_samples: u64,
    /// All of these, added up.
    pub rtt_sum: Span,
    /// See the column.
    pub fairness: f64,
}

impl<'a> GroupRow<'a> {
    /// A group that has done nothing yet.
    pub(crate) fn nothing(group: &'a str, unit: Unit, measured: Span) -> Self {
        Self {
            group,
            unit,
            measured,
            started: 0,
            finished: 0,
            connections: 0,
            delivered_bytes: 0,
            sent: 0,
            retransmitted: 0,
            timeouts: 0,
            dropped: 0,
            rtt_samples: 0,
            rtt_sum: Span::ZERO,
            fairness: f64::NAN,
        }
    }
}

impl Row for GroupRow<'_> {
    const TABLE: TableName = TableName::Groups;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", "The traffic group.", |it| it.group.into());
        to.text(
            "kind",
            "What its users wait for: `pages`, `keystrokes`, `transfers`, which are connections, or nothing: `flows` never end.",
            |it| it.unit.name().into(),
        );
        to.float("measured_s", "How long it was looked at: the run without its warm-up.", |it| {
            it.measured.as_secs()
        });
        to.integer("started", "How many of these were begun in that time.", |it| it.started);
        to.integer("finished", "Of these, how many were over at the end of the run.", |it| it.finished);
        to.integer("connections", "Connections that were open in that time.", |it| it.connections);
        to.integer("delivered_bytes", "What clients got over them in that time.", |it| it.delivered_bytes);
        to.float("goodput_mbps", "The same by time; NaN without any.", |it| {
            8e-6 * it.delivered_bytes as f64 / it.measured.as_secs()
        });
        to.integer("sent", "Data packets that servers sent, retransmissions included.", |it| it.sent);
        to.integer("retransmitted", "Of these, retransmissions.", |it| it.retransmitted);
        to.integer("timeouts", "Retransmission timeouts of servers.", |it| it.timeouts);
        to.integer("dropped", "Data packets of servers that the network dropped.", |it| it.dropped);
        to.float("rtt_mean_s", "Mean of the round trips that servers have measured; NaN if none.", |it| {
            it.rtt_sum.as_secs() / it.rtt_samples as f64
        });
        to.integer("rtt_samples", "How many these are.", |it| it.rtt_samples);
        to.float(
            "fairness",
            "Jain's index of the bytes that users got; NaN of fewer than two, and if nobody got any.",
            |it| it.fairness,
        );
    }
}

/// A page, a keystroke or a connection for which somebody waits.
#[derive(Clone, Copy, Debug)]
pub struct TransferRow<'a> {
    /// Traffic group of the user.
    pub group: &'a str,
    /// What it is.
    pub unit: Unit,
    /// The user.
    pub client: u32,
    /// Its number, as in the table of its kind.
    pub number: u64,
    /// When it was begun.
    pub start: Time,
    /// When it was over; [`Time::NEVER`]: it is not.
    pub end: Time,
    /// From its start to its end, or to that of the run.
    pub waited: Span,
}

impl Row for TransferRow<'_> {
    const TABLE: TableName = TableName::Transfers;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |it| it.group.into());
        to.integer("client", CLIENT, |it| it.client.into());
        to.integer(
            "number",
            "Number of the page, the keystroke or the connection, as in the table of its kind.",
            |it| it.number,
        );
        to.float("start_s", "When it was begun.", |it| it.start.as_secs());
        to.float("time_s", "From then until it was over; NaN if it is not.", |it| {
            seconds_from(it.start, it.end)
        });
        to.float("waited_s", "The same, or how long it had lasted at the end of the run.", |it| {
            it.waited.as_secs()
        });
    }
}

/// A page.
#[derive(Clone, Copy, Debug)]
pub struct PageRow<'a> {
    /// Traffic group of its user.
    pub group: &'a str,
    /// When it was complete; [`Time::NEVER`]: it is not.
    pub end: Time,
    /// What is to be said of it then.
    pub record: PageRecord,
    /// Bytes of it that have arrived.
    pub delivered: u64,
}

impl Row for PageRow<'_> {
    const TABLE: TableName = TableName::Pages;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |page| page.group.into());
        to.integer("client", CLIENT, |page| page.record.app.into());
        to.integer("page", PAGE, |page| u64::from(page.record.page) + 1);
        to.float("start_s", "When the user asked for its HTML.", |page| page.record.start.as_secs());
        to.float("time_s", "From then to its last byte; NaN if that has not come.", |page| {
            seconds_from(page.record.start, page.end)
        });
        to.integer("bytes", "Size of all its objects.", |page| page.record.bytes);
        to.integer("delivered_bytes", "Of these, how many have arrived.", |page| page.delivered);
        to.integer("connections", "Connections over which it came.", |page| page.record.connections.into());
    }
}

/// An object of a page.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRow<'a> {
    /// Traffic group of its user.
    pub group: &'a str,
    /// When it was complete; [`Time::NEVER`]: it is not.
    pub end: Time,
    /// What is to be said of it then.
    pub record: ObjectRecord,
    /// What a real server answered.
    pub reply: Option<Reply>,
    /// Bytes of it that have arrived.
    pub delivered: u64,
}

impl Row for ObjectRow<'_> {
    const TABLE: TableName = TableName::Objects;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |object| object.group.into());
        to.integer("client", CLIENT, |object| object.record.app.into());
        to.integer("page", PAGE, |object| u64::from(object.record.page) + 1);
        to.integer("object", "Number of the object in its page; 0 is the HTML.", |object| {
            object.record.object.into()
        });
        to.integer("bytes", "Its size, as the scenario says.", |object| object.record.bytes);
        to.float("start_s", "When the client asked for it.", |object| object.record.start.as_secs());
        to.float("time_s", "From then to its last byte; NaN if that has not come.", |object| {
            seconds_from(object.record.start, object.end)
        });
        to.integer("delivered_bytes", "Bytes of it that have arrived.", |object| object.delivered);
        reply(to, |object| (object.delivered, object.end < Time::NEVER), |object| object.reply);
    }
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionRow<'a> {
    /// Traffic group of its client.
    pub group: &'a str,
    /// What is to be said of it at its end.
    pub record: ConnectionRecord,
    /// What went over it, if one of its hosts is real.
    pub reply: Option<Reply>,
    /// Bytes of the server that have arrived.
    pub delivered: u64,
}

impl Row for ConnectionRow<'_> {
    const TABLE: TableName = TableName::Connections;
    fn columns(to: &mut impl Columns<Self>) {
        to.integer("connection", "Number of the connection, in order of opening.", |it| it.record.connection);
        to.text("group", GROUP, |it| it.group.into());
        to.integer("client", CLIENT, |it| it.record.app.into());
        to.integer("bytes", "Size of what it carried, as the scenario says.", |it| it.record.bytes);
        to.float("start_s", "When it was opened.", |it| it.record.opened.as_secs());
        to.integer("delivered_bytes", "Of these, how many the client has got.", |it| it.delivered);
        to.float("received_s", "When the client had the last byte; NaN if it has not.", |it| {
            seconds_from(Time::ZERO, it.record.received)
        });
        to.float(
            "acked_s",
            "When the server had the ACK of the last byte and all was over; NaN if it is not.",
            |it| seconds_from(Time::ZERO, it.record.acked),
        );
        to.integer("sent", "Data packets that the server sent, retransmissions included.", |it| {
            it.record.sent.into()
        });
        to.integer("sent_high", "Of these, marked HIGH.", |it| it.record.sent_high.into());
        to.integer("retransmitted", "Of these, retransmissions.", |it| it.record.retransmitted.into());
        to.integer("timeouts", "Retransmission timeouts of the server.", |it| it.record.timeouts.into());
        to.integer("fast_retransmits", "Fast retransmits of the server.", |it| {
            it.record.fast_retransmits.into()
        });
        to.integer("dropped", "Data packets of the server that the network dropped.", |it| {
            it.record.dropped.into()
        });
        to.integer(
            "syn_timeouts",
            "Segments of the handshake that had to be sent again, of both ends.",
            |it| it.record.syn_timeouts.into(),
        );
        to.float("rtt_mean_s", "Mean of the round trips that the server has measured; NaN if none.", |it| {
            it.record.rtt_sum.as_secs() / f64::from(it.record.rtt_samples)
        });
        to.integer("rtt_samples", "How many these are.", |it| it.record.rtt_samples.into());
        reply(to, |it| (it.delivered, it.record.acked < Time::NEVER), |it| it.reply);
    }
}

/// What came from a real host. A simulated server answers with what it is asked for, and its data has no contents.
fn reply<R>(
    to: &mut impl Columns<R>,
    delivered: impl Fn(&R) -> (u64, bool) + Copy,
    of: impl Fn(&R) -> Option<Reply>,
) {
    to.integer(
        "status",
        "HTTP status of the response; 0 without one, 200 if the server is simulated.",
        |row| of(row).map_or(if delivered(row).1 { 200 } else { 0 }, |reply| reply.status.into()),
    );
    to.integer("body_bytes", "Size of the body or bodies that came.", |row| {
        of(row).map_or(delivered(row).0, |reply| reply.body_bytes)
    });
    to.integer("whole", "1 if all of it came, 0 if it ended early or not at all.", |row| {
        of(row).map_or(delivered(row).1, |reply| reply.whole && delivered(row).1).into()
    });
    to.text("body_fnv1a", "FNV-1a hash of the (last) body, hexadecimal; empty if no host is real.", |row| {
        of(row).map_or("".into(), |reply| format!("{:016x}", reply.digest).into())
    });
}

/// A keystroke and its echo.
#[derive(Clone, Copy, Debug)]
pub struct EchoRow<'a> {
    /// Traffic group of its user.
    pub group: &'a str,
    /// When the echo was there; [`Time::NEVER`]: it is not.
    pub end: Time,
    /// What is to be said of it then.
    pub record: EchoRecord,
}

impl Row for EchoRow<'_> {
    const TABLE: TableName = TableName::Echoes;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |echo| echo.group.into());
        to.integer("client", CLIENT, |echo| echo.record.app.into());
        to.integer("number", "Number of the keystroke of its user, from 0.", |echo| echo.record.number);
        to.float("start_s", "When it was typed.", |echo| echo.record.start.as_secs());
        to.float("time_s", "From then to the echo's last byte; NaN if that has not come.", |echo| {
            seconds_from(echo.record.start, echo.end)
        });
    }
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct PortRow<'a> {
    /// Its name.
    pub name: &'a str,
    /// How many links it stands for.
    pub links: u64,
    /// What they counted after the warm-up.
    pub counters: PortCounters,
    /// What it could have carried from then to the end of the run, bits; infinite without a rate.
    pub capacity_bits: f64,
    /// So long that was.
    pub measured: Span,
}

impl Row for PortRow<'_> {
    const TABLE: TableName = TableName::Ports;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("port", "Name of the link in the scenario, and its direction.", |port| port.name.into());
        to.integer("links", "How many links of this name there are; all are counted together.", |port| {
            port.links
        });
        let arrived = |port: &Self, colour| port.counters.arrived[colour as usize];
        let dropped = |port: &Self, colour| port.counters.dropped_of(colour);
        to.integer("arrived_high", "Packets marked HIGH that came to its queue.", |port| {
            arrived(port, Colour::Green)
        });
        to.integer("arrived_med", "Packets marked MED that came.", |port| arrived(port, Colour::Yellow));
        to.integer("arrived_low", "All others that came.", |port| arrived(port, Colour::Red));
        to.integer("dropped_high", "Packets marked HIGH that were dropped.", |port| {
            dropped(port, Colour::Green)
        });
        to.integer("dropped_med", "Packets marked MED that were dropped.", |port| {
            dropped(port, Colour::Yellow)
        });
        to.integer("dropped_low", "All others that were dropped.", |port| dropped(port, Colour::Red));
        to.integer("delivered", "Packets that came to the other end, copies included.", |port| {
            port.counters.delivered
        });
        to.integer("delivered_bytes", "Their size, headers included.", |port| port.counters.delivered_bytes);
        to.integer("duplicated", "Copies of packets that were made behind the wire.", |port| {
            port.counters.duplicated
        });
        to.float("utilization", "Bits delivered over bits that the rate allows, from 0 to 1.", |port| {
            port.counters.delivered_bytes as f64 * 8.0 / port.capacity_bits
        });
        to.float(
            "queue_mean_packets",
            "Packets that wait for transmission, on average over the run without its warm-up; of a link that is several, in all of them.",
            |port| port.counters.waited.as_secs() / port.measured.as_secs(),
        );
        to.float(
            "queue_delay_mean_s",
            "How long a packet waits for its transmission to begin, on average; NaN if there was none.",
            |port| port.counters.waited.as_secs() / port.counters.started as f64,
        );
        for (why, name) in DropReason::NAMES {
            let about = match why {
                DropReason::Overflow => "Dropped on arrival at a full buffer.",
                DropReason::PushedOut => "Dropped from the queue to make room for a more important arrival.",
                DropReason::Early => "Dropped by RED at random, the average between its thresholds.",
                DropReason::Forced => "Dropped by RED, the average at or above its upper threshold.",
                DropReason::Loss => "Taken by a loss model.",
                DropReason::Policed => "Dropped by a policer: beyond its profile.",
                DropReason::Delay => "Dropped from the queue by CoDel: it had waited too long.",
            };
            to.integer(name, about, |port| port.counters.dropped.iter().map(|of| of[why as usize]).sum());
        }
    }
}

/// What one direction of a link did in an interval.
#[derive(Clone, Debug)]
pub struct LinkSample<'a> {
    /// Its name.
    pub name: &'a str,
    /// The end of the interval.
    pub at: Time,
    /// What it counted in it.
    pub counters: PortCounters,
    /// What it could have carried, bits; infinite without a rate.
    pub capacity_bits: f64,
    /// What waited at the end.
    pub waiting: Backlog,
}

impl Row for LinkSample<'_> {
    const TABLE: TableName = TableName::LinkSeries;
    fn columns(to: &mut impl Columns<Self>) {
        to.float("time_s", "When the interval ended.", |it| it.at.as_secs());
        to.text("port", "Name of the link in the scenario, and its direction.", |it| it.name.into());
        to.integer("arrived", "Packets that came to its queue in the interval.", |it| {
            it.counters.arrived.iter().sum()
        });
        to.integer("dropped", "Packets that were dropped.", |it| it.counters.dropped.iter().flatten().sum());
        to.integer("delivered_bytes", "What came to the other end, headers included.", |it| {
            it.counters.delivered_bytes
        });
        to.float("utilization", "Bits delivered over bits that the rate allows, from 0 to 1.", |it| {
            it.counters.delivered_bytes as f64 * 8.0 / it.capacity_bits
        });
        to.integer(
            "waiting_packets",
            "Packets that waited for transmission at the end of the interval.",
            |it| it.waiting.packets.into(),
        );
        to.integer("waiting_bytes", "Their size.", |it| it.waiting.bytes);
        to.float(
            "queue_delay_mean_s",
            "How long packets had waited whose transmission began in the interval; NaN if there was none.",
            |it| it.counters.waited.as_secs() / it.counters.started as f64,
        );
    }
}

/// What a connection did in an interval.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionSample<'a> {
    /// Traffic group of its client.
    pub group: &'a str,
    /// The end of the interval, and so long before it began.
    pub at: Time,
    /// How long it lasted.
    pub interval: Span,
    /// What is to be said of it at the end.
    pub record: ConnectionRecord,
    /// What would have been said at the beginning.
    pub before: ConnectionRecord,
    /// Bytes that came to the client in it.
    pub delivered: u64,
    /// The server's congestion window and slow-start threshold at the end, if it is open.
    pub window: Option<(u64, Option<u64>)>,
}

impl Row for ConnectionSample<'_> {
    const TABLE: TableName = TableName::ConnectionSeries;
    fn columns(to: &mut impl Columns<Self>) {
        to.float("time_s", "When the interval ended.", |it| it.at.as_secs());
        to.integer("connection", "Number of the connection, in order of opening.", |it| it.record.connection);
        to.text("group", GROUP, |it| it.group.into());
        to.integer("client", CLIENT, |it| it.record.app.into());
        to.float("cwnd_bytes", "The server's congestion window then; NaN if the connection is over.", |it| {
            it.window.map_or(f64::NAN, |(cwnd, _)| cwnd as f64)
        });
        to.float("ssthresh_bytes", "Its slow-start threshold; NaN before there is one.", |it| {
            it.window.and_then(|(_, ssthresh)| ssthresh).map_or(f64::NAN, |bytes| bytes as f64)
        });
        to.integer("delivered_bytes", "What came to the client in the interval.", |it| it.delivered);
        to.float("goodput_mbps", "The same by time.", |it| {
            8e-6 * it.delivered as f64 / it.interval.as_secs()
        });
        to.integer("sent", "Data packets that the server sent in the interval.", |it| {
            (it.record.sent - it.before.sent).into()
        });
        to.integer("retransmitted", "Of these, retransmissions.", |it| {
            (it.record.retransmitted - it.before.retransmitted).into()
        });
        to.float(
            "rtt_mean_s",
            "Mean of the round trips that it has measured in the interval; NaN if none.",
            |it| {
                let samples = it.record.rtt_samples - it.before.rtt_samples;
                it.record.rtt_sum.saturating_sub(it.before.rtt_sum).as_secs() / f64::from(samples)
            },
        );
    }
}

/// A source of background traffic.
#[derive(Clone, Copy, Debug)]
pub struct DatagramRow<'a> {
    /// Its traffic group.
    pub group: &'a str,
    /// Its number.
    pub source: u32,
    /// What became of its packets.
    pub counters: DatagramCounters,
}

impl Row for DatagramRow<'_> {
    const TABLE: TableName = TableName::Datagrams;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", "Traffic group of the source.", |source| source.group.into());
        to.integer("source", "Number of the source, counted with the users.", |source| source.source.into());
        to.integer("sent", "Packets it sent.", |source| source.counters.sent);
        to.integer("sent_bytes", "Their size.", |source| source.counters.sent_bytes);
        to.integer("duplicated", "Copies of them that the network made.", |source| {
            source.counters.duplicated
        });
        to.integer("received", "Packets that arrived, copies included.", |source| source.counters.received);
        to.integer("dropped", "Packets that the network dropped.", |source| source.counters.dropped);
        to.float("delay_mean_s", "Mean time from source to sink; NaN if nothing arrived.", |source| {
            source.counters.delay_s.mean()
        });
        to.float("delay_variance_s2", "Variance of that time; NaN with fewer than two packets.", |source| {
            source.counters.delay_s.variance()
        });
    }
}

/// A burst.
#[derive(Clone, Copy, Debug)]
pub struct BurstRow<'a> {
    /// Traffic group of its connection.
    pub group: &'a str,
    /// What was seen of it.
    pub burst: &'a Burst,
}

impl Row for BurstRow<'_> {
    const TABLE: TableName = TableName::Bursts;
    fn columns(to: &mut impl Columns<Self>) {
        to.text("group", GROUP, |it| it.group.into());
        to.integer("connection", "Number of the connection, in order of opening.", |it| it.burst.connection);
        to.integer("number", "Number of the burst on its connection, from 0.", |it| it.burst.number.into());
        to.integer(
            "first_byte",
            "Its first byte, counted from the first that the server sends over the connection; with the connection, the name of \
             the same burst under another algorithm.",
            |it| it.burst.first_byte,
        );
        to.integer("bytes", "Its size.", |it| it.burst.bytes);
        to.integer("delivered_bytes", "Of these, how many are acknowledged.", |it| it.burst.delivered);
        to.float(
            "idle_s",
            "From the last ACK of the burst before, or from the opening of the connection, to its first segment.",
            |it| it.burst.idle.as_secs(),
        );
        to.float("start_s", "When its first segment left.", |it| it.burst.start.as_secs());
        to.float("time_s", "From then to its last ACK; NaN if that has not come.", |it| {
            seconds_from(it.burst.start, it.burst.end)
        });
        to.integer("sent", "Data packets sent, retransmissions included.", |it| it.burst.sent.into());
        to.integer("retransmitted", "Of these, retransmissions.", |it| it.burst.retransmitted.into());
        to.integer("dropped", "Of these, dropped by the network.", |it| it.burst.dropped.into());
        to.integer("timeouts", "Retransmission timeouts of the server.", |it| it.burst.timeouts.into());
    }
}

/// Something that happened to a connection's sender or to a packet of it.
#[derive(Clone, Copy, Debug)]
pub struct EventRow {
    at: Time,
    kind: &'static str,
    connection: u64,
    seq: u64,
    sender: Option<SenderView>,
}

impl EventRow {
    /// The row of an event, if it has one.
    pub fn of(at: Time, event: &Event) -> Option<Self> {
        let of_sender = |kind, view: &SenderView| {
            Some(Self { at, kind, connection: view.connection, seq: view.seq, sender: Some(*view) })
        };
        match event {
            Event::Sent(view) => of_sender("send", view),
            Event::Acked(view) => of_sender("ack", view),
            Event::Timeout(view) => of_sender("rto", view),
            &Event::Dropped { connection, seq, .. } => {
                Some(Self { at, kind: "drop", connection, seq, sender: None })
            }
            Event::Connection(_) | Event::Object(_) | Event::Page(_) | Event::Echo(_) => None,
            Event::Datagram { .. } | Event::Reply(_) => None,
        }
    }
}

impl Row for EventRow {
    const TABLE: TableName = TableName::Events;
    fn columns(to: &mut impl Columns<Self>) {
        let bytes = |value: Option<u64>| value.map_or(f64::NAN, |bytes| bytes as f64);
        let sender = |event: &Self| event.sender;
        to.float("time_s", "When it happened.", |event| event.at.as_secs());
        to.text("kind", "`send`, `ack`, `drop`, or `rto`: the timer expired.", |event| event.kind.into());
        to.integer("connection", "Number of the connection, in order of opening.", |event| event.connection);
        to.text("end", "Whose sender: `client` or `server`; empty for drops.", |event| {
            event.sender.map_or("", |sender| if sender.end == SERVER { "server" } else { "client" }).into()
        });
        to.integer(
            "seq_bytes",
            "First byte of the packet's data, or the byte that an ACK asks for.",
            |event| event.seq,
        );
        to.float("cwnd_bytes", "The sender's congestion window; NaN for drops.", |event| {
            bytes(sender(event).map(|sender| sender.cwnd))
        });
        to.float(
            "ssthresh_bytes",
            "Its slow-start threshold; NaN for drops and before there is one.",
            |event| bytes(sender(event).and_then(|sender| sender.ssthresh)),
        );
        let validity = |event: &Self| event.sender.and_then(|sender| sender.validity);
        to.float(
            "pipe_ack_bytes",
            "pipeACK of newCWV (RFC 7661); NaN while undefined, and for connections without it.",
            move |event| bytes(validity(event).and_then(|validity| validity.pipe_ack)),
        );
        to.text(
            "phase",
            "`validated` or `non-validated` by newCWV; empty for connections without it.",
            move |event| match validity(event).map(|validity| validity.is_validated) {
                None => "".into(),
                Some(true) => "validated".into(),
                Some(false) => "non-validated".into(),
            },
        );
        to.integer("dupacks", "Duplicate ACKs in a row that it has seen.", |event| {
            sender(event).map_or(0, |sender| sender.dupacks.into())
        });
        to.integer("wire_bytes", "Size of the packet or ACK with its headers; 0 for drops.", |event| {
            sender(event).map_or(0, |sender| sender.wire_bytes.into())
        });
    }
}

/// Seconds from a time to another one, which may never come: NaN.
fn seconds_from(start: Time, end: Time) -> f64 {
    if end == Time::NEVER { f64::NAN } else { (end - start).as_secs() }
}

const GROUP: &str = "Traffic group of the client.";
const CLIENT: &str = "Number of the user, counted over all traffic groups; 4294967295 for a real client.";
const PAGE: &str = "Number of the page in the file of pages, from 1.";
