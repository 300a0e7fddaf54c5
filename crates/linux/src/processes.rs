//! PID namespace for commands. No process started by the commands survives the namespace.

use crate::sys;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

/// PID namespace for children of this process. When this process ends or is killed, the namespace and all remaining processes in it end,
/// too.
#[derive(Debug, Default)]
pub struct Processes {
    /// First process of the namespace, which waits for the end of its input.
    first: Option<Child>,
    home: Option<OwnedFd>,
}

impl Processes {
    /// Makes children of this process start in a new PID namespace. If no namespace can be created, the children still end with this
    /// process, but the children's own children may survive.
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

    /// Returns true if children of this process start in the new namespace.
    pub fn are_begun(&self) -> bool {
        self.home.is_some()
    }

    /// Makes children start in the PID namespace of this process again.
    pub fn leave(&mut self) {
        if let Some(home) = self.home.take() {
            let _ = sys::enter_processes(home.as_fd());
        }
    }

    /// Ends all remaining processes of the namespace. The caller must have waited for the children of this process, because the namespace
    /// exists until then.
    pub fn end(&mut self) {
        if let Some(mut first) = self.first.take() {
            // The kernel kills all processes of the namespace.
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
