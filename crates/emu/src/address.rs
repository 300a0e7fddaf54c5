//! Which addresses a link uses. They come from 100.64.0.0/10 (RFC 6598), which no public host has, in blocks that
//! nest as links do: a link inside a link takes a part of the outer one's block, so that one route per link reaches
//! everything behind it and nothing is translated.

use crate::netlink::Network;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

const SPACE: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 0);
const SPACE_PREFIX: u8 = 10;
/// Prefix lengths of blocks, the outermost first.
const PREFIXES: [u8; 5] = [18, 21, 24, 27, 30];
/// IPv6 addresses are the IPv4 ones behind this (a random prefix of RFC 4193).
const SPACE_V6: u128 = 0xfdca_7217_0e3c_0000 << 64;
/// The two ends of a link, counted from the start of its block.
const OUTSIDE: u32 = 1;
const INSIDE: u32 = 2;

/// The addresses of one link and of all links inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    base: u32,
    prefix: u8,
}

/// Keeps a block from other links of the same network namespace as long as it lives.
#[derive(Debug)]
pub struct Claim(#[expect(dead_code, reason = "closed when dropped")] UnixListener);

impl Block {
    /// The networks of the block as the outside end has them: IPv4, IPv6.
    pub fn outside(&self) -> [Network; 2] {
        self.networks(OUTSIDE)
    }

    /// The networks of the block as the inside end has them: IPv4, IPv6.
    pub fn inside(&self) -> [Network; 2] {
        self.networks(INSIDE)
    }

    fn networks(&self, end: u32) -> [Network; 2] {
        let v4 = self.base + end;
        let v6 = Ipv6Addr::from_bits(SPACE_V6 | u128::from(v4));
        [Network::new(Ipv4Addr::from_bits(v4), self.prefix), Network::new(v6, 96 + self.prefix)]
    }

    fn network(&self) -> Network {
        Network::new(Ipv4Addr::from_bits(self.base), self.prefix)
    }

    /// The block to which an address of a device belongs, if it is the inside end of a link.
    fn enclosing(network: &Network) -> Option<Self> {
        let std::net::IpAddr::V4(address) = network.address else { return None };
        let inside = Network::new(SPACE, SPACE_PREFIX).contains(address.into());
        let base = address.to_bits() & !(u32::MAX >> network.prefix.min(31));
        let ours = inside && PREFIXES.contains(&network.prefix) && address.to_bits() - base == INSIDE;
        ours.then_some(Self { base, prefix: network.prefix })
    }

    /// The blocks that a link in a namespace with these addresses may use, and whether it is inside another link;
    /// nothing if links are nested too deep.
    fn candidates(addresses: &[Network]) -> Option<(Option<Self>, Vec<Self>)> {
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

    /// Takes the first block that neither an address nor a route of this namespace touches and that no other link
    /// has claimed.
    pub fn claim(addresses: &[Network], routes: &[Network]) -> Result<(Self, Claim), &'static str> {
        let (enclosing, blocks) = Self::candidates(addresses).ok_or("links nest 5 deep at most")?;
        let around = |network: &Network| enclosing.is_some_and(|block| network.prefix <= block.prefix);
        let used: Vec<&Network> = addresses.iter().chain(routes).filter(|network| !around(network)).collect();
        let free =
            blocks.into_iter().filter(|block| !used.iter().any(|used| used.overlaps(&block.network())));
        for block in free {
            match claim(block) {
                Ok(claim) => return Ok((block, claim)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(_) => return Err("this namespace has no local sockets"),
            }
        }
        Err("all of 100.64.0.0/10 that a link here may use is taken; end another link")
    }
}

/// Abstract sockets belong to one network namespace and vanish with their process, so they make perfect locks.
fn claim(block: Block) -> io::Result<Claim> {
    let name = format!("catnip-emu {}", Ipv4Addr::from_bits(block.base));
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?).map(Claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        let (address, prefix) = text.split_once('/').unwrap();
        Network::new(address.parse::<Ipv4Addr>().unwrap(), prefix.parse().unwrap())
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
                assert!(outer.network().contains(block.network().address));
                assert!(blocks.iter().all(|b| !b.network().contains(outer.inside()[0].address)));
            }
            assert!(block.outside()[1].contains(block.inside()[1].address));
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
        assert!(Block::claim(&[], &[network("100.64.0.0/10")]).unwrap_err().contains("taken"));
    }
}
