use crate::{PyScenario, import_numpy, input_error, to_dict};
use catnip_base::Span;
use catnip_lab::{InputError, TimelineRequest};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns the timeline of a run: its tables by name, the names of the nodes, its start and end in seconds, and the number of rows that were
/// left out. Raises InputError.
#[pyfunction]
#[pyo3(signature = (scenario, variant, seed, samples, range_s, connections, followed))]
#[expect(clippy::too_many_arguments, reason = "they are those of a request")]
#[expect(clippy::type_complexity, reason = "a tuple in Python")]
pub(crate) fn timeline<'py>(
    py: Python<'py>,
    scenario: &PyScenario,
    variant: &str,
    seed: u64,
    samples: u32,
    range_s: Option<(f64, f64)>,
    connections: Option<Vec<u64>>,
    followed: Option<u64>,
) -> PyResult<(Bound<'py, PyDict>, Vec<String>, (f64, f64), u64)> {
    import_numpy(py)?;
    let plan = scenario.0.plan(variant).map_err(input_error)?;
    let span = |seconds: f64| {
        let error =
            || input_error(InputError::new("", "time", format!("{seconds}: expected seconds, 0 or more")));
        (0.0..1e9).contains(&seconds).then(|| Span::from_secs_f64(seconds)).ok_or_else(error)
    };
    let request = TimelineRequest {
        seed,
        range: range_s.map(|(from_s, until_s)| PyResult::Ok((span(from_s)?, span(until_s)?))).transpose()?,
        is_brief: false,
        samples,
        connections,
        followed,
    };
    let mut failure = None;
    let mut should_continue = || {
        failure = Python::attach(|py| py.check_signals()).err();
        failure.is_none()
    };
    let drawn = py.detach(|| catnip_lab::timeline(plan, &request, &mut should_continue));
    failure.map_or(Ok(()), Err)?;
    let drawn = drawn.expect("only a signal stops the run");
    let tables = PyDict::new(py);
    for (name, table) in drawn.tables {
        tables.set_item(name, to_dict(py, table, false)?)?;
    }
    Ok((tables, drawn.nodes, (drawn.range.0.as_secs(), drawn.range.1.as_secs()), drawn.left_out))
}
