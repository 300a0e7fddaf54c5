//! Where an agent is found, and what it has to put back: one agent for each network namespace, below /run. A killed one leaves these notes,
//! from which the next one, or `stop`, puts back what was there.

use crate::settings::limit_segments;
use crate::sys::network_cookie;
use catnip_cli::failure::{Failure, failed};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where agents are found.
const FOLDER: &str = "/run/catnip-agent";

/// How often the folder is made again that one who leaves has taken away.
const TRIES: u32 = 1000;

/// The folder of the agent of this network namespace.
#[derive(Clone, Debug)]
pub struct Place(PathBuf);

/// What was changed, and how it was before.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Changes {
    /// Files of the kernel's settings, and what they held.
    pub settings: Vec<(PathBuf, String)>,
    /// Devices, and how many segments might leave them at once.
    pub devices: Vec<(String, u32)>,
}

/// Nobody else is the agent of this place as long as this lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Place {
    /// That of the network namespace of this process.
    pub fn here() -> Result<Self, Failure> {
        // Its number is never given to another one, so that nobody puts back what was another's.
        let cookie = network_cookie().map_err(failed("network", "tell which one this is"))?;
        Ok(Self(Path::new(FOLDER).join(cookie.to_string())))
    }

    /// Where the agent listens.
    pub fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }

    fn notes(&self) -> PathBuf {
        self.0.join("changes.json")
    }

    /// Becomes the agent of this place, if there is none: puts back first what one that was killed has changed.
    pub fn lock(&self) -> Result<Lock, Failure> {
        let lock = self.try_lock()?.ok_or_else(|| {
            Failure::new(
                "start",
                "an agent runs in this network namespace already, see `catnip agent status`",
            )
        })?;
        self.clean(&lock)?;
        Ok(lock)
    }

    /// The same; `None`: somebody else is.
    pub fn try_lock(&self) -> Result<Option<Lock>, Failure> {
        let (path, flags) = (self.0.join("lock"), OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC);
        let opened = || -> std::io::Result<File> {
            fs::create_dir_all(&self.0)?;
            Ok(File::from(rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?))
        };
        let mut tries = 0;
        let file = loop {
            match opened() {
                // One that leaves may take the folder away while it is made.
                Err(error)
                    if tries < TRIES
                        && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) =>
                {
                    tries += 1;
                }
                result => break result.map_err(failed(FOLDER, "open a file there"))?,
            }
        };
        // One that has left meanwhile has taken its file away.
        let is_there = || Some(fs::metadata(&path).ok()?.ino() == file.metadata().ok()?.ino());
        let is_ours =
            flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_there() == Some(true);
        Ok(is_ours.then_some(Lock { _file: file }))
    }

    /// Notes what will be changed, before it is.
    pub fn note(&self, changes: &Changes) -> Result<(), Failure> {
        let text = serde_json::to_vec(changes).map_err(|error| Failure::new(FOLDER, error))?;
        // Whole or not at all.
        let (notes, new) = (self.notes(), self.0.join("changes.new"));
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &notes));
        written.map_err(failed(FOLDER, "write a file there"))
    }

    /// Puts back what the notes say, and leaves nothing there but the lock.
    pub fn clean(&self, _: &Lock) -> Result<(), Failure> {
        let _ = fs::remove_file(self.socket());
        let Ok(text) = fs::read(self.notes()) else { return Ok(()) };
        let changes: Changes = serde_json::from_slice(&text).unwrap_or_default();
        changes.put_back()?;
        fs::remove_file(self.notes()).map_err(failed(FOLDER, "remove a file there"))
    }

    /// Nobody needs it any more.
    pub fn leave(&self, lock: Lock) {
        // The file goes while it is locked, so that nobody locks one that is gone.
        let _ = fs::remove_file(self.0.join("lock"));
        drop(lock);
        let _ = fs::remove_dir(&self.0);
        // Other namespaces' agents may be there.
        let _ = self.0.parent().map(fs::remove_dir);
    }
}

impl Changes {
    /// As it was before. All that can be is put back, whatever fails.
    pub fn put_back(&self) -> Result<(), Failure> {
        let mut result = Ok(());
        for (path, before) in &self.settings {
            if let Err(error) = fs::write(path, before) {
                result = Err(Failure::new(
                    &path.display().to_string(),
                    format!("cannot put {before:?} back: {error}"),
                ));
            }
        }
        for (device, segments) in &self.devices {
            // A device that has gone needs nothing.
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
    use super::Place;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::{env, process, thread};

    #[test]
    fn agents_that_come_while_others_leave_are_one_at_a_time_and_none_fails() {
        let folder = env::temp_dir().join(format!("catnip-agent-places-{}", process::id()));
        let place = Place(folder.join("1"));
        let (inside, entered) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5000 {
                        if let Some(lock) = place.try_lock().expect("no failure") {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            entered.fetch_add(1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            place.leave(lock);
                        }
                    }
                });
            }
        });
        assert!(entered.into_inner() > 0);
        assert!(!folder.exists(), "the last one leaves nothing");
    }
}
