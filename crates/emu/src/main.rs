//! Runs programs behind an emulated link.

use catnip_base::{ParseError, Span};
use catnip_emu::certificate::{Asked, Certificate, Tolerance, Verdict};
use catnip_emu::link::{self, Failure, Setup};
use catnip_emu::monitor::{Direction, Monitor};
use catnip_emu::pump::flow;
use catnip_emu::record::Log;
use catnip_lab::RateText;
use catnip_net::WireSpec;
use catnip_net::shape::{RateSpec, Trace};
use clap::{Args, Parser, Subcommand};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Runs unmodified programs over emulated networks, in real time.
#[derive(Debug, Parser)]
#[command(name = "catnip-emu", version)]
struct Cli {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Link(Link),
}

/// Runs a command in a network namespace of its own, behind one emulated link.
///
/// The command reaches the namespace of the caller and nothing else: there is no NAT and no name service, so the
/// Internet is out of reach. Services outside are reached at $CATNIP_OUTSIDE (IPv6: $CATNIP_OUTSIDE6) or any address
/// of the caller's namespace but 127.0.0.1; $CATNIP_INSIDE is the command's own address. Links nest: start one
/// inside another and their effects add up.
///
/// Ordinary users get namespaces of their own, if the kernel allows it. Then the caller's namespace is a new one too,
/// and empty: start the server in an enclosing link, as in the last example.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES, args_override_self = true)]
struct Link {
    /// Line rate of either direction: 1.5Mbit, trace:FILE (as mahimahi records them) or unlimited
    #[arg(long, default_value = "unlimited")]
    rate: String,
    /// Propagation delay of either direction, as in 25ms
    #[arg(long, default_value = "0ms")]
    delay: String,
    /// How much the delay varies: uniform:5ms, normal:2ms or exponential:3ms
    #[arg(long, default_value = "none")]
    jitter: String,
    /// Queue of either direction: drop-tail:LIMIT, red:LIMIT, catnip-good:LIMIT, catnip-bad:LIMIT or catnip-red:LIMIT;
    /// LIMIT in packets, for drop-tail also as 15KB or 200ms
    #[arg(long, default_value = "drop-tail:1000")]
    queue: String,
    /// Loss in either direction: bernoulli:P, priority:high=P,low=P, gilbert-elliott:…, packets:N,N,…
    #[arg(long, default_value = "none")]
    loss: String,
    /// What is different on the way out, as in "rate=512kbit,queue=drop-tail:20"
    #[arg(long, value_name = "KEY=VALUE,…")]
    up: Option<String>,
    /// What is different on the way in, towards the command
    #[arg(long, value_name = "KEY=VALUE,…")]
    down: Option<String>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Longest packet in bytes
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(68..=65535))]
    mtu: u32,
    /// Name of the device in the caller's namespace; %d becomes a free number
    #[arg(long, default_value = "catnip%d")]
    device: String,
    /// Stay an ordinary process even if SCHED_FIFO is permitted
    #[arg(long)]
    no_real_time: bool,
    /// How long before a deadline to spin instead of sleeping [default: 150us under SCHED_FIFO, for 3 % of the time at most; else 0us]
    #[arg(long)]
    spin: Option<String>,
    /// Write the certificate to this file, as JSON
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Print the certificate as JSON, not as a table (on standard error)
    #[arg(long)]
    json: bool,
    /// Print no certificate
    #[arg(long, short)]
    quiet: bool,
    /// The 99th percentile of the lateness above which the certificate is red
    #[arg(long, default_value = "5ms")]
    tolerance: String,
    /// Write every arrival, departure and drop to this file, as CSV
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// What to run
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const EXAMPLES: &str = "Examples:
  A Web server outside, a client behind a DSL line:
    python3 -m http.server 8000 &
    catnip-emu link --rate 1.5Mbit --delay 25ms --queue catnip-good:10 -- \\
      sh -c 'curl -o /dev/null http://$CATNIP_OUTSIDE:8000/'

  A fast way in and a slow, lossy way out:
    catnip-emu link --delay 10ms --down rate=16Mbit --up rate=1Mbit,loss=bernoulli:0.01 -- bash

  The same for ordinary users, with the server in an enclosing link:
    catnip-emu link -- sh -c 'python3 -m http.server 8000 & sleep 1;
      catnip-emu link --rate 1.5Mbit --delay 25ms -- sh -c \"curl http://\\$CATNIP_OUTSIDE:8000/\"'";

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            let what: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
            eprintln!("{}, see catnip-emu link --help", what.join(" "));
            return ExitCode::from(2);
        }
        Err(help) => {
            print!("{help}");
            return ExitCode::SUCCESS;
        }
    };
    let What::Link(options) = cli.command;
    match run_link(&options) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.code)
        }
    }
}

/// The exit code of a link that was out of tolerance though its command succeeded.
const RED: u8 = 3;

fn run_link(options: &Link) -> Result<u8, Failure> {
    let both = Asked {
        rate: options.rate.clone(),
        delay: options.delay.clone(),
        jitter: options.jitter.clone(),
        queue: options.queue.clone(),
        loss: options.loss.clone(),
    };
    wire("--", &both)?;
    let asked = [
        direction("--up", &both, options.up.as_deref())?,
        direction("--down", &both, options.down.as_deref())?,
    ];
    let setup = Setup {
        up: wire("--up ", &asked[0])?,
        down: wire("--down ", &asked[1])?,
        seed: options.seed,
        mtu: options.mtu,
        device: options.device.clone(),
        real_time: !options.no_real_time,
        spin: options.spin.as_deref().map(|text| read("--spin", text)).transpose()?,
    };
    let lateness: Span = read("--tolerance", &options.tolerance)?;
    let tolerance = Tolerance { lateness_p99_ms: 1e3 * lateness.as_secs(), ..Tolerance::default() };
    let (up, down) = (flow(2, 0, 1), flow(2, 1, 0));
    let directions = vec![Direction::new(up, setup.up.delay), Direction::new(down, setup.down.delay)];
    let monitor = Monitor::new(2, directions);
    let cannot =
        |path: &Path, error| Failure::new(&path.display().to_string(), format!("cannot write it: {error}"));
    // Before the command runs, so that it does not run in vain.
    let mut certificate_file = options
        .certificate
        .as_deref()
        .map(|path| File::create(path).map_err(|e| cannot(path, e)))
        .transpose()?;
    let log =
        || options.log.as_deref().map(|path| Log::create(path).map_err(|e| cannot(path, e))).transpose();
    let (outcome, pump) = link::run(&setup, &options.command, || Ok((monitor, log()?)))?;
    let (monitor, log) = pump.into_observer();
    if let (Some(log), Some(path)) = (log, options.log.as_deref()) {
        log.finish(outcome.ended).map_err(|error| cannot(path, error))?;
    }
    let certificate = Certificate::new(&setup, asked, &outcome, &monitor, tolerance);
    let json = serde_json::to_string_pretty(&certificate).expect("it has no maps with odd keys");
    if let (Some(file), Some(path)) = (&mut certificate_file, options.certificate.as_deref()) {
        writeln!(file, "{json}").map_err(|error| cannot(path, error))?;
    }
    if options.json {
        eprintln!("{json}");
    } else if !options.quiet {
        eprint!("{certificate}");
    }
    Ok(if outcome.code == 0 && certificate.verdict == Verdict::Red { RED } else { outcome.code })
}

/// Reads what was asked; errors begin with `prefix` and the name of the option.
fn wire(prefix: &str, asked: &Asked) -> Result<WireSpec, Failure> {
    let key = |name: &str| format!("{prefix}{name}");
    Ok(WireSpec {
        rate: rate(&key("rate"), &asked.rate)?,
        delay: read(&key("delay"), &asked.delay)?,
        queue: catnip_lab::queue(&asked.queue).map_err(|error| Failure::new(&key("queue"), error))?,
        jitter: unless_none(&key("jitter"), &asked.jitter, catnip_lab::jitter)?,
        loss: unless_none(&key("loss"), &asked.loss, catnip_lab::loss)?,
        wire_loss: None,
    })
}

fn unless_none<T>(
    key: &str,
    text: &str,
    parse: impl Fn(&str) -> Result<T, ParseError>,
) -> Result<Option<T>, Failure> {
    (text != "none").then(|| parse(text).map_err(|error| Failure::new(key, error))).transpose()
}

fn read<T: std::str::FromStr<Err: std::fmt::Display>>(key: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|error| Failure::new(key, error))
}

fn rate(key: &str, text: &str) -> Result<RateSpec, Failure> {
    match catnip_lab::rate(text).map_err(|error| Failure::new(key, error))? {
        RateText::Constant(rate) => Ok(RateSpec::Constant(rate)),
        RateText::Unlimited => Ok(RateSpec::Unlimited),
        RateText::Trace(file) => {
            let name = file.display();
            let text = std::fs::read_to_string(&file)
                .map_err(|error| Failure::new(key, format!("cannot read {name}: {error}")))?;
            let trace = Trace::parse(&text).map_err(|error| Failure::new(key, format!("{name}: {error}")))?;
            Ok(RateSpec::Trace(Arc::new(trace)))
        }
    }
}

const KEYS: [&str; 5] = ["rate", "delay", "jitter", "queue", "loss"];

/// One direction: what is said of both, changed by `key=value,…`. Values may have commas and `=` themselves.
fn direction(option: &str, both: &Asked, text: Option<&str>) -> Result<Asked, Failure> {
    let mut asked = both.clone();
    let mut last: Option<&mut String> = None;
    for part in text.unwrap_or("").split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match (part.split_once('='), last.take()) {
            (Some((key, value)), _) if KEYS.contains(&key) => {
                let field = match key {
                    "rate" => &mut asked.rate,
                    "delay" => &mut asked.delay,
                    "jitter" => &mut asked.jitter,
                    "queue" => &mut asked.queue,
                    _ => &mut asked.loss,
                };
                *field = value.into();
                last = Some(field);
            }
            (_, Some(value)) => {
                value.push(',');
                value.push_str(part);
                last = Some(value);
            }
            (_, None) => {
                let expected = "expected rate=, delay=, jitter=, queue= or loss=, separated by commas";
                return Err(Failure::new(option, format!("{part:?}: {expected}")));
            }
        }
    }
    Ok(asked)
}
