//! Files that a scenario names.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where a scenario stands, and the files that were looked up beside it.
#[derive(Debug)]
pub(crate) struct Files {
    scenario: PathBuf,
    named: RefCell<BTreeSet<PathBuf>>,
}

impl Files {
    pub(crate) fn new(scenario: &Path) -> Self {
        Self { scenario: scenario.into(), named: RefCell::default() }
    }

    /// Where a file is; it is one of the scenario's from now on.
    pub(crate) fn find(&self, file: &Path) -> PathBuf {
        let path = beside(&self.scenario, file);
        self.named.borrow_mut().insert(path.clone());
        path
    }

    /// The text of a file.
    pub(crate) fn text(&self, file: &str) -> Result<String, String> {
        let path = self.find(Path::new(file));
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Those that were looked up, in order.
    pub(crate) fn into_named(self) -> Vec<PathBuf> {
        self.named.into_inner().into_iter().collect()
    }
}

/// Files that a scenario names are relative to it.
pub(crate) fn beside(scenario: &Path, file: &Path) -> PathBuf {
    scenario.parent().unwrap_or(Path::new("")).join(file)
}
