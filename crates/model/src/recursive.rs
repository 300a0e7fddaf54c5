use crate::terms::{any_loss, timeout_run};
use crate::{ModelError, Path, check};

/// Maximum number of table entries, of 8 bytes each. Larger transfers are refused, as are those above [`MAX_STEPS`].
const MAX_TABLE_ENTRIES: u64 = 50_000_000;
const MAX_STEPS: u64 = 10_000_000_000;

/// State of the window, with the indices of the possible next states.
struct State {
    window: usize,
    slow_start: bool,
    /// Next state after a round without a loss.
    grown: usize,
    /// Next state after fast recovery.
    halved: usize,
    /// Next state after a timeout and the retransmission.
    restarted: usize,
}

/// Computes the expected latency in seconds by recursion over the remaining packets, round by round. The model is similar to Mellia,
/// Stoica, Zhang, "TCP model for short lived flows", 2002, but is not their published model.
///
/// One fast retransmit recovers a lost packet if at least three packets follow it and all of them arrive. Otherwise a run of timeouts
/// recovers it; packets that arrived after the lost packet are then not retransmitted. The model includes congestion avoidance: above half
/// of the window at the last loss, the window grows by 1/b per round. `b` must be a whole number, and Wmax is rounded down. The
/// implementation uses a table of N entries per state of the window instead of recursive calls.
pub fn recursive_short_flow(n: u32, p: f64, path: &Path) -> Result<f64, ModelError> {
    check::packets("N", n)?;
    check::probability("p", p)?;
    let path = path.check()?;
    let (w_max, b) = path.integer_limits()?;
    // Only the initial window can exceed twice the data already sent, so larger limits have no effect.
    let first = (path.w1 * path.b) as u64;
    let w_max = u64::from(w_max).min((path.w1 as u64).max(2 * u64::from(n)));
    let b = u64::from(b);
    let exceeds_limit = |states: u64| {
        states.saturating_mul(u64::from(n)) > MAX_TABLE_ENTRIES
            || states.saturating_mul(u64::from(n)).saturating_mul(w_max.min(u64::from(n))) > MAX_STEPS
    };
    let expected =
        "fewer packets, a smaller Wmax or a smaller b: the table of the recursion grows with all three";
    check::ensure(!exceeds_limit(b.saturating_mul(w_max)), "N", f64::from(n), expected)?;
    let (states, start) = states(first as usize, w_max as usize, b as usize);
    check::ensure(!exceeds_limit(states.len() as u64), "N", f64::from(n), expected)?;

    let n = n as usize;
    let max_count = 2 * w_max as usize;
    let arrive: Vec<f64> = (0..=max_count).map(|c| 1.0 - any_loss(p, c as f64)).collect();
    let fast: Vec<f64> = (0..=max_count).map(|c| if c < 3 { 0.0 } else { arrive[c] }).collect();
    let delivered: Vec<usize> = (0..=max_count).map(|c| delivered(c, p)).collect();
    let run = timeout_run(p, path.t0_s) + path.rtt_s;

    let width = states.len();
    let mut table = vec![0.0; (n + 1) * width];
    for remaining in 1..=n {
        for (i, state) in states.iter().enumerate() {
            let sent = state.window.min(remaining);
            let delack = if state.window == 1 { path.delack_s } else { 0.0 };
            let mut time =
                path.rtt_s + delack + arrive[sent] * table[(remaining - sent) * width + state.grown];
            for j in 1..=sent {
                let clocked = if state.slow_start { (j - 1).div_ceil(b as usize) } else { 0 };
                let after = (remaining - j).min(sent - 1 + clocked);
                let timeout = run + table[(remaining - j - delivered[after]) * width + state.restarted];
                let recovered = path.rtt_s + table[(remaining - j - after) * width + state.halved];
                let g = fast[after];
                time += arrive[j - 1] * p * (g * recovered + (1.0 - g) * timeout);
            }
            table[remaining * width + i] = time;
        }
    }
    Ok(table[n * width + start])
}

/// Returns the expected number, rounded down, of the `c` packets after a lost packet that arrive if fast recovery fails.
fn delivered(c: usize, p: f64) -> usize {
    let packets = c as f64;
    let expected = packets * (1.0 - p);
    if c < 3 || p == 0.0 {
        return expected as usize;
    }
    // (c(1-p) - c g)/(1-g) with g = (1-p)^c, without cancellation.
    (expected * any_loss(p, packets - 1.0) / any_loss(p, packets)) as usize
}

/// Returns the possible states of a transfer, and the index of its first state. Congestion avoidance counts the window in units of 1/b
/// packet, `x`. Slow start follows a fixed series of windows that begins with 2, or with the initial window, and ends at the slow-start
/// threshold.
fn states(first: usize, w_max: usize, b: usize) -> (Vec<State>, usize) {
    let linear = |x: usize| x.min(b * w_max) - b;
    // First state of the slow start from window 2 to each threshold. A threshold is at most half of the largest window.
    let thresholds = (w_max / 2).max(2);
    let slow_start_windows = |from: usize, to: usize| {
        std::iter::successors(Some(from), move |w| Some(w + w.div_ceil(b))).take_while(move |w| *w < to)
    };
    let mut begins = vec![0; thresholds + 1];
    let mut count = b * w_max - b + 1;
    for (h, begin) in begins.iter_mut().enumerate() {
        *begin = count;
        count += slow_start_windows(2, h).count();
    }
    let half = |w: usize| (w / 2).max(2);
    let restarted = |h: usize| if 2 < h { begins[h] } else { linear(2 * b) };
    let state = |window: usize, slow_start, grown| {
        let h = half(window);
        State { window, slow_start, grown, halved: linear(b * h), restarted: restarted(h) }
    };
    let mut states: Vec<State> = (b..=b * w_max).map(|x| state(x / b, false, linear(x + 1))).collect();
    let mut push_slow_start = |from: usize, to: usize| {
        for w in slow_start_windows(from, to) {
            let next = w + w.div_ceil(b);
            let grown = if next < to { states.len() + 1 } else { linear(b * next) };
            states.push(state(w, true, grown));
        }
    };
    (0..=thresholds).for_each(|h| push_slow_start(2, h));
    let start = if first / b < w_max { count } else { linear(first) };
    push_slow_start((first / b).max(1), w_max);
    (states, start)
}
