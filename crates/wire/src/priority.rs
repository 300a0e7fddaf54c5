use crate::ip::{self, Ip, TCP};
use crate::tcp::set_flags;
use crate::{Tcp, TcpFlags, WireError};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, as_text};
use catnip_net::{Dscp, Ecn, Priority};

/// Encoding of the priority in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorityCodec {
    /// DiffServ codepoint of an assured forwarding class (RFC 2597): drop precedence 1 is HIGH, 2 is MED, 3 is LOW. This encoding requires
    /// no change to TCP, passes middleboxes and coexists with ECN.
    Dscp(AfClass),
    /// High-order bit of the TCP flags, which was reserved in 2002 (CATNIP paper, section V-G). The bit is set for HIGH. RFC 3168 has made
    /// this bit CWR, so packets that use ECN are rejected.
    FlagBit,
}

/// Assured forwarding class, 1 to 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfClass(u8);

impl AfClass {
    /// Class of the CATNIP markers.
    pub const AF1: Self = Self(1);

    /// Returns class `number`; `None` if `number` is not from 1 to 4.
    pub const fn new(number: u8) -> Option<Self> {
        if number >= 1 && number <= 4 { Some(Self(number)) } else { None }
    }

    #[inline]
    fn priority(self, traffic_class: u8) -> Priority {
        let codepoint = traffic_class >> 2;
        if codepoint >> 3 == self.0 { Dscp::new(codepoint).priority() } else { Priority::Low }
    }
}

impl Default for PriorityCodec {
    fn default() -> Self {
        Self::Dscp(AfClass::AF1)
    }
}

impl Kind for PriorityCodec {
    const USAGE: &'static [Usage] = &[
        ("dscp[:AF1]", "AF11 is HIGH, AF13 is LOW; AF2 to AF4 select another class"),
        ("flag-bit", "historical bit in the TCP flags, which excludes ECN"),
    ];
    const EXAMPLES: &'static [&'static str] = &["dscp", "dscp:AF2", "flag-bit"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        if text.name() == "flag-bit" {
            return Ok(Self::FlagBit);
        }
        let Some(class) = text.next() else { return Ok(Self::default()) };
        let number = class.strip_prefix("AF").and_then(|number| number.parse().ok());
        let class = number.and_then(AfClass::new);
        class.map(Self::Dscp).ok_or_else(|| text.error("dscp:AF1 to dscp:AF4"))
    }

    fn write(&self, to: &mut Written) {
        match self {
            Self::FlagBit => _ = to.name("flag-bit"),
            Self::Dscp(AfClass::AF1) => _ = to.name("dscp"),
            Self::Dscp(AfClass(class)) => _ = to.name("dscp").value(format_args!("AF{class}")),
        }
    }
}

as_text!(PriorityCodec);

impl PriorityCodec {
    /// Returns the priority of a packet. A packet without a priority, or with a priority of another class, is LOW.
    #[inline]
    pub fn read(self, packet: &[u8]) -> Result<Priority, WireError> {
        match self {
            Self::Dscp(class) => Ok(class.priority(ip::traffic_class(packet, ip::version(packet)?))),
            Self::FlagBit => self.of(&Ip::parse(packet)?),
        }
    }

    /// Returns the priority of a packet whose IP header is already parsed.
    #[inline]
    pub fn of(self, ip: &Ip<'_>) -> Result<Priority, WireError> {
        match self {
            Self::Dscp(class) => Ok(class.priority(ip.traffic_class())),
            Self::FlagBit => match tcp_without_ecn(ip) {
                Ok(flags) if flags.contains(TcpFlags::CWR) => Ok(Priority::High),
                Ok(_) | Err(WireError::Protocol(_) | WireError::Fragment) => Ok(Priority::Low),
                Err(error) => Err(error),
            },
        }
    }

    /// Sets the priority of a packet and updates its checksums. The ECN codepoint does not change. The flag bit cannot encode MED, which is
    /// written as LOW.
    #[inline]
    pub fn write(self, packet: &mut [u8], priority: Priority) -> Result<(), WireError> {
        match self {
            Self::Dscp(AfClass(class)) => ip::set_dscp(packet, Dscp::assured(class, priority).codepoint()),
            Self::FlagBit => {
                let ip = Ip::parse(packet)?;
                tcp_without_ecn(&ip)?;
                let segment = ip.header_len();
                set_flags(&mut packet[segment..], TcpFlags::CWR, priority == Priority::High);
                Ok(())
            }
        }
    }
}

/// Returns the TCP flags of a packet, or an error if the packet shows that its connection may use ECN.
///
/// A connection with ECN also sends packets that do not show its use. A host that uses the priority bit must therefore turn ECN off.
#[inline]
fn tcp_without_ecn(ip: &Ip<'_>) -> Result<TcpFlags, WireError> {
    let flags = Tcp::parse(ip.transport(TCP)?)?.flags();
    if ip.ecn() != Ecn::NOT_ECT || flags.contains(TcpFlags::ECE) {
        return Err(WireError::EcnInUse);
    }
    Ok(flags)
}

#[cfg(test)]
mod tests;
