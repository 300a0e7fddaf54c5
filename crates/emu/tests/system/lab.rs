//! Temporary folder for a scenario and its emulation, and readers of the results.

use crate::results::output_text;
use crate::skip::skipped;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};

/// Lock that serializes timing tests.
pub(crate) static TURN: Mutex<()> = Mutex::new(());

/// Folder for a scenario and its results.
pub(crate) struct Lab {
    pub(crate) dir: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Lab {
    /// Opens a folder. Returns `None`, and reports why, if this machine cannot run external hosts.
    pub(crate) fn open(name: &str) -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let dir = std::env::temp_dir().join(format!("catnip-emulate-test-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let lab = Self { dir, _turn: turn };
        let nodes = "a = { kind = 'host', command = ['true'] }\nb = { kind = 'host', external = true }";
        let output = lab.emulate(&scenario(nodes, "", ""), &["-q"]).output().unwrap();
        if output.status.success() {
            return Some(lab);
        }
        let why = String::from_utf8_lossy(&output.stderr).trim().to_string();
        skipped(&why);
        None
    }

    /// Writes a scenario to the folder and returns the command that emulates it. The tolerance is so large that lateness fails no test.
    pub(crate) fn emulate(&self, scenario: &str, options: &[&str]) -> Command {
        let file = self.dir.join("scenario.toml");
        fs::write(&file, scenario).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_catnip-emu"));
        command.arg("emulate").arg(file).args(["--tolerance", "60s"]).args(options);
        command
    }

    /// Emulates another short scenario. The words of `by` are put in front of the command.
    pub(crate) fn another_run(&self, by: &str) {
        let nodes = "a = { kind = 'host', command = ['true'] }\nb = { kind = 'host', external = true }";
        let emulate = self.emulate(&scenario(nodes, "", ""), &["-q"]);
        let mut words = by.split_whitespace().map(OsStr::new).chain([emulate.get_program()]);
        let mut command = Command::new(words.next().unwrap());
        assert!(command.args(words).args(emulate.get_args()).status().unwrap().success());
    }

    /// Emulates a scenario and returns the tables and the certificate. The run must succeed and account for all packets.
    #[track_caller]
    pub(crate) fn results(&self, scenario: &str) -> Value {
        let output = self.emulate(scenario, &["--json"]).output().unwrap();
        assert!(output.status.success(), "{}", output_text(&output));
        let results: Value = serde_json::from_slice(&output.stdout).unwrap();
        let certificate = &results["certificate"];
        assert_eq!(certificate["packets_inside"][0], certificate["packets_inside"][1]);
        for link in certificate["links"].as_array().unwrap() {
            for direction in ["up", "down"] {
                let report = &link["certificate"][direction];
                let dropped: u64 = report["dropped"].as_object().unwrap().values().map(number).sum();
                let out = number(&report["packets_out"]) + number(&report["unwritable"]);
                assert_eq!(number(&report["packets_in"]), out + dropped + number(&report["held"]), "{link}");
            }
        }
        results
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// Returns the text of a scenario with a link between the nodes a and b.
pub(crate) fn scenario(nodes: &str, link: &str, rest: &str) -> String {
    format!(
        "id = 'X'\ntitle = 'x'\nduration = '60s'\n[node]\n{nodes}\n[link.ab]\nfrom = 'a'\nto = 'b'\n\
         rate = '10Mbit'\ndelay = '5ms'\nqueue = 'drop-tail:30'\n{link}\n{rest}"
    )
}

pub(crate) const PYTHON: &str = "command = ['sh', '-c', 'cd $CATNIP_DOCUMENTS && exec python3 -m http.server 80 2> /dev/null'], \
                      ready = 'tcp:80'";

pub(crate) fn fnv1a(bytes: impl Iterator<Item = u8>) -> String {
    let digest = bytes.fold(0xcbf2_9ce4_8422_2325u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{digest:016x}")
}

/// Runs a program as an external client of a simulated server of a traffic group. The end of the program ends the run.
pub(crate) fn python_client(lab: &Lab, program: &str, traffic: &str) -> Value {
    fs::write(lab.dir.join("client.py"), program).unwrap();
    let nodes = "a = { kind = 'host' }\nb = { kind = 'host', ends_run = true, \
                 command = ['sh', '-c', 'cd $CATNIP_SCENARIO && exec python3 client.py'] }";
    lab.results(&scenario(nodes, "", traffic))
}

/// Runs a program as an external server at a port.
pub(crate) fn python_server(lab: &Lab, program: &str, port: u16, traffic: &str) -> Value {
    fs::write(lab.dir.join("server.py"), program).unwrap();
    let nodes = format!(
        "a = {{ kind = 'host', ready = 'tcp:{port}', \
         command = ['sh', '-c', 'cd $CATNIP_SCENARIO && exec python3 server.py'] }}\nb = {{ kind = 'host' }}"
    );
    lab.results(&scenario(&nodes, "", traffic).replace("'60s'", "'4s'"))
}
