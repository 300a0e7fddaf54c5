//! Command `catnip-emu link`.

use super::options::{DEFAULT_QUEUE, DEFAULT_QUEUE_BYTES, TimingOptions, WireOptions, check_super_packets};
use super::outputs::{OutputOptions, exit_code};
use catnip_cli::failure::Failure;
use catnip_cli::out::write_failure;
use catnip_emu::link::{self, EDGES, LinkTopology, Setup};
use catnip_emu::observe::certificate::Certificate;
use catnip_emu::observe::log::Log;
use catnip_linux::nat;
use catnip_linux::sys::VIRTUAL_HEADER;
use catnip_linux::user::User;
use catnip_wire::pcapng::LinkType;
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;

/// Runs a command in a network namespace of its own, behind one emulated link.
///
/// Network: the command reaches the namespace of the caller, and networks beyond it only with --nat. Services outside are at
/// $CATNIP_OUTSIDE (IPv6: $CATNIP_OUTSIDE6) or at any address of the caller's namespace except 127.0.0.1.
///
/// Environment variables: $CATNIP_OUTSIDE is the caller's end of the link, $CATNIP_INSIDE the command's own address, and $CATNIP_BASE the
/// caller's end of the outermost link.
///
/// Nested links: a link can start inside another one, and their effects add up.
///
/// Privileges: ordinary users get namespaces of their own, if the kernel permits it. The caller's namespace is then new and empty, too:
/// start the server in an enclosing link, as in the last example, or use --nat.
///
/// Exit codes: that of the command; 2: bad input; 3: the certificate is red; 126: the command cannot be run; 127: the command is not found;
/// 130: interrupted.
#[derive(Args, Debug)]
#[command(after_help = AFTER, args_override_self = true)]
pub(crate) struct Link {
    #[command(flatten)]
    wires: WireOptions,
    /// MTU in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500, allow_hyphen_values = true, value_parser = clap::value_parser!(u32).range(68..=65535))]
    mtu: u32,
    /// Initial congestion window of TCP connections through the link, in segments
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = clap::value_parser!(u32).range(1..=1000))]
    initial_window: Option<u32>,
    /// Congestion control of what the command sends by TCP, such as cubic [default: that of new network namespaces]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Move up to 64 KiB of a TCP connection at once, which is several times as fast, but only for plain rates and delays and for queues
    /// drop-tail:LIMIT with a unit [default: drop-tail:4MB]
    #[arg(long)]
    offload: bool,
    /// Give the command access to all networks and names of the caller by IPv4: for root by address translation (nftables), for others by
    /// slirp4netns or pasta, which terminate TCP connections themselves
    #[arg(long)]
    nat: bool,
    /// DNS server of the command [default: that of the caller]
    #[arg(long, value_name = "ADDRESS")]
    resolver: Option<IpAddr>,
    /// Run the command as this user, while the link stays root's
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Name of the device in the caller's namespace; %d becomes a free number
    #[arg(long, value_name = "NAME", default_value = "catnip%d")]
    device: String,
    #[command(flatten)]
    timing: TimingOptions,
    #[command(flatten)]
    outputs: OutputOptions,
    /// Print the certificate as JSON on standard output, and nothing else; the output of the command goes to standard error
    #[arg(long)]
    json: bool,
    /// Write every arrival, departure and drop to this file, as CSV
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Revert what killed links with --nat have left in this namespace, and exit; every link of root does so when it starts
    #[arg(long, exclusive = true)]
    clean: bool,
    /// Command to run, with its arguments
    #[arg(trailing_var_arg = true, required_unless_present = "clean", value_name = "COMMAND")]
    command: Vec<String>,
}

const AFTER: &str = "Examples:
  A Web server outside, a client behind a DSL line:
    python3 -m http.server 8000 &
    catnip-emu link --rate 1.5Mbit --delay 25ms --queue catnip-good:10 -- \\
      sh -c 'curl -o /dev/null http://$CATNIP_OUTSIDE:8000/'

  A browser on the Internet behind a mobile network, started by root as another user:
    catnip-emu link --nat --user tux --rate 5Mbit --delay 60ms -- chromium https://example.org/

  A fast downlink and a slow, lossy uplink:
    catnip-emu link --delay 10ms --down rate=16Mbit --up rate=1Mbit,loss=bernoulli:1% -- bash

  The DSL line for ordinary users, with the server in an enclosing link:
    catnip-emu link -- sh -c 'python3 -m http.server 8000 & sleep 1;
      catnip-emu link --rate 1.5Mbit --delay 25ms -- sh -c \"curl http://\\$CATNIP_OUTSIDE:8000/\"'

Exit codes:
  exit code of the command, if not 0; 128 plus the number of the signal that ended it
  2    bad input, or not supported by this machine
  3    the certificate is red
  126  the command cannot be run
  127  the command is not found";

pub(crate) fn run(options: &Link) -> Result<u8, Failure> {
    nat::clean()?;
    if options.clean {
        return Ok(0);
    }
    let default_queue = if options.offload { DEFAULT_QUEUE_BYTES } else { DEFAULT_QUEUE };
    let link = options.wires.link(default_queue, &options.timing)?;
    if options.offload {
        check_super_packets(&link.wires)?;
    }
    let setup = Setup {
        link,
        mtu: options.mtu,
        initial_window: options.initial_window,
        congestion: options.congestion.clone(),
        offload: options.offload,
        device: options.device.clone(),
        reserves_stdout: options.json,
        nat: options.nat,
        resolver: options.resolver,
        user: options.user.as_deref().map(|name| User::named("--user", name)).transpose()?,
    };
    let mut control = options.wires.control(default_queue, &setup.link, options.offload)?;
    let notes = options.outputs.notes();
    let (tolerance, outputs) = (options.timing.tolerance()?, &options.outputs);
    let certificate_file = outputs.certificate()?;
    let log = || {
        let log =
            options.log.as_deref().map(|path| Log::create(path).map_err(|error| write_failure(path, error)));
        log.transpose()
    };
    let skip = if options.offload { VIRTUAL_HEADER } else { 0 };
    let watch = |link: &LinkTopology, stopwatch| {
        let capture = outputs.capture(LinkType::Raw, stopwatch, EDGES.map(String::from).into(), skip)?;
        notes.note(format_args!("the link is up; runs {}", options.command.join(" ")));
        Ok((link.monitor(), (log()?, capture)))
    };
    let (outcome, emulator) = link::run(&setup, &options.command, &mut control, watch)?;
    notes.note(format_args!("the command exited with code {}", outcome.code));
    let (monitor, (log, capture)) = emulator.world.into_watch();
    let certificate = Certificate::of_link(&setup.link, &outcome, &monitor, tolerance);
    let log = log.zip(options.log.as_deref());
    // An output that cannot be written does not prevent the others.
    let written = [
        log.map_or(Ok(()), |(log, path)| {
            log.finish(outcome.ended_at).map_err(|error| write_failure(path, error))
        }),
        outputs.finish(capture),
        certificate_file.map_or(Ok(()), |file| file.write_json(&certificate)),
        outputs.print_certificate(&certificate, options.json),
    ];
    let result =
        written.into_iter().chain([outcome.early_end.map_or(Ok(()), Err)]).collect::<Result<(), Failure>>();
    result.map_err(|failure| Failure {
        code: if outcome.code == 0 { failure.code } else { outcome.code },
        ..failure
    })?;
    Ok(exit_code(outcome.code, certificate.verdict))
}
