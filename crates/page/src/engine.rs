//! Questions about scenarios, and their answers.

use crate::Message;
use crate::message::split;
use crate::models;
use crate::study::{Study, interval};
use catnip_base::Span;
use catnip_lab::{
    Bundle, Column, InputError, LogFailure, LoggedRun, Plan, QlogOutput, Scenario, Table, TableName,
    TimelineRequest, fingerprint, log_run, run_one, summary, timeline,
};
use catnip_sim::Memory;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

/// Engine with the scenarios that were opened last, each in a slot of its own.
#[derive(Debug, Default)]
pub struct Engine {
    open: BTreeMap<u32, Scenario>,
    /// Study of each slot.
    studies: BTreeMap<u32, Study>,
}

/// Question, whose arrays, such as the contents of files, are in the message that has it.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
enum Question {
    /// Opens a scenario, or one variant of it: its outline.
    Open {
        slot: u32,
        path: PathBuf,
        text: String,
        #[serde(default)]
        set: Vec<(String, String)>,
        only: Option<String>,
        /// Offset and length of the contents of each file, by path relative to the scenario.
        #[serde(default)]
        files: BTreeMap<PathBuf, (usize, usize)>,
    },
    /// Keys of a variant of an open scenario, without those that were set: `document`; and the scenario with them as one file: `text`.
    Document { slot: u32, variant: String },
    /// Fingerprint of a run of an open scenario, or of its first seconds.
    Fingerprint { slot: u32, variant: String, seed: u64, until_s: Option<f64> },
    /// Tables of a run of an open scenario.
    Run { slot: u32, variant: String, seed: u64, tables: Vec<String> },
    /// Timeline of a run of an open scenario: the tables of [`catnip_lab::Timeline`].
    Timeline {
        slot: u32,
        variant: String,
        seed: u64,
        samples: u32,
        range_s: Option<(f64, f64)>,
        #[serde(default)]
        is_brief: bool,
        connections: Option<Vec<u64>>,
        followed: Option<u64>,
    },
    /// Runs with `seeds` seeds from `first` on, and their summary. Those that the variant has had since its slot was opened are not
    /// repeated.
    Study {
        slot: u32,
        variant: String,
        #[serde(default = "one")]
        first: u64,
        seeds: u64,
    },
    /// Change of a mean with its interval, `[mean, low, high, n]` as shares, or null; values with the same index are paired.
    Change { ours: Vec<Option<f64>>, base: Vec<Option<f64>> },
    /// Predictions of the models that apply to a variant with a single transfer: labels and times in seconds.
    Models { slot: u32, variant: String },
    /// Log of a run of an open scenario: the array `log`.
    Log { slot: u32, variant: String, seed: u64, format: LogFormat },
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LogFormat {
    Pcapng,
    Qlog,
}

fn one() -> u64 {
    1
}

/// Largest memory that the network of a scenario may need, bytes.
const MOST_MEMORY: u64 = 2 << 30;
/// Largest number of times that a run asks whether it may go on, which it does every few thousand events.
const MOST_LOOKS: u32 = 20_000;
/// Largest number of samples of a timeline.
const MOST_SAMPLES: u32 = 100_000;

/// Reason why a question has no answer, as text.
#[derive(Debug)]
struct Refusal(String);

impl From<InputError> for Refusal {
    fn from(error: InputError) -> Self {
        Self(error.to_string())
    }
}

impl Engine {
    /// Answers a question, given as the bytes of a [`Message`]. The reply has the key `error` if there is no answer.
    pub fn answer(&mut self, question: &[u8]) -> Vec<u8> {
        let message =
            self.answer_to(question).unwrap_or_else(|Refusal(why)| Message::new(json!({ "error": why })));
        message.into_bytes()
    }

    fn answer_to(&mut self, question: &[u8]) -> Result<Message, Refusal> {
        let (text, arrays) = split(question).ok_or_else(|| refusal("no message"))?;
        match serde_json::from_slice(text).map_err(|error| refusal(error.to_string()))? {
            Question::Open { slot, path, text, set, only, files } => {
                self.open.remove(&slot);
                self.studies.remove(&slot);
                let bundle = Bundle { path, text, set, files: contents(files, arrays)? };
                let scenario = Scenario::variant_of_bundle(&bundle, only.as_deref())?;
                let outline = outline(&scenario);
                self.open.insert(slot, scenario);
                Ok(outline)
            }
            Question::Document { slot, variant } => {
                let scenario = self.scenario(slot)?;
                let document = scenario.document(&variant)?;
                Ok(Message::new(json!({ "document": document, "text": scenario.text })))
            }
            Question::Fingerprint { slot, variant, seed, until_s } => {
                let plan = self.plan(slot, &variant)?;
                let end = until_s.map_or(Ok(plan.duration()), span)?;
                let print = fingerprint(&plan.until(end), seed);
                Ok(Message::new(json!({ "fingerprint": format!("{print:016x}") })))
            }
            Question::Run { slot, variant, seed, tables } => {
                let named = |name: &String| TableName::all().into_iter().find(|table| table.name() == name);
                let tables =
                    tables.iter().map(|name| named(name).ok_or_else(|| refusal(format!("no table {name}"))));
                let tables: Vec<TableName> = tables.collect::<Result<_, _>>()?;
                let plan = self.plan(slot, &variant)?;
                let rows = run_one(plan, seed, &tables, None, &mut bounded(), &mut Memory::default());
                let rows = rows.ok_or_else(too_long)?;
                Ok(of_tables(json!({}), rows.iter().map(|(name, table)| (name.name(), table))))
            }
            Question::Timeline { slot, variant, seed, samples, range_s, is_brief, connections, followed } => {
                let range =
                    range_s.map(|(from_s, until_s)| Ok::<_, Refusal>((span(from_s)?, span(until_s)?)));
                let range = range.transpose()?;
                if samples > MOST_SAMPLES {
                    return Err(refusal(format!("{samples} samples: expected at most {MOST_SAMPLES}")));
                }
                let request = TimelineRequest { seed, range, is_brief, samples, connections, followed };
                let drawn = timeline(self.plan(slot, &variant)?, &request, &mut bounded());
                let drawn = drawn.ok_or_else(too_long)?;
                let range_s = [drawn.range.0.as_secs(), drawn.range.1.as_secs()];
                let head = json!({ "nodes": drawn.nodes, "range_s": range_s, "left_out": drawn.left_out });
                Ok(of_tables(head, drawn.tables.iter().map(|(name, table)| (*name, table))))
            }
            Question::Study { slot, variant, first, seeds } => self.study(slot, &variant, first, seeds),
            Question::Change { ours, base } => {
                let known = |values: Vec<Option<f64>>| -> Vec<f64> {
                    values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect()
                };
                let change = summary::relative_change(&known(ours), &known(base));
                Ok(Message::new(json!({ "change": change.as_ref().map(interval) })))
            }
            Question::Models { slot, variant } => {
                let flow = self.plan(slot, &variant)?.single_flow();
                let predictions = flow.as_ref().map(models::predictions);
                let p = flow.as_ref().map(|flow| flow.p);
                Ok(Message::new(json!({ "predictions": predictions, "p": p })))
            }
            Question::Log { slot, variant, seed, format } => {
                let mut message = Message::new(json!({}));
                message.bytes("log", &self.log(slot, &variant, seed, format)?);
                Ok(message)
            }
        }
    }

    fn study(&mut self, slot: u32, variant: &str, first: u64, seeds: u64) -> Result<Message, Refusal> {
        let known = self.studies.remove(&slot).filter(|study| study.is_of(variant, first));
        let mut study = known.unwrap_or_else(|| Study::of(variant, first));
        let plan = self.plan(slot, variant)?;
        while study.seeds() < seeds {
            study.run_next(plan, &mut bounded()).ok_or_else(too_long)?;
        }
        let summary = study.summary();
        self.studies.insert(slot, study);
        Ok(summary)
    }

    fn log(&self, slot: u32, variant: &str, seed: u64, format: LogFormat) -> Result<Vec<u8>, Refusal> {
        let _ = self.plan(slot, variant)?;
        let run = LoggedRun { variant, seed, packets_at: &[] };
        let mut log = Vec::new();
        let (packets, qlog) = match format {
            LogFormat::Pcapng => (Some(&mut log), None),
            LogFormat::Qlog => (None, Some(QlogOutput { out: &mut log, store: Cursor::new(Vec::new()) })),
        };
        match log_run(&self.open[&slot], &run, packets, qlog, &mut bounded()) {
            Ok(true) => Ok(log),
            Ok(false) => Err(too_long()),
            Err(LogFailure::Input(error)) => Err(error.into()),
            Err(LogFailure::Packets(error) | LogFailure::Qlog(error)) => Err(refusal(error.to_string())),
        }
    }

    fn scenario(&self, slot: u32) -> Result<&Scenario, Refusal> {
        self.open.get(&slot).ok_or_else(|| refusal(format!("nothing is open in slot {slot}")))
    }

    fn plan(&self, slot: u32, variant: &str) -> Result<&Plan, Refusal> {
        let plan = self.scenario(slot)?.plan(variant)?;
        if plan.memory_bytes() > MOST_MEMORY {
            return Err(refusal(format!("{variant}: needs more than {} GB", MOST_MEMORY >> 30)));
        }
        Ok(plan)
    }
}

/// Returns the contents of files, each of which is a part of `arrays`, by its offset and length.
fn contents(
    files: BTreeMap<PathBuf, (usize, usize)>,
    arrays: &[u8],
) -> Result<BTreeMap<PathBuf, Arc<[u8]>>, Refusal> {
    let contents = files.into_iter().map(|(path, (at, len))| {
        let bytes = at.checked_add(len).and_then(|end| arrays.get(at..end));
        bytes.map(|bytes| (path, bytes.into()))
    });
    contents.collect::<Option<_>>().ok_or_else(|| refusal("a file is beyond the end of the arrays"))
}

/// Returns the outline of a scenario with the variants that can be simulated; others are for real hosts.
fn outline(scenario: &Scenario) -> Message {
    let planned = |name| scenario.plan(name).ok().map(|plan| (name, plan));
    let pairs_of =
        |(name, plan): (_, &Plan)| (name, plan.groups().map(|group| group.pairs.len()).sum::<usize>());
    let (variants, pairs): (Vec<&str>, Vec<usize>) =
        scenario.variants().filter_map(planned).map(pairs_of).unzip();
    Message::new(json!({
        "id": scenario.id,
        "title": scenario.title,
        "variants": variants,
        "warnings": scenario.warnings,
        "pairs": pairs,
        "seeds": scenario.seeds,
        "axes": scenario.axes.iter().map(|(key, _)| key).collect::<Vec<_>>(),
    }))
}

/// Returns a callback that ends a run after [`MOST_LOOKS`] calls.
fn bounded() -> impl FnMut() -> bool {
    let mut left = MOST_LOOKS;
    move || {
        left = left.saturating_sub(1);
        left > 0
    }
}

fn too_long() -> Refusal {
    refusal("the run has too many events for a page: try a shorter duration, or catnip run")
}

fn refusal(why: impl Into<String>) -> Refusal {
    Refusal(why.into())
}

fn span(seconds: f64) -> Result<Span, Refusal> {
    let is_time = (0.0..1e9).contains(&seconds);
    is_time.then(|| Span::from_secs_f64(seconds)).ok_or_else(|| refusal(format!("{seconds}: no time")))
}

/// Returns a message with the columns of tables as arrays named `table.column`, integers as floating-point numbers. Of a column of texts, the
/// array has indices into the list of its texts, which is the key of this name in the object `texts`.
fn of_tables<'a>(mut head: Value, tables: impl Iterator<Item = (&'a str, &'a Table)>) -> Message {
    let tables: Vec<_> = tables.collect();
    let mut names = serde_json::Map::new();
    let columns = tables.iter().flat_map(|&(table, rows)| {
        rows.columns().iter().map(move |(column, values)| (format!("{table}.{column}"), values))
    });
    let coded: Vec<_> = columns
        .map(|(name, values)| {
            let codes = match values {
                Column::Text(texts) => {
                    let (texts, codes) = texts.clone().into_parts();
                    names.insert(name.clone(), json!(texts.iter().map(|text| &**text).collect::<Vec<_>>()));
                    codes
                }
                _ => Vec::new(),
            };
            (name, values, codes)
        })
        .collect();
    head["texts"] = Value::Object(names);
    let mut message = Message::new(head);
    for (name, values, codes) in coded {
        match values {
            Column::Float(values) => message.floats(&name, values.iter().copied()),
            Column::Integer(values) => message.floats(&name, values.iter().map(|&value| value as f64)),
            Column::Text(_) => message.integers(&name, codes.into_iter()),
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
id = 'X'
title = 'One transfer'
seeds = 1
duration = '5s'
[node.server]
kind = 'host'
[node.client]
kind = 'host'
[link.line]
from = 'server'
to = 'client'
rate = '1Mbit'
delay = '10ms'
queue = 'drop-tail:10'
[traffic.transfer]
kind = 'bulk'
from = 'server'
to = 'client'
bytes = 100000
";

    fn ask(engine: &mut Engine, question: Value) -> Value {
        let text = question.to_string();
        let question = [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        let reply = engine.answer(&question);
        serde_json::from_slice(split(&reply).unwrap().0).unwrap()
    }

    fn opened() -> Engine {
        let mut engine = Engine::default();
        let outline = ask(&mut engine, json!({"ask": "open", "slot": 0, "path": "x.toml", "text": TEXT}));
        assert_eq!(outline["error"], Value::Null);
        assert_eq!((&outline["title"], &outline["pairs"]), (&json!("One transfer"), &json!([1])));
        engine
    }

    #[test]
    fn an_open_scenario_has_tables_timelines_and_logs() {
        let engine = &mut opened();
        let of = |ask: &str| json!({"ask": ask, "slot": 0, "variant": "default", "seed": 1});
        let with = |ask: &str, more: Value| {
            let mut question = of(ask);
            more.as_object().unwrap().iter().for_each(|(key, value)| question[key] = value.clone());
            question
        };
        let run = ask(engine, with("run", json!({"tables": ["groups"]})));
        assert_eq!(run["arrays"]["groups.finished"][2], 1, "{run}");
        assert_eq!(run["texts"]["groups.group"], json!(["transfer"]));
        let drawn = ask(engine, with("timeline", json!({"samples": 50})));
        assert_eq!((&drawn["range_s"][0], &drawn["nodes"]), (&json!(0.0), &json!(["client", "server"])));
        // Until the last event of the run, which is no longer than its duration.
        assert!((0.8..5.0).contains(&drawn["range_s"][1].as_f64().unwrap()), "{drawn}");
        assert_eq!(drawn["arrays"]["link_samples.rate_mbps"][2], 51);
        for format in ["pcapng", "qlog"] {
            let log = ask(engine, with("log", json!({"format": format})));
            assert!(log["arrays"]["log"][2].as_u64().unwrap() > 5000, "{format}");
        }
        assert_eq!(ask(engine, with("fingerprint", json!({})))["fingerprint"].as_str().unwrap().len(), 16);
    }

    #[test]
    fn what_has_no_answer_is_told_and_harms_nothing() {
        let engine = &mut opened();
        let told = |engine: &mut Engine, question: Value| {
            ask(engine, question)["error"].as_str().unwrap().to_string()
        };
        let wrong = TEXT.replace("drop-tail:10", "drop-tale:10");
        let open = |text: &str| json!({"ask": "open", "slot": 1, "path": "y.toml", "text": text});
        assert!(
            told(engine, open(&wrong))
                .starts_with("y.toml: link.line.queue: \"drop-tale:10\": expected one of")
        );
        assert!(told(engine, json!({"ask": "sing"})).contains("unknown variant `sing`"));
        let run = |slot: u32, variant: &str, table: &str| json!({"ask": "run", "slot": slot, "variant": variant, "seed": 1, "tables": [table]});
        assert_eq!(told(engine, run(7, "default", "groups")), "nothing is open in slot 7");
        assert_eq!(told(engine, run(0, "default", "nothing")), "no table nothing");
        assert!(told(engine, run(0, "other", "groups")).contains("other"));
        let of_nothing = engine.answer(b"");
        assert!(split(&of_nothing).unwrap().0.starts_with(b"{\"error\":\"no message\""));
        let timeline = |key: &str, value: Value| {
            let mut question =
                json!({"ask": "timeline", "slot": 0, "variant": "default", "seed": 1, "samples": 5});
            question[key] = value;
            question
        };
        assert_eq!(told(engine, timeline("range_s", json!([-1.0, 2.0]))), "-1: no time");
        let many = told(engine, timeline("samples", json!(4_000_000_000_u32)));
        assert_eq!(many, "4000000000 samples: expected at most 100000");
        assert_eq!(ask(engine, run(0, "default", "groups"))["error"], Value::Null);
    }

    #[test]
    fn a_run_may_have_only_so_many_events() {
        let mut may_go_on = bounded();
        assert_eq!((0..2 * MOST_LOOKS).filter(|_| may_go_on()).count() as u32, MOST_LOOKS - 1);
    }
}
