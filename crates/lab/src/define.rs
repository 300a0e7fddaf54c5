//! Texts that have a name: what many links say alike is said once, and a variant changes it for all of them.

use crate::error::Wrong;
use std::collections::BTreeMap;

/// Takes `[define]` out of a scenario and puts what it says in place of each `{NAME}`.
pub(crate) fn fill_in(table: &mut toml::Table) -> Result<(), Wrong> {
    let said = match table.remove("define") {
        None => return Ok(()),
        Some(toml::Value::Table(said)) => said,
        Some(other) => return Err(("define".into(), format!("{other}: expected a table of texts"))),
    };
    let names = Names::read(said)?;
    table.iter_mut().for_each(|(_, value)| names.fill(value));
    Ok(())
}

/// What stands for each `{NAME}`.
struct Names(BTreeMap<String, String>);

impl Names {
    /// One text may name another.
    fn read(said: toml::Table) -> Result<Self, Wrong> {
        let each = said.into_iter().map(|(name, said)| match said {
            toml::Value::String(text) => Ok((format!("{{{name}}}"), text)),
            other => Err((format!("define.{name}"), format!("{other}: expected a text"))),
        });
        let mut names = Self(each.collect::<Result<_, Wrong>>()?);
        for _ in 0..names.0.len() {
            names = Self(names.0.iter().map(|(name, text)| (name.clone(), names.filled(text))).collect());
        }
        match names.0.iter().find(|(_, text)| names.filled(text) != **text) {
            None => Ok(names),
            Some((name, _)) => {
                let key = format!("define.{}", name.trim_matches(['{', '}']));
                Err((key, "names itself, by whatever way".into()))
            }
        }
    }

    fn fill(&self, value: &mut toml::Value) {
        match value {
            toml::Value::String(text) => *text = self.filled(text),
            toml::Value::Table(inner) => inner.iter_mut().for_each(|(_, value)| self.fill(value)),
            toml::Value::Array(list) => list.iter_mut().for_each(|value| self.fill(value)),
            _ => {}
        }
    }

    fn filled(&self, text: &str) -> String {
        self.0.iter().fold(text.to_string(), |text, (name, said)| text.replace(name, said))
    }
}
