//! Contracts (service level agreements) of scenarios. The shaper at the source and the policer at the edge refer to a contract by its name.

use crate::error::KeyError;
use crate::scenario::text::{map_texts, read_table};
use catnip_net::Sla;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Removes `[sla.NAME]` from a scenario and replaces each `{sla.NAME}` with the contract.
pub(crate) fn substitute(table: &mut toml::Table) -> Result<(), KeyError> {
    let contracts = match table.remove("sla") {
        None => Contracts::default(),
        Some(toml::Value::Table(slas)) => {
            let contracts = slas.into_iter().map(|(name, value)| {
                let sla = read(&name, &value)?;
                Ok((name, sla))
            });
            Contracts(contracts.collect::<Result<_, KeyError>>()?)
        }
        Some(other) => return Err(("sla".into(), format!("{other}: expected a table [sla.NAME]"))),
    };
    map_texts(table, &mut |key, text| {
        *text = contracts.replaced(text).map_err(|message| (key.to_string(), message))?;
        Ok(())
    })
}

/// Contract that limits the traffic of a user. Each priority has a token bucket, written as RATE/DEPTH, which all connections of the user
/// share.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "sla")]
pub(crate) struct SlaFile {
    /// Token bucket of HIGH packets.
    #[schemars(example = &"250kbit/6000B", extend("x-default" = "none, but one of `high` and `med` is required"))]
    high: Option<String>,
    /// Token bucket of MED packets.
    #[schemars(example = &"500kbit/6000B", extend("x-default" = "none, but one of `high` and `med` is required"))]
    med: Option<String>,
}

/// Contracts of `[sla.NAME]`, by name.
#[derive(Debug, Default)]
struct Contracts(BTreeMap<String, Sla>);

impl Contracts {
    fn replaced(&self, text: &str) -> Result<String, String> {
        let Some((before, rest)) = text.split_once("{sla.") else { return Ok(text.into()) };
        let (name, after) = rest.split_once('}').ok_or_else(|| format!("{text:?}: expected {{sla.NAME}}"))?;
        let sla = self.0.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let expected = if known.is_empty() {
                "the scenario has none".into()
            } else {
                format!("expected one of {}", known.join(", "))
            };
            format!("{text:?}: no [sla.{name}]; {expected}")
        })?;
        Ok(format!("{before}{sla}{}", self.replaced(after)?))
    }
}

fn read(name: &str, value: &toml::Value) -> Result<Sla, KeyError> {
    let key = format!("sla.{name}");
    let toml::Value::Table(value) = value else {
        return Err((key, format!("{value}: expected a table with high and med")));
    };
    let SlaFile { high, med } = read_table(&key, value.clone())?;
    let parts = [("high", high), ("med", med)];
    let parts = parts.into_iter().filter_map(|(part, text)| Some(format!("{part}={}", text?)));
    let text = parts.collect::<Vec<_>>().join(",");
    text.parse().map_err(|error: catnip_base::ParseError| (key, error.to_string()))
}
