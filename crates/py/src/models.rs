//! Evaluation of the analytical models for arrays of parameters. A model takes single numbers; the arrays are divided among the cores.

use crate::InputError;
use catnip_base::{Rng, Stream};
use catnip_model::{Chain, Hysteresis, MODELS, Model, ModelError, Options, PartialCatnip, Path, by_name};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of values below which starting a thread takes more time than it saves.
const VALUES_PER_THREAD: usize = 4096;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(models, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate_model, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate_model_at, module)?)?;
    module.add_function(wrap_pyfunction!(hysteresis_samples, module)?)?;
    module.add_function(wrap_pyfunction!(wzk_chain_samples, module)?)
}

type ModelTuple = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Vec<(&'static str, &'static str, Option<f64>, &'static str)>,
    Vec<(&'static str, &'static str, &'static str)>,
);

/// Returns the models. Each model has a name, a title, a reference and a kind of result, a list of parameters with unit, default and
/// meaning, and a list of quantities with unit and meaning.
#[pyfunction]
fn models() -> Vec<ModelTuple> {
    let describe = |model: &Model| {
        let parameters = model.parameters.iter().map(|p| (p.name, p.unit, p.default, p.meaning)).collect();
        let quantities = model.quantities.iter().map(|q| (q.name, q.unit, q.meaning)).collect();
        (model.name, model.title, model.reference, model.kind.name(), parameters, quantities)
    };
    MODELS.iter().map(describe).collect()
}

/// Evaluates all quantities of a model for arrays of its parameters. The arrays have the same length and are in the order of `models()`.
#[pyfunction]
fn evaluate_model<'py>(
    py: Python<'py>,
    name: &str,
    inputs: Vec<PyReadonlyArray1<'py, f64>>,
) -> PyResult<Bound<'py, PyDict>> {
    let model = with_parameters(name, inputs.len())?;
    // The arrays are copied, because another thread may write to them while the interpreter is released.
    let inputs: Vec<Vec<f64>> =
        inputs.iter().map(|array| array.as_slice().map(<[f64]>::to_vec)).collect::<Result<_, _>>()?;
    let len = inputs.first().map_or(0, Vec::len);
    if inputs.iter().any(|values| values.len() != len) {
        return Err(InputError::new_err(format!("{name}: expected arrays of equal length")));
    }
    let columns = py.detach(|| evaluate_all(model, &inputs, len)).map_err(|(i, error)| {
        let index = if len > 1 { format!(" at index {i}") } else { String::new() };
        out_of_range(name, &error, &index)
    })?;
    let out = PyDict::new(py);
    for (quantity, column) in model.quantities.iter().zip(columns) {
        out.set_item(quantity.name, column.into_pyarray(py))?;
    }
    Ok(out)
}

/// Evaluates all quantities of a model for one value of each of its parameters, in the order of `models()`.
#[pyfunction]
fn evaluate_model_at(py: Python<'_>, name: &str, values: Vec<f64>) -> PyResult<BTreeMap<&'static str, f64>> {
    let model = with_parameters(name, values.len())?;
    let mut out = vec![0.0; model.quantities.len()];
    py.detach(|| (model.evaluate)(&values, &mut out)).map_err(|error| out_of_range(name, &error, ""))?;
    Ok(model.quantities.iter().map(|quantity| quantity.name).zip(out).collect())
}

/// Returns the model with this name, which must have `count` parameters.
fn with_parameters(name: &str, count: usize) -> PyResult<&'static Model> {
    let model =
        by_name(name).ok_or_else(|| InputError::new_err(format!("{name:?}: there is no such model")))?;
    let expected = model.parameters.len();
    if count == expected {
        Ok(model)
    } else {
        Err(InputError::new_err(format!("{name}: {count} parameters: expected {expected}")))
    }
}

fn out_of_range(name: &str, error: &ModelError, index: &str) -> PyErr {
    let ModelError { parameter, value, expected, .. } = error;
    InputError::new_err(format!("{name}: {parameter} = {value}{index}: expected {expected}"))
}

/// Returns one column per quantity, or the index and the error of the first values that the model rejects.
fn evaluate_all(
    model: &Model,
    inputs: &[Vec<f64>],
    len: usize,
) -> Result<Vec<Vec<f64>>, (usize, ModelError)> {
    let mut columns = vec![vec![0.0; len]; model.quantities.len()];
    let size = share(len);
    let mut parts: Vec<Vec<&mut [f64]>> = (0..len.div_ceil(size)).map(|_| Vec::new()).collect();
    for column in &mut columns {
        column.chunks_mut(size).zip(&mut parts).for_each(|(chunk, part)| part.push(chunk));
    }
    let evaluate = |first: usize, mut part: Vec<&mut [f64]>| {
        let mut values = vec![0.0; inputs.len()];
        let mut out = vec![0.0; part.len()];
        for i in 0..part[0].len() {
            values.iter_mut().zip(inputs).for_each(|(value, input)| *value = input[first + i]);
            (model.evaluate)(&values, &mut out).map_err(|error| (first + i, error))?;
            part.iter_mut().zip(&out).for_each(|(column, value)| column[i] = *value);
        }
        Ok(())
    };
    in_parallel(parts.into_iter().enumerate().map(|(i, part)| move || evaluate(i * size, part)))?;
    Ok(columns)
}

/// Returns the number of values that one thread evaluates out of `len` values.
fn share(len: usize) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    len.div_ceil(threads).max(VALUES_PER_THREAD)
}

/// Runs the tasks in parallel, in the current thread and in one more for each further task, if the system has them. Returns the error of the
/// first task in order that has failed.
fn in_parallel<E: Send>(tasks: impl Iterator<Item = impl FnOnce() -> Result<(), E> + Send>) -> Result<(), E> {
    let tasks: Vec<_> = tasks.map(|task| Mutex::new(Some(task))).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failures = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(number) else { return failures };
            let task = task.lock().ok().and_then(|mut task| task.take());
            failures.extend(task.and_then(|task| task().err()).map(|error| (number, error)));
        }
    };
    std::thread::scope(|scope| {
        let thread = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..tasks.len()).map_while(thread).collect();
        let mut failures = work();
        for other in others {
            failures.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        failures.into_iter().min_by_key(|(number, _)| *number).map_or(Ok(()), |(_, error)| Err(error))
    })
}

/// Draws `count` values with `one`. Each value has its own random stream, so that the values do not depend on the number of threads.
fn draw(count: u32, seed: u64, one: impl Fn(&mut Rng) -> f64 + Sync) -> Vec<f64> {
    let mut draws = vec![0.0; count as usize];
    let size = share(draws.len());
    let one = &one;
    let tasks = draws.chunks_mut(size).enumerate().map(|(i, part)| {
        move || {
            for (j, value) in part.iter_mut().enumerate() {
                *value = one(&mut Rng::new(seed, Stream::Connection((i * size + j) as u32)));
            }
            Ok::<(), ()>(())
        }
    });
    in_parallel(tasks).expect("drawing does not fail");
    draws
}

fn model_error(name: &str, error: ModelError) -> PyErr {
    InputError::new_err(format!("{name}: {error}"))
}

/// Draws `count` latencies from the hysteresis model, or from the model of Partial CATNIP if `p_high` is given.
#[pyfunction]
#[pyo3(signature = (packets, p, p_high, rtt_s, t0_s, w_max, b, w1, delack_s, count, seed))]
#[expect(clippy::too_many_arguments, reason = "they are those of the model")]
fn hysteresis_samples<'py>(
    py: Python<'py>,
    packets: u32,
    p: f64,
    p_high: Option<f64>,
    rtt_s: f64,
    t0_s: f64,
    w_max: f64,
    b: f64,
    w1: f64,
    delack_s: f64,
    count: u32,
    seed: u64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let path = Path { rtt_s, t0_s, w_max, b, w1, delack_s };
    let draws = match p_high {
        None => {
            let model = Hysteresis::new(packets, p, &path, Options::default());
            let model = model.map_err(|error| model_error("hysteresis", error))?;
            py.detach(|| draw(count, seed, |rng| model.sample(rng)))
        }
        Some(p_high) => {
            let model = PartialCatnip::new(packets, p, p_high, &path);
            let model = model.map_err(|error| model_error("partial_catnip", error))?;
            py.detach(|| draw(count, seed, |rng| model.sample(rng)))
        }
    };
    Ok(draws.into_pyarray(py))
}

/// Draws the total time that a transfer spends in timeouts, `count` times, from the Markov chain of WZK, figure 5.
#[pyfunction]
#[pyo3(signature = (packets, p, it0_s, r0_s, clamp_s, count, seed))]
#[expect(clippy::too_many_arguments, reason = "they are those of the model")]
fn wzk_chain_samples<'py>(
    py: Python<'py>,
    packets: u32,
    p: f64,
    it0_s: f64,
    r0_s: f64,
    clamp_s: f64,
    count: u32,
    seed: u64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let chain = Chain { packets, p, it0_s, r0_s, clamp_s };
    let chain = chain.check().map_err(|error| model_error("wzk_chain", error))?;
    Ok(py.detach(|| draw(count, seed, |rng| chain.sample(rng))).into_pyarray(py))
}
