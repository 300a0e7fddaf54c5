//! PID namespace for commands. No process started by the commands survives the namespace.

use crate::sys;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

/// PID namespace for children of this process. When this process ends or is killed, the namespace and all remaining processes in it end,
/// too.
#[derive(Debug, Default)]
pub struct PidNamespace {
    /// First process of the namespace, which waits for the end of its input.
    init: Option<Child>,
    parent: Option<OwnedFd>,
}

impl PidNamespace {
    /// Makes children of this process start in a new PID namespace. If no namespace can be created, the children still end with this
    /// process, but the children's own children may survive.
    pub fn enter() -> Self {
        let mut namespace = Self::default();
        let Ok(parent) = sys::pid_namespace_for_children() else { return namespace };
        if sys::enter_new_pid_namespace().is_err() {
            return namespace;
        }
        namespace.parent = Some(parent);
        let mut init = Command::new("cat");
        init.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        sys::tie_to_parent(&mut init);
        namespace.init = init.spawn().ok();
        if namespace.init.is_none() {
            namespace.exit();
        }
        namespace
    }

    /// Returns true if children of this process start in the new PID namespace.
    pub fn is_entered(&self) -> bool {
        self.parent.is_some()
    }

    /// Makes later children start in the PID namespace of this process again.
    pub fn exit(&mut self) {
        if let Some(parent) = self.parent.take() {
            let _ = sys::enter_pid_namespace(parent.as_fd());
        }
    }

    /// Ends all remaining processes of the namespace. The caller must have waited for the children of this process, because the namespace
    /// exists until then.
    pub fn kill_all(&mut self) {
        if let Some(mut init) = self.init.take() {
            // The kernel kills all processes of the namespace.
            let _ = init.kill();
            let _ = init.wait();
        }
    }
}

impl Drop for PidNamespace {
    fn drop(&mut self) {
        self.exit();
        self.kill_all();
    }
}
