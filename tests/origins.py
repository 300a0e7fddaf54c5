"""Site of three hosts for tests, served by Python's own HTTP and TLS, in this network namespace.

usage: origins.py FOLDER COMMAND...

Makes the certificates with openssl, gives the loopback device the addresses, binds a file with the host names
over /etc/hosts, and runs the command while the servers run.
"""

import gzip
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WWW, STATIC, API = "www.example.org", "static.example.org", "api.example.org"
ADDRESSES = {WWW: "203.0.113.1", STATIC: "203.0.113.2", API: "203.0.113.3"}
PORTS = {WWW: [80, 443], STATIC: [443], API: [8443]}
PLAIN = {80}
PREFERS_HTTP2 = STATIC
"""Host that chooses HTTP/2 of a client that offers both; the handler speaks only HTTP/1.1."""
IMAGES = 6
GIF = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")
HTML = f"""<!doctype html><link rel="icon" href="data:,"><title>A site</title>
<link rel="stylesheet" href="https://{STATIC}/style.css">
{"".join(f'<img src="https://{STATIC}/image.gif?number={n}&size=large">' for n in range(IMAGES))}
<script>fetch("https://{API}:8443/items").then(response => response.json())</script>
"""
CSS = "body { margin: 0 }\n" * 2000


def image(number: int) -> bytes:
    """Returns a GIF image padded to a size that depends on `number`; browsers skip the padding."""
    return GIF.ljust(3000 + 500 * number, bytes([number]))


class Handler(BaseHTTPRequestHandler):
    """Request handler of all three hosts; the path selects the response."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if self.connection.getsockname()[1] in PLAIN:
            self.answer(
                b"moved", {"Location": f"https://{WWW}{self.path}", "Content-Type": "text/plain"}, 301
            )
        elif path == "/":
            self.answer_in_chunks(gzip.compress(HTML.encode(), mtime=0))
        elif path == "/style.css":
            self.answer(CSS.encode(), {"Content-Type": "text/css"})
        elif path == "/image.gif":
            number = int(query.partition("&")[0].partition("=")[2])
            self.answer(image(number), {"Content-Type": "image/gif", "X-Number": str(number)})
        elif path == "/items":
            self.answer(b"[1, 2]", {"Content-Type": "application/json", "Access-Control-Allow-Origin": "*"})
        elif path == "/short":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"not a thousand bytes")
            self.close_connection = True
        elif path == "/large":
            self.send_response(200)
            self.send_header("Content-Length", "200000000")
            self.end_headers()
            self.close_connection = True
        elif path == "/nothing":
            self.answer(b"", {}, 204)
        else:
            self.answer(b"there is no such thing", {"Content-Type": "text/plain"}, 404)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(b"got " + body, {"Content-Type": "text/plain"})

    def answer(self, body: bytes, headers: Mapping[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_in_chunks(self, body: bytes) -> None:
        self.send_response(200)
        for name, value in {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Encoding": "gzip",
            "Transfer-Encoding": "chunked",
            "Alt-Svc": 'h3=":443"',
            "Set-Cookie": "seen=1; Secure",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            for start in range(0, len(body), 100):
                part = body[start : start + 100]
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Suppresses the log of requests on stderr."""


def certificates(folder: Path) -> None:
    """Creates a certificate authority and one certificate for all hosts."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    openssl(
        "req", "-x509", *new, "-subj", "/CN=Authority of the origins", "-keyout", "ca.key", "-out", "ca.pem"
    )
    names = ",".join(f"DNS:{name}" for name in ADDRESSES)
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", f"subjectAltName={names}"]
    openssl("req", "-x509", *new, *signed, "-subj", f"/CN={WWW}", "-keyout", "site.key", "-out", "site.pem")


def context_of(name: str, folder: Path) -> ssl.SSLContext:
    """Returns the TLS context of a host."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "site.pem", folder / "site.key")
    if name == PREFERS_HTTP2:
        context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@contextmanager
def served(folder: Path) -> Iterator[None]:
    certificates(folder)
    servers = []
    for name, address in ADDRESSES.items():
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
        for port in PORTS[name]:
            server = ThreadingHTTPServer((address, port), Handler)
            if port not in PLAIN:
                server.socket = context_of(name, folder).wrap_socket(
                    server.socket, server_side=True, do_handshake_on_connect=False
                )
            threading.Thread(target=server.serve_forever, daemon=True).start()
            servers.append(server)
    yield
    for server in servers:
        server.shutdown()


def main() -> int:
    folder, *command = sys.argv[1:]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    hosts = Path(folder) / "hosts"
    hosts.write_text("".join(f"{address} {name}\n" for name, address in ADDRESSES.items()))
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)
    with served(Path(folder)):
        environment = {**os.environ, "SSL_CERT_FILE": f"{folder}/ca.pem"}
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
