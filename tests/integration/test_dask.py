"""Tests of runs on workers of Dask: the bytes of threads, also if workers or the scheduler are killed."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from catnip import __version__
from conftest import Run
from plans import LINE, eventually, tables_of

pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="Dask is not installed")

PLAN = (
    """
id = "X-6"
title = "Long files over a lossy line"
seeds = 4
"""
    + LINE
    + """
rate = "20Mbit"
delay = "5ms"
queue = "drop-tail:20"
loss = "bernoulli:0.001"
[traffic.file]
kind = "bulk"
from = "server"
to = "client"
bytes = "4MB"
[sweep]
samples = 60
seeds = "2..8"
until = "goodput_mbps 5%"
[[axis]]
key = "link.line.delay"
range = "1ms..60ms"
"""
)
DIES = """
import os, sys
from catnip.cli import main
from catnip.store import cluster

if __name__ == "__main__":
    cluster.work = lambda *_: os._exit(1)
    raise SystemExit(main(sys.argv[1:]))
"""
HOLDS = """
import sys
from catnip.store import cluster

if __name__ == "__main__":
    with cluster.connected("local", 1) as workers:
        print(workers.client.scheduler.address, flush=True)
        sys.stdin.read()
"""
ASKS = """
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as plain:
    try:
        with context.wrap_socket(plain) as secure:
            print("answered" if secure.recv(100) else "refused")
    except (ssl.SSLError, ConnectionError):
        print("refused")
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.toml"
    file.write_text(PLAN)
    return file


@contextmanager
def started(*words: object) -> "Iterator[subprocess.Popen[str]]":
    """Runs a program of Python during the block, in a session of its own."""
    command = [sys.executable, *map(str, words)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def members(session: int) -> set[int]:
    """Returns the processes of a session."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                found.add(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def test_workers_give_the_bytes_of_threads_also_if_one_is_killed(
    catnip: Run, plan: Path, tmp_path: Path
) -> None:
    alone = catnip("run", plan, "--out", tmp_path / "one")
    assert alone.code == 0
    out = tmp_path / "dask"
    with started("-m", "catnip", "run", plan, "--dask", "local", "--threads", 2, "--out", out, "-q") as run:
        assert eventually(lambda: len(list(out.glob("points/*.zip"))) > 0 or run.poll() is not None)
        # The workers are those that have used the CPU most, besides the scheduler in the first process.
        workers = sorted(members(run.pid) - {run.pid}, key=cpu_ticks)
        os.kill(workers[-1], signal.SIGKILL)
        printed, err = run.communicate(timeout=120)
    assert (run.returncode, printed) == (0, alone.out), err
    assert tables_of(out) == tables_of(tmp_path / "one") != {}


def cpu_ticks(process: int) -> int:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(fields[11]) + int(fields[12])


def test_a_killed_scheduler_leaves_no_workers_and_what_is_stored_goes_on(
    catnip: Run, plan: Path, tmp_path: Path
) -> None:
    assert catnip("run", plan, "--out", tmp_path / "one").code == 0
    out = tmp_path / "dask"
    with started("-m", "catnip", "run", plan, "--dask", "local", "--threads", 2, "--out", out, "-q") as run:
        assert eventually(lambda: len(list(out.glob("points/*.zip"))) > 0 or run.poll() is not None)
        run.kill()
        run.wait()
        assert eventually(lambda: members(run.pid) == set()), members(run.pid)
    assert catnip("run", plan, "--out", out).code == 0
    assert tables_of(out) == tables_of(tmp_path / "one")


def test_points_that_kill_their_workers_are_told(plan: Path, tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    script.write_text(DIES)
    with started(script, "run", plan, "--dask", "local", "--threads", 1, "-q") as run:
        _, err = run.communicate(timeout=120)
    assert run.returncode == 2
    assert err.splitlines()[-1].startswith("error: --dask: local: three workers have died at delay=")


def test_workers_of_another_version_refuse() -> None:
    from catnip.store import cluster  # noqa: PLC0415 -- needs Dask

    refused, tables, _ = cluster.work("0.0.0", "", ("", "", [], {}), [], (1, 2), [], None)
    assert (refused, tables) == (f"a worker has CATNIP {__version__}, and this is 0.0.0", {})


def test_a_scheduler_that_is_not_there_or_has_no_workers_is_one_line(catnip: Run, plan: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
    refused = catnip("run", plan, "--dask", f"nonsense://127.0.0.1:{port}")
    assert refused.code == 2 and refused.err.startswith("error: --dask: nonsense://127.0.0.1:")
    assert refused.err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is another user")
def test_another_user_of_the_machine_is_refused_by_a_local_scheduler() -> None:
    # A script of pytest's own folders is closed to others.
    with tempfile.TemporaryDirectory(prefix="catnip-dask-") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "holds.py").write_text(HOLDS)
        with started(Path(folder) / "holds.py") as holder:
            assert holder.stdout is not None
            address = holder.stdout.readline().strip()
            assert address.startswith("tls://127.0.0.1:")
            other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", "env", "-i"]
            ask = [
                *other,
                "PATH=/usr/local/bin:/usr/bin:/bin",
                "python3",
                "-c",
                ASKS,
                address.rpartition(":")[2],
            ]
            asked = subprocess.run(ask, capture_output=True, text=True, check=True)
            assert asked.stdout == "refused\n"
