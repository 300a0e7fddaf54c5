use catnip_base::Span;

/// A site as it was recorded: pages whose objects come from several origins and wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// How many origins there are.
    pub origins: u32,
    /// At least one.
    pub pages: Vec<SitePage>,
}

/// A page of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitePage {
    objects: Vec<SiteObject>,
    /// Of each object, those that wait for it, in order.
    followers: Vec<Vec<u32>>,
}

/// An object of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteObject {
    /// Where it comes from, from 0.
    pub origin: u32,
    /// Bytes of the request.
    pub request_bytes: u64,
    /// Bytes of the response, at least one.
    pub bytes: u64,
    /// How long its server takes before it answers.
    pub server_time: Span,
    /// The object for whose end it waits, which comes before it; otherwise the start of the page.
    pub after: Option<u32>,
    /// From then to its request.
    pub delay: Span,
}

/// How requests and responses share connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplexing {
    /// HTTP/1.1: one response after the other over each of several persistent connections (RFC 9112, section 9.3), without
    /// pipelining.
    Http1 {
        /// At a time, to each origin; at least one.
        connections_per_origin: u32,
    },
    /// Like HTTP/2: a stream per request, all over one connection (RFC 9113, section 5). Header compression, stream priorities and
    /// flow control of streams are left out.
    Http2 {
        /// Origins at one server share the connection (RFC 9113, section 9.1.1); otherwise each has its own.
        coalesced: bool,
        /// How responses take turns.
        framing: Framing,
    },
}

/// How a server writes responses of several streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Payload of a DATA frame, at least one byte.
    pub frame_bytes: u64,
    /// The next frame is written when fewer bytes than these have yet to be sent; at least one.
    pub unsent_bytes: u64,
}

/// Header of a frame (RFC 9113, section 4.1).
pub const FRAME_HEADER_BYTES: u64 = 9;

impl Site {
    /// An object by the numbers of its page and its own.
    pub fn object(&self, (page, object): (u32, u32)) -> Option<&SiteObject> {
        self.pages.get(page as usize)?.objects.get(object as usize)
    }
}

impl SitePage {
    /// A page of at least one object, in order: none waits for a later one.
    pub fn new(objects: Vec<SiteObject>) -> Self {
        let mut followers = vec![Vec::new(); objects.len()];
        for (number, object) in (0..).zip(&objects) {
            if let Some(before) = object.after {
                followers[before as usize].push(number);
            }
        }
        Self { objects, followers }
    }

    /// Its objects.
    pub fn objects(&self) -> &[SiteObject] {
        &self.objects
    }

    /// Those that wait for the end of an object.
    pub fn followers(&self, object: u32) -> &[u32] {
        &self.followers[object as usize]
    }

    /// All bytes of the page.
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.bytes).sum()
    }
}

impl Multiplexing {
    /// What is put before each piece of a message.
    pub(super) fn header_bytes(self) -> u64 {
        match self {
            Self::Http1 { .. } => 0,
            Self::Http2 { .. } => FRAME_HEADER_BYTES,
        }
    }
}
