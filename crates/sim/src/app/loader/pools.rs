use super::super::{Handshake, Site, Tls, Version, http2, tls};
use crate::connection_spec::ConnectionSpec;
use crate::host::{Conn, Host};
use crate::message_stream::Message;
use catnip_base::Time;
use std::collections::VecDeque;

/// Connections to the servers of a site, in pools: one for each origin, or for several that share connections.
#[derive(Debug)]
pub(super) struct Pools {
    pools: Vec<Pool>,
    /// Pool of each origin.
    of_origin: Vec<u32>,
    tls: Tls,
}

/// Connections that share a queue of objects to request.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) has_tls: bool,
    pub(super) version: Version,
    server: ConnectionSpec,
    /// Largest number of connections, and of outstanding responses of each.
    limits: (usize, u32),
    /// True once tickets for later handshakes have arrived.
    has_ticket: bool,
    pub(super) conns: Vec<ConnState>,
    /// Objects that wait for a connection, in the order in which they are requested.
    queue: VecDeque<(u8, u32)>,
}

#[derive(Debug)]
pub(super) struct ConnState {
    pub(super) conn: Conn,
    /// Time of the opening.
    pub(super) opened: Time,
    /// Time at which the connection was established; `None` before.
    pub(super) connected: Option<Time>,
    /// Time at which requests could be sent; `None` while they wait for the handshake of TLS.
    pub(super) ready: Option<Time>,
    /// Object of the first request; `None` before it.
    pub(super) first: Option<u32>,
    /// True until the server's tickets have arrived, if it sends any.
    pub(super) awaits_ticket: bool,
    /// Number of outstanding responses.
    pub(super) outstanding: u32,
    /// Object of the last request.
    pub(super) last: u32,
    /// True if the current page has used the connection.
    pub(super) used: bool,
    /// Bytes that precede the next request: the end of the handshake, and the start of HTTP/2.
    prefix_bytes: u64,
}

/// Sharing of connections by origins with HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coalescing {
    /// Each origin has a connection of its own.
    Never,
    /// Origins share a connection if they did so in the recording.
    Recorded,
    /// All origins at a server share a connection.
    ByServer,
}

impl Pools {
    /// Returns the pools of a site without connections. Origins are assigned to servers in rotation.
    pub(super) fn new(
        site: &Site,
        servers: &[ConnectionSpec],
        connections_per_origin: u32,
        coalescing: Coalescing,
        tls: Tls,
    ) -> Self {
        let mut pools: Vec<Pool> = Vec::new();
        let mut keys: Vec<(bool, usize)> = Vec::new();
        let mut of_origin = Vec::new();
        for (origin, number) in site.origins.iter().zip(0..) {
            let key = match (origin.version, coalescing) {
                (Version::Http2, Coalescing::ByServer) => (true, number % servers.len()),
                (Version::Http2, Coalescing::Recorded) => (false, origin.shares as usize),
                _ => (false, number),
            };
            let known = keys.iter().position(|it| *it == key);
            let pool = known.unwrap_or_else(|| {
                keys.push(key);
                pools.push(Pool {
                    has_tls: origin.tls && tls.encrypts(),
                    version: origin.version,
                    server: servers[number % servers.len()],
                    limits: match origin.version {
                        Version::Http1 => (connections_per_origin as usize, 1),
                        Version::Http2 => (1, u32::MAX),
                    },
                    has_ticket: false,
                    conns: Vec::new(),
                    queue: VecDeque::new(),
                });
                pools.len() - 1
            });
            of_origin.push(pool as u32);
        }
        Self { pools, of_origin, tls }
    }

    /// Returns the number of the pool of an origin.
    pub(super) fn of_origin(&self, origin: u32) -> usize {
        self.of_origin[origin as usize] as usize
    }

    pub(super) fn pool(&self, pool: usize) -> &Pool {
        &self.pools[pool]
    }

    pub(super) fn pool_mut(&mut self, pool: usize) -> &mut Pool {
        &mut self.pools[pool]
    }

    /// Returns the pool of a connection and its index there; `None` if it was closed.
    pub(super) fn find(&self, conn: Conn) -> Option<(usize, usize)> {
        let is_same = |state: &ConnState| state.conn == conn;
        let find_in = |(pool, of): (usize, &Pool)| Some((pool, of.conns.iter().position(is_same)?));
        self.pools.iter().enumerate().find_map(find_in)
    }

    pub(super) fn conns(&self) -> impl Iterator<Item = &ConnState> {
        self.pools.iter().flat_map(|pool| &pool.conns)
    }

    pub(super) fn start_page(&mut self) {
        self.pools.iter_mut().flat_map(|pool| &mut pool.conns).for_each(|state| state.used = false);
    }

    pub(super) fn close_all(&mut self, host: &mut Host<'_>) {
        self.pools.iter_mut().flat_map(|pool| pool.conns.drain(..)).for_each(|state| host.close(state.conn));
    }

    /// Opens another connection of a pool if none may take a request and the limit permits, and returns its index.
    pub(super) fn open(&mut self, pool: usize, host: &mut Host<'_>) -> Option<usize> {
        let of = &mut self.pools[pool];
        if of.conns.len() == of.limits.0 {
            return None;
        }
        let tls = if of.has_tls { self.tls.of_connection(of.has_ticket) } else { Tls::NONE };
        let conn = host.open(of.server);
        let awaits_ticket = tls.handshake != Handshake::None;
        if awaits_ticket {
            let (bytes, response_bytes) = (Tls::CLIENT_HELLO_BYTES, tls.flight_bytes());
            host.send(conn, Message { bytes, tag: tls::TAG, response_bytes, context: None });
        }
        let start = match of.version {
            Version::Http1 => 0,
            Version::Http2 => tls::wrapped(http2::CLIENT_START_BYTES, of.has_tls),
        };
        let finished = if tls.waits() { Tls::FINISHED_BYTES } else { 0 };
        of.conns.push(ConnState {
            conn,
            opened: host.now(),
            connected: None,
            ready: (!tls.waits()).then(|| host.now()),
            first: None,
            awaits_ticket,
            outstanding: 0,
            last: 0,
            used: true,
            prefix_bytes: finished + start,
        });
        Some(of.conns.len() - 1)
    }
}

impl Pool {
    /// Adds an object to the queue: behind those of the same urgency.
    pub(super) fn enqueue(&mut self, object: u32, urgency: u8) {
        insert_by_urgency(&mut self.queue, object, urgency);
    }

    /// Returns the index of a connection that may take a request.
    pub(super) fn free(&self) -> Option<usize> {
        (0..self.conns.len()).find(|&index| self.is_free(index))
    }

    /// Takes the next object from the queue if a connection may take its request.
    pub(super) fn next_for(&mut self, index: usize) -> Option<u32> {
        if self.is_free(index) { self.queue.pop_front().map(|(_, object)| object) } else { None }
    }

    /// Handles the arrival of tickets over a connection.
    pub(super) fn on_ticket(&mut self, index: usize) {
        self.has_ticket = true;
        self.conns[index].awaits_ticket = false;
    }

    /// Returns the size of a request over a connection of the pool, bytes.
    pub(super) fn request_bytes(&mut self, index: usize, bytes: u64) -> u64 {
        let request = match self.version {
            Version::Http1 => tls::wrapped(bytes, self.has_tls),
            // A request has a header alone.
            Version::Http2 => http2::written(bytes, false, self.has_tls),
        };
        request + std::mem::take(&mut self.conns[index].prefix_bytes)
    }

    /// Returns the number of bytes of a response in a message; `is_first` is true for its first message.
    pub(super) fn payload(&self, bytes: u64, is_first: bool) -> u64 {
        match self.version {
            Version::Http1 => tls::unwrapped(bytes, self.has_tls),
            Version::Http2 => http2::payload_of(bytes, is_first, self.has_tls),
        }
    }

    fn is_free(&self, index: usize) -> bool {
        let state = &self.conns[index];
        state.ready.is_some() && state.outstanding < self.limits.1
    }
}

/// Adds an object to a queue in the order of urgencies: behind those of the same urgency.
pub(super) fn insert_by_urgency(queue: &mut VecDeque<(u8, u32)>, object: u32, urgency: u8) {
    let place = queue.iter().position(|(other, _)| *other > urgency);
    queue.insert(place.unwrap_or(queue.len()), (urgency, object));
}
