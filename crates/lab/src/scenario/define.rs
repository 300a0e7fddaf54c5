//! Named texts (`[define]`): a text that several links share is written once, and a variant can change it for all of these links.

use crate::error::KeyError;
use crate::scenario::text::map_texts;
use std::collections::BTreeMap;

/// Removes `[define]` from a scenario and replaces each `{NAME}` with the text of this name.
pub(crate) fn substitute(table: &mut toml::Table) -> Result<(), KeyError> {
    let texts = match table.remove("define") {
        None => return Ok(()),
        Some(toml::Value::Table(texts)) => texts,
        Some(other) => return Err(("define".into(), format!("{other}: expected a table of texts"))),
    };
    let names = Names::read(texts)?;
    map_texts(table, &mut |_, text| {
        names.replace_in(text);
        Ok(())
    })
}

/// Texts of `[define]`, by name.
struct Names(BTreeMap<String, String>);

impl Names {
    /// Reads the texts, which may refer to each other.
    fn read(value: toml::Table) -> Result<Self, KeyError> {
        let each = value.into_iter().map(|(name, value)| match value {
            toml::Value::String(text) => Ok((name, text)),
            other => Err((format!("define.{name}"), format!("{other}: expected a text"))),
        });
        let written = Self(each.collect::<Result<_, KeyError>>()?);
        let resolve =
            written.0.keys().map(|name| Ok((name.clone(), written.resolve(name, &mut Vec::new())?)));
        Ok(Self(resolve.collect::<Result<_, KeyError>>()?))
    }

    /// Returns the text of a name with all references replaced; `within` holds the names whose texts are being resolved, to detect a cycle.
    fn resolve<'a>(&'a self, name: &'a str, within: &mut Vec<&'a str>) -> Result<String, KeyError> {
        let text = &self.0[name];
        if within.contains(&name) {
            within.push(name);
            let message = format!("{text:?}: refers to itself: {}", within.join(", "));
            return Err((format!("define.{name}"), message));
        }
        within.push(name);
        let mut filled = text.clone();
        for other in self.0.keys().filter(|other| text.contains(&in_braces(other))) {
            filled = filled.replace(&in_braces(other), &self.resolve(other, within)?);
        }
        within.pop();
        Ok(filled)
    }

    fn replace_in(&self, text: &mut String) {
        self.0.iter().for_each(|(name, value)| *text = text.replace(&in_braces(name), value));
    }
}

fn in_braces(name: &str) -> String {
    format!("{{{name}}}")
}
