use super::{Stage, StageKind, lost_if};
use crate::schedule::{Position, Schedule, TraceName};
use crate::{DropReason, Packet};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Share, Time};

/// Configuration of independent losses with a probability that changes over time.
#[derive(Clone, Debug, PartialEq)]
pub struct LossOverTimeSpec(Values);

#[derive(Clone, Debug, PartialEq)]
enum Values {
    Read(Schedule<Share>),
    /// File that has not been read. No packet is lost.
    Unread(TraceName),
}

impl Kind for LossOverTimeSpec {
    const USAGE: &'static [Usage] = &[
        ("steps:0%,15s=1%", "loses each packet with a probability that changes at the given times"),
        (
            "trace:FILE[,step=10ms][,end=hold]",
            "loses each packet with a recorded probability (0.02 or 2%), one per line, or after a time in s",
        ),
    ];
    const EXAMPLES: &'static [&'static str] = &["steps:50%,1s=10%", "trace:loss.txt,step=10ms"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        if text.name() == "steps" {
            return Schedule::parse_steps(text.rest()).map(|steps| Self(Values::Read(steps)));
        }
        let name = TraceName::parse(text.rest())?;
        if name.bytes.is_some() {
            return Err(text.error("trace:FILE without bytes="));
        }
        Ok(Self(Values::Unread(name)))
    }
    fn write(&self, to: &mut Written) {
        match &self.0 {
            Values::Read(schedule) => to.name(&schedule.to_string()),
            Values::Unread(name) => to.name(&name.to_string()),
        };
    }
}

impl LossOverTimeSpec {
    /// Returns the losses with the values of the file, which `open` reads.
    pub(super) fn opened(
        self,
        open: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<Self, ParseError> {
        let Values::Unread(name) = self.0 else { return Ok(self) };
        let text = name.to_string();
        let invalid = |problem: String| ParseError::new(text.as_str(), format!("a valid trace: {problem}"));
        let lines = open(&name.file).map_err(invalid)?;
        let file = name.file.clone();
        let read =
            Schedule::recorded(name, &lines).map_err(|problem| invalid(format!("{file}: {problem}")))?;
        Ok(Self(Values::Read(read)))
    }
}

impl StageKind for LossOverTimeSpec {
    type Stage = Box<dyn Stage>;
    fn build(&self, rng: Rng) -> Box<dyn Stage> {
        let schedule = match &self.0 {
            Values::Read(schedule) => Some(schedule.clone()),
            Values::Unread(_) => None,
        };
        Box::new(LossOverTime { schedule, position: Position::default(), rng })
    }
}

/// Stage that drops packets at random, with the probability of the time.
#[derive(Debug)]
struct LossOverTime {
    schedule: Option<Schedule<Share>>,
    position: Position,
    rng: Rng,
}

impl Stage for LossOverTime {
    fn pass(&mut self, now: Time, _packet: &mut Packet) -> Result<(), DropReason> {
        let Some(schedule) = &self.schedule else { return Ok(()) };
        schedule.seek(&mut self.position, now);
        let Share(probability) = schedule.value(self.position);
        lost_if(self.rng.chance(probability))
    }
}
