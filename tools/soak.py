"""Soak test: a hundred clients fetch through a link; once a minute a process is killed and all start anew.

usage: sudo python3 tools/soak.py [MINUTES]     (20; .venv must be built)

The test has network, process and mount namespaces of its own, so that all leftovers are visible: processes,
devices, addresses, nftables, forwarding, sockets, mounts, temporary files. It prints a line for each minute
and exits with 1 after leftovers, after a wrong byte, or if no data was received.
"""

import contextlib
import http.client
import http.server
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
EMULATOR = HERE / ".venv" / "bin" / "catnip-emu"
ROUND_S = 60
CLIENTS = 100
# Ways to end a round, which take turns.
ENDS = ("kill -9 of the link", "kill -9 of its command", "SIGTERM", "kill -9 of the scenario's emulator")
LINK = ["--rate", "100Mbit", "--delay", "10ms", "--jitter", "uniform:2ms", "--queue", "catnip-red:100KB"]
LINK += [
    "--loss",
    "bernoulli:0.5%",
    "--wire-loss",
    "reorder:0.1%,by=3 | duplicate:0.1%",
    "--mark",
    "spm",
    "--nat",
]


def main() -> int:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 20
    if os.environ.get("SOAK") != "inside":
        spaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command = [*spaces, sys.executable, str(Path(__file__).resolve()), *sys.argv[1:]]
        return subprocess.run(command, env={**os.environ, "SOAK": "inside"}, check=False).returncode
    with tempfile.TemporaryDirectory() as place:
        os.environ["TMPDIR"] = place
        subprocess.run("ip link set lo up; ip address add 192.0.2.1/32 dev lo", shell=True, check=True)
        threading.Thread(target=serve, daemon=True).start()
        before, failures = state(place), 0
        print(
            "minute  fetched, MB  wrong  memory, MB    scenario  ended by",
            flush=True,
        )
        for number in range(max(1, round(minutes * 60 / ROUND_S))):
            end = ENDS[number % len(ENDS)]
            fetched, wrong, memory_mb, scenario = one_round(Path(place), end)
            left = leftovers(before, place)
            failures += bool(wrong or left or not fetched)
            print(
                f"{number + 1:6}  {fetched / 1e6:11.1f}  {wrong:5}  {memory_mb:10.1f}  {scenario:>10}  {end}",
                flush=True,
            )
            for what in left:
                print(f"        left behind: {what}", flush=True)
    return int(failures > 0)


def one_round(place: Path, end: str) -> tuple[int, int, float, str]:
    """Runs a link and a scenario for a minute, and then ends one of their processes as `end` specifies.

    Returns the number of bytes received, the number of wrong answers, the emulator's memory at the end in MB,
    and the outcome of the scenario.
    """
    told = place / "told.json"
    client = [sys.executable, str(Path(__file__).resolve()), "client", str(told)]
    link = subprocess.Popen([str(EMULATOR), "link", "--quiet", *LINK, "--", *client])
    scenario = HERE / "python" / "catnip" / "papers" / "testbed" / "scenarios" / "testbed-web.toml"
    emulate = [str(EMULATOR), "emulate", str(scenario), "--variant", "64 KB CATNIP", "--quiet"]
    world = subprocess.Popen(emulate, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(ROUND_S)
    memory_mb = resident_mb(link.pid)
    if end == "SIGTERM":
        link.send_signal(signal.SIGTERM)
    elif end == "kill -9 of its command":
        os.kill(child_of(link.pid), signal.SIGKILL)
    else:
        link.kill()
    if end == "kill -9 of the scenario's emulator" or world.poll() is None:
        world.kill()
    link.wait()
    code = world.wait()
    result = json.loads(told.read_text()) if told.exists() else {"bytes": 0, "wrong": 0}
    told.unlink(missing_ok=True)
    went = {0: "whole", 3: "late"}.get(code, "killed" if code < 0 else f"code {code}")
    return result["bytes"], result["wrong"], memory_mb, went


def leftovers(before: dict[str, str], place: str) -> list[str]:
    """Returns the differences from the state `before`; waits up to five seconds for the clean-up."""
    for _ in range(50):
        now = state(place)
        if now == before:
            return []
        time.sleep(0.1)
    return [f"{key}: {now[key]!r} in place of {before[key]!r}" for key in now if now[key] != before[key]]


def state(place: str) -> dict[str, str]:
    def said(command: str) -> str:
        return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout

    own = {str(os.getpid()), "1"}
    processes = [one for one in os.listdir("/proc") if one.isdigit() and one not in own]
    # Zombies have no command line. Orphans become zombies, because this process, the first of the namespace,
    # does not reap them.
    names = [Path(f"/proc/{one}/cmdline") for one in processes]
    return {
        "processes": " ".join(sorted(filter(None, map(command_line, names)))),
        "devices": said("ip -brief link | cut -d' ' -f1"),
        "addresses": said("ip -brief address"),
        "nftables": said("nft list ruleset"),
        "forwarding": said("cat /proc/sys/net/ipv4/conf/*/forwarding"),
        "sockets": said("grep -o '@catnip.*' /proc/net/unix | sort"),
        "files": " ".join(sorted(os.listdir(place))),
        "mounts": str(said("cat /proc/self/mounts").count("\n")),
    }


def command_line(file: Path) -> str:
    try:
        return file.read_bytes().decode().replace("\0", " ")
    except OSError:
        return ""


def resident_mb(process: int) -> float:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return float("nan")
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def child_of(process: int) -> int:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    for child in map(int, children):
        if b"client" in Path(f"/proc/{child}/cmdline").read_bytes():
            return child
    raise ProcessLookupError(process)


def body(size: int) -> bytes:
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def serve() -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            content = body(int(self.path[1:]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            with contextlib.suppress(OSError):
                super().handle()

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 1024
        daemon_threads = True

    Server(("", 8000), Handler).serve_forever()


def client(told: Path) -> None:
    """Runs a hundred users without pauses, until this process is killed.

    Writes the numbers of bytes and of wrong answers to `told` every second.
    """
    done = {"bytes": 0, "wrong": 0}

    def use(number: int) -> None:
        random_sizes = random.Random(number)
        while True:
            connection = http.client.HTTPConnection("192.0.2.1", 8000, timeout=30)
            try:
                for _ in range(random_sizes.randrange(1, 6)):
                    size = int(random_sizes.lognormvariate(9, 1.5)) % 1_000_000
                    connection.request("GET", f"/{size}")
                    content = connection.getresponse().read()
                    done["bytes"] += len(content)
                    done["wrong"] += content != body(size)
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()

    for number in range(CLIENTS):
        threading.Thread(target=use, args=(number,), daemon=True).start()
    while True:
        time.sleep(1)
        whole = told.with_suffix(".new")
        whole.write_text(json.dumps(done))
        whole.rename(told)


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        client(Path(sys.argv[2]))
    sys.exit(main())
