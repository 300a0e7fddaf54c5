//! Runs programs behind an emulated link.

use catnip_emu::link::{self, Failure, Setup};
use catnip_lab::RateText;
use catnip_net::WireSpec;
use catnip_net::jitter::JitterSpec;
use catnip_net::loss::LossSpec;
use catnip_net::shape::{RateSpec, Trace};
use clap::{Args, Parser, Subcommand};
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
#[command(after_long_help = EXAMPLES)]
struct Link {
    /// Line rate of either direction: 1.5Mbit, trace:FILE (as mahimahi records them) or unlimited
    #[arg(long, default_value = "unlimited")]
    rate: String,
    /// Propagation delay of either direction, as in 25ms
    #[arg(long, default_value = "0ms")]
    delay: String,
    /// How much the delay varies: uniform:5ms, normal:2ms or exponential:3ms
    #[arg(long)]
    jitter: Option<String>,
    /// Queue of either direction: drop-tail:LIMIT, red:LIMIT, catnip-good:LIMIT, catnip-bad:LIMIT or catnip-red:LIMIT;
    /// LIMIT in packets, for drop-tail also as 15KB or 200ms
    #[arg(long, default_value = "drop-tail:1000")]
    queue: String,
    /// Loss in either direction: bernoulli:P, priority:high=P,low=P, gilbert-elliott:…, packets:N,N,…
    #[arg(long)]
    loss: Option<String>,
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
    /// How long before a deadline to spin instead of sleeping [default: 150us under SCHED_FIFO, else 0us]
    #[arg(long)]
    spin: Option<String>,
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
            let line = text.lines().next().unwrap_or("error: the command line cannot be read");
            eprintln!("{line}, see catnip-emu link --help");
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

fn run_link(options: &Link) -> Result<u8, Failure> {
    let setup = setup(options)?;
    let (outcome, _) = link::run(&setup, &options.command, ())?;
    Ok(outcome.code)
}

fn setup(options: &Link) -> Result<Setup, Failure> {
    let both = WireSpec {
        rate: rate("--rate", &options.rate)?,
        delay: read("--delay", &options.delay)?,
        queue: catnip_lab::queue(&options.queue).map_err(|error| Failure::new("--queue", error))?,
        jitter: jitter("--jitter", options.jitter.as_deref())?,
        loss: loss("--loss", options.loss.as_deref())?,
        wire_loss: None,
    };
    Ok(Setup {
        up: direction("--up", &both, options.up.as_deref())?,
        down: direction("--down", &both, options.down.as_deref())?,
        seed: options.seed,
        mtu: options.mtu,
        device: options.device.clone(),
        real_time: !options.no_real_time,
        spin: options.spin.as_deref().map(|text| read("--spin", text)).transpose()?,
    })
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

fn jitter(key: &str, text: Option<&str>) -> Result<Option<JitterSpec>, Failure> {
    match text {
        None | Some("none") => Ok(None),
        Some(text) => catnip_lab::jitter(text).map(Some).map_err(|error| Failure::new(key, error)),
    }
}

fn loss(key: &str, text: Option<&str>) -> Result<Option<LossSpec>, Failure> {
    match text {
        None | Some("none") => Ok(None),
        Some(text) => catnip_lab::loss(text).map(Some).map_err(|error| Failure::new(key, error)),
    }
}

const KEYS: [&str; 5] = ["rate", "delay", "jitter", "queue", "loss"];

/// One direction: what is said of both, changed by `key=value,…`. Values may have commas and `=` themselves.
fn direction(option: &str, both: &WireSpec, text: Option<&str>) -> Result<WireSpec, Failure> {
    let mut direction = both.clone();
    let mut values: Vec<(&str, String)> = Vec::new();
    for part in text.unwrap_or("").split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match (part.split_once('='), values.last_mut()) {
            (Some((key, value)), _) if KEYS.contains(&key) => values.push((key, value.into())),
            (_, Some((_, value))) => *value = format!("{value},{part}"),
            (_, None) => {
                let expected = "expected rate=, delay=, jitter=, queue= or loss=, separated by commas";
                return Err(Failure::new(option, format!("{part:?}: {expected}")));
            }
        }
    }
    for (key, value) in values {
        let name = format!("{option} {key}");
        match key {
            "rate" => direction.rate = rate(&name, &value)?,
            "jitter" => direction.jitter = jitter(&name, Some(&value))?,
            "delay" => direction.delay = read(&name, &value)?,
            "queue" => {
                direction.queue = catnip_lab::queue(&value).map_err(|error| Failure::new(&name, error))?;
            }
            _ => direction.loss = loss(&name, Some(&value))?,
        }
    }
    Ok(direction)
}
