use super::{Connections, Scene, Stage, TrafficKind, User, Workload};
use crate::error::Wrong;
use crate::real::Protocol;
use crate::tcp::TcpFile;
use crate::text::{DistributionText, yes};
use catnip_base::Distribution;
use catnip_sim::app::{AnyApp, Files, FilesConfig, ServerConfig};
use serde::Deserialize;
use std::sync::Arc;

/// People who fetch files one after the other, each over a connection of its own: FTP.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilesFile {
    from: String,
    to: String,
    bytes: DistributionText,
    /// Seconds from the end of a file to the beginning of the next one, and before the first.
    gap_s: DistributionText,
    /// How many files each fetches; otherwise on and on.
    files: Option<u32>,
    /// Bytes of a request; 0: the connection is enough.
    #[serde(default)]
    request_bytes: u64,
    /// Seconds that a server needs before it answers.
    server_delay_s: Option<DistributionText>,
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

impl TrafficKind for FilesFile {
    fn ends(&self) -> [(&'static str, &str); 2] {
        [("from", &self.from), ("to", &self.to)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let paths = self.paths.as_deref().unwrap_or("/{bytes}");
        let (tells_size, port, speaks) = (self.tells_size, self.port, Protocol::Http { persistent: false });
        Some(Connections { tcp: &self.tcp, tells_size, port, speaks, paths })
    }

    fn is_measured(&self) -> bool {
        self.measured
    }

    fn build(&self, scene: &Scene<'_>) -> Result<Arc<dyn Workload>, Wrong> {
        let config = FilesConfig {
            bytes: self.bytes.read().map_err(scene.at("bytes"))?,
            gap_s: self.gap_s.read().map_err(scene.at("gap_s"))?,
            request_bytes: self.request_bytes,
            count: self.files,
        };
        let delay_s = read_delay(scene, self.server_delay_s.as_ref())?;
        Ok(Arc::new(FilesWorkload { config: Arc::new(config), delay_s }))
    }
}

/// How long a server needs before it answers.
pub(super) fn read_delay(
    scene: &Scene<'_>,
    text: Option<&DistributionText>,
) -> Result<Option<Distribution>, Wrong> {
    text.map(|text| text.read().map_err(scene.at("server_delay_s"))).transpose()
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
