//! Files to which a scenario refers.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Path of a scenario, and the files that were looked up relative to it.
#[derive(Debug)]
pub(crate) struct Files {
    scenario: PathBuf,
    named: RefCell<BTreeSet<PathBuf>>,
}

impl Files {
    pub(crate) fn new(scenario: &Path) -> Self {
        Self { scenario: scenario.into(), named: RefCell::default() }
    }

    /// Returns the path of a file that the scenario names, and records that the file belongs to the scenario.
    pub(crate) fn find(&self, file: &Path) -> PathBuf {
        let path = beside(&self.scenario, file);
        self.named.borrow_mut().insert(path.clone());
        path
    }

    /// Returns the text of a file that the scenario names, and records that the file belongs to the scenario.
    pub(crate) fn text(&self, file: &str) -> Result<String, String> {
        let path = self.find(Path::new(file));
        crate::input::text(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns the paths of all files that belong to the scenario, sorted.
    pub(crate) fn into_named(self) -> Vec<PathBuf> {
        self.named.into_inner().into_iter().collect()
    }
}

/// Returns the path of a file that a scenario names relative to itself.
pub(crate) fn beside(scenario: &Path, file: &Path) -> PathBuf {
    scenario.parent().unwrap_or(Path::new("")).join(file)
}
