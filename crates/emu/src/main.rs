//! Runs programs behind an emulated link.

mod emulate_command;
mod link_command;
mod options;
mod outputs;
mod router_command;

use clap::{Parser, Subcommand};
use emulate_command::Emulate;
use link_command::Link;
use router_command::Router;
use std::process::ExitCode;

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
    Emulate(Emulate),
    Router(Router),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            let what: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
            let command = std::env::args().nth(1).filter(|command| !command.starts_with('-'));
            let command = command.map(|command| command + " ").unwrap_or_default();
            eprintln!("{}, see catnip-emu {command}--help", what.join(" "));
            return ExitCode::from(2);
        }
        Err(help) => {
            print!("{help}");
            return ExitCode::SUCCESS;
        }
    };
    let result = match &cli.command {
        What::Link(options) => link_command::run(options),
        What::Emulate(options) => emulate_command::run(options),
        What::Router(options) => router_command::run(options),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.code)
        }
    }
}
