//! DNS servers of commands behind a link, and a relay to the caller's server.

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
const OTHERS: [&str; 2] = ["/run/systemd/resolve/io.systemd.Resolve", "/run/nscd/socket"];
const PORT: u16 = 53;
/// Timeout of a query. Clients repeat a query earlier.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest number of concurrent queries. Further queries are dropped.
const AT_ONCE: u32 = 256;
/// Longest datagram, bytes.
const LONGEST: usize = 1 << 16;

/// Returns the caller's DNS server. If only the caller's namespace reaches that server, starts a relay at `own`, an address of that
/// namespace, and returns `own`.
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

/// Configuration file of resolver(5) with a single server. It applies to commands that are started while the file exists.
#[derive(Debug)]
pub struct Resolver(NamedTempFile);

impl Resolver {
    /// Creates a configuration with `server`.
    pub fn new(server: IpAddr) -> Result<Self, Failure> {
        if !Path::new(CONFIGURATION).exists() {
            let what = format!("there is no {CONFIGURATION} to replace for the command; create one");
            return Err(Failure::new("DNS", what));
        }
        let file = NamedTempFile::new().and_then(|mut file| {
            writeln!(file, "nameserver {server}")?;
            file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
            Ok(file)
        });
        file.map(Self).map_err(failed("DNS", "write the resolver configuration"))
    }

    /// Returns pairs of paths. The first file of each pair replaces the second file for commands.
    pub fn files(&self) -> Vec<(&Path, &Path)> {
        let others = OTHERS.iter().map(Path::new).filter(|other| other.exists());
        let nothing = others.map(|other| (Path::new("/dev/null"), other));
        nothing.chain([(self.0.path(), Path::new(CONFIGURATION))]).collect()
    }
}

fn servers(text: &str) -> Vec<IpAddr> {
    let server = |line: &str| line.strip_prefix("nameserver")?.trim().parse().ok();
    text.lines().filter_map(server).collect()
}

/// Forwards DNS queries from address `at` to address `to`. If another server already uses `at`, that server may answer itself.
fn relay(at: IpAddr, to: IpAddr) -> io::Result<()> {
    let (at, to) = (SocketAddr::new(at, PORT), SocketAddr::new(to, PORT));
    let (datagrams, streams) = match (UdpSocket::bind(at), TcpListener::bind(at)) {
        (Ok(datagrams), Ok(streams)) => (Arc::new(datagrams), streams),
        (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::AddrInUse => return Ok(()),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let under_way = Arc::new(AtomicU32::new(0));
    let both = under_way.clone();
    thread::Builder::new().name("names".into()).spawn(move || {
        let mut buffer = vec![0; LONGEST];
        while let Ok((len, from)) = datagrams.recv_from(&mut buffer) {
            let (question, back) = (buffer[..len].to_vec(), datagrams.clone());
            at_once(&under_way, move || {
                let answer = ask_once(to, &question)?;
                back.send_to(&answer, from)
            });
        }
    })?;
    thread::Builder::new().name("names".into()).spawn(move || {
        for stream in streams.incoming().map_while(Result::ok) {
            at_once(&both, move || join(stream, TcpStream::connect_timeout(&to, PATIENCE)?));
        }
    })?;
    Ok(())
}

/// Runs `work` in a new thread. Does nothing if too many threads are running.
fn at_once<T>(under_way: &Arc<AtomicU32>, work: impl FnOnce() -> io::Result<T> + Send + 'static) {
    if under_way.fetch_add(1, Ordering::Relaxed) >= AT_ONCE {
        under_way.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let done = under_way.clone();
    let started = thread::Builder::new().name("names".into()).spawn(move || {
        // A client that receives no answer repeats its query.
        let _ = work();
        done.fetch_sub(1, Ordering::Relaxed);
    });
    if started.is_err() {
        under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

fn ask_once(to: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(question)?;
    let mut answer = vec![0; LONGEST];
    let len = socket.recv(&mut answer)?;
    answer.truncate(len);
    Ok(answer)
}

fn join(near: TcpStream, far: TcpStream) -> io::Result<()> {
    for stream in [&near, &far] {
        stream.set_read_timeout(Some(PATIENCE))?;
    }
    let (mut from, mut to) = (near.try_clone()?, far.try_clone()?);
    thread::scope(|scope| {
        scope.spawn(move || io::copy(&mut from, &mut to).and_then(|_| to.shutdown(Shutdown::Write)));
        io::copy(&mut &far, &mut &near).and_then(|_| near.shutdown(Shutdown::Write))
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
