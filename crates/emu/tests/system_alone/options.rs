//! Effects of the options of a link on real packets. The programs at the ends are Python scripts; where TUN devices or Python are missing,
//! the tests report that they are skipped.

use crate::replay::{End, Memory, read_log};
use crate::skip::skipped;
use catnip_net::Priority;
use catnip_wire::pcapng::Reader;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, OnceLock};

static TURN: Mutex<()> = Mutex::new(());

struct Lab {
    dir: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_string()
}

/// Beginning of each script.
const IMPORTS: &str = "import os, socket, sys, threading, time\noutside = os.environ.get('CATNIP_OUTSIDE')\n";

impl Lab {
    fn open() -> Option<Self> {
        static USABLE: OnceLock<Result<(), String>> = OnceLock::new();
        let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let usable = USABLE.get_or_init(|| {
            let output = emulator().args(["-q", "--", "python3", "-c", ""]).output().unwrap();
            if output.status.success() { Ok(()) } else { Err(text(&output.stderr)) }
        });
        if let Err(why) = usable {
            skipped(why);
            return None;
        }
        let dir = std::env::temp_dir().join(format!("catnip-options-test-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Some(Self { dir, _turn: turn })
    }

    fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// Runs a script behind a link.
    fn run(&self, options: &str, script: &str) -> Output {
        let mut command = emulator();
        command.args(["--log", &self.file("log"), "--certificate", &self.file("certificate")]);
        command.args(options.split_whitespace());
        command.args(["--", "python3", "-c", &format!("{IMPORTS}{script}")]).output().unwrap()
    }

    #[track_caller]
    fn succeed(&self, options: &str, script: &str) -> (Memory, Value) {
        let output = self.run(options, script);
        assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
        (read_log(&fs::read_to_string(self.file("log")).unwrap()).unwrap().0, self.certificate())
    }

    fn certificate(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.file("certificate")).unwrap()).unwrap()
    }
}

fn emulator() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catnip-emu"));
    command.args(["link", "--tolerance", "60s"]);
    command
}

/// Script that sends packets with different DSCPs, each of a length that identifies its DSCP.
const MARKED: &str = "
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    for dscp in (0, 10, 12, 14, 26, 28, 46):
        for ecn in range(4):
            s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2 | ecn)
            s.sendto(bytes(200 + dscp), (outside, 9))
";

#[test]
fn marked_packets_are_seen_as_what_they_are() {
    let Some(lab) = Lab::open() else { return };
    for (codec, class) in [("dscp", 1), ("dscp:AF1", 1), ("dscp:AF3", 3), ("dscp:AF4", 4)] {
        let (log, _) = lab.succeed(&format!("--codec {codec}"), MARKED);
        let sent: Vec<_> =
            log.arrivals.iter().filter(|arrival| arrival.edge == 0 && arrival.len >= 228).collect();
        assert_eq!(sent.len(), 28, "{codec}");
        for arrival in sent {
            let expected = match arrival.len - 228 {
                dscp if dscp == 8 * class + 2 => Priority::High,
                dscp if dscp == 8 * class + 4 => Priority::Medium,
                _ => Priority::Low,
            };
            assert_eq!(arrival.priority, expected, "{codec}: {arrival:?}");
        }
    }
}

#[test]
fn marks_decide_who_is_dropped() {
    let Some(lab) = Lab::open() else { return };
    let script = "
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    for number in range(60):
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, (10 if number % 6 == 0 else 14) << 2)
        s.sendto(bytes(1000), (outside, 9))
time.sleep(0.2)
";
    let (log, _) = lab.succeed("--rate 2Mbit --queue catnip-good:12", script);
    let dropped = |priority| {
        let dropped = log.ends.iter().filter(|end| end.dropped.is_some());
        dropped.filter(|end| log.arrivals[end.number as usize].priority == priority).count()
    };
    assert_eq!(dropped(Priority::High), 0);
    assert!(dropped(Priority::Low) > 30);
}

#[test]
fn the_flag_bit_and_ecn_exclude_each_other() {
    let Some(lab) = Lab::open() else { return };
    // The tested link runs inside another link, so that the test may change the namespace of its caller.
    let ecn = "open('/proc/sys/net/ipv4/tcp_ecn', 'w').write";
    let inner = |before: &str, script: &str| {
        let program = env!("CARGO_BIN_EXE_catnip-emu");
        let args = format!(
            "'{program}', 'link', '-q', '--tolerance', '60s', '--codec', 'flag-bit', '--', 'python3', '-c'"
        );
        let script = format!("{IMPORTS}{script}");
        let serve = "l = socket.create_server(('0.0.0.0', 80))\nthreading.Thread(target=l.accept, daemon=True).start()";
        lab.run(
            "-q",
            &format!("import subprocess\n{before}\n{serve}\nsys.exit(subprocess.call([{args}, {script:?}]))"),
        )
    };
    let connect = "socket.create_connection((outside, 80), 10)";
    let refused = inner("", connect);
    assert_eq!(refused.status.code(), Some(2));
    let message = "error: --codec: flag-bit requires a namespace without ECN";
    assert!(text(&refused.stderr).starts_with(message), "{}", text(&refused.stderr));
    let accepted = inner(&format!("{ecn}('0')"), connect);
    assert_eq!(accepted.status.code(), Some(0), "{}", text(&accepted.stderr));
    // If ECN is enabled later, the first SYN is refused and counted, and the verdict is red.
    let caught = inner(&format!("{ecn}('0')"), &format!("{ecn}('1')\n{connect}"));
    assert_eq!(caught.status.code(), Some(3), "{}", text(&caught.stderr));
}

/// Runs a client behind a link that downloads 200 KB from a server outside.
fn download(lab: &Lab, options: &str) -> (Memory, Value) {
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(&[7; 200_000]);
    });
    let client = format!(
        "c = socket.create_connection((outside, {port}))\ngot = b''\nwhile True:\n    more = c.recv(1 << 16)\n    got += \
         more\n    if not more: break\nc.close()\ntime.sleep(0.07)\nsys.exit(got != bytes([7]) * 200_000)"
    );
    lab.succeed(options, &client)
}

#[test]
fn the_initial_window_is_as_asked() {
    let Some(lab) = Lab::open() else { return };
    for window in [1, 2, 4, 30] {
        let flight = || {
            let (log, _) = download(&lab, &format!("--delay 25ms --initial-window {window}"));
            let mut data = log.arrivals.iter().filter(|arrival| arrival.edge == 1 && arrival.len > 500);
            let first = data.next().expect("there is data").at;
            1 + data.take_while(|arrival| arrival.at.since(first).as_secs() < 0.025).count()
        };
        // A pause of the machine for a round trip can make two flights look like one, or one like two.
        let seen: Vec<_> = std::iter::repeat_with(flight).take(3).collect();
        assert!(seen.contains(&window), "{window}: {seen:?}");
    }
}

#[test]
fn the_command_has_the_congestion_control_that_is_chosen() {
    let Some(lab) = Lab::open() else { return };
    let read = "open('/proc/sys/net/ipv4/tcp_congestion_control').read().strip()";
    let (_, certificate) = lab.succeed("--congestion reno", &format!("sys.exit({read} != 'reno')"));
    let outside = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let both = serde_json::json!({"inside": "reno", "outside": outside.trim()});
    assert_eq!(certificate["congestion"], both, "a certificate tells both");
    let refused = lab.run("--congestion none-such", "");
    assert_eq!(refused.status.code(), Some(2));
    let message = "error: --congestion: \"none-such\": not permitted or not available";
    assert!(text(&refused.stderr).starts_with(message), "{}", text(&refused.stderr));
}

#[test]
fn super_packets_arrive_whole() {
    let Some(lab) = Lab::open() else { return };
    let capture = lab.file("capture.pcapng");
    let (log, certificate) =
        download(&lab, &format!("--offload --rate 200Mbit --delay 2ms --pcap {capture}"));
    assert!(log.arrivals.iter().any(|arrival| arrival.len > 1500), "there are super-packets");
    assert_eq!(certificate["verdict"], "green", "{certificate}");
    let file = fs::read(&capture).unwrap();
    let mut reader = Reader::new(&file[..]).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        assert!(record.ip().is_some_and(|packet| catnip_wire::Ip::parse(packet).is_ok()));
    }
    for options in
        ["--queue red:10", "--queue drop-tail:10", "--loss bernoulli:0.1", "--delay 5ms --jitter uniform:1ms"]
    {
        let output = lab.run(&format!("--offload {options}"), "");
        assert_eq!(output.status.code(), Some(2), "{options}");
        assert!(
            text(&output.stderr).starts_with("error: --offload: super-packets support only"),
            "{options}"
        );
    }
}

#[test]
fn losses_on_the_wire_are_as_many_as_asked_for_and_take_their_time() {
    let Some(lab) = Lab::open() else { return };
    let script = "
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    for number in range(1500):
        s.sendto(bytes(172), (outside, 9))
        if number % 10 == 9: time.sleep(0.004)
time.sleep(0.1)
";
    let options = "--rate 2Mbit --delay 5ms --queue drop-tail:50 --wire-loss bernoulli:0.2";
    let (log, certificate) = lab.succeed(options, script);
    assert_eq!(certificate["verdict"], "green", "{certificate}");
    let up = &certificate["up"];
    assert!((0.15..0.25).contains(&up["loss"].as_f64().unwrap()), "{up}");
    let arrival = |end: &End| log.arrivals[end.number as usize];
    // Only packets of the test have 200 bytes; other packets of the kernel are shorter.
    let lost = log.ends.iter().filter(|end| end.dropped == Some("loss") && arrival(end).len == 200);
    let min = lost.map(|end| end.at.since(arrival(end).at)).min().unwrap();
    assert!(min.as_secs() >= 0.0058, "0.8 ms in transmission and 5 ms on the wire: {min:?}");
}

#[test]
fn captures_say_what_became_of_packets() {
    let Some(lab) = Lab::open() else { return };
    let capture = lab.file("capture.pcapng");
    let options = format!("--rate 2Mbit --delay 5ms --queue catnip-good:5 --pcap {capture}");
    let (log, _) = lab.succeed(&options, &format!("{MARKED}time.sleep(0.001)"));
    let file = fs::read(&capture).unwrap();
    let mut reader = Reader::new(&file[..]).unwrap();
    let mut comments = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let arrival = &log.arrivals[comments.len()];
        assert_eq!(record.frame.len(), arrival.len as usize);
        let comment = record.comment.unwrap().to_string();
        let high = comment.split(',').next().unwrap().ends_with("high");
        assert_eq!(high, arrival.priority == Priority::High, "{comment}");
        comments.push(comment);
    }
    assert_eq!(comments.len(), log.arrivals.len());
    let with = |text: &str| comments.iter().filter(|comment| comment.contains(text)).count();
    let (dropped, ended) = (log.ends.iter().filter(|end| end.dropped.is_some()).count(), log.ends.len());
    assert!(dropped > 10);
    assert_eq!((with(": dropped, "), with(": delivered after ")), (dropped, ended - dropped));
    assert_eq!(with(": held"), comments.len() - ended);
    match Command::new("tcpdump").args(["-nr", &capture]).output() {
        Err(error) => skipped(&format!("cannot run tcpdump: {error}")),
        Ok(output) => {
            assert_eq!(text(&output.stdout).lines().count(), comments.len(), "{}", text(&output.stderr))
        }
    }
}
