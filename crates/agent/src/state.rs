//! State of an agent in a folder below /run: its socket, its lock, and notes of the settings to restore. Each network namespace has at most
//! one agent. The notes of a killed agent remain; the next agent, or `stop`, restores the settings from the notes.

use crate::settings::limit_segments_of;
use catnip_cli::failure::{Failure, failed};
use catnip_linux::file_lock::FileLock;
use catnip_linux::private_folder;
use catnip_linux::sys::netns_cookie;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Folder that contains the state folders of all agents.
const FOLDER: &str = "/run/catnip-agent";

/// Largest number of attempts to create a folder that an ending agent may remove at the same time.
const MAX_TRIES: u32 = 1000;

/// Kernel settings that agents change, and that are restored from notes.
pub const SETTINGS: [&str; 2] =
    ["/proc/sys/net/ipv4/tcp_min_tso_segs", "/proc/sys/net/ipv4/tcp_congestion_control"];

/// State folder of the agent of one network namespace.
#[derive(Clone, Debug)]
pub struct StateDir(PathBuf);

/// Settings that an agent changes, with their previous values.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// Files of kernel settings, each of `SETTINGS`, and their previous contents.
    pub settings: Vec<(PathBuf, String)>,
    /// Devices, and their previous limits on the number of segments sent at once.
    pub devices: Vec<ChangedDevice>,
}

/// Device with a changed limit on the number of segments sent at once.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct ChangedDevice {
    /// Name at the time of the change.
    pub name: String,
    /// Interface index.
    pub index: u32,
    /// Limit before the change.
    pub gso_max_segs: u32,
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

    /// Returns the path of the lock, which is a [`FileLock`].
    pub fn lock_file(&self) -> PathBuf {
        self.0.join("lock")
    }

    fn changes_file(&self) -> PathBuf {
        self.0.join("changes.json")
    }

    /// Locks this folder for a new agent, and restores settings that a killed agent has changed. Fails if another agent runs.
    pub fn lock(&self) -> Result<FileLock, Failure> {
        let lock = self.try_lock()?.ok_or_else(|| {
            Failure::new(
                "start",
                "an agent already runs in this network namespace; see `catnip agent status`",
            )
        })?;
        self.restore(&lock)?;
        Ok(lock)
    }

    /// Locks this folder, which is created if needed. Returns `None` if another process holds the lock.
    pub fn try_lock(&self) -> Result<Option<FileLock>, Failure> {
        let mut tries = 0;
        loop {
            let parent = self.0.parent().unwrap_or(Path::new("/"));
            match private_folder::create(parent)
                .and_then(|()| private_folder::create(&self.0))
                .and_then(|()| FileLock::take(&self.lock_file()))
            {
                // An ending agent may remove the folder at the same time.
                Err(error) if tries < MAX_TRIES && error.kind() == ErrorKind::NotFound => tries += 1,
                result => return result.map_err(failed(FOLDER, "lock a folder there")),
            }
        }
    }

    /// Records the changes that the agent is about to make. Must be called before the settings are changed.
    pub fn save(&self, changes: &Changes) -> Result<(), Failure> {
        let text = serde_json::to_vec(changes).map_err(|error| Failure::new(FOLDER, error))?;
        // The file is written completely or not at all.
        let (changes_file, new) = (self.changes_file(), self.0.join("changes.new"));
        let _ = fs::remove_file(&new);
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
        let written =
            written.and_then(|mut file| file.write_all(&text)).and_then(|()| fs::rename(&new, &changes_file));
        written.map_err(failed(FOLDER, "write a file there"))
    }

    /// Returns the changes that [`Self::save`] has recorded; none if there is no record.
    pub fn changes(&self) -> Result<Changes, Failure> {
        let file = self.changes_file();
        let text = match fs::read(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Changes::default()),
            text => text.map_err(failed(FOLDER, "read a file there"))?,
        };
        let damaged = |problem: String| {
            let advice = "restore net.ipv4.tcp_min_tso_segs (2), net.ipv4.tcp_congestion_control and gso_max_segs of the devices, and remove it";
            Failure::new(&file.display().to_string(), format!("{problem}; {advice}"))
        };
        let changes: Changes = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        match changes.settings.iter().find(|(path, _)| !SETTINGS.iter().any(|known| Path::new(known) == path))
        {
            Some((other, _)) => {
                Err(damaged(format!("{:?}: no setting that an agent changes", other.display().to_string())))
            }
            None => Ok(changes),
        }
    }

    /// Restores the settings recorded by [`Self::save`], and removes all files except the lock. The argument proves that the caller holds
    /// the lock.
    pub fn restore(&self, _: &FileLock) -> Result<(), Failure> {
        let _ = fs::remove_file(self.socket());
        let _ = fs::remove_file(self.0.join("changes.new"));
        self.changes()?.restore()?;
        match fs::remove_file(self.changes_file()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(failed(FOLDER, "remove a file there")(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes this folder and releases the lock.
    pub fn remove(&self, lock: FileLock) {
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
        for ChangedDevice { name, index, gso_max_segs } in &self.devices {
            match limit_segments_of(*index, *gso_max_segs) {
                // A device that has disappeared needs no restoration.
                Err(error) if error.raw_os_error() != Some(libc::ENODEV) => {
                    let problem = format!("cannot restore gso_max_segs = {gso_max_segs}: {error}");
                    result = Err(Failure::new(name, problem));
                }
                _ => {}
            }
        }
        result
    }

    /// Returns a description of each change: the setting and its previous value.
    pub fn describe(&self) -> Vec<String> {
        let settings = self.settings.iter().map(|(path, before)| {
            let name = path.strip_prefix("/proc/sys").unwrap_or(path).display().to_string();
            format!("{} = {before}", name.replace('/', "."))
        });
        let devices = self
            .devices
            .iter()
            .map(|device| format!("{} gso_max_segs = {}", device.name, device.gso_max_segs));
        settings.chain(devices).collect()
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
