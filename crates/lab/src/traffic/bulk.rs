use super::{AnyWorld, BuildContext, Connections, TrafficKind, User, Workload};
use crate::error::KeyError;
use crate::results::rows::Unit;
use crate::scenario::describe::{InSchema, Nodes};
use crate::scenario::external::{ObjectName, PORT, Protocol};
use crate::scenario::tcp::TcpFile;
use crate::scenario::text::{Text, Times, yes};
use catnip_base::{Bytes, Distribution, FlowContext, ParseError, Rng, Span, Stream, Time};
use catnip_sim::app::{AnyApp, Bulk, ServerConfig};
use catnip_sim::{CLIENT, ConnectionSpec, Message, SERVER};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Value, json};
use std::str::FromStr;
use std::sync::Arc;

/// Transfers of a given size, one per pair of hosts.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "bulk")]
pub(crate) struct BulkFile {
    /// Sending nodes: the servers.
    #[schemars(with = "Nodes", example = &"server")]
    from: String,
    /// Receiving nodes: the clients. Each server serves a block of neighbouring clients.
    #[schemars(with = "Nodes", example = &"client[0..50]")]
    to: String,
    /// Size of a transfer in full segments; alternative to `bytes`.
    #[schemars(example = 28, extend("x-default" = "given by `bytes`"))]
    packets: Option<u64>,
    /// Size of a transfer; alternative to `packets`. An `endless` transfer lasts as long as the run.
    #[schemars(example = &"32KB", extend("x-default" = "given by `packets`"))]
    bytes: Option<Text<Length>>,
    /// Start time of a transfer: a time or a distribution of times.
    #[serde(alias = "start_s")]
    #[schemars(example = &"uniform:minimum=0s,maximum=2s", extend("default" = START))]
    start: Option<Times>,
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

/// Default pattern of the paths of documents.
pub(super) const PATHS: &str = "/{bytes}";
/// Default start time of transfers, seconds.
const START: f64 = 0.0;
/// Maximum size of a transfer: an exabyte. A larger size is probably a typing error. An endless transfer has this size, since no run
/// completes a transfer of this size.
const MAX_BYTES: u64 = 1 << 60;
const ENDLESS: &str = "endless";

/// Size of a transfer.
#[derive(Clone, Copy, Debug)]
enum Length {
    Bytes(Bytes),
    Endless,
}

impl FromStr for Length {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text == ENDLESS { Ok(Self::Endless) } else { text.parse().map(Self::Bytes) }
    }
}

impl InSchema for Length {
    fn schema() -> Schema {
        let mut schema = Bytes::schema();
        let of_bytes = schema.get("pattern").and_then(Value::as_str).unwrap_or_default();
        let pattern = format!("^{ENDLESS}$|{of_bytes}");
        schema.insert("pattern".into(), pattern.into());
        schema
    }
}

impl TrafficKind for BulkFile {
    fn ends(&self) -> [(&'static str, &str); 2] {
        [("from", &self.from), ("to", &self.to)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let paths = self.paths.as_deref().unwrap_or(PATHS);
        let (tells_size, port, protocol) = (self.tells_size, self.port, Protocol::Http { persistent: false });
        Some(Connections { tcp: &self.tcp, tells_size, port, protocol, paths })
    }

    fn build(&self, context: &BuildContext<'_>) -> Result<Arc<dyn Workload>, KeyError> {
        let is_endless = matches!(self.bytes, Some(Text(Length::Endless)));
        let bytes = match (self.packets, self.bytes) {
            (Some(packets), None) => packets.saturating_mul(context.tcp.segment_bytes.into()),
            (None, Some(Text(Length::Bytes(bytes)))) => bytes.0,
            (None, Some(Text(Length::Endless))) if context.has_external_hosts() => {
                return Err((context.key("bytes"), format!("{ENDLESS:?}: only between simulated hosts")));
            }
            (None, Some(Text(Length::Endless))) => MAX_BYTES,
            _ => return Err((context.key("packets"), "expected either packets or bytes".into())),
        };
        if !(1..=MAX_BYTES).contains(&bytes) {
            let key = if self.packets.is_some() { "packets" } else { "bytes" };
            return Err((context.key(key), format!("{bytes} bytes: expected 1 to {MAX_BYTES}")));
        }
        let start_s = self.start.as_ref().map_or(Distribution::Constant(START), |value| value.0.clone());
        Ok(Arc::new(BulkWorkload { bytes, is_endless, start_s }))
    }
}

#[derive(Debug)]
struct BulkWorkload {
    bytes: u64,
    is_endless: bool,
    start_s: Distribution,
}

impl Workload for BulkWorkload {
    fn unit(&self) -> Unit {
        if self.is_endless { Unit::FLOW } else { Unit::TRANSFER }
    }

    fn app(&self, user: &User, _world: &mut dyn AnyWorld) -> AnyApp {
        let start = self.start_s.draw(&mut Rng::new(user.seed, Stream::Start(user.number)));
        let opener = if user.server_is_external { CLIENT } else { SERVER };
        let connection_spec = ConnectionSpec { opener, ..user.connection_spec() };
        let context = (user.tells_size && !self.is_endless).then(|| FlowContext::document(self.bytes));
        let document = Message { bytes: self.bytes, context, ..Message::default() };
        AnyApp::Bulk(Bulk::new(connection_spec, document, Time::ZERO + Span::from_secs_f64(start)))
    }

    fn server(&self) -> Option<ServerConfig> {
        Some(ServerConfig { delay_s: None, tells_size: true, closes: true })
    }

    fn pushes(&self) -> bool {
        true
    }

    fn documents(&self) -> Vec<ObjectName> {
        vec![ObjectName { bytes: self.bytes, ..ObjectName::default() }]
    }

    fn single_transfer(&self) -> Option<u64> {
        (!self.is_endless).then_some(self.bytes)
    }
}
