use super::pages::object_of;
use catnip_base::keywords;

keywords! {
    /// Handshake of TLS 1.3 (RFC 8446) at the opening of a connection.
    #[derive(Default)]
    pub enum Handshake {
        /// No TLS.
        None = ("none", "no TLS"),
        /// Full handshake at the first connection to an origin, and a resumed one at those that are opened after its tickets have arrived.
        #[default]
        Browser = ("browser", "full for the first connection to an origin, resumed for later ones once a ticket has arrived"),
        /// Full handshake: the server sends its certificates.
        Full = ("full", "TLS 1.3 with certificates: a round trip before the first request"),
        /// Resumed handshake: the key of an earlier connection takes the place of certificates.
        Resumed = ("resumed", "TLS 1.3 with the key of an earlier connection: a round trip, and no certificates"),
        /// Resumed handshake with the first request as early data.
        EarlyData = ("0-rtt", "as resumed, with the first request as early data: no round trip"),
    }
}

/// Handshakes of a group: their form, and the sizes of their flights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Form of all handshakes.
    pub handshake: Handshake,
    /// Size of the certificate chain, bytes.
    pub certificate_bytes: u64,
}

/// Tag of the flights of handshakes. No page has so many objects.
pub(super) const TAG: u64 = u64::MAX;
/// Tag of a server's tickets for later handshakes.
pub(super) const TICKET_TAG: u64 = u64::MAX - 1;
/// Largest number of bytes in a record (RFC 8446, section 5.1).
const RECORD_BYTES: u64 = 1 << 14;
/// Bytes that a record adds: its header of five bytes, the type of its content, and the tag of AES-GCM (RFC 8446, section 5.2).
const RECORD_EXTRA_BYTES: u64 = 5 + 1 + 16;

impl Tls {
    /// No TLS.
    pub const NONE: Self = Self { handshake: Handshake::None, certificate_bytes: 0 };
    /// Size of a ClientHello with a key share of X25519MLKEM768, as browsers send it: 1917 and 1981 bytes from Chromium 156.
    pub const CLIENT_HELLO_BYTES: u64 = 1950;
    /// Size of a server's flight without certificates: 219 bytes of OpenSSL 3.0 (ServerHello, EncryptedExtensions, Finished and their
    /// records), and the 1088 bytes by which a key share of X25519MLKEM768 is longer.
    pub const SERVER_HELLO_BYTES: u64 = 1307;
    /// Size of the signature that goes with certificates, by a key of RSA with 2048 bits, and of the records around both, of OpenSSL 3.0.
    pub const SIGNATURE_BYTES: u64 = 299;
    /// Size of the client's Finished with its records, which precede the first request, of Chromium 156.
    pub const FINISHED_BYTES: u64 = 64;
    /// Size of the two tickets with their records that a server sends once it has received the client's Finished, of OpenSSL 3.0.
    pub const TICKETS_BYTES: u64 = 2 * (265 + RECORD_EXTRA_BYTES);

    /// Returns the handshake of a connection to an origin from which the client has a ticket or has none.
    pub(super) fn of_connection(self, has_ticket: bool) -> Self {
        let handshake = match self.handshake {
            Handshake::Browser if has_ticket => Handshake::Resumed,
            Handshake::Browser => Handshake::Full,
            other => other,
        };
        Self { handshake, ..self }
    }

    /// Returns the size of the server's flight, bytes.
    pub fn flight_bytes(self) -> u64 {
        match self.handshake {
            Handshake::None => 0,
            Handshake::Full | Handshake::Browser => {
                Self::SERVER_HELLO_BYTES + self.certificate_bytes + Self::SIGNATURE_BYTES
            }
            Handshake::Resumed | Handshake::EarlyData => Self::SERVER_HELLO_BYTES,
        }
    }

    /// Returns true if connections are encrypted.
    pub(super) fn encrypts(self) -> bool {
        self.handshake != Handshake::None
    }

    /// Returns true if the first request waits for the server's flight.
    pub(super) fn waits(self) -> bool {
        !matches!(self.handshake, Handshake::None | Handshake::EarlyData)
    }
}

/// Returns the size on the connection of data that is written at once, bytes: with its records if it is encrypted.
pub(super) fn wrapped(bytes: u64, has_tls: bool) -> u64 {
    if has_tls { bytes + RECORD_EXTRA_BYTES * bytes.div_ceil(RECORD_BYTES) } else { bytes }
}

/// Returns the number of bytes of a connection after which the first of `bytes` bytes can be used: those of the first record.
pub(super) fn first_bytes(bytes: u64, has_tls: bool) -> u64 {
    if has_tls { wrapped(bytes.min(RECORD_BYTES), true) } else { 1 }
}

/// Returns the size of the data in bytes of a connection: the inverse of [`wrapped`].
pub(super) fn unwrapped(bytes: u64, has_tls: bool) -> u64 {
    let records = bytes.div_ceil(RECORD_BYTES + RECORD_EXTRA_BYTES);
    if has_tls { bytes.saturating_sub(RECORD_EXTRA_BYTES * records) } else { bytes }
}

// The tags of objects are far below those of handshakes and tickets.
const _: () = assert!(object_of(TICKET_TAG).0 == u32::MAX);
