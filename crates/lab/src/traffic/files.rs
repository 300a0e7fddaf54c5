use super::bulk::PATHS;
use super::{Connections, Scene, Stage, TrafficKind, User, Workload};
use crate::error::Wrong;
use crate::scenario::describe::Nodes;
use crate::scenario::real::{PORT, Protocol};
use crate::scenario::tcp::TcpFile;
use crate::scenario::text::{Sizes, Times, yes};
use catnip_base::Distribution;
use catnip_sim::app::{AnyApp, Files, FilesConfig, ServerConfig};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// People who fetch files one after the other, each over a connection of its own: FTP.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ftp")]
pub(crate) struct FilesFile {
    /// Who sends: the servers.
    #[schemars(with = "Nodes", example = &"server")]
    from: String,
    /// Who receives: the clients. Each server has a block of neighbouring ones.
    #[schemars(with = "Nodes", example = &"client[0..50]")]
    to: String,
    /// How long a file is.
    #[schemars(example = &"pareto:shape=1.2,minimum=32KB,maximum=20MB")]
    bytes: Sizes,
    /// From the end of a file to the beginning of the next one, and before the first.
    #[serde(alias = "gap_s")]
    #[schemars(example = &"exponential:mean=2s")]
    gap: Times,
    /// How many files each fetches.
    #[schemars(example = 10, extend("x-default" = "on and on"))]
    files: Option<u32>,
    /// Bytes of a request. Without any a request takes no time: the connection is enough.
    #[serde(default)]
    #[schemars(example = 300)]
    request_bytes: u64,
    /// How long a server needs before it answers; answers of a connection keep their order.
    #[serde(alias = "server_delay_s")]
    #[schemars(example = &"exponential:mean=50ms", extend("x-default" = "no time"))]
    server_delay: Option<Times>,
    /// What its users do has rows in results; its packets count where they are in any case.
    #[serde(default = "yes")]
    #[schemars(example = false)]
    measured: bool,
    /// What its connections have of their own beside what `[tcp]` says of all.
    #[serde(default)]
    #[schemars(example = json!({ "control": "cubic" }), extend("x-default" = "as `[tcp]` says"))]
    tcp: TcpFile,
    /// Senders tell TCP how long a message is, which marking, early congestion avoidance and pacing make use of.
    #[serde(default = "yes")]
    #[schemars(example = false)]
    tells_size: bool,
    /// Where servers listen, if one of the hosts is real.
    #[schemars(range(min = 1), example = 8080, extend("default" = PORT))]
    port: Option<u16>,
    /// How a real server names its objects: text with `{page}` (from 1), `{object}` (from 0), `{bytes}` and `{user}`.
    #[schemars(example = &"/files/{bytes}", extend("default" = PATHS))]
    paths: Option<String>,
}

impl TrafficKind for FilesFile {
    fn ends(&self) -> [(&'static str, &str); 2] {
        [("from", &self.from), ("to", &self.to)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let paths = self.paths.as_deref().unwrap_or(PATHS);
        let (tells_size, port, speaks) = (self.tells_size, self.port, Protocol::Http { persistent: false });
        Some(Connections { tcp: &self.tcp, tells_size, port, speaks, paths })
    }

    fn is_measured(&self) -> bool {
        self.measured
    }

    fn build(&self, _scene: &Scene<'_>) -> Result<Arc<dyn Workload>, Wrong> {
        let config = FilesConfig {
            bytes: self.bytes.0.clone(),
            gap_s: self.gap.0.clone(),
            request_bytes: self.request_bytes,
            count: self.files,
        };
        let delay_s = self.server_delay.as_ref().map(|said| said.0.clone());
        Ok(Arc::new(FilesWorkload { config: Arc::new(config), delay_s }))
    }
}

#[derive(Debug)]
struct FilesWorkload {
    config: Arc<FilesConfig>,
    delay_s: Option<Distribution>,
}

impl Workload for FilesWorkload {
    fn app(&self, user: &User, _stage: &mut dyn Stage) -> AnyApp {
        AnyApp::Files(Box::new(Files::new(self.config.clone(), user.parties(), user.seed, user.number)))
    }

    fn server(&self) -> Option<ServerConfig> {
        Some(ServerConfig { delay_s: self.delay_s.clone(), tells_size: true, closes: true })
    }
}
