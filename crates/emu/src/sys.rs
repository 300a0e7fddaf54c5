//! The few system calls that the standard library does not have, each behind a safe function. All unsafe code of the
//! emulator is here.

use catnip_base::Span;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Error};
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `ioctl(2)` of `/dev/net/tun` that attaches a descriptor to a device.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
/// `ioctl(2)` that says what is left to us: checksums, and cutting TCP over IPv4 and IPv6.
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const OFFLOADS: libc::c_ulong = 1 | 2 | 4;
/// Bytes of a `virtio_net_hdr`.
pub const VIRTUAL_HEADER: usize = 10;
/// What commands in a user namespace of ours may do there: run servers on low ports, ping, nest links.
const CAPABILITIES: [u32; 4] = [CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN];
const CAP_NET_BIND_SERVICE: u32 = 10;
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}

fn check_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| Error::last_os_error())
}

/// Opens a TUN device in the network namespace of this thread and gives back its name. A `%d` in `name` becomes the
/// first free number. The device vanishes with the last descriptor. With `virtual_header`, each packet has a
/// `virtio_net_hdr` in front, and may be a super-packet of up to 64 KiB that stands for many.
pub fn open_tun(name: &str, virtual_header: bool) -> io::Result<(OwnedFd, String)> {
    if name.len() >= libc::IFNAMSIZ || name.is_empty() || name.contains(['/', '\0']) {
        return Err(Error::from(io::ErrorKind::InvalidInput));
    }
    let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: the path is a C string.
    let fd = check(unsafe { libc::open(c"/dev/net/tun".as_ptr(), flags) })?;
    // SAFETY: `fd` was just opened and belongs to nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an `ifreq` of zeros is valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let header = if virtual_header { libc::IFF_VNET_HDR } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | header) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETIFF, &mut request) })?;
    if virtual_header {
        // SAFETY: takes a number only.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETOFFLOAD, OFFLOADS) })?;
    }
    let name = request.ifr_name.iter().take_while(|&&c| c != 0).map(|&c| char::from(c as u8)).collect();
    Ok((fd, name))
}

/// Reads what there is; `WouldBlock` if there is nothing.
#[inline]
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for writes of its length.
    check_len(unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) })
}

/// Writes one packet or message.
#[inline]
pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for reads of its length.
    check_len(unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) })
}

/// Writes one packet that is in two places.
#[inline]
pub fn write_both(fd: BorrowedFd<'_>, first: &[u8], second: &[u8]) -> io::Result<usize> {
    let part =
        |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let parts = [part(first), part(second)];
    // SAFETY: both parts are valid for reads of their lengths, and nothing is written to them.
    check_len(unsafe { libc::writev(fd.as_raw_fd(), parts.as_ptr(), 2) })
}

/// Bytes that the kernel keeps for us while we are busy.
const RECEIVE_BUFFER: libc::c_int = 32 << 20;

/// Opens an interface for whole frames: all that come, none that it sends. Each has a `virtio_net_hdr` in front.
pub fn open_interface(index: u32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // Protocol 0: nothing comes before all is set.
    // SAFETY: takes numbers only.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: `fd` was just opened and belongs to nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let yes: libc::c_int = 1;
    for option in [PACKET_VNET_HDR, libc::PACKET_AUXDATA, PACKET_IGNORE_OUTGOING] {
        set_option(fd.as_fd(), libc::SOL_PACKET, option, &yes)?;
    }
    // Only the administrator of the machine may exceed its limit; a container's may not.
    if set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER).is_err() {
        set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER)?;
    }
    // SAFETY: zeros are valid for both.
    let (mut membership, mut address): (libc::packet_mreq, libc::sockaddr_ll) = unsafe { zeroed() };
    membership.mr_ifindex = index as libc::c_int;
    membership.mr_type = libc::PACKET_MR_PROMISC as libc::c_ushort;
    set_option(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as libc::c_int;
    let size = size_of_val(&address) as libc::socklen_t;
    // SAFETY: reads one `sockaddr_ll`.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size) })?;
    Ok(fd)
}

const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

fn set_option<T>(fd: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: reads one `T`.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const *value).cast(), size) })?;
    Ok(())
}

/// Reads one frame with the header in front; its length, even if the buffer is too short for it, and the VLAN tag
/// that the kernel has taken out of it.
pub fn read_frame(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Option<[u8; 4]>)> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // As 64-bit words, so that it is aligned.
    let mut control = [0_u64; 16];
    // SAFETY: zeros are a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: buffer and control data are valid for writes of their lengths, as `message` has them.
    let len = check_len(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) })?;
    // SAFETY: `message` was filled by the kernel.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: it is not null, and within the control data.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if level == libc::SOL_PACKET && kind == libc::PACKET_AUXDATA {
            // SAFETY: such a message holds one `tpacket_auxdata`, of numbers only, maybe unaligned.
            let data = unsafe { libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned() };
            if data.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                let known = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
                let [a, b] = if known { data.tp_vlan_tpid } else { 0x8100 }.to_be_bytes();
                let [c, d] = data.tp_vlan_tci.to_be_bytes();
                return Ok((len, Some([a, b, c, d])));
            }
        }
        // SAFETY: `header` is one of `message`.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok((len, None))
}

/// Frames that the kernel has dropped because we were too slow, since the last time this was asked.
pub fn frames_missed(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut size = size_of_val(&statistics) as libc::socklen_t;
    let (into, option) = ((&raw mut statistics).cast(), libc::PACKET_STATISTICS);
    // SAFETY: writes one `tpacket_stats`.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, option, into, &raw mut size) })?;
    Ok(statistics.tp_drops)
}

/// What [`wait_readable`] waits for.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Readable(libc::pollfd);

impl Readable {
    /// Waits for `fd`, which must stay open as long as this is used.
    pub fn new(fd: BorrowedFd<'_>) -> Self {
        Self(libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
    }

    /// Was there something to read when the last wait ended?
    pub fn is_ready(&self) -> bool {
        self.0.revents != 0
    }
}

/// Waits until one descriptor can be read or the time is over; `None` waits for ever. True if one can be read.
#[inline]
pub fn wait_readable(fds: &mut [Readable], timeout: Option<Span>) -> bool {
    let spec = timeout.map(|span| libc::timespec {
        tv_sec: (span.as_nanos() / 1_000_000_000) as libc::time_t,
        tv_nsec: (span.as_nanos() % 1_000_000_000) as libc::c_long,
    });
    let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `Readable` is a transparent `pollfd`; the slice and the time live until the call returns.
    let ready =
        unsafe { libc::ppoll(fds.as_mut_ptr().cast(), fds.len() as libc::nfds_t, spec, std::ptr::null()) };
    if ready < 0 {
        fds.iter_mut().for_each(|fd| fd.0.revents = 0);
    }
    ready > 0
}

/// Timers of this thread fire this late at most, if the kernel has the choice.
pub fn set_timer_slack(slack: Span) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.as_nanos() as libc::c_ulong, 0, 0, 0) })?;
    Ok(())
}

/// Runs this thread before all ordinary ones. Children start as ordinary ones. A thread that computes for
/// `longest_run` without once waiting ends the process: no bug can take the machine away.
pub fn run_in_real_time(longest_run: Span) -> io::Result<()> {
    let micros = longest_run.in_units_of(Span::from_micros(1));
    let limit = libc::rlimit { rlim_cur: micros, rlim_max: micros };
    // SAFETY: reads one `rlimit`.
    check(unsafe { libc::setrlimit(libc::RLIMIT_RTTIME, &limit) })?;
    let param = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: reads one `sched_param`.
    check(unsafe { libc::sched_setscheduler(0, policy, &param) })?;
    Ok(())
}

/// Takes `run_in_real_time` back: this thread may compute for as long as it likes.
pub fn run_as_others() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 0 };
    // Without privileges nobody may clear SCHED_RESET_ON_FORK.
    let policy = libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK;
    // SAFETY: reads one `sched_param`.
    check(unsafe { libc::sched_setscheduler(0, policy, &param) })?;
    Ok(())
}

/// CPU time of this process so far.
pub fn cpu_time() -> Span {
    let mut spec = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: writes one `timespec`; zeros are valid if it fails.
    let spec = unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, spec.as_mut_ptr());
        spec.assume_init()
    };
    Span::from_nanos(spec.tv_sec as u64 * 1_000_000_000 + spec.tv_nsec as u64)
}

/// Signals as messages: blocked from when this is made, read when convenient.
#[derive(Debug)]
pub struct Signals(OwnedFd);

/// A signal that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Which one.
    pub number: i32,
    /// A process sent it, not the kernel on behalf of a terminal.
    pub from_process: bool,
}

impl Signals {
    /// Blocks these signals for this thread and those it starts, and reads them.
    pub fn new(numbers: &[i32]) -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: `set` is initialized by `sigemptyset` before it is used.
        let fd = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for &number in numbers {
                libc::sigaddset(set.as_mut_ptr(), number);
            }
            check(libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()))?;
            check(libc::signalfd(-1, set.as_ptr(), libc::SFD_NONBLOCK | libc::SFD_CLOEXEC))?
        };
        // SAFETY: `fd` was just opened and belongs to nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next one that has come.
    pub fn next(&self) -> Option<Signal> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `info` is valid for writes of its size.
        let read = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if read != size as isize {
            return None;
        }
        // SAFETY: it was filled.
        let info = unsafe { info.assume_init() };
        Some(Signal { number: info.ssi_signo as i32, from_process: info.ssi_code <= 0 })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes a folder for this user alone, at `prefix` and six characters by chance, where nothing has been.
pub fn make_private_folder(prefix: &Path) -> io::Result<PathBuf> {
    let mut template = [prefix.as_os_str().as_bytes(), b"XXXXXX\0"].concat();
    // SAFETY: a C string that ends with six X, which are overwritten in place.
    if unsafe { libc::mkdtemp(template.as_mut_ptr().cast()) }.is_null() {
        return Err(Error::last_os_error());
    }
    template.pop();
    Ok(PathBuf::from(OsString::from_vec(template)))
}

/// Locks a file or folder for as long as it is open here, or fails if another has locked it.
pub fn lock(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) })?;
    Ok(())
}

/// Sends a signal to a process.
pub fn kill(process: u32, signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(process as libc::pid_t, signal) })?;
    Ok(())
}

/// The network namespace of this thread, which lives as long as the descriptor.
pub fn current_network() -> io::Result<OwnedFd> {
    fs::File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
}

/// Moves this thread to a new, empty network namespace.
pub fn enter_new_network() -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    Ok(())
}

/// Moves this thread to a network namespace.
pub fn enter_network(network: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) })?;
    Ok(())
}

/// The process namespace in which children of this thread start.
pub fn children_processes() -> io::Result<OwnedFd> {
    fs::File::open("/proc/thread-self/ns/pid_for_children").map(OwnedFd::from)
}

/// Children of this thread start in a process namespace of their own from now on. It ends, and all that is left in it,
/// with the first of them. Meanwhile this process cannot start threads.
pub fn enter_new_processes() -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::unshare(libc::CLONE_NEWPID) })?;
    Ok(())
}

/// Children of this thread start in this process namespace.
pub fn enter_processes(processes: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::setns(processes.as_raw_fd(), libc::CLONE_NEWPID) })?;
    Ok(())
}

/// Moves this process to a user namespace of its own, in which it and its children keep their user and group but may
/// configure networks. The process must have one thread only.
pub fn enter_new_user_namespace() -> io::Result<()> {
    // SAFETY: these take and give numbers only.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: takes numbers only.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })?;
    match fs::write("/proc/self/setgroups", "deny") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    keep_capabilities()
}

/// Hands the capabilities of this process on to what it executes.
fn keep_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        process: i32,
    }
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let mut header = Header { version: VERSION_3, process: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: version 3 reads the header and fills two data words.
    check(unsafe { libc::syscall(libc::SYS_capget, &mut header, data.as_mut_ptr()) } as libc::c_int)?;
    for capability in CAPABILITIES {
        data[0].inheritable |= data[0].permitted & 1 << capability;
    }
    // SAFETY: version 3 reads the header and two data words.
    check(unsafe { libc::syscall(libc::SYS_capset, &mut header, data.as_ptr()) } as libc::c_int)?;
    for capability in CAPABILITIES {
        let raise = libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong;
        // SAFETY: takes numbers only.
        check(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, raise, libc::c_ulong::from(capability), 0, 0) })?;
    }
    Ok(())
}

/// The command starts with no signal blocked and dies with this thread, even if that is killed.
pub fn tie_to_parent(command: &mut Command) {
    let parent = std::process::id() as libc::pid_t;
    let prepare = move || {
        let mut none = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: only async-signal-safe calls; `none` is initialized by `sigemptyset`.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            check(libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()))?;
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0))?;
            // The parent may have died before the line above. It is 0 for a child in another process namespace.
            let gone = ![0, parent].contains(&libc::getppid());
            if gone { Err(Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
        }
    };
    // SAFETY: the closure makes async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}
