//! Command line of the network emulator, with the commands `link`, `emulate` and `router`.

#![forbid(unsafe_code)]

mod commands;

use catnip_cli::help::Program;
use catnip_cli::out::tell;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use commands::emulate::Emulate;
use commands::link::Link;
use commands::router::Router;
use commands::set::Set;
use std::process::ExitCode;

/// Runs unmodified programs over emulated networks, in real time.
#[derive(Debug, Parser)]
#[command(name = "catnip-emu", version, arg_required_else_help = true, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Link(Link),
    Emulate(Emulate),
    Router(Router),
    #[command(hide = true, display_name = "link set")]
    Set(Set),
}

const SET: &str = "set";
const PROGRAM: Program = Program { alone: "catnip-emu", whole: "catnip" };

fn main() -> ExitCode {
    let mut command = PROGRAM.styled(Cli::command());
    let mut words: Vec<_> = std::env::args_os().collect();
    // `link set` is the separate command `set`. Otherwise `set` would be the program to run behind the link, but no such program exists.
    if words.get(1).is_some_and(|word| word == "link") && words.get(2).is_some_and(|word| word == SET) {
        words.remove(1);
    }
    let asked = command.try_get_matches_from_mut(words);
    let cli = match asked.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return PROGRAM.answer(&error, &command),
    };
    let result = match &cli.command {
        What::Link(options) => commands::link::run(options),
        What::Emulate(options) => commands::emulate::run(options),
        What::Router(options) => commands::router::run(options),
        What::Set(options) => commands::set::run(options),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            tell(format_args!("error: {failure}\n"));
            ExitCode::from(failure.code)
        }
    }
}
