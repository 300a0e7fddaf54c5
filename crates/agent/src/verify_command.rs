//! Command `catnip agent verify`.

use catnip_base::notation;
use catnip_cli::failure::Failure;
use catnip_cli::out::{print_json, print_stdout};
use catnip_net::mark::{MarkerSpec, Service, TcpStateSpec};
use catnip_wire::verify::{Acks, Documents, Marker, Markers, Report, Rules, Side, Windows, verify};
use catnip_wire::{AfClass, PriorityCodec};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Verifies the marks in a capture that was taken at the sender (tcpdump, dumpcap, `catnip link --pcap`).
///
/// A document is right if each of its segments has the mark that it must have. A capture does not show the sender's congestion window, so
/// that it tells this of some segments only: the first and last ones of a document, SYN, FIN and retransmissions must be HIGH, and segments
/// far from all of these must be LOW once enough data was in flight. With --trace the kernel tells the rest. Exit code 1: a mark is wrong, or
/// nothing can be judged.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// Capture file, pcapng or pcap
    #[arg(value_name = "CAPTURE")]
    capture: PathBuf,
    /// Marker of the sender: last-only, spm, spm-partial or, with --trace, tcp-state, with parameters
    #[arg(long, value_name = "TEXT", default_value = "last-only")]
    mark: String,
    /// Encoding of the levels: dscp (AF11 is HIGH), dscp:AF2 to dscp:AF4, flag-bit [default: dscp, with tcp-state that of its class or AF2]
    #[arg(long, value_name = "TEXT")]
    codec: Option<String>,
    /// Definition of a document
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    document: Document,
    /// Sides whose packets are marked
    #[arg(long, value_name = "WHO", value_enum, default_value_t)]
    by: MarkedBy,
    /// Marks of ACKs without data
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    acks: AckMarks,
    /// Trace of the kernel at the sender during the capture: `trace` of tracefs with the events tcp_probe and tcp_cong_state_set and
    /// the clock of captures (trace_clock `tai`, without leap seconds)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print JSON on standard output
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Document {
    /// Data that one side sends until data from the other side arrives
    #[default]
    Exchange,
    /// All data that one side sends
    Connection,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum MarkedBy {
    /// Side that accepts the connection
    #[default]
    Servers,
    /// Side that opens the connection
    Clients,
    /// Both sides
    Both,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum AckMarks {
    /// They are not judged
    #[default]
    Any,
    /// LOW, as the agent leaves them
    Low,
    /// Level of the data that they answer, as with the agent's option --mark-acks
    AsData,
}

/// Counts of the verifier, summed over all connections of a capture.
#[derive(Debug, Default, Serialize)]
struct Sums {
    packets: u64,
    is_cut: bool,
    connections: usize,
    data: u64,
    documents: u64,
    right_documents: u64,
    undecided_documents: u64,
    retransmissions: u64,
    high: u64,
    must_be_high: u64,
    must_be_med: u64,
    must_be_low: u64,
    missing_high: u64,
    wrong_med: u64,
    wrong_high: u64,
    unmarkable: u64,
    bad_checksums: u64,
    gaps: u64,
    agreement: f64,
    faults: Vec<String>,
}

pub(crate) fn run(options: &Verify) -> Result<u8, Failure> {
    let Verify { capture, mark, codec, document, by, acks, trace, json } = options;
    let (marker, repairs, class) = marker(mark, trace.is_some())?;
    let codec = codec.as_deref().map(str::parse).transpose();
    let codec = codec.map_err(|error| Failure::new("--codec", error))?.unwrap_or(PriorityCodec::Dscp(class));
    let rules = Rules {
        marker,
        control: true,
        retransmissions: repairs,
        acks: match acks {
            AckMarks::Any => Acks::Any,
            AckMarks::Low => Acks::Low,
            AckMarks::AsData => Acks::AsData,
        },
        documents: match document {
            Document::Exchange => Documents::PerExchange,
            Document::Connection => Documents::PerConnection,
        },
        markers: match by {
            MarkedBy::Servers => Markers::Servers,
            MarkedBy::Clients => Markers::Clients,
            MarkedBy::Both => Markers::Both,
        },
        codec,
    };
    let windows = trace.as_deref().map(read_windows).transpose()?;
    let name = capture.display().to_string();
    let report = verify(open(capture)?, &rules, windows).map_err(|error| Failure::new(&name, error))?;
    if report.connections.is_empty() {
        return Err(Failure::new(&name, "it has no TCP packets"));
    }
    if *json {
        print_json(&sums(&report, rules.markers))?;
    } else {
        print_stdout(&report);
    }
    Ok(u8::from(!report.marks_are_correct()))
}

/// Returns the marker, if it marks repairs HIGH, and the class of its codepoints.
fn marker(text: &str, has_trace: bool) -> Result<(Marker, bool, AfClass), Failure> {
    let spec: Option<MarkerSpec> = notation::optional(text).map_err(|error| Failure::new("--mark", error))?;
    let expected = match spec {
        Some(MarkerSpec::TcpState(TcpStateSpec { random: true, .. })) => "its marks are random",
        Some(MarkerSpec::TcpState(_)) if !has_trace => {
            "the windows are in the kernel's trace, so --trace is missing"
        }
        Some(MarkerSpec::TcpState(spec)) => {
            let class = spec.class.unwrap_or(Service::Interactive.class());
            let class = AfClass::new(class).expect("a class of the notation");
            return Ok((Marker::TcpState(spec.thresholds(Service::Interactive)), false, class));
        }
        other => match other.and_then(|spec| spec.spm()) {
            Some(spm) => return Ok((Marker::Spm(spm), spm.repairs, AfClass::AF1)),
            None => "expected an spm marker or tcp-state, because a capture contains no applications",
        },
    };
    Err(Failure::new("--mark", format!("{text:?}: {expected}")))
}

fn open(path: &Path) -> Result<File, Failure> {
    let name = path.display().to_string();
    File::open(path).map_err(|error| Failure::new(&name, format!("cannot read it: {error}")))
}

/// Reads the windows of the senders from a trace of the kernel, which must have some.
fn read_windows(path: &Path) -> Result<Windows, Failure> {
    let name = path.display().to_string();
    let windows = Windows::read(BufReader::new(open(path)?)).map_err(|error| Failure::new(&name, error))?;
    if windows.is_empty() {
        return Err(Failure::new(&name, "it has no lines of the event tcp_probe"));
    }
    Ok(windows)
}

fn sums(report: &Report, markers: Markers) -> Sums {
    let mut sums = Sums {
        packets: report.packets,
        is_cut: report.is_cut,
        connections: report.connections.len(),
        agreement: report.agreement(),
        faults: report
            .faults
            .iter()
            .map(|fault| format!("packet {}: {}", fault.packet, fault.kind))
            .collect(),
        ..Sums::default()
    };
    let sides = report.connections.iter().flat_map(|one| {
        [(&one.from_client, markers != Markers::Servers), (&one.from_server, markers != Markers::Clients)]
    });
    for (side, marks) in sides {
        let Side { data, retransmissions, high, must_be_high, must_be_med, must_be_low, .. } = *side;
        sums.data += data;
        sums.documents += side.documents;
        sums.right_documents += side.right_documents;
        sums.undecided_documents += side.undecided_documents;
        sums.retransmissions += retransmissions;
        sums.high += high;
        sums.must_be_high += must_be_high;
        sums.must_be_med += must_be_med;
        sums.must_be_low += must_be_low;
        sums.missing_high += side.missing_high;
        sums.wrong_med += side.wrong_med;
        sums.wrong_high += side.wrong_high;
        sums.unmarkable += side.unmarkable;
        sums.bad_checksums += side.bad_checksums;
        // Data from the unmarked side may be lost before it reaches the point of capture, so its gaps do not count.
        sums.gaps += if marks { side.gaps } else { 0 };
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_wire::verify::Connection;

    #[test]
    fn data_that_was_lost_before_it_came_to_the_capture_is_no_gap_of_it() {
        let (client, server) = ("10.0.0.1:4000".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        let from_client = Side { gaps: 2, ..Side::default() };
        let from_server = Side { gaps: 5, ..Side::default() };
        let connections = vec![Connection { client, server, from_client, from_server }];
        let report = Report { connections, ..Report::default() };
        let gaps = |markers| sums(&report, markers).gaps;
        assert_eq!([gaps(Markers::Servers), gaps(Markers::Clients), gaps(Markers::Both)], [5, 2, 7]);
    }
}
