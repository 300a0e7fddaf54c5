//! State of an agent in a folder below /run: its socket, its lock, and notes of the settings to restore. Each network namespace has at most
//! one agent. The notes of a killed agent remain; the next agent, or `stop`, restores the settings from the notes.

use crate::settings::limit_segments;
use catnip_cli::failure::{Failure, failed};
use catnip_linux::sys::netns_cookie;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folder that contains the state folders of all agents.
const FOLDER: &str = "/run/catnip-agent";

/// Largest number of attempts to create a folder that an ending agent may remove at the same time.
const MAX_TRIES: u32 = 1000;

/// State folder of the agent of one network namespace.
#[derive(Clone, Debug)]
pub struct StateDir(PathBuf);

/// Settings that an agent changes, with their previous values.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Changes {
    /// Files of kernel settings, and their previous contents.
    pub settings: Vec<(PathBuf, String)>,
    /// Devices, and their previous limits on the number of segments sent at once.
    pub devices: Vec<(String, u32)>,
}

/// Lock of a state folder. While the lock exists, no other process can be the agent of its namespace.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl StateDir {
    /// Returns the state folder for the network namespace of this process.
    pub fn current() -> Result<Self, Failure> {
        // The cookie of a network namespace is never reused, so no agent restores the settings of another namespace.
        let cookie = netns_cookie().map_err(failed("network", "determine the namespace"))?;
        Ok(Self(Path::new(FOLDER).join(cookie.to_string())))
    }

    /// Returns the path of the agent's socket.
    pub fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }

    fn changes_file(&self) -> PathBuf {
        self.0.join("changes.json")
    }

    /// Locks this folder for a new agent, and restores settings that a killed agent has changed. Fails if another agent runs.
    pub fn lock(&self) -> Result<Lock, Failure> {
        let lock = self.try_lock()?.ok_or_else(|| {
            Failure::new(
                "start",
                "an agent already runs in this network namespace; see `catnip agent status`",
            )
        })?;
        self.restore(&lock)?;
        Ok(lock)
    }

    /// Locks this folder. Returns `None` if another process holds the lock.
    pub fn try_lock(&self) -> Result<Option<Lock>, Failure> {
        let (path, flags) = (self.0.join("lock"), OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC);
        let opened = || -> std::io::Result<File> {
            fs::create_dir_all(&self.0)?;
            Ok(File::from(rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?))
        };
        let mut tries = 0;
        let file = loop {
            match opened() {
                // An ending agent may remove the folder at the same time.
                Err(error)
                    if tries < MAX_TRIES
                        && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) =>
                {
                    tries += 1;
                }
                result => break result.map_err(failed(FOLDER, "open a file there"))?,
            }
        };
        // An agent that has ended in the meantime has removed the lock file.
        let is_linked = || Some(fs::metadata(&path).ok()?.ino() == file.metadata().ok()?.ino());
        let is_acquired =
            flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_linked() == Some(true);
        Ok(is_acquired.then_some(Lock { _file: file }))
    }

    /// Records the changes that the agent is about to make. Must be called before the settings are changed.
    pub fn save(&self, changes: &Changes) -> Result<(), Failure> {
        let text = serde_json::to_vec(changes).map_err(|error| Failure::new(FOLDER, error))?;
        // The file is written completely or not at all.
        let (changes_file, new) = (self.changes_file(), self.0.join("changes.new"));
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &changes_file));
        written.map_err(failed(FOLDER, "write a file there"))
    }

    /// Restores the settings recorded by [`Self::save`], and removes all files except the lock. The argument proves that the caller holds
    /// the lock.
    pub fn restore(&self, _: &Lock) -> Result<(), Failure> {
        let _ = fs::remove_file(self.socket());
        let Ok(text) = fs::read(self.changes_file()) else { return Ok(()) };
        let changes: Changes = serde_json::from_slice(&text).unwrap_or_default();
        changes.restore()?;
        fs::remove_file(self.changes_file()).map_err(failed(FOLDER, "remove a file there"))
    }

    /// Removes this folder and releases the lock.
    pub fn remove(&self, lock: Lock) {
        // The file is removed while it is locked, so that no process locks a removed file.
        let _ = fs::remove_file(self.0.join("lock"));
        drop(lock);
        let _ = fs::remove_dir(&self.0);
        // The call fails if the folder contains agents of other namespaces.
        let _ = self.0.parent().map(fs::remove_dir);
    }
}

impl Changes {
    /// Restores the previous values of the settings. If a value cannot be restored, the other values are still restored.
    pub fn restore(&self) -> Result<(), Failure> {
        let mut result = Ok(());
        for (path, before) in &self.settings {
            if let Err(error) = fs::write(path, before) {
                result = Err(Failure::new(
                    &path.display().to_string(),
                    format!("cannot restore {before:?}: {error}"),
                ));
            }
        }
        for (device, segments) in &self.devices {
            // A device that has disappeared needs no restoration.
            if let Err(failure) = limit_segments(device, *segments)
                && Path::new("/sys/class/net").join(device).exists()
            {
                result = Err(failure);
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::StateDir;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::{env, process, thread};

    #[test]
    fn agents_that_come_while_others_leave_are_one_at_a_time_and_none_fails() {
        let folder = env::temp_dir().join(format!("catnip-agent-places-{}", process::id()));
        let state_dir = StateDir(folder.join("1"));
        let (inside, entered) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5000 {
                        if let Some(lock) = state_dir.try_lock().expect("no failure") {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            entered.fetch_add(1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            state_dir.remove(lock);
                        }
                    }
                });
            }
        });
        assert!(entered.into_inner() > 0);
        assert!(!folder.exists(), "the last one leaves nothing");
    }
}
