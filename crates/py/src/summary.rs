//! Summaries of runs and of tables.

use crate::{PyScenario, input_error};
use catnip_lab::rows::Unit;
use catnip_lab::summary::{self, Estimate, GroupSummary, Interval, Rows, Summary};
use catnip_lab::{Column, InputError as LabError, Table, TableName, Texts};
use numpy::{Element, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::collections::BTreeMap;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let tables = PyDict::new(module.py());
    for (table, columns) in summary::TABLES {
        tables.set_item(table.name(), PyTuple::new(module.py(), columns)?)?;
    }
    module.add("SUMMARY_TABLES", tables)?;
    let times = PyDict::new(module.py());
    for unit in Unit::all() {
        times.set_item(unit.measure, unit.label)?;
    }
    module.add("TRANSFER_TIMES", times)?;
    module.add("QUANTILES", summary::QUANTILES.map(|(measure, _)| measure))?;
    module.add_class::<Times>()?;
    module.add_function(wrap_pyfunction!(summarize_runs, module)?)?;
    module.add_function(wrap_pyfunction!(summarize_tables, module)?)?;
    module.add_function(wrap_pyfunction!(summarize, module)?)?;
    module.add_function(wrap_pyfunction!(paired_difference, module)?)?;
    module.add_function(wrap_pyfunction!(relative_change, module)?)?;
    module.add_function(wrap_pyfunction!(t_quantile, module)?)
}

/// Mean, lower and upper bound of the confidence interval, and number of independent values.
type IntervalTuple = (f64, f64, f64, usize);

/// Runs every variant with every seed and summarizes each variant as `summarize` does.
#[pyfunction]
#[pyo3(signature = (scenario, variants, seeds, threads = 0, progress = None))]
fn summarize_runs<'py>(
    py: Python<'py>,
    scenario: &PyScenario,
    variants: Vec<String>,
    seeds: Vec<u64>,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let names = summary::TABLES.map(|(name, _)| name).to_vec();
    let tables = scenario.tables(py, &variants, seeds.clone(), names, threads, progress, None)?;
    let summaries = py.detach(|| summary::summarize_tables(&tables, variants.len(), &seeds));
    summaries.iter().map(|summary| summary_dict(py, summary)).collect()
}

/// Summarizes `variants` variants from whole tables, whose rows are in the order of the variants.
#[pyfunction]
fn summarize_tables<'py>(
    py: Python<'py>,
    tables: BTreeMap<String, Bound<'py, PyDict>>,
    variants: usize,
    seeds: Vec<u64>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let read = |(name, _): (TableName, _)| {
        let columns = tables
            .get(name.name())
            .ok_or_else(|| invalid("tables", &format!("there is no {}", name.name())))?;
        Ok((name, table(name, columns, true)?))
    };
    let tables: BTreeMap<TableName, Table> =
        summary::TABLES.into_iter().map(read).collect::<PyResult<_>>()?;
    let summaries = py.detach(|| summary::summarize_tables(&tables, variants, &seeds));
    summaries.iter().map(|summary| summary_dict(py, summary)).collect()
}

/// Summarizes variants. `read(table, number)` returns the columns of variant `number` in a table and is called for each variant separately.
/// `seeds` must ascend; each variant has the first of them, whose number `counts` lists by variant. Returns a dict for each variant, with `groups` and `links` by name, and `hops`.
#[pyfunction]
fn summarize<'py>(
    py: Python<'py>,
    read: Bound<'py, PyAny>,
    counts: Vec<usize>,
    seeds: Vec<u64>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let seeds = counts.into_iter().map(|count| seeds.get(..count)).collect::<Option<Vec<_>>>();
    let seeds = seeds.ok_or_else(|| invalid("counts", "expected at most as many as there are seeds"))?;
    let read = |name: TableName, variant: usize| {
        let columns = read.call1((name.name(), variant))?.cast_into::<PyDict>()?;
        Ok::<_, PyErr>(Rows::all(table(name, &columns, false)?))
    };
    summary::summarize(read, &seeds)?.iter().map(|summary| summary_dict(py, summary)).collect()
}

/// Returns the mean of the paired differences `ours` - `theirs` with its confidence interval. Pairs with NaN are omitted. Returns None if
/// the lengths differ or no pair remains.
#[pyfunction]
fn paired_difference(ours: Vec<f64>, theirs: Vec<f64>) -> Option<IntervalTuple> {
    summary::paired_difference(&ours, &theirs).map(tuple)
}

/// Returns the change of a mean from `base` to `ours`, as a share of that of `base`, with its confidence interval. Returns None without two
/// pairs of known values and a positive mean of `base`.
#[pyfunction]
fn relative_change(ours: Vec<f64>, base: Vec<f64>) -> Option<IntervalTuple> {
    summary::relative_change(&ours, &base).map(tuple)
}

/// Returns the quantile `share` of Student's t distribution with `degrees` degrees of freedom.
#[pyfunction]
fn t_quantile(degrees: f64, share: f64) -> f64 {
    summary::t_quantile(degrees, share)
}

/// Durations, some of which are censored because the run ended first.
#[pyclass(module = "catnip._core", frozen)]
struct Times(summary::Times);

#[pymethods]
impl Times {
    /// Creates durations from elapsed times in seconds, flags that are true for complete durations, and the index of the run of each
    /// duration, below `runs`.
    #[new]
    fn new(waited_s: Vec<f64>, is_over: Vec<bool>, run: Vec<usize>, runs: usize) -> PyResult<Self> {
        if waited_s.len() != is_over.len() || waited_s.len() != run.len() {
            return Err(invalid("is_over, run", "expected as many as waited_s"));
        }
        if run.iter().any(|&run| run >= runs) {
            return Err(invalid("run", &format!("expected numbers below {runs}")));
        }
        let waits = waited_s
            .into_iter()
            .zip(is_over)
            .zip(run)
            .map(|((waited_s, is_over), run)| (waited_s, is_over, run));
        Ok(Self(summary::Times::new(waits, runs)))
    }

    /// Returns the shortest time within which the fraction `share` of the durations is complete, with a value for each block of runs.
    /// Returns None if too few durations are complete.
    fn quantile(&self, share: f64) -> Option<(IntervalTuple, Vec<f64>)> {
        self.0.quantile(share).map(|Estimate { interval, values }| (tuple(interval), values))
    }

    /// Returns the mean of all durations after durations above `horizon_s` are replaced by `horizon_s`, with a value for each block of
    /// runs.
    fn restricted_mean(&self, horizon_s: f64) -> (IntervalTuple, Vec<f64>) {
        let Estimate { interval, values } = self.0.restricted_mean(horizon_s);
        (tuple(interval), values)
    }

    /// Returns at most `most` points of the survival curve: times, and the share of durations that are longer.
    fn curve(&self, most: usize) -> (Vec<f64>, Vec<f64>) {
        self.0.curve(most)
    }
}

fn invalid(key: &str, message: &str) -> PyErr {
    input_error(LabError::new("", key, message))
}

fn tuple(of: Interval) -> IntervalTuple {
    (of.mean, of.low, of.high, of.n)
}

fn summary_dict<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let (groups, links) = (PyDict::new(py), PyDict::new(py));
    for (name, of) in &summary.groups {
        groups.set_item(&**name, group_dict(py, of)?)?;
    }
    for (name, measured) in &summary.links {
        links.set_item(&**name, intervals(py, measured)?)?;
    }
    let out = PyDict::new(py);
    out.set_item("groups", groups)?;
    out.set_item("links", links)?;
    out.set_item("hops", summary.hops)?;
    Ok(out)
}

fn group_dict<'py>(py: Python<'py>, of: &GroupSummary) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    for (measure, of) in &of.values {
        values.set_item(measure, of)?;
    }
    let out = PyDict::new(py);
    out.set_item("kind", &*of.kind)?;
    out.set_item("started", of.started)?;
    out.set_item("finished", of.finished)?;
    out.set_item("means", intervals(py, &of.means)?)?;
    out.set_item("restricted_s", of.restricted_s.map(tuple))?;
    out.set_item("horizon_s", of.horizon_s)?;
    out.set_item("curve", &of.curve)?;
    out.set_item("band", &of.band)?;
    out.set_item("values", values)?;
    Ok(out)
}

fn intervals<'py>(py: Python<'py>, measured: &[(&'static str, Interval)]) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for &(measure, interval) in measured {
        out.set_item(measure, tuple(interval))?;
    }
    Ok(out)
}

/// Reads the columns of a table that a summary needs. `variants` is true if the variant column is one of them.
fn table(name: TableName, dict: &Bound<'_, PyDict>, variants: bool) -> PyResult<Table> {
    let [(_, required)] = summary::TABLES.iter().filter(|(one, _)| *one == name).collect::<Vec<_>>()[..]
    else {
        unreachable!("a summary reads no other table than its own")
    };
    let columns = name
        .headings()
        .into_iter()
        .filter(|heading| required.contains(&heading.name) && (variants || heading.name != "variant"));
    let read = |heading: catnip_lab::Heading| {
        let key = format!("{}.{}", name.name(), heading.name);
        let values = dict.get_item(heading.name)?.ok_or_else(|| invalid(&key, "there is no such column"))?;
        let column = match heading.empty {
            Column::Float(_) => Column::Float(numbers(&key, &values)?),
            Column::Integer(_) => Column::Integer(numbers(&key, &values)?),
            Column::Text(_) => Column::Text(texts(&values)?),
        };
        Ok((heading.name, column))
    };
    let columns: Vec<_> = columns.map(read).collect::<PyResult<_>>()?;
    Ok(Table::of(columns))
}

/// Converts a sequence to numbers of type `T`: an array of this type in one step, any other sequence element by element.
fn numbers<'py, T: Element + Clone + for<'a> FromPyObject<'a, 'py, Error = PyErr>>(
    key: &str,
    values: &Bound<'py, PyAny>,
) -> PyResult<Vec<T>> {
    match values.extract::<PyReadonlyArray1<'py, T>>() {
        Ok(array) => Ok(array.as_array().iter().cloned().collect()),
        Err(_) => values.extract().map_err(|error: PyErr| invalid(key, &error.to_string())),
    }
}

fn texts(values: &Bound<'_, PyAny>) -> PyResult<Texts> {
    values.extract::<Vec<Bound<'_, PyString>>>()?.iter().map(|name| name.to_str()).collect()
}
