//! Tests of the end of a run: exit codes, and removal of processes and files.

use crate::lab::{Lab, scenario};
use crate::results::{column, output_text};
use crate::skip::skipped;
use catnip_linux::sys;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn errors_are_one_line() {
    let Some(lab) = Lab::open("errors") else { return };
    let node = |a: &str| format!("a = {{ kind = 'host', {a} }}\nb = {{ kind = 'host', external = true }}");
    for (a, code, message) in [
        ("command = ['no-such-command']", 127, "error: node.a.command: no-such-command: command not found"),
        ("command = ['/etc/passwd']", 126, "error: node.a.command: /etc/passwd: cannot be executed"),
        ("command = ['false'], ready = 'tcp:80'", 2, "error: node.a.ready: the command exited with code 1"),
    ] {
        let output = lab.emulate(&scenario(&node(a), "", ""), &[]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.starts_with(message) && stderr.lines().count() == 1, "{stderr}");
    }
    let output = lab.emulate(&scenario(&node("command = ['true']"), "", ""), &["--variant", "x"]).output();
    let stderr = String::from_utf8_lossy(&output.unwrap().stderr).into_owned();
    assert!(stderr.contains("no variant \"x\"; expected one of default"), "{stderr}");
}

fn wait_until(condition: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if happened() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited in vain: {condition}");
}

fn user() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

/// Returns the number of running processes with this word on their command line.
fn processes_with(argument: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let has_argument = |entry: &fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(argument)
    };
    processes.filter(has_argument).count()
}

#[test]
fn nothing_is_left_behind() {
    let Some(lab) = Lab::open("cleanup") else { return };
    let mark = format!("60.{}", std::process::id());
    let listing = lab.dir.join("documents");
    // The server starts a background process that ignores SIGTERM, SIGHUP and SIGINT.
    let server = format!(
        "echo $CATNIP_DOCUMENTS > {}; (trap '' TERM HUP INT; sleep {mark}; sleep {mark}) & exec sleep {mark}",
        listing.display()
    );
    let nodes = format!(
        "a = {{ kind = 'host', command = ['sh', '-c', \"{server}\"] }}\nb = {{ kind = 'host', external = true }}"
    );
    for (signal, code) in [(libc::SIGTERM, Some(143)), (libc::SIGINT, Some(130)), (libc::SIGKILL, None)] {
        let mut command = lab.emulate(&scenario(&nodes, "", ""), &["-q"]);
        let mut emulator = command.stdout(Stdio::null()).spawn().unwrap();
        wait_until("the commands start", || processes_with(&mark) >= 3);
        let documents = PathBuf::from(fs::read_to_string(&listing).unwrap().trim());
        assert!(documents.exists());
        // Another run does not remove the documents, even if it cannot see the processes of this run.
        let rights = if user() == 0 { "" } else { "--user --map-root-user" };
        lab.another_run(&format!("unshare {rights} --pid --fork --mount-proc"));
        assert!(documents.exists());
        sys::kill(emulator.id(), signal).unwrap();
        assert_eq!(emulator.wait().unwrap().code(), code, "{signal}");
        wait_until("all processes end", || processes_with(&mark) == 0);
        if signal == libc::SIGKILL {
            // The next run removes the documents that the killed run has left behind.
            lab.another_run("");
        }
        assert!(!documents.exists(), "{signal}");
    }
}

#[test]
fn a_command_that_ignores_polite_requests_ends_with_the_run() {
    let Some(lab) = Lab::open("impolite") else { return };
    let mark = format!("61.{}", std::process::id());
    let server = format!("trap '' TERM; while :; do sleep {mark}; done");
    let nodes = format!(
        "a = {{ kind = 'host', command = ['sh', '-c', \"{server}\"] }}\nb = {{ kind = 'host', external = true }}"
    );
    let mut command = lab.emulate(&scenario(&nodes, "", ""), &["-q"]);
    let mut emulator = command.stdout(Stdio::null()).spawn().unwrap();
    wait_until("the command starts", || processes_with(&mark) > 0);
    sys::kill(emulator.id(), libc::SIGTERM).unwrap();
    wait_until("the run ends", || emulator.try_wait().unwrap().is_some());
    assert_eq!(processes_with(&mark), 0);
}

#[test]
fn servers_that_change_their_user_read_the_documents() {
    let Some(lab) = Lab::open("workers") else { return };
    if Command::new("nginx").arg("-v").output().is_err() {
        return skipped("nginx is not installed");
    }
    // The master process runs as the current user, the workers as the distribution's user.
    let server = "cd $CATNIP_DOCUMENTS; printf %s \
                  'daemon off; pid nginx.pid; events {} http { access_log off; server { listen 80; root .; } }' \
                  > nginx.conf; exec nginx -p $PWD -c $PWD/nginx.conf -e stderr";
    let nodes = format!(
        "a = {{ kind = 'host', ready = 'tcp:80', command = ['sh', '-c', \"\"\"{server}\"\"\"] }}\n\
         b = {{ kind = 'host' }}"
    );
    let traffic =
        "[traffic.file]\nkind = 'bulk'\nfrom = 'a'\nto = 'b'\nbytes = '9KB'\npaths = '/deep/{bytes}'";
    let emulate = lab.emulate(&scenario(&nodes, "", traffic), &["--json"]);
    let mut strict = Command::new("sh");
    strict.args(["-c", "umask 077; exec \"$0\" \"$@\""]).arg(emulate.get_program()).args(emulate.get_args());
    let output = strict.output().unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(column(&results, "connections", "status"), [200.0], "{}", output_text(&output));
    assert_eq!(column(&results, "connections", "body_bytes"), [9216.0]);
}

#[test]
fn documents_are_not_put_where_somebody_else_waits_for_them() {
    let Some(lab) = Lab::open("documents") else { return };
    let listing = lab.dir.join("documents");
    let nodes = format!(
        "a = {{ kind = 'host', ends_run = true, command = ['sh', '-c', 'ls -dn $CATNIP_DOCUMENTS > {}'] }}\n\
         b = {{ kind = 'host', external = true }}",
        listing.display()
    );
    let mut names = Vec::new();
    for trap in ["mkdir -m 777 $TMPDIR/catnip-documents-$$-0", "ln -s $TMPDIR $TMPDIR/catnip-documents-$$-0"]
    {
        let emulate = lab.emulate(&scenario(&nodes, "", ""), &["-q"]);
        let mut command = Command::new("sh");
        // The shell becomes the emulator by exec, so the process ID is known before the emulator starts.
        command.arg("-c").arg(format!("umask 077; {trap}; exec \"$0\" \"$@\""));
        command.arg(emulate.get_program()).args(emulate.get_args()).env("TMPDIR", &lab.dir);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", output_text(&output));
        let listed = fs::read_to_string(&listing).unwrap();
        let words: Vec<&str> = listed.split_whitespace().collect();
        let (modes, owner, name) = (words[0], words[2], *words.last().unwrap());
        assert!(modes.starts_with("drwxr-xr-x"), "{listed}");
        assert_eq!(owner, user().to_string());
        assert!(name.starts_with(lab.dir.join("catnip-documents-").to_str().unwrap()), "{listed}");
        names.push(name.to_string());
    }
    assert!(names.iter().all(|name| !Path::new(name).exists()), "{names:?}");
    // The second name cannot be predicted from the first name or from a process ID.
    assert_ne!(names[0], names[1]);
    assert!(names.iter().all(|name| !name.ends_with("-0")), "{names:?}");
}
