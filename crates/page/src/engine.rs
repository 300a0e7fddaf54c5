//! Questions about scenarios, and their answers.

use crate::Message;
use crate::message::split;
use catnip_lab::{Bundle, InputError, Plan, Scenario, fingerprint};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Engine with the scenarios that were opened last, each in a slot of its own.
#[derive(Debug, Default)]
pub struct Engine {
    open: BTreeMap<u32, Scenario>,
}

/// Question, whose arrays, such as the contents of files, are in the message that has it.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
enum Question {
    /// Opens a scenario: its outline.
    Open {
        slot: u32,
        path: PathBuf,
        text: String,
        #[serde(default)]
        set: Vec<(String, String)>,
        /// Offset and length of the contents of each file, by path relative to the scenario.
        #[serde(default)]
        files: BTreeMap<PathBuf, (usize, usize)>,
    },
    /// Fingerprint of a run of an open scenario.
    Fingerprint { slot: u32, variant: String, seed: u64 },
}

/// Reason why a question has no answer.
#[derive(Debug)]
enum Refusal {
    Input(InputError),
    Question(String),
}

impl From<InputError> for Refusal {
    fn from(error: InputError) -> Self {
        Self::Input(error)
    }
}

impl Engine {
    /// Answers a question, given as the bytes of a [`Message`]. The reply has the key `error` if there is no answer.
    pub fn answer(&mut self, question: &[u8]) -> Vec<u8> {
        let answered =
            split(question).ok_or(Refusal::Question("no message".into())).and_then(|(text, arrays)| {
                let question =
                    serde_json::from_slice(text).map_err(|error| Refusal::Question(error.to_string()))?;
                self.answer_to(question, arrays)
            });
        let message = answered.unwrap_or_else(|refusal| {
            let told = match refusal {
                Refusal::Input(error) => error.to_string(),
                Refusal::Question(why) => why,
            };
            Message::new(json!({ "error": told }))
        });
        message.into_bytes()
    }

    fn answer_to(&mut self, question: Question, arrays: &[u8]) -> Result<Message, Refusal> {
        match question {
            Question::Open { slot, path, text, set, files } => {
                self.open.remove(&slot);
                let files = files.into_iter().map(|(path, (at, len))| {
                    let bytes = at.checked_add(len).and_then(|end| arrays.get(at..end));
                    bytes.map(|bytes| (path, bytes.into()))
                });
                let files = files.collect::<Option<_>>();
                let files =
                    files.ok_or(Refusal::Question("a file is beyond the end of the arrays".into()))?;
                let scenario = Scenario::of_bundle(&Bundle { path, text, set, files })?;
                let outline = outline(&scenario);
                self.open.insert(slot, scenario);
                Ok(outline)
            }
            Question::Fingerprint { slot, variant, seed } => {
                let print = fingerprint(self.plan(slot, &variant)?, seed);
                Ok(Message::new(json!({ "fingerprint": format!("{print:016x}") })))
            }
        }
    }

    fn plan(&self, slot: u32, variant: &str) -> Result<&Plan, Refusal> {
        let scenario =
            self.open.get(&slot).ok_or(Refusal::Question(format!("nothing is open in slot {slot}")))?;
        Ok(scenario.plan(variant)?)
    }
}

fn outline(scenario: &Scenario) -> Message {
    let variants: Vec<&str> = scenario.variants().filter(|name| scenario.plan(name).is_ok()).collect();
    Message::new(json!({
        "id": scenario.id,
        "title": scenario.title,
        "variants": variants,
        "warnings": scenario.warnings,
    }))
}
