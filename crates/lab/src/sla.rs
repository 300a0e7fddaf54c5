//! What scenarios say of contracts: a contract has a name, and the source that shapes and the edge that polices refer to it.

use crate::error::Wrong;
use crate::text::change_texts;
use catnip_net::Sla;
use std::collections::BTreeMap;

/// Takes `[sla.NAME]` out of a scenario and puts what it says in place of each `{sla.NAME}`.
pub(crate) fn fill_in(table: &mut toml::Table) -> Result<(), Wrong> {
    let contracts = match table.remove("sla") {
        None => Contracts::default(),
        Some(toml::Value::Table(slas)) => {
            let each = slas.into_iter().map(|(name, said)| {
                let sla = read(&name, &said)?;
                Ok((name, sla))
            });
            Contracts(each.collect::<Result<_, Wrong>>()?)
        }
        Some(other) => return Err(("sla".into(), format!("{other}: expected a table [sla.NAME]"))),
    };
    change_texts(table, &mut |key, text| {
        *text = contracts.filled(text).map_err(|what| (key.to_string(), what))?;
        Ok(())
    })
}

/// Contracts by name.
#[derive(Debug, Default)]
struct Contracts(BTreeMap<String, Sla>);

impl Contracts {
    fn filled(&self, text: &str) -> Result<String, String> {
        let Some((before, rest)) = text.split_once("{sla.") else { return Ok(text.into()) };
        let (name, after) = rest.split_once('}').ok_or_else(|| format!("{text:?}: expected {{sla.NAME}}"))?;
        let sla = self.0.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            format!("{text:?}: there is no [sla.{name}]; there are {}", known.join(", "))
        })?;
        Ok(format!("{before}{sla}{}", self.filled(after)?))
    }
}

fn read(name: &str, said: &toml::Value) -> Result<Sla, Wrong> {
    let key = format!("sla.{name}");
    let toml::Value::Table(said) = said else {
        return Err((key, format!("{said}: expected a table with high and med")));
    };
    if let Some(other) = said.keys().find(|other| !matches!(other.as_str(), "high" | "med")) {
        return Err((format!("{key}.{other}"), "expected high or med".into()));
    }
    let parts = said.iter().map(|(part, value)| match value.as_str() {
        Some(text) => Ok(format!("{part}={text}")),
        None => Err((format!("{key}.{part}"), format!("{value}: expected a text such as 250kbit/6000B"))),
    });
    let text = parts.collect::<Result<Vec<_>, _>>()?.join(",");
    text.parse().map_err(|error: catnip_base::ParseError| (key, error.to_string()))
}
