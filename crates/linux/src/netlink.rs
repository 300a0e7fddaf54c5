//! Devices, addresses and routes of one network namespace, read and changed by rtnetlink.

use ipnet::IpNet;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope,
    RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io::{self, Error, ErrorKind};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Group of the messages about devices (linux/rtnetlink.h).
const RTMGRP_LINK: u32 = 1;
/// Default initial receive window of Linux, segments. Routes never get a smaller one.
const RECEIVE_WINDOW: u32 = 20;

/// Properties of a network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Interface index.
    pub index: u32,
    /// MTU, bytes.
    pub mtu: u32,
    /// True if the device carries Ethernet frames.
    pub ethernet: bool,
    /// True if the device is up.
    pub up: bool,
    /// True if the device belongs to a bridge or a similar device.
    pub has_controller: bool,
    /// True for a loopback device.
    pub loopback: bool,
    /// Largest number of segments per super-packet from TCP (`gso_max_segs`); `None` if the kernel does not report it.
    pub gso_max_segs: Option<u32>,
}

/// Connection to the kernel's network configuration, bound to the namespace in which it was opened.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Connects to the network namespace of this thread.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Returns the interface index of a device.
    pub fn index_of(&mut self, name: &str) -> io::Result<u32> {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(name.into()));
        self.link(link).map(|link| link.header.index)
    }

    /// Returns the properties of a device.
    pub fn device(&mut self, name: &str) -> io::Result<Device> {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(name.into()));
        Ok(device_of(&self.link(link)?))
    }

    /// Returns all devices with their names.
    pub fn devices(&mut self) -> io::Result<Vec<(String, Device)>> {
        let found = self.request(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP)?;
        let named = |message| {
            let RouteNetlinkMessage::NewLink(link) = message else { return None };
            let name = link.attributes.iter().find_map(|attribute| match attribute {
                LinkAttribute::IfName(name) => Some(name.clone()),
                _ => None,
            });
            Some((name?, device_of(&link)))
        };
        Ok(found.into_iter().filter_map(named).collect())
    }

    /// Limits the number of segments per super-packet from TCP through a device.
    pub fn set_gso_max_segs(&mut self, index: u32, gso_max_segs: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes.push(LinkAttribute::GsoMaxSegs(gso_max_segs));
        self.change(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Brings a device up. Sets the MTU to `mtu` bytes and the length of the transmission queue to `queue` packets, if given.
    pub fn bring_up(&mut self, index: u32, mtu: Option<u32>, queue: Option<u32>) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        link.attributes.extend(mtu.map(LinkAttribute::Mtu));
        link.attributes.extend(queue.map(LinkAttribute::TxQueueLen));
        self.change(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Adds an address to a device, and a route to its network. The address is usable immediately, without duplicate address detection.
    pub fn add_address(&mut self, index: u32, network: IpNet) -> io::Result<()> {
        self.add_address_with_flags(index, network, AddressFlags::empty())
    }

    /// Adds an address to a device without a route to its network.
    pub fn add_address_without_route(&mut self, index: u32, network: IpNet) -> io::Result<()> {
        self.add_address_with_flags(index, network, AddressFlags::Noprefixroute)
    }

    fn add_address_with_flags(
        &mut self,
        index: u32,
        network: IpNet,
        mut flags: AddressFlags,
    ) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.header.family = family(network.addr());
        message.header.prefix_len = network.prefix_len();
        message.header.scope = AddressScope::Universe;
        message.attributes.push(AddressAttribute::Local(network.addr()));
        message.attributes.push(AddressAttribute::Address(network.addr()));
        flags.set(AddressFlags::Nodad, network.addr().is_ipv6());
        if !flags.is_empty() {
            message.attributes.push(AddressAttribute::Flags(flags));
        }
        self.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a route to a network through a device; prefix length 0 is the default route. If `window` is given, TCP connections on this
    /// route begin with a congestion window of `window` segments, and their initial receive window permits the same to the peer.
    pub fn add_route(&mut self, index: u32, network: IpNet, window: Option<u32>) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: family(network.addr()),
            destination_prefix_length: network.prefix_len(),
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Static,
            scope: if network.addr().is_ipv4() { RouteScope::Link } else { RouteScope::Universe },
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        if let Some(window) = window {
            let receive = window.max(RECEIVE_WINDOW);
            let metrics = vec![RouteMetric::InitCwnd(window), RouteMetric::InitRwnd(receive)];
            message.attributes.push(RouteAttribute::Metrics(metrics));
        }
        if network.prefix_len() > 0 {
            message.attributes.push(RouteAttribute::Destination(match network.network() {
                IpAddr::V4(address) => RouteAddress::Inet(address),
                IpAddr::V6(address) => RouteAddress::Inet6(address),
            }));
        }
        message.attributes.push(RouteAttribute::Oif(index));
        self.change(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Returns the addresses of all devices.
    pub fn addresses(&mut self) -> io::Result<Vec<IpNet>> {
        let found = self.request(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP)?;
        let network = |message| {
            let RouteNetlinkMessage::NewAddress(message) = message else { return None };
            // On a point-to-point device, `Address` is the address of the other end.
            let local = message.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Local(address) => Some(*address),
                _ => None,
            });
            let address = message.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Address(address) => Some(*address),
                _ => None,
            });
            IpNet::new(local.or(address)?, message.header.prefix_len).ok()
        };
        Ok(found.into_iter().filter_map(network).collect())
    }

    /// Returns the destinations of all routes except default routes.
    pub fn routes(&mut self) -> io::Result<Vec<IpNet>> {
        let mut networks = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            for found in self.request(RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP)? {
                let RouteNetlinkMessage::NewRoute(route) = found else { continue };
                let prefix = route.header.destination_prefix_length;
                networks.extend(route.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::Destination(RouteAddress::Inet(a)) => {
                        IpNet::new((*a).into(), prefix).ok()
                    }
                    RouteAttribute::Destination(RouteAddress::Inet6(a)) => {
                        IpNet::new((*a).into(), prefix).ok()
                    }
                    _ => None,
                }));
            }
        }
        Ok(networks)
    }

    /// Returns a counter of the packets that the kernel drops at the device `index` from now on. Earlier drops do not count, since the
    /// kernel itself sent these packets during the setup of the device.
    pub fn drops_from_now(mut self, index: u32) -> Drops {
        let before = self.tx_dropped(index).unwrap_or(0);
        Drops { netlink: self, index, before }
    }

    /// Returns the counter `tx_dropped` of a device: packets that the kernel dropped before the program that owns the TUN device could read
    /// them.
    fn tx_dropped(&mut self, index: u32) -> io::Result<u64> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        let link = self.link(link)?;
        let dropped = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Stats64(stats) => Some(stats.tx_dropped),
            _ => None,
        });
        Ok(dropped.unwrap_or(0))
    }

    fn link(&mut self, request: LinkMessage) -> io::Result<LinkMessage> {
        let responses = self.request(RouteNetlinkMessage::GetLink(request), NLM_F_ACK)?;
        let link = responses.into_iter().find_map(|message| match message {
            RouteNetlinkMessage::NewLink(link) => Some(link),
            _ => None,
        });
        link.ok_or_else(|| Error::from(ErrorKind::NotFound))
    }

    fn change(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.request(message, flags | NLM_F_ACK).map(|_| ())
    }

    /// Sends a netlink request. Returns the answers up to the acknowledgement or the end of the dump.
    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut responses = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = &datagram[..];
            while !rest.is_empty() {
                let response = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|error| Error::new(ErrorKind::InvalidData, error.to_string()))?;
                let padded = (response.header.length as usize).next_multiple_of(4);
                rest = rest.get(padded..).unwrap_or(&[]);
                if response.header.sequence_number != self.sequence {
                    continue;
                }
                match response.payload {
                    NetlinkPayload::Done(_) => return Ok(responses),
                    NetlinkPayload::Error(error) => {
                        return if error.code.is_none() { Ok(responses) } else { Err(error.to_io()) };
                    }
                    NetlinkPayload::InnerMessage(inner) => responses.push(inner),
                    _ => {}
                }
            }
        }
    }
}

/// Reports of changes of devices: that one comes, goes, or has another name or state.
#[derive(Debug)]
pub struct DeviceMonitor(Socket);

impl DeviceMonitor {
    /// Watches the network namespace of this thread from now on.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, RTMGRP_LINK))?;
        socket.set_non_blocking(true)?;
        Ok(Self(socket))
    }

    /// Returns true if devices may have changed since the last call.
    pub fn has_changed(&self) -> bool {
        let mut changed = false;
        loop {
            match self.0.recv_from_full() {
                Ok(_) => changed = true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return changed,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // ENOBUFS: reports are lost.
                Err(_) => return true,
            }
        }
    }
}

impl AsFd for DeviceMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Counter of packets that the kernel drops at a device before the program that owns the device can read them.
#[derive(Debug)]
pub struct Drops {
    netlink: Netlink,
    index: u32,
    before: u64,
}

impl Drops {
    /// Returns the number of drops since the creation of the counter; 0 if the device no longer exists.
    pub fn count(&mut self) -> u64 {
        self.netlink.tx_dropped(self.index).map_or(0, |dropped| dropped - self.before)
    }
}

fn device_of(link: &LinkMessage) -> Device {
    let mut device = Device {
        index: link.header.index,
        mtu: 0,
        ethernet: link.header.link_layer_type == LinkLayerType::Ether,
        up: link.header.flags.contains(LinkFlags::Up),
        has_controller: false,
        loopback: link.header.flags.contains(LinkFlags::Loopback),
        gso_max_segs: None,
    };
    for attribute in &link.attributes {
        match *attribute {
            LinkAttribute::Mtu(mtu) => device.mtu = mtu,
            LinkAttribute::Controller(_) => device.has_controller = true,
            LinkAttribute::GsoMaxSegs(gso_max_segs) => device.gso_max_segs = Some(gso_max_segs),
            _ => {}
        }
    }
    device
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_is_there() {
        let mut netlink = Netlink::open().unwrap();
        assert!(netlink.index_of("lo").unwrap() > 0);
        assert_eq!(netlink.index_of("no-such-device").unwrap_err().raw_os_error(), Some(19));
        netlink.routes().unwrap();
        netlink.addresses().unwrap();
        let devices = netlink.devices().unwrap();
        let (_, lo) = devices.iter().find(|(name, _)| name == "lo").unwrap();
        assert!(lo.loopback && lo.gso_max_segs.is_some_and(|gso_max_segs| gso_max_segs > 1));
    }
}
