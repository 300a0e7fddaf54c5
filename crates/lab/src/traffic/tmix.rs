use super::bulk::PATHS;
use super::{AnyWorld, BuildContext, Connections, TrafficKind, User, Workload};
use crate::error::KeyError;
use crate::formats::tmix;
use crate::input::Opened;
use crate::scenario::describe::Nodes;
use crate::scenario::external::{ObjectName, PORT, Protocol};
use crate::scenario::files::Files;
use crate::scenario::tcp::TcpFile;
use crate::scenario::text::{Counts, Sizes, Text, Times, yes};
use catnip_base::{Distribution, Rng, Span, Stream};
use catnip_net::mark::Service;
use catnip_sim::app::{Acceptor, AnyApp, ConnectionVector, Initiator, Side, VectorGenerator};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Clients and servers that replay a trace of connections.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "tmix")]
pub(crate) struct TmixFile {
    /// Clients, which send requests. Each server serves a block of neighbouring clients.
    #[schemars(with = "Nodes", example = &"client[0..50]")]
    clients: String,
    /// Servers, which send responses.
    #[schemars(with = "Nodes", example = &"server")]
    servers: String,
    /// File of connection vectors in either form of Tmix; alternative to `generate`. The path is relative to the scenario.
    #[schemars(example = &"traces/web.cvec", extend("x-default" = "given by `generate`"))]
    trace: Option<PathBuf>,
    /// Randomly generated trace; alternative to `trace`.
    #[schemars(example = json!({
        "connections": 100,
        "over": "2min",
        "epochs": 3,
        "response_bytes": "10KB",
        "idle": "1s",
    }), extend("x-default" = "given by `trace`"))]
    generate: Option<GenerateFile>,
    /// True if results have rows for the activity of the users. The packets of the group are always counted.
    #[serde(default = "yes")]
    #[schemars(example = false)]
    measured: bool,
    /// TCP parameters of this group that differ from `[tcp]`.
    #[serde(default)]
    #[schemars(example = json!({ "control": "cubic" }), extend("x-default" = "same as `[tcp]`"))]
    tcp: TcpFile,
    /// True if senders pass the size of each message to TCP, for marking, early congestion avoidance and pacing.
    #[serde(default = "yes")]
    #[schemars(example = false)]
    tells_size: bool,
    /// TCP port of the servers, used only if a server or a client is external.
    #[schemars(range(min = 1), example = 8080, extend("default" = PORT))]
    port: Option<u16>,
    /// Pattern of the paths of objects, used only if a server or a client is external. The pattern may contain `{page}` (number from 1),
    /// `{object}` (number from 0), `{bytes}` (size) and `{user}` (number of the client).
    #[schemars(example = &"/files/{bytes}", extend("default" = PATHS))]
    paths: Option<String>,
}

/// Randomly generated connections.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "tmix-generate")]
struct GenerateFile {
    /// Seed of the trace. If a seed is given, all runs replay the same trace.
    #[schemars(example = 7, extend("x-default" = "seed of the run, so that each run has a different trace, the same in all variants"))]
    seed: Option<u64>,
    /// Number of connections, up to ten million.
    #[schemars(range(min = 1, max = MAX_CONNECTIONS), example = 3151)]
    connections: u32,
    /// Period in which the connections are opened, from the start of the run.
    #[schemars(example = &"60min")]
    over: Text<Span>,
    /// Number of requests of a connection, at least one.
    #[schemars(example = &"exponential:mean=3.4")]
    epochs: Counts,
    /// Size of a request, bytes.
    #[schemars(example = &"uniform:minimum=200,maximum=600", extend("default" = REQUEST_BYTES))]
    request_bytes: Option<Sizes>,
    /// Size of a response, bytes.
    #[schemars(example = &"lognormal:mu=9.21,sigma=1.45,maximum=1MB")]
    response_bytes: Sizes,
    /// Idle period between a response and the next request.
    #[serde(alias = "idle_s")]
    #[schemars(example = &"pareto:shape=0.33,minimum=1s,maximum=1min")]
    idle: Times,
    /// Processing time of a server before a response.
    #[serde(alias = "server_s")]
    #[schemars(example = &"20ms", extend("x-default" = "none"))]
    server: Option<Times>,
}

/// Maximum number of connections. A run with more connections would need too much memory.
const MAX_CONNECTIONS: u32 = 10_000_000;

/// Default size of a request, bytes.
const REQUEST_BYTES: f64 = 300.0;

impl TrafficKind for TmixFile {
    fn ends(&self) -> [(&'static str, &str); 2] {
        [("servers", &self.servers), ("clients", &self.clients)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let paths = self.paths.as_deref().unwrap_or(PATHS);
        let (tells_size, port, protocol) = (self.tells_size, self.port, Protocol::Http { persistent: true });
        Some(Connections { tcp: &self.tcp, tells_size, port, protocol, paths })
    }

    fn is_measured(&self) -> bool {
        self.measured
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Arc<dyn Workload>, KeyError> {
        let is_external = |node| context.network.external.iter().any(|external| external.node == node);
        if context.pairs.iter().any(|&(_, client)| is_external(client)) {
            let message = format!(
                "{:?}: an external client does not replay a trace; its command generates the traffic",
                self.clients
            );
            return Err((context.key("clients"), message));
        }
        let source = self.source(context)?;
        if context.pairs.iter().any(|&(server, _)| is_external(server)) {
            let Source::Known(vectors) = &source else {
                let message = "required with an external server, which needs its documents before the run";
                return Err((context.key("generate.seed"), message.into()));
            };
            if let Some(at) = vectors.iter().position(|vector| !vector.is_request_response()) {
                let message = format!(
                    "connection {}: expected one response per request, with an external server",
                    at + 1
                );
                return Err((context.key("trace"), message));
            }
        }
        Ok(Arc::new(TmixWorkload(source)))
    }

    fn service(&self) -> Service {
        Service::Interactive
    }
}

impl TmixFile {
    fn source(&self, context: &BuildContext<'_>) -> Result<Source, KeyError> {
        match (&self.trace, &self.generate) {
            (Some(file), None) => {
                let vectors = read_vectors(context.files, file).map_err(context.error_at("trace"))?;
                Ok(Source::Known(vectors.into()))
            }
            (None, Some(generate)) => {
                let generator = generate.read(context)?;
                Ok(match generate.seed {
                    Some(seed) => {
                        let rng = Rng::new(seed, Stream::Workload(0));
                        Source::Known(generator.generate(&rng).into())
                    }
                    None => Source::Drawn(Box::new(Drawn {
                        generator,
                        stream: Stream::Workload(1 + context.first_user),
                        cache: Mutex::default(),
                    })),
                })
            }
            _ => Err((context.key("trace"), "expected either trace or generate".into())),
        }
    }
}

/// Reads the connections of a trace that the scenario names, in either form. Errors name the file and the line.
fn read_vectors(files: &Files, file: &Path) -> Result<Vec<ConnectionVector>, String> {
    let path = files.find(file);
    let file_error = |message: &dyn fmt::Display| format!("{}: {message}", path.display());
    let text = files.open(&path).and_then(Opened::text).map_err(|error| file_error(&error))?;
    let vectors = tmix::read(&text).map_err(|error| file_error(&error))?;
    if vectors.is_empty() { Err(file_error(&"no connections")) } else { Ok(vectors) }
}

impl GenerateFile {
    fn read(&self, context: &BuildContext<'_>) -> Result<VectorGenerator, KeyError> {
        if !(1..=MAX_CONNECTIONS).contains(&self.connections) {
            let message = format!("{}: expected 1 to {MAX_CONNECTIONS}", self.connections);
            return Err((context.key("generate.connections"), message));
        }
        let value_or =
            |value: Option<Distribution>, default| value.unwrap_or(Distribution::Constant(default));
        Ok(VectorGenerator {
            connections: self.connections,
            over: self.over.0,
            epochs: self.epochs.0.clone(),
            request_bytes: value_or(self.request_bytes.as_ref().map(|value| value.0.clone()), REQUEST_BYTES),
            response_bytes: self.response_bytes.0.clone(),
            idle_s: self.idle.0.clone(),
            server_s: value_or(self.server.as_ref().map(|value| value.0.clone()), 0.0),
        })
    }
}

/// Source of the connection vectors of a run.
#[derive(Debug)]
enum Source {
    /// Vectors that are the same in all runs.
    Known(Arc<[ConnectionVector]>),
    /// Vectors that are drawn from the seed of the run.
    Drawn(Box<Drawn>),
}

#[derive(Debug)]
struct Drawn {
    generator: VectorGenerator,
    stream: Stream,
    /// Vectors drawn by runs in progress, by seed. All users and servers of a run share them.
    cache: Mutex<BTreeMap<u64, Weak<[ConnectionVector]>>>,
}

impl Source {
    fn vectors(&self, seed: u64) -> Arc<[ConnectionVector]> {
        let drawn = match self {
            Self::Known(vectors) => return vectors.clone(),
            Self::Drawn(drawn) => drawn,
        };
        let mut cache = drawn.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(vectors) = cache.get(&seed).and_then(Weak::upgrade) {
            return vectors;
        }
        cache.retain(|_, vectors| vectors.strong_count() > 0);
        let vectors: Arc<[ConnectionVector]> = drawn.generator.generate(&Rng::new(seed, drawn.stream)).into();
        cache.insert(seed, Arc::downgrade(&vectors));
        vectors
    }
}

#[derive(Debug)]
struct TmixWorkload(Source);

impl Workload for TmixWorkload {
    fn app(&self, user: &User, _world: &mut dyn AnyWorld) -> AnyApp {
        let vectors = self.0.vectors(user.seed);
        AnyApp::Initiator(Box::new(Initiator::new(vectors, user.connection_spec(), user.position)))
    }

    fn server_app(&self, seed: u64, _number: u32, tells_size: bool) -> Option<AnyApp> {
        Some(AnyApp::Acceptor(Box::new(Acceptor::new(self.0.vectors(seed), tells_size))))
    }

    fn vectors(&self, seed: u64) -> Option<Arc<[ConnectionVector]>> {
        Some(self.0.vectors(seed))
    }

    fn documents(&self) -> Vec<ObjectName> {
        let Source::Known(vectors) = &self.0 else { return Vec::new() };
        let adus = vectors.iter().flat_map(|vector| &vector.adus);
        let responses = adus.filter(|adu| adu.by == Side::Acceptor && adu.bytes > 0).map(|adu| adu.bytes);
        let sizes: BTreeSet<u64> = responses.collect();
        sizes.into_iter().map(|bytes| ObjectName { bytes, ..ObjectName::default() }).collect()
    }
}
