//! Host of this machine's kernel that is stepped by a script, in real time: a socket in a network namespace of its own, whose only device
//! is a TUN device that the script reads and writes.

use crate::packet::{Options, Packet};
use crate::record::Record;
use crate::script::{Call, Event, Field, MAX_WRITE, Script};
use catnip_base::{Span, Time};
use catnip_cli::failure::{Failure, failed};
use catnip_linux::clock::Stopwatch;
use catnip_linux::namespace::{bring_up_loopback, set_sysctl, tun_failure};
use catnip_linux::netlink::Netlink;
use catnip_linux::sys::{self, Readable};
use catnip_linux::timer_wheel::TimerWheel;
use catnip_linux::{socket_option, tun};
use catnip_tcp::Timestamps;
use catnip_wire::ip::TCP;
use catnip_wire::{Addresses, Ip, Tcp, TcpFlags, TcpHeader, TcpOptions, TcpSackBlocks};
use ipnet::{IpNet, Ipv4Net};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use tun::PacketIo;

const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const DEVICE: &str = "drill0";
/// Initial sequence number of the peer.
const PEER_ISN: u32 = 1_000_000;
/// Ports of connections, one after the other, so that none meets what is left of the last one.
const PORTS: Range<u16> = 10_000..60_000;
/// Headers of IP and TCP without options, bytes.
const HEADERS: u32 = 40;
/// Send buffer, bytes, so that a write never waits.
const SEND_BUFFER: i32 = 2 * MAX_WRITE as i32;
/// Offsets in struct tcp_info (linux/tcp.h).
const SND_SSTHRESH_AT: usize = 76;
const SND_CWND_AT: usize = 80;

/// Network namespace of the calling thread, in which scripts are run one after the other.
#[derive(Debug)]
pub struct Lane {
    netlink: Netlink,
    /// Ticks of the kernel's timer wheel. Scripts begin at the start of a period, as time zero of a simulated host does.
    wheel: TimerWheel,
    /// Number of scripts so far, which have a port each.
    scripts: u16,
}

impl Lane {
    /// Moves the calling thread to a network namespace of its own.
    pub fn enter() -> Result<Self, Failure> {
        sys::enter_new_netns().map_err(failed("a network namespace", "create it (it needs root)"))?;
        let mut netlink = Netlink::open().map_err(failed("netlink", "open it"))?;
        bring_up_loopback(&mut netlink)?;
        for (key, value) in [("net/ipv4/tcp_no_metrics_save", "1"), ("net/ipv6/conf/all/disable_ipv6", "1")] {
            set_sysctl(key, value).map_err(failed(key, "set it"))?;
        }
        let wheel = TimerWheel::read().map_err(failed("/proc/timer_list", "read it"))?;
        Ok(Self { netlink, wheel, scripts: 0 })
    }

    /// Steps a socket by a script and returns what it did.
    pub fn run(&mut self, script: &Script) -> Result<Record, Failure> {
        self.scripts = self.scripts.wrapping_add(1);
        let mss = script.peer_syn().and_then(|syn| syn.options.as_ref()?.mss);
        set_sysctl("net/ipv4/tcp_ecn", if script.options.ecn { "1" } else { "0" })
            .map_err(failed("tcp_ecn", "set it"))?;
        let (device, _) = sys::open_tun(DEVICE, false).map_err(|error| tun_failure(DEVICE, &error))?;
        let mut up = || -> io::Result<()> {
            let index = self.netlink.index_of(DEVICE)?;
            self.netlink.bring_up(index, Some(u32::from(mss.unwrap_or(1460)) + HEADERS), Some(10_000))?;
            self.netlink.add_address(index, IpNet::V4(Ipv4Net::new(LOCAL, 24).expect("24 bits")))
        };
        up().map_err(failed(DEVICE, "bring it up"))?;
        self.wheel.wait_for_period();
        let stopwatch = Stopwatch::start();
        let connection = Connection {
            stopwatch,
            device: tun::Tun::new(device, stopwatch),
            listener: None,
            socket: None,
            port: PORTS.start + self.scripts % (PORTS.end - PORTS.start),
            isn: None,
            stamp_offset: None,
            expected_stamps: script.expected().map(stamp_of).collect(),
            stamps: BTreeMap::new(),
            record: Record::default(),
        };
        connection.run(script).map_err(failed("the kernel", "step it"))
    }
}

/// Returns the timestamp of a packet.
fn stamp_of(packet: &Packet) -> Option<u32> {
    packet.options.as_ref()?.timestamps.map(|(value, _)| value)
}

struct Connection {
    stopwatch: Stopwatch,
    device: tun::Tun,
    listener: Option<OwnedFd>,
    socket: Option<OwnedFd>,
    port: u16,
    /// Initial sequence number of the kernel, once its SYN is sent.
    isn: Option<u32>,
    /// Difference of the kernel's timestamps and those of scripts, once its SYN is sent.
    stamp_offset: Option<u32>,
    /// Timestamps of the packets that the script expects.
    expected_stamps: Vec<Option<u32>>,
    /// Timestamps of the kernel by those of the script. An echo of a millisecond earlier would mean an earlier packet.
    stamps: BTreeMap<u32, u32>,
    record: Record,
}

impl Connection {
    fn run(mut self, script: &Script) -> io::Result<Record> {
        for line in script.steps() {
            self.wait(line.from)?;
            match &line.event {
                Event::Call(call) => {
                    if let Err(error) = self.call(call) {
                        self.record.failure = Some(format!("{call}: {error}"));
                        break;
                    }
                }
                Event::Receive(packet) => self.deliver(packet)?,
                // Without a socket there is no value, which the comparison tells.
                Event::Assert(field, _) => self.record.values.extend(self.value(*field).ok()),
                Event::Send(_) => {}
            }
            self.read_all()?;
        }
        if self.record.failure.is_none() {
            self.wait(script.end())?;
        }
        // A connection that is closed so is reset, and nothing of it stays.
        for socket in self.socket.iter().chain(&self.listener) {
            let _ = rustix::net::sockopt::set_socket_linger(socket, Some(std::time::Duration::ZERO));
        }
        Ok(self.record)
    }

    /// Reads what the kernel sends until the time of the script is `until`.
    fn wait(&mut self, until: Time) -> io::Result<()> {
        loop {
            self.read_all()?;
            let left = until.since(self.stopwatch.now());
            if left == Span::ZERO {
                return Ok(());
            }
            let mut fds = vec![Readable::new(self.device.as_fd())];
            fds.extend(self.socket.as_ref().map(|socket| Readable::new(socket.as_fd())));
            sys::wait_readable(&mut fds, Some(left))?;
        }
    }

    fn read_all(&mut self) -> io::Result<()> {
        let mut buffer = [0; 1 << 16];
        while let Some(read) = self.device.recv(&mut buffer)? {
            if let Some(packet) = self.packet(read.at, &buffer[..read.len]) {
                self.record.sent.push((read.at, packet));
            }
        }
        if let Some(socket) = &self.socket {
            while matches!(rustix::io::read(socket, &mut buffer), Ok(1..)) {}
        }
        Ok(())
    }

    fn call(&mut self, call: &Call) -> io::Result<()> {
        let address = SocketAddrV4::new(LOCAL, self.port);
        match call {
            Call::Nothing(_) => {}
            Call::Socket => {
                let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
                let made = rustix::net::socket_with(family, kind, SocketFlags::NONBLOCK, None)?;
                let size = SEND_BUFFER.to_ne_bytes();
                socket_option::set(made.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &size)?;
                self.listener = Some(made);
            }
            Call::Listen => {
                rustix::net::bind(self.listener()?, &address)?;
                rustix::net::listen(self.listener()?, 1)?;
            }
            Call::Connect => {
                rustix::net::bind(self.listener()?, &address)?;
                let made = self.listener.take();
                match rustix::net::connect(
                    made.as_ref().expect("it was just bound"),
                    &SocketAddrV4::new(PEER, self.port),
                ) {
                    Ok(()) | Err(rustix::io::Errno::INPROGRESS) => self.socket = made,
                    Err(error) => return Err(error.into()),
                }
            }
            Call::Accept => {
                self.socket = Some(rustix::net::accept_with(self.listener()?, SocketFlags::NONBLOCK)?)
            }
            Call::Write(bytes) => {
                let data = vec![0; *bytes as usize];
                let written = rustix::io::write(self.socket()?, &data)?;
                if written < data.len() {
                    return Err(io::Error::other(format!("{written} of {bytes} bytes were written")));
                }
            }
            Call::Close => rustix::net::shutdown(self.socket()?, rustix::net::Shutdown::Write)?,
            Call::Congestion(name) => {
                let of =
                    self.socket.as_ref().or(self.listener.as_ref()).ok_or(io::ErrorKind::NotConnected)?;
                socket_option::set(of.as_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())?;
            }
            Call::NoDelay => {
                socket_option::set(
                    self.socket()?.as_fd(),
                    libc::IPPROTO_TCP,
                    libc::TCP_NODELAY,
                    &1i32.to_ne_bytes(),
                )?;
            }
        }
        Ok(())
    }

    fn listener(&self) -> io::Result<&OwnedFd> {
        self.listener.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn socket(&self) -> io::Result<&OwnedFd> {
        self.socket.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn value(&self, field: Field) -> io::Result<u64> {
        let info: [u8; 104] = socket_option::get(self.socket()?.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO)?;
        let at = match field {
            Field::Cwnd => SND_CWND_AT,
            Field::Ssthresh => SND_SSTHRESH_AT,
        };
        Ok(u32::from_ne_bytes(info[at..at + 4].try_into().expect("four bytes")).into())
    }

    fn deliver(&mut self, packet: &Packet) -> io::Result<()> {
        let options = packet.options.clone().unwrap_or_default();
        let isn = self.isn.unwrap_or(0);
        let number = |number: u64| isn.wrapping_add(number as u32);
        let header = TcpHeader {
            source_port: self.port,
            destination_port: self.port,
            sequence: PEER_ISN.wrapping_add(packet.seq as u32),
            acknowledgement: packet.ack.map_or(0, number),
            flags: packet.flags,
            window: packet.window.unwrap_or(u16::MAX),
            urgent: 0,
            options: TcpOptions {
                mss: options.mss,
                window_scale: options.window_scale,
                sack_permitted: options.sack_permitted,
                sack: TcpSackBlocks::new(
                    options.sack.iter().map(|&(start, end)| (number(start), number(end))),
                ),
                timestamps: options
                    .timestamps
                    .map(|(value, echo)| (value, if echo == 0 { 0 } else { self.kernel_stamp(echo) })),
            },
        };
        let addresses = Addresses {
            source: IpAddr::V4(PEER),
            destination: IpAddr::V4(LOCAL),
            traffic_class: packet.ecn.map_or(0, |ecn| ecn.bits()),
            hop_limit: 64,
        };
        let mut buffer = [0; 1 << 16];
        let len = header
            .write(&addresses, &vec![0; packet.len as usize], &mut buffer)
            .map_err(|error| io::Error::other(error.to_string()))?;
        self.device.send(&buffer[..len])
    }

    /// Returns the kernel's timestamp for one of the script.
    fn kernel_stamp(&self, stamp: u32) -> u32 {
        let shifted = stamp.wrapping_add(self.stamp_offset.unwrap_or(0));
        self.stamps.get(&stamp).copied().unwrap_or(shifted)
    }

    /// Translates a packet of the kernel; `None` if it belongs to another connection.
    fn packet(&mut self, at: Time, bytes: &[u8]) -> Option<Packet> {
        let ip = Ip::parse(bytes).ok()?;
        let tcp = Tcp::parse(ip.transport(TCP).ok()?).ok()?;
        if tcp.source_port() != self.port {
            return None;
        }
        let (flags, options) = (tcp.flags(), tcp.options().ok()?);
        let stamp = Timestamps::tsval_at(at);
        let isn = *self.isn.get_or_insert(tcp.sequence());
        if let Some((value, _)) = options.timestamps
            && let Some(Some(expected)) = self.expected_stamps.get(self.record.sent.len())
        {
            self.stamps.insert(*expected, value);
        }
        let offset =
            options.timestamps.map(|(value, _)| *self.stamp_offset.get_or_insert(value.wrapping_sub(stamp)));
        let own = |number: u32| u64::from(number.wrapping_sub(isn));
        let peers = |number: u32| u64::from(number.wrapping_sub(PEER_ISN));
        Some(Packet {
            ecn: Some(ip.ecn()),
            flags,
            seq: own(tcp.sequence()),
            len: tcp.payload().len() as u32,
            ack: flags.contains(TcpFlags::ACK).then(|| peers(tcp.acknowledgement())),
            window: None,
            options: Some(Options {
                mss: options.mss,
                window_scale: options.window_scale,
                sack_permitted: options.sack_permitted,
                sack: options
                    .sack
                    .as_slice()
                    .iter()
                    .map(|&(start, end)| (peers(start), peers(end)))
                    .collect(),
                timestamps: options
                    .timestamps
                    .zip(offset)
                    .map(|((value, echo), offset)| (value.wrapping_sub(offset), echo)),
            }),
        })
    }
}
