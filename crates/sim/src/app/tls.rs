use super::pages::object_of;
use catnip_base::keywords;

keywords! {
    /// Handshake of TLS 1.3 (RFC 8446) at the opening of a connection.
    #[derive(Default)]
    pub enum Handshake {
        /// No TLS.
        #[default]
        None = ("none", "no TLS"),
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

impl Tls {
    /// Size of a ClientHello with a key share of X25519MLKEM768, as browsers send it: 1917 and 1981 bytes from Chromium 156.
    pub const CLIENT_HELLO_BYTES: u64 = 1950;
    /// Size of a server's flight without certificates: 219 bytes of OpenSSL 3.0 (ServerHello, EncryptedExtensions, Finished and their
    /// records), and the 1088 bytes by which a key share of X25519MLKEM768 is longer.
    pub const SERVER_HELLO_BYTES: u64 = 1307;
    /// Size of the signature that goes with certificates, by a key of RSA with 2048 bits, and of the records around both, of OpenSSL 3.0.
    pub const SIGNATURE_BYTES: u64 = 299;
    /// Size of the client's Finished with its records, which precede the first request, of Chromium 156.
    pub const FINISHED_BYTES: u64 = 64;

    /// Returns the size of the server's flight, bytes.
    pub fn flight_bytes(self) -> u64 {
        match self.handshake {
            Handshake::None => 0,
            Handshake::Full => Self::SERVER_HELLO_BYTES + self.certificate_bytes + Self::SIGNATURE_BYTES,
            Handshake::Resumed | Handshake::EarlyData => Self::SERVER_HELLO_BYTES,
        }
    }

    /// Returns true if the first request waits for the server's flight.
    pub(super) fn waits(self) -> bool {
        matches!(self.handshake, Handshake::Full | Handshake::Resumed)
    }
}

// The tags of objects are far below that of handshakes.
const _: () = assert!(object_of(TAG).0 == u32::MAX);
