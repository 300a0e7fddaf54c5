use catnip_base::Span;

/// Recorded site: pages with objects that come from several origins and depend on each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// True for each origin that has TLS.
    pub origins: Vec<bool>,
    /// Pages, at least one.
    pub pages: Vec<SitePage>,
}

/// Page of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitePage {
    objects: Vec<SiteObject>,
    /// Objects that are requested after the end of each object, in order.
    followers: Vec<Vec<u32>>,
}

/// Object of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteObject {
    /// Number of the origin, from 0.
    pub origin: u32,
    /// Bytes of the request.
    pub request_bytes: u64,
    /// Bytes of the response, at least one.
    pub bytes: u64,
    /// Processing time of the server.
    pub server_time: Span,
    /// Earlier object that must end before the request; `None` if the request waits only for the start of the page.
    pub after: Option<u32>,
    /// Delay from the end of the earlier object, or from the start of the page, to the request.
    pub delay: Span,
}

/// Version of HTTP and use of connections by requests and responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplexing {
    /// HTTP/1.1: one response after the other over each of several persistent connections (RFC 9112, section 9.3), without
    /// pipelining.
    Http1 {
        /// Maximum number of parallel connections to each origin, at least one.
        connections_per_origin: u32,
    },
    /// HTTP/2: a stream per request, all over one connection (RFC 9113, section 5), without header compression, stream priorities or flow
    /// control of streams.
    Http2 {
        /// True if origins at one server share a connection (RFC 9113, section 9.1.1), false if each origin has a separate connection.
        coalesced: bool,
        /// Interleaving of responses.
        framing: Framing,
    },
}

/// Interleaving of the responses of several streams by a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Payload of a DATA frame, bytes; at least one.
    pub frame_bytes: u64,
    /// Number of unsent bytes below which the next frame is written; at least one.
    pub unsent_bytes: u64,
}

/// Size of the header of a frame (RFC 9113, section 4.1).
pub const FRAME_HEADER_BYTES: u64 = 9;

impl Site {
    /// Returns an object by the number of its page and its own number.
    pub fn object(&self, (page, object): (u32, u32)) -> Option<&SiteObject> {
        self.pages.get(page as usize)?.objects.get(object as usize)
    }
}

impl SitePage {
    /// Returns a page of at least one object. No object may wait for a later one.
    pub fn new(objects: Vec<SiteObject>) -> Self {
        let mut followers = vec![Vec::new(); objects.len()];
        for (number, object) in (0..).zip(&objects) {
            if let Some(before) = object.after {
                followers[before as usize].push(number);
            }
        }
        Self { objects, followers }
    }

    /// Returns the objects of the page.
    pub fn objects(&self) -> &[SiteObject] {
        &self.objects
    }

    /// Returns the objects that are requested after the end of an object.
    pub fn followers(&self, object: u32) -> &[u32] {
        &self.followers[object as usize]
    }

    /// Returns the size of the page, bytes.
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.bytes).sum()
    }
}

impl Multiplexing {
    /// Returns the size of a frame header, bytes; 0 for HTTP/1.1, which has no frames.
    pub(super) fn header_bytes(self) -> u64 {
        match self {
            Self::Http1 { .. } => 0,
            Self::Http2 { .. } => FRAME_HEADER_BYTES,
        }
    }
}
