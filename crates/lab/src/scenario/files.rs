//! Files of a scenario: the scenarios on which it builds, recordings, traces, pages. No other part of the laboratory opens them.

use crate::InputError;
use crate::input::{self, Opened};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Scenario with the contents of every file that it names. It can be read where the files are not, such as on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Path of the scenario, by which errors name it.
    pub path: PathBuf,
    /// Text of the scenario's own file.
    pub text: String,
    /// Keys that are set in all variants, each with its value, as for [`Scenario::load_set`](crate::Scenario::load_set).
    pub set: Vec<(String, String)>,
    /// Contents of the other files, by path relative to the folder of the scenario. A file that is named by an absolute path has this path.
    pub files: BTreeMap<PathBuf, Arc<[u8]>>,
}

impl Bundle {
    /// Reads these files from disk and adds them to the bundle. An error names the file.
    pub(crate) fn with(mut self, files: &[PathBuf]) -> Result<Self, InputError> {
        for file in files {
            let bytes = input::open(file).and_then(|file| Opened::OnDisk(file).bytes());
            let bytes = bytes.map_err(|error| InputError::new(&file.display().to_string(), "", error))?;
            self.files.insert(name_of(&self.path, file), bytes.into());
        }
        Ok(self)
    }
}

/// Access to the files that a scenario names, on disk or in a bundle.
#[derive(Debug)]
pub(crate) struct Files {
    scenario: PathBuf,
    /// Files of a bundle; `None` for those on disk.
    given: Option<BTreeMap<PathBuf, Arc<[u8]>>>,
    named: RefCell<BTreeSet<PathBuf>>,
}

impl Files {
    /// Returns the files on disk of the scenario with this path.
    pub(crate) fn on_disk(scenario: &Path) -> Self {
        Self { scenario: scenario.into(), given: None, named: RefCell::default() }
    }

    /// Returns the files of a bundle.
    pub(crate) fn of(bundle: &Bundle) -> Self {
        let given = Some(bundle.files.clone());
        Self { scenario: bundle.path.clone(), given, named: RefCell::default() }
    }

    /// Returns the path of a file that the scenario names, and records that the file belongs to the scenario.
    pub(crate) fn find(&self, file: &Path) -> PathBuf {
        let path = beside(&self.scenario, file);
        self.named.borrow_mut().insert(path.clone());
        path
    }

    /// Opens the file with this path, which begins with the folder of the scenario or is absolute.
    pub(crate) fn open(&self, path: &Path) -> io::Result<Opened> {
        let Some(given) = &self.given else { return Ok(Opened::OnDisk(input::open(path)?)) };
        let bytes = given.get(&name_of(&self.scenario, path)).cloned();
        let bytes = bytes
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "not among the files of the bundle"))?;
        Ok(Opened::Given(io::Cursor::new(bytes)))
    }

    /// Returns the text of a file that the scenario names, and records that the file belongs to the scenario.
    pub(crate) fn text(&self, file: &str) -> Result<String, String> {
        let path = self.find(Path::new(file));
        self.open(&path).and_then(Opened::text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns the paths of all files that belong to the scenario, sorted.
    pub(crate) fn into_named(self) -> Vec<PathBuf> {
        self.named.into_inner().into_iter().collect()
    }
}

/// Returns the path of a file relative to the folder of a scenario.
fn name_of(scenario: &Path, file: &Path) -> PathBuf {
    let folder = scenario.parent().unwrap_or(Path::new(""));
    file.strip_prefix(folder).unwrap_or(file).into()
}

/// Returns the path of a file that a scenario names relative to itself.
pub(crate) fn beside(scenario: &Path, file: &Path) -> PathBuf {
    scenario.parent().unwrap_or(Path::new("")).join(file)
}
