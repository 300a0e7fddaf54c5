//! Command `catnip-agent`: packet marks and congestion control of this host by kernel programs.

#![forbid(unsafe_code)]

mod start;
mod verify_command;

use catnip_agent::serve::{AgentInfo, Status, request};
use catnip_agent::state::StateDir;
use catnip_agent::statistics::{Count, REASONS};
use catnip_agent::{check, statistics};
use catnip_cli::failure::Failure;
use catnip_cli::help::Program;
use catnip_cli::out::{print_json, print_stderr, print_stdout};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::json;
use start::Start;
use std::fmt::Write;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;
use verify_command::Verify;

/// Marks crucial packets of this host by kernel programs, for routers that distinguish priorities.
///
/// Servers need no change: `start` marks the packets that they send, and `stop` restores the previous state. Requires
/// Linux 6.6 or newer, and root.
#[derive(Debug, Parser)]
#[command(name = "catnip-agent", version, arg_required_else_help = true, propagate_version = true, after_help = AFTER)]
struct Cli {
    #[command(subcommand)]
    command: Commands,
}

const AFTER: &str = "Exit codes:
  1  status: no agent runs; check: a requirement is not met; verify: a mark is wrong
  2  invalid input, or a machine without a required feature";

#[derive(Debug, Subcommand)]
enum Commands {
    Start(Box<Start>),
    Status(StatusOptions),
    Stop(Stop),
    Check(Check),
    Verify(Verify),
}

/// Shows the state and the counters of the agent of this network namespace.
#[derive(Args, Debug)]
struct StatusOptions {
    /// Print JSON on standard output
    #[arg(long)]
    json: bool,
    /// Print the counters in the format of Prometheus
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

/// Stops the agent of this network namespace and restores the settings that it has changed, even if it was killed.
#[derive(Args, Debug)]
struct Stop {
    /// Print the last statistics as JSON on standard output
    #[arg(long)]
    json: bool,
}

/// Checks the requirements of an agent on this machine.
#[derive(Args, Debug)]
struct Check {
    /// Print JSON on standard output
    #[arg(long)]
    json: bool,
}

const PROGRAM: Program = Program { standalone_name: "catnip-agent", subcommand_name: "catnip agent" };

fn main() -> ExitCode {
    let mut command = PROGRAM.styled(Cli::command());
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return PROGRAM.print_help_or_error(&error, &command),
    };
    let result = match &cli.command {
        Commands::Start(options) => start::run(options),
        Commands::Status(options) => status(options),
        Commands::Stop(options) => stop(options),
        Commands::Check(options) => check(options),
        Commands::Verify(options) => verify_command::run(options),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            print_stderr(format_args!("error: {failure}\n"));
            ExitCode::from(failure.code)
        }
    }
}

fn status(options: &StatusOptions) -> Result<u8, Failure> {
    let state_dir = StateDir::current()?;
    let Some(status) = request(&state_dir, "status")? else {
        let changed = state_dir.changes()?.describe();
        if options.json {
            let changed = (!changed.is_empty()).then(|| json!({ "still_changed": changed }));
            print_json(&changed)?;
        } else if changed.is_empty() {
            print_stderr("no agent runs in this network namespace\n");
        } else {
            let changed = changed.join(", ");
            print_stderr(format_args!(
                "no agent runs in this network namespace; one was killed, and `catnip agent stop` restores: {changed}\n"
            ));
        }
        return Ok(1);
    };
    warn(&status);
    if options.json {
        print_json(&status)?;
    } else if options.prometheus {
        print_stdout(statistics::prometheus(&status.statistics));
    } else {
        print_stdout(describe(&status));
    }
    Ok(0)
}

/// Time limit for an agent to end after `stop`.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

fn stop(options: &Stop) -> Result<u8, Failure> {
    let state_dir = StateDir::current()?;
    let last = request(&state_dir, "stop")?;
    let mut waited = Duration::ZERO;
    let lock = loop {
        if let Some(lock) = state_dir.try_lock()? {
            break lock;
        }
        if waited >= STOP_TIMEOUT {
            return Err(Failure::new(
                "stop",
                format!("the agent did not exit within {} s", STOP_TIMEOUT.as_secs()),
            ));
        }
        sleep(POLL_INTERVAL);
        waited += POLL_INTERVAL;
    };
    state_dir.restore(&lock)?;
    state_dir.remove(lock);
    last.iter().for_each(warn);
    if options.json {
        print_json(&last)?;
    } else if last.is_none() {
        print_stderr("no agent was running in this network namespace\n");
    }
    Ok(0)
}

fn warn(status: &Status) {
    status.warnings().for_each(print_stderr);
    if let Some(error) = &status.windows_error {
        print_stderr(format_args!("warning: the table of windows has ended: {error}\n"));
    }
}

fn check(options: &Check) -> Result<u8, Failure> {
    let findings = check::findings();
    let ok = findings.iter().all(|finding| finding.ok);
    if options.json {
        print_json(&findings)?;
    } else {
        let mut text = String::new();
        for finding in &findings {
            let verdict = if finding.ok { "yes" } else { "NO " };
            let needed =
                if finding.ok { String::new() } else { format!(" (required for {})", finding.needed_for) };
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{verdict}  {:<30}  {}{needed}", finding.what, finding.found);
        }
        print_stdout(text);
    }
    Ok(u8::from(!ok))
}

fn describe(status: &Status) -> String {
    let AgentInfo { pid, mark, user_limit, devices, cgroup, controllers, changes } = &status.info;
    let lines = [
        ("process", pid.to_string()),
        ("marker", mark.clone()),
        ("limit by user", user_limit.clone()),
        ("devices", devices.join(", ")),
        ("marked", status.marked_devices.join(", ")),
        ("control group", cgroup.display().to_string()),
        ("controllers", controllers.join(", ")),
        ("to restore", changes.join(", ")),
    ];
    let mut text = String::new();
    for (name, value) in lines {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{name:<14} {}", if value.is_empty() { "none" } else { &value });
    }
    let _ = writeln!(
        text,
        "\n{:<15} {:<6} {:>12} {:>15} {:>10} {:>9}",
        "reason", "level", "packets", "bytes", "together", "demoted"
    );
    for Count { reason, level, packets, bytes, together, demoted } in &status.statistics {
        let meaning = REASONS.iter().find(|(name, _)| name == reason).map_or("", |(_, meaning)| meaning);
        let level = level.to_uppercase();
        let _ = writeln!(
            text,
            "{reason:<15} {level:<6} {packets:>12} {bytes:>15} {together:>10} {demoted:>9}  {meaning}"
        );
    }
    text
}
