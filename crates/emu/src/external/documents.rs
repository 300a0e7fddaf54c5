//! Files with the documents that clients may fetch from an external host.

use catnip_cli::failure::Failure;
use catnip_lab::Plan;
use catnip_net::NodeId;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use tempfile::TempDir;

const PREFIX: &str = "catnip-documents-";
/// Mode of folders: readable by all users, writable by the owner. A server may run as another user than the owner of its documents, as
/// nginx's workers do. It also reads its configuration here, so write access would give control over the server.
const FOLDER_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;
/// Size up to which documents are filled with data, bytes; longer documents are sparse files.
const FILLED_BYTES: u64 = 16 << 20;
const MAX_TOTAL_BYTES: u64 = 4 << 30;

/// Temporary folder with all documents that clients may fetch from an external host. It is removed at the end of the run.
#[derive(Debug)]
pub(crate) struct Documents {
    folder: TempDir,
    /// Descriptor of the folder, locked to show other runs that this run is alive.
    lock: File,
}

impl Documents {
    pub(crate) fn create(plan: &Plan, server: NodeId) -> Result<Self, Failure> {
        let cannot = |path: &Path, error| {
            Failure::new(&path.display().to_string(), format!("cannot write a document: {error}"))
        };
        let parent = std::env::temp_dir();
        let documents = Self::create_locked(&parent).map_err(|error| cannot(&parent, error))?;
        documents.remove_stale(&parent);
        let mut total = 0u64;
        for (path, bytes) in plan.documents(server) {
            total = total.saturating_add(bytes);
            let name = path.split(['?', '#']).next().unwrap_or("").trim_matches('/');
            let is_unusable = name.is_empty() || name.split('/').any(|part| matches!(part, "" | "." | ".."));
            // Documents without a usable file name, and those beyond the limit of the total size, get no file: only a server that generates
            // its documents can serve them.
            if is_unusable || total > MAX_TOTAL_BYTES {
                continue;
            }
            let file = documents.folder.path().join(name);
            documents.write(&file, bytes).map_err(|error| cannot(&file, error))?;
        }
        Ok(documents)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Creates the folder and locks it. All users may write to `parent`, so the name is new and unpredictable. The folder becomes readable
    /// only once it is locked, so that [`Self::remove_stale`] of another run never finds it readable and unlocked.
    fn create_locked(parent: &Path) -> io::Result<Self> {
        let folder = create_private(parent)?;
        let lock = File::open(&folder)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::set_permissions(&folder, Permissions::from_mode(FOLDER_MODE))?;
        Ok(Self { folder, lock })
    }

    fn write(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let inside = || path.ancestors().skip(1).take_while(|&folder| folder != self.folder.path());
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(path.parent().unwrap_or(self.folder.path()))?;
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?;
        // A strict umask must not apply to documents that a server serves.
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
        inside().try_for_each(|folder| fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE)))?;
        match bytes {
            ..=FILLED_BYTES => file.write_all(&(0..bytes).map(crate::socket::padding).collect::<Vec<u8>>()),
            _ => file.set_len(bytes),
        }
    }

    /// Removes the unlocked folders of this user, which killed runs have left behind. A search for the processes of these runs would not be
    /// reliable, since they may be in another PID namespace.
    fn remove_stale(&self, parent: &Path) {
        let (Ok(entries), Ok(own)) = (fs::read_dir(parent), self.lock.metadata()) else { return };
        for entry in entries.flatten() {
            if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                continue;
            }
            let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
            let Ok(folder) = OpenOptions::new().read(true).custom_flags(flags).open(entry.path()) else {
                continue;
            };
            let is_ours = |its: fs::Metadata| its.uid() == own.uid() && its.mode() & 0o777 == FOLDER_MODE;
            if folder.metadata().is_ok_and(is_ours)
                && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()
            {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

fn create_private(parent: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(PREFIX).permissions(Permissions::from_mode(0o700)).tempdir_in(parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    /// Creates a folder in which all users may write, like `/tmp`.
    fn create_world_writable(name: &str) -> PathBuf {
        let parent =
            std::env::temp_dir().join(format!("catnip-documents_test-{}-{name}", std::process::id()));
        fs::create_dir(&parent).unwrap();
        fs::set_permissions(&parent, Permissions::from_mode(0o1777)).unwrap();
        parent
    }

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().mode() & 0o7777
    }

    #[test]
    fn everybody_may_read_documents_and_only_their_owner_may_write() {
        let parent = create_world_writable("modes");
        let documents = Documents::create_locked(&parent).unwrap();
        let file = documents.folder.path().join("pages/1/image");
        documents.write(&file, 3).unwrap();
        assert_eq!(fs::read(&file).unwrap(), [0, 1, 2].map(crate::socket::padding));
        assert_eq!(mode(&file), FILE_MODE);
        for folder in [
            documents.folder.path().to_owned(),
            documents.folder.path().join("pages"),
            documents.folder.path().join("pages/1"),
        ] {
            assert_eq!(mode(&folder), FOLDER_MODE, "{}", folder.display());
        }
        let folder = documents.folder.path().to_owned();
        drop(documents);
        assert!(!folder.exists());
        fs::remove_dir(parent).unwrap();
    }

    #[test]
    fn only_what_is_ours_and_unlocked_is_left_over() {
        let parent = create_world_writable("left-over");
        let locked = Documents::create_locked(&parent).unwrap();
        // The kernel releases the locks of a killed process.
        let killed = parent.join(format!("{PREFIX}killed"));
        DirBuilder::new().mode(FOLDER_MODE).create(&killed).unwrap();
        fs::set_permissions(&killed, Permissions::from_mode(FOLDER_MODE)).unwrap();
        fs::write(killed.join("nginx.conf"), "").unwrap();
        let unlocked_yet = create_private(&parent).unwrap().keep();
        let elsewhere = parent.join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let link = parent.join(format!("{PREFIX}link"));
        symlink(&elsewhere, &link).unwrap();
        let mut untouched = vec![locked.folder.path().to_owned(), unlocked_yet, elsewhere, link];
        // Folder of another user, which only root can create.
        let other = parent.join(format!("{PREFIX}other"));
        fs::create_dir(&other).unwrap();
        fs::set_permissions(&other, Permissions::from_mode(FOLDER_MODE)).unwrap();
        if std::os::unix::fs::chown(&other, Some(65_534), None).is_ok() {
            untouched.push(other);
        }
        let next = Documents::create_locked(&parent).unwrap();
        next.remove_stale(&parent);
        assert!(!killed.exists());
        for path in untouched {
            assert!(path.symlink_metadata().is_ok(), "{}", path.display());
        }
        drop((locked, next));
        fs::remove_dir_all(parent).unwrap();
    }
}
