//! Command line of the oracle.

#![forbid(unsafe_code)]

mod random;
mod run;

use catnip_cli::help::Program;
use catnip_cli::out::print_stderr;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

/// Steps the simulated TCP and this machine's kernel by the same scripts, and says where they differ.
#[derive(Debug, Parser)]
#[command(name = "catnip-drill", version, arg_required_else_help = true, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Run(run::Run),
    Random(random::Random),
}

const PROGRAM: Program = Program { standalone_name: "catnip-drill", subcommand_name: "catnip-drill" };

fn main() -> ExitCode {
    let command = PROGRAM.styled(Cli::command());
    let matches = command.clone().try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return PROGRAM.print_help_or_error(&error, &command),
    };
    let result = match &cli.command {
        Commands::Run(options) => run::run(options),
        Commands::Random(options) => random::run(options),
    };
    match result {
        Ok(is_same) => ExitCode::from(u8::from(!is_same)),
        Err(failure) => {
            print_stderr(format_args!("error: {failure}\n"));
            ExitCode::from(failure.code)
        }
    }
}
