use super::{Connections, Scene, Stage, TrafficKind, User, Workload};
use crate::error::Wrong;
use crate::groups::Unit;
use crate::real::Protocol;
use crate::tcp::TcpFile;
use crate::text::{DistributionText, yes};
use catnip_net::mark::Service;
use catnip_sim::app::{AnyApp, ServerConfig, Telnet, TelnetConfig};
use serde::Deserialize;
use std::sync::Arc;

/// People at terminals: they type, wait for the echo, and type on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TelnetFile {
    clients: String,
    servers: String,
    /// Of what is typed, and of its echo.
    #[serde(default = "hundred")]
    bytes: u64,
    /// Seconds from one keystroke to the next, unless its echo takes longer; also before the first.
    pause_s: DistributionText,
    /// What its users do has rows in results.
    #[serde(default = "yes")]
    measured: bool,
    #[serde(default)]
    tcp: TcpFile,
    port: Option<u16>,
}

fn hundred() -> u64 {
    100
}

/// RFC 862.
const ECHO: u16 = 7;

impl TrafficKind for TelnetFile {
    fn ends(&self) -> [(&'static str, &str); 2] {
        [("servers", &self.servers), ("clients", &self.clients)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let (port, speaks) = (self.port.or(Some(ECHO)), Protocol::Echo);
        Some(Connections { tcp: &self.tcp, tells_size: false, port, speaks, paths: "/" })
    }

    fn is_measured(&self) -> bool {
        self.measured
    }

    fn build(&self, scene: &Scene<'_>) -> Result<Arc<dyn Workload>, Wrong> {
        if self.bytes == 0 {
            return Err((scene.key("bytes"), "0: nothing is typed".into()));
        }
        let pause_s = self.pause_s.read().map_err(scene.at("pause_s"))?;
        Ok(Arc::new(TelnetWorkload(Arc::new(TelnetConfig { bytes: self.bytes, pause_s }))))
    }

    fn service(&self) -> Service {
        Service::Highly
    }
}

#[derive(Debug)]
struct TelnetWorkload(Arc<TelnetConfig>);

impl Workload for TelnetWorkload {
    fn unit(&self) -> Unit {
        Unit::Keystroke
    }

    fn app(&self, user: &User, _stage: &mut dyn Stage) -> AnyApp {
        AnyApp::Telnet(Box::new(Telnet::new(self.0.clone(), user.parties(), user.seed, user.number)))
    }

    fn server(&self) -> Option<ServerConfig> {
        Some(ServerConfig { delay_s: None, tells_size: false, closes: false })
    }
}
