//! Tests of the command line: help, version, errors before a link exists, and outputs of a run.

use crate::skip::skipped;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const COMMANDS: [&str; 3] = ["link", "emulate", "router"];

fn emulator(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catnip-emu"));
    command.args(arguments).env("COLUMNS", "80");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn refused(arguments: &[&str], message: &str) {
    let output = emulator(arguments).output().unwrap();
    let err = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{arguments:?}: {err}");
    assert!(err.starts_with("error: ") && err.lines().count() == 1, "{arguments:?}: {err}");
    assert!(err.contains(message), "{arguments:?}: {err}");
}

#[test]
fn help_has_usage_options_examples_and_exit_codes_in_this_order() {
    for name in COMMANDS {
        let [short, long] = ["-h", "--help"].map(|flag| emulator(&[name, flag]).output().unwrap());
        assert!(short.status.success() && long.status.success());
        let help = text(&long.stdout);
        assert_eq!(text(&short.stdout), help, "one kind of help");
        assert!(help.starts_with(&format!("Usage: catnip-emu {name} [OPTIONS]")), "{help}");
        let positions =
            ["Usage: ", "\nOptions:\n", "\nExamples:\n", "\nExit codes:\n"].map(|part| help.find(part));
        assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{positions:?}: {help}");
        let codes = help.split("\nExit codes:\n").nth(1).unwrap();
        assert!(["  2  ", "  3  "].iter().all(|code| codes.contains(code)), "{codes}");
        for option in ["--json", "-q, --quiet", "-v, --verbose", "--version"] {
            assert!(help.contains(option), "{option}: {help}");
        }
        assert!(!help.contains(" <"), "values are named as click names them: {help}");
        // A longer line is permitted only if it has no spaces and cannot be wrapped.
        let divisible = |line: &&str| line.trim().contains(' ');
        let options = help.split("\nExamples:").next().unwrap();
        let longest = options.lines().filter(divisible).map(|line| line.chars().count()).max();
        assert!(longest.unwrap() <= 85, "{longest:?}");
    }
}

#[test]
fn help_and_errors_name_the_program_as_it_was_started() {
    for name in COMMANDS {
        let help = text(&emulator(&[name, "--help"]).arg0("catnip").output().unwrap().stdout);
        assert!(help.starts_with(&format!("Usage: catnip {name} [OPTIONS]")), "{help}");
        assert!(help.contains(&format!("catnip {name} ")) && !help.contains("catnip-emu"), "{help}");
    }
    let error = |program: &str| text(&emulator(&["link", "--x"]).arg0(program).output().unwrap().stderr);
    assert!(error("/usr/bin/catnip").ends_with("see catnip link --help\n"), "{}", error("catnip"));
    assert!(error("catnip-emu").ends_with("see catnip-emu link --help\n"));
    refused(&["lnk"], "see catnip-emu --help");
}

#[test]
fn all_commands_know_their_version() {
    let version = concat!(", version ", env!("CARGO_PKG_VERSION"), "\n");
    for arguments in [&["--version"][..], &["link", "--version"], &["emulate", "--version"]] {
        let output = emulator(arguments).arg0("catnip").output().unwrap();
        assert_eq!(text(&output.stdout), format!("catnip{version}"), "{arguments:?}");
        assert!(output.status.success());
    }
}

#[test]
fn a_pipe_that_ends_while_help_is_written_ends_it_quietly() {
    for name in COMMANDS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = emulator(&[name, "--help"]).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{name}");
    }
    // A closed standard error does not matter either.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(emulator(&["link"]).stderr(writer).status().unwrap().code(), Some(2));
}

#[test]
fn standard_output_that_is_full_is_one_clear_error() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for arguments in [&["link", "--help"][..], &["--version"]] {
        let output = emulator(arguments).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let stderr = text(&output.stderr);
        assert!(stderr.starts_with("error: standard output: cannot write it: No space left"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1);
    }
}

#[test]
fn negative_values_and_values_that_are_too_large_are_said_to_be() {
    let link =
        |option: &str, value: &str, message: &str| refused(&["link", option, value, "--", "true"], message);
    link(
        "--delay",
        "-5ms",
        "--delay: \"-5ms\": expected a time such as 200ms (ns, us, ms, s, min; not negative)",
    );
    link("--rate", "-1Mbit", "--rate: \"-1Mbit\": expected a rate");
    link("--tolerance", "-5ms", "--tolerance: \"-5ms\": expected a time");
    link("--spin", "-5us", "--spin: \"-5us\": expected a time");
    link("--seed", "-1", "'-1' for '--seed <INTEGER>'");
    link("--mtu", "-1", "-1 is not in 68..=65535");
    link("--queue", "drop-tail:1000000000000000000", "expected at most 4294967296 packets");
    link("--delay", "18446744074s", "--delay: \"18446744074s\": expected at most 18446744073s");
    link("--rate", "99999999999Gbit", "--rate: \"99999999999Gbit\": expected at most 18446744073Gbit");
    link("--seed", "99999999999999999999", "number too large");
    refused(&["router", "--inside", "a", "--outside", "b", "--report", "-1s"], "--report: \"-1s\": expected");
}

#[test]
fn standard_output_is_for_one_thing_only() {
    let args = ["router", "--inside", "a", "--outside", "b", "--json", "--counters", "-"];
    refused(&args, "--json and --counters -: both write to standard output");
}

/// Temporary folder with a short scenario.
struct Lab(PathBuf);

impl Lab {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("catnip-command-line-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let scenario = "id = 'X'\ntitle = 'x'\nduration = '1s'\n[node]\na = { kind = 'host' }\nb = { kind = 'host' }\n\
                        [link.ab]\nfrom = 'a'\nto = 'b'\nrate = '10Mbit'\ndelay = '5ms'\nqueue = 'drop-tail:30'\n\
                        [traffic.file]\nkind = 'bulk'\nfrom = 'a'\nto = 'b'\nbytes = '20KB'";
        fs::write(dir.join("x.toml"), scenario).unwrap();
        Self(dir)
    }

    fn emulate(&self, options: &[&str]) -> Output {
        let mut command = emulator(&["emulate", "x.toml", "--tolerance", "60s"]);
        command.args(options).current_dir(&self.0).output().unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_folder_in_which_something_is_or_nothing_can_be_is_refused_before_the_run() {
    let lab = Lab::new("folder");
    fs::create_dir(lab.0.join("mine")).unwrap();
    fs::write(lab.0.join("mine/pages.parquet"), "of yesterday").unwrap();
    fs::write(lab.0.join("file"), "").unwrap();
    for (folder, message) in [
        ("mine", "error: --out: mine is not empty; choose another folder"),
        ("file", "error: file: cannot write it: File exists"),
        ("/proc/catnip", "error: /proc/catnip: cannot write it: "),
    ] {
        // A run would print more than the error.
        let output = lab.emulate(&["--out", folder]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr.starts_with(message) && stderr.lines().count() == 1, "{stderr}");
    }
    assert_eq!(fs::read_to_string(lab.0.join("mine/pages.parquet")).unwrap(), "of yesterday");
}

#[test]
fn what_can_be_written_at_the_end_is_though_something_else_cannot() {
    let lab = Lab::new("full");
    let output = lab.emulate(&["--certificate", "/dev/full", "--out", "out", "-q"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "error: /dev/full: cannot write it: No space left on device (os error 28)\n"
    );
    assert!(
        ["connections.parquet", "manifest.json"].iter().all(|name| lab.0.join("out").join(name).exists())
    );
}

#[test]
fn the_variant_is_a_name_in_every_form_of_a_table() {
    let lab = Lab::new("variant");
    let table = text(&lab.emulate(&["-q"]).stdout);
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows[0].starts_with("variant,seed,") && rows[1].starts_with("default,1,"), "{table}");
    assert_eq!(rows.len(), 2);
    let json: serde_json::Value = serde_json::from_slice(&lab.emulate(&["-q", "--json"]).stdout).unwrap();
    assert_eq!(json["connections"]["variant"][0], "default");
    assert_eq!(json["pages"]["variant"], serde_json::json!([]), "a table without rows has columns");
}

#[test]
fn every_key_that_is_set_counts_and_what_is_no_key_is_refused_before_the_run() {
    let lab = Lab::new("set");
    let options = ["-q", "--json", "--set", "traffic.file.bytes=10KB", "--set", "link.ab.delay = 55ms"];
    let json: serde_json::Value = serde_json::from_slice(&lab.emulate(&options).stdout).unwrap();
    assert_eq!(json["connections"]["bytes"][0], 10_240);
    // Two round trips at least: a handshake, and the document.
    assert!(json["transfers"]["time_s"][0].as_f64().unwrap() > 0.2, "{}", json["transfers"]["time_s"]);
    for (setting, message) in [
        ("duration", "expected KEY=VALUE, such as link.line.queue=drop-tail:10"),
        ("link..rate=1Mbit", "expected KEY=VALUE"),
        ("=1s", "expected KEY=VALUE"),
        ("link.ab.rate=fast", "x.toml: link.ab.rate: "),
        ("link.ac.rate=1Mbit", "x.toml: link.ac"),
    ] {
        let output = lab.emulate(&["--set", setting]);
        let stderr = text(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{setting}: {stderr}");
        assert!(stderr.contains(message), "{setting}: {stderr}");
    }
}

#[test]
fn quiet_says_nothing_and_verbose_says_when_what_is_done() {
    let lab = Lab::new("voice");
    assert_eq!(text(&lab.emulate(&["-v", "--quiet"]).stderr), "", "the last word counts");
    let stderr = text(&lab.emulate(&["-q", "--verbose"]).stderr);
    let is_note =
        |line: &&str| line.split_once(" s  ").is_some_and(|(at, _)| at.trim().parse::<f64>().is_ok());
    let times: Vec<f64> = stderr
        .lines()
        .filter(is_note)
        .map(|line| line.split_once(" s  ").unwrap().0.trim().parse().unwrap())
        .collect();
    assert!(times.len() >= 3 && times.is_sorted(), "{stderr}");
    let usual = text(&lab.emulate(&[]).stderr);
    assert!(usual.contains("link certificate: ") && !usual.lines().any(|line| is_note(&line)), "{usual}");
}

#[test]
fn with_json_standard_output_has_the_certificate_and_the_command_has_standard_error() {
    let link = |options: &[&str], words: &[&str]| {
        let mut command = emulator(&["link", "--tolerance", "60s"]);
        command.args(options).arg("--").args(words).stdin(Stdio::null()).output().unwrap()
    };
    let usable = link(&["-q"], &["true"]);
    if !usable.status.success() {
        return skipped(&text(&usable.stderr));
    }
    let output = link(&["--json"], &["sh", "-c", "echo said; echo told >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(text(&output.stderr), "said\ntold\n");
    let certificate: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(certificate["verdict"], "grey", "nothing has used the link");
    let output = link(&["-q"], &["echo", "said"]);
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("said\n", ""));
    let output = link(&["-v"], &["true"]);
    assert!(
        text(&output.stderr).contains(" s  the command exited with code 0\n"),
        "{}",
        text(&output.stderr)
    );
}
