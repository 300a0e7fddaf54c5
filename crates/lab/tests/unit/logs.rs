//! Logs of runs in the formats of other tools: captured packets are compared with the events of the run, and qlog files are read with the
//! types of another project.

use catnip_base::{Rng, Span, Stream, Time};
use catnip_lab::{
    CapturedBursts, Column, LogRequest, LoggedRun, PacketLog, QlogOutput, RunRequest, Scenario, Table,
    TableName, log_run, read_bursts, run_all, write_logs,
};
use catnip_net::Packet;
use catnip_sim::record::SenderView;
use catnip_sim::watch::{Origin, Step};
use catnip_sim::{Event, SERVER, Watch};
use catnip_wire::pcapng::{CaptureError, Reader, Writer};
use catnip_wire::{Ip, Tcp, TcpFlags, has_valid_transport_checksum, ip};
use qlog::events::EventData;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Scenario of Web pages, files and background traffic over a lossy link, with a marker.
const OFFICE: &str = concat!(
    "duration = '20s'\n",
    include_str!("../lossy_link.toml"),
    "marker = 'tcp-state'
[traffic.web]
kind = 'web'
clients = 'near'
servers = 'far'
http = '1.1'
max_connections = 2
endless = true
request_bytes = 300
think_s = { distribution = 'exponential', mean = 0.2 }
[traffic.web.generate]
pages = 10
seed = 1
html_bytes = { distribution = 'constant', value = 6000 }
images = { distribution = 'uniform', minimum = 0, maximum = 9 }
image_bytes = { distribution = 'exponential', mean = 5000 }
[traffic.up]
kind = 'ftp'
from = 'near'
to = 'far'
request_bytes = 50
bytes = { distribution = 'exponential', mean = 30000 }
gap_s = { distribution = 'exponential', mean = 0.5 }
[traffic.noise]
kind = 'background'
from = 'far'
to = 'near'
both_ways = true
rate = '300kbit'
peak = '5Mbit'
burst = '20ms'
packet_bytes = { distribution = 'uniform', minimum = 40, maximum = 984 }
"
);

fn office() -> Scenario {
    parse(OFFICE)
}

fn parse(text: &str) -> Scenario {
    Scenario::parse(Path::new("x.toml"), text).unwrap_or_else(|error| panic!("{error}"))
}

/// Folder with the logs of a run with seed 1: packets captured at given nodes, and qlog.
struct Logs {
    folder: TempDir,
}

impl Logs {
    fn of(scenario: &Scenario, at: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let logs = Self { folder };
        let at: Vec<String> = at.iter().map(|&text| text.into()).collect();
        let (packets, qlog) = (logs.packets(), logs.qlog());
        let packets = Some(PacketLog { path: &packets, at: &at });
        let request = LogRequest { variant: "default", seed: 1, packets, qlog: Some(&qlog) };
        assert_eq!(write_logs(scenario, &request, &mut || true), Ok(true));
        let left: Vec<_> = logs.folder.path().read_dir().unwrap().collect();
        assert_eq!(left.len(), 2, "nothing else stays behind");
        logs
    }

    fn packets(&self) -> PathBuf {
        self.folder.path().join("run.pcapng")
    }

    fn qlog(&self) -> PathBuf {
        self.folder.path().join("run.qlog")
    }

    /// Visits each packet of the capture: time, interface, bytes, original length and comment.
    fn each(&self, mut visit: impl FnMut(Time, u32, &[u8], u32, &str)) {
        let bytes = fs::read(self.packets()).unwrap();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        let mut next = || -> Result<bool, CaptureError> {
            let Some(it) = reader.next_record()? else { return Ok(false) };
            let at = Time::from_nanos(it.nanos as u64);
            visit(at, it.interface, it.frame, it.original_len, it.comment.unwrap_or(""));
            Ok(true)
        };
        while next().unwrap() {}
    }
}

/// Watch that records events of packets and senders, for comparison with the logs.
#[derive(Default)]
struct CaptureCounts {
    sent: u64,
    delivered: u64,
    dropped: u64,
    data: Vec<(Time, SenderView)>,
}

impl Watch for CaptureCounts {
    const PACKETS: bool = true;
    fn record(&mut self, now: Time, event: &Event) {
        if let Event::Sent(view) = event {
            self.data.push((now, *view));
        }
    }
    fn packet(&mut self, _now: Time, _packet: &Packet, _origin: Origin, step: Step<'_>) {
        self.sent += u64::from(matches!(step, Step::Sent(_)));
        self.delivered += u64::from(matches!(step, Step::Delivered(_)));
        self.dropped += u64::from(matches!(step, Step::Dropped(..)));
    }
}

fn capture_counts(scenario: &Scenario) -> CaptureCounts {
    scenario.plan("default").unwrap().run(1, CaptureCounts::default()).into_watch()
}

#[test]
fn a_capture_at_all_hosts_has_every_packet_as_it_leaves_and_as_it_arrives_and_says_which_were_dropped() {
    let scenario = office();
    let logs = Logs::of(&scenario, &["near", "far"]);
    let (mut seen, mut dropped, mut inside, mut last) = (0, 0, 0, Time::ZERO);
    logs.each(|at, _, bytes, original_len, comment| {
        assert!(at >= last, "in order of time");
        last = at;
        let ip = Ip::parse(bytes).unwrap();
        assert!(ip.has_valid_header_checksum() && ip.padding() == 0);
        assert_eq!(has_valid_transport_checksum(&ip), Ok(true));
        assert!(original_len as usize >= bytes.len());
        seen += 1;
        dropped += u64::from(comment.starts_with("dropped at "));
        inside += u64::from(comment == "in the network when the run ended");
    });
    let capture_counts = capture_counts(&scenario);
    assert!(
        capture_counts.dropped > 100 && capture_counts.sent > 5000,
        "{} {}",
        capture_counts.dropped,
        capture_counts.sent
    );
    assert_eq!((seen, dropped), (capture_counts.sent + capture_counts.delivered, capture_counts.dropped));
    assert_eq!(inside, capture_counts.sent - capture_counts.delivered - capture_counts.dropped);
}

#[test]
fn at_its_server_a_connection_is_seen_once_with_all_that_the_server_sends_at_its_nanosecond() {
    let scenario = office();
    let logs = Logs::of(&scenario, &[]);
    // Sequence number of the server's first byte, by port of the client, and the data segments of the servers.
    let mut initial: BTreeMap<u16, u32> = BTreeMap::new();
    let mut data = Vec::new();
    logs.each(|at, _, bytes, original_len, _| {
        let ip = Ip::parse(bytes).unwrap();
        let Ok(segment) = ip.transport(ip::TCP) else { return };
        let tcp = Tcp::parse(segment).unwrap();
        let (from_server, client) = match tcp.source_port() {
            80 => (true, tcp.destination_port()),
            port => (false, port),
        };
        let header = tcp.header().unwrap();
        if from_server && header.flags.contains(TcpFlags::SYN) {
            initial.insert(client, header.sequence.wrapping_add(1));
        } else if from_server && (!tcp.payload().is_empty() || header.flags.contains(TcpFlags::FIN)) {
            let seq = u64::from(header.sequence.wrapping_sub(initial[&client]));
            let fin = header.flags.contains(TcpFlags::FIN);
            data.push((at, u64::from(client) - 1024, seq, tcp.payload().len() as u32, fin, original_len));
        }
    });
    let of_servers = capture_counts(&scenario).data.into_iter().filter(|(_, view)| view.end == SERVER);
    let shown =
        |(at, it): (Time, SenderView)| (at, it.connection, it.seq, it.data_bytes, it.fin, it.wire_bytes);
    let mut expected: Vec<_> = of_servers.map(shown).collect();
    expected.sort();
    data.sort();
    assert!(expected.len() > 1000 && initial.len() > 20, "{} {}", expected.len(), initial.len());
    assert_eq!(data, expected);
}

#[test]
fn every_interface_has_the_name_of_its_node_and_counts_nanoseconds() {
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption as Has;
    use pcap_file::pcapng::{Block, PcapNgReader};
    let names = |at: &[&str]| {
        let bytes = fs::read(Logs::of(&office(), at).packets()).unwrap();
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let (mut names, mut packets) = (Vec::new(), 0);
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(it) => {
                    assert!(it.options.contains(&Has::IfTsResol(9)));
                    names.extend(it.options.iter().filter_map(|option| match option {
                        Has::IfName(name) => Some(name.to_string()),
                        _ => None,
                    }));
                }
                Block::EnhancedPacket(it) => {
                    assert!((it.interface_id as usize) < names.len());
                    packets += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(packets > 0);
        names
    };
    assert_eq!(names(&["near[1..]"]), ["near[1]", "near[2]"]);
    // The servers of the pages and of the uploaded files.
    assert_eq!(names(&[]), ["far", "near[0]"]);
}

#[test]
fn a_drop_is_told_by_the_name_of_its_link_or_by_its_ends() {
    let mut comments = BTreeMap::new();
    let tight = OFFICE.replace("10Mbit", "200kbit").replace("drop-tail:20", "drop-tail:2");
    Logs::of(&parse(&tight), &["near", "far"]).each(|_, _, _, _, comment| {
        *comments.entry(comment.to_string()).or_insert(0) += 1;
    });
    for comment in ["dropped at far:back: loss", "dropped at near[0] to r: overflow"] {
        assert!(comments.contains_key(comment), "{comment:?} is not in {comments:?}");
    }
}

#[test]
fn what_is_written_is_the_same_again_and_another_seed_is_another_run() {
    let scenario = office();
    let [one, same] = [1, 2].map(|_| Logs::of(&scenario, &[]));
    assert_eq!(fs::read(one.packets()).unwrap(), fs::read(same.packets()).unwrap());
    assert_eq!(fs::read(one.qlog()).unwrap(), fs::read(same.qlog()).unwrap());
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join("other.pcapng");
    let packets = Some(PacketLog { path: &path, at: &[] });
    let request = LogRequest { variant: "default", seed: 2, packets, qlog: None };
    write_logs(&scenario, &request, &mut || true).unwrap();
    assert_ne!(fs::read(&path).unwrap(), fs::read(one.packets()).unwrap());
}

#[test]
fn what_is_written_to_memory_is_what_is_written_to_files() {
    let scenario = office();
    let files = Logs::of(&scenario, &[]);
    let (mut packets, mut qlog) = (Vec::new(), Vec::new());
    let run = LoggedRun { variant: "default", seed: 1, packets_at: &[] };
    let outputs = QlogOutput { out: &mut qlog, store: Cursor::new(Vec::new()) };
    assert!(log_run(&scenario, &run, Some(&mut packets), Some(outputs), &mut || true).unwrap());
    assert_eq!(packets, fs::read(files.packets()).unwrap());
    assert_eq!(qlog, fs::read(files.qlog()).unwrap());
}

#[test]
fn a_run_that_is_to_stop_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.qlog");
    let request = LogRequest { variant: "default", seed: 1, packets: None, qlog: Some(&path) };
    assert_eq!(write_logs(&office(), &request, &mut || false), Ok(false));
    assert_eq!(fs::read(&path).unwrap(), b"", "nothing is written before the end");
}

#[test]
fn what_cannot_be_written_is_one_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let (file, missing) = (folder.path().join("x"), folder.path().join("missing/x"));
    let error = |scenario: &Scenario, path: &Path, at: &[String]| {
        let packets = Some(PacketLog { path, at });
        let request = LogRequest { variant: "default", seed: 1, packets, qlog: None };
        write_logs(scenario, &request, &mut || true).unwrap_err().to_string()
    };
    let no_node = error(&office(), &file, &["far".into(), "near[7]".into()]);
    assert_eq!(no_node, "x.toml: --packets-at: \"near[7]\": only 3 nodes of this name");
    let nowhere = error(&office(), &missing, &[]);
    assert!(nowhere.starts_with(&missing.display().to_string()), "{nowhere}");
    let long = OFFICE.replace("marker = 'tcp-state'", "segment = '65480'");
    let long = error(&parse(&long), &file, &[]);
    let message = "segments of 65480 bytes: expected at most 65455, the payload of an IP packet";
    assert_eq!(long, format!("x.toml: --packets: {message}"));
    assert!(!file.exists());
}

/// Returns the qlog file of a run as parsed by the types of another project, and as JSON.
fn read(logs: &Logs) -> (qlog::Qlog, Value) {
    let text = fs::read_to_string(logs.qlog()).unwrap();
    (serde_json::from_str(&text).unwrap(), serde_json::from_str(&text).unwrap())
}

#[test]
fn qlog_is_read_whole_by_the_types_of_another_project_and_has_nothing_that_they_do_not_know() {
    let logs = Logs::of(&office(), &[]);
    let (file, mut ours) = read(&logs);
    assert_eq!((file.qlog_version.as_str(), file.qlog_format.as_str()), (qlog::QLOG_VERSION, "JSON"));
    let mut theirs = serde_json::to_value(&file).unwrap();
    // The other project stores times in 32 bits. Times are therefore removed here and compared in other tests.
    let mut events = 0;
    for file in [&mut ours, &mut theirs] {
        for trace in file["traces"].as_array_mut().unwrap() {
            for event in trace["events"].as_array_mut().unwrap() {
                assert!(event["time"].take().as_f64().unwrap() >= 0.0);
                events += 1;
            }
        }
    }
    assert!(events > 5000 && file.traces.len() > 20, "{events} {}", file.traces.len());
    assert_eq!(ours, theirs);
}

fn table(scenario: &Scenario, name: TableName) -> Table {
    let request =
        RunRequest { variants: vec!["default"], seeds: vec![1], tables: vec![name], threads: 1, every: None };
    run_all(scenario, &request, &mut |_| true).unwrap().unwrap().remove(&name).unwrap()
}

fn numbers(table: &Table, name: &str) -> Vec<f64> {
    match &table.columns().iter().find(|(n, _)| *n == name).unwrap().1 {
        Column::Float(values) => values.clone(),
        Column::Integer(values) => values.iter().map(|&v| v as f64).collect(),
        Column::Text(_) => panic!("{name} is text"),
    }
}

fn texts(table: &Table, name: &str) -> Vec<String> {
    match &table.columns().iter().find(|(n, _)| *n == name).unwrap().1 {
        Column::Text(values) => values.iter().map(ToString::to_string).collect(),
        _ => panic!("{name} is a number"),
    }
}

/// Scenario of a server that sends a file to each of four clients, without other traffic that would have rows in the table of events.
fn files(profile: &str) -> Scenario {
    parse(&format!(
        "id = 'X'
title = 'Files over a lossy link'
[node]
server = {{ kind = 'host' }}
client = {{ kind = 'host', count = 4 }}
r = {{ kind = 'router' }}
[link.a]
from = 'r'
to = 'client'
rate = '20Mbit'
delay = '3ms'
queue = 'drop-tail:50'
[link.b]
from = 'server'
to = 'r'
rate = '5Mbit'
delay = '20ms'
queue = 'drop-tail:20'
loss = 'bernoulli:0.02'
[tcp]
{profile}
[traffic.document]
kind = 'bulk'
from = 'server'
to = 'client'
packets = 800
"
    ))
}

const SENDERS: [&str; 6] = [
    "profile = 'rfc'",
    "profile = 'rfc'\nrecovery = 'newreno'",
    "profile = 'rfc'\nrecovery = 'tahoe'",
    "profile = 'ns2-2.35'",
    "profile = 'ns2-2.35'\nrecovery = 'sack1'\nwindow_segments = 64",
    "profile = 'linux-2.0'",
];

#[test]
fn window_and_threshold_over_time_are_those_of_the_table_of_events() {
    for sender in SENDERS {
        let scenario = files(sender);
        let (_, file) = read(&Logs::of(&scenario, &[]));
        // Events of each connection in order, one for each packet sent, ACK and timeout: time, kind, cwnd and ssthresh.
        let mut shown: BTreeMap<u64, Vec<(i64, &str, f64, f64)>> = BTreeMap::new();
        for trace in file["traces"].as_array().unwrap() {
            let connection = trace["common_fields"]["group_id"].as_str().unwrap().parse().unwrap();
            let rows = shown.entry(connection).or_default();
            let (mut cwnd, mut ssthresh) = (f64::NAN, f64::NAN);
            for event in trace["events"].as_array().unwrap() {
                let data = &event["data"];
                let kind = match event["name"].as_str().unwrap() {
                    "transport:packet_sent" => "send",
                    "transport:packet_received" => "ack",
                    "recovery:loss_timer_updated" => "rto",
                    "recovery:metrics_updated" => {
                        cwnd = data["congestion_window"].as_f64().unwrap_or(cwnd);
                        ssthresh = data["ssthresh"].as_f64().unwrap_or(ssthresh);
                        // Metrics are logged after the event that has changed them.
                        let last = rows.last_mut().unwrap();
                        (last.2, last.3) = (cwnd, ssthresh);
                        continue;
                    }
                    _ => continue,
                };
                let nanos = (event["time"].as_f64().unwrap() * 1e6).round() as i64;
                rows.push((nanos, kind, cwnd, ssthresh));
            }
        }
        let table = table(&scenario, TableName::EVENTS);
        let [time, connection, cwnd, ssthresh] =
            ["time_s", "connection", "cwnd_bytes", "ssthresh_bytes"].map(|name| numbers(&table, name));
        let kinds = texts(&table, "kind");
        let mut expected: BTreeMap<u64, Vec<(i64, &str, f64, f64)>> = BTreeMap::new();
        for row in (0..table.rows()).filter(|&row| kinds[row] != "drop") {
            let nanos = (time[row] * 1e9).round() as i64;
            let of = expected.entry(connection[row] as u64).or_default();
            of.push((nanos, &kinds[row], cwnd[row], ssthresh[row]));
        }
        assert_eq!(expected.len(), 4);
        // NaN is not equal to itself, but its text is.
        assert_eq!(format!("{shown:?}"), format!("{expected:?}"), "{sender}");
    }
}

#[test]
fn what_newcwv_has_found_out_is_told_as_in_the_table_of_events() {
    let scenario = files("profile = 'rfc'\nvalidation = 'newcwv'");
    let (_, file) = read(&Logs::of(&scenario, &[]));
    // State of newCWV after each packet sent, ACK and timeout of a connection: pipeACK (`None` while undefined), and true in the validated
    // phase.
    let mut shown: BTreeMap<u64, Vec<(Option<u64>, bool)>> = BTreeMap::new();
    for trace in file["traces"].as_array().unwrap() {
        let connection = trace["common_fields"]["group_id"].as_str().unwrap().parse().unwrap();
        let rows = shown.entry(connection).or_default();
        let (mut pipe_ack, mut validated) = (None, true);
        for event in trace["events"].as_array().unwrap() {
            match event["name"].as_str().unwrap() {
                "transport:packet_sent" | "transport:packet_received" | "recovery:loss_timer_updated" => {}
                "recovery:metrics_updated" => {
                    pipe_ack = event["data"]["pipe_ack"].as_u64().or(pipe_ack);
                    validated =
                        event["data"]["cwnd_validated"].as_u64().map_or(validated, |phase| phase == 1);
                    rows.pop();
                }
                _ => continue,
            }
            rows.push((pipe_ack, validated));
        }
    }
    let table = table(&scenario, TableName::EVENTS);
    let [connection, pipe_ack] = ["connection", "pipe_ack_bytes"].map(|name| numbers(&table, name));
    let (kinds, phases) = (texts(&table, "kind"), texts(&table, "phase"));
    let mut seen = BTreeMap::new();
    for row in (0..table.rows()).filter(|&row| kinds[row] != "drop") {
        let of = shown[&(connection[row] as u64)][{
            let next: &mut usize = seen.entry(connection[row] as u64).or_default();
            *next += 1;
            *next - 1
        }];
        assert_eq!(of.1, phases[row] == "validated", "row {row}");
        if !pipe_ack[row].is_nan() {
            assert_eq!(of.0, Some(pipe_ack[row] as u64), "row {row}");
        }
    }
    assert!(phases.iter().any(|phase| *phase == "non-validated"), "it never was");
}

#[test]
fn every_retransmission_was_lost_before_and_every_packet_is_acknowledged_or_lost_once() {
    use qlog::events::quic::{AckedRanges, QuicFrame};
    for sender in SENDERS {
        let scenario = files(sender);
        let (file, _) = read(&Logs::of(&scenario, &[]));
        let connections = table(&scenario, TableName::CONNECTIONS);
        let [number, retransmitted, timeouts] =
            ["connection", "retransmitted", "timeouts"].map(|name| numbers(&connections, name));
        let mut lost_in_all = 0;
        for trace in &file.traces {
            // Data bytes of packets that are neither acknowledged nor lost, by packet number. Packet numbers of lost data that is not
            // retransmitted yet, by offset. Bytes in flight.
            let (mut out, mut lost, mut in_flight) = (BTreeMap::new(), BTreeMap::new(), 0);
            let (mut again, mut expired, mut recovering, mut state) = (0, 0, 0, String::new());
            for event in &trace.events {
                match &event.data {
                    EventData::PacketSent(sent) => {
                        let frames = sent.frames.as_ref().unwrap();
                        let QuicFrame::Stream { offset, length, .. } = frames[0] else { panic!() };
                        let repeats = (offset..=offset + length).any(|byte| lost.remove(&byte).is_some());
                        assert_eq!(sent.trigger.is_some(), repeats);
                        again += u32::from(repeats);
                        assert_eq!(out.insert(sent.header.packet_number.unwrap(), length), None);
                        in_flight += length;
                    }
                    EventData::PacketReceived(received) => {
                        let [QuicFrame::Ack { acked_ranges, .. }] = &received.frames.as_ref().unwrap()[..]
                        else {
                            panic!()
                        };
                        let Some(AckedRanges::Single(ranges)) = acked_ranges else { continue };
                        for number in ranges.iter().flat_map(|range| range[0]..=range[1]) {
                            in_flight -= out.remove(&number).unwrap_or(0);
                        }
                    }
                    EventData::PacketLost(gone) => {
                        let number = gone.header.as_ref().unwrap().packet_number.unwrap();
                        let QuicFrame::Stream { offset, .. } = gone.frames.as_ref().unwrap()[0] else {
                            panic!()
                        };
                        in_flight -= out.remove(&number).expect("it is lost once");
                        lost.insert(offset, number);
                        lost_in_all += 1;
                    }
                    EventData::MetricsUpdated(metrics) => {
                        assert_eq!(metrics.bytes_in_flight.unwrap_or(in_flight), in_flight);
                    }
                    EventData::LossTimerUpdated(_) => expired += 1,
                    EventData::CongestionStateUpdated(update) => {
                        assert_eq!(update.old.clone().unwrap_or_default(), state);
                        state.clone_from(&update.new);
                        recovering += u32::from(state == "recovery");
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(out.is_empty() && lost.is_empty() && in_flight == 0, "{out:?} {lost:?}");
            let name = trace.common_fields.as_ref().unwrap().group_id.clone().unwrap();
            let row = number.iter().position(|it| it.to_string() == name).unwrap();
            assert_eq!((f64::from(again), f64::from(expired)), (retransmitted[row], timeouts[row]));
            assert_eq!(recovering > 0, !sender.contains("tahoe"), "{sender}");
        }
        assert!(lost_in_all > 40, "{lost_in_all}");
    }
}

/// Returns these columns of a table of bursts, row by row, without bursts that have not ended, in order.
fn ended_bursts(table: &Table, begin_s: f64) -> Vec<Vec<i64>> {
    let column = |name: &str| match table.column(name) {
        Column::Float(values) => values.clone(),
        Column::Integer(values) => values.iter().map(|&value| value as f64).collect(),
        Column::Text(_) => panic!("{name} has names"),
    };
    let names = ["start_s", "time_s", "first_byte", "bytes", "sent", "retransmitted", "number", "idle_s"];
    let columns = names.map(column);
    let mut rows = Vec::new();
    let values = |row: usize| columns.each_ref().map(|column| column[row]);
    for [start, time, first, bytes, sent, again, number, idle] in (0..table.rows()).map(values) {
        if time.is_nan() {
            continue;
        }
        // A capture at the server sees a connection open when its SYN arrives.
        let idle = if number == 0.0 { 0.0 } else { idle };
        let micros = |seconds: f64| (seconds * 1e6).round() as i64;
        rows.push(vec![
            micros(start + begin_s),
            micros(time),
            first as i64,
            bytes as i64,
            sent as i64,
            again as i64,
            number as i64,
            micros(idle),
        ]);
    }
    rows.sort_unstable();
    rows
}

#[test]
fn bursts_of_a_capture_are_those_of_the_run_that_it_is_of() {
    // Files towards the server would be bursts of the other side.
    let scenario = parse(
        &OFFICE
            .replace("from = 'near'\nto = 'far'\nrequest_bytes", "from = 'far'\nto = 'near'\nrequest_bytes"),
    );
    let logs = Logs::of(&scenario, &["far"]);
    let mut begin = None;
    logs.each(|at, _, _, _, _| _ = begin.get_or_insert(at));
    let CapturedBursts { bursts, connections, unopened, is_cut } = read_bursts(&logs.packets()).unwrap();
    assert!(connections > 9 && unopened == 0 && !is_cut, "{connections} connections, {unopened} unopened");
    let (variants, seeds, tables) = (vec!["default"], vec![1], vec![TableName::BURSTS]);
    let request = RunRequest { variants, seeds, tables, threads: 1, every: None };
    let of_run =
        run_all(&scenario, &request, &mut |_| true).unwrap().unwrap().remove(&TableName::BURSTS).unwrap();
    let expected = ended_bursts(&of_run, 0.0);
    assert!(expected.len() > 200 && expected.iter().any(|row| row[5] > 0), "{}", expected.len());
    assert_eq!(ended_bursts(&bursts, begin.unwrap().as_secs()), expected);
}

#[test]
fn a_capture_that_is_cut_tells_its_bursts_up_to_there_and_one_without_tcp_is_refused() {
    let scenario = office();
    let logs = Logs::of(&scenario, &["far"]);
    let bytes = fs::read(logs.packets()).unwrap();
    let cut = logs.folder.path().join("cut.pcapng");
    fs::write(&cut, &bytes[..bytes.len() / 2 + 3]).unwrap();
    let whole = read_bursts(&logs.packets()).unwrap();
    let part = read_bursts(&cut).unwrap();
    assert!(part.is_cut && part.bursts.rows() > 20 && part.bursts.rows() < whole.bursts.rows());
    let nothing = logs.folder.path().join("nothing.pcapng");
    fs::write(&nothing, &bytes[..60]).unwrap();
    let error = read_bursts(&nothing).unwrap_err().to_string();
    assert!(error.contains("nothing.pcapng: it has no TCP packets"), "{error}");
    let missing = logs.folder.path().join("missing.pcapng");
    assert!(read_bursts(&missing).unwrap_err().to_string().contains("cannot read it"));
}

/// Untrusted packets: a capture with a damaged half of its headers, times, packets and lengths.
#[test]
fn a_damaged_capture_is_refused_or_tells_bursts_that_can_be() {
    let scenario = office();
    let logs = Logs::of(&scenario, &["far"]);
    let mut packets: Vec<(u64, Vec<u8>)> = Vec::new();
    logs.each(|at, _, bytes, _, _| packets.push((at.as_nanos(), bytes.to_vec())));
    packets.truncate(400);
    let mut random = Rng::new(8, Stream::Workload(0));
    let (mut found, mut refused) = (0, 0);
    for number in 0..200 {
        let mut writer = Writer::new(Vec::new(), Span::ZERO).unwrap();
        let interface = writer.interface("damaged").unwrap();
        for (nanos, bytes) in &packets {
            let (mut nanos, mut bytes) = (*nanos, bytes.clone());
            let place = random.below(40.min(bytes.len() as u32)) as usize;
            match random.below(24) {
                0 => bytes[place] = random.next_u32() as u8,
                // Sequence numbers, acknowledgments and flags of a TCP header without IP options.
                1 => bytes[24 + random.below(10) as usize] = random.next_u32() as u8,
                2 => bytes.truncate(place),
                3 => nanos = u64::from(random.next_u32()) << random.below(31),
                4 => continue,
                _ => {}
            }
            writer.packet(Time::from_nanos(nanos), interface, &bytes, "").unwrap();
        }
        let mut bytes = writer.finish().unwrap();
        // Blocks and their lengths, too, in every other capture.
        for _ in 0..(number % 2) * (1 + random.below(40)) {
            let place = random.below(bytes.len() as u32) as usize;
            bytes[place] ^= 1 << random.below(8);
        }
        let path = logs.folder.path().join("damaged.pcapng");
        fs::write(&path, bytes).unwrap();
        let Ok(CapturedBursts { bursts, connections, .. }) = read_bursts(&path) else {
            refused += 1;
            continue;
        };
        let column = |name: &str| match bursts.column(name) {
            Column::Float(values) => values.clone(),
            Column::Integer(values) => values.iter().map(|&value| value as f64).collect(),
            Column::Text(_) => panic!("{name} has names"),
        };
        for name in ["start_s", "time_s", "idle_s", "bytes", "sent", "retransmitted"] {
            assert!(column(name).iter().all(|&value| value.is_nan() || value >= 0.0), "{name}");
        }
        assert!(column("connection").iter().all(|&one| one < connections as f64));
        found += bursts.rows();
    }
    assert!(found > 1000 && (10..100).contains(&refused), "{found} bursts, {refused} captures are refused");
}

#[test]
fn a_capture_out_of_order_of_time_has_no_time_below_zero() {
    let scenario = office();
    let logs = Logs::of(&scenario, &["far"]);
    let mut packets: Vec<(u64, Vec<u8>)> = Vec::new();
    logs.each(|at, _, bytes, _, _| packets.push((at.as_nanos(), bytes.to_vec())));
    // Half of the packets come from a clock that is ten seconds behind.
    let path = logs.folder.path().join("merged.pcapng");
    let mut writer = Writer::new(fs::File::create(&path).unwrap(), Span::from_secs(100)).unwrap();
    let interface = writer.interface("merged").unwrap();
    for (number, (nanos, bytes)) in packets.iter().enumerate() {
        let behind = if number % 2 == 0 { 0 } else { 10_000_000_000 };
        let at = Time::from_nanos((nanos + 10_000_000_000) - behind);
        writer.packet(at, interface, bytes, "").unwrap();
    }
    writer.finish().unwrap();
    let found = read_bursts(&path).unwrap();
    assert!(found.bursts.rows() > 20);
    for name in ["idle_s", "time_s"] {
        let Column::Float(values) = found.bursts.column(name) else { panic!("{name} has numbers") };
        assert!(values.iter().all(|&value| value.is_nan() || (0.0..60.0).contains(&value)), "{name}");
    }
}
