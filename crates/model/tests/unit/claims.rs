//! Tests of properties of all models: ranges, limits, and how latencies and rates depend on the inputs. One test has the inputs for which a
//! model is not monotone.

use catnip_model::*;
use proptest::prelude::*;

fn all(model: &Model, values: &[f64]) -> Result<Vec<f64>, ModelError> {
    let mut out = vec![f64::NAN; model.quantities.len()];
    (model.evaluate)(values, &mut out).map(|()| out)
}

/// Returns the main result of the model `name` with the parameter values in `set`.
fn value(name: &str, set: &[(&str, f64)]) -> Result<f64, ModelError> {
    let model = by_name(name).unwrap();
    all(model, &inputs(model, set)).map(|out| out[0])
}

/// Returns the inputs of `model`: the values in `set`, otherwise the defaults, and small numbers for parameters without a default.
fn inputs(model: &Model, set: &[(&str, f64)]) -> Vec<f64> {
    let of = |p: &Parameter| {
        let alias = match p.name {
            "data" => "N",
            "pl" => "p",
            "delay_s" => "RTT_s",
            other => other,
        };
        let plain = match alias {
            "p" => 0.05,
            "slow_start" => 1.0,
            "RTT_s" => 0.1,
            _ => 7.0,
        };
        set.iter().find(|(key, _)| *key == alias).map_or(p.default.unwrap_or(plain), |(_, value)| *value)
    };
    model.parameters.iter().map(of).collect()
}

const LATENCIES: [&str; 11] = [
    "padhye_latency",
    "cardwell98",
    "cardwell00",
    "sikdar_threecase",
    "sikdar_empirical",
    "hysteresis",
    "partial_catnip",
    "wzk_new",
    "model_c_low",
    "model_c_high",
    "recursive_short_flow",
];
/// Models whose latency does not always grow with size or loss, because they round the number of rounds or the windows, or because the
/// formula is fitted.
const ROUNDED: [&str; 2] = ["sikdar_threecase", "sikdar_empirical"];

#[test]
fn every_parameter_is_refused_out_of_range_by_its_name() {
    for model in MODELS {
        for (i, parameter) in model.parameters.iter().enumerate() {
            let mut bad = vec![f64::NAN, -1.0, f64::NEG_INFINITY, f64::INFINITY];
            match parameter.name {
                // The models clamp the initial window to its range, but E_Wss requires a positive initial window.
                "w1" if model.name != "E_Wss" => bad.retain(|v| !v.is_finite()),
                "Wmax" if parameter.default == Some(f64::INFINITY) => bad.retain(|v| *v != f64::INFINITY),
                _ => {}
            }
            match parameter.name {
                "p" | "pl" | "p_high" | "pf" | "pr" => bad.extend([1.0, -1e-9]),
                "N" | "data" | "n" | "m" | "h" => bad.extend([0.0, 1.5]),
                "RTT_s" | "T0_s" | "IT0_s" | "w" | "d" | "E" => bad.push(0.0),
                "Wmax" | "b" => bad.push(0.999),
                _ => {}
            }
            for value in bad {
                let mut values = inputs(model, &[]);
                values[i] = value;
                let error =
                    all(model, &values).expect_err(&format!("{} {} {value}", model.name, parameter.name));
                let named = (error.parameter, error.value.to_string());
                assert_eq!(named, (parameter.name, value.to_string()), "{}: {error}", model.name);
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}

#[test]
fn models_of_short_flows_say_how_long_a_flow_may_be() {
    for (name, parameter) in [
        ("hysteresis", "N"),
        ("partial_catnip", "N"),
        ("sikdar_threecase", "N"),
        ("wzk_chain", "data"),
        ("wzk_new", "data"),
    ] {
        let error = value(name, &[("N", f64::from(u32::MAX))]).unwrap_err();
        assert_eq!(error.parameter, parameter, "{name}");
        assert!(error.to_string().contains("packets in this model of short flows"), "{name}: {error}");
    }
    // The command line accepts only whole numbers above 0, but a program may pass any number.
    let error = sikdar_empirical(0, 0.01, 0.1, 24.0).unwrap_err();
    assert_eq!(error.to_string(), "N = 0: expected a whole number of packets, at least 1");
}

#[test]
fn what_a_model_gives_is_said_as_its_first_quantity_has_it() {
    for model in MODELS {
        let (unit, name) = match model.kind {
            ResultKind::Factor => ("", "factor"),
            ResultKind::Probability => ("", "probability"),
            ResultKind::Packets => ("packets", "packets"),
            ResultKind::Rounds => ("rounds", "rounds"),
            ResultKind::RatePps => ("packets/s", "rate in packets per second"),
            ResultKind::TimeS => ("s", "time in seconds"),
        };
        assert_eq!((model.quantities[0].unit, model.kind.name()), (unit, name), "{}", model.name);
    }
}

#[test]
fn a_rate_is_chosen_by_its_number() {
    let path = Path::default();
    let rates = [pftk_throughput(0.05, &path), pftk_full(0.05, &path), pftk_approx(0.05, &path)];
    for (code, rate) in rates.into_iter().enumerate() {
        let latency_s = value("padhye_latency", &[("rate", code as f64), ("RTT_s", path.rtt_s)]).unwrap();
        assert!((latency_s - (7.0 / rate.unwrap() + path.delack_s)).abs() < 1e-12, "{code}");
    }
    let error = value("cardwell00", &[("rate", 3.0)]).unwrap_err().to_string();
    assert_eq!(error, "rate = 3: expected 0 (receive), 1 (send) or 2 (approx)");
}

#[test]
fn errors_are_one_line_that_says_what_is_expected() {
    let error = value("cardwell00", &[("p", -0.1)]).unwrap_err().to_string();
    assert_eq!(error, "p = -0.1: expected a probability, 0 <= p < 1");
    for name in ["pl", "p_high"] {
        let model = MODELS.iter().find(|model| model.parameters.iter().any(|p| p.name == name)).unwrap();
        let mut values = inputs(model, &[]);
        values[model.parameters.iter().position(|p| p.name == name).unwrap()] = 1.5;
        let error = all(model, &values).unwrap_err().to_string();
        assert_eq!(error, format!("{name} = 1.5: expected a probability, 0 <= {name} < 1"));
    }
    let error = value("handshake", &[("pf", 0.5)]).unwrap_err().to_string();
    assert!(error.contains("pf = 0.5: expected") && error.contains("diverges"), "{error}");
    let error = value("partial_catnip", &[("p", 0.1), ("p_high", 0.2)]).unwrap_err().to_string();
    assert_eq!(error, "p_high = 0.2: expected at most p: high priority does not lose more");
    let error = value("mathis", &[("p", 0.0)]).unwrap_err().to_string();
    assert!(error.contains("unbounded"), "{error}");
}

#[test]
fn every_quantity_is_finite_without_loss_and_next_to_it() {
    every_quantity_is_finite(&[0.0, 1e-320, 1e-300, 1e-17]);
}

#[test]
fn every_quantity_is_finite_at_little_loss() {
    every_quantity_is_finite(&[1e-9, 1e-4, 0.01]);
}

#[test]
fn every_quantity_is_finite_at_losses_from_a_tenth_to_0_45() {
    every_quantity_is_finite(&[0.1, 0.45]);
}

#[test]
fn every_quantity_is_finite_at_losses_from_a_half_to_0_999() {
    every_quantity_is_finite(&[0.5, 0.9, 0.999]);
}

fn every_quantity_is_finite(losses: &[f64]) {
    for model in MODELS {
        for &p in losses {
            for n in [1.0, 2.0, 3.0, 6.0, 7.0, 36.0, 143.0] {
                for w_max in [1.0, 1.5, 2.0, 3.0, 24.0, 1000.0] {
                    for b in [1.0, 2.0, 3.0] {
                        let values = inputs(model, &[("p", p), ("N", n), ("Wmax", w_max), ("b", b)]);
                        let told = |what: String| format!("{} {values:?}: {what}", model.name);
                        match all(model, &values) {
                            Ok(out) => {
                                let unbounded = p <= 1e-300 && ["W", "cubic"].contains(&model.name);
                                let good = |v: &f64| (v.is_finite() || unbounded) && *v >= 0.0;
                                assert!(out.iter().all(good), "{}", told(format!("{out:?}")));
                            }
                            Err(error) => {
                                let unbounded = p == 0.0 && model.kind == ResultKind::RatePps;
                                let diverges = p >= 0.45 && error.to_string().contains("diverges");
                                assert!(unbounded || diverges, "{}", told(error.to_string()));
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn no_loss_is_the_limit_of_little_loss() {
    for name in LATENCIES {
        for n in [1.0, 6.0, 7.0, 36.0, 143.0] {
            let [little, none] = [1e-12, 0.0].map(|p| value(name, &[("p", p), ("N", n)]).unwrap());
            assert!((little - none).abs() < 1e-8 * none, "{name} N={n}: {little} {none}");
        }
    }
    for name in ["pftk_full", "pftk_throughput", "pftk_approx", "mathis", "cubic"] {
        let [little, none] = [1e-12, 0.0].map(|p| value(name, &[("p", p), ("Wmax", 24.0)]).unwrap());
        assert!((little - none).abs() < 1e-8 * none, "{name}: {little} {none}");
        assert!((none - 120.0).abs() < 1e-9 || name == "mathis" || name == "cubic", "{none}");
    }
}

#[test]
fn the_initial_window_is_taken_into_its_range() {
    for name in ["cardwell00", "hysteresis", "partial_catnip", "recursive_short_flow"] {
        let of = |w1| value(name, &[("N", 36.0), ("w1", w1)]).unwrap();
        assert_eq!(of(0.0), of(1.0));
        assert_eq!(of(100.0), of(24.0));
        assert!(of(10.0) < of(1.0));
    }
}

/// Returns a logarithmic grid of loss probabilities.
fn losses() -> Vec<f64> {
    (0..200).map(|i| 10f64.powf(-4.0 + f64::from(i) / 50.0)).take_while(|p| *p < 0.9991).collect()
}

fn grows(values: impl Iterator<Item = f64>) -> Result<(), String> {
    let mut last = 0.0;
    for (i, value) in values.enumerate() {
        if value < last * (1.0 - 1e-12) {
            return Err(format!("step {i}: {last} to {value}"));
        }
        last = value;
    }
    Ok(())
}

#[test]
fn latency_grows_with_the_size() {
    for name in LATENCIES {
        for p in [0.0, 0.001, 0.01, 0.03, 0.1, 0.3, 0.45] {
            let result = grows((1..=200).map(|n| value(name, &[("N", f64::from(n)), ("p", p)]).unwrap()));
            assert!(result.is_ok() || ROUNDED.contains(&name), "{name} p={p}: {result:?}");
        }
    }
}

#[test]
fn latency_grows_with_loss_in_the_setting_of_the_hysteresis_paper() {
    for name in LATENCIES {
        for n in [1.0, 3.0, 6.0, 7.0, 12.0, 23.0, 36.0, 92.0, 143.0] {
            let of = |p| value(name, &[("N", n), ("p", p)]);
            // The set-up of Model C diverges at a loss probability of 0.5.
            let result = grows(losses().into_iter().map_while(|p| of(p).ok()));
            assert!(result.is_ok() || ROUNDED.contains(&name), "{name} N={n}: {result:?}");
        }
    }
}

#[test]
fn more_loss_can_mean_less_time_where_the_models_jump_or_round() {
    let falls = |name: &str, set: &[(&str, f64)], from: f64, to: f64| {
        let of = |p| value(name, &[set, &[("p", p)]].concat()).unwrap();
        assert!(of(to) < of(from), "{name}: {} {}", of(from), of(to));
    };
    // With b = 1, the rate jumps up by the quarter of a round that the branch without a largest window saves.
    let limited = [("N", 200.0), ("Wmax", 8.0), ("b", 1.0), ("T0_s", 0.5), ("RTT_s", 0.05)];
    falls("cardwell00", &limited, 0.05208, 0.05309);
    falls("padhye_latency", &limited, 0.05208, 0.05309);
    // The number of packets between losses is rounded up.
    falls("sikdar_threecase", &[("N", 12.0)], 0.1957, 0.1995);
    // With a longer last cycle, the window at its end is larger, and a timeout is less likely.
    let small = [("N", 200.0), ("Wmax", 4.5), ("b", 1.0)];
    falls("hysteresis", &small, 0.00038311868, 0.00039054103);
    falls("partial_catnip", &small, 0.00056234133, 0.00057323584);
    // A timeout costs less than a fast retransmit if it is shorter than a round trip.
    falls(
        "hysteresis",
        &[("N", 115.0), ("Wmax", 6.0), ("b", 1.0), ("T0_s", 0.01)],
        0.0015547718,
        0.0015848932,
    );
}

#[test]
fn more_data_can_mean_less_time_in_the_three_cases() {
    let path = Path { rtt_s: 0.02, t0_s: 10.0, w_max: 100.0, b: 4.0, ..Path::default() };
    let of = |n| sikdar_threecase(n, 0.007356422544596414, &path).unwrap().latency_s;
    assert!(of(10) < of(9));
}

#[test]
fn the_fitted_form_falls_with_the_round_trip_time_where_loss_rules() {
    let of = |rtt| sikdar_empirical(143, 0.9, rtt, 24.0).unwrap();
    assert!(of(2.0) < of(1.0));
}

proptest! {
    #[test]
    fn latency_grows_with_the_round_trip_time(
        n in 1u32..200, p in 0.0f64..0.49, rtt in 0.001f64..2.0, longer in 1.0f64..3.0, w_max in 1.0f64..64.0,
    ) {
        for name in LATENCIES.iter().filter(|name| **name != "sikdar_empirical") {
            let of = |rtt| {
                value(name, &[("N", n.into()), ("p", p), ("RTT_s", rtt), ("Wmax", w_max)]).unwrap()
            };
            prop_assert!(of(rtt) <= of(rtt * longer) * (1.0 + 1e-12), "{name}");
        }
    }

    #[test]
    fn latency_grows_with_the_first_timeout(
        n in 1u32..200, p in 0.0f64..0.49, t0 in 0.01f64..5.0, longer in 1.0f64..3.0,
    ) {
        for name in LATENCIES {
            let of = |t0| value(name, &[("N", n.into()), ("p", p), ("T0_s", t0)]).unwrap();
            prop_assert!(of(t0) <= of(t0 * longer) * (1.0 + 1e-12), "{name}");
        }
    }

    #[test]
    fn rates_fall_with_loss_on_either_side_of_the_window_limit(
        p in 1e-6f64..0.9, more in 1.0f64..1.1, w_max in 1.0f64..200.0, b in 1u32..4, t0 in 0.1f64..5.0,
    ) {
        let (b, higher) = (f64::from(b), p * more);
        let limited = |p| terms::window(p, b) >= w_max;
        // The two branches of the rate do not meet for b = 1.
        prop_assume!(limited(p) == limited(higher));
        let rates = MODELS.iter().filter(|model| model.kind == ResultKind::RatePps);
        for name in rates.map(|model| model.name) {
            let of = |p| value(name, &[("p", p), ("Wmax", w_max), ("b", b), ("T0_s", t0)]).unwrap();
            prop_assert!(of(higher) <= of(p) * (1.0 + 1e-12), "{name}: {} {}", of(p), of(higher));
        }
    }

    #[test]
    fn the_deterministic_rules_bound_every_sample(n in 1u32..300, p in 0.0f64..0.5, seed: u64) {
        let model = Hysteresis::new(n, p, &Path::default(), Options::default()).unwrap();
        let mut rng = catnip_base::Rng::new(seed, catnip_base::Stream::Connection(0));
        let worst = model.by_rule(Rule::AllTimeouts);
        for _ in 0..20 {
            prop_assert!(model.sample(&mut rng) <= worst * (1.0 + 1e-12));
        }
    }

    #[test]
    fn probabilities_of_a_timeout_are_probabilities(p in 0.0f64..1.0, w in 0.1f64..1e4) {
        let q = terms::q_hat(p, w);
        prop_assert!((0.0..=1.0).contains(&q), "{q}");
    }
}
