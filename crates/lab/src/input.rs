//! Files that are read: of bounded length, and no devices.

use std::fs::{File, FileType};
use std::io::{self, Read, Take};
use std::path::Path;
use std::sync::Arc;

/// Length of the longest file that is read, bytes.
const LONGEST: u64 = 1 << 30;

/// Opens a file for reading. A device is an error, because it may have no end, and so is a pipe that is not the standard input or one of a
/// shell, because it may have no writer. A file that is too long is an error, too; of a pipe, only the beginning is read.
pub(crate) fn open(path: &Path) -> io::Result<Take<File>> {
    let found = std::fs::metadata(path)?;
    if may_have_no_end(path, found.file_type()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file, but a device or a pipe"));
    }
    if found.len() > LONGEST {
        return Err(too_long());
    }
    Ok(File::open(path)?.take(LONGEST + 1))
}

#[cfg(unix)]
fn may_have_no_end(path: &Path, kind: FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;

    let is_of_shell =
        path.starts_with("/dev/fd") || path.starts_with("/proc") || path == Path::new("/dev/stdin");
    kind.is_block_device() || kind.is_char_device() || kind.is_socket() || (kind.is_fifo() && !is_of_shell)
}

/// Variant for pages in a browser, where there are no files.
#[cfg(not(unix))]
fn may_have_no_end(_path: &Path, _kind: FileType) -> bool {
    false
}

/// Returns the text of a file.
pub(crate) fn text(path: &Path) -> io::Result<String> {
    Opened::OnDisk(open(path)?).text()
}

/// File that is open for reading: on disk, or given as its contents.
pub(crate) enum Opened {
    OnDisk(io::Take<File>),
    Given(io::Cursor<Arc<[u8]>>),
}

impl Opened {
    /// Reads the text to its end.
    pub(crate) fn text(mut self) -> io::Result<String> {
        let text = io::read_to_string(&mut self)?;
        self.has_ended().map(|()| text)
    }

    /// Reads the file to its end.
    pub(crate) fn bytes(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        self.has_ended().map(|()| bytes)
    }

    /// Returns an error if the file is longer than what is read of a file.
    fn has_ended(&self) -> io::Result<()> {
        match self {
            Self::OnDisk(file) if file.limit() == 0 => Err(too_long()),
            _ => Ok(()),
        }
    }
}

impl Read for Opened {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::OnDisk(file) => file.read(buffer),
            Self::Given(bytes) => bytes.read(buffer),
        }
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {} MB", LONGEST >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_refused_before_it_is_read() {
        for name in ["/dev/zero", "/dev/null", "/dev/urandom"] {
            let error = text(Path::new(name)).unwrap_err().to_string();
            assert_eq!(error, "not a file, but a device or a pipe", "{name}");
        }
    }

    #[test]
    fn a_file_that_is_too_long_is_refused_before_it_is_read() {
        let path = std::env::temp_dir().join(format!("catnip-too-long-{}", std::process::id()));
        // The file has a length and no data.
        File::create(&path).unwrap().set_len(LONGEST + 1).unwrap();
        let refused = open(&path).map(drop).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(refused, "longer than 1024 MB");
    }

    #[test]
    fn a_folder_and_a_missing_file_are_told_by_the_system() {
        assert!(text(Path::new("/")).unwrap_err().to_string().starts_with("Is a directory"));
        assert!(text(Path::new("/no/such/file")).unwrap_err().to_string().starts_with("No such file"));
    }
}
