//! Sizes of the headers of requests, compressed as over HTTP/2 (RFC 7541).

use httlib_hpack::Encoder;
use std::collections::BTreeMap;

/// Encoders of the headers of requests, one for each origin, as if each had one connection.
#[derive(Default)]
pub(super) struct Encoders<'a>(BTreeMap<String, Encoder<'a>>);

/// Headers that HTTP/2 does not have (RFC 9113, section 8.2.2), or that it says in another way.
const LEFT_OUT: [&str; 6] =
    ["connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
/// Bytes of a priority in the frame of a header (RFC 9113, section 6.2), which Chromium 156 and Firefox 153 send.
const PRIORITY_BYTES: u64 = 5;

impl Encoders<'_> {
    /// Returns the size of the next request to an origin, bytes, without the header of its frame. Pseudo-header fields that the list does not
    /// have follow from method, origin and target.
    pub(super) fn request_bytes<'a>(
        &mut self,
        origin: &str,
        method: &str,
        target: &str,
        fields: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> u64 {
        let encoder = self.0.entry(origin.to_string()).or_default();
        let mut to = Vec::new();
        let mut add = |name: &str, value: &str| {
            // Browsers do not fill the table with paths.
            let is_kept = !name.starts_with(':') || name == ":authority";
            let how = Encoder::HUFFMAN_NAME
                | Encoder::HUFFMAN_VALUE
                | Encoder::BEST_FORMAT
                | if is_kept { Encoder::WITH_INDEXING } else { 0 };
            let field = (name.to_ascii_lowercase().into_bytes(), value.as_bytes().to_vec(), how);
            // A field that cannot be encoded has no size.
            let _ = encoder.encode(field, &mut to);
        };
        if !fields.clone().any(|(name, _)| name.starts_with(':')) {
            let (scheme, authority) = origin.split_once("://").unwrap_or(("https", origin));
            let default = if scheme == "https" { ":443" } else { ":80" };
            let authority = authority.strip_suffix(default).unwrap_or(authority);
            [(":method", method), (":authority", authority), (":scheme", scheme), (":path", target)]
                .into_iter()
                .for_each(|(name, value)| add(name, value));
        }
        let is_sent = |name: &str| !LEFT_OUT.contains(&name.to_ascii_lowercase().as_str());
        fields.filter(|(name, _)| is_sent(name)).for_each(|(name, value)| add(name, value));
        to.len() as u64 + PRIORITY_BYTES
    }
}
