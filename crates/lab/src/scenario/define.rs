//! Named texts (`[define]`): a text that several links share is written once, and a variant can change it for all of these links.

use crate::error::KeyError;
use crate::scenario::text::map_texts;
use catnip_base::notation::did_you_mean;
use std::collections::BTreeMap;

/// Removes `[define]` from a scenario and replaces each `{NAME}` with the text of this name. Returns the names to which nothing refers.
pub(crate) fn substitute(table: &mut toml::Table) -> Result<Vec<String>, KeyError> {
    let texts = match table.remove("define") {
        None => toml::Table::new(),
        Some(toml::Value::Table(texts)) => texts,
        Some(other) => return Err(("define".into(), format!("{other}: expected a table of texts"))),
    };
    let in_other_texts = |name: &str| texts.values().any(|text| refers_to(text.as_str().unwrap_or(""), name));
    let mut unused: Vec<String> = texts.keys().filter(|name| !in_other_texts(name)).cloned().collect();
    let names = Names::read(texts)?;
    map_texts(table, &mut |key, text| {
        unused.retain(|name| !refers_to(text, name));
        names.replace_in(text);
        // Only texts of links have no braces of their own.
        let is_of_link = key.starts_with("link.");
        names.unknown_in(text).filter(|_| is_of_link).map_or(Ok(()), |message| Err((key.into(), message)))
    })?;
    Ok(unused)
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
        for other in self.0.keys().filter(|other| refers_to(text, other)) {
            filled = filled.replace(&in_braces(other), &self.resolve(other, within)?);
        }
        within.pop();
        Ok(filled)
    }

    /// Returns an error message if the text refers to a name that is not defined.
    fn unknown_in(&self, text: &str) -> Option<String> {
        let (name, _) = text.split_once('{')?.1.split_once('}')?;
        let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
        let hint = did_you_mean(name, known.iter().copied());
        (!name.starts_with("sla.")).then(|| format!("{text:?}: {name} is not in [define]{hint}"))
    }

    fn replace_in(&self, text: &mut String) {
        self.0.iter().for_each(|(name, value)| *text = text.replace(&in_braces(name), value));
    }
}

fn refers_to(text: &str, name: &str) -> bool {
    text.contains(&in_braces(name))
}

fn in_braces(name: &str) -> String {
    format!("{{{name}}}")
}
