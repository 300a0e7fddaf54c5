use catnip_base::notation::did_you_mean;
use catnip_net::WireSpec;
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};

/// Recorded path: the keys of the wires of a link, from a file of its own.
///
/// The file has the keys of a wire, for both directions or in a table `there` (from `from` to `to`; of an emulated link, up) or `back`. A key
/// may have a list of values, one for each time in `at`, from which they apply; the last one stays. Numbers are times in s, rates in Mbit/s,
/// delays in ms and loss probabilities. Names of files are relative to the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathFile {
    /// Texts of the keys from `from` to `to`, and back.
    pub wires: [BTreeMap<&'static str, String>; 2],
}

/// Names of the tables for one direction.
const DIRECTIONS: [&str; 2] = ["there", "back"];
/// Key of the times of the values in lists.
const AT: &str = "at";
/// Longest list of values.
const MAX_ROWS: usize = 100_000;

impl PathFile {
    /// Reads the text of a path file. Its files are beside `path`. An error gives the wrong key and the reason.
    pub fn parse(text: &str, path: &Path) -> Result<Self, String> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| error.message().to_string())?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut read = Self::default();
        for (side, name) in DIRECTIONS.into_iter().enumerate() {
            let own = match table.get(name) {
                None => Table::new(),
                Some(Value::Table(own)) => own.clone(),
                Some(other) => return Err(format!("{name}: {other}: expected a table")),
            };
            let both = table.iter().filter(|(key, _)| !DIRECTIONS.contains(&key.as_str()));
            let times = own.get(AT).or(table.get(AT)).map(times).transpose()?;
            let keys = both.map(|pair| ("", pair)).chain(own.iter().map(|pair| (name, pair)));
            for (table, (key, value)) in keys.filter(|(_, (key, _))| *key != AT) {
                let within = if table.is_empty() { key.clone() } else { format!("{table}.{key}") };
                let known = WireSpec::KEYS.iter().find(|known| known.name == key);
                let known = known.ok_or_else(|| {
                    let names = WireSpec::KEYS.iter().map(|key| key.name);
                    format!("{within}: no key of a wire{}", did_you_mean(key, names))
                })?;
                let text = notation(known.name, value, times.as_deref())
                    .map_err(|problem| format!("{within}: {problem}"))?;
                read.wires[side].insert(known.name, beside(folder, &text));
            }
        }
        if read.wires.iter().all(BTreeMap::is_empty) {
            return Err("no key of a wire".into());
        }
        Ok(read)
    }
}

/// Returns the notations of the times at which values begin to apply.
fn times(value: &Value) -> Result<Vec<String>, String> {
    let invalid = || format!("{AT}: expected a list of times that begins with 0");
    let list = value.as_array().filter(|list| list.len() <= MAX_ROWS).ok_or_else(invalid)?;
    let time = |value: &Value| scalar(value, "s").ok_or_else(invalid);
    let times: Vec<String> = list.iter().map(time).collect::<Result<_, _>>()?;
    let is_zero = |text: &String| text.trim_end_matches(char::is_alphabetic).parse() == Ok(0.0);
    if times.first().is_some_and(is_zero) { Ok(times) } else { Err(invalid()) }
}

/// Returns the text of a value, or of the values at `times`.
fn notation(key: &str, value: &Value, times: Option<&[String]>) -> Result<String, String> {
    let unit = match key {
        "rate" => "Mbit",
        "delay" => "ms",
        _ => "",
    };
    let invalid = |value: &Value| format!("{value}: expected a text or a number");
    let Value::Array(list) = value else {
        return match value {
            Value::String(text) => Ok(text.clone()),
            _ => Err(format!("{value}: expected a text, or a list of values at the times of {AT}")),
        };
    };
    if !["rate", "delay", "loss", "wire_loss"].contains(&key) {
        return Err("only rate, delay, loss and wire_loss can have lists of values".into());
    }
    let times = times.ok_or_else(|| format!("a list of values needs {AT}, a list of times"))?;
    if times.len() != list.len() {
        return Err(format!("{} values for {} times", list.len(), times.len()));
    }
    let values = list.iter().map(|value| scalar(value, unit).ok_or_else(|| invalid(value)));
    let values: Vec<String> = values.collect::<Result<_, _>>()?;
    let later = times.iter().zip(&values).skip(1).map(|(at, value)| format!(",{at}={value}"));
    Ok(format!("steps:{}{}", values[0], later.collect::<String>()))
}

/// Returns a text, or a number with its unit.
fn scalar(value: &Value, unit: &str) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(format!("{number}{unit}")),
        Value::Float(number) if number.is_finite() => Some(format!("{number}{unit}")),
        _ => None,
    }
}

/// Returns a notation whose names of files are relative to `folder` as one with paths.
fn beside(folder: &Path, text: &str) -> String {
    let placed = |file: &str| folder.join(file.trim()).display().to_string();
    let Some((kind, rest)) = text.split_once(':').filter(|_| folder != Path::new("")) else {
        return text.into();
    };
    match kind {
        "trace" | "samples" | "table" => format!("{kind}:{}", placed(rest)),
        "cell-trains" => {
            let part = |part: &str| match part.trim().split_once('=') {
                None => placed(part),
                Some((key @ ("heavy" | "size_offsets"), file)) => format!("{key}={}", placed(file)),
                Some(_) => part.into(),
            };
            let parts: Vec<String> = rest.split(',').map(part).collect();
            format!("{kind}:{}", parts.join(","))
        }
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PathFile, String> {
        PathFile::parse(text, Path::new("paths/leo.toml"))
    }

    #[test]
    fn columns_become_steps_and_files_are_beside_the_path() {
        let path = read(
            r#"
            delay = "trace:delay.txt,step=10ms"
            [there]
            at = [0, 15, "30s"]
            rate = [20, 5.5, "800kbit"]
            loss = [0, 0.01, "2%"]
            [back]
            rate = "cell-trains:light.txt, heavy=/tmp/heavy.txt, idle=20ms"
            "#,
        );
        let [there, back] = path.unwrap().wires;
        assert_eq!(there["rate"], "steps:20Mbit,15s=5.5Mbit,30s=800kbit");
        assert_eq!(there["loss"], "steps:0,15s=0.01,30s=2%");
        assert_eq!(there["delay"], "trace:paths/delay.txt,step=10ms");
        assert_eq!(back["delay"], there["delay"]);
        assert_eq!(back["rate"], "cell-trains:paths/light.txt,heavy=/tmp/heavy.txt, idle=20ms");
    }

    #[test]
    fn what_is_no_path_is_refused_with_the_key() {
        for (text, problem) in [
            ("", "no key of a wire"),
            ("rate =", "string values must be quoted"),
            ("rat = '5Mbit'", "rat: no key of a wire; did you mean rate?"),
            ("[there]\nrate = 5", "there.rate: 5: expected a text, or a list"),
            ("there = 5", "there: 5: expected a table"),
            ("rate = [1, 2]", "rate: a list of values needs at"),
            ("at = [0, 1, 2]\nrate = [1, 2]", "rate: 2 values for 3 times"),
            ("at = [1, 2]\nrate = [1, 2]", "at: expected a list of times that begins with 0"),
            ("at = [0, 1]\nqueue = ['a', 'b']", "queue: only rate, delay, loss"),
            ("at = [0, 1]\nrate = [1, true]", "rate: true: expected a text or a number"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
