//! Command line of the network emulator, with the commands `link`, `emulate` and `router`.

#![forbid(unsafe_code)]

mod commands;

use catnip_cli::help::Program;
use catnip_cli::out::print_stderr;
use catnip_linux::nat;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use commands::emulate::Emulate;
use commands::link::Link;
use commands::router::Router;
use commands::set::Set;
use ipnet::IpNet;
use std::process::ExitCode;

/// Runs unmodified programs over emulated networks, in real time.
#[derive(Debug, Parser)]
#[command(name = "catnip-emu", version, arg_required_else_help = true, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Link(Link),
    Emulate(Emulate),
    Router(Router),
    #[command(hide = true, display_name = "link set")]
    Set(Set),
    /// Translate the addresses of a link until standard input is closed
    #[command(hide = true, name = nat::MASQUERADE)]
    Masquerade {
        device: String,
        network: IpNet,
    },
}

const SET: &str = "set";
const PROGRAM: Program = Program { standalone_name: "catnip-emu", subcommand_name: "catnip" };

fn main() -> ExitCode {
    let mut command = PROGRAM.styled(Cli::command());
    let mut args: Vec<_> = std::env::args_os().collect();
    // `link set` is the separate command `set`. Otherwise `set` would be the program to run behind the link, but no such program exists.
    if args.get(1).is_some_and(|arg| arg == "link") && args.get(2).is_some_and(|arg| arg == SET) {
        args.remove(1);
    }
    let matches = command.try_get_matches_from_mut(args);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return PROGRAM.print_help_or_error(&error, &command),
    };
    let result = match &cli.command {
        Commands::Link(options) => commands::link::run(options),
        Commands::Emulate(options) => commands::emulate::run(options),
        Commands::Router(options) => commands::router::run(options),
        Commands::Set(options) => commands::set::run(options),
        Commands::Masquerade { device, network } => nat::serve(device, *network).map(|()| 0),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            print_stderr(format_args!("error: {failure}\n"));
            ExitCode::from(failure.code)
        }
    }
}
