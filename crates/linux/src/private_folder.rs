//! Folders below /run to which only one user has access.

use crate::file_lock::FileLock;
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Folder of root's links, in which other users can take no names.
pub const OF_LINKS: &str = "/run/catnip-emu";

/// Time within which a link that has bound its socket listens at it.
const LISTEN_TIME: Duration = Duration::from_millis(10);

/// Creates a folder to which only this user has access, whatever the umask. One that is already there must be this user's, or that of the
/// account of a service, to which root has access, too.
pub fn create(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || !(geteuid().is_root() || found.uid() == geteuid().as_raw()) {
        let problem = format!("{} is not a folder of this user", folder.display());
        return Err(io::Error::new(ErrorKind::PermissionDenied, problem));
    }
    if found.mode() & 0o777 != 0o700 {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Removes the locks and sockets of links that were killed from root's folder.
pub fn clean() {
    for entry in fs::read_dir(OF_LINKS).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            let is_left = || {
                UnixStream::connect(&path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
            };
            // A link that begins binds its socket before it listens.
            if is_left() && {
                thread::sleep(LISTEN_TIME);
                is_left()
            } {
                let _ = fs::remove_file(&path);
            }
        } else {
            // A lock that can be taken is removed when it is dropped.
            let _ = FileLock::take(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_folder_is_private_even_if_it_was_open_before() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("folder");
        let mode = || fs::symlink_metadata(&folder).unwrap().mode() & 0o777;
        create(&folder).unwrap();
        assert_eq!(mode(), 0o700);
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        create(&folder).unwrap();
        assert_eq!(mode(), 0o700);
    }

    #[test]
    fn a_link_or_a_file_in_its_place_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let (link, file) = (parent.path().join("link"), parent.path().join("file"));
        symlink(parent.path(), &link).unwrap();
        fs::write(&file, "").unwrap();
        for path in [link, file] {
            assert_eq!(create(&path).unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
    }
}
