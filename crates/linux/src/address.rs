//! Addresses of emulated links. The addresses are from 100.64.0.0/10 (RFC 6598), which no public host uses. Blocks of addresses are nested
//! like links: a link inside another link uses a part of the outer link's block. One route per link therefore leads to all links inside it,
//! without address translation.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

const SPACE: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 0);
const SPACE_PREFIX: u8 = 10;
/// Prefix lengths of blocks, outermost first.
const PREFIXES: [u8; 5] = [18, 21, 24, 27, 30];
/// Prefix of the IPv6 addresses, which end with the IPv4 address. It is a random prefix of RFC 4193.
const SPACE_V6: u128 = 0xfdca_7217_0e3c_0000 << 64;
/// Offset of the address of a link's outside end from the start of the block.
const OUTSIDE: u32 = 1;
/// Offset of the address of a link's inside end from the start of the block.
const INSIDE: u32 = 2;

/// Addresses of one link and of all links inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    base: u32,
    prefix: u8,
}

/// Reservation of a block against other links of the same network namespace. The reservation ends when dropped.
#[derive(Debug)]
pub struct Claim(#[expect(dead_code, reason = "closed when dropped")] UnixListener);

impl Block {
    /// Returns the IPv4 and IPv6 addresses of the link's end outside the namespace, with prefix lengths that span the block.
    pub fn outside(&self) -> [IpNet; 2] {
        self.networks(OUTSIDE)
    }

    /// Returns the IPv4 and IPv6 addresses of the link's end inside the namespace, with prefix lengths that span the block.
    pub fn inside(&self) -> [IpNet; 2] {
        self.networks(INSIDE)
    }

    /// Returns true if the link is inside another link.
    pub fn is_nested(&self) -> bool {
        self.prefix > PREFIXES[0]
    }

    fn networks(&self, end: u32) -> [IpNet; 2] {
        let v4 = Ipv4Addr::from_bits(self.base + end);
        let v6 = Ipv6Addr::from_bits(SPACE_V6 | u128::from(v4.to_bits()));
        [Ipv4Net::new_assert(v4, self.prefix).into(), Ipv6Net::new_assert(v6, 96 + self.prefix).into()]
    }

    fn network(&self) -> Ipv4Net {
        Ipv4Net::new_assert(Ipv4Addr::from_bits(self.base), self.prefix)
    }

    /// Returns the block to which the address of a device belongs; `None` if the address is not the inside end of a link.
    fn enclosing(network: &IpNet) -> Option<Self> {
        let IpNet::V4(network) = network else { return None };
        let (address, base, prefix) = (network.addr(), network.network().to_bits(), network.prefix_len());
        let inside = Ipv4Net::new_assert(SPACE, SPACE_PREFIX).contains(&address);
        let is_inside_end = inside && PREFIXES.contains(&prefix) && address.to_bits() - base == INSIDE;
        is_inside_end.then_some(Self { base, prefix })
    }

    /// Returns the block of the enclosing link, or `None` without an enclosing link, and the blocks that a link in a namespace with these
    /// addresses may use. The whole result is `None` if links are nested too deeply.
    fn candidates(addresses: &[IpNet]) -> Option<(Option<Self>, Vec<Self>)> {
        let enclosing = addresses.iter().filter_map(Self::enclosing).max_by_key(|block| block.prefix);
        let (base, from, first) = match enclosing {
            Some(block) => (block.base, block.prefix, 1),
            None => (SPACE.to_bits(), SPACE_PREFIX, 0),
        };
        let prefix = *PREFIXES.iter().find(|&&prefix| prefix > from)?;
        let blocks =
            (first..1 << (prefix - from)).map(|n: u32| Self { base: base + (n << (32 - prefix)), prefix });
        Some((enclosing, blocks.collect()))
    }

    /// Claims the first block that overlaps neither an address nor a route of this namespace and that no other link has claimed.
    pub fn claim(addresses: &[IpNet], routes: &[IpNet]) -> Result<(Self, Claim), &'static str> {
        let (enclosing, blocks) = Self::candidates(addresses).ok_or("links can be nested at most 5 deep")?;
        let encloses = |network: &IpNet| enclosing.is_some_and(|block| network.prefix_len() <= block.prefix);
        let used: Vec<&IpNet> = addresses.iter().chain(routes).filter(|network| !encloses(network)).collect();
        let overlap = |a: &IpNet, b: &IpNet| a.contains(b) || b.contains(a);
        let is_free = |block: &Self| !used.iter().any(|used| overlap(used, &block.network().into()));
        let free = blocks.into_iter().filter(is_free);
        for block in free {
            match claim(block) {
                Ok(claim) => return Ok((block, claim)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(_) => return Err("Unix sockets are not available in this namespace"),
            }
        }
        Err("all addresses of 100.64.0.0/10 for links in this namespace are in use; end another link")
    }
}

/// Locks a block with an abstract socket. Such a socket belongs to one network namespace and vanishes with its process.
fn claim(block: Block) -> io::Result<Claim> {
    let name = format!("catnip-emu {}", Ipv4Addr::from_bits(block.base));
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?).map(Claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn blocks_nest_without_overlap_five_deep() {
        let mut addresses = Vec::new();
        let mut outer: Option<Block> = None;
        for prefix in PREFIXES {
            let (_, blocks) = Block::candidates(&addresses).unwrap();
            let block = *blocks.last().unwrap();
            assert_eq!(block.prefix, prefix);
            if let Some(outer) = outer {
                assert!(outer.network().contains(&block.network()));
                assert!(blocks.iter().all(|b| !IpNet::from(b.network()).contains(&outer.inside()[0].addr())));
            }
            assert!(block.outside()[1].contains(&block.inside()[1].addr()));
            addresses = vec![block.inside()[0]];
            outer = Some(block);
        }
        assert!(Block::candidates(&addresses).is_none());
    }

    #[test]
    fn what_others_use_is_left_alone() {
        let routes = [network("100.64.0.0/18"), network("100.64.70.0/24")];
        let (block, claim) = Block::claim(&[], &routes).unwrap();
        assert!(block.base >= u32::from_be_bytes([100, 64, 128, 0]), "{block:?}");
        let (other, _) = Block::claim(&[], &routes).unwrap();
        assert_ne!(block, other);
        drop(claim);
        assert!(Block::claim(&[], &[network("100.64.0.0/10")]).unwrap_err().contains("in use"));
    }
}
