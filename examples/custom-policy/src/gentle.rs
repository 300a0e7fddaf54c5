use catnip_base::ParseError;
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_tcp::control::{Ack, Cause, Congestion, CongestionControl, Control, ControlKind, Phase, Start};

/// Configuration of [`Gentle`], `gentle:KEEP` in a scenario.
#[derive(Debug)]
pub(crate) struct GentleSpec {
    keep: f64,
}

impl Kind for GentleSpec {
    const USAGE: &'static [Usage] = &[("gentle:KEEP", "Reno that keeps this share of its window at a loss")];
    const EXAMPLES: &'static [&'static str] = &["gentle:0.8"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let keep = text.value("a share, as in gentle:0.7")?;
        if (0.0..1.0).contains(&keep) { Ok(Self { keep }) } else { Err(text.error("a share in [0, 1)")) }
    }
    fn write(&self, to: &mut Written) {
        to.name("gentle").value(self.keep);
    }
}

impl ControlKind for GentleSpec {
    type Control = Box<dyn CongestionControl>;
    fn build(&self, start: &Start) -> Self::Control {
        let segment = f64::from(start.segment_bytes);
        let cwnd = f64::from(start.window) * segment;
        Box::new(Gentle { keep: self.keep, segment, cwnd, ssthresh: None })
    }
}

/// Reno that keeps a configured share of cwnd after a loss. Segment size, cwnd and ssthresh are in bytes.
#[derive(Debug)]
pub(crate) struct Gentle {
    keep: f64,
    segment: f64,
    cwnd: f64,
    ssthresh: Option<f64>,
}

impl CongestionControl for Gentle {
    fn control(&self) -> Control {
        Control { cwnd: self.cwnd as u64, ssthresh: self.ssthresh.map(|bytes| bytes as u64) }
    }

    fn phase(&self, _unsent: u64) -> Phase {
        if self.ssthresh.is_none_or(|bytes| self.cwnd < bytes) {
            Phase::SlowStart
        } else {
            Phase::CongestionAvoidance
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        if ack.cwnd_limited {
            self.cwnd += match self.phase(ack.unsent) {
                Phase::SlowStart => (ack.bytes as f64).min(self.segment),
                Phase::CongestionAvoidance => self.segment * self.segment / self.cwnd,
            };
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        let kept = (self.keep * self.cwnd).max(2.0 * self.segment);
        self.ssthresh = Some(kept);
        self.cwnd = if event.cause == Cause::Restart { self.segment } else { kept };
    }

    fn set_cwnd(&mut self, cwnd: u64, ssthresh: Option<u64>) {
        self.cwnd = cwnd as f64;
        self.ssthresh = ssthresh.map(|bytes| bytes as f64).or(self.ssthresh);
    }
}
