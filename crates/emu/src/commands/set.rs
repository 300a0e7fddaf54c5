//! Command `catnip-emu link set`.

use catnip_cli::failure::Failure;
use catnip_emu::control;
use clap::Args;

/// Changes the rate, delay, jitter, losses and conditioner of a running link or router.
///
/// Access: the command must run in the network namespace in which the link was started, as the same user or as root.
///
/// Packets in transit: the packet in transmission ends at the old rate, packets on the wire keep their delay, and no packet overtakes
/// another. The queue, outages and retransmission by the link stay as they are.
///
/// Exit codes: 0: done; 2: there is no such link, or the change is not possible.
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub(crate) struct Set {
    /// Process of the link [default: that of the only link]
    #[arg(long, value_name = "PROCESS")]
    link: Option<u32>,
    /// Changes, as keys of links with their new values
    #[arg(required = true, num_args = 1..=2, value_name = "[up|down] KEY=VALUE,…", allow_hyphen_values = true)]
    change: Vec<String>,
}

const AFTER: &str = "Examples:
  Half of the rate, and losses:
    catnip-emu link set rate=750kbit,loss=bernoulli:1%

  A longer delay of the inward direction of one of several links:
    catnip-emu link set --link 4711 down delay=200ms";

pub(crate) fn run(options: &Set) -> Result<u8, Failure> {
    control::request_change(options.link, &options.change.join(" "))?;
    Ok(0)
}
