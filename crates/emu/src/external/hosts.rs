use super::listener;
use super::peers::{ExternalPeers, FIRST_PORT, FrameWorld, PORTS};
use super::session::SocketSession;
use crate::datapath::frames::{ConnectionRef, Egress, ExternalHosts};
use crate::socket::{Ends, Socket, parse};
use catnip_base::Time;
use catnip_net::{NodeId, Packet};
use catnip_sim::{TcpId, Watch};
use std::net::{Ipv4Addr, SocketAddrV4};

impl ExternalHosts for ExternalPeers {
    fn connection_of(&self, packet: &[u8]) -> Option<ConnectionRef> {
        if self.by_ends.is_empty() {
            return None;
        }
        let (ends, tcp) = parse(packet)?;
        let &(connection, end) = self.by_ends.get(&ends)?;
        Some(ConnectionRef { connection, end, data_bytes: tcp.payload().len() as u32 })
    }

    fn server_port(&self, tcp: TcpId) -> u16 {
        self.services.get(tcp).port
    }

    fn client_at(&mut self, client: NodeId, address: Ipv4Addr, server: SocketAddrV4) -> SocketAddrV4 {
        let index = client.0 as usize;
        self.ports.resize(self.ports.len().max(index + 1), 0);
        let mut at = SocketAddrV4::new(address, FIRST_PORT);
        // If all ports are in use, the last one tried is used again.
        for _ in 0..PORTS {
            at.set_port(FIRST_PORT + self.ports[index]);
            self.ports[index] = (self.ports[index] + 1) % PORTS;
            if !self.by_ends.contains_key(&(at, server)) {
                break;
            }
        }
        at
    }

    fn open(&mut self, now: Time, socket: Socket, tcp: TcpId) -> SocketSession {
        SocketSession::client(now, socket, self.services.clone(), tcp)
    }

    fn opened(&mut self, ends: Ends, connection: u32, external: usize) {
        self.by_ends.insert(ends, (connection, external));
    }

    fn ended(&mut self, connection: u32, number: u64) {
        self.lingering.push_back((connection, number));
    }

    fn released(&mut self, connection: u32, ends: Ends) {
        // A later connection may have the same addresses.
        if self.by_ends.get(&ends).is_some_and(|(of, _)| *of == connection) {
            self.by_ends.remove(&ends);
        }
    }

    fn delivered<O: Egress, W: Watch>(world: &mut FrameWorld<O, W>, now: Time, node: NodeId, packet: Packet) {
        listener::receive(world, now, node, packet);
    }
}
