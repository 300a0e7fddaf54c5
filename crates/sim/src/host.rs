use crate::FlowId;
use crate::dialogue::Message;
use crate::parties::Parties;
use crate::record::Event;
use catnip_base::Time;
use catnip_net::mark::MarkerSpec;

/// What a program can do at its host.
///
/// Everything takes effect at once, except that packets leave when all programs have heard what there is to hear now, so that a
/// message and the close behind it can share a segment.
pub struct Host<'a> {
    pub(crate) engine: &'a mut dyn Engine,
    pub(crate) now: Time,
    pub(crate) program: u32,
}

/// A connection, as its programs know it. It means nothing to others, and nothing any more once the connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Conn {
    pub(crate) id: u32,
    pub(crate) number: u32,
}

impl Conn {
    const FOREIGN: u32 = 1 << 31;

    /// A connection with a host outside, under the medium's own number of it.
    pub fn foreign(id: u32, number: u64) -> Self {
        Self { id: id | Self::FOREIGN, number: number as u32 }
    }

    /// The medium's number of it, if its other end is outside, and the number that it had when it was opened.
    pub fn as_foreign(self) -> Option<(u32, u32)> {
        (self.id & Self::FOREIGN != 0).then_some((self.id & !Self::FOREIGN, self.number))
    }
}

/// How an application wants to be treated at its own host (IDS-S18). What is not said stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServiceOptions {
    /// How its packets are marked from now on.
    pub marker: Option<MarkerSpec>,
    /// Its share at an output scheduler, relative to that of other connections of its class. That of a connection with a host
    /// outside stays 1: a scheduler knows it by its addresses and ports.
    pub weight: Option<u32>,
}

impl Host<'_> {
    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The number of this program in the run.
    pub fn program(&self) -> u32 {
        self.program
    }

    /// Opens a connection; this program is at the end that opens it.
    pub fn open(&mut self, parties: Parties) -> Conn {
        self.engine.open(self.now, self.program, parties)
    }

    /// Sends a message.
    pub fn send(&mut self, conn: Conn, message: Message) {
        self.engine.write(self.now, conn, self.program, message);
    }

    /// Says that no more will be sent; what the other end still sends arrives.
    pub fn close(&mut self, conn: Conn) {
        self.engine.close(self.now, conn, self.program);
    }

    /// Asks to hear when so many bytes of the message that comes next have arrived, before all of it.
    pub fn notify(&mut self, conn: Conn, bytes: u64) {
        self.engine.notify(conn, self.program, bytes);
    }

    /// Asks to hear once when fewer bytes than these of what this program has written have yet to be sent for the first time, now
    /// or later (what `TCP_NOTSENT_LOWAT` is to a real program). Over a connection with a host outside nothing is heard.
    pub fn notify_drained(&mut self, conn: Conn, bytes: u64) {
        self.engine.notify_drained(conn, self.program, bytes);
    }

    /// Says how the packets of a connection are to be treated that leave at this end.
    pub fn set_service(&mut self, conn: Conn, options: ServiceOptions) {
        self.engine.set_service(conn, self.program, options);
    }

    /// Sends a packet without a connection, of so many bytes on the wire.
    pub fn datagram(&mut self, flow: FlowId, bytes: u32) {
        self.engine.datagram(self.now, flow, bytes);
    }

    /// Asks to hear of this key at that time, and no earlier if that was asked before.
    pub fn timer(&mut self, at: Time, key: u64) {
        self.engine.timer(at.max(self.now), self.program, key);
    }

    /// Asks not to hear of this key.
    pub fn cancel(&mut self, key: u64) {
        self.engine.cancel(self.program, key);
    }

    /// Says something that results keep.
    pub fn record(&mut self, event: &Event) {
        self.engine.record(self.now, event);
    }
}

/// The world, as a host sees it.
pub(crate) trait Engine {
    fn open(&mut self, now: Time, program: u32, parties: Parties) -> Conn;
    fn write(&mut self, now: Time, conn: Conn, program: u32, message: Message);
    fn close(&mut self, now: Time, conn: Conn, program: u32);
    fn notify(&mut self, conn: Conn, program: u32, bytes: u64);
    fn notify_drained(&mut self, conn: Conn, program: u32, bytes: u64);
    fn set_service(&mut self, conn: Conn, program: u32, options: ServiceOptions);
    fn datagram(&mut self, now: Time, flow: FlowId, bytes: u32);
    fn timer(&mut self, at: Time, program: u32, key: u64);
    fn cancel(&mut self, program: u32, key: u64);
    fn record(&mut self, now: Time, event: &Event);
}
