//! Services of simulated hosts for external clients.

use super::http;
use catnip_lab::{Plan, Service};
use catnip_net::NodeId;
use catnip_sim::TcpId;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

/// Services of the traffic groups, their listeners and documents.
#[derive(Debug, Default)]
pub(crate) struct Services {
    /// Service of each traffic group, by [`TcpId`].
    all: Vec<Service>,
    /// Traffic groups by the listening address of their simulated servers.
    listeners: BTreeMap<SocketAddrV4, TcpId>,
    documents: BTreeMap<(SocketAddrV4, String), Arc<Document>>,
}

/// Document of a simulated server.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) media_type: &'static str,
    pub(super) bytes: u64,
    /// Content of the beginning of the document; padding follows up to `bytes` bytes.
    pub(super) prefix: Vec<u8>,
}

/// Largest document that a client may request by a path that ends in a number of bytes.
const MAX_DOCUMENT: u64 = 1 << 40;

impl Services {
    /// Creates the services of a plan. Simulated servers listen for external clients only if their traffic group has such clients.
    pub(super) fn of(
        plan: &Plan,
        is_external: impl Fn(NodeId) -> bool,
        at: impl Fn(NodeId) -> Ipv4Addr,
    ) -> Self {
        let all = plan.groups().map(|group| group.service.clone()).collect();
        let mut services = Self { all, ..Self::default() };
        for (group, index) in plan.groups().zip(0..) {
            for &(server, _) in group.pairs.iter().filter(|(_, client)| is_external(*client)) {
                let at = SocketAddrV4::new(at(server), group.service.port);
                services.listeners.entry(at).or_insert(TcpId(index));
                services.add_documents(plan, server, at);
            }
        }
        services
    }

    fn add_documents(&mut self, plan: &Plan, server: NodeId, at: SocketAddrV4) {
        let plain = plan.documents(server).into_iter();
        self.documents.extend(plain.map(|(path, bytes)| {
            let document = Document::of(&path, bytes);
            ((at, path), Arc::new(document))
        }));
        let mut set_type = |path, media_type, prefix| {
            if let Some(document) = self.documents.get_mut(&(at, path)) {
                *document = Arc::new(Document { media_type, prefix, bytes: document.bytes });
            }
        };
        for (path, embedded) in plan.pages(server) {
            set_type(path, "text/html", http::page(&embedded));
            // The ending of a path determines the media type, if it is known.
            for image in embedded.into_iter().filter(|path| http::media_type(path) == http::OCTET_STREAM) {
                set_type(image, "image/gif", http::IMAGE.to_vec());
            }
        }
    }

    /// Returns the service of a traffic group.
    pub(super) fn get(&self, tcp: TcpId) -> &Service {
        &self.all[tcp.0 as usize]
    }

    /// Returns the traffic group whose server listens at this address.
    pub(super) fn listener_at(&self, at: SocketAddrV4) -> Option<TcpId> {
        self.listeners.get(&at).copied()
    }

    /// Returns the document of the server `at` with this path. If there is none, returns the document with the path without its query. If
    /// there is none either and the path ends in a number, returns a document of that many bytes of padding.
    pub(super) fn document(&self, at: SocketAddrV4, path: &str) -> Option<Arc<Document>> {
        let file = path.split(['?', '#']).next().unwrap_or("");
        let find = |path: &str| self.documents.get(&(at, path.to_string())).cloned();
        find(path).or_else(|| find(file)).or_else(|| {
            let bytes = file.rsplit('/').next()?.parse().ok().filter(|&bytes| bytes <= MAX_DOCUMENT)?;
            Some(Arc::new(Document::of(path, bytes)))
        })
    }
}

impl Document {
    fn of(path: &str, bytes: u64) -> Self {
        Self { media_type: http::media_type(path), bytes, prefix: Vec::new() }
    }
}
