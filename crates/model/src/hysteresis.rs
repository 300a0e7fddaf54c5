//! Hysteresis model: a transfer is a chain of cycles, each a slow start that ends in a loss. The window and the remaining data carry over
//! to the next cycle.

use crate::terms::{any_loss, q_hat, slow_start_packets, slow_start_time, slow_start_window, timeout_run};
use crate::{ModelError, Path, check};
use catnip_base::Rng;

/// Largest transfer in packets: a transfer has about N p cycles, each of which is computed.
pub(crate) const MAX_PACKETS: u32 = 10_000_000;

/// Options for details that the available text of the hysteresis paper does not specify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// True if the lost packet counts as one of the packets sent ([`slow_start_packets`]). If false, a transfer ends when less than one
    /// packet is left.
    pub plus_one: bool,
    /// True if the last cycle has a loss phase like the other cycles, weighted by the probability of a loss. If false, as in the text of
    /// the paper, the latency of a transfer with a single cycle does not depend on p at all.
    pub last_cycle_loss: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { plus_one: true, last_cycle_loss: true }
    }
}

/// Rule that replaces the random choice between timeout and fast retransmit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Timeout for every loss.
    AllTimeouts,
    /// Fast retransmit for every loss with Q < 1, and a timeout for every other loss.
    FastRetransmitWhenPossible,
}

/// Cycle of a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cycle {
    /// Packets left at the beginning of the cycle.
    pub d: f64,
    /// Initial window.
    pub w1: f64,
    /// Packets sent in the cycle.
    pub e: f64,
    /// Window at the end of the cycle, at most Wmax.
    pub w: f64,
    /// Duration of the slow start, including the wait for a delayed ACK, in seconds.
    pub t_ss_s: f64,
    /// Probability of a loss, by which the cost of the loss is multiplied.
    pub p_ss: f64,
    /// Probability that a loss ends in a timeout.
    pub q: f64,
    /// True if the cycle ends in a timeout.
    pub timeout: bool,
    /// Cost of the loss in seconds.
    pub t_loss_s: f64,
}

/// Mean and standard deviation of a latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Mean in seconds.
    pub mean_s: f64,
    /// Standard deviation in seconds.
    pub sd_s: f64,
}

/// Hysteresis model of one transfer (hysteresis paper, Eq. 3-12).
///
/// Every ACK adds a packet to the window in every cycle; the model has no congestion avoidance. Fast recovery takes one round trip and
/// halves the window. After a timeout, the window is 1 and the first packet waits for a delayed ACK. The model overestimates the latency of
/// long transfers with high loss.
#[derive(Clone, Copy, Debug)]
pub struct Hysteresis {
    path: Path,
    stage: Stage,
}

impl Hysteresis {
    /// Creates the model of a transfer of `n` packets, each lost with probability `p`.
    pub fn new(n: u32, p: f64, path: &Path, options: Options) -> Result<Self, ModelError> {
        check::packets_up_to("N", n, MAX_PACKETS)?;
        check::probability("p", p)?;
        let path = path.check()?;
        let cycles = f64::from(n) * p / (1.0 - p);
        let expected = "a smaller loss probability: without plus_one a cycle sends only (1-p)/p packets, and the number of cycles is too \
                        large";
        check::ensure(options.plus_one || cycles <= f64::from(MAX_PACKETS), "p", p, expected)?;
        Ok(Self { path, stage: Stage::new(f64::from(n), 0.0, p, &path, options) })
    }

    /// Returns the number of cycles, which does not depend on the random choice between timeouts and fast retransmits.
    pub fn cycles(&self) -> usize {
        self.stage.cycles.count()
    }

    /// Computes the exact mean and standard deviation of the latency by propagating windows with their probabilities from cycle to cycle.
    /// After a timeout the window is 1, so there are few different windows.
    pub fn exact(&self) -> Moments {
        moments(&self.stage.propagate(&self.path, &[Branch::certain(self.path.w1)]))
    }

    /// Draws a random latency in seconds. Each loss ends at random in a timeout or a fast retransmit, as in the paper.
    pub fn sample(&self, rng: &mut Rng) -> f64 {
        self.stage.run(&self.path, self.path.w1, |q| rng.uniform() <= q, |_| ()).0
    }

    /// Computes the latency in seconds if `rule` decides between timeout and fast retransmit.
    pub fn by_rule(&self, rule: Rule) -> f64 {
        self.stage.run(&self.path, self.path.w1, rule.timeout_decision(), |_| ()).0
    }

    /// Returns the cycles of a transfer if `rule` decides between timeout and fast retransmit.
    pub fn trace(&self, rule: Rule) -> Vec<Cycle> {
        let mut cycles = Vec::new();
        self.stage.run(&self.path, self.path.w1, rule.timeout_decision(), |cycle| cycles.push(cycle));
        cycles
    }
}

impl Rule {
    fn timeout_decision(self) -> impl FnMut(f64) -> bool {
        move |q| self == Self::AllTimeouts || q >= 1.0
    }
}

/// Data of a cycle that does not depend on the window.
#[derive(Clone, Copy, Debug)]
struct CyclePlan {
    d: f64,
    e: f64,
    p_ss: f64,
    is_last: bool,
}

#[derive(Clone, Copy, Debug)]
struct CycleIter {
    d: f64,
    /// Packets of `d` that a later stage sends.
    deferred: f64,
    p: f64,
    plus_one: bool,
    is_done: bool,
}

impl Iterator for CycleIter {
    type Item = CyclePlan;

    fn next(&mut self) -> Option<CyclePlan> {
        if self.is_done {
            return None;
        }
        let (d, own_packets) = (self.d, self.d - self.deferred);
        let e = slow_start_packets(d, self.p, self.plus_one).min(own_packets);
        self.is_done = if self.plus_one { e >= own_packets } else { own_packets - e < 1.0 };
        self.d -= e;
        Some(CyclePlan { d, e, p_ss: any_loss(self.p, own_packets), is_last: self.is_done })
    }
}

/// Sequence of cycles with the same loss probability.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    cycles: CycleIter,
    timeout_s: f64,
    last_cycle_loss: bool,
}

impl Stage {
    /// Creates a stage of `d` packets, the last `deferred` of which a later stage sends. In this stage, these packets only lengthen the
    /// slow starts.
    pub(crate) fn new(d: f64, deferred: f64, p: f64, path: &Path, options: Options) -> Self {
        let cycles = CycleIter { d, deferred, p, plus_one: options.plus_one, is_done: false };
        Self { cycles, timeout_s: timeout_run(p, path.t0_s), last_cycle_loss: options.last_cycle_loss }
    }

    /// Returns the duration in seconds, the final window and the timeout probability of a cycle that starts with window `w1`.
    fn slow_start(&self, path: &Path, plan: &CyclePlan, w1: f64) -> (f64, f64, f64) {
        let w = slow_start_window(plan.e, w1, path.b).min(path.w_max);
        let delack = if w1 <= 1.0 { path.delack_s } else { 0.0 };
        let time = slow_start_time(plan.e, w1, path.w_max, path.b, path.rtt_s) + delack;
        (time, w, q_hat(self.cycles.p, w))
    }

    /// Returns the costs of a timeout and of a fast retransmit in seconds, both multiplied by the probability of a loss.
    fn costs(&self, path: &Path, plan: &CyclePlan) -> (f64, f64) {
        if plan.is_last && !self.last_cycle_loss {
            return (0.0, 0.0);
        }
        (plan.p_ss * self.timeout_s, plan.p_ss * path.rtt_s)
    }

    /// Computes the cycles from the initial window `w1`. `is_timeout` decides between timeout and fast retransmit, given the probability of
    /// a timeout. Returns the latency in seconds and the last window.
    pub(crate) fn run(
        &self,
        path: &Path,
        mut w1: f64,
        mut is_timeout: impl FnMut(f64) -> bool,
        mut on_cycle: impl FnMut(Cycle),
    ) -> (f64, f64) {
        let (mut total, mut w) = (0.0, w1);
        for plan in self.cycles {
            let (t_ss_s, w_end, q) = self.slow_start(path, &plan, w1);
            let (timeout_cost, fast_cost) = self.costs(path, &plan);
            let timeout = is_timeout(q);
            let t_loss_s = if timeout { timeout_cost } else { fast_cost };
            let CyclePlan { d, e, p_ss, .. } = plan;
            on_cycle(Cycle { d, w1, e, w: w_end, t_ss_s, p_ss, q, timeout, t_loss_s });
            total += t_ss_s + t_loss_s;
            w = w_end;
            w1 = if timeout { 1.0 } else { w / 2.0 };
        }
        (total, w)
    }

    /// Computes all sequences of timeouts and fast retransmits at once. `start` has the possible windows at the start and the moments of
    /// the latency until then. Returns the possible windows at the end of the last cycle, with the moments of the latency until then.
    pub(crate) fn propagate(&self, path: &Path, start: &[Branch]) -> Vec<Branch> {
        let mut branches = start.to_vec();
        let mut next = Vec::new();
        for plan in self.cycles {
            let (timeout_cost, fast_cost) = self.costs(path, &plan);
            let mut after_timeout = Branch { w: 1.0, probability: 0.0, mean: 0.0, weighted_variance: 0.0 };
            next.clear();
            // Repeated fast retransmits move all windows towards a common value, so neighbouring branches merge.
            for branch in &branches {
                let (time, w, q) = self.slow_start(path, &plan, branch.w);
                let timeout = branch.after(q, time + timeout_cost, 1.0);
                let fast = branch.after(1.0 - q, time + fast_cost, w / 2.0);
                if plan.is_last {
                    join(&mut next, timeout.with_window(w));
                    join(&mut next, fast.with_window(w));
                } else {
                    after_timeout.merge(&timeout);
                    join(&mut next, fast);
                }
            }
            if !plan.is_last {
                join(&mut next, after_timeout);
            }
            std::mem::swap(&mut branches, &mut next);
        }
        branches
    }
}

/// Set of all sequences of timeouts and fast retransmits that lead to the same window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch {
    pub(crate) w: f64,
    probability: f64,
    /// Mean of the latency so far, in seconds.
    mean: f64,
    /// Probability times variance of the latency so far.
    weighted_variance: f64,
}

impl Branch {
    pub(crate) fn certain(w: f64) -> Self {
        Self { w, probability: 1.0, mean: 0.0, weighted_variance: 0.0 }
    }

    pub(crate) fn with_window(self, w: f64) -> Self {
        Self { w, ..self }
    }

    fn after(&self, share: f64, time: f64, w: f64) -> Self {
        Self {
            w,
            probability: self.probability * share,
            mean: self.mean + time,
            weighted_variance: self.weighted_variance * share,
        }
    }

    fn merge(&mut self, other: &Self) {
        if other.probability == 0.0 {
            return;
        }
        let probability = self.probability + other.probability;
        let (difference, share) = (other.mean - self.mean, other.probability / probability);
        self.weighted_variance +=
            other.weighted_variance + difference * difference * self.probability * share;
        self.mean += difference * share;
        self.probability = probability;
    }
}

/// Adds a branch to `branches`, or merges it with the last branch if the windows of both are equal except for rounding.
pub(crate) fn join(branches: &mut Vec<Branch>, branch: Branch) {
    if branch.probability == 0.0 {
        return;
    }
    match branches.last_mut() {
        Some(last) if (last.w - branch.w).abs() <= 1e-14 * branch.w => last.merge(&branch),
        _ => branches.push(branch),
    }
}

pub(crate) fn moments(branches: &[Branch]) -> Moments {
    let mut all = Branch { w: 0.0, probability: 0.0, mean: 0.0, weighted_variance: 0.0 };
    branches.iter().for_each(|branch| all.merge(branch));
    Moments { mean_s: all.mean, sd_s: (all.weighted_variance / all.probability).sqrt() }
}
