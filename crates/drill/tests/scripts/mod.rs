//! Scripts of the folder `scripts`.

use catnip_drill::script::Script;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns all scripts with which both sides agree, with their names and in the order of these.
pub(crate) fn scripts() -> Vec<(String, Script)> {
    scripts_of(&["", "random"])
}

/// Returns the scripts with which the kernel alone agrees: what the simulated host does not do yet (docs/deviations.md).
pub(crate) fn open_scripts() -> Vec<(String, Script)> {
    scripts_of(&["open"])
}

fn scripts_of(folders: &[&str]) -> Vec<(String, Script)> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut paths: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(all.join(folder)).expect("scripts are there"))
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pkt"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).expect("a script can be read");
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let script = Script::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, script)
        })
        .collect()
}
