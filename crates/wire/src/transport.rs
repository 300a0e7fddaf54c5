use crate::checksum::Sum;
use crate::ip::{Ip, TCP, UDP};
use crate::{Tcp, Udp, WireError};

/// Returns true if the TCP or UDP checksum of the packet is correct. A UDP datagram over IPv4 may lack a checksum.
pub fn has_valid_transport_checksum(ip: &Ip<'_>) -> Result<bool, WireError> {
    if ip.fragment().is_some() {
        return Err(WireError::Fragment);
    }
    let payload = ip.payload();
    let (source, destination) = (ip.source(), ip.destination());
    let bytes = match ip.protocol() {
        TCP => Tcp::parse(payload).map(|_| payload)?,
        UDP => {
            let udp = Udp::parse(payload)?;
            if udp.checksum() == 0 && source.is_ipv4() {
                return Ok(true);
            }
            udp.bytes()
        }
        other => return Err(WireError::Protocol(other)),
    };
    let sum = Sum::default().pseudo_header(source, destination, ip.protocol(), bytes.len());
    Ok(sum.bytes(bytes).checksum() == 0)
}
