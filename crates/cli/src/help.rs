//! Help, errors and version of a program, in the style of `catnip`, which usually starts the program as a subcommand.

use crate::out::{print_stderr, print_stdout};
use crate::text::{terminal_columns, wrapped};
use clap::builder::StyledStr;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use std::path::Path;
use std::process::ExitCode;

/// Names of a program, on its own and as a subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Name of the program when it runs on its own.
    pub standalone_name: &'static str,
    /// Name of the program when `catnip` starts it as a subcommand.
    pub subcommand_name: &'static str,
}

/// Largest number of characters in a line.
const MAX_WIDTH: usize = 100;

impl Program {
    /// Returns the name under which the program was started.
    pub fn name(&self) -> &'static str {
        let started = std::env::args_os().next().unwrap_or_default();
        let is_subcommand = Path::new(&started).file_name().is_some_and(|name| name == self.subcommand_name);
        if is_subcommand { self.subcommand_name } else { self.standalone_name }
    }

    /// Applies the help style of `catnip` to all commands. In help texts, the `display_name` of a command replaces its name.
    pub fn styled(&self, cli: Command) -> Command {
        let (program, width) = (self.name(), width());
        let names: Vec<String> = cli.get_subcommands().map(|command| command.get_name().into()).collect();
        let cli = names.into_iter().fold(cli, |cli, name| {
            cli.mut_subcommand(&name, |command| {
                let path = command.get_display_name().unwrap_or(&name).to_string();
                self.with_help(command, &format!("{program} {path}"), width)
            })
        });
        self.with_help(cli.bin_name(program).disable_help_subcommand(true), program, width)
    }

    /// Prints the requested help or version, or the error in a command line. Returns the exit code.
    pub fn print_help_or_error(&self, error: &clap::Error, cli: &Command) -> ExitCode {
        match error.kind() {
            ErrorKind::DisplayVersion => {
                print_stdout(format_args!("{}, version {}\n", self.name(), env!("CARGO_PKG_VERSION")))
            }
            ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let lines = error.to_string().lines().map(without_brackets).collect::<Vec<_>>();
                print_stdout(format_args!("{}\n", lines.join("\n")))
            }
            _ => {
                let text = error.to_string();
                let message: Vec<&str> =
                    text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
                let subcommand = std::env::args().nth(1);
                let command = subcommand.filter(|subcommand| cli.find_subcommand(subcommand).is_some());
                let path = [Some(self.name().into()), command].into_iter().flatten().collect::<Vec<String>>();
                print_stderr(format_args!("{}, see {} --help\n", message.join(" "), path.join(" ")));
                ExitCode::from(2)
            }
        }
    }

    /// Sets the help text of a command. It has two columns, with usage, description, options, examples and exit codes in this order.
    fn with_help(&self, command: Command, path: &str, width: usize) -> Command {
        let usage = [path, "[OPTIONS]"].into_iter().map(String::from);
        let arguments = match command.has_subcommands() {
            true => Some("COMMAND [ARGS]...".into()),
            false => command.get_positionals().next().map(operand),
        };
        let usage = usage.chain(arguments).collect::<Vec<_>>().join(" ");
        let about =
            command.get_long_about().or(command.get_about()).map(StyledStr::to_string).unwrap_or_default();
        let paragraphs = about.split("\n\n").map(|text| {
            let text = wrapped(&format!("  {}", text.replace('\n', " ").trim_end_matches('.')), width, "  ");
            if text.ends_with(':') { text } else { format!("{text}.") }
        });
        let about = paragraphs.collect::<Vec<_>>().join("\n\n");
        let after = command.get_after_help().map(StyledStr::to_string).unwrap_or_default();
        let after = after.replace(&format!("{} ", self.standalone_name), &format!("{} ", self.name()));
        let list = if command.has_subcommands() { "\n\nCommands:\n{subcommands}" } else { "" };
        // clap does not wrap the template itself.
        let template = format!("Usage: {usage}\n\n{about}{list}\n\nOptions:\n{{options}}\n\n{after}")
            .trim_end()
            .to_string();
        let flag = |name: &'static str, action| Arg::new(name).long(name).action(action);
        command
            .override_usage(usage)
            .help_template(template + "\n")
            .term_width(width)
            .disable_help_flag(true)
            .disable_version_flag(true)
            .mut_args(with_sentence)
            .arg(flag("version", ArgAction::Version).help("Show the version and exit."))
            .arg(flag("help", ArgAction::HelpShort).short('h').help("Show this message and exit."))
    }
}

fn operand(arg: &Arg) -> String {
    let name = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let several = if arg.is_trailing_var_arg_set() { "..." } else { "" };
    format!("{}{several}", name.unwrap_or_else(|| arg.get_id().to_string().to_uppercase()))
}

/// Adds a full stop to the help text of an argument if it has none.
fn with_sentence(arg: Arg) -> Arg {
    let help = arg.get_help().map(StyledStr::to_string).unwrap_or_default();
    if help.is_empty() || help.ends_with(['.', ']']) { arg } else { arg.help(format!("{help}.")) }
}

/// Returns the width of a line: the width of the terminal, or the default width of `catnip` without a terminal.
fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    columns.or_else(terminal_columns).unwrap_or(80).clamp(40, MAX_WIDTH) - 2
}

/// Removes the angle brackets around the value of an option, as in `catnip`, and keeps the columns aligned.
fn without_brackets(line: &str) -> String {
    let parts = line.split_once(" <").and_then(|(option, rest)| Some((option, rest.split_once('>')?)));
    match parts {
        Some((option, (value, rest))) if option.trim_start().starts_with('-') => {
            format!("{option} {value}  {rest}").trim_end().into()
        }
        _ => line.into(),
    }
}
