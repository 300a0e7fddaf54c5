use super::bulk::PATHS;
use super::{AnyWorld, BuildContext, Connections, TrafficKind, User, Workload};
use crate::error::KeyError;
use crate::scenario::describe::Nodes;
use crate::scenario::external::{PORT, Protocol};
use crate::scenario::tcp::TcpFile;
use crate::scenario::text::{Sizes, Times, yes};
use catnip_base::Distribution;
use catnip_sim::app::{AnyApp, Files, FilesConfig, ServerConfig};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// FTP: users that fetch files one after the other, each over a separate connection.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ftp")]
pub(crate) struct FilesFile {
    /// Sending nodes: the servers.
    #[schemars(with = "Nodes", example = &"server")]
    from: String,
    /// Receiving nodes: the clients. Each server serves a block of neighbouring clients.
    #[schemars(with = "Nodes", example = &"client[0..50]")]
    to: String,
    /// Size of a file.
    #[schemars(example = &"pareto:shape=1.2,minimum=32KB,maximum=20MB")]
    bytes: Sizes,
    /// Time before the first file, and between the end of a file and the start of the next file.
    #[serde(alias = "gap_s")]
    #[schemars(example = &"exponential:mean=2s")]
    gap: Times,
    /// Number of files that each user fetches.
    #[schemars(example = 10, extend("x-default" = "unlimited"))]
    files: Option<u32>,
    /// Size of a request, bytes. With 0, no request is sent: the server responds as soon as the connection is available.
    #[serde(default)]
    #[schemars(example = 300)]
    request_bytes: u64,
    /// Processing time of a server before a response. The responses of a connection keep their order.
    #[serde(alias = "server_delay_s")]
    #[schemars(example = &"exponential:mean=50ms", extend("x-default" = "none"))]
    server_delay: Option<Times>,
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

impl TrafficKind for FilesFile {
    fn ends(&self) -> [(&'static str, &str); 2] {
        [("from", &self.from), ("to", &self.to)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let paths = self.paths.as_deref().unwrap_or(PATHS);
        let (tells_size, port, protocol) = (self.tells_size, self.port, Protocol::Http { persistent: false });
        Some(Connections { tcp: &self.tcp, tells_size, port, protocol, paths })
    }

    fn is_measured(&self) -> bool {
        self.measured
    }

    fn build(&self, _context: &BuildContext<'_>) -> Result<Arc<dyn Workload>, KeyError> {
        let config = FilesConfig {
            bytes: self.bytes.0.clone(),
            gap_s: self.gap.0.clone(),
            request_bytes: self.request_bytes,
            count: self.files,
        };
        let delay_s = self.server_delay.as_ref().map(|value| value.0.clone());
        Ok(Arc::new(FilesWorkload { config: Arc::new(config), delay_s }))
    }
}

#[derive(Debug)]
struct FilesWorkload {
    config: Arc<FilesConfig>,
    delay_s: Option<Distribution>,
}

impl Workload for FilesWorkload {
    fn app(&self, user: &User, _world: &mut dyn AnyWorld) -> AnyApp {
        AnyApp::Files(Box::new(Files::new(
            self.config.clone(),
            user.connection_spec(),
            user.seed,
            user.number,
        )))
    }

    fn server(&self) -> Option<ServerConfig> {
        Some(ServerConfig { delay_s: self.delay_s.clone(), tells_size: true, closes: true })
    }
}
