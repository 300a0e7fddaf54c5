"""Server side of the testbed: configures the kernel's TCP, starts a Web server, runs clients behind links.

The program runs as a script in the server's namespace, and imports only the standard library. It reads its
task as JSON from stdin and writes one JSON line per finished point, that is, per link, to stdout.
"""

import json
import os
import resource
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PORT = 8080
MAX_SOCKETS = 16384
ECHO_PORT = 8081
CLIENT = Path(__file__).with_name("client.py")

NGINX = """
daemon off; worker_processes 1; worker_rlimit_nofile {sockets};
pid {folder}/nginx.pid; error_log {folder}/error.log;
{user}
events {{ worker_connections {sockets}; }}
http {{ access_log off; sendfile on; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen {port} backlog=4096; root {folder}/www; }} }}
"""

APACHE = """
ServerRoot "{folder}"
ServerName testbed
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
Listen {port}
ListenBackLog 4096
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
{user}
ServerLimit 16
MaxRequestWorkers 400
AsyncRequestWorkerFactor 16
DocumentRoot "{folder}/www"
<Directory "{folder}/www">
  Require all granted
</Directory>
"""


def main() -> None:
    """Reads the task, starts the Web server, and runs all links of the task with their clients."""
    task = json.load(sys.stdin)
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    sockets = MAX_SOCKETS if hard_limit == resource.RLIM_INFINITY else min(hard_limit, MAX_SOCKETS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (sockets, hard_limit))
    for name, value in task["sysctl"].items():
        Path("/proc/sys/net", name).write_text(str(value))
    folder = Path(task["folder"])
    folder.chmod(0o755)
    (folder / "www").mkdir()
    for name, size in task["files"].items():
        (folder / "www" / name).write_bytes(os.urandom(size))
    server = _start(task["server"], folder)
    threading.Thread(target=_echo, daemon=True).start()
    try:
        with ThreadPoolExecutor(task["at_once"]) as pool:
            for done in pool.map(lambda point: _run(task, point, folder), task["points"]):
                print(json.dumps(done), flush=True)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(10)


def configured(kind: str, folder: Path) -> list[str]:
    """Writes the configuration of nginx or Apache for the files in www; returns the start command."""
    root = os.geteuid() == 0
    if kind == "nginx":
        sockets, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        text = NGINX.format(folder=folder, port=PORT, sockets=sockets, user="user root;" if root else "")
        command = ["nginx", "-c", str(folder / "server.conf")]
    else:
        text = APACHE.format(folder=folder, port=PORT, user="User www-data\nGroup www-data" if root else "")
        command = ["apache2", "-f", str(folder / "server.conf"), "-D", "FOREGROUND"]
    (folder / "server.conf").write_text(text)
    return command


def _start(kind: str, folder: Path) -> "subprocess.Popen[bytes]":
    command = configured(kind, folder)
    environment = os.environ | {"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", PORT)) == 0:
                return server
        if server.poll() is not None:
            break
        time.sleep(0.02)
    server.kill()
    sys.exit(f"{kind}: no response: {(folder / 'error.log').read_text()[-300:]}")


def _echo() -> None:
    """Runs a server that returns every line to its sender, like the remote end of an interactive session."""

    class Echo(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True

        def handle(self) -> None:
            for line in self.rfile:
                self.wfile.write(line)

    class Server(socketserver.ThreadingTCPServer):
        # Clients that end together with their link never close their connections.
        daemon_threads = True

    with Server(("", ECHO_PORT), Echo) as server:
        server.serve_forever()


def _run(task: dict[str, Any], point: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Runs one link with a client behind it; returns the client's output, the certificate and the logs."""
    certificate = folder / f"certificate-{point['id']}.json"
    log = folder / f"log-{point['id']}.csv"
    fetches = (
        f"{sys.executable} {CLIENT} http://$CATNIP_OUTSIDE:{PORT}/{point['file']}"
        f" --count {point['count']} --per-second {point['per_second']} --timeout-s {point['timeout_s']}"
    )
    command = point.get("command") or f"exec {fetches}"
    logged = ["--log", str(log)] if point.get("log") else []
    link = [task["emulator"], "link", "--quiet", "--certificate", str(certificate), *point["link"], *logged]
    run = _run_around_a_stop if point.get("stops") else _run_once
    ended = run(link, command)
    return {
        "id": point["id"],
        "err": ended.stderr[-500:],
        "out": ended.stdout,
        "certificate": json.loads(text) if (text := _text(certificate)) else None,
        "log": _text(log),
        "snmp": Path("/proc/net/snmp").read_text(),
    }


def _run_once(link: list[str], command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*link, "--", "sh", "-c", command], capture_output=True, text=True, check=False)


def _run_around_a_stop(link: list[str], command: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command that prints a line behind a link: before it is stopped, while it is, and afterwards.

    The command cannot stop the emulator itself, which is outside its PID namespace.
    """
    thrice = f"{command}; read -r _; {command}; read -r _; {command}"
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*link, "--", "sh", "-c", thrice], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as emulator:
        assert emulator.stdin is not None and emulator.stdout is not None
        lines = [emulator.stdout.readline()]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            emulator.send_signal(number)
            emulator.stdin.write("\n")
            emulator.stdin.flush()
            lines.append(emulator.stdout.readline())
        _, err = emulator.communicate()
    return subprocess.CompletedProcess(emulator.args, emulator.returncode, "".join(lines), err)


def _text(file: Path) -> str | None:
    return file.read_text() if file.exists() else None


if __name__ == "__main__":
    main()
