//! Predictions of the latency models for runs with a single transfer, to which they apply.

use catnip_lab::{Marking, SingleFlow};
use catnip_model::by_name;

/// Number of packets from which on the transfer time is about the number of packets over the steady rate.
const STEADY_PACKETS: u64 = 2000;
/// Loss from which on the time of a handshake has no mean.
const MOST_LOSS: f64 = 0.5;

/// Returns the label and the predicted time in seconds of each model that applies to a transfer, by its marking, loss and size. The time
/// includes that of the handshake, if the transfer has one.
pub(crate) fn predictions(flow: &SingleFlow) -> Vec<(&'static str, f64)> {
    if flow.handshake_s.is_some() && flow.p >= MOST_LOSS {
        return Vec::new();
    }
    let mut models: Vec<(&str, &str)> = match flow.marking {
        Marking::None => vec![("hysteresis", "hysteresis"), ("cardwell00", "Cardwell-00")],
        Marking::Ends => vec![("partial_catnip", "Partial CATNIP")],
        Marking::Other => Vec::new(),
    };
    if flow.marking == Marking::None && flow.packets >= STEADY_PACKETS {
        models.push(("padhye_latency", "PFTK, receive rate"));
    }
    let handshake_s = flow.handshake_s.map_or(Some(0.0), |first_s| {
        evaluate("handshake", &|symbol| match symbol {
            "pf" => Some(0.0),
            "Ts_s" => Some(first_s),
            _ => value(flow, symbol),
        })
    });
    let predicted = models.into_iter().filter_map(|(name, label)| {
        let time_s = evaluate(name, &|symbol| value(flow, symbol))?;
        Some((label, time_s + handshake_s?))
    });
    predicted.collect()
}

/// Returns the main result of a model whose parameters have these values, or their defaults; `None` if they have none.
fn evaluate(name: &str, value: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
    let model = by_name(name)?;
    let of = |parameter: &catnip_model::Parameter| value(parameter.name).or(parameter.default);
    let values: Vec<f64> = model.parameters.iter().map(of).collect::<Option<_>>()?;
    let mut quantities = vec![f64::NAN; model.quantities.len()];
    (model.evaluate)(&values, &mut quantities).ok()?;
    quantities.first().copied()
}

/// Returns the value that a transfer has for a symbol of the papers.
fn value(flow: &SingleFlow, symbol: &str) -> Option<f64> {
    Some(match symbol {
        "N" | "data" => flow.packets as f64,
        "p" | "pr" | "pl" => flow.p,
        "p_high" => flow.p_high.min(flow.p),
        "RTT_s" => flow.rtt_s,
        "T0_s" => flow.t0_s,
        "Ts_s" => flow.first_timeout_s,
        "Wmax" => flow.w_max as f64,
        "b" => f64::from(flow.b),
        "w1" => f64::from(flow.w1),
        "delack_s" => flow.delack_s,
        _ => return None,
    })
}
