//! Scenarios of the repository: the general scenarios, and the scenarios in the folders of the papers.

use std::path::{Path, PathBuf};

/// Returns the path of the scenario with this file name.
pub(crate) fn file(name: &str) -> PathBuf {
    all().into_iter().find(|path| path.ends_with(name)).unwrap_or_else(|| panic!("{name}: no such scenario"))
}

/// Returns the paths of all scenarios, in the order of the file names.
pub(crate) fn all() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let papers = entries(&root.join("python/catnip/papers")).into_iter().map(|path| path.join("scenarios"));
    let folders =
        std::iter::once(root.join("python/catnip/scenarios")).chain(papers.filter(|path| path.is_dir()));
    let mut found: Vec<_> = folders.flat_map(|folder| entries(&folder)).collect();
    found.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    found.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    found
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect()
}
