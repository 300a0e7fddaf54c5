//! A process namespace for commands: nothing that they have started survives it.

use crate::sys;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

/// It ends with this one, even if that is killed, and all that is left in it with it.
#[derive(Debug, Default)]
pub struct Processes {
    /// The first process of the namespace, which waits for the end of its input.
    first: Option<Child>,
    home: Option<OwnedFd>,
}

impl Processes {
    /// Children start there from now on. Where there can be no such namespace, they still end, though what they have started may
    /// not.
    pub fn begin() -> Self {
        let mut made = Self::default();
        let Ok(home) = sys::children_processes() else { return made };
        if sys::enter_new_processes().is_err() {
            return made;
        }
        made.home = Some(home);
        let mut first = Command::new("cat");
        first.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        sys::tie_to_parent(&mut first);
        made.first = first.spawn().ok();
        if made.first.is_none() {
            made.leave();
        }
        made
    }

    /// Children of this process start there.
    pub fn are_begun(&self) -> bool {
        self.home.is_some()
    }

    /// Children start where this process is again.
    pub fn leave(&mut self) {
        if let Some(home) = self.home.take() {
            let _ = sys::enter_processes(home.as_fd());
        }
    }

    /// Ends all that is left there. Children of this process must have been waited for: the namespace lasts until then.
    pub fn end(&mut self) {
        if let Some(mut first) = self.first.take() {
            // The kernel kills the whole namespace.
            let _ = first.kill();
            let _ = first.wait();
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.leave();
        self.end();
    }
}
