//! Comparison of measurements of single components with stored tables, which the reproductions of the papers read.

use std::fs;
use std::path::Path;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// Measured quantity with the limit that it must not exceed.
pub(crate) struct Check {
    /// Identifier of the experiment to which the quantity belongs, such as `CAT-S9`.
    pub(crate) id: &'static str,
    /// Quantity that is counted or computed.
    pub(crate) claim: &'static str,
    /// Measured value of the quantity.
    pub(crate) value: f64,
    /// Limit that the value must not exceed.
    pub(crate) limit: f64,
}

/// Computes the checks for several seeds. Panics if a value exceeds its limit, or if the table in `python/catnip/measured` differs from the
/// values.
pub(crate) fn keep(file: &str, checks: impl Fn(u64) -> Vec<Check>) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/catnip/measured").join(file);
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record(["id", "claim", "seed", "value", "limit"]).unwrap();
    let mut above = Vec::new();
    for seed in SEEDS {
        for Check { id, claim, value, limit } in checks(seed) {
            // NaN does not satisfy a limit, either.
            if value.is_nan() || value > limit {
                above.push(format!("{id}, seed {seed}: {claim}: {value} > {limit}"));
            }
            // Further digits depend on the implementation of the logarithm on a machine.
            let [value, limit] = [value, limit].map(|number| ((number * 1e4).round() / 1e4).to_string());
            table.write_record([id, claim, &seed.to_string(), &value, &limit]).unwrap();
        }
    }
    assert!(above.is_empty(), "{}", above.join("\n"));
    let now = String::from_utf8(table.into_inner().unwrap()).unwrap();
    if std::env::var_os("CATNIP_BLESS").is_some() {
        fs::write(&file, &now).unwrap();
    }
    let before = fs::read_to_string(&file).unwrap_or_default();
    assert!(before == now, "changed; if on purpose, say why and set CATNIP_BLESS=1:\n{now}");
}
