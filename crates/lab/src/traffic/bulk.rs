use super::{Connections, Scene, Stage, TrafficKind, User, Workload};
use crate::error::Wrong;
use crate::real::{ObjectName, Protocol};
use crate::tcp::TcpFile;
use crate::text::{DistributionText, option_from_text, yes};
use catnip_base::{Bytes, Distribution, FlowContext, Rng, Span, Stream, Time};
use catnip_sim::app::{AnyApp, Bulk, ServerConfig};
use catnip_sim::{CLIENT, Message, Parties, SERVER};
use serde::Deserialize;
use std::sync::Arc;

/// Transfers of a given size, one per pair of hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkFile {
    from: String,
    to: String,
    packets: Option<u64>,
    #[serde(default, deserialize_with = "option_from_text")]
    bytes: Option<Bytes>,
    /// When each begins, seconds.
    start_s: Option<DistributionText>,
    #[serde(default)]
    tcp: TcpFile,
    #[serde(default = "yes")]
    tells_size: bool,
    port: Option<u16>,
    paths: Option<String>,
}

/// A transfer of more than this (an exabyte) is a slip of the keyboard.
const MAX_BYTES: u64 = 1 << 60;

impl TrafficKind for BulkFile {
    fn ends(&self) -> [(&'static str, &str); 2] {
        [("from", &self.from), ("to", &self.to)]
    }

    fn connections(&self) -> Option<Connections<'_>> {
        let paths = self.paths.as_deref().unwrap_or("/{bytes}");
        let (tells_size, port, speaks) = (self.tells_size, self.port, Protocol::Http { persistent: false });
        Some(Connections { tcp: &self.tcp, tells_size, port, speaks, paths })
    }

    fn build(&self, scene: &Scene<'_>) -> Result<Arc<dyn Workload>, Wrong> {
        let bytes = match (self.packets, self.bytes) {
            (Some(packets), None) => packets.saturating_mul(scene.tcp.segment_bytes.into()),
            (None, Some(bytes)) => bytes.0,
            _ => return Err((scene.key("packets"), "give either packets or bytes".into())),
        };
        if !(1..=MAX_BYTES).contains(&bytes) {
            return Err((scene.key("packets"), format!("{bytes} bytes: expected 1 to {MAX_BYTES}")));
        }
        let start_s = self.start_s.as_ref().map(DistributionText::read).transpose();
        let start_s = start_s.map_err(scene.at("start_s"))?.unwrap_or(Distribution::Constant(0.0));
        Ok(Arc::new(BulkWorkload { bytes, start_s }))
    }
}

#[derive(Debug)]
struct BulkWorkload {
    bytes: u64,
    start_s: Distribution,
}

impl Workload for BulkWorkload {
    fn app(&self, user: &User, _stage: &mut dyn Stage) -> AnyApp {
        let start = self.start_s.draw(&mut Rng::new(user.seed, Stream::Start(user.number)));
        let opener = if user.server_is_real { CLIENT } else { SERVER };
        let parties = Parties { opener, ..user.parties() };
        let context = user.tells_size.then(|| FlowContext::document(self.bytes));
        let document = Message { bytes: self.bytes, context, ..Message::default() };
        AnyApp::Bulk(Bulk::new(parties, document, Time::ZERO + Span::from_secs_f64(start)))
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

    fn lone_transfer(&self) -> Option<u64> {
        Some(self.bytes)
    }
}
