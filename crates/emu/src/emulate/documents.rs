//! What clients may fetch from a real host, as files.

use crate::failure::Failure;
use catnip_lab::Plan;
use catnip_net::NodeId;
use std::fs;
use std::path::{Path, PathBuf};

/// Longer documents have holes.
const FILLED_BYTES: u64 = 16 << 20;
const MOST_DOCUMENT_BYTES: u64 = 4 << 30;

/// A folder with all that clients may fetch from a host.
#[derive(Debug)]
pub(crate) struct Documents(PathBuf);

impl Documents {
    const PREFIX: &str = "catnip-documents-";

    pub(crate) fn make(plan: &Plan, server: NodeId) -> Result<Self, Failure> {
        let folder =
            std::env::temp_dir().join(format!("{}{}-{}", Self::PREFIX, std::process::id(), server.0));
        remove_left_over();
        let cannot = |path: &Path, error| {
            Failure::new(&path.display().to_string(), format!("cannot write a document: {error}"))
        };
        fs::create_dir_all(&folder).map_err(|error| cannot(&folder, error))?;
        let made = Self(folder);
        let mut total = 0u64;
        for (path, bytes) in plan.documents(server) {
            total = total.saturating_add(bytes);
            let name = path.split(['?', '#']).next().unwrap_or("").trim_matches('/');
            let odd = name.is_empty() || name.split('/').any(|part| matches!(part, "" | "." | ".."));
            // A server that makes up its documents needs no files.
            if odd || total > MOST_DOCUMENT_BYTES {
                continue;
            }
            let file = made.0.join(name);
            let folder = file.parent().unwrap_or(&made.0);
            let written = fs::create_dir_all(folder).and_then(|()| match bytes {
                ..=FILLED_BYTES => fs::write(&file, (0..bytes).map(super::filling).collect::<Vec<u8>>()),
                _ => fs::File::create(&file).and_then(|file| file.set_len(bytes)),
            });
            written.map_err(|error| cannot(&file, error))?;
        }
        Ok(made)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }
}

impl Drop for Documents {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a run that was killed has left behind.
fn remove_left_over() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(Documents::PREFIX)?.split('-').next());
        let is_dead = |process: &str| {
            process.bytes().all(|byte| byte.is_ascii_digit()) && !Path::new("/proc").join(process).exists()
        };
        if process.is_some_and(is_dead) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
