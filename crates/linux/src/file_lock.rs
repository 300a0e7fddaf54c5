//! Locks that are files. At most one process holds a lock. The lock of a process that has ended is free, even if its file is left.

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Name of the file that locks a folder of results; the same as in `catnip.base.locks`.
pub const FOLDER_LOCK: &str = ".catnip-lock";

/// Lock, until it is dropped. The file names the process.
#[derive(Debug)]
pub struct FileLock {
    path: PathBuf,
    _file: File,
}

impl FileLock {
    /// Takes a lock, whose file is created if needed. Returns `None` if another process holds the lock. A symbolic link in place of the file
    /// is an error.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let mut file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Ok(None),
                locked => locked?,
            }
            // A process that has ended meanwhile has removed the file.
            if !is_at(&file, path)? {
                continue;
            }
            let host = rustix::system::uname();
            file.set_len(0)?;
            writeln!(file, "process {} on {}", std::process::id(), host.nodename().to_string_lossy())?;
            return Ok(Some(Self { path: path.to_path_buf(), _file: file }));
        }
    }

    /// Returns the process that holds the lock with this file, for an error message.
    pub fn holder(path: &Path) -> String {
        let text = fs::read_to_string(path).unwrap_or_default();
        let is_signed = text.starts_with("process ") && !text.trim_end().contains(char::is_control);
        if is_signed { text.trim_end().to_string() } else { "another process".to_string() }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // The file is removed while it is locked, so that no process locks a removed file.
        let _ = fs::remove_file(&self.path);
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_second_process_is_told_who_holds_the_lock_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FOLDER_LOCK);
        let held = FileLock::take(&path).unwrap();
        assert!(held.is_some() && FileLock::take(&path).unwrap().is_none());
        assert!(FileLock::holder(&path).starts_with(&format!("process {} on ", std::process::id())));
        drop(held);
        assert!(!path.exists());
        assert!(FileLock::take(&path).unwrap().is_some());
    }

    #[test]
    fn a_file_without_a_holder_is_free_and_a_link_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join(FOLDER_LOCK), folder.path().join("target"));
        fs::write(&path, "process 1 on a machine that has stopped and had a longer name").unwrap();
        let held = FileLock::take(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
        assert!(!FileLock::holder(&path).contains("stopped"));
        drop(held);
        symlink(&target, &path).unwrap();
        assert!(FileLock::take(&path).is_err() && !target.exists());
    }

    #[test]
    fn a_holder_that_is_no_process_of_ours_is_not_printed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FOLDER_LOCK);
        for text in ["", "\x1b]0;owned\x07", "process 1 on \x1b[31m\n"] {
            fs::write(&path, text).unwrap();
            assert_eq!(FileLock::holder(&path), "another process");
        }
    }

    #[test]
    fn of_processes_that_come_and_go_only_one_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FOLDER_LOCK);
        let (holders, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while taken.load(Ordering::Relaxed) < 1000 {
                        if let Some(lock) = FileLock::take(&path).unwrap() {
                            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                            taken.fetch_add(1, Ordering::Relaxed);
                            holders.fetch_sub(1, Ordering::SeqCst);
                            drop(lock);
                        }
                    }
                });
            }
        });
    }
}
