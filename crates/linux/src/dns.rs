//! DNS server for commands behind a link, and a relay to servers that such commands cannot reach.

use catnip_cli::failure::{Failure, failed};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::NamedTempFile;

/// Configuration file of the resolver, see resolver(5).
const CONFIGURATION: &str = "/etc/resolv.conf";
/// Sockets of local services that would answer queries instead of the DNS server.
const LOCAL_RESOLVERS: [&str; 2] = ["/run/systemd/resolve/io.systemd.Resolve", "/run/nscd/socket"];
const PORT: u16 = 53;
/// Timeout of a relayed query. Clients repeat a query earlier.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest number of queries relayed at the same time. Further queries are dropped.
const MAX_QUERIES: u32 = 256;
/// Length of the longest relayed datagram, bytes.
const MAX_DATAGRAM: usize = 1 << 16;

/// Returns the first server of /etc/resolv.conf that commands behind a link can reach. If there is none, starts a relay to the first server
/// at `own`, an address of this thread's namespace, and returns `own`.
pub fn server(own: IpAddr) -> Result<IpAddr, Failure> {
    let text = fs::read_to_string(CONFIGURATION).unwrap_or_default();
    let servers = servers(&text);
    match servers.iter().find(|server| !server.is_loopback() && server.is_ipv4()) {
        Some(&server) => Ok(server),
        None => {
            // Default of resolver(5).
            let server = servers.first().copied().unwrap_or(IpAddr::from([127, 0, 0, 1]));
            relay(own, server).map_err(failed("--nat", "relay DNS queries"))?;
            Ok(own)
        }
    }
}

/// Configuration file of resolver(5) with a single server, for commands. It must exist until a command has been started.
#[derive(Debug)]
pub struct Resolver(NamedTempFile);

impl Resolver {
    /// Creates a configuration file with `server` as the only DNS server.
    pub fn new(server: IpAddr) -> Result<Self, Failure> {
        if !Path::new(CONFIGURATION).exists() {
            let problem = format!("there is no {CONFIGURATION} to replace for the command; create one");
            return Err(Failure::new("DNS", problem));
        }
        let file = NamedTempFile::new().and_then(|mut file| {
            writeln!(file, "nameserver {server}")?;
            file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
            Ok(file)
        });
        file.map(Self).map_err(failed("DNS", "write the resolver configuration"))
    }

    /// Returns pairs of paths for `sys::with_own_mounts`: the command must see the first file of each pair in place of the second.
    pub fn files(&self) -> Vec<(&Path, &Path)> {
        let resolvers = LOCAL_RESOLVERS.iter().map(Path::new).filter(|resolver| resolver.exists());
        let hidden = resolvers.map(|resolver| (Path::new("/dev/null"), resolver));
        hidden.chain([(self.0.path(), Path::new(CONFIGURATION))]).collect()
    }
}

fn servers(text: &str) -> Vec<IpAddr> {
    let server = |line: &str| line.strip_prefix("nameserver")?.trim().parse().ok();
    text.lines().filter_map(server).collect()
}

/// Starts threads that forward DNS queries from address `at` to address `to`. Does nothing if another server already uses `at`.
fn relay(at: IpAddr, to: IpAddr) -> io::Result<()> {
    let (at, to) = (SocketAddr::new(at, PORT), SocketAddr::new(to, PORT));
    let (datagrams, streams) = match (UdpSocket::bind(at), TcpListener::bind(at)) {
        (Ok(datagrams), Ok(streams)) => (Arc::new(datagrams), streams),
        (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::AddrInUse => return Ok(()),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let in_progress = Arc::new(AtomicU32::new(0));
    let shared = in_progress.clone();
    thread::Builder::new().name("names".into()).spawn(move || {
        let mut buffer = vec![0; MAX_DATAGRAM];
        while let Ok((len, from)) = datagrams.recv_from(&mut buffer) {
            let (request, socket) = (buffer[..len].to_vec(), datagrams.clone());
            spawn_limited(&in_progress, move || {
                let response = query(to, &request)?;
                socket.send_to(&response, from)
            });
        }
    })?;
    thread::Builder::new().name("names".into()).spawn(move || {
        for stream in streams.incoming().map_while(Result::ok) {
            spawn_limited(&shared, move || {
                relay_stream(stream, TcpStream::connect_timeout(&to, QUERY_TIMEOUT)?)
            });
        }
    })?;
    Ok(())
}

/// Runs `work` in a new thread. Does nothing if `MAX_QUERIES` threads are already running.
fn spawn_limited<T>(in_progress: &Arc<AtomicU32>, work: impl FnOnce() -> io::Result<T> + Send + 'static) {
    if in_progress.fetch_add(1, Ordering::Relaxed) >= MAX_QUERIES {
        in_progress.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let count = in_progress.clone();
    let started = thread::Builder::new().name("names".into()).spawn(move || {
        // A client that receives no answer repeats its query.
        let _ = work();
        count.fetch_sub(1, Ordering::Relaxed);
    });
    if started.is_err() {
        in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}

fn query(to: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(QUERY_TIMEOUT))?;
    socket.send(request)?;
    let mut response = vec![0; MAX_DATAGRAM];
    let len = socket.recv(&mut response)?;
    response.truncate(len);
    Ok(response)
}

fn relay_stream(client: TcpStream, server: TcpStream) -> io::Result<()> {
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(QUERY_TIMEOUT))?;
    }
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    thread::scope(|scope| {
        scope.spawn(move || io::copy(&mut from, &mut to).and_then(|_| to.shutdown(Shutdown::Write)));
        io::copy(&mut &server, &mut &client).and_then(|_| client.shutdown(Shutdown::Write))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_the_resolver_reads_them() {
        let text = "# by hand\nsearch example.org\nnameserver 127.0.0.53\n nameserver 9.9.9.9\nnameserver\t192.0.2.1\nnameserver fe80::1%eth0\n";
        let expected: [IpAddr; 2] = [[127, 0, 0, 53].into(), [192, 0, 2, 1].into()];
        assert_eq!(servers(text), expected);
        assert!(servers("").is_empty());
    }
}
