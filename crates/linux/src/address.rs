//! Addresses of emulated links. The addresses are from 100.64.0.0/10 (RFC 6598), which no public host uses. Blocks of addresses are nested
//! like links: a link inside another link uses a part of the outer link's block. One route per link therefore leads to all links inside it,
//! without address translation.

use crate::file_lock::FileLock;
use crate::private_folder;
use crate::sys::netns_cookie;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rustix::process::geteuid;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

const SPACE: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 0);
const SPACE_PREFIX: u8 = 10;
/// Prefix lengths of the blocks of links, by nesting depth: /18 for a link that is in no other link.
const PREFIXES: [u8; 5] = [18, 21, 24, 27, 30];
/// Random prefix (RFC 4193) of the IPv6 addresses of links. The last 32 bits of such an address are the IPv4 address.
const SPACE_V6: u128 = 0xfdca_7217_0e3c_0000 << 64;
/// Offset, from the start of a link's block, of the address of the end in the namespace from which the link was started.
const OUTSIDE: u32 = 1;
/// Offset, from the start of a link's block, of the address of the end in the namespace of the command behind the link.
const INSIDE: u32 = 2;

/// Block of addresses for one link and for all links nested in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    base: u32,
    prefix: u8,
}

/// Reservation of a [`Block`]: no other link of the same network namespace uses the block until this value is dropped.
#[derive(Debug)]
pub enum Claim {
    /// Lock of a file in root's folder.
    Locked(FileLock),
    /// Abstract socket.
    Bound(UnixListener),
}

impl Block {
    /// Returns the IPv4 and IPv6 addresses of the link's outside end, in the namespace from which the link was started. The prefixes span
    /// the block.
    pub fn outside(&self) -> [IpNet; 2] {
        self.networks(OUTSIDE)
    }

    /// Returns the IPv4 and IPv6 addresses of the link's inside end, in the namespace of the command. The prefixes span the block.
    pub fn inside(&self) -> [IpNet; 2] {
        self.networks(INSIDE)
    }

    /// Returns true if the link is nested in another link.
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

    /// Returns the block of the link whose inside end has the address `network`; `None` if `network` is not the inside end of a link.
    fn enclosing(network: &IpNet) -> Option<Self> {
        let IpNet::V4(network) = network else { return None };
        let (address, base, prefix) = (network.addr(), network.network().to_bits(), network.prefix_len());
        let inside = Ipv4Net::new_assert(SPACE, SPACE_PREFIX).contains(&address);
        let is_inside_end = inside && PREFIXES.contains(&prefix) && address.to_bits() - base == INSIDE;
        is_inside_end.then_some(Self { base, prefix })
    }

    /// Returns two results for a namespace whose devices have these addresses: the block of the link that leads out of the namespace, if
    /// any, and all blocks that a new link in the namespace may use. Returns `None` if links are nested too deeply.
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

    /// Claims the first block that is free in this namespace, which has the given addresses and routes: no address, route or other link
    /// uses it.
    pub fn claim(addresses: &[IpNet], routes: &[IpNet]) -> Result<(Self, Claim), &'static str> {
        let (enclosing, blocks) = Self::candidates(addresses).ok_or("links can be nested at most 5 deep")?;
        let encloses = |network: &IpNet| enclosing.is_some_and(|block| network.prefix_len() <= block.prefix);
        let used: Vec<&IpNet> = addresses.iter().chain(routes).filter(|network| !encloses(network)).collect();
        let overlap = |a: &IpNet, b: &IpNet| a.contains(b) || b.contains(a);
        let is_free = |block: &Self| !used.iter().any(|used| overlap(used, &block.network().into()));
        let free = blocks.into_iter().filter(is_free);
        for block in free {
            match claim(block) {
                Ok(Some(claim)) => return Ok((block, claim)),
                Ok(None) => {}
                Err(_) => return Err("Unix sockets are not available in this namespace"),
            }
        }
        Err("all addresses of 100.64.0.0/10 for links in this namespace are in use; end another link")
    }
}

/// Reserves a block. Returns `None` if another link has it.
///
/// Links of root take names that other users cannot take. Links of other users, and of the root of a user namespace without access to /run,
/// have network namespaces of their own, and take an abstract socket, which belongs to one namespace and vanishes with its process.
fn claim(block: Block) -> io::Result<Option<Claim>> {
    let base = Ipv4Addr::from_bits(block.base);
    let folder = Path::new(private_folder::OF_LINKS);
    if geteuid().is_root() && private_folder::create(folder).is_ok() {
        let lock = folder.join(format!("{}-{base}", netns_cookie()?));
        return Ok(FileLock::take(&lock)?.map(Claim::Locked));
    }
    match UnixListener::bind_addr(&SocketAddr::from_abstract_name(format!("catnip-emu {base}"))?) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        bound => Ok(Some(Claim::Bound(bound?))),
    }
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
