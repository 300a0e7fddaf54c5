//! The scenarios of the checkout: those of no paper, and those in the papers' folders.

use std::path::{Path, PathBuf};

/// Every scenario, in the order of the file names.
#[allow(dead_code, reason = "not every test asks for all")]
pub(crate) fn all() -> Vec<PathBuf> {
    let entries = folders().into_iter().flat_map(|folder| folder.read_dir().unwrap());
    let files = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    found.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    found
}

/// A scenario by its file name, or the place where a new one may be written.
#[allow(dead_code, reason = "not every test asks for one")]
pub(crate) fn file(name: &str) -> PathBuf {
    let folders = folders();
    folders.iter().map(|folder| folder.join(name)).find(|path| path.exists()).unwrap_or(folders[0].join(name))
}

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let papers = root.join("python/catnip/papers").read_dir().unwrap();
    let of_papers = papers.map(|entry| entry.unwrap().path().join("scenarios")).filter(|path| path.is_dir());
    std::iter::once(root.join("scenarios")).chain(of_papers).collect()
}
