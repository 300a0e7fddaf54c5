//! Terminal of its own for a command of another user. With the caller's terminal, the command could type into the caller's shell (TIOCSTI),
//! and read what is typed there.

use crate::sys::{self, Signals};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, fchown, open};
use rustix::io::{Errno, read, write};
use rustix::process::{Uid, getpgrp};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::{
    OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr, tcsetwinsize,
};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time after which a process in the background tries again to read from the caller's terminal.
const BACKGROUND_INTERVAL: Duration = Duration::from_millis(200);
/// Largest number of bytes that are passed on at once.
const CHUNK: usize = 1 << 14;
/// Largest number of chunks that are passed on after the command has ended.
const MAX_LEFT: usize = 1 << 10;

/// Terminal of a command, whose input and output are passed on to and from the caller's terminal. When this value is dropped, the caller's
/// terminal is as it was before.
#[derive(Debug)]
pub struct Terminal {
    ours: Option<OwnedFd>,
    /// Second descriptor of the command's end: a terminal whose last one is closed hangs up on a command that is ending.
    _theirs: Option<OwnedFd>,
    /// True if the command receives what is typed.
    is_interactive: bool,
    /// State of the caller's terminal before.
    saved: Option<Termios>,
    relay: Option<(JoinHandle<()>, PipeWriter)>,
}

impl Terminal {
    /// Makes the command start in a session of its own, without access to the caller's terminal. Where standard input, output or error of
    /// the command is that terminal, the command gets a new one, which belongs to `user`. It receives what is typed only if input and output
    /// are terminals; otherwise its input ends at once. The command's standard input, output and error must not be set before, except
    /// standard output if it is `reserved`, which is then standard error.
    ///
    /// The command must be dropped before [`Self::relay`].
    pub fn give(command: &mut Command, user: u32, reserved: bool) -> io::Result<Self> {
        let [has_in, has_out, has_err] = [stdin(), output(reserved), stderr()].map(isatty);
        let is_interactive = has_in && has_out;
        let (ours, theirs) = (has_out || has_err).then(|| open_pair(user)).transpose()?.unzip();
        let end = || theirs.as_ref().map_or_else(|| Ok(Stdio::null()), |fd| fd.try_clone().map(Stdio::from));
        if has_in {
            command.stdin(if is_interactive { end()? } else { Stdio::null() });
        }
        if has_out {
            command.stdout(end()?);
        }
        if has_err {
            command.stderr(end()?);
        }
        sys::start_session(command, theirs.as_ref().map(OwnedFd::try_clone).transpose()?);
        Ok(Self { ours, _theirs: theirs, is_interactive, saved: None, relay: None })
    }

    /// Passes on, in a thread of its own, what is typed and what the command prints on its terminal, which goes to standard error if
    /// standard output is `reserved`.
    pub fn relay(&mut self, reserved: bool) -> io::Result<()> {
        let Some(ours) = self.ours.take() else { return Ok(()) };
        if self.is_interactive && tcgetpgrp(stdin())? == getpgrp() {
            let saved = tcgetattr(stdin())?;
            let mut raw = saved.clone();
            raw.make_raw();
            tcsetattr(stdin(), OptionalActions::Drain, &raw)?;
            self.saved = Some(saved);
        }
        // A process in the background may neither be stopped by reading nor by restoring the terminal.
        let resized = Signals::new(&[libc::SIGWINCH, libc::SIGTTIN, libc::SIGTTOU])?;
        let (ended, end) = io::pipe()?;
        let is_interactive = self.is_interactive;
        let pass_on = move || pass_on(&ours, is_interactive, reserved, &resized, &ended);
        let thread = thread::Builder::new().name("terminal".into()).spawn(pass_on)?;
        self.relay = Some((thread, end));
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some((thread, end)) = self.relay.take() {
            // What the command has printed is passed on before.
            drop(end);
            let _ = thread.join();
        }
        if let Some(saved) = &self.saved {
            let _ = tcsetattr(stdin(), OptionalActions::Drain, saved);
        }
    }
}

/// Opens both ends of a new terminal with the settings of the caller's: ours, and that of the command, which belongs to `user`.
fn open_pair(user: u32) -> io::Result<(OwnedFd, OwnedFd)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let theirs = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    fchown(&theirs, Some(Uid::from_raw(user)), None)?;
    let like = if isatty(stdout()) { stdout() } else { stderr() };
    tcsetattr(&theirs, OptionalActions::Now, &tcgetattr(like)?)?;
    tcsetwinsize(&theirs, tcgetwinsize(like)?)?;
    Ok((ours, theirs))
}

fn pass_on(ours: &OwnedFd, is_interactive: bool, reserved: bool, resized: &Signals, ended: &PipeReader) {
    let (input, out) = (stdin(), output(reserved));
    let mut buffer = vec![0; CHUNK];
    let (mut reads_input, mut pauses) = (is_interactive, false);
    let mut left = MAX_LEFT;
    while left > 0 {
        let mut fds = vec![
            PollFd::new(ours, PollFlags::IN),
            PollFd::new(ended, PollFlags::IN),
            PollFd::new(resized, PollFlags::IN),
        ];
        // An end of the input that is not read would be reported again and again.
        fds.extend((reads_input && !pauses).then(|| PollFd::new(&input, PollFlags::IN)));
        let limit = BACKGROUND_INTERVAL.try_into().ok().filter(|_| pauses);
        match poll(&mut fds, limit.as_ref()) {
            Err(Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) => pauses = false,
        }
        let [from_command, from_end, from_signals, from_input] =
            [0, 1, 2, 3].map(|fd| fds.get(fd).is_some_and(|fd| !fd.revents().is_empty()));
        if from_command {
            if let Ok(len) = read(ours, &mut buffer) {
                write_all(out, &buffer[..len]);
            }
        } else if from_end {
            return;
        }
        left -= usize::from(from_end);
        if from_signals {
            while resized.next().is_some() {}
            if let Ok(size) = tcgetwinsize(out) {
                let _ = tcsetwinsize(ours, size);
            }
        }
        if from_input {
            match read(input, &mut buffer) {
                Ok(0) => reads_input = false,
                Ok(len) => write_all(ours.as_fd(), &buffer[..len]),
                // In the background.
                Err(Errno::IO) => pauses = true,
                Err(_) => {}
            }
        }
    }
}

/// Writes all bytes. What a terminal that is gone does not take is lost.
fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return,
        }
    }
}

fn output(reserved: bool) -> BorrowedFd<'static> {
    if reserved { stderr() } else { stdout() }
}
