//! Python module `catnip._core`: converts arguments and results, calls the library and releases the interpreter. The
//! module has no other logic.

mod memory;
mod models;
mod summary;
mod timeline;

use catnip_base::{Bytes, ParseError, Span, notation};
use catnip_lab::tmix::{self, ConnectionVector, Side};
use catnip_lab::{
    Bundle, Column, InputError as LabError, LogRequest, Marking, Outline, PacketLog, Plan, RunRequest,
    Scenario, Table, TableName, TraceRequest, TraceRow,
};
use catnip_net::NodeId;
use catnip_tcp::{TcpConfig, profile};
use numpy::IntoPyArray;
use pyo3::IntoPyObjectExt;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

create_exception!(catnip, InputError, PyValueError, "Bad input: one line that names file, key and value.");

/// Compiled core of CATNIP: scenarios, their runs and summaries, and analytical models.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("InputError", module.py().get_type::<InputError>())?;
    module.add_class::<PyScenario>()?;
    models::register(module)?;
    summary::register(module)?;
    module.add_function(wrap_pyfunction!(trace, module)?)?;
    module.add_function(wrap_pyfunction!(timeline::timeline, module)?)?;
    module.add_function(wrap_pyfunction!(profiles, module)?)?;
    module.add_function(wrap_pyfunction!(kinds, module)?)?;
    module.add_function(wrap_pyfunction!(fingerprints, module)?)?;
    module.add_function(wrap_pyfunction!(read_har, module)?)?;
    module.add_function(wrap_pyfunction!(read_bursts, module)?)?;
    module.add_function(wrap_pyfunction!(read_vectors, module)?)?;
    module.add_function(wrap_pyfunction!(seconds, module)?)?;
    module.add_function(wrap_pyfunction!(bytes, module)?)?;
    module.add_function(wrap_pyfunction!(outline, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)?;
    module.add_function(wrap_pyfunction!(tables, module)?)
}

fn input_error(error: LabError) -> PyErr {
    InputError::new_err(error.to_string())
}

/// Scenario file that has been read and checked.
#[pyclass(name = "Scenario", module = "catnip._core", frozen)]
struct PyScenario(Scenario);

#[pymethods]
impl PyScenario {
    /// Reads a scenario file. `set` has pairs of a key and the value that replaces its value in the file. Raises InputError.
    #[staticmethod]
    #[pyo3(signature = (path, set = vec![]))]
    fn load(path: PathBuf, set: Vec<(String, String)>) -> PyResult<Self> {
        let read = if set.is_empty() { Scenario::load(&path) } else { Scenario::load_set(&path, &set) };
        read.map(Self).map_err(input_error)
    }

    /// Parses a scenario from text. `path` is its name in errors; `set` is as in `load`. Raises InputError.
    #[staticmethod]
    #[pyo3(signature = (path, text, set = vec![]))]
    fn parse(path: PathBuf, text: &str, set: Vec<(String, String)>) -> PyResult<Self> {
        Scenario::parse_set(&path, text, &set).map(Self).map_err(input_error)
    }

    /// Reads a scenario from a bundle, and nothing from disk. Raises InputError.
    #[staticmethod]
    fn from_bundle(
        path: PathBuf,
        text: String,
        set: Vec<(String, String)>,
        files: BTreeMap<PathBuf, PyBackedBytes>,
    ) -> PyResult<Self> {
        let files = files.into_iter().map(|(name, bytes)| (name, bytes.to_vec().into())).collect();
        Scenario::of_bundle(&Bundle { path, text, set, files }).map(Self).map_err(input_error)
    }

    /// Returns the arguments of `from_bundle` for this scenario: its path, its text, the keys set on loading, and the present contents of
    /// the other files by path relative to its folder. Raises InputError.
    fn bundle<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let Bundle { path, text, set, files } = self.0.bundle().map_err(input_error)?;
        let contents = PyDict::new(py);
        for (name, bytes) in files {
            contents.set_item(name.into_os_string(), PyBytes::new(py, &bytes))?;
        }
        (path.into_os_string(), text, set, contents).into_pyobject(py)
    }

    /// Pickles the scenario by value, as a bundle.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        Ok((py.get_type::<Self>().getattr("from_bundle")?, self.bundle(py)?))
    }

    /// Identifier of the experiment that the scenario reproduces.
    #[getter]
    fn id(&self) -> &str {
        &self.0.id
    }

    /// Title of the scenario.
    #[getter]
    fn title(&self) -> &str {
        &self.0.title
    }

    /// Path of the scenario file.
    #[getter]
    fn path(&self) -> OsString {
        self.0.path.clone().into_os_string()
    }

    /// Text of the scenario.
    #[getter]
    fn text(&self) -> &str {
        &self.0.text
    }

    /// Paths of the other files that the scenario names: recordings, traces, pages.
    #[getter]
    fn files(&self) -> Vec<OsString> {
        self.0.files.iter().map(|file| file.clone().into_os_string()).collect()
    }

    /// Default number of replications.
    #[getter]
    fn seeds(&self) -> u32 {
        self.0.seeds
    }

    /// Names of the variants, in order.
    #[getter]
    fn variants(&self) -> Vec<&str> {
        self.0.variants().collect()
    }

    /// Differences between the variants: keys of the scenario, each with its value in every variant.
    #[getter]
    fn axes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        for (key, values) in &self.0.axes {
            let values = values.iter().map(|value| axis_value(py, value)).collect::<PyResult<Vec<_>>>()?;
            out.set_item(key, PyList::new(py, values)?)?;
        }
        Ok(out)
    }

    /// Names of the variants that last, in order: hashes of what determines their runs. Raises InputError if a file cannot be read.
    fn point_ids(&self) -> PyResult<Vec<String>> {
        self.0.point_ids().map_err(input_error)
    }

    /// Execution of the scenario as a plan: numbers of seeds at the first and at the last look, the rule by which points get no
    /// further seeds, and the variant or value of an axis with which the others are compared. None for what the scenario does not set.
    #[getter]
    fn sweep(&self) -> (Option<(u32, u32)>, Option<&str>, Option<&str>) {
        let sweep = &self.0.sweep;
        (sweep.seeds(), sweep.until.as_deref(), sweep.against.as_deref())
    }

    /// True if the scenario has a table `[sweep]`.
    #[getter]
    fn is_plan(&self) -> bool {
        self.0.sweep.is_there
    }

    /// Returns true if a variant has transfers that end, so that there are times to compare.
    fn has_transfers(&self, variant: &str) -> PyResult<bool> {
        self.0.emulation(variant).map(Plan::has_transfers).map_err(input_error)
    }

    /// Warnings that apply to all variants, as lines that name file and key: keys that are valid and have no effect.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.clone()
    }

    /// Returns the parts of a variant: hosts, routers, links by name, and the pairs of hosts of each traffic group.
    fn overview<'py>(&self, py: Python<'py>, variant: &str) -> PyResult<Bound<'py, PyDict>> {
        let plan = self.0.emulation(variant).map_err(input_error)?;
        let topology = plan.topology();
        let nodes = topology.node_count() as u32;
        let routers = (0..nodes).filter(|&node| topology.is_router(NodeId(node))).count();
        let out = PyDict::new(py);
        out.set_item("hosts", nodes as usize - routers)?;
        out.set_item("real", plan.external_nodes().len())?;
        out.set_item("routers", routers)?;
        out.set_item("memory_bytes", plan.memory_bytes())?;
        out.set_item("links", plan.links().collect::<Vec<_>>())?;
        let groups = plan.groups().map(|group| (group.name, group.pairs.len()));
        out.set_item("traffic", groups.collect::<Vec<_>>())?;
        Ok(out)
    }

    /// Returns the parameters of a variant for the analytical models; None if the models do not apply to the variant.
    fn single_flow<'py>(&self, py: Python<'py>, variant: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        let plan = self.0.plan(variant).map_err(input_error)?;
        let Some(flow) = plan.single_flow() else { return Ok(None) };
        let out = PyDict::new(py);
        out.set_item("packets", flow.packets)?;
        out.set_item("p", flow.p)?;
        out.set_item("p_high", flow.p_high)?;
        out.set_item(
            "marking",
            match flow.marking {
                Marking::None => "none",
                Marking::Ends => "ends",
                Marking::Other => "other",
            },
        )?;
        out.set_item("rtt_s", flow.rtt_s)?;
        out.set_item("t0_s", flow.t0_s)?;
        out.set_item("first_timeout_s", flow.first_timeout_s)?;
        out.set_item("w_max", flow.w_max)?;
        out.set_item("b", flow.b)?;
        out.set_item("w1", flow.w1)?;
        out.set_item("delack_s", flow.delack_s)?;
        out.set_item("handshake_s", flow.handshake_s)?;
        Ok(Some(out))
    }

    /// Returns the connection vectors that a traffic group replays in the run of a variant with this seed, in a format of Tmix. Also
    /// returns a dict of arrays with the start time, the number of exchanges and the bytes of either end of each connection vector.
    fn tmix<'py>(
        &self,
        py: Python<'py>,
        variant: &str,
        group: Option<&str>,
        form: &str,
        seed: u64,
    ) -> PyResult<(String, Bound<'py, PyDict>)> {
        import_numpy(py)?;
        let plan = self.0.plan(variant).map_err(input_error)?;
        let error_at =
            |key: &str, message: String| input_error(LabError::new(&self.display_path(), key, message));
        let form = form.parse().map_err(|error: ParseError| error_at("form", error.to_string()))?;
        let vectors =
            py.detach(|| plan.vectors(group, seed)).map_err(|message| error_at("traffic", message))?;
        let text =
            py.detach(|| tmix::write(&vectors, form)).map_err(|message| error_at("traffic", message))?;
        Ok((text, columns_of(py, &vectors)?))
    }

    /// Runs every variant with every seed, on `threads` threads, or on all cores if `threads` is 0. `every` is the interval of time series,
    /// such as 100ms. If `coded` is true, a column of names is a list of the distinct names and an array with the index of each row's name.
    #[pyo3(signature = (variants, seeds, tables, threads = 0, progress = None, every = None, coded = false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        variants: Vec<String>,
        seeds: Vec<u64>,
        tables: Vec<String>,
        threads: usize,
        progress: Option<Py<PyAny>>,
        every: Option<&str>,
        coded: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        import_numpy(py)?;
        let every = every.map(|text| self.interval(text, &variants)).transpose()?;
        let names = tables
            .iter()
            .map(|name| name.parse())
            .collect::<Result<Vec<TableName>, _>>()
            .map_err(|error: ParseError| input_error(LabError::new("", "tables", error.to_string())))?;
        let out = PyDict::new(py);
        for (name, table) in self.tables(py, &variants, seeds, names, threads, progress, every)? {
            out.set_item(name.name(), to_dict(py, table, coded)?)?;
        }
        Ok(out)
    }

    /// Raises InputError if the packets of a run of this variant cannot be captured at these nodes.
    fn check_capture(&self, variant: &str, packets_at: Vec<String>) -> PyResult<()> {
        catnip_lab::check_capture(&self.0, variant, &packets_at).map_err(input_error)
    }

    /// Performs one run. Writes its packets at these nodes as pcapng, and the events of its senders as qlog. Raises InputError.
    #[pyo3(signature = (variant, seed, packets, packets_at, qlog))]
    fn write_logs(
        &self,
        py: Python<'_>,
        variant: &str,
        seed: u64,
        packets: Option<PathBuf>,
        packets_at: Vec<String>,
        qlog: Option<PathBuf>,
    ) -> PyResult<()> {
        let packets = packets.as_deref().map(|path| PacketLog { path, at: &packets_at });
        let request = LogRequest { variant, seed, packets, qlog: qlog.as_deref() };
        let mut failure = None;
        let mut should_continue = || {
            failure = Python::attach(|py| py.check_signals()).err();
            failure.is_none()
        };
        let result = py.detach(|| catnip_lab::write_logs(&self.0, &request, &mut should_continue));
        failure.map_or(Ok(()), Err)?;
        result.map_err(input_error).map(|_| ())
    }
}

/// Loads NumPy in advance, so that an interrupt during its import raises an ordinary error here instead of a worse error later.
fn import_numpy(py: Python<'_>) -> PyResult<()> {
    py.import("numpy").map(|_| ())
}

/// Converts the value of an axis to a number, a truth value or, for all other types, a text.
fn axis_value<'py>(py: Python<'py>, value: &toml::Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        toml::Value::Integer(number) => number.into_bound_py_any(py),
        toml::Value::Float(number) => number.into_bound_py_any(py),
        toml::Value::Boolean(flag) => flag.into_bound_py_any(py),
        toml::Value::String(text) => text.into_bound_py_any(py),
        other => other.to_string().into_bound_py_any(py),
    }
}

impl PyScenario {
    /// Parses the interval of time series of these variants.
    fn interval(&self, text: &str, variants: &[String]) -> PyResult<Span> {
        let error = |message: String| input_error(LabError::new("", "series", message));
        let every = text.parse().map_err(|problem: ParseError| error(problem.to_string()))?;
        for variant in variants {
            let plan = self.0.emulation(variant).map_err(input_error)?;
            plan.check_interval(every).map_err(|problem| error(format!("{text:?}: {problem}")))?;
        }
        Ok(every)
    }

    /// Runs every variant with every seed and returns the tables.
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn tables(
        &self,
        py: Python<'_>,
        variants: &[String],
        seeds: Vec<u64>,
        tables: Vec<TableName>,
        threads: usize,
        progress: Option<Py<PyAny>>,
        every: Option<Span>,
    ) -> PyResult<BTreeMap<TableName, Table>> {
        if variants.is_empty() || seeds.is_empty() {
            let key = if seeds.is_empty() { "seeds" } else { "variants" };
            return Err(input_error(LabError::new(&self.display_path(), key, "0: at least one is needed")));
        }
        let total = variants.len() * seeds.len();
        let variants = variants.iter().map(String::as_str).collect();
        let request = RunRequest { variants, seeds, tables, threads, every };
        let mut failure = None;
        let mut report_progress = |done: usize| {
            let result = Python::attach(|py| {
                py.check_signals()?;
                progress.as_ref().map(|call| call.call1(py, (done, total))).transpose()
            });
            failure = result.err();
            failure.is_none()
        };
        let result = py.detach(|| catnip_lab::run_all(&self.0, &request, &mut report_progress));
        failure.map_or(Ok(()), Err)?;
        Ok(result.map_err(input_error)?.expect("it stops only after a failure"))
    }

    /// Returns the path of the scenario for messages.
    fn display_path(&self) -> String {
        self.0.path.display().to_string()
    }
}

/// Returns the fingerprint of the run of each of these variants with this seed, by name: a hash of all events of the run. Raises
/// InputError.
#[pyfunction]
fn fingerprints(
    py: Python<'_>,
    scenario: &PyScenario,
    variants: Vec<String>,
    seed: u64,
) -> PyResult<BTreeMap<String, u64>> {
    let of = |name: String| {
        let print = catnip_lab::fingerprint(scenario.0.plan(&name)?, seed);
        Ok((name, print))
    };
    py.detach(|| variants.into_iter().map(of).collect::<Result<_, _>>()).map_err(input_error)
}

/// Traces one transfer over one link: all events, and the segments as in a timeline.
#[pyfunction]
#[pyo3(signature = (*, profile, recovery, control, pacing, marker, packets, size, rate, delay, queue, window, drop, delayed_ack, tick_phase, seed))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
fn trace<'py>(
    py: Python<'py>,
    profile: &str,
    recovery: Option<&str>,
    control: Option<&str>,
    pacing: Option<&str>,
    marker: Option<&str>,
    packets: u64,
    size: Option<&str>,
    rate: &str,
    delay: &str,
    queue: &str,
    window: Option<u64>,
    drop: Vec<u64>,
    delayed_ack: bool,
    tick_phase: Option<&str>,
    seed: u64,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    import_numpy(py)?;
    let parse_error = |key: &'static str| move |error: ParseError| input_error(LabError::new("", key, error));
    let positive = |key: &'static str, value: u64| {
        if value > 0 {
            Ok(value)
        } else {
            Err(input_error(LabError::new("", key, "0: expected a positive number")))
        }
    };
    let base = profile::by_name(profile).map_err(parse_error("profile"))?;
    let segment_bytes = match size {
        None => base.segment_bytes,
        Some(size) => match size.parse::<Bytes>().map_err(parse_error("size"))?.0 {
            bytes @ 1..=65_495 => bytes as u32,
            bytes => {
                return Err(input_error(LabError::new(
                    "",
                    "size",
                    format!("{bytes}: expected 1 to 65495 bytes"),
                )));
            }
        },
    };
    let window = positive("window", window.unwrap_or_else(|| base.receive_window_segments()))?;
    let tcp = TcpConfig {
        segment_bytes,
        receive_window: window * u64::from(segment_bytes),
        recovery: recovery.map_or(Ok(base.recovery), str::parse).map_err(parse_error("recovery"))?,
        control: control.map_or(Ok(base.control.clone()), str::parse).map_err(parse_error("control"))?,
        pacing: pacing.map_or(Ok(base.pacing), str::parse).map_err(parse_error("pacing"))?,
        delayed_ack: if delayed_ack {
            base.delayed_ack.or(Some(profile::delayed_ack(&base)))
        } else {
            base.delayed_ack
        },
        ..base
    };
    let mut drop = drop;
    drop.sort_unstable();
    drop.dedup();
    if drop.first() == Some(&0) {
        return Err(input_error(LabError::new("", "drop", "0: packets are numbered from 1")));
    }
    let request = TraceRequest {
        tcp,
        marker: marker.map_or(Ok(None), notation::optional).map_err(parse_error("marker"))?,
        packets: positive("packets", packets)?,
        rate: rate.parse().map_err(parse_error("rate"))?,
        delay: delay.parse().map_err(parse_error("delay"))?,
        queue: queue.parse().map_err(parse_error("queue"))?,
        drop,
        tick_phase: tick_phase.map(str::parse::<Span>).transpose().map_err(parse_error("tick_phase"))?,
        seed,
    };
    let (rows, segments) = py.detach(|| catnip_lab::trace_with_segments(&request));
    let out = PyDict::new(py);
    let floats = |of: fn(&TraceRow) -> f64| rows.iter().map(of).collect::<Vec<f64>>().into_pyarray(py);
    let integers = |of: fn(&TraceRow) -> i64| rows.iter().map(of).collect::<Vec<i64>>().into_pyarray(py);
    out.set_item("time_s", floats(|row| row.at.as_secs()))?;
    out.set_item("event", PyList::new(py, rows.iter().map(|row| row.event))?)?;
    out.set_item("seq", integers(|row| row.seq))?;
    out.set_item("cwnd", floats(|row| row.cwnd))?;
    out.set_item("ssthresh", floats(|row| row.ssthresh.unwrap_or(f64::NAN)))?;
    out.set_item("dupacks", integers(|row| row.dupacks.into()))?;
    out.set_item("size", integers(|row| row.wire_bytes.into()))?;
    out.set_item("high", PyList::new(py, rows.iter().map(|row| row.high))?)?;
    Ok((out, to_dict(py, segments, false)?))
}

/// Converts a HAR file: returns the text of a page file, and a summary of each page. With `estimate`, sizes that are not recorded are usual
/// ones. Raises InputError.
#[pyfunction]
#[pyo3(signature = (path, estimate = false))]
fn read_har<'py>(py: Python<'py>, path: PathBuf, estimate: bool) -> PyResult<(String, Bound<'py, PyList>)> {
    let (site, pages) = py.detach(|| catnip_lab::read_har(&path, estimate)).map_err(input_error)?;
    let summaries = pages.into_iter().map(|page| {
        let out = PyDict::new(py);
        out.set_item("url", page.url)?;
        out.set_item("origins", page.origins)?;
        out.set_item("objects", page.objects)?;
        out.set_item("bytes", page.bytes)?;
        out.set_item("connections", page.connections)?;
        let protocols = PyDict::new(py);
        for (protocol, count) in page.protocols {
            protocols.set_item(protocol.name(), count)?;
        }
        out.set_item("protocols", protocols)?;
        out.set_item("unsized", page.unsized_objects)?;
        let dropped = PyDict::new(py);
        for (reason, count) in page.dropped {
            dropped.set_item(reason.name(), count)?;
        }
        out.set_item("dropped", dropped)?;
        Ok(out)
    });
    Ok((site.to_text(), PyList::new(py, summaries.collect::<PyResult<Vec<_>>>()?)?))
}

/// Reads the bursts of servers in a packet capture: returns the table, the number of connections, the number of TCP packets of others, and
/// true if the capture is cut. Raises InputError.
#[pyfunction]
fn read_bursts(py: Python<'_>, path: PathBuf) -> PyResult<(Bound<'_, PyDict>, u64, u64, bool)> {
    let found = py.detach(|| catnip_lab::read_bursts(&path)).map_err(input_error)?;
    Ok((to_dict(py, found.bursts, false)?, found.connections, found.unopened, found.is_cut))
}

/// Reads the TCP connections of a capture. Returns connection vectors of Tmix in `form`, their columns as of `Scenario.tmix`, the numbers of
/// connections without data and of TCP packets of connections whose opening is not in the capture, and true if the capture ends in the middle
/// of a packet. Raises InputError.
#[pyfunction]
fn read_vectors<'py>(
    py: Python<'py>,
    path: PathBuf,
    form: &str,
) -> PyResult<(String, Bound<'py, PyDict>, u64, u64, bool)> {
    import_numpy(py)?;
    let form = form.parse().map_err(|error: ParseError| InputError::new_err(error.to_string()))?;
    let found = py.detach(|| catnip_lab::read_vectors(&path)).map_err(input_error)?;
    let text = tmix::write(&found.vectors, form);
    let text = text.map_err(|problem| InputError::new_err(format!("{}: {problem}", path.display())))?;
    Ok((text, columns_of(py, &found.vectors)?, found.empty, found.unopened, found.is_cut))
}

fn columns_of<'py>(py: Python<'py>, vectors: &[ConnectionVector]) -> PyResult<Bound<'py, PyDict>> {
    let column =
        |of: &dyn Fn(&ConnectionVector) -> u64| vectors.iter().map(of).collect::<Vec<u64>>().into_pyarray(py);
    let out = PyDict::new(py);
    out.set_item("start_us", column(&|vector| vector.start_us))?;
    out.set_item("epochs", column(&ConnectionVector::epochs))?;
    out.set_item("initiator_bytes", column(&|vector| vector.bytes(Side::Initiator)))?;
    out.set_item("acceptor_bytes", column(&|vector| vector.bytes(Side::Acceptor)))?;
    Ok(out)
}

/// Converts a time with a unit, such as 200ms, to seconds. Raises InputError.
#[pyfunction]
fn seconds(text: &str) -> PyResult<f64> {
    let span: Span = text.parse().map_err(|error: ParseError| InputError::new_err(error.to_string()))?;
    Ok(span.as_secs())
}

/// Converts an amount of data with a unit, such as 32KB, to bytes. Raises InputError.
#[pyfunction]
fn bytes(text: &str) -> PyResult<u64> {
    let bytes: Bytes = text.parse().map_err(|error: ParseError| InputError::new_err(error.to_string()))?;
    Ok(bytes.0)
}

/// Returns the name and the description of each TCP profile.
#[pyfunction]
fn profiles() -> Vec<(&'static str, &'static str)> {
    profile::NAMES.to_vec()
}

/// Returns the families of kinds in scenarios, queues first. Each family has a name, and a list with the notation and the description of
/// each kind.
#[pyfunction]
fn kinds() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    catnip_lab::built_in().to_vec()
}

/// Returns the id, the title, the number of seeds and the names of the variants of a scenario file. Does not check the variants. Raises
/// InputError.
#[pyfunction]
fn outline(path: PathBuf) -> PyResult<(String, String, u32, Vec<String>)> {
    let Outline { id, title, seeds, variants } = Outline::load(&path).map_err(input_error)?;
    Ok((id, title, seeds, variants))
}

/// Returns the JSON Schema of scenario files as text.
#[pyfunction]
fn schema() -> String {
    catnip_lab::schema_text()
}

/// Name, type, unit and meaning of a column.
type ColumnText = (&'static str, &'static str, &'static str, &'static str);

/// Returns the tables of results. Each table has a name, the meaning of a row, and a list with the name, type, unit (empty for names and
/// counts) and meaning of each column.
#[pyfunction]
fn tables() -> Vec<(&'static str, &'static str, Vec<ColumnText>)> {
    let columns = |table: TableName| {
        table.headings().iter().map(|it| (it.name, it.empty.kind(), it.unit(), it.about)).collect()
    };
    TableName::all().into_iter().map(|table| (table.name(), table.about(), columns(table))).collect()
}

fn to_dict(py: Python<'_>, table: Table, coded: bool) -> PyResult<Bound<'_, PyDict>> {
    let out = PyDict::new(py);
    for (name, column) in table.into_columns() {
        match column {
            Column::Float(values) => out.set_item(name, values.into_pyarray(py))?,
            Column::Integer(values) => out.set_item(name, values.into_pyarray(py))?,
            Column::Text(values) => {
                let (names, rows) = values.into_parts();
                let names: Vec<_> = names.iter().map(|name| PyString::new(py, name)).collect();
                if coded {
                    out.set_item(name, (names, rows.into_pyarray(py)))?;
                    continue;
                }
                out.set_item(name, PyList::new(py, rows.iter().map(|&number| &names[number as usize]))?)?;
            }
        }
    }
    Ok(out)
}
