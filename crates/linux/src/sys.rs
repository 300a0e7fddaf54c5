//! Safe wrappers of the few system calls that the standard library lacks.

use catnip_base::Span;
use rustix::fs::{Mode, OFlags};
use rustix::process::{
    Resource, Rlimit, getegid, geteuid, ioctl_tiocsctty, set_parent_process_death_signal, setrlimit, setsid,
};
use rustix::thread::{
    CapabilitySet, LinkNameSpaceType, UnshareFlags, capabilities, configure_capability_in_ambient_set,
    move_into_link_name_space, set_capabilities, unshare_unsafe,
};
use rustix::time::ClockId;
use std::ffi::CString;
use std::fs;
use std::io::{self, Error, Read};
use std::mem::{MaybeUninit, zeroed};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `ioctl(2)` of `/dev/net/tun` that attaches a descriptor to a device.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
/// `ioctl(2)` that declares which offloads the program that reads a TUN device supports: checksums, and segmentation of TCP over IPv4 and
/// IPv6.
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const OFFLOADS: libc::c_ulong = 1 | 2 | 4;
/// Length of a `virtio_net_hdr`, bytes.
pub const VIRTUAL_HEADER: usize = 10;
/// Capabilities of commands in a new user namespace: to run servers on low ports, to ping, and to nest links.
const CAPABILITIES: CapabilitySet = CapabilitySet::NET_BIND_SERVICE
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SYS_ADMIN);

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}

fn check_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| Error::last_os_error())
}

/// Opens a TUN device in the network namespace of this thread and returns it with its name. The kernel replaces `%d` in `name` by the first
/// free number. The device vanishes with its last descriptor. With `virtual_header`, each packet has a `virtio_net_hdr` in front and may be
/// a super-packet of up to 64 KiB that consists of many segments.
pub fn open_tun(name: &str, virtual_header: bool) -> io::Result<(OwnedFd, String)> {
    if name.len() >= libc::IFNAMSIZ || name.is_empty() || name.contains(['/', '\0']) {
        return Err(Error::from(io::ErrorKind::InvalidInput));
    }
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
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
        // SAFETY: the call takes only a number.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETOFFLOAD, OFFLOADS) })?;
    }
    let name = request.ifr_name.iter().take_while(|&&c| c != 0).map(|&c| char::from(c as u8)).collect();
    Ok((fd, name))
}

/// Size of the socket's receive buffer for frames that arrive while the emulator is busy, bytes.
const RECEIVE_BUFFER: libc::c_int = 32 << 20;

/// Opens a packet socket for all frames that arrive at an interface. Each frame has a `virtio_net_hdr` in front.
pub fn open_interface(index: u32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // With protocol 0, no frame arrives before all options are set. SAFETY: the call takes only numbers.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: `fd` was just opened and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let yes: libc::c_int = 1;
    for option in [PACKET_VNET_HDR, libc::PACKET_AUXDATA, PACKET_IGNORE_OUTGOING] {
        set_option(fd.as_fd(), libc::SOL_PACKET, option, &yes)?;
    }
    set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &yes)?;
    // Only the administrator of the machine may exceed the limit of the machine; the administrator of a container may not.
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
    // SAFETY: the call reads one `sockaddr_ll`.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size) })?;
    Ok(fd)
}

const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

fn set_option<T>(fd: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the call reads one `T`.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const *value).cast(), size) })?;
    Ok(())
}

/// Length and attributes of a frame that was read from an interface.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Length of the frame and its `virtio_net_hdr`, bytes. It exceeds the length of the buffer if the frame was truncated.
    pub len: usize,
    /// VLAN tag that the kernel has removed from the frame; `None` if the frame has no tag.
    pub tag: Option<[u8; 4]>,
    /// Time since the frame arrived at the interface; `None` if the kernel has not recorded the arrival time.
    pub age: Option<Span>,
}

/// Reads one frame, with its `virtio_net_hdr` in front, into `buffer`.
pub fn read_frame(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Frame> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // 64-bit words give the required alignment.
    let mut control = [0_u64; 16];
    // SAFETY: zeros are a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: buffer and control data are valid for writes of the lengths in `message`.
    let len = check_len(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) })?;
    let mut frame = Frame { len, tag: None, age: None };
    // SAFETY: `message` was filled by the kernel.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: `header` is not null, and within the control data.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if level == libc::SOL_PACKET && kind == libc::PACKET_AUXDATA {
            // SAFETY: such a message holds one `tpacket_auxdata`, of numbers only, maybe unaligned.
            let data = unsafe { libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned() };
            if data.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                let known = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
                let [a, b] = if known { data.tp_vlan_tpid } else { 0x8100 }.to_be_bytes();
                let [c, d] = data.tp_vlan_tci.to_be_bytes();
                frame.tag = Some([a, b, c, d]);
            }
        }
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPNS {
            // SAFETY: such a message holds one `timespec`, of numbers only, maybe unaligned.
            let arrived_at = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
            frame.age = Some(age_of(arrived_at));
        }
        // SAFETY: `header` belongs to `message`.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok(frame)
}

/// Returns the duration from the time `arrived_at` of the real-time clock to the present; zero if `arrived_at` is in the future.
fn age_of(arrived_at: libc::timespec) -> Span {
    let nanos = |seconds: i64, nanos: i64| seconds as u64 * 1_000_000_000 + nanos as u64;
    let now = rustix::time::clock_gettime(ClockId::Realtime);
    let age = nanos(now.tv_sec, now.tv_nsec).saturating_sub(nanos(arrived_at.tv_sec, arrived_at.tv_nsec));
    Span::from_nanos(age)
}

/// Returns the number of frames that the kernel has dropped since the last call because this program did not read them in time.
pub fn frames_missed(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut size = size_of_val(&statistics) as libc::socklen_t;
    let (into, option) = ((&raw mut statistics).cast(), libc::PACKET_STATISTICS);
    // SAFETY: the call writes one `tpacket_stats`.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, option, into, &raw mut size) })?;
    Ok(statistics.tp_drops)
}

/// File descriptor that [`wait_readable`] watches, and its state after the last wait.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Readable(libc::pollfd);

impl Readable {
    /// Creates an entry for `fd`, which must stay open as long as the entry is used.
    pub fn new(fd: BorrowedFd<'_>) -> Self {
        Self(libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
    }

    /// Returns true if the descriptor was readable when the last wait ended.
    pub fn is_ready(&self) -> bool {
        self.0.revents != 0
    }
}

/// Waits until a descriptor is readable or the timeout expires. Without a timeout, waits forever. Returns true if a descriptor is readable.
/// After an error, no descriptor counts as readable.
#[inline]
pub fn wait_readable(fds: &mut [Readable], timeout: Option<Span>) -> io::Result<bool> {
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
    Ok(check(ready)? > 0)
}

/// Gives this thread real-time priority, above all ordinary threads. Children start with ordinary priority. If the thread runs for
/// `longest_run` without waiting, the kernel ends the process, so that a bug cannot block the machine.
pub fn run_in_real_time(longest_run: Span) -> io::Result<()> {
    let micros = Some(longest_run.in_units_of(Span::from_micros(1)));
    setrlimit(Resource::Rttime, Rlimit { current: micros, maximum: micros })?;
    let param = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the call reads one `sched_param`.
    check(unsafe { libc::sched_setscheduler(0, policy, &param) })?;
    Ok(())
}

/// Reverts [`run_in_real_time`]: this thread has ordinary priority again and may run for any time.
pub fn run_as_sched_other() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 0 };
    // SCHED_RESET_ON_FORK cannot be cleared without privileges.
    let policy = libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the call reads one `sched_param`.
    check(unsafe { libc::sched_setscheduler(0, policy, &param) })?;
    Ok(())
}

/// Returns a random number below 2^32, which is short enough to be typed as a seed.
pub fn random() -> io::Result<u64> {
    let mut bytes = [0; 4];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u32::from_ne_bytes(bytes).into())
}

/// Returns the CPU time of this process so far.
pub fn cpu_time() -> Span {
    let spent = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    Span::from_nanos(spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64)
}

/// Returns by how many seconds CLOCK_TAI is ahead of the time since 1970; zero if the kernel was not given the offset.
pub fn tai_offset_s() -> u64 {
    let mut tai = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the given structure.
    let known = unsafe { libc::clock_gettime(libc::CLOCK_TAI, &raw mut tai) } == 0;
    let now = rustix::time::clock_gettime(ClockId::Realtime);
    let ahead_s = (tai.tv_sec - now.tv_sec) as f64 + (tai.tv_nsec - now.tv_nsec) as f64 / 1e9;
    if known { ahead_s.round().max(0.0) as u64 } else { 0 }
}

/// Signals that are read from a descriptor. They are blocked from the creation of this object on.
#[derive(Debug)]
pub struct Signals(OwnedFd);

/// Signal read from [`Signals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Signal number.
    pub number: i32,
    /// True if a process sent the signal, false if the kernel sent it on behalf of a terminal.
    pub from_process: bool,
}

impl Signals {
    /// Blocks these signals for this thread and the threads that it starts, and makes them readable. SIGCONT is also blocked, so that the
    /// descriptor is readable after a stop.
    pub fn new(numbers: &[i32]) -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: `set` is initialized by `sigemptyset` before it is used.
        let fd = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for &number in numbers.iter().chain(&[libc::SIGCONT]) {
                libc::sigaddset(set.as_mut_ptr(), number);
            }
            check(libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()))?;
            check(libc::signalfd(-1, set.as_ptr(), libc::SFD_NONBLOCK | libc::SFD_CLOEXEC))?
        };
        // SAFETY: `fd` was just opened and has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Returns the next pending signal among the requested signals; `None` if none is pending.
    pub fn next(&self) -> Option<Signal> {
        loop {
            let signal = self.read()?;
            if signal.number != libc::SIGCONT {
                return Some(signal);
            }
        }
    }

    fn read(&self) -> Option<Signal> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `info` is valid for writes of its size.
        let read = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if read != size as isize {
            return None;
        }
        // SAFETY: `info` was filled by the kernel.
        let info = unsafe { info.assume_init() };
        Some(Signal { number: info.ssi_signo as i32, from_process: info.ssi_code <= 0 })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns a handle of standard error that serves as the standard output of a command. The output of the command is then not mixed with the
/// output of this program.
pub fn standard_error() -> Stdio {
    io::stderr().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from)
}

/// Requests the end of this process when its parent ends, even if the parent is killed.
pub fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?)
}

/// Sends a signal to a process.
pub fn kill(process: u32, signal: i32) -> io::Result<()> {
    // SAFETY: the call takes only numbers.
    check(unsafe { libc::kill(process as libc::pid_t, signal) })?;
    Ok(())
}

/// Returns the network namespace of this thread. The namespace exists at least as long as the descriptor.
pub fn current_netns() -> io::Result<OwnedFd> {
    fs::File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
}

/// Moves this thread to a new, empty network namespace.
pub fn enter_new_netns() -> io::Result<()> {
    unshare(UnshareFlags::NEWNET)
}

/// Moves this thread to a network namespace.
pub fn enter_netns(netns: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(netns, Some(LinkNameSpaceType::Network))?)
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: threads still share their descriptors.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Returns the PID namespace in which children of this thread start.
pub fn pid_namespace_for_children() -> io::Result<OwnedFd> {
    fs::File::open("/proc/thread-self/ns/pid_for_children").map(OwnedFd::from)
}

/// Makes children of this thread start in a new PID namespace. When the first child ends, the namespace and all remaining processes in it
/// end, too. Until then, this process cannot start threads.
pub fn enter_new_pid_namespace() -> io::Result<()> {
    unshare(UnshareFlags::NEWPID)
}

/// Gives the command its own mount namespace. The first file of each pair in `files` replaces the second file. If `mounts_proc` is true,
/// /proc shows the processes of the command's PID namespace. If a mount namespace is not permitted, a command without `files` starts with
/// the /proc of the machine, and a command with `files` does not start.
pub fn with_own_mounts(command: &mut Command, mounts_proc: bool, files: &[(&Path, &Path)]) -> io::Result<()> {
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(Error::from);
    let files: io::Result<Vec<_>> = files.iter().map(|(new, old)| Ok((name(new)?, name(old)?))).collect();
    let files = files?;
    let prepare = move || {
        let private = libc::MS_REC | libc::MS_PRIVATE;
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        let (nothing, proc) = (std::ptr::null(), c"proc".as_ptr());
        // SAFETY: system calls with strings that outlive them.
        unsafe {
            let entered = check(libc::unshare(libc::CLONE_NEWNS))
                .and_then(|_| check(libc::mount(nothing, c"/".as_ptr(), nothing, private, nothing.cast())));
            if files.is_empty() && entered.is_err() {
                return Ok(());
            }
            entered?;
            if mounts_proc {
                libc::mount(proc, c"/proc".as_ptr(), proc, flags, nothing.cast());
            }
            for (new, old) in &files {
                check(libc::mount(new.as_ptr(), old.as_ptr(), nothing, libc::MS_BIND, nothing.cast()))?;
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
    Ok(())
}

/// Makes the command start in a session of its own, with `terminal` as its terminal, if any.
pub fn start_session(command: &mut Command, terminal: Option<OwnedFd>) {
    let prepare = move || {
        setsid()?;
        terminal.as_ref().map_or(Ok(()), |terminal| Ok(ioctl_tiocsctty(terminal)?))
    };
    // SAFETY: the closure makes async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// Makes the command start without the caller's open files, except standard input, output and error.
pub fn without_files(command: &mut Command) {
    // SAFETY: the closure makes an async-signal-safe call. The descriptors are closed by the program that is executed, not before.
    unsafe { command.pre_exec(close_others) };
}

fn close_others() -> io::Result<()> {
    // SAFETY: the call takes only numbers.
    check(unsafe {
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) as libc::c_int
    })?;
    Ok(())
}

/// Makes the command start with these user, group and supplementary group IDs, without the caller's open files except standard input, output
/// and error, and without a way to more privileges. Must be called after all settings of the command that need more privileges.
pub fn as_user(command: &mut Command, user: u32, group: u32, groups: Vec<u32>) {
    let prepare = move || {
        close_others()?;
        // SAFETY: `groups` lives in the closure.
        unsafe {
            check(libc::setgroups(groups.len(), groups.as_ptr()))?;
            check(libc::setgid(group))?;
            check(libc::setuid(user))?;
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        }
        Ok(())
    };
    // SAFETY: the closure makes async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// Returns true if the program is in a directory of $PATH, or in a directory in which Debian has programs for root.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(others).any(|folder| folder.join(program).is_file())
}

/// Makes children of this thread start in this PID namespace.
pub fn enter_pid_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace, Some(LinkNameSpaceType::ProcessID))?)
}

/// Moves this process to a new user namespace, in which the process and its children keep their user and group but may configure networks.
/// The process must have a single thread.
pub fn enter_new_user_namespace() -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    unshare(UnshareFlags::NEWUSER)?;
    match fs::write("/proc/self/setgroups", "deny") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    keep_capabilities()
}

/// Passes the capabilities of this process on to programs that it executes.
fn keep_capabilities() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable |= sets.permitted & CAPABILITIES;
    set_capabilities(None, sets)?;
    for capability in CAPABILITIES {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Makes the command start with no blocked signals, and end when this thread ends, even if the thread is killed.
pub fn tie_to_parent(command: &mut Command) {
    let parent = std::process::id() as libc::pid_t;
    let prepare = move || {
        let mut none = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: only async-signal-safe calls; `none` is initialized by `sigemptyset`.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            check(libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()))?;
            set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // The parent may have ended before the previous call. For a child in another PID namespace, the id of the parent is 0.
            let has_ended = ![0, parent].contains(&libc::getppid());
            if has_ended { Err(Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
        }
    };
    // SAFETY: the closure makes async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// Returns the time of the kernel's monotonic clock, nanoseconds, as kernel programs read it (bpf_ktime_get_ns).
pub fn monotonic_nanos() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the cookie by which kernel programs identify the network namespace of this thread (SO_NETNS_COOKIE).
pub fn netns_cookie() -> io::Result<u64> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    Ok(u64::from_ne_bytes(crate::socket_option::get(
        socket.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_NETNS_COOKIE,
    )?))
}

/// `BPF_LINK_CREATE` of bpf(2). No library supports it for TCX.
const LINK_CREATE: libc::c_long = 28;
const TCX_EGRESS: u32 = 47;

/// Part of `union bpf_attr` that `BPF_LINK_CREATE` reads. The rest is zero.
#[repr(C)]
struct LinkCreate {
    program: u32,
    device: u32,
    attach_type: u32,
    flags: u32,
}

/// Duplicates the open descriptor with the number `fd`, as libraries return it.
pub fn duplicate(fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes a number, and fails if it is not that of an open descriptor.
    let fd = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    // SAFETY: the descriptor is new, and nothing else owns it.
    if fd < 0 { Err(Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}

/// Attaches a loaded program to the egress of a device (TCX), after all other programs. The program stays attached as long as the returned
/// descriptor is open.
pub fn attach_tcx_egress(program: BorrowedFd<'_>, device: u32) -> io::Result<OwnedFd> {
    let link = LinkCreate { program: program.as_raw_fd() as u32, device, attach_type: TCX_EGRESS, flags: 0 };
    // SAFETY: the kernel reads `size_of::<LinkCreate>()` bytes, and the descriptor of the program is open.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, LINK_CREATE, &raw const link, size_of::<LinkCreate>()) };
    // SAFETY: `fd` was just opened and has no other owner.
    if fd < 0 { Err(Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) }) }
}
