//! Registry of all models by name, for the Python module, the command line and the check values. Parameters and quantities are plain
//! numbers.

use crate::{
    Chain, Hysteresis, ModelError, Options, PartialCatnip, Path, Rate, Rule, cardwell00, cardwell98, check,
    cubic, mathis, padhye_latency, pftk_approx, pftk_full, pftk_td_only, pftk_throughput,
    recursive_short_flow, round_trip_loss, sikdar_empirical, sikdar_grow, sikdar_packets, sikdar_rounds,
    sikdar_threecase, terms, tfrc_rfc5348, wzk_new,
};

/// Type of the quantity that is the main result of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// Factor without unit.
    Factor,
    /// Probability.
    Probability,
    /// Number of packets, such as a window.
    Packets,
    /// Number of rounds.
    Rounds,
    /// Rate in packets per second.
    RatePps,
    /// Time in seconds.
    TimeS,
}

impl ResultKind {
    /// Returns the type of the quantity in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Factor => "factor",
            Self::Probability => "probability",
            Self::Packets => "packets",
            Self::Rounds => "rounds",
            Self::RatePps => "rate in packets per second",
            Self::TimeS => "time in seconds",
        }
    }
}

/// Input of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Symbol in the papers. The name of a time ends in `_s`.
    pub name: &'static str,
    /// Unit; empty for a plain number.
    pub unit: &'static str,
    /// Default value; `None` if the parameter is required.
    pub default: Option<f64>,
    /// Meaning of the parameter.
    pub meaning: &'static str,
}

/// Result of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// Symbol in the papers. The name of a time ends in `_s`.
    pub name: &'static str,
    /// Unit; empty for a plain number.
    pub unit: &'static str,
    /// Meaning of the quantity.
    pub meaning: &'static str,
}

/// Model in the registry.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Name of the model, equal to the name of its function.
    pub name: &'static str,
    /// Title of the model.
    pub title: &'static str,
    /// Source of the model.
    pub reference: &'static str,
    /// Type of the main result.
    pub kind: ResultKind,
    /// Inputs in the order of the formula.
    pub parameters: &'static [Parameter],
    /// Results in the order of the formula. The first result is the main one.
    pub quantities: &'static [Quantity],
    /// Function that computes all `quantities` from all `parameters`, in the order of the two lists.
    pub evaluate: fn(&[f64], &mut [f64]) -> Result<(), ModelError>,
}

/// Defines the models, each as `"name": "title", "reference"; [parameters] => kind of result [quantities];` followed by
/// the formula that computes the quantities from the parameters.
macro_rules! models {
    ($($name:literal: $title:literal, $reference:literal;
        $parameters:expr => $kind:ident $quantities:expr; |$values:ident| $formula:expr;)*) => {
        /// All models: shared terms, steady-state rates, latencies.
        pub const MODELS: &[Model] = &[$(Model {
            name: $name,
            title: $title,
            reference: $reference,
            kind: ResultKind::$kind,
            parameters: &$parameters,
            quantities: &$quantities,
            evaluate: |$values, quantities| {
                quantities.copy_from_slice(&$formula);
                Ok(())
            },
        }),*];
    };
}

/// Returns the model with this name.
pub fn by_name(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.name == name)
}

const fn required(name: &'static str, unit: &'static str, meaning: &'static str) -> Parameter {
    Parameter { name, unit, default: None, meaning }
}

const fn optional(name: &'static str, unit: &'static str, default: f64, meaning: &'static str) -> Parameter {
    Parameter { name, unit, default: Some(default), meaning }
}

const fn quantity(name: &'static str, unit: &'static str, meaning: &'static str) -> Quantity {
    Quantity { name, unit, meaning }
}

const N: Parameter = required("N", "packets", "size of the transfer, a whole number");
const DATA: Parameter = required("data", "packets", "size of the download, a whole number");
const P: Parameter = required("p", "", "loss probability of each packet");
const P_HIGH: Parameter = optional("p_high", "", 0.0, "loss probability of high-priority packets, at most p");
const PL: Parameter = required("pl", "", "loss probability of each direction");
const RTT: Parameter = optional("RTT_s", "s", 0.2, "round trip time without the wait of a delayed ACK");
const DELAY: Parameter = required("delay_s", "s", "one-way delay");
const T0: Parameter = optional("T0_s", "s", 1.0, "mean first timeout of a run");
const W_MAX: Parameter = optional("Wmax", "packets", 24.0, "largest window");
const W_LIMIT: Parameter = optional("Wmax", "packets", f64::INFINITY, "largest window; inf for none");
const B: Parameter = optional("b", "packets/ACK", 2.0, "packets that one ACK acknowledges");
const W1: Parameter = optional("w1", "packets", 1.0, "initial window, limited to [1, Wmax]");
const W1_UNLIMITED: Parameter = optional("w1", "packets", 1.0, "initial window, at least 1");
const DELACK: Parameter = optional("delack_s", "s", 0.1, "expected wait of a delayed ACK for a lone packet");
const TS: Parameter = optional("Ts_s", "s", 3.0, "first timeout of the set-up");
const CLAMP: Parameter = optional("clamp_s", "s", 120.0, "largest timeout");
const PLUS_ONE: Parameter =
    optional("plus_one", "", 1.0, "1: the lost packet counts as sent; 0: it does not");
const LAST_LOSS: Parameter =
    optional("last_cycle_loss", "", 1.0, "1: the last cycle has a loss phase, weighted; 0: it has none");
const SLOW_START: Parameter = required("slow_start", "", "1: after a timeout; 0: after a fast retransmit");

const T: Quantity = quantity("T_s", "s", "latency");
const RATE: Quantity = quantity("rate_pps", "packets/s", "rate");
const TIMEOUT_Q: Quantity = quantity("Q", "", "probability that a loss ends in a timeout");

/// Returns the path for a model. `v` has the values of RTT, T0, Wmax and b.
fn path(v: &[f64], w1: f64, delack_s: f64) -> Path {
    Path { rtt_s: v[0], t0_s: v[1], w_max: v[2], b: v[3], w1, delack_s }
}

fn limit(w_max: f64) -> Option<f64> {
    (w_max != f64::INFINITY).then_some(w_max)
}

fn rate(code: f64) -> Result<Rate, ModelError> {
    match code {
        0.0 => Ok(Rate::Receive),
        1.0 => Ok(Rate::Send),
        2.0 => Ok(Rate::Approximate),
        _ => Err(ModelError::new("rate", code, "0 (receive), 1 (send) or 2 (approx)")),
    }
}

fn positive_packets(name: &'static str, d: f64) -> Result<(), ModelError> {
    check::ensure(d > 0.0 && d.is_finite(), name, d, "a positive, finite number of packets")
}

fn hysteresis(v: &[f64]) -> Result<Hysteresis, ModelError> {
    let options = Options {
        plus_one: check::flag("plus_one", v[8])?,
        last_cycle_loss: check::flag("last_cycle_loss", v[9])?,
    };
    Hysteresis::new(check::positive_integer("N", v[0])?, v[1], &path(&v[2..], v[6], v[7]), options)
}

fn model_c(loss: fn(f64) -> f64, v: &[f64]) -> Result<[f64; 10], ModelError> {
    let r = crate::model_c(check::positive_integer("data", v[0])?, v[1], v[2], v[3], v[4], v[5], v[6], loss)?;
    let f = r.phases;
    Ok([r.latency_s, r.p, f.l, f.n, f.u, f.v, f.e, f.t_xfer_s, f.t_rto_s, r.t_handshk_s])
}

const LOSSES: Quantity = quantity("l", "", "expected losses");
const TIMEOUTS: Quantity = quantity("n", "", "expected timeouts");
const RUNS: Quantity = quantity("u", "", "expected runs of timeouts");
const PHASES: Quantity = quantity("v", "", "expected phases of slow start");
const PHASE_PACKETS: Quantity = quantity("e", "packets", "packets per phase");
const T_XFER: Quantity = quantity("t_xfer_s", "s", "time in slow start");
const T_RTO: Quantity = quantity("t_RTO_s", "s", "time in timeouts of the data");
const T_HANDSHK: Quantity = quantity("t_handshk_s", "s", "time of the set-up with the request");
const DOWNLOAD: Quantity = quantity("t_s", "s", "time of the whole download");
const MODEL_C: [Quantity; 10] = [
    DOWNLOAD,
    quantity("p", "", "loss probability used in the phases"),
    LOSSES,
    TIMEOUTS,
    RUNS,
    PHASES,
    PHASE_PACKETS,
    T_XFER,
    T_RTO,
    T_HANDSHK,
];

models! {
    "f_p": "back-off factor of a run of timeouts", "PFTK 1998; hysteresis paper Eq. 10";
        [P] => Factor [quantity("f", "", "mean length of a run of timeouts in units of T0/(1-p)")];
        |v| {
            check::probability("p", v[0])?;
            [terms::backoff(v[0])]
        };
    "E_ZTO": "mean length of a run of timeouts", "PFTK 1998; hysteresis paper Eq. 9";
        [P, T0] => TimeS [quantity("E_ZTO_s", "s", "mean length of a run of timeouts")];
        |v| {
            check::probability("p", v[0])?;
            check::time("T0_s", v[1])?;
            [terms::timeout_run(v[0], v[1])]
        };
    "Q_hat": "probability that a loss ends in a timeout",
        "PFTK 1998; Cardwell-00 Eq. 17; hysteresis paper Eq. 8";
        [P, required("w", "packets", "window, a real number")] => Probability [TIMEOUT_Q];
        |v| {
            check::probability("p", v[0])?;
            positive_packets("w", v[1])?;
            [terms::q_hat(v[0], v[1])]
        };
    "Q_approx": "probability that a loss ends in a timeout, short form", "PFTK 1998";
        [P, B] => Probability [TIMEOUT_Q];
        |v| {
            check::probability("p", v[0])?;
            check::at_least_one("b", v[1])?;
            [terms::q_approx(v[0], v[1])]
        };
    "W": "mean window at a loss in congestion avoidance, without a largest window", "PFTK 1998";
        [P, B] => Packets [quantity("W", "packets", "window; inf for p = 0")];
        |v| {
            check::probability("p", v[0])?;
            check::at_least_one("b", v[1])?;
            [terms::window(v[0], v[1])]
        };
    "E_dss": "packets sent in slow start before a loss",
        "Cardwell-00 Eq. 5; hysteresis paper Eq. 3; the cap at d is defined here";
        [required("d", "packets", "packets to send, a real number"), P, PLUS_ONE]
        => Packets [quantity("E_dss", "packets", "expected packets")];
        |v| {
            positive_packets("d", v[0])?;
            check::probability("p", v[1])?;
            [terms::slow_start_packets(v[0], v[1], check::flag("plus_one", v[2])?)]
        };
    "E_Wss": "window at the end of slow start, without a largest window",
        "Cardwell-00 Eq. 11; hysteresis paper Eq. 5";
        [required("E", "packets", "packets sent, a real number"), W1_UNLIMITED, B]
        => Packets [quantity("E_Wss", "packets", "window")];
        |v| {
            positive_packets("E", v[0])?;
            positive_packets("w1", v[1])?;
            check::at_least_one("b", v[2])?;
            [terms::slow_start_window(v[0], v[1].max(1.0), v[2])]
        };
    "E_Tss": "time in slow start", "Cardwell-00 Eq. 15; hysteresis paper Eq. 6";
        [required("E", "packets", "packets sent, a real number"), RTT, W_MAX, B, W1]
        => TimeS [quantity("E_Tss_s", "s", "time")];
        |v| {
            positive_packets("E", v[0])?;
            let path = Path { rtt_s: v[1], w_max: v[2], b: v[3], w1: v[4], ..Path::default() }.check()?;
            [terms::slow_start_time(v[0], path.w1, path.w_max, path.b, path.rtt_s)]
        };
    "handshake": "expected time of the connection set-up", "Cardwell-00 Eq. 4";
        [optional("pf", "", 0.0, "loss probability towards the server, below 0.5"),
            optional("pr", "", 0.0, "loss probability from the server, below 0.5"), RTT, TS]
        => TimeS [quantity("E_Lh_s", "s", "time")];
        |v| {
            check::setup_loss("pf", v[0])?;
            check::setup_loss("pr", v[1])?;
            check::time("RTT_s", v[2])?;
            check::time("Ts_s", v[3])?;
            [terms::handshake(v[0], v[1], v[2], v[3])]
        };
    "mathis": "steady rate without timeouts, inverse square root of p", "Mathis et al. 1997";
        [P, RTT,
            optional("C", "", 1.224744871391589, "sqrt(3/2) with an ACK per packet, sqrt(3/4) with delayed ACKs"),
            W_LIMIT]
        => RatePps [RATE];
        |v| [mathis(v[0], v[1], v[2], limit(v[3]))?];
    "pftk_td_only": "PFTK steady rate without timeouts and without a largest window",
        "PFTK 1998, without the timeouts";
        [P, RTT, B] => RatePps [RATE];
        |v| [pftk_td_only(v[0], v[1], v[2])?];
    "pftk_full": "PFTK send rate B(p)", "PFTK 1998 Eq. 31; PFTK 2000";
        [P, RTT, T0, W_MAX, B] => RatePps [RATE];
        |v| [pftk_full(v[0], &path(&v[1..], 1.0, 0.0))?];
    "pftk_throughput": "PFTK receive rate T(p)", "PFTK 2000; Cardwell-00 Eq. 22";
        [P, RTT, T0, W_MAX, B] => RatePps [RATE];
        |v| [pftk_throughput(v[0], &path(&v[1..], 1.0, 0.0))?];
    "pftk_approx": "PFTK send rate, short form", "PFTK 1998";
        [P, RTT, T0, W_MAX, B] => RatePps [RATE];
        |v| [pftk_approx(v[0], &path(&v[1..], 1.0, 0.0))?];
    "tfrc_rfc5348": "rate of TFRC", "RFC 5348 section 3.1";
        [P, RTT, optional("t_RTO_s", "s", 1.0, "retransmission timeout"), B] => RatePps [RATE];
        |v| [tfrc_rfc5348(v[0], v[1], v[2], v[3])?];
    "cubic": "average rate of CUBIC without timeouts", "RFC 9438 section 5";
        [P, RTT, optional("C", "", 0.4, "aggressiveness of the window growth"),
            optional("beta", "", 0.7, "factor of the decrease"), W_LIMIT]
        => RatePps [RATE, quantity("W_cubic", "packets", "average window of CUBIC"),
            quantity("W_reno_friendly", "packets", "average window of the Reno-friendly region")];
        |v| {
            let r = cubic(v[0], v[1], v[2], v[3], limit(v[4]))?;
            [r.rate_pps, r.w_cubic, r.w_reno_friendly]
        };
    "padhye_latency": "latency at the steady rate", "PFTK 1998, as compared in the hysteresis paper";
        [N, P, RTT, T0, W_MAX, B, DELACK,
            optional("rate", "", 1.0, "0: pftk_throughput; 1: pftk_full; 2: pftk_approx")]
        => TimeS [T];
        |v| {
            let rate = rate(v[7])?;
            [padhye_latency(check::positive_integer("N", v[0])?, v[1], &path(&v[2..], 1.0, v[6]), rate)?]
        };
    "cardwell98": "slow start alternating with runs of timeouts", "Cardwell-98; WZK section C.1";
        [N, P, RTT, T0, B, W1_UNLIMITED, DELACK,
            optional("use_Q", "", 1.0, "1: a loss is a timeout with probability Q_approx; 0: a loss is always a timeout")]
        => TimeS [T, LOSSES, TIMEOUT_Q, TIMEOUTS, RUNS, PHASES, PHASE_PACKETS, T_XFER, T_RTO];
        |v| {
            let use_q = check::flag("use_Q", v[7])?;
            let path = Path { rtt_s: v[2], t0_s: v[3], w_max: f64::MAX, b: v[4], w1: v[5], delack_s: v[6] };
            let r = cardwell98(check::positive_integer("N", v[0])?, v[1], &path, use_q)?;
            [r.latency_s, r.l, r.q, r.n, r.u, r.v, r.e, r.t_xfer_s, r.t_rto_s]
        };
    "cardwell00": "one slow start, one loss, the rest at the steady rate", "Cardwell-00 Eq. 5-22";
        [N, P, RTT, T0, W_MAX, B, W1, DELACK,
            optional("rate", "", 0.0, "0: pftk_throughput; 1: pftk_full; 2: pftk_approx")]
        => TimeS [T, quantity("E_dss", "packets", "packets sent in the first slow start"),
            quantity("E_Wss", "packets", "window at the end of the first slow start, without a largest window"),
            quantity("T_ss_s", "s", "duration of the first slow start"),
            quantity("l_ss", "", "probability that the first slow start ends in a loss"),
            TIMEOUT_Q, quantity("T_loss_s", "s", "expected time cost of this loss"),
            quantity("E_dca", "packets", "packets left for congestion avoidance"),
            quantity("T_ca_s", "s", "time in congestion avoidance")];
        |v| {
            let rate = rate(v[8])?;
            let r = cardwell00(check::positive_integer("N", v[0])?, v[1], &path(&v[2..], v[6], v[7]), rate)?;
            [r.latency_s, r.e_dss, r.e_wss, r.t_ss_s, r.l_ss, r.q, r.t_loss_s, r.e_dca, r.t_ca_s]
        };
    "sikdar_packets": "packets of a round of slow start with delayed ACKs",
        "Sikdar et al. 2001; hysteresis paper Eq. 1";
        [required("n", "rounds", "number of the round, from 1"), W_MAX]
        => Packets [quantity("packets", "packets", "packets")];
        |v| {
            let path = Path { w_max: v[1], ..Path::default() }.check()?;
            [sikdar_packets(check::positive_integer("n", v[0])?, path.integer_limits()?.0).into()]
        };
    "sikdar_rounds": "rounds of slow start with delayed ACKs of a transfer",
        "Sikdar et al. 2001; hysteresis paper Eq. 1";
        [N, W_MAX] => Rounds [quantity("rounds", "rounds", "rounds")];
        |v| {
            let path = Path { w_max: v[1], ..Path::default() }.check()?;
            [sikdar_rounds(check::positive_integer("N", v[0])?, path.integer_limits()?.0).into()]
        };
    "sikdar_grow": "rounds of the packets after a loss", "a reconstruction after Sikdar et al. 2001";
        [required("m", "packets", "packets, a whole number"),
            required("h", "packets", "window at which growth becomes linear, a whole number"), SLOW_START, B,
            W_MAX]
        => Rounds [quantity("rounds", "rounds", "rounds")];
        |v| {
            let (m, h) = (check::positive_integer("m", v[0])?, check::positive_integer("h", v[1])?);
            let slow_start = check::flag("slow_start", v[2])?;
            let (w_max, b) = Path { b: v[3], w_max: v[4], ..Path::default() }.check()?.integer_limits()?;
            [sikdar_grow(m.into(), h, slow_start, b, w_max).into()]
        };
    "sikdar_threecase": "no loss, one loss, several losses (a reconstruction)",
        "a reconstruction after Sikdar et al. 2001, without the published numbers";
        [N, P, RTT, T0, W_MAX, B, DELACK]
        => TimeS [T, quantity("t_nl_s", "s", "latency without a loss"),
            quantity("t_sl_s", "s", "latency with one loss"),
            quantity("t_ml_s", "s", "latency with several losses"),
            quantity("P0", "", "probability of no loss"), quantity("P1", "", "probability of one loss"),
            quantity("P2", "", "probability of several losses")];
        |v| {
            let r = sikdar_threecase(check::positive_integer("N", v[0])?, v[1], &path(&v[2..], 1.0, v[6]))?;
            [r.latency_s, r.t_nl_s, r.t_sl_s, r.t_ml_s, r.p0, r.p1, r.p2]
        };
    "sikdar_empirical": "fitted closed form (a reconstruction)",
        "a reconstruction after Sikdar et al. 2003, as quoted in later literature";
        [N, P, RTT, W_MAX] => TimeS [T];
        |v| [sikdar_empirical(check::positive_integer("N", v[0])?, v[1], v[2], v[3])?];
    "hysteresis": "chain of slow starts, each starting from the window of the previous one, exact mean",
        "hysteresis paper Eq. 3-12";
        [N, P, RTT, T0, W_MAX, B, W1, DELACK, PLUS_ONE, LAST_LOSS]
        => TimeS [quantity("exact_mean_s", "s", "mean latency"),
            quantity("exact_sd_s", "s", "standard deviation of the latency"),
            quantity("T_all_rto_s", "s", "latency if every loss is a timeout"),
            quantity("T_fast_retransmit_when_possible_s", "s",
                     "latency if a loss is a timeout only for Q = 1"),
            quantity("cycles", "", "cycles")];
        |v| {
            let model = hysteresis(v)?;
            let moments = model.exact();
            [moments.mean_s, moments.sd_s, model.by_rule(Rule::AllTimeouts),
             model.by_rule(Rule::FastRetransmitWhenPossible), model.cycles() as f64]
        };
    "hysteresis_trace": "one cycle of the hysteresis model, with a rule instead of random draws",
        "hysteresis paper Eq. 3-12";
        [N, P, RTT, T0, W_MAX, B, W1, DELACK, PLUS_ONE, LAST_LOSS,
            optional("rule", "", 1.0, "0: every loss is a timeout; 1: a loss is a timeout only for Q = 1"),
            optional("cycle", "", 1.0, "number of the cycle, from 1")]
        => Packets [quantity("d", "packets", "packets left at the start of the cycle"),
            quantity("w1", "packets", "initial window of the cycle"),
            quantity("E", "packets", "packets sent in the cycle"),
            quantity("W", "packets", "window at the end of the cycle, at most Wmax"),
            quantity("Tss_incl_delack_s", "s", "time of the slow start and of the delayed ACK"),
            quantity("p_ss", "", "probability of a loss"), TIMEOUT_Q,
            quantity("rto", "", "1 if the cycle ends in a timeout"), quantity("Tloss_s", "s", "cost of the loss")];
        |v| {
            let rule = match check::flag("rule", v[10])? {
                true => Rule::FastRetransmitWhenPossible,
                false => Rule::AllTimeouts,
            };
            let cycles = hysteresis(v)?.trace(rule);
            let n = check::positive_integer("cycle", v[11])?;
            let c = cycles.get(n as usize - 1).ok_or_else(|| {
                ModelError::new("cycle", v[11], format!("at most {}, the number of cycles", cycles.len()))
            })?;
            let rto = f64::from(u8::from(c.timeout));
            [c.d, c.w1, c.e, c.w, c.t_ss_s, c.p_ss, c.q, rto, c.t_loss_s]
        };
    "partial_catnip": "hysteresis model with fewer losses of the first and last three packets, exact mean",
        "hysteresis paper section 5; the window of the second step is a reconstruction";
        [N, P, P_HIGH, RTT, T0, W_MAX, B, W1, DELACK]
        => TimeS [quantity("exact_mean_s", "s", "mean latency"),
            quantity("exact_sd_s", "s", "standard deviation of the latency")];
        |v| {
            let path = path(&v[3..], v[7], v[8]);
            let r = PartialCatnip::new(check::positive_integer("N", v[0])?, v[1], v[2], &path)?.exact();
            [r.mean_s, r.sd_s]
        };
    "wzk_chain": "expected time in timeouts of a chain of packets, exact",
        "WZK Fig. 5; the recursion is defined here";
        [DATA, P, optional("IT0_s", "s", 0.2, "timeout from the round trip time"),
            optional("r0_s", "s", 3.0, "first timeout"), CLAMP]
        => TimeS [quantity("t_RTO_s", "s", "expected time in timeouts")];
        |v| {
            let packets = check::positive_integer("data", v[0])?;
            [Chain { packets, p: v[1], it0_s: v[2], r0_s: v[3], clamp_s: v[4] }.exact()?]
        };
    "wzk_new": "set-up, slow-start phases and a chain of timeouts", "WZK, the new model; Fig. 5";
        [DATA, PL, DELAY, B, TS, CLAMP]
        => TimeS [DOWNLOAD, quantity("p", "", "probability that a packet or its ACK is lost"), LOSSES,
            TIMEOUTS, RUNS, PHASES, PHASE_PACKETS, quantity("w", "packets", "initial window"),
            quantity("IT0_s", "s", "timeout from the round trip time"), T_XFER, T_RTO,
            quantity("ths_RTO1_s", "s", "expected timeouts of the SYN"),
            quantity("ths_RTO2_s", "s", "expected timeouts of the request"), T_HANDSHK];
        |v| {
            let r = wzk_new(check::positive_integer("data", v[0])?, v[1], v[2], v[3], v[4], v[5])?;
            let f = r.phases;
            [r.latency_s, r.p, f.l, f.n, f.u, f.v, f.e, r.w, r.it0_s, f.t_xfer_s, r.t_rto_s, r.ths_rto1_s,
             r.ths_rto2_s, r.t_handshk_s]
        };
    "model_c_low": "Model C with the loss probability of one direction",
        "WZK section C.1; the form of the set-up is a reconstruction";
        [DATA, PL, DELAY, T0, B, W1_UNLIMITED, TS] => TimeS MODEL_C;
        |v| model_c(|pl| pl, v)?;
    "model_c_high": "Model C with the probability that a packet or its ACK is lost",
        "WZK section C.1; the form of the set-up is a reconstruction";
        [DATA, PL, DELAY, T0, B, W1_UNLIMITED, TS] => TimeS MODEL_C;
        |v| model_c(round_trip_loss, v)?;
    "recursive_short_flow": "recursion over the remaining packets, round by round",
        "defined here, following the approach of Mellia, Stoica, Zhang 2002; not their published model";
        [N, P, RTT, T0, W_MAX, B, W1, DELACK] => TimeS [T];
        |v| [recursive_short_flow(check::positive_integer("N", v[0])?, v[1], &path(&v[2..], v[6], v[7]))?];
}
