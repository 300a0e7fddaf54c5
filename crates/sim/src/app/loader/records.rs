use super::super::{Version, tag_of};
use crate::record::Activity;
use catnip_base::{Span, Time};

/// Record of an object that a browser has received, by the parts of its fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FetchRecord {
    /// Number of the application.
    pub app: u32,
    /// Number of the page, from 0.
    pub page: u32,
    /// Number of the object, from 0.
    pub object: u32,
    /// Number of the origin, from 0.
    pub origin: u32,
    /// Size of the response, bytes.
    pub bytes: u64,
    /// Time from which on the browser wants the object.
    pub wanted: Time,
    /// Time that the request waited for the look-up of the name.
    pub look_up: Span,
    /// Time that it waited then for a connection of its own to be established.
    pub connect: Span,
    /// Time that it waited then for the handshake of TLS.
    pub tls: Span,
    /// Time at which the request was sent.
    pub sent: Time,
    /// Time at which the first byte of the response had arrived.
    pub first_byte: Time,
    /// Number of the connection among all of the run.
    pub connection: u32,
    /// Version of HTTP over it.
    pub version: Version,
}

impl Activity for FetchRecord {
    fn app(&self) -> u32 {
        self.app
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn tag(&self) -> Option<u64> {
        Some(tag_of(self.page, self.object))
    }
}

/// Record of a page that a browser has loaded, by its milestones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoadRecord {
    /// Number of the application.
    pub app: u32,
    /// Number of the page, from 0.
    pub page: u32,
    /// Start of the page load.
    pub start: Time,
    /// Time at which the first byte of the first response had arrived.
    pub first_byte: Time,
    /// Time at which all objects had arrived that block the first rendering, and at least one.
    pub render: Time,
    /// Time of the load event.
    pub load: Time,
    /// Mean of the times from the start to the ends of the objects, weighted by their sizes: the area above the curve of the share of bytes
    /// that has arrived (ByteIndex of Bocchi et al. 2016, by whole objects).
    pub byte_index: Span,
}

impl Activity for LoadRecord {
    fn app(&self) -> u32 {
        self.app
    }
}

/// Progress of an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Time from which on the browser wants the object.
    pub(super) wanted: Time,
    /// Time at which the request was let go.
    pub(super) asked: Time,
    /// Time at which the name was known.
    pub(super) looked_up: Time,
    pub(super) connect: Span,
    pub(super) tls: Span,
    /// Time of the request; `None` before it.
    pub(super) start: Option<Time>,
    /// Time at which the request was sent: later than `start` if it waited for the connection.
    pub(super) sent: Time,
    /// Time of the first byte of the response; `None` before it.
    pub(super) first_byte: Option<Time>,
    pub(super) received: u64,
}

/// Milestones of a page that have been reached so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Milestones {
    first_byte: Option<Time>,
    /// Numbers of objects for which the rendering and the load event wait.
    waiting: [u32; 2],
    reached: [Option<Time>; 2],
    /// Sum of the products of size and time of all objects, byte nanoseconds.
    area: u128,
}

impl Milestones {
    /// Returns the milestones of a page for which `waiting` objects are needed: for the rendering, and for the load event.
    pub(super) fn of(waiting: [u32; 2]) -> Self {
        Self { waiting, ..Self::default() }
    }

    /// Returns true if nothing blocks the first rendering any more.
    pub(super) fn is_unblocked(&self) -> bool {
        self.waiting[0] == 0
    }

    pub(super) fn on_first_byte(&mut self, now: Time) {
        self.first_byte.get_or_insert(now);
    }

    /// Handles the end of an object; `needed` is true for each milestone that waits for it.
    pub(super) fn on_end(&mut self, now: Time, start: Time, bytes: u64, needed: [bool; 2]) {
        self.area += u128::from(bytes) * u128::from(now.since(start).as_nanos());
        for ((waiting, reached), needed) in self.waiting.iter_mut().zip(&mut self.reached).zip(needed) {
            *waiting -= u32::from(needed);
            if *waiting == 0 {
                reached.get_or_insert(now);
            }
        }
    }

    /// Returns the record of a page of `bytes` bytes that ends now.
    pub(super) fn record(&self, app: u32, page: u32, start: Time, bytes: u64, now: Time) -> LoadRecord {
        let [render, load] = self.reached.map(|at| at.unwrap_or(now));
        let byte_index = Span::from_nanos((self.area / u128::from(bytes.max(1))) as u64);
        LoadRecord { app, page, start, first_byte: self.first_byte.unwrap_or(now), render, load, byte_index }
    }
}
