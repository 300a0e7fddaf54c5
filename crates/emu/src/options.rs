//! What all commands let the user say of a link.

use catnip_base::{Span, notation};
use catnip_emu::certificate::Asked;
use catnip_emu::failure::Failure;
use catnip_emu::mark::Marking;
use catnip_net::WireSpec;
use catnip_net::shape::RateSpec;
use catnip_wire::PriorityCodec;
use clap::Args;

/// One link, each direction by itself if they differ.
#[derive(Args, Debug)]
pub(crate) struct WireOptions {
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
    /// LIMIT in packets, for drop-tail also as 15KB or 200ms [default: drop-tail:1000]
    #[arg(long)]
    queue: Option<String>,
    /// Loss before the queue, in either direction: bernoulli:P, priority:high=P,low=P, gilbert-elliott:…, packets:N,N,…
    #[arg(long, default_value = "none")]
    loss: String,
    /// Loss after the queue: such packets have taken their place and their time. The same models
    #[arg(long, default_value = "none")]
    wire_loss: String,
    /// Mark the TCP packets of either direction as they enter: spm, spm:leading=0,trailing=3,small_window=4, spm-partial;
    /// responses end where their HTTP/1 headers say, what is encrypted or chunked is marked without its end
    #[arg(long, default_value = "none")]
    mark: String,
    /// Write these marks into the packets, so that the other end and captures see them
    #[arg(long)]
    write_marks: bool,
    /// What is different on the way out, as in "rate=512kbit,queue=drop-tail:20"
    #[arg(long, value_name = "KEY=VALUE,…")]
    up: Option<String>,
    /// What is different on the way in, towards the command or the inside
    #[arg(long, value_name = "KEY=VALUE,…")]
    down: Option<String>,
    /// How packets say their loss priority: dscp (AF11 is HIGH), dscp:AF2 to dscp:AF4, or flag-bit, the historical bit
    /// in the TCP flags, which excludes ECN
    #[arg(long, default_value = "dscp")]
    codec: String,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Both directions, up first: in the words of the user, and as the network takes them.
pub(crate) type Directions = ([Asked; 2], [WireSpec; 2]);

impl WireOptions {
    pub(crate) fn directions(&self, default_queue: &str) -> Result<Directions, Failure> {
        let both = Asked {
            rate: self.rate.clone(),
            delay: self.delay.clone(),
            jitter: self.jitter.clone(),
            queue: self.queue.as_deref().unwrap_or(default_queue).into(),
            loss: self.loss.clone(),
            wire_loss: self.wire_loss.clone(),
            mark: self.mark.clone(),
        };
        wire("--", &both)?;
        let asked = [
            direction("--up", &both, self.up.as_deref())?,
            direction("--down", &both, self.down.as_deref())?,
        ];
        let wires = [wire("--up ", &asked[0])?, wire("--down ", &asked[1])?];
        Ok((asked, wires))
    }

    pub(crate) fn marking(&self, asked: &[Asked; 2]) -> Result<Marking, Failure> {
        let mark = |key: &str, text: &str| {
            notation::optional(text).map_err(|error| Failure::new(&format!("{key}mark"), error))
        };
        mark("--", &self.mark)?;
        let edges = [mark("--up ", &asked[0].mark)?, mark("--down ", &asked[1].mark)?];
        Ok(Marking { edges, writes: self.write_marks })
    }

    pub(crate) fn codec(&self) -> Result<PriorityCodec, Failure> {
        read("--codec", &self.codec)
    }
}

/// The queue if nothing is said of it.
pub(crate) const DEFAULT_QUEUE: &str = "drop-tail:1000";
/// The same where packets are of any size.
pub(crate) const DEFAULT_QUEUE_BYTES: &str = "drop-tail:4MB";

/// Super-packets can be late, and dropped from the end of a full buffer; all else happens to single packets.
pub(crate) fn takes_super_packets(wires: &[WireSpec; 2]) -> Result<(), Failure> {
    for wire in wires {
        if wire.queue.counts_packets()
            || wire.jitter.is_some()
            || wire.loss.is_some()
            || wire.wire_loss.is_some()
        {
            let what =
                "super-packets have a rate, a delay and a queue such as drop-tail:4MB or drop-tail:50ms only";
            return Err(Failure::new("--offload", what));
        }
    }
    Ok(())
}

/// How exact the emulator tries to be, and how exact it must be.
#[derive(Args, Debug)]
pub(crate) struct TimingOptions {
    /// Stay an ordinary process even if SCHED_FIFO is permitted
    #[arg(long)]
    pub(crate) no_real_time: bool,
    /// How long before a deadline to spin instead of sleeping [default: 60us under SCHED_FIFO, for 1 % of the time at most; else 0us]
    #[arg(long)]
    spin: Option<String>,
    /// The 99th percentile of the lateness above which the certificate is red
    #[arg(long, default_value = "5ms")]
    tolerance: String,
}

impl TimingOptions {
    pub(crate) fn spin(&self) -> Result<Option<Span>, Failure> {
        self.spin.as_deref().map(|text| read("--spin", text)).transpose()
    }

    pub(crate) fn tolerance(&self) -> Result<Span, Failure> {
        read("--tolerance", &self.tolerance)
    }
}

/// Reads what was asked; errors begin with `prefix` and the name of the option.
fn wire(prefix: &str, asked: &Asked) -> Result<WireSpec, Failure> {
    let key = |name: &str| format!("{prefix}{name}");
    Ok(WireSpec {
        rate: RateSpec::read(&asked.rate, open).map_err(|error| Failure::new(&key("rate"), error))?,
        delay: read(&key("delay"), &asked.delay)?,
        queue: read(&key("queue"), &asked.queue)?,
        jitter: optional(&key("jitter"), &asked.jitter)?,
        loss: optional(&key("loss"), &asked.loss)?,
        wire_loss: optional(&key("wire-loss"), &asked.wire_loss)?,
    })
}

fn optional<T: std::str::FromStr<Err = catnip_base::ParseError>>(
    key: &str,
    text: &str,
) -> Result<Option<T>, Failure> {
    notation::optional(text).map_err(|error| Failure::new(key, error))
}

pub(crate) fn read<T: std::str::FromStr<Err: std::fmt::Display>>(
    key: &str,
    text: &str,
) -> Result<T, Failure> {
    text.parse().map_err(|error| Failure::new(key, error))
}

fn open(file: &str) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))
}

const KEYS: [&str; 7] = ["rate", "delay", "jitter", "queue", "loss", "wire-loss", "mark"];

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
                    "loss" => &mut asked.loss,
                    "mark" => &mut asked.mark,
                    _ => &mut asked.wire_loss,
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
                let expected = "expected rate=, delay=, jitter=, queue=, loss=, wire-loss= or mark=, separated by commas";
                return Err(Failure::new(option, format!("{part:?}: {expected}")));
            }
        }
    }
    Ok(asked)
}
