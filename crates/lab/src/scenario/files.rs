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
    /// Files that were named since they were last asked for.
    newly_named: RefCell<BTreeSet<PathBuf>>,
}

impl Files {
    /// Returns the files on disk of the scenario with this path.
    pub(crate) fn on_disk(scenario: &Path) -> Self {
        Self {
            scenario: scenario.into(),
            given: None,
            named: RefCell::default(),
            newly_named: RefCell::default(),
        }
    }

    /// Returns the files of a bundle.
    pub(crate) fn of(bundle: &Bundle) -> Self {
        let given = Some(bundle.files.clone());
        Self {
            scenario: bundle.path.clone(),
            given,
            named: RefCell::default(),
            newly_named: RefCell::default(),
        }
    }

    /// Returns the path of a file that the scenario names, and records that the file belongs to the scenario.
    pub(crate) fn find(&self, file: &Path) -> PathBuf {
        let path = beside(&self.scenario, file);
        self.newly_named.borrow_mut().insert(path.clone());
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

    /// Returns what `*` stands for in the name of each file that has a name like `pattern`, in ascending order, numbers by their value. It
    /// stands for no `/`, and not for the dot of a hidden file.
    pub(crate) fn matching(&self, pattern: &str) -> io::Result<Vec<String>> {
        let (before, after) = pattern.split_once('*').unwrap_or((pattern, ""));
        let (folder, prefix) =
            before.rsplit_once('/').map_or(("", before), |(folder, prefix)| (folder, prefix));
        let (suffix, below) =
            after.split_once('/').map_or((after, None), |(suffix, below)| (suffix, Some(below)));
        let names: BTreeSet<String> = match &self.given {
            Some(given) => {
                let within = |name: &PathBuf| {
                    let name = name.to_str()?;
                    let rest = if folder.is_empty() {
                        name
                    } else {
                        name.strip_prefix(folder)?.strip_prefix('/')?
                    };
                    Some(rest.split('/').next().unwrap_or(rest).to_string())
                };
                given.keys().filter_map(within).collect()
            }
            None => {
                let entries = std::fs::read_dir(match beside(&self.scenario, Path::new(folder)) {
                    folder if folder.as_os_str().is_empty() => PathBuf::from("."),
                    folder => folder,
                })?;
                entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
            }
        };
        let stands_for = |name: &String| {
            let part = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
            let is_hidden = prefix.is_empty() && part.starts_with('.');
            (!part.is_empty() && !is_hidden).then(|| part.to_string())
        };
        let is_file = |part: &String| {
            let name = format!(
                "{before}{part}{suffix}{}",
                below.map(|below| format!("/{below}")).unwrap_or_default()
            );
            let path = beside(&self.scenario, Path::new(&name));
            match &self.given {
                Some(given) => given.contains_key(&name_of(&self.scenario, &path)),
                None => path.is_file(),
            }
        };
        let mut parts: Vec<String> = names.iter().filter_map(stands_for).filter(is_file).collect();
        parts.sort_by_cached_key(|part| (part.parse::<u64>().unwrap_or(u64::MAX), part.clone()));
        Ok(parts)
    }

    /// Returns the files that were named since the last call.
    pub(crate) fn take_named(&self) -> BTreeSet<PathBuf> {
        let newly = self.newly_named.take();
        self.named.borrow_mut().extend(newly.iter().cloned());
        newly
    }

    /// Returns the paths of all files that belong to the scenario, sorted.
    pub(crate) fn into_named(self) -> Vec<PathBuf> {
        let _ = self.take_named();
        self.named.into_inner().into_iter().collect()
    }
}

/// Returns the path of a file relative to the folder of a scenario.
pub(super) fn name_of(scenario: &Path, file: &Path) -> PathBuf {
    let folder = scenario.parent().unwrap_or(Path::new(""));
    file.strip_prefix(folder).unwrap_or(file).into()
}

/// Returns the path of a file that a scenario names relative to itself.
pub(crate) fn beside(scenario: &Path, file: &Path) -> PathBuf {
    scenario.parent().unwrap_or(Path::new("")).join(file)
}
