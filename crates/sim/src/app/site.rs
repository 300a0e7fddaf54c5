use catnip_base::{Span, keywords};

/// Recorded site: pages with objects that come from several origins and depend on each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Origins of the objects.
    pub origins: Vec<SiteOrigin>,
    /// Lengths of the host names of the origins, characters.
    pub names: Vec<u32>,
    /// Pages, at least one.
    pub pages: Vec<SitePage>,
}

/// Origin of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteOrigin {
    /// Index of the host name in [`Site::names`]; `None` for an address, which needs no look-up.
    pub name: Option<u32>,
    /// True if connections have TLS.
    pub tls: bool,
    /// Version of HTTP.
    pub version: Version,
    /// First origin whose connections this one shares, if both have HTTP/2 (RFC 9113, section 9.1.1); otherwise its own number.
    pub shares: u32,
}

keywords! {
    /// Version of HTTP that browsers and servers of a simulated site use.
    #[derive(Hash)]
    pub enum Version {
        /// One response after the other over each of several persistent connections (RFC 9112, section 9.3), without pipelining.
        Http1 = ("1.1", "HTTP/1.1: several connections to an origin, one response after the other over each."),
        /// A stream per request, all over one connection (RFC 9113, section 5).
        Http2 = ("2", "HTTP/2: one connection to an origin, over which responses are interleaved."),
    }
}

/// Page of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitePage {
    objects: Vec<SiteObject>,
    /// Objects that are requested after the end of each object, in order.
    followers: Vec<Vec<u32>>,
    /// Time from the end of the last object for which the load event waits to that event.
    load_delay: Span,
}

/// Object of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteObject {
    /// Number of the origin, from 0.
    pub origin: u32,
    /// Bytes of the request, without headers of frames.
    pub request_bytes: u64,
    /// Bytes of the response, at least one.
    pub bytes: u64,
    /// Processing time of the server.
    pub server_time: Span,
    /// Earlier object that must end before the request; `None` if the request waits only for the start of the page.
    pub after: Option<u32>,
    /// Delay from the end of the earlier object, or from the start of the page, to the request.
    pub delay: Span,
    /// Priority of the response.
    pub priority: FetchPriority,
    /// Milestone of the page that waits for the object.
    pub holds: Milestone,
}

/// Priority of a response over HTTP/2 (RFC 9218, section 4), and of a request that waits for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPriority {
    /// Urgency, from 0 (first) to 7.
    pub urgency: u8,
    /// True if a part of the response is of use, so that it takes turns with others of its urgency.
    pub incremental: bool,
}

impl FetchPriority {
    /// Priority of a response without the `priority` header (RFC 9218, sections 4.1 and 4.2).
    pub const DEFAULT: Self = Self { urgency: 3, incremental: false };
    /// Priority by which all responses take turns.
    pub const IN_TURN: Self = Self { urgency: 3, incremental: true };
}

/// Milestone of a page that waits for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Milestone {
    /// First rendering, and all later ones.
    Render,
    /// Load event.
    Load,
    /// End of the page.
    End,
}

impl Site {
    /// Returns an object by the number of its page and its own number.
    pub fn object(&self, (page, object): (u32, u32)) -> Option<&SiteObject> {
        self.pages.get(page as usize)?.objects.get(object as usize)
    }

    /// Returns the origin of an object.
    pub(super) fn origin(&self, object: &SiteObject) -> &SiteOrigin {
        &self.origins[object.origin as usize]
    }
}

impl SitePage {
    /// Returns a page of at least one object. No object may wait for a later one. The load event comes `load_delay` after the objects for
    /// which it waits.
    pub fn new(objects: Vec<SiteObject>, load_delay: Span) -> Self {
        let mut followers = vec![Vec::new(); objects.len()];
        for (number, object) in (0..).zip(&objects) {
            if let Some(before) = object.after {
                followers[before as usize].push(number);
            }
        }
        Self { objects, followers, load_delay }
    }

    /// Returns the objects of the page.
    pub fn objects(&self) -> &[SiteObject] {
        &self.objects
    }

    /// Returns the objects that are requested after the end of an object.
    pub fn followers(&self, object: u32) -> &[u32] {
        &self.followers[object as usize]
    }

    /// Returns the time from the end of the last object for which the load event waits to that event.
    pub fn load_delay(&self) -> Span {
        self.load_delay
    }

    /// Returns the size of the page, bytes.
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.bytes).sum()
    }
}
