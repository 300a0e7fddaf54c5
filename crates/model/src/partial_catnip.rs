use crate::hysteresis::{Branch, MAX_PACKETS, Stage, join, moments};
use crate::{ModelError, Moments, Options, Path, check};
use catnip_base::Rng;

/// Number of high-priority packets at the beginning and at the end of a transfer.
const HIGH: u32 = 3;

/// Hysteresis model of a transfer whose first three and last three packets are lost with probability `p_high` and the others with
/// probability `p` (hysteresis paper, section 5).
///
/// A transfer has three consecutive stages, each with its own chain of cycles. A stage begins with the last window of the previous stage,
/// grown by one round and clamped to [2, Wmax]. The paper specifies this initial window for the third stage. For the second stage it is a
/// reconstruction; with it, the slow start of a transfer without loss takes as long as in a single stage. A transfer of at most six packets
/// has one stage, in which all packets have high priority. With p_high = p the result differs from that of the hysteresis model, because
/// each stage has its own loss phase.
#[derive(Clone, Debug)]
pub struct PartialCatnip {
    path: Path,
    stages: Vec<Stage>,
}

impl PartialCatnip {
    /// Creates the model of a transfer of `n` packets. `p_high` must be at most `p`.
    pub fn new(n: u32, p: f64, p_high: f64, path: &Path) -> Result<Self, ModelError> {
        check::packets_up_to("N", n, MAX_PACKETS)?;
        check::probability("p", p)?;
        check::probability("p_high", p_high)?;
        check::ensure(p_high <= p, "p_high", p_high, "at most p: high priority does not lose more")?;
        let path = path.check()?;
        let stage = |packets: u32, deferred: u32, p| {
            Stage::new(f64::from(packets), f64::from(deferred), p, &path, Options::default())
        };
        let stages = if n <= 2 * HIGH {
            vec![stage(n, 0, p_high)]
        } else {
            // The second stage counts the last packets as remaining data, because otherwise its slow starts would end too early.
            vec![stage(HIGH, 0, p_high), stage(n - HIGH, HIGH, p), stage(HIGH, 0, p_high)]
        };
        Ok(Self { path, stages })
    }

    /// Computes the exact mean and standard deviation of the latency. Each stage starts with the possible windows at the end of the
    /// previous stage.
    pub fn exact(&self) -> Moments {
        let mut branches = vec![Branch::certain(self.path.w1)];
        for (i, stage) in self.stages.iter().enumerate() {
            if i > 0 {
                let mut starts = Vec::with_capacity(branches.len());
                branches.iter().for_each(|b| join(&mut starts, b.with_window(self.initial_window(b.w))));
                branches = starts;
            }
            branches = stage.propagate(&self.path, &branches);
        }
        moments(&branches)
    }

    /// Draws a random latency in seconds.
    pub fn sample(&self, rng: &mut Rng) -> f64 {
        let (mut total, mut w) = (0.0, self.path.w1);
        for (i, stage) in self.stages.iter().enumerate() {
            if i > 0 {
                w = self.initial_window(w);
            }
            let (time, final_window) = stage.run(&self.path, w, |q| rng.uniform() <= q, |_| ());
            total += time;
            w = final_window;
        }
        total
    }

    fn initial_window(&self, w: f64) -> f64 {
        (w * (1.0 + 1.0 / self.path.b)).max(2.0).min(self.path.w_max)
    }
}
