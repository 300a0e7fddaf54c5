use crate::FlowId;
use crate::connection_spec::ConnectionSpec;
use crate::message_stream::Message;
use crate::record::{Activity, ConnectionStats};
use catnip_base::Time;
use catnip_net::mark::MarkerSpec;

/// Interface of an application to its host.
///
/// All operations take effect at once, except that packets leave only after all pending events have been delivered. A message and the close
/// that follows it can therefore share a segment.
pub struct Host<'a> {
    pub(crate) engine: &'a mut dyn Engine,
    pub(crate) now: Time,
    pub(crate) program: u32,
}

/// Handle of a connection for the applications at its ends. An operation has no effect if another application calls it, or if the
/// connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Conn {
    pub(crate) id: u32,
    pub(crate) number: u32,
}

/// Service that an application requests for a connection at its own host (IDS-S18). `None` leaves a setting unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceOptions {
    /// Marker of the packets sent from now on.
    pub marker: Option<MarkerSpec>,
    /// Weight at an output scheduler, relative to other connections of the class. The weight of a connection with an external host stays 1,
    /// because a scheduler identifies that connection by addresses and ports.
    pub weight: Option<u32>,
}

impl Host<'_> {
    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the number of this application in the run.
    pub fn program(&self) -> u32 {
        self.program
    }

    /// Opens a connection, with this application at the opening end.
    pub fn open(&mut self, spec: ConnectionSpec) -> Conn {
        self.engine.open(self.now, self.program, spec)
    }

    /// Sends a message.
    pub fn send(&mut self, conn: Conn, message: Message) {
        self.engine.write(self.now, conn, self.program, message);
    }

    /// Closes the connection for sending; data of the other end still arrives (half-close).
    pub fn close(&mut self, conn: Conn) {
        self.engine.close(self.now, conn, self.program);
    }

    /// Requests [`AppEvent::Progress`](crate::app::AppEvent::Progress) once `bytes` bytes of the next message have arrived. No such event
    /// is delivered if the whole message has arrived by then.
    pub fn notify(&mut self, conn: Conn, bytes: u64) {
        self.engine.notify(conn, self.program, bytes);
    }

    /// Requests one [`AppEvent::Drained`](crate::app::AppEvent::Drained) as soon as fewer than `bytes` bytes written by this application
    /// are still unsent, not counting retransmissions (`TCP_NOTSENT_LOWAT` of a Linux socket). Connections with external hosts never
    /// deliver this event.
    pub fn notify_drained(&mut self, conn: Conn, bytes: u64) {
        self.engine.notify_drained(conn, self.program, bytes);
    }

    /// Sets the treatment of the packets that this end of a connection sends.
    pub fn set_service(&mut self, conn: Conn, options: ServiceOptions) {
        self.engine.set_service(conn, self.program, options);
    }

    /// Returns true if the other end of a connection is at an external host, which sends bytes without the boundaries of messages.
    pub fn has_external_peer(&self, conn: Conn) -> bool {
        self.engine.has_external_peer(conn, self.program)
    }

    /// Returns the statistics of a connection; `None` for a connection of other applications or with an external host, and after its end.
    pub fn stats(&self, conn: Conn) -> Option<ConnectionStats> {
        self.engine.stats(conn, self.program)
    }

    /// Sends a datagram of `bytes` on the wire.
    pub fn datagram(&mut self, flow: FlowId, bytes: u32) {
        self.engine.datagram(self.now, flow, bytes);
    }

    /// Delivers the datagrams of a flow to this application from now on, as [`AppEvent::Datagram`](crate::app::AppEvent::Datagram).
    pub fn receive(&mut self, flow: FlowId) {
        self.engine.receive(flow, self.program);
    }

    /// Sets the timer `key` to expire at `at`, or now if `at` has passed. Replaces an earlier setting of `key`.
    pub fn timer(&mut self, at: Time, key: u64) {
        self.engine.timer(at.max(self.now), self.program, key);
    }

    /// Cancels the timer `key`.
    pub fn cancel(&mut self, key: u64) {
        self.engine.cancel(self.program, key);
    }

    /// Records an activity that ends now.
    pub fn record(&mut self, activity: &dyn Activity) {
        self.engine.record(self.now, activity);
    }
}

/// Operations of the world on behalf of [`Host`].
pub(crate) trait Engine {
    fn open(&mut self, now: Time, program: u32, spec: ConnectionSpec) -> Conn;
    fn write(&mut self, now: Time, conn: Conn, program: u32, message: Message);
    fn close(&mut self, now: Time, conn: Conn, program: u32);
    fn notify(&mut self, conn: Conn, program: u32, bytes: u64);
    fn notify_drained(&mut self, conn: Conn, program: u32, bytes: u64);
    fn set_service(&mut self, conn: Conn, program: u32, options: ServiceOptions);
    fn has_external_peer(&self, conn: Conn, program: u32) -> bool;
    fn stats(&self, conn: Conn, program: u32) -> Option<ConnectionStats>;
    fn datagram(&mut self, now: Time, flow: FlowId, bytes: u32);
    fn receive(&mut self, flow: FlowId, program: u32);
    fn timer(&mut self, at: Time, program: u32, key: u64);
    fn cancel(&mut self, program: u32, key: u64);
    fn record(&mut self, now: Time, activity: &dyn Activity);
}
