//! Names of variants that last: a variant whose runs are the same has the same name in another scenario, and among other variants.

use crate::InputError;
use crate::scenario::files::{Bundle, name_of};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Keys of a scenario that its runs do not depend on.
const LABELS: [&str; 3] = ["id", "title", "seeds"];

/// Keys and files of a variant, which determine its runs.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Hash of the keys.
    keys: [u8; 32],
    /// Files that the variant names.
    pub(super) files: BTreeSet<PathBuf>,
}

impl Point {
    /// Returns a point with the keys of a merged scenario.
    pub(super) fn new(merged: &toml::Table) -> Self {
        let mut hash = Sha256::new();
        for (key, value) in merged.iter().filter(|(key, _)| !LABELS.contains(&key.as_str())) {
            hash.update(format!("{key} = {value}\n"));
        }
        Self { keys: hash.finalize().into(), files: BTreeSet::new() }
    }
}

/// Returns the ID of each point, with the files of a bundle.
pub(super) fn ids(points: &[Point], bundle: &Bundle) -> Result<Vec<String>, InputError> {
    let mut hashes: BTreeMap<&Path, [u8; 32]> = BTreeMap::new();
    let mut ids = Vec::new();
    for point in points {
        let mut hash = Sha256::new();
        hash.update(concat!("catnip ", env!("CARGO_PKG_VERSION"), "\n"));
        hash.update(point.keys);
        for file in &point.files {
            let name = name_of(&bundle.path, file);
            if !hashes.contains_key(file.as_path()) {
                let missing =
                    || InputError::new(&file.display().to_string(), "", "not among the scenario's files");
                let contents = bundle.files.get(&name).ok_or_else(missing)?;
                hashes.insert(file, Sha256::digest(contents).into());
            }
            hash.update(format!("{}\n", name.display()));
            hash.update(hashes[file.as_path()]);
        }
        ids.push(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
    }
    Ok(ids)
}
