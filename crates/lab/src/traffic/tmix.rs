use super::{Connections, Scene, Stage, TrafficKind, User, Workload};
use crate::error::Wrong;
use crate::real::{ObjectName, Protocol};
use crate::tcp::TcpFile;
use crate::text::{DistributionText, from_text, yes};
use crate::tmix;
use catnip_base::{Distribution, Rng, Span, Stream};
use catnip_net::mark::Service;
use catnip_sim::app::{Acceptor, AnyApp, ConnectionVector, Initiator, Side, VectorGenerator};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Clients and servers that replay a trace of connections.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TmixFile {
    clients: String,
    servers: String,
    /// Connection vectors in either form of Tmix.
    trace: Option<PathBuf>,
    generate: Option<GenerateFile>,
    /// What its users do has rows in results.
    #[serde(default = "yes")]
    measured: bool,
    #[serde(default)]
    tcp: TcpFile,
    #[serde(default = "yes")]
    tells_size: bool,
    port: Option<u16>,
    paths: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GenerateFile {
    /// From this seed, the same in all runs; without it, from the seed of the run, the same in all variants.
    seed: Option<u64>,
    connections: u32,
    /// In which time they are opened.
    #[serde(deserialize_with = "from_text")]
    over: Span,
    epochs: DistributionText,
    request_bytes: Option<DistributionText>,
    response_bytes: DistributionText,
    idle_s: DistributionText,
    /// Seconds that a server takes.
    server_s: Option<DistributionText>,
}

/// More connections than a run has memory for.
const MAX_CONNECTIONS: u32 = 10_000_000;

/// Bytes of a request of which nothing is said.
const REQUEST_BYTES: f64 = 300.0;

impl TrafficKind for TmixFile {
    fn ends(&self) -> [(&'static str, &str); 2] {
        [("servers", &self.servers), ("clients", &self.clients)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let paths = self.paths.as_deref().unwrap_or("/{bytes}");
        let (tells_size, port, speaks) = (self.tells_size, self.port, Protocol::Http { persistent: true });
        Some(Connections { tcp: &self.tcp, tells_size, port, speaks, paths })
    }

    fn is_measured(&self) -> bool {
        self.measured
    }

    fn build(&self, scene: &Scene<'_>) -> Result<Arc<dyn Workload>, Wrong> {
        let is_real = |node| scene.network.real.iter().any(|real| real.node == node);
        if scene.pairs.iter().any(|&(_, client)| is_real(client)) {
            let what =
                format!("{:?}: a real client replays nothing; its command makes its traffic", self.clients);
            return Err((scene.key("clients"), what));
        }
        let source = self.source(scene)?;
        if scene.pairs.iter().any(|&(server, _)| is_real(server)) {
            let Source::Known(vectors) = &source else {
                let what = "a real server has to know its documents before the run: from which seed?";
                return Err((scene.key("generate.seed"), what.into()));
            };
            if let Some(at) = vectors.iter().position(|vector| !vector.is_request_response()) {
                let what =
                    format!("connection {}: a real server answers requests, each of them once", at + 1);
                return Err((scene.key("trace"), what));
            }
        }
        Ok(Arc::new(TmixWorkload(source)))
    }

    fn service(&self) -> Service {
        Service::Interactive
    }
}

impl TmixFile {
    fn source(&self, scene: &Scene<'_>) -> Result<Source, Wrong> {
        match (&self.trace, &self.generate) {
            (Some(file), None) => {
                let vectors = tmix::load(&scene.files.find(file)).map_err(scene.at("trace"))?;
                Ok(Source::Known(vectors.into()))
            }
            (None, Some(generate)) => {
                let generator = generate.read(scene)?;
                Ok(match generate.seed {
                    Some(seed) => {
                        let rng = Rng::new(seed, Stream::Workload(0));
                        Source::Known(generator.generate(&rng).into())
                    }
                    None => Source::Drawn(Box::new(Drawn {
                        generator,
                        stream: Stream::Workload(1 + scene.first_user),
                        made: Mutex::default(),
                    })),
                })
            }
            _ => Err((scene.key("trace"), "give either trace or generate".into())),
        }
    }
}

impl GenerateFile {
    fn read(&self, scene: &Scene<'_>) -> Result<VectorGenerator, Wrong> {
        if !(1..=MAX_CONNECTIONS).contains(&self.connections) {
            let what = format!("{}: expected 1 to {MAX_CONNECTIONS}", self.connections);
            return Err((scene.key("generate.connections"), what));
        }
        let read =
            |text: &DistributionText, key: &str| text.read().map_err(scene.at(&format!("generate.{key}")));
        let read_or = |text: &Option<DistributionText>, key: &str, otherwise: f64| {
            text.as_ref().map_or(Ok(Distribution::Constant(otherwise)), |text| read(text, key))
        };
        Ok(VectorGenerator {
            connections: self.connections,
            over: self.over,
            epochs: read(&self.epochs, "epochs")?,
            request_bytes: read_or(&self.request_bytes, "request_bytes", REQUEST_BYTES)?,
            response_bytes: read(&self.response_bytes, "response_bytes")?,
            idle_s: read(&self.idle_s, "idle_s")?,
            server_s: read_or(&self.server_s, "server_s", 0.0)?,
        })
    }
}

/// Where the vectors of a run come from.
#[derive(Debug)]
enum Source {
    /// The same in all runs.
    Known(Arc<[ConnectionVector]>),
    /// Drawn from the seed of the run.
    Drawn(Box<Drawn>),
}

#[derive(Debug)]
struct Drawn {
    generator: VectorGenerator,
    stream: Stream,
    /// What runs that go on have drawn, by seed: all users and servers of a run share it.
    made: Mutex<BTreeMap<u64, Weak<[ConnectionVector]>>>,
}

impl Source {
    fn vectors(&self, seed: u64) -> Arc<[ConnectionVector]> {
        let drawn = match self {
            Self::Known(vectors) => return vectors.clone(),
            Self::Drawn(drawn) => drawn,
        };
        let mut made = drawn.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(vectors) = made.get(&seed).and_then(Weak::upgrade) {
            return vectors;
        }
        made.retain(|_, vectors| vectors.strong_count() > 0);
        let vectors: Arc<[ConnectionVector]> = drawn.generator.generate(&Rng::new(seed, drawn.stream)).into();
        made.insert(seed, Arc::downgrade(&vectors));
        vectors
    }
}

#[derive(Debug)]
struct TmixWorkload(Source);

impl Workload for TmixWorkload {
    fn app(&self, user: &User, _stage: &mut dyn Stage) -> AnyApp {
        let vectors = self.0.vectors(user.seed);
        AnyApp::Initiator(Box::new(Initiator::new(vectors, user.parties(), user.place)))
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
