//! Tests of a router between the namespaces of a client and a server. The tests require root. Without root, they report that they are
//! skipped.

use crate::skip::skipped;
use catnip_linux::sys;
use catnip_wire::pcapng::Reader;
use catnip_wire::{Ip, has_valid_transport_checksum};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

static TURN: Mutex<()> = Mutex::new(());

#[expect(clippy::disallowed_methods, reason = "what an application measures")]
fn now() -> Instant {
    Instant::now()
}

/// Network namespace that lives as long as a process in it.
struct Space(Child);

impl Space {
    fn new() -> Option<Self> {
        let mut unshare = Command::new("unshare");
        let mut child =
            unshare.args(["-n", "sh", "-c", "echo; exec sleep 60"]).stdout(Stdio::piped()).spawn().ok()?;
        let mut byte = [0];
        child.stdout.take()?.read_exact(&mut byte).ok()?;
        Some(Self(child))
    }

    fn run(&self, args: &str) {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn command(&self, args: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.0.id().to_string(), "-n"]).args(args.split(' '));
        command
    }

    /// Executes a function in this namespace; its sockets stay there.
    fn within<T: Send>(&self, action: impl FnOnce() -> T + Send) -> T {
        let network = File::open(format!("/proc/{}/ns/net", self.0.id())).unwrap();
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                sys::enter_netns(network.as_fd()).unwrap();
                action()
            });
            inside.join().unwrap()
        })
    }

    /// Sets a kernel parameter of this namespace to 1.
    fn set(&self, key: &str) {
        self.within(|| fs::write(format!("/proc/sys/{key}"), "1").unwrap());
    }

    /// Returns the number of packets that a device has received (`rx`) or sent (`tx`).
    fn counter(&self, device: &str, name: &str) -> u64 {
        let output = self.command("cat /proc/net/dev").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{device}:"))).unwrap();
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[if name == "rx" { 1 } else { 9 }].parse().unwrap()
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Testbed {
    client: Space,
    router: Space,
    server: Space,
    dir: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for Testbed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Testbed {
    fn open() -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let spaces = (Space::new(), Space::new(), Space::new());
        let (Some(client), Some(router), Some(server)) = spaces else {
            skipped("no right to make network namespaces and Ethernet devices, run as root");
            return None;
        };
        if Command::new("ip").arg("-V").output().is_err() {
            skipped("ip is not installed");
            return None;
        }
        for (end, space, near, far, address) in
            [(&client, 0, "rc", "c0", CLIENT), (&server, 1, "rs", "s0", SERVER)]
        {
            router.run(&format!("ip link add {near} type veth peer name {far} netns {}", end.0.id()));
            // IPv6 is disabled so that the kernel of the router sends no packets of its own.
            router.set(&format!("net/ipv6/conf/{near}/disable_ipv6"));
            router.run(&format!("ip link set {near} up"));
            // The ends must not send unsolicited packets either: they get no link-local addresses, and the interval in which a host repeats
            // the report of its multicast groups is a millisecond instead of a second.
            end.set(&format!("net/ipv6/conf/{far}/addr_gen_mode"));
            end.set(&format!("net/ipv6/conf/{far}/mldv2_unsolicited_report_interval"));
            end.run(&format!("ip address add {address}/24 dev {far}"));
            end.run(&format!("ip address add fd09::{}/64 dev {far} nodad", space + 1));
            end.run(&format!("ip link set {far} up"));
            end.run("ip link set lo up");
        }
        let dir = std::env::temp_dir().join(format!("catnip-router-test-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Some(Self { client, router, server, dir, _turn: turn })
    }

    /// Starts a router between the client and the server, and waits until it has written its counters.
    fn route(&self, options: &str) -> Child {
        let args = format!(
            "{} router --inside rc --outside rs -q --tolerance 60s --report 20ms --counters {} --certificate {} \
             --prometheus {} {options}",
            env!("CARGO_BIN_EXE_catnip-emu"),
            self.file("lines"),
            self.file("certificate"),
            self.file("prometheus"),
        );
        let _ = fs::remove_file(self.file("lines"));
        let router = self.router.command(&args).spawn().unwrap();
        wait_until("the router works", || {
            fs::read(self.file("lines")).is_ok_and(|lines| lines.contains(&b'\n'))
        });
        router
    }

    fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// Stops a router by a signal and returns its certificate.
    fn stop(&self, mut router: Child, signal: i32) -> Value {
        sys::kill(router.id(), signal).unwrap();
        let status = router.wait().unwrap();
        assert_eq!(status.code(), Some(0));
        serde_json::from_str(&fs::read_to_string(self.file("certificate")).unwrap()).unwrap()
    }

    /// Starts an echo service in the namespace of the server.
    fn echo(&self) {
        let sockets =
            ["0.0.0.0:7", "[fd09::2]:7"].map(|at| self.server.within(|| UdpSocket::bind(at).unwrap()));
        for socket in sockets {
            std::thread::spawn(move || {
                let mut buffer = [0; 2000];
                while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(&buffer[..len], from);
                }
            });
        }
    }

    /// Returns the shortest of a few round-trip times from the client to the address `to`; `None` if no packet came back.
    fn round_trip(&self, to: IpAddr, wait: Duration) -> Option<Duration> {
        let any: SocketAddr = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
        let socket = self.client.within(|| UdpSocket::bind(any).unwrap());
        socket.set_read_timeout(Some(wait)).unwrap();
        let one = |_| {
            let start = now();
            socket.send_to(&[1; 64], (to, 7)).unwrap();
            socket.recv(&mut [0; 100]).ok().map(|_| start.elapsed())
        };
        (0..3).filter_map(one).min()
    }
}

fn wait_until(condition: &str, mut happened: impl FnMut() -> bool) {
    let start = now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(10), "waited in vain: {condition}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn count(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("no {key} in {of}"))
}

fn sum(of: &Value) -> u64 {
    of.as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum()
}

#[test]
fn nothing_passes_but_through_the_router_and_every_packet_is_accounted_for() {
    let Some(testbed) = Testbed::open() else { return };
    testbed.echo();
    let brief = Duration::from_millis(50);
    assert_eq!(testbed.round_trip(SERVER.into(), brief), None, "there is no router yet");

    let capture = testbed.file("all.pcapng");
    let (sent, arrived) = (testbed.client.counter("c0", "tx"), testbed.server.counter("s0", "rx"));
    let (replied, returned) = (testbed.server.counter("s0", "tx"), testbed.client.counter("c0", "rx"));
    let router = testbed.route(&format!("--rate 10Mbit --delay 5ms --queue drop-tail:20 --pcap {capture}"));
    for to in [SERVER.into(), "fd09::2".parse().unwrap()] {
        let rtt = testbed.round_trip(to, Duration::from_secs(5)).expect("the router works");
        assert!((10.0..12.0).contains(&(rtt.as_secs_f64() * 1e3)), "{to}: {rtt:?}");
    }
    // The flood exceeds the queue.
    let flood = testbed.client.within(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    for number in 0..200_u32 {
        flood.send_to(&vec![0; 100 + number as usize], (SERVER, 9)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(100));
    let certificate = testbed.stop(router, libc::SIGTERM);
    assert_eq!(testbed.round_trip(SERVER.into(), brief), None, "there is no router any more");

    let (up, down) = (&certificate["up"], &certificate["down"]);
    assert!(sum(&up["dropped"]) > 50, "{up}");
    for (direction, sent, arrived) in [
        (up, testbed.client.counter("c0", "tx") - sent, testbed.server.counter("s0", "rx") - arrived),
        (down, testbed.server.counter("s0", "tx") - replied, testbed.client.counter("c0", "rx") - returned),
    ] {
        let (entered, passed) = (count(direction, "packets_in"), count(direction, "passed"));
        let (out, dropped) = (count(direction, "packets_out"), sum(&direction["dropped"]));
        assert_eq!(entered, out + dropped, "{direction}");
        // The last three packets of the client were sent after the router had ended and, like ARP requests before it started, reached no
        // host.
        let stray = sent - (entered + passed + sum(&direction["refused"]));
        assert!(stray <= if std::ptr::eq(direction, up) { 6 } else { 0 }, "{stray} of {sent}: {direction}");
        assert_eq!(arrived, out + passed, "{direction}");
    }
    let last = fs::read_to_string(testbed.file("lines")).unwrap();
    let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert_eq!(count(&last["up"], "packets_out"), count(up, "packets_out"));
    let text = fs::read_to_string(testbed.file("prometheus")).unwrap();
    let line = format!(
        "catnip_packets_dropped_total{{link=\"rc-rs\",direction=\"up\",reason=\"overflow\"}} {}",
        up["dropped"]["overflow"]
    );
    assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    let counted = captured(&capture);
    let frames = |d: &Value| count(d, "packets_in") + count(d, "passed");
    assert_eq!(counted.len() as u64, frames(up) + frames(down));
    let dropped = counted.iter().filter(|comment| comment.ends_with("dropped, overflow")).count() as u64;
    assert_eq!(dropped, sum(&up["dropped"]));
    assert!(counted.iter().any(|comment| comment == "up: passed without delay"), "ARP");
}

/// Returns the comments of a capture. All its packets must be in order and have right checksums.
fn captured(path: &str) -> Vec<String> {
    let file = fs::read(path).unwrap();
    let mut reader = Reader::new(&file[..]).unwrap();
    let (mut comments, mut last) = (Vec::new(), None);
    while let Some(record) = reader.next_record().unwrap() {
        assert!(last <= Some(record.nanos), "packets are in order");
        last = Some(record.nanos);
        if let Some(Ok(ip)) = record.ip().map(Ip::parse) {
            assert!(ip.has_valid_header_checksum());
            assert_ne!(has_valid_transport_checksum(&ip), Ok(false), "{ip:?}");
        }
        comments.push(record.comment.unwrap_or_default().to_string());
    }
    comments
}

#[test]
fn super_frames_are_cut_and_tcp_arrives_whole() {
    let Some(testbed) = Testbed::open() else { return };
    let listener = testbed.server.within(|| TcpListener::bind((SERVER, 80)).unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let _ = stream.write_all(&all);
    });
    let capture = testbed.file("tcp.pcapng");
    let router = testbed.route(&format!("--rate 50Mbit --delay 2ms --queue drop-tail:60 --pcap {capture}"));
    let mut stream = testbed.client.within(|| TcpStream::connect((SERVER, 80)).unwrap());
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n * 7 / 5) as u8).collect();
    stream.write_all(&sent).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert!(received == sent, "{} bytes came back", received.len());
    let certificate = testbed.stop(router, libc::SIGINT);
    for direction in [&certificate["up"], &certificate["down"]] {
        assert!(count(direction, "packets_out") >= 690, "{direction}");
        assert_eq!(count(direction, "broken"), 0);
        assert!(direction["refused"].as_object().unwrap().is_empty(), "{direction}");
    }
    assert!(captured(&capture).len() >= 2 * 690);
}

#[test]
fn what_is_no_interface_is_refused() {
    let Some(testbed) = Testbed::open() else { return };
    testbed.router.run("ip link add name br0 type bridge");
    testbed.router.run("ip link add name off0 type veth peer name other");
    testbed.router.run("ip link set other master br0");
    for (outside, message) in [
        ("none", "error: --outside: none: there is no such interface"),
        ("rc", "error: --outside: the same interface as --inside"),
        ("lo", "error: --outside: lo: not an Ethernet interface"),
        ("off0", "error: --outside: off0: the interface is down; bring it up"),
        ("other", "error: --outside: other: part of a bridge"),
    ] {
        let args = format!("{} router --inside rc --outside {outside}", env!("CARGO_BIN_EXE_catnip-emu"));
        let output = testbed.router.command(&args).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.starts_with(message) && stderr.lines().count() == 1, "{stderr}");
    }
}
