//! `catnip-emu link set`.

use catnip_cli::failure::Failure;
use catnip_emu::control;
use clap::Args;

/// Changes a link or a router that is at work: its rate, delay, jitter, losses and conditioner.
///
/// It is to be said in the network namespace in which the link was started, by the same user or by root. What is in
/// transmission ends at the old rate, what is on its way keeps its delay, and nobody overtakes. The queue, outages and
/// retransmission by the link stay as they are.
///
/// Exit codes: 0: done; 2: there is no such link, or it cannot be that.
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub(crate) struct Set {
    /// The process of the link [default: the only one that is there]
    #[arg(long, value_name = "PROCESS")]
    link: Option<u32>,
    /// What changes, by the keys of links
    #[arg(required = true, num_args = 1..=2, value_name = "[up|down] KEY=VALUE,…", allow_hyphen_values = true)]
    change: Vec<String>,
}

const AFTER: &str = "Examples:
  Half the rate, and some losses:
    catnip-emu link set rate=750kbit,loss=bernoulli:1%

  A longer way in, of one of several links:
    catnip-emu link set --link 4711 down delay=200ms";

pub(crate) fn run(options: &Set) -> Result<u8, Failure> {
    control::ask(options.link, &options.change.join(" "))?;
    Ok(0)
}
