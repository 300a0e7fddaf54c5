//! Tests of links between namespaces. Where TUN devices or namespaces are missing, the tests report that they are skipped.
//!
//! The programs at the ends of the links are this test program, which starts itself with `EMU_ROLE` set.

use crate::replay::{Memory, read_log, replay};
use crate::skip::skipped;
use catnip_base::{Rate, Span, Time};
use catnip_emu::link::LinkTopology;
use catnip_lab::PathFile;
use catnip_linux::netlink::Netlink;
use catnip_linux::sys;
use catnip_net::shape::RateSpec;
use catnip_net::{Fabric, References, WireSpec};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// Lock that serializes timing tests.
static TURN: Mutex<()> = Mutex::new(());

/// Temporary folder with copies of the emulator and of this test program, which every user may execute, and with the results.
struct Lab {
    dir: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Lab {
    /// Creates the folder. Returns `None`, and reports why, if this machine cannot emulate links.
    fn open() -> Option<Self> {
        static USABLE: OnceLock<Result<(), String>> = OnceLock::new();
        let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let dir = std::env::temp_dir().join(format!("catnip-emu-test-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let lab = Self { dir, _turn: turn };
        // All users may write results here.
        fs::set_permissions(&lab.dir, fs::Permissions::from_mode(0o1777)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_catnip-emu"), lab.file("catnip-emu")).unwrap();
        fs::copy(std::env::current_exe().unwrap(), lab.file("probe")).unwrap();
        let usable = USABLE.get_or_init(|| {
            // The tolerance is so large that only the ability is tested, not the timing.
            let output = lab.emulator().args(["-q", "--", "true"]).output().unwrap();
            if output.status.success() { Ok(()) } else { Err(text(&output.stderr)) }
        });
        match usable {
            Ok(()) => Some(lab),
            Err(why) => {
                skipped(why);
                None
            }
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns the command `catnip-emu link OPTIONS -- probe`, with [`probe`] in this role. The tolerance is so large that lateness fails
    /// no test.
    fn link(&self, options: &[&str], role: &str) -> Command {
        let mut command = self.emulator();
        command.args(options).arg("--").arg(self.file("probe")).args(PROBE).env("EMU_ROLE", role);
        command
    }

    fn emulator(&self) -> Command {
        let mut command = Command::new(self.file("catnip-emu"));
        command.args(["link", "--tolerance", "60s"]);
        command
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

const PROBE: [&str; 3] = ["--exact", "link::probe", "--nocapture"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_string()
}

#[track_caller]
fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
    output
}

/// Returns a value that [`probe`] has measured, from its output of lines of the form `value NAME NUMBER`.
#[track_caller]
fn value(output: &Output, name: &str) -> f64 {
    let stdout = text(&output.stdout);
    let line = stdout.lines().find_map(|line| line.strip_prefix(&format!("value {name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {stdout}")).parse().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "what an application measures")]
fn now() -> Instant {
    Instant::now()
}

/// Program that runs behind a link instead of a test if `EMU_ROLE` is set. `EMU_ROLE` is a verb and its arguments.
#[test]
fn probe() {
    let Ok(role) = std::env::var("EMU_ROLE") else { return };
    let args: Vec<&str> = role.split(' ').collect();
    let outside = || -> IpAddr { std::env::var("CATNIP_OUTSIDE").unwrap().parse().unwrap() };
    match args[..] {
        ["rtt", port] => rtt(SocketAddr::new(outside(), port.parse().unwrap())),
        ["rtt6", port] => {
            let address: IpAddr = std::env::var("CATNIP_OUTSIDE6").unwrap().parse().unwrap();
            rtt(SocketAddr::new(address, port.parse().unwrap()));
        }
        ["rtt", address, port] => rtt(SocketAddr::new(address.parse().unwrap(), port.parse().unwrap())),
        ["flood", port, packets, len, interval_us] => flood(
            SocketAddr::new(outside(), port.parse().unwrap()),
            packets.parse().unwrap(),
            len.parse().unwrap(),
            Duration::from_micros(interval_us.parse().unwrap()),
        ),
        // Sends from the regular address, and from an address that is not behind the link.
        ["pretend", port] => {
            let mut netlink = Netlink::open().unwrap();
            let lo = netlink.index_of("lo").unwrap();
            netlink.add_address(lo, "192.0.2.9/32".parse().unwrap()).unwrap();
            for from in ["0.0.0.0", "192.0.2.9"] {
                let socket = UdpSocket::bind((from, 0)).unwrap();
                socket.send_to(from.as_bytes(), (outside(), port.parse::<u16>().unwrap())).unwrap();
            }
        }
        ["sleep", ms] => std::thread::sleep(Duration::from_millis(ms.parse().unwrap())),
        // Ends while most of the data is in the kernel's buffer.
        ["say", port] => {
            let to = SocketAddr::new(outside(), port.parse().unwrap());
            TcpStream::connect(to).unwrap().write_all(&[1; 100_000]).unwrap();
        }
        ["tcp", port] => tcp(SocketAddr::new(outside(), port.parse().unwrap())),
        // Runs an echo service outside, and another link with the probe behind it.
        ["behind", delay, ..] => {
            let port = udp_echo();
            let exe = std::env::current_exe().unwrap();
            let mut command = Command::new(exe.with_file_name("catnip-emu"));
            command.args(["link", "-q", "--tolerance", "60s", "--delay", delay, "--"]).arg(&exe).args(PROBE);
            let status = command.env("EMU_ROLE", format!("rtt {port}")).status().unwrap();
            assert!(status.success());
        }
        ["link", delay, ref rest @ ..] => {
            let exe = std::env::current_exe().unwrap();
            let mut command = Command::new(exe.with_file_name("catnip-emu"));
            command.args(["link", "-q", "--tolerance", "60s", "--delay", delay, "--"]).arg(&exe).args(PROBE);
            // The outermost link inserts its own address.
            let role = rest.join(" ").replace("OUTSIDE", &outside().to_string());
            assert!(command.env("EMU_ROLE", role).status().unwrap().success());
        }
        _ => panic!("unknown role {role}"),
    }
}

fn rtt(to: SocketAddr) {
    let local: SocketAddr = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
    let socket = UdpSocket::bind(local).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..12 {
        let start = now();
        socket.send_to(&[1; 64], to).unwrap();
        socket.recv(&mut [0; 100]).unwrap();
        times.push(start.elapsed());
    }
    // The shortest round trip shows the delay of the link. Longer round trips may include a wait for a CPU.
    println!("value rtt_ms {}", times.iter().min().unwrap().as_secs_f64() * 1e3);
}

fn flood(to: SocketAddr, packets: u32, len: usize, interval: Duration) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let start = now();
    for number in 0..packets {
        let due = interval * number;
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        // A packet has `len` bytes including headers.
        socket.send_to(&vec![0; len - 28], to).unwrap();
    }
}

fn tcp(to: SocketAddr) {
    let mut stream = TcpStream::connect(to).unwrap();
    let sent: Vec<u8> = (0..200_000u32).map(|n| (n * 7 / 5) as u8).collect();
    let (mut half, copy) = (stream.try_clone().unwrap(), sent.clone());
    let writer = std::thread::spawn(move || {
        half.write_all(&copy).unwrap();
        half.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    writer.join().unwrap();
    assert!(received == sent, "{} bytes came back", received.len());
    println!("value bytes {}", received.len());
}

/// Starts a UDP echo service for the rest of the test and returns its port.
fn udp_echo() -> u16 {
    let socket = UdpSocket::bind("[::]:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    });
    port
}

#[test]
fn a_round_trip_takes_twice_the_delay() {
    let Some(lab) = Lab::open() else { return };
    let port = udp_echo();
    for role in [format!("rtt {port}"), format!("rtt6 {port}")] {
        let output = succeed(&mut lab.link(&["--delay", "25ms"], &role));
        let rtt = value(&output, "rtt_ms");
        assert!((50.0..52.0).contains(&rtt), "{role}: {rtt} ms");
        assert!(text(&output.stderr).starts_with("link certificate: green"), "{}", text(&output.stderr));
    }
    let output =
        succeed(&mut lab.link(&["-q", "--up", "delay=5ms", "--down", "delay=12ms"], &format!("rtt {port}")));
    let rtt = value(&output, "rtt_ms");
    assert!((17.0..19.0).contains(&rtt), "{rtt} ms");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn nested_links_add_their_delays() {
    let Some(lab) = Lab::open() else { return };
    // The outside address of the outermost link is reached through all links.
    let port = udp_echo();
    let output =
        succeed(&mut lab.link(&["--delay", "10ms"], &format!("link 8ms link 4ms rtt OUTSIDE {port}")));
    let rtt = value(&output, "rtt_ms");
    assert!((44.0..47.0).contains(&rtt), "{rtt} ms");
}

#[test]
fn tcp_arrives_whole() {
    let Some(lab) = Lab::open() else { return };
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let (mut from, mut to) = (stream.try_clone().unwrap(), stream);
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    let options = ["--rate", "20Mbit", "--delay", "5ms", "--queue", "drop-tail:20"];
    let output = succeed(&mut lab.link(&options, &format!("tcp {port}")));
    assert_eq!(value(&output, "bytes"), 200_000.0);
}

/// Floods a link with packets, verifies its log by a replay, and returns its certificate and its log.
fn flooded(lab: &Lab, wire: &WireSpec, options: &[&str], role: &str) -> (Value, Memory) {
    let sink = UdpSocket::bind("0.0.0.0:0").unwrap();
    let role = role.replace("PORT", &sink.local_addr().unwrap().port().to_string());
    // The receiver outside counts packets independently. Its buffer holds them while it waits for a core.
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&sink, 1 << 25).unwrap();
    sink.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let received =
        std::thread::spawn(move || (0..).take_while(|_| sink.recv(&mut [0; 2000]).is_ok()).count());
    let (log, certificate) = (lab.file("log.csv"), lab.file("certificate.json"));
    let results =
        ["--seed", "1", "--log", log.to_str().unwrap(), "--certificate", certificate.to_str().unwrap()];
    succeed(&mut lab.link(&[options, &results].concat(), &role));
    let (live, end) = read_log(&fs::read_to_string(log).unwrap()).unwrap();
    let link = LinkTopology::new(wire, wire);
    let fabric = Fabric::new(&link.topology, 1);
    let ways = [[link.inside, link.outside], [link.outside, link.inside]];
    let again = replay(fabric, &ways, &live.arrivals, end);
    assert_eq!(live.clone().sorted_ends(), again, "the simulator gives the same departures and drops");
    let certificate: Value = serde_json::from_str(&fs::read_to_string(certificate).unwrap()).unwrap();
    let up = &certificate["up"];
    let dropped: u64 = up["dropped"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    let count = |key: &str| up[key].as_u64().unwrap();
    assert_eq!(count("packets_in"), count("packets_out") + dropped + count("held") + count("unwritable"));
    assert_eq!(count("packets_out"), received.join().unwrap() as u64);
    (certificate, live)
}

fn wire(rate: RateSpec, queue: &str, loss: Option<&str>) -> WireSpec {
    let before = loss.into_iter().map(|loss| loss.parse().unwrap()).collect();
    WireSpec { before, ..WireSpec::new(rate, Span::from_millis(5), queue.parse().unwrap()) }
}

/// Runs a link with the probe in this role. Returns the certificate and the exit code of the link.
fn certificate(lab: &Lab, options: &[&str], role: &str) -> (Value, Option<i32>) {
    let file = lab.file("certificate.json");
    let options = [options, &["--certificate", file.to_str().unwrap()]].concat();
    let status = lab.link(&options, role).output().unwrap().status;
    (serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap(), status.code())
}

#[test]
fn a_kernel_takes_no_packet_in_which_the_link_has_turned_a_bit() {
    let Some(lab) = Lab::open() else { return };
    let sink = UdpSocket::bind("0.0.0.0:0").unwrap();
    sink.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let role = format!("flood {} 2000 300 100", sink.local_addr().unwrap().port());
    let received =
        std::thread::spawn(move || (0..).take_while(|_| sink.recv(&mut [0; 2000]).is_ok()).count());
    let (certificate, code) = certificate(&lab, &["--wire-loss", "corrupt:10%", "--seed", "1"], &role);
    let up = |key: &str| certificate["up"][key].as_u64().unwrap();
    assert_eq!((code, up("packets_in"), up("packets_out")), (Some(0), 2000, 2000));
    // Checksums cover the whole packet.
    assert_eq!(2000 - received.join().unwrap() as u64, up("corrupted"));
    assert!((140..260).contains(&up("corrupted")), "{}", up("corrupted"));
}

#[test]
fn a_link_changes_at_its_time_and_when_somebody_asks_who_may() {
    let Some(lab) = Lab::open() else { return };
    let sink = UdpSocket::bind("0.0.0.0:0").unwrap();
    let role = format!("flood {} 300 100 2000", sink.local_addr().unwrap().port());
    let changes = ["--delay", "5ms", "--at", "200ms up delay=60ms", "--at", "400ms rate=1Mbit,delay=30ms"];
    let (certificate, code) = certificate(&lab, &changes, &role);
    let [shortest, longest] =
        ["min", "max"].map(|key| certificate["up"]["ideal_delay_ms"][key].as_f64().unwrap());
    assert!(
        code == Some(0) && (4.9..5.2).contains(&shortest) && (59.0..62.0).contains(&longest),
        "{certificate}"
    );
    assert_eq!(certificate["changed"][0][1], "up delay=60ms");
    assert_eq!(certificate["changed"].as_array().unwrap().len(), 2);

    let file = lab.file("certificate.json");
    let mut link = lab.link(&["-q", "--certificate", file.to_str().unwrap()], "sleep 20000");
    let mut link = link.spawn().unwrap();
    let set = |args: &[&str]| {
        let mut set = Command::new(lab.file("catnip-emu"));
        set.args(["link", "set", "--link", &link.id().to_string()]).args(args).output().unwrap()
    };
    wait_until("the link listens", || set(&["delay=7ms"]).status.success());
    for (args, why) in [
        (&["queue=drop-tail:3"][..], "error: queue: cannot change while packets cross the link"),
        (&["up", "rate=fast"], "error: rate: \"fast\": expected a rate such as"),
        (&["up"], "error: change: \"up\": expected"),
        (&["mark=spm"], "error: mark: cannot change while packets cross the link"),
    ] {
        let output = set(args);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).starts_with(why), "{}", text(&output.stderr));
    }
    if is_root() {
        let other = format!(
            "exec setpriv --reuid {ORDINARY} {} link set --link {}",
            lab.file("catnip-emu").display(),
            link.id()
        );
        let output = Command::new("sh").args(["-c", &format!("{other} delay=1s")]).output().unwrap();
        assert!(text(&output.stderr).contains("was started by this user"), "{}", text(&output.stderr));
    }
    sys::kill(link.id(), libc::SIGTERM).unwrap();
    link.wait().unwrap();
    let certificate: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(certificate["changed"].as_array().unwrap().len(), 1, "{certificate}");
}

#[test]
fn a_link_that_was_stopped_is_red_by_as_much_as_its_packets_were_held() {
    let Some(lab) = Lab::open() else { return };
    let sink = UdpSocket::bind("0.0.0.0:0").unwrap();
    let file = lab.file("stopped.json");
    let options = ["--tolerance", "5ms", "--certificate", file.to_str().unwrap()];
    // Packets that arrive while the link is stopped fit into the receiver's buffer. The receiver may have no CPU when all of them are
    // written at once.
    let role = format!("flood {} 300 100 4000", sink.local_addr().unwrap().port());
    let mut link = lab.link(&options, &role).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut seen = Vec::new();
    let mut hear = |count: usize| {
        sink.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (0..count).for_each(|_| {
            sink.recv(&mut [0; 100]).unwrap();
            seen.push(now());
        });
    };
    hear(50);
    sys::kill(link.id(), libc::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_millis(800));
    sys::kill(link.id(), libc::SIGCONT).unwrap();
    hear(250);
    assert_eq!(link.wait().unwrap().code(), Some(3));
    let silent = seen.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    let certificate: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let up = &certificate["up"];
    assert_eq!((&certificate["verdict"], &up["packets_out"]), (&"red".into(), &300.into()), "{certificate}");
    // Packets arrive every 4 ms, so the first packet that had to wait arrived within 4 ms after the stop.
    let held = Duration::from_secs_f64(up["excess_us"]["max"].as_f64().unwrap() * 1e-6);
    assert!(
        held + Duration::from_millis(50) > silent.min(Duration::from_millis(800)),
        "{held:?}, silent for {silent:?}"
    );
}

#[test]
fn a_link_with_jitter_is_held_to_no_rate() {
    let Some(lab) = Lab::open() else { return };
    let sink = UdpSocket::bind("0.0.0.0:0").unwrap();
    let options = ["--rate", "10Mbit", "--delay", "50ms", "--jitter", "uniform:20ms"];
    let role = format!("flood {} 750 1028 2000", sink.local_addr().unwrap().port());
    let (certificate, code) = certificate(&lab, &options, &role);
    assert_eq!((certificate["verdict"].as_str(), code), (Some("green"), Some(0)), "{certificate}");
    assert_eq!(certificate["up"]["busy_rate"], Value::Null);
}

#[test]
fn a_link_to_which_nothing_came_is_grey() {
    let Some(lab) = Lab::open() else { return };
    let file = lab.file("grey.json");
    succeed(lab.emulator().args(["-q", "--certificate", file.to_str().unwrap(), "--", "true"]));
    let certificate: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(certificate["verdict"], "grey", "{certificate}");
}

#[test]
fn what_says_to_come_from_elsewhere_is_refused_and_counted() {
    let Some(lab) = Lab::open() else { return };
    let sink = UdpSocket::bind("0.0.0.0:0").unwrap();
    let role = format!("pretend {}", sink.local_addr().unwrap().port());
    let (certificate, code) = certificate(&lab, &["--delay", "1ms"], &role);
    assert_eq!(code, Some(0), "{certificate}");
    assert_eq!(certificate["up"]["refused"]["wrong_source"], 1, "{certificate}");
    sink.set_nonblocking(true).unwrap();
    let mut datagram = [0; 100];
    let len = sink.recv(&mut datagram).unwrap();
    assert_eq!(&datagram[..len], b"0.0.0.0");
    assert!(sink.recv(&mut datagram).is_err(), "nothing else came");
}

#[test]
fn the_rate_and_the_limit_of_the_queue_are_exact() {
    let Some(lab) = Lab::open() else { return };
    let rate = RateSpec::Constant(Rate::from_bits_per_second(1_500_000).unwrap());
    let wire = wire(rate, "drop-tail:12", None);
    let options = ["--rate", "1.5Mbit", "--delay", "5ms", "--queue", "drop-tail:12"];
    // The flood lasts two seconds and has twice the rate of the link.
    let (certificate, live) = flooded(&lab, &wire, &options, "flood PORT 500 1500 4000");
    let up = &certificate["up"];
    assert_eq!(up["largest_queue"], 12);
    assert!(up["dropped"]["overflow"].as_u64().unwrap() > 150, "{up}");
    let busy = up["busy_rate"].as_f64().unwrap();
    assert!((busy / 1.5e6 - 1.0).abs() < 0.02, "{busy} bit/s");
    assert!(up["busy_s"].as_f64().unwrap() > 1.5, "{up}");
    let out: Vec<Time> = live.ends.iter().filter(|end| end.dropped.is_none()).map(|end| end.at).collect();
    let exact = out.windows(2).filter(|pair| pair[1] - pair[0] == Span::from_millis(8)).count();
    assert!(exact > 200 && exact + 20 > out.len(), "{exact} of {}", out.len());
}

/// Returns the wire up of a recorded path, as the simulator reads it.
fn recorded_wire(path: &Path) -> WireSpec {
    let file = PathFile::parse(&fs::read_to_string(path).unwrap(), path).unwrap();
    let open = |name: &str| fs::read_to_string(name).map_err(|error| error.to_string());
    let (queues, stages) = Default::default();
    let with = References { queues: &queues, stages: &stages, open: &open };
    let [up, _] = &file.wires;
    WireSpec::read(|key| up.get(key).map(String::as_str), &with).unwrap()
}

#[test]
fn a_recorded_path_acts_as_in_the_simulator_to_the_nanosecond() {
    let Some(lab) = Lab::open() else { return };
    // Satellites that change every half second, with a jump from 20 to 50 ms, and losses about the change.
    let delays: String = (0..50).map(|n| if n < 25 { "20\n" } else { "50\n" }).collect();
    fs::write(lab.file("delay.txt"), delays).unwrap();
    fs::write(lab.file("rate.txt"), "0 8\n0.5 4\n1 8\n").unwrap();
    fs::write(lab.file("light.txt"), "0 20 0 0 1 1 2\n100 30 0 3\n200 25 0 1\n").unwrap();
    fs::write(lab.file("heavy.txt"), "1\n1\n4\n9\n9\n10\n").unwrap();
    let satellites = "rate = 'trace:rate.txt'\ndelay = 'trace:delay.txt,step=20ms'\nat = [0, 0.5, 0.6]\nloss = [0, '10%', 0]";
    let cell = "rate = 'cell-trains:light.txt,heavy=heavy.txt,idle=3ms,bytes=1500'\ndelay = '5ms'";
    for (path, least_ms, most_ms) in [(satellites, 20.0, 50.0), (cell, 25.0, 30.0)] {
        let file = lab.file("path.toml");
        fs::write(&file, format!("{path}\nqueue = 'drop-tail:20'")).unwrap();
        let wire = recorded_wire(&file);
        let options = ["--path", file.to_str().unwrap(), "--tolerance", "60s"];
        let (certificate, live) = flooded(&lab, &wire, &options, "flood PORT 400 1000 4000");
        assert!(live.arrivals.len() >= 400, "{certificate}");
        let [min, max] = ["min", "max"].map(|key| certificate["up"]["ideal_delay_ms"][key].as_f64().unwrap());
        assert!(
            min >= least_ms && min < least_ms + 2.0,
            "{min} ms: a packet of 1000 bytes takes a millisecond"
        );
        assert!(max >= most_ms, "{max} ms");
        assert_eq!(certificate["verdict"], "green", "{certificate}");
    }
}

#[test]
fn losses_are_as_many_as_asked_for() {
    let Some(lab) = Lab::open() else { return };
    let wire = wire(RateSpec::Unlimited, "drop-tail:1000", Some("bernoulli:0.05"));
    let options = ["--delay", "5ms", "--loss", "bernoulli:0.05"];
    let (certificate, live) = flooded(&lab, &wire, &options, "flood PORT 4000 200 100");
    let lost = live.ends.iter().filter(|end| end.dropped.is_some()).count() as f64;
    let n = live.arrivals.len() as f64;
    assert!(n >= 4000.0, "{n}");
    assert!((lost - 0.05 * n).abs() < 4.0 * (0.05 * 0.95 * n).sqrt(), "{lost} of {n}");
    assert_eq!(certificate["verdict"], "green", "{certificate}");
}

#[test]
fn each_run_loses_other_packets_unless_it_is_told_which() {
    let Some(lab) = Lab::open() else { return };
    let sink = UdpSocket::bind("0.0.0.0:0").unwrap();
    let role = format!("flood {} 200 100 100", sink.local_addr().unwrap().port());
    let run = |seed: &[&str]| {
        let log = lab.file("seeded.csv");
        let options = [&["--loss", "bernoulli:0.1", "--log", log.to_str().unwrap()], seed].concat();
        let (certificate, _) = certificate(&lab, &options, &role);
        let text = fs::read_to_string(log).unwrap();
        let number = |line: &str| line.split(',').nth(2).unwrap().parse::<u64>().unwrap();
        let lost: Vec<u64> = text.lines().filter(|line| line.starts_with("drop,")).map(number).collect();
        (certificate["seed"].as_u64().unwrap(), lost)
    };
    let (one, two) = (run(&[]), run(&[]));
    assert!(one.0 != two.0 && one.1 != two.1, "{one:?} {two:?}");
    assert_eq!(run(&["--seed", &one.0.to_string()]), one);
}

#[test]
fn full_disks_and_vanished_devices_lose_nothing_that_was_measured() {
    let Some(lab) = Lab::open() else { return };
    let file = lab.file("kept.json");
    let certificate_args = ["--certificate", file.to_str().unwrap()];
    let verdict = || -> Value {
        serde_json::from_str::<Value>(&fs::read_to_string(&file).unwrap()).unwrap()["verdict"].take()
    };
    // A full disk is simulated by a limit on the file size: 8 KB (dash) or 16 KB (bash).
    let sink = UdpSocket::bind("0.0.0.0:0").unwrap();
    let log = lab.file("long.csv");
    let mut full = Command::new("sh");
    full.args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$@\"", "sh"]).arg(lab.file("catnip-emu"));
    full.args(["link", "--tolerance", "60s", "--log", log.to_str().unwrap()]).args(certificate_args);
    full.args(["--", "sh", "-c", "\"$@\" > /dev/null; exit 7", "sh"]).arg(lab.file("probe")).args(PROBE);
    full.env("EMU_ROLE", format!("flood {} 2000 100 50", sink.local_addr().unwrap().port()));
    let full = full.output().unwrap();
    let stderr = text(&full.stderr);
    assert_eq!(full.status.code(), Some(7), "{stderr}");
    assert!(stderr.contains("link certificate: green"), "{stderr}");
    assert!(stderr.contains("long.csv: cannot write it: File too large"), "{stderr}");
    assert_eq!(verdict(), "green");
    if Command::new("ip").arg("-V").output().is_err() {
        return skipped("no program ip");
    }
    let lost = "ip link del catnip0; sleep 60";
    let output = lab.emulator().args(certificate_args).args(["--", "sh", "-c", lost]).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("the run ended early: link: cannot read a device"), "{stderr}");
    assert_eq!(verdict(), "red");
}

#[test]
fn exit_codes_are_passed_on_and_errors_are_one_line() {
    let Some(lab) = Lab::open() else { return };
    let cases: [(&[&str], i32, &str); 9] = [
        (&["-q", "--", "sh", "-c", "exit 7"], 7, ""),
        (&["-q", "--", "sh", "-c", "kill -9 $$"], 137, ""),
        (&["--", "no-such-command"], 127, "error: no-such-command: command not found"),
        (&["--", "/etc/passwd"], 126, "error: /etc/passwd: cannot be executed"),
        (&["--rate", "1.5Mb", "--", "true"], 2, "error: --rate: \"1.5Mb\": expected a rate"),
        (&["--up", "delay=5", "--", "true"], 2, "error: --up delay: \"5\": expected a time"),
        (&["--queue", "drop-tail", "--", "true"], 2, "error: --queue: \"drop-tail\": expected a limit"),
        (&["--device", "a/b", "--", "true"], 2, "error: --device: \"a/b\" is not a valid device name"),
        (&["--nonsense", "--", "true"], 2, "error: unexpected argument"),
    ];
    for (arguments, code, message) in cases {
        let output = lab.emulator().args(arguments).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with(message) && stderr.lines().count() <= 1, "{arguments:?}: {stderr}");
    }
    // A tolerance of zero is never met.
    let port = udp_echo();
    let output = lab.link(&["--tolerance", "0ms"], &format!("rtt {port}")).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(" ms (p99 > 0 ms"), "{}", text(&output.stderr));
}

fn wait_until(condition: &str, mut happened: impl FnMut() -> bool) {
    let start = now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(10), "waited in vain: {condition}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns true if a process has this argument on its command line.
fn is_running(word: &str) -> bool {
    let lines = fs::read_dir("/proc").unwrap().flatten().map(|entry| fs::read(entry.path().join("cmdline")));
    lines.flatten().any(|line| line.split(|&byte| byte == 0).any(|argument| argument == word.as_bytes()))
}

/// Returns a sleep time that no other process uses.
fn own_sleep(number: i32) -> String {
    format!("60.{}{number:03}", std::process::id())
}

/// Sends a signal to a link whose command starts another process and sleeps. Returns the exit status once all processes have ended.
fn end_by_signal(lab: &Lab, signal: i32, device: &str) -> std::process::ExitStatus {
    let (child, itself) = (own_sleep(signal), own_sleep(100 + signal));
    // A shell that starts the tests in the background ignores SIGINT, and its children inherit this.
    let script = format!("setsid sleep {child} & exec env --default-signal sleep {itself}");
    let mut command = lab.emulator();
    command.args(["-q", "--device", device, "--", "sh", "-c", &script]);
    let mut link = command.stdout(Stdio::null()).spawn().unwrap();
    wait_until("the command starts", || is_running(&child) && is_running(&itself));
    let device = Path::new("/sys/class/net").join(device);
    // The device of an ordinary user is in a separate namespace.
    assert!(device.exists() || !is_root());
    sys::kill(link.id(), signal).unwrap();
    let status = link.wait().unwrap();
    wait_until("the command ends", || !is_running(&child) && !is_running(&itself));
    wait_until("the device vanishes", || !device.exists());
    status
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

#[test]
fn nothing_is_left_behind() {
    let Some(lab) = Lab::open() else { return };
    let device = format!("ct{}", std::process::id());
    assert_eq!(end_by_signal(&lab, libc::SIGTERM, &device).code(), Some(143));
    assert_eq!(end_by_signal(&lab, libc::SIGINT, &device).code(), Some(130));
    assert_eq!(end_by_signal(&lab, libc::SIGKILL, &device).signal(), Some(9));
    // The same name is available again at once.
    succeed(lab.emulator().args(["-q", "--device", &device, "--", "true"]));
}

#[test]
fn what_a_command_leaves_behind_ends_with_its_link() {
    let Some(lab) = Lab::open() else { return };
    let sleep = own_sleep(1);
    // If the link may mount a /proc for the command, as root may, this /proc shows the processes of the command.
    let own = if is_root() { "test $(cat /proc/$$/comm) = sh" } else { "true" };
    let script = format!("setsid sleep {sleep} > /dev/null 2>&1 & {own}");
    succeed(lab.emulator().args(["-q", "--", "sh", "-c", &script]));
    assert!(!is_running(&sleep));
}

#[test]
fn what_a_command_has_said_last_is_heard_outside_before_the_link_ends() {
    let Some(lab) = Lab::open() else { return };
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let received = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).map(|_| all.len())
    });
    succeed(&mut lab.link(&["--delay", "20ms", "--rate", "2Mbit"], &format!("say {port}")));
    assert_eq!(received.join().unwrap().ok(), Some(100_000), "all of it, and that there is no more");
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let Some(lab) = Lab::open() else { return };
    if !is_root() {
        return skipped("not root, so that each link has a namespace of its own");
    }
    let device = format!("ct{}", std::process::id());
    let emulator = lab.file("catnip-emu");
    let again = format!("{} link -q --tolerance 60s --device {device} -- true", emulator.display());
    // Every namespace has a device `lo`.
    let output = lab.emulator().args(["--device", "lo", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).starts_with("error: --device: lo"), "{}", text(&output.stderr));
    let mut taken = lab.emulator();
    taken.args(["-q", "--device", &device, "--", "sleep", "60"]);
    let mut taken = taken.spawn().unwrap();
    wait_until("the device appears", || Path::new("/sys/class/net").join(&device).exists());
    let output = Command::new("sh").args(["-c", &again]).output().unwrap();
    taken.kill().unwrap();
    taken.wait().unwrap();
    // A child process before its exec may still hold the device.
    wait_until("the device vanishes", || !Path::new("/sys/class/net").join(&device).exists());
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        format!("error: --device: {device} already exists; choose another name")
    );
    // The name is available inside another link.
    succeed(lab.emulator().args(["-q", "--device", &device, "--", "sh", "-c", &again]));
}

#[test]
fn a_machine_that_cannot_is_told_what_to_do() {
    let Some(lab) = Lab::open() else { return };
    let link = format!("{} link -q -- true", lab.file("catnip-emu").display());
    let cases = [
        ("-m", "mount -t tmpfs none /dev/net", "error: /dev/net/tun: no TUN device; load"),
        // The user namespace does not own the network namespace, and no other may be created.
        (
            "-Ur",
            "echo 0 > /proc/sys/user/max_user_namespaces",
            "error: permission: cannot create network devices",
        ),
    ];
    for (unshare, prepare, message) in cases {
        let prepared = |command: &str| {
            let script = format!("{prepare} || exit 77; {command}");
            Command::new("unshare").args([unshare, "sh", "-c", &script]).output()
        };
        if !prepared("true").is_ok_and(|output| output.status.success()) {
            skipped(&format!("cannot do `unshare {unshare}` and `{prepare}`"));
            continue;
        }
        let output = prepared(&link).unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.starts_with(message) && stderr.lines().count() == 1, "{stderr}");
    }
}

/// ID of the unprivileged user in most distributions.
const ORDINARY: u32 = 65_534;

/// Returns a command of an ordinary user. If the current user is root, the command runs as another user, with a `/dev/net/tun` that all
/// users may open, as in most distributions.
fn as_ordinary_user(args: &str) -> Command {
    if !is_root() {
        let mut command = Command::new("sh");
        command.args(["-c", args]);
        return command;
    }
    let device = "mount -t tmpfs none /dev/net && mknod -m 666 /dev/net/tun c 10 200";
    let user = format!("setpriv --reuid {ORDINARY} --regid {ORDINARY} --clear-groups");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &format!("{device} && exec {user} sh -c \"{args}\"")]);
    command
}

#[test]
fn ordinary_users_have_links_too() {
    let Some(lab) = Lab::open() else { return };
    let link = format!("{} link --tolerance 60s --", lab.file("catnip-emu").display());
    let output = as_ordinary_user(&format!("{link} true")).output().unwrap();
    if !output.status.success() {
        return skipped(&format!("ordinary users: {}", text(&output.stderr)));
    }
    let probe = format!("{} {}", lab.file("probe").display(), PROBE.join(" "));
    let output = succeed(&mut as_ordinary_user(&format!("EMU_ROLE='behind 10ms' {link} {probe}")));
    let rtt = value(&output, "rtt_ms");
    assert!((20.0..22.0).contains(&rtt), "{rtt} ms");
}
