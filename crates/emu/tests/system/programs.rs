//! Tests with real programs at one end of simulated connections: all data arrives complete.

use crate::lab::{Lab, PYTHON, fnv1a, python_client, python_server, scenario};
use crate::results::{column, output_text};
use crate::scenarios;
use catnip_emu::socket::padding;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::{Field, Row};
use serde_json::Value;
use std::fs;

#[test]
fn a_file_comes_whole_from_a_real_server_through_a_lossy_link() {
    let Some(lab) = Lab::open("file") else { return };
    let nodes = format!("a = {{ kind = 'host', {PYTHON} }}\nb = {{ kind = 'host' }}");
    let traffic = "[traffic.file]\nkind = 'bulk'\nfrom = 'a'\nto = 'b'\nbytes = '400KB'";
    let loss = "loss = 'bernoulli:0.05'";
    let results = lab.results(&scenario(&nodes, loss, traffic));
    assert_eq!(column(&results, "connections", "body_bytes"), [409_600.0]);
    assert_eq!(results["connections"]["body_fnv1a"][0], fnv1a((0..409_600).map(padding)));
    assert_eq!(column(&results, "connections", "status"), [200.0]);
    let lost = column(&results, "connections", "dropped")[0];
    assert!(lost >= 5.0, "{lost} lost");
    assert!(column(&results, "connections", "retransmitted")[0] >= lost);
}

#[test]
fn twenty_simulated_clients_fetch_the_ten_pages_from_a_real_server() {
    let Some(lab) = Lab::open("pages") else { return };
    let nginx = "echo 'daemon off; master_process off; pid nginx.pid; error_log stderr; events {} http { \
                 access_log off; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; \
                 uwsgi_temp_path t; scgi_temp_path t; server { listen 80 backlog=511; root .; } }' > nginx.conf; \
                 exec nginx -p $PWD -c $PWD/nginx.conf -e stderr";
    let server = format!(
        "cd $CATNIP_DOCUMENTS; if command -v nginx > /dev/null; then {nginx}; \
         else exec python3 -m http.server 80 --protocol HTTP/1.1 2> /dev/null; fi"
    );
    let nodes = format!(
        "a = {{ kind = 'host', ready = 'tcp:80', command = ['sh', '-c', \"\"\"{server}\"\"\"] }}\n\
         b = {{ kind = 'router' }}\nclient = {{ kind = 'host', count = 20 }}"
    );
    let pages = scenarios::file("catnip-e4.toml").with_file_name("../reference/catnip_pages.csv");
    let rest = format!(
        "[link.client]\nfrom = 'b'\nto = 'client'\nrate = '10Mbit'\ndelay = '5ms'\nqueue = 'drop-tail:50'\n\
         [tcp]\nmarker = 'spm'\n\
         [traffic.web]\nkind = 'web'\nclients = 'client'\nservers = 'a'\npages = '{}'\n\
         think_s = {{ distribution = 'exponential', mean = 0.4 }}\nmax_connections = 2",
        pages.display()
    );
    let text = scenario(&nodes, "", &rest).replace("drop-tail:30", "catnip-good:10");
    let results = lab.results(&text);
    assert_eq!(column(&results, "pages", "page").len(), 200);
    let expected = column(&results, "objects", "bytes");
    assert_eq!(expected.len(), 20 * 45);
    assert_eq!(column(&results, "objects", "body_bytes"), expected);
    assert!(column(&results, "objects", "status").iter().all(|&status| status == 200.0));
    let sum = |name| column(&results, "ports", name)[0];
    assert!(sum("dropped_low") > 20.0, "the queue is too short for so many");
    let (high, low) = (sum("dropped_high") / sum("arrived_high"), sum("dropped_low") / sum("arrived_low"));
    assert!(high < 0.6 * low, "HIGH packets are kept: {high} and {low} lost");
    // HTTP/1.1: a client keeps two connections for all its pages, with or without pipelining. Without keep-alive, it opens new connections
    // for each page.
    for (keys, connections) in
        [("", 40..=40), ("\npipelining = true", 40..=40), ("\nkeep_alive = false", 300..=400)]
    {
        let again = lab.results(&text.replace("kind = 'web'", &format!("kind = 'web'\nhttp = '1.1'{keys}")));
        assert_eq!(column(&again, "objects", "body_bytes"), column(&again, "objects", "bytes"), "{keys}");
        assert_eq!(column(&again, "objects", "bytes").iter().sum::<f64>(), expected.iter().sum::<f64>());
        assert_eq!(
            column(&again, "connections", "body_bytes").iter().sum::<f64>(),
            expected.iter().sum::<f64>()
        );
        assert_eq!(column(&again, "pages", "page").len(), 200);
        let opened = column(&again, "connections", "status").len();
        assert!(connections.contains(&opened), "{keys}: {opened} connections");
    }
}

#[test]
fn a_real_client_is_served_by_a_simulated_host() {
    let Some(lab) = Lab::open("serve") else { return };
    let client = "import urllib.request, urllib.error, os, hashlib
base = 'http://' + os.environ['CATNIP_A'] + ':8080'
for n in (0, 7, 100_000):
    body = urllib.request.urlopen(f'{base}/files/{n}').read()
    assert len(body) == n, n
    open(f'got-{n}', 'wb').write(body)
try:
    urllib.request.urlopen(base + '/nothing')
    exit(9)
except urllib.error.HTTPError as error:
    assert error.code == 404
try:
    urllib.request.urlopen('http://' + os.environ['CATNIP_A'] + ':81/')
    exit(8)
except urllib.error.URLError as error:
    assert isinstance(error.reason, ConnectionRefusedError), error
print(os.environ['CATNIP_HERE'])
exit(42)";
    fs::write(lab.dir.join("client.py"), client).unwrap();
    let nodes = "a = { kind = 'host' }\nb = { kind = 'host', address = '172.16.4.2', ends_run = true, \
                 command = ['sh', '-c', 'cd $CATNIP_SCENARIO && exec python3 client.py'] }";
    let traffic = "[traffic.files]\nkind = 'bulk'\nfrom = 'a'\nto = 'b'\nbytes = '10KB'\nport = 8080";
    let loss = "loss = 'bernoulli:0.05'";
    let text = scenario(nodes, loss, traffic);
    let output = lab.emulate(&text, &["--out", lab.dir.join("out").to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(42), "{}", output_text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "172.16.4.2\n");
    let body = fs::read(lab.dir.join("got-100000")).unwrap();
    // The body is the repeated alphabet.
    assert!(body.windows(2).all(|pair| pair[1] == if pair[0] == b'z' { b'a' } else { pair[0] + 1 }));
    let table = SerializedFileReader::new(fs::File::open(lab.dir.join("out/connections.parquet")).unwrap());
    let integers = |row: Result<Row, _>| -> Vec<(String, u64)> {
        let row = row.unwrap();
        let integer = |(name, field): (&String, &Field)| match field {
            &Field::ULong(value) => Some((name.clone(), value)),
            _ => None,
        };
        row.get_column_iter().filter_map(integer).collect()
    };
    let rows: Vec<_> = table.unwrap().into_iter().map(integers).collect();
    assert_eq!(rows.len(), 4, "{rows:?}");
    let missing =
        [("status", 404), ("body_bytes", 0), ("whole", 1)].map(|(name, value)| (name.into(), value));
    assert!(rows.iter().any(|row| row.ends_with(&missing)), "{rows:?}");
}

#[test]
fn the_last_connection_of_a_client_has_a_row_with_its_end() {
    let Some(lab) = Lab::open("last") else { return };
    let client = "python3 -c 'import urllib.request as r, os; r.urlopen(\"http://\" + os.environ[\"CATNIP_A\"] + \"/x/50000\").read()'";
    let nodes = format!(
        "a = {{ kind = 'host' }}\nb = {{ kind = 'host', ends_run = true, command = {:?} }}",
        ["sh", "-c", client]
    );
    let traffic = "[traffic.files]\nkind = 'bulk'\nfrom = 'a'\nto = 'b'\nbytes = '10KB'";
    let output = lab.emulate(&scenario(&nodes, "", traffic), &["--json"]).output().unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |name| column(&results, "connections", name);
    assert_eq!((of("whole"), of("body_bytes")), (vec![1.0], vec![50_000.0]));
    assert!(of("acked_s")[0] > 0.0, "{:?}", of("acked_s"));
}

#[test]
fn real_hosts_reach_each_other_and_refusals_do_not_stop_a_run() {
    let Some(lab) = Lab::open("both") else { return };
    let client = "python3 -c 'import urllib.request as r, os; print(len(r.urlopen(\"http://\" + os.environ[\"CATNIP_A\"] + \"/x\").read()))'";
    let server =
        "cd $CATNIP_DOCUMENTS; head -c 50000 /dev/zero > x; exec python3 -m http.server 80 2> /dev/null";
    let nodes = format!(
        "a = {{ kind = 'host', ready = 'tcp:80', command = ['sh', '-c', '{server}'] }}\n\
         b = {{ kind = 'host', ends_run = true, command = ['sh', '-c', \"\"\"{client}\"\"\"] }}"
    );
    let output = lab.emulate(&scenario(&nodes, "", ""), &[]).output().unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "50000\n");
    // No program listens at the external host.
    let nodes = "a = { kind = 'host', external = true }\nb = { kind = 'host' }";
    let traffic = "[traffic.file]\nkind = 'bulk'\nfrom = 'a'\nto = 'b'\nbytes = '10KB'";
    let results = lab.results(&scenario(nodes, "", traffic));
    assert_eq!(column(&results, "connections", "status"), [0.0]);
    assert_eq!(column(&results, "connections", "whole"), [0.0]);
    assert!(column(&results, "runs", "duration_s")[0] < 5.0);
}

/// Scenario with a simulated server for HTTP/1.1.
const WEB_SERVER: &str = "
[traffic.web]
kind = 'web'
clients = 'b'
servers = 'a'
http = '1.1'
think_s = { distribution = 'constant', value = 0 }
server_delay_s = { distribution = 'exponential', mean = 0.01 }
[traffic.web.generate]
pages = 1
seed = 1
html_bytes = { distribution = 'constant', value = 1000 }
images = { distribution = 'constant', value = 0 }
image_bytes = { distribution = 'constant', value = 1 }
";

#[test]
fn a_real_server_answers_what_a_trace_asks_of_it() {
    let Some(lab) = Lab::open("trace") else { return };
    // In the trace, the second connection ends with a FIN of the server; the external server does not follow the trace.
    let trace = "SEQ 100000 2 0 0\n> 9\nt 1\n< 40000\nt 300000\n> 9\nt 1\n< 5000\n\
                 SEQ 200000 1 0 1\n> 9\nt 1\n< 300\nt 100\n";
    fs::write(lab.dir.join("asked.cvec"), trace).unwrap();
    let server = PYTHON.replace("http.server 80", "http.server 80 --protocol HTTP/1.1");
    let nodes = format!("a = {{ kind = 'host', {server} }}\nb = {{ kind = 'host' }}");
    let traffic = "[traffic.t]\nkind = 'tmix'\nclients = 'b'\nservers = 'a'\ntrace = 'asked.cvec'";
    let results = lab.results(&scenario(&nodes, "", traffic));
    let mut bodies = column(&results, "connections", "body_bytes");
    bodies.sort_by(f64::total_cmp);
    assert_eq!(bodies, [300.0, 45_000.0]);
    assert_eq!(column(&results, "connections", "whole"), [1.0, 1.0]);
    let took = column(&results, "runs", "end_s")[0];
    assert!(took > 0.4, "it thinks for 300 ms: {took}");
}

#[test]
fn what_a_simulated_server_sends_to_a_real_client_comes_in_bursts() {
    let Some(lab) = Lab::open("bursts") else { return };
    let program = format!(
        "{READ_ANSWERS}\nimport time\ns = socket.create_connection((host, 80))\nf = s.makefile('rb')\n\
         for _ in range(2):\n    s.sendall(ask('/1/0'))\n    status, page = answer(f)\n\
         \x20   assert (status, len(page), page[:15]) == (200, 1000, b'<!DOCTYPE html>')\n    time.sleep(0.5)\n"
    );
    fs::write(lab.dir.join("client.py"), program).unwrap();
    let nodes = "a = { kind = 'host' }\nb = { kind = 'host', ends_run = true, \
                 command = ['sh', '-c', 'cd $CATNIP_SCENARIO && exec python3 client.py'] }";
    let output = lab.emulate(&scenario(nodes, "", WEB_SERVER), &["--json", "--bursts"]).output().unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [number, bytes, first, idle, sent] =
        ["number", "bytes", "first_byte", "idle_s", "sent"].map(|name| column(&results, "bursts", name));
    assert_eq!((number, first[0], first[1]), (vec![0.0, 1.0], 0.0, bytes[0]));
    // A burst consists of the header and the body of a response.
    assert!(bytes.iter().all(|bytes| (1020.0..1300.0).contains(bytes)), "{bytes:?}");
    assert_eq!(sent, [1.0, 1.0]);
    assert!(idle[0] < 0.4 && idle[1] > 0.4, "{idle:?}");
}

/// Python functions that send requests, read responses from a file, and return expected bodies.
const READ_ANSWERS: &str = "
import http.client, os, socket
host = os.environ['CATNIP_A']
body = lambda n: (b'abcdefghijklmnopqrstuvwxyz' * (n // 26 + 1))[:n]
def answer(file):
    status = int(file.readline().split()[1])
    length = None
    while (line := file.readline().strip()):
        name, value = line.split(b': ')
        if name.lower() == b'content-length':
            length = int(value)
    return status, file.read(length)
def ask(*paths):
    return b''.join(f'GET {path} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'.encode() for path in paths)
";

#[test]
fn a_real_client_asks_on_over_a_connection_that_a_simulated_server_keeps() {
    let Some(lab) = Lab::open("persistent") else { return };
    let client = format!(
        "{READ_ANSWERS}
sizes = (0, 1, 26, 5000, 70000, 3)
talk = http.client.HTTPConnection(host, 80, timeout=30)
talk.connect()
sock = talk.sock
for n in sizes:
    talk.request('GET', f'/files/{{n}}')
    got = talk.getresponse()
    assert (got.status, got.version, got.read()) == (200, 11, body(n)), n
for path, status in (('/nothing', 404), ('/1/0', 200)):
    talk.request('GET', path)
    got = talk.getresponse()
    assert got.status == status and len(got.read()) == (1000 if status == 200 else 0), path
assert talk.sock is sock
talk.close()
# All requests at once, a missing document among them.
raw = socket.create_connection((host, 80), 30)
raw.sendall(ask(*(f'/{{n}}' for n in sizes), '/nothing', '/9'))
file = raw.makefile('rb')
for n in sizes:
    assert answer(file) == (200, body(n)), n
assert answer(file) == (404, b'')
assert answer(file) == (200, body(9))
file.close()
raw.close()
"
    );
    let results = python_client(&lab, &client, WEB_SERVER);
    let mut bytes = column(&results, "connections", "body_bytes");
    bytes.sort_by(f64::total_cmp);
    assert_eq!(bytes, [75_030.0 + 9.0, 75_030.0 + 1000.0]);
}

#[test]
fn a_real_client_that_has_said_all_still_gets_its_answers() {
    let Some(lab) = Lab::open("half") else { return };
    let client = format!(
        "{READ_ANSWERS}
for sizes in ((20000,), (5, 20000, 0, 7)):
    raw = socket.create_connection((host, 80), 30)
    raw.sendall(ask(*(f'/{{n}}' for n in sizes)))
    raw.shutdown(socket.SHUT_WR)
    file = raw.makefile('rb')
    for n in sizes:
        assert answer(file) == (200, body(n)), n
    assert file.read() == b'', 'and then it closes'
"
    );
    let results = python_client(&lab, &client, WEB_SERVER);
    let mut bytes = column(&results, "connections", "body_bytes");
    bytes.sort_by(f64::total_cmp);
    assert_eq!(bytes, [20_000.0, 20_012.0]);
    assert_eq!(column(&results, "connections", "whole"), [1.0, 1.0]);
}

#[test]
fn a_simulated_typist_sees_what_a_real_server_repeats() {
    let Some(lab) = Lab::open("typist") else { return };
    let server = "
import socket, threading
def repeat(talk):
    while (said := talk.recv(65536)):
        talk.sendall(said)
    talk.close()
door = socket.create_server(('', 7))
while True:
    threading.Thread(target=repeat, args=(door.accept()[0],)).start()
";
    let traffic = "[traffic.telnet]\nkind = 'telnet'\nclients = 'b'\nservers = 'a'\nbytes = 80\n\
                   pause_s = { distribution = 'constant', value = 0.1 }";
    let results = python_server(&lab, server, 7, traffic);
    let mut delays = column(&results, "echoes", "time_s");
    // The last echo may be in the network when the run ends.
    delays.retain(|delay| !delay.is_nan());
    // A keystroke is sent every 100 ms for 4 s; an echo takes twice the delay of 5 ms, 2 x 132 bytes at 10 Mbit/s, and the server's time.
    assert!((30..=40).contains(&delays.len()), "{} echoes", delays.len());
    assert!(delays.iter().all(|delay| *delay > 0.0102), "{delays:?}");
    let median = {
        let mut sorted = delays.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    assert!(median < 0.05, "{median}");
}

#[test]
fn a_real_typist_sees_what_a_simulated_server_repeats() {
    let Some(lab) = Lab::open("repeat") else { return };
    let client = "
import os, socket, threading
talk = socket.create_connection((os.environ['CATNIP_A'], 7), 30)
file = talk.makefile('rb')
for line in (b'login\\n', b'ls -l\\n', b'x' * 5000 + b'\\n', b'exit\\n'):
    talk.sendall(line)
    assert file.readline() == line
# Much at once, and then the end.
much = bytes(range(256)) * 1000
threading.Thread(target=lambda: (talk.sendall(much), talk.shutdown(socket.SHUT_WR))).start()
assert file.read() == much
";
    let traffic = "[traffic.telnet]\nkind = 'telnet'\nclients = 'b'\nservers = 'a'\n\
                   pause_s = { distribution = 'constant', value = 1 }";
    let results = python_client(&lab, client, traffic);
    let bytes = 6.0 + 6.0 + 5001.0 + 5.0 + 256_000.0;
    assert_eq!(column(&results, "connections", "body_bytes"), [bytes]);
    assert_eq!(column(&results, "connections", "whole"), [1.0]);
}

/// Client that reads two documents and a part of a third over one connection.
const IMPATIENT: &str = "
import os, socket
talk = socket.create_connection((os.environ['CATNIP_A'], 80), 30)
file = talk.makefile('rb')
for size in (5000, 7000):
    talk.sendall(b'GET /%d HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n' % size)
    while file.readline() != b'\\r\\n':
        pass
    assert len(file.read(size)) == size
talk.sendall(b'GET /90000000 HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n')
assert len(file.read(10000)) == 10000
";

const ANY_DOCUMENT: &str = "
[traffic.web]
kind = 'web'
clients = 'b'
servers = 'a'
http = '1.1'
think_s = 'constant:value=0'
[traffic.web.generate]
pages = 1
seed = 1
html_bytes = 'constant:value=1000'
images = 'constant:value=0'
image_bytes = 'constant:value=1'
";

#[test]
fn what_a_real_client_does_not_read_to_the_end_has_a_row_with_what_it_got() {
    let Some(lab) = Lab::open("impatient") else { return };
    // Unread data makes the kernel reset the connection.
    let closes = format!("{IMPATIENT}\nfile.close()\ntalk.close()\n");
    let breaks_off = python_client(&lab, &closes, ANY_DOCUMENT);
    let stays = format!("{IMPATIENT}\nimport time\ntime.sleep(60)\n");
    fs::write(lab.dir.join("stays.py"), stays).unwrap();
    let nodes = "a = { kind = 'host' }\nb = { kind = 'host', \
                 command = ['sh', '-c', 'cd $CATNIP_SCENARIO && exec python3 stays.py'] }";
    let cut_short = lab.results(&scenario(nodes, "", ANY_DOCUMENT).replace("'60s'", "'2s'"));
    for (results, is_over) in [(breaks_off, true), (cut_short, false)] {
        let of = |name| column(&results, "connections", name);
        assert_eq!(of("bytes"), [90_012_000.0]);
        let [delivered] = of("delivered_bytes")[..] else { panic!("one connection") };
        assert!((22_000.0..90_012_000.0).contains(&delivered), "{delivered}");
        assert_eq!((of("body_bytes"), of("whole"), of("status")), (vec![delivered], vec![0.0], vec![200.0]));
        assert_eq!(of("acked_s")[0].is_nan(), !is_over);
        assert_eq!(results["connections"]["group"][0], "web");
    }
}

#[test]
fn each_of_two_answers_in_one_segment_belongs_to_its_own_object() {
    let Some(lab) = Lab::open("pair") else { return };
    // The responses to ten pipelined requests are sent at once; every second one has status 404.
    let server = "
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, wbufsize = 'HTTP/1.1', 1 << 16
    answers = 0
    def log_message(self, *args):
        pass
    def do_GET(self):
        object = int(self.path[1:])
        self.send_response(404 if object % 2 else 200)
        self.send_header('Content-Length', str(object))
        self.end_headers()
        self.wfile.write(b'x' * object)
    def handle_one_request(self):
        # What is written stays in the buffer until there is nothing more to read.
        wfile, self.answers = self.wfile, self.answers + 1
        flush = wfile.flush
        wfile.flush = lambda: flush() if self.answers in (1, 11) else None
        super().handle_one_request()
http.server.ThreadingHTTPServer(('', 80), Handler).serve_forever()
";
    let traffic = READERS
        .replace("max_connections = 2", "max_connections = 1\npipelining = true")
        .replace("'/{bytes}'", "'/{object}'")
        .replace("pages = 2", "pages = 1");
    let results = python_server(&lab, server, 80, &traffic);
    let objects = column(&results, "objects", "object");
    assert_eq!(objects, (0..11).map(f64::from).collect::<Vec<f64>>());
    assert_eq!(column(&results, "objects", "body_bytes"), objects);
    let status = objects.iter().map(|object| if object % 2.0 == 1.0 { 404.0 } else { 200.0 });
    assert_eq!(column(&results, "objects", "status"), status.collect::<Vec<f64>>());
}

/// Scenario with two pages of eleven objects over persistent connections.
const READERS: &str = "
[traffic.web]
kind = 'web'
clients = 'b'
servers = 'a'
http = '1.1'
max_connections = 2
paths = '/{bytes}'
think_s = { distribution = 'constant', value = 0.01 }
[traffic.web.generate]
pages = 2
seed = 1
html_bytes = { distribution = 'constant', value = 3000 }
images = { distribution = 'constant', value = 10 }
image_bytes = { distribution = 'uniform', minimum = 1, maximum = 9000 }
";

/// Server that answers a request for the path `/N` with a body of N bytes.
const PYTHON_SERVER: &str = "
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    answers = 0
    def log_message(self, *args):
        pass
    def do_GET(self):
        body = (b'abcdefghijklmnopqrstuvwxyz' * 4000)[:int(self.path[1:])]
        self.send_response(200)
        self.answer(body)
        self.wfile.flush()
";

const SERVES: &str = "
http.server.ThreadingHTTPServer(('', 80), Handler).serve_forever()
";

#[track_caller]
fn all_objects_are_whole(results: &Value) {
    let bytes = column(results, "objects", "bytes");
    assert_eq!(bytes.len(), 22);
    assert_eq!(column(results, "objects", "body_bytes"), bytes);
    assert_eq!(column(results, "objects", "whole"), [1.0; 22]);
    assert_eq!(column(results, "pages", "page").len(), 2);
}

#[test]
fn a_real_server_may_answer_in_chunks() {
    let Some(lab) = Lab::open("chunks") else { return };
    let answer = "
    def answer(self, body):
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        for at in range(0, len(body), 777):
            part = body[at:at + 777]
            self.wfile.write(b'%x;note=1\\r\\n%s\\r\\n' % (len(part), part))
        self.wfile.write(b'0\\r\\nTrailer: yes\\r\\n\\r\\n')
";
    let server = format!("{PYTHON_SERVER}{answer}{SERVES}");
    for pipelining in [false, true] {
        let traffic = READERS.replace("http = '1.1'", &format!("http = '1.1'\npipelining = {pipelining}"));
        let results = python_server(&lab, &server, 80, &traffic);
        all_objects_are_whole(&results);
        assert_eq!(column(&results, "connections", "whole"), [1.0, 1.0]);
    }
}

#[test]
fn what_a_real_server_leaves_unanswered_is_asked_for_again() {
    let Some(lab) = Lab::open("limit") else { return };
    // The server closes after its third response, with or without announcing it.
    for (says, pipelining) in [("True", false), ("False", false), ("True", true), ("False", true)] {
        let answer = format!(
            "
    def answer(self, body):
        self.answers += 1
        self.send_header('Content-Length', str(len(body)))
        if self.answers == 3 and {says}:
            self.send_header('Connection', 'close')
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.answers == 3
"
        );
        let server = format!("{PYTHON_SERVER}{answer}{SERVES}");
        let traffic = READERS.replace("http = '1.1'", &format!("http = '1.1'\npipelining = {pipelining}"));
        let results = python_server(&lab, &server, 80, &traffic);
        all_objects_are_whole(&results);
        // Each connection carries three responses, except possibly the last ones.
        let connections = column(&results, "connections", "status").len();
        assert!((8..=10).contains(&connections), "{connections}");
    }
}
