use super::{AnyWorld, BuildContext, Connections, TrafficKind, User, Workload};
use crate::error::KeyError;
use crate::results::activities::ActivityKind;
use crate::results::rows::Unit;
use crate::scenario::describe::Nodes;
use crate::scenario::external::Protocol;
use crate::scenario::tcp::TcpFile;
use crate::scenario::text::{Times, yes};
use catnip_net::mark::Service;
use catnip_sim::app::{AnyApp, EchoRecord, ServerConfig, Telnet, TelnetConfig};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// Telnet sessions: a user sends a keystroke, waits for its echo, and sends the next keystroke.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "telnet")]
pub(crate) struct TelnetFile {
    /// Clients, which send requests. Each server serves a block of neighbouring clients.
    #[schemars(with = "Nodes", example = &"client[0..50]")]
    clients: String,
    /// Servers, which send responses.
    #[schemars(with = "Nodes", example = &"server")]
    servers: String,
    /// Size of a keystroke and of its echo, bytes.
    #[serde(default = "hundred")]
    #[schemars(range(min = 1), example = 1)]
    bytes: u64,
    /// Time before the first keystroke, and from each keystroke to the next. If the echo of a keystroke takes longer, the next keystroke
    /// follows the echo at once.
    #[serde(alias = "pause_s")]
    #[schemars(example = &"exponential:mean=200ms")]
    pause: Times,
    /// True if results have rows for the activity of the users. The packets of the group are always counted.
    #[serde(default = "yes")]
    #[schemars(example = false)]
    measured: bool,
    /// TCP parameters of this group that differ from `[tcp]`.
    #[serde(default)]
    #[schemars(example = json!({ "control": "cubic" }), extend("x-default" = "same as `[tcp]`"))]
    tcp: TcpFile,
    /// TCP port of the servers, used only if a server or a client is external.
    #[schemars(range(min = 1), example = 7007, extend("default" = ECHO))]
    port: Option<u16>,
}

fn hundred() -> u64 {
    100
}

/// Port of the echo protocol (RFC 862).
const ECHO: u16 = 7;

impl TrafficKind for TelnetFile {
    fn activities() -> Vec<ActivityKind> {
        vec![ActivityKind::of::<EchoRecord>()]
    }

    fn ends(&self) -> [(&'static str, &str); 2] {
        [("servers", &self.servers), ("clients", &self.clients)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let (port, protocol) = (self.port.or(Some(ECHO)), Protocol::Echo);
        Some(Connections { tcp: &self.tcp, tells_size: false, port, protocol, paths: "/" })
    }

    fn is_measured(&self) -> bool {
        self.measured
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Arc<dyn Workload>, KeyError> {
        if self.bytes == 0 {
            return Err((context.key("bytes"), "0: expected at least 1".into()));
        }
        let pause_s = self.pause.0.clone();
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
        Unit::KEYSTROKE
    }

    fn app(&self, user: &User, _world: &mut dyn AnyWorld) -> AnyApp {
        AnyApp::Telnet(Box::new(Telnet::new(self.0.clone(), user.connection_spec(), user.seed, user.number)))
    }

    fn server(&self) -> Option<ServerConfig> {
        Some(ServerConfig { delay_s: None, tells_size: false, closes: false })
    }
}
