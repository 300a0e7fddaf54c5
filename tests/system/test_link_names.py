"""Tests of names by which links are found: another user takes them, listens at them, and is slow."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from catnip._core import InputError
from catnip.base import programs


def missing() -> str | None:
    try:
        programs.program()
    except InputError as error:
        return f"nothing in real time: {error}"
    return None if os.geteuid() == 0 else "only root is another user"


REASON = missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

FOLDER = Path("/run/catnip-emu")
OTHER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
OTHERS_PYTHON = ["env", "PATH=/usr/local/bin:/usr/bin:/bin", "python3"]
SO_NETNS_COOKIE = 71
COOKIE = f"""
import socket, sys
sys.stdout.buffer.write(socket.socket().getsockopt(socket.SOL_SOCKET, {SO_NETNS_COOKIE}, 8))
"""
TAKES_ALL_BLOCKS = """
import ipaddress, socket, time
blocks = ipaddress.ip_network("100.64.0.0/10").subnets(new_prefix=18)
held = [socket.socket(socket.AF_UNIX) for block in blocks]
for one, block in zip(held, ipaddress.ip_network("100.64.0.0/10").subnets(new_prefix=18)):
    one.bind(f"\\0catnip-emu {block.network_address}")
print("ready", flush=True)
time.sleep(600)
"""
LISTENS = """
import os, socket, sys, time
link = socket.socket(socket.AF_UNIX)
link.bind(f"\\0catnip-emu link {os.getpid()}")
link.listen(0 if sys.argv[1] == "full" else 5)
waiting = [socket.socket(socket.AF_UNIX) for _ in range(9 if sys.argv[1] == "full" else 0)]
for one in waiting:
    one.setblocking(False)
    one.connect_ex(link.getsockname())
print("ready", flush=True)
if waiting:
    time.sleep(600)
while True:
    client, _ = link.accept()
    client.recv(1000)
    if sys.argv[1] == "slow":
        for _ in range(600):
            client.sendall(b"x")
            time.sleep(0.5)
    client.sendall(b"\\x1b]0;owned\\x07\\x1b[31mred\\n")
    client.close()
"""


class Machine:
    """Network namespace of root, in which another user runs programs, too."""

    def __init__(self) -> None:
        holds = ["unshare", "--net", "--", "sh", "-c", "ip link set lo up; echo ready; exec sleep 600"]
        self.process = subprocess.Popen(holds, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.process.stdout.readline()
        self.enter = ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", "--"]

    def link(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [*self.enter, str(programs.program()), "link", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def names(self) -> list[Path]:
        """Returns the names of root's links in this namespace; those of other namespaces have their own."""
        done = subprocess.run([*self.enter, sys.executable, "-c", COOKIE], capture_output=True, check=True)
        return list(FOLDER.glob(f"{int.from_bytes(done.stdout, sys.byteorder)}-*"))

    @contextmanager
    def other_user(self, script: str, *arguments: str) -> Iterator[int]:
        """Runs a program of another user during the block, after it has printed a line."""
        command = [*self.enter, *OTHER, *OTHERS_PYTHON, "-c", script, *arguments]
        with until_ready(command) as process:
            yield process

    @contextmanager
    def running_link(self) -> Iterator[int]:
        """Runs a link of root during the block."""
        link = [str(programs.program()), "link", "-q", "--rate", "5Mbit", "--tolerance", "60s", "--"]
        command = [*self.enter, *link, "sh", "-c", "echo ready; sleep 600"]
        with until_ready(command) as process:
            yield process


@contextmanager
def until_ready(command: list[str]) -> Iterator[int]:
    """Runs a command during the block, from the line on by which it is ready."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        try:
            yield process.pid
        finally:
            process.terminate()


@pytest.fixture
def machine() -> Iterator[Machine]:
    held = Machine()
    with held.process:
        yield held
        held.process.kill()


def test_a_user_who_holds_the_names_of_all_blocks_keeps_root_from_no_link(machine: Machine) -> None:
    with machine.other_user(TAKES_ALL_BLOCKS):
        done = machine.link("-q", "--tolerance", "60s", "--", "sh", "-c", "echo $CATNIP_INSIDE")
    assert (done.returncode, done.stdout) == (0, "100.64.0.2\n"), done.stderr


@pytest.mark.parametrize("kind", ["slow", "fast", "full"])
def test_a_listener_of_another_user_is_no_link_beside_roots_own(machine: Machine, kind: str) -> None:
    with machine.other_user(LISTENS, kind), machine.running_link():
        began_s = time.monotonic()
        done = machine.link("set", "rate=2Mbit")
        assert (done.returncode, done.stderr) == (0, "")
        assert time.monotonic() - began_s < 4


def test_answers_of_another_users_link_are_printed_without_control_characters_and_in_time(
    machine: Machine,
) -> None:
    with machine.other_user(LISTENS, "fast") as process:
        done = machine.link("set", "--link", str(process), "rate=2Mbit")
        assert done.returncode == 2
        assert done.stderr.isprintable() is False and not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.stderr)
    with machine.other_user(LISTENS, "slow") as process:
        done = machine.link("set", "--link", str(process), "rate=2Mbit")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: --link: process {process} does not answer (")


def test_a_name_that_another_process_has_taken_is_not_asked(machine: Machine) -> None:
    script = LISTENS.replace("{os.getpid()}", "4711")
    with machine.other_user(script, "fast"):
        done = machine.link("set", "--link", "4711", "rate=2Mbit")
        assert done.stderr == (
            "error: --link: no link of process 4711 was started by this user in this network namespace\n"
        )


def test_root_changes_its_links_and_others_do_not(machine: Machine) -> None:
    with machine.running_link() as process, tempfile.TemporaryDirectory(prefix="catnip-names-") as folder:
        Path(folder).chmod(0o755)
        copy = shutil.copy(programs.program(), Path(folder) / "catnip-emu")
        for named in (["--link", str(process)], []):
            command = [*machine.enter, *OTHER, str(copy), "link", "set", *named, "rate=1Mbit"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert (done.returncode, "was started by this user" in done.stderr) == (2, True)
            assert machine.link("set", *named, "rate=1Mbit").returncode == 0


def test_what_killed_links_leave_is_gone_after_the_next_one(machine: Machine) -> None:
    with machine.running_link() as process:
        assert len(machine.names()) == 2
        os.kill(process, signal.SIGKILL)
    assert machine.link("-q", "--tolerance", "60s", "--", "true").returncode == 0
    assert machine.names() == []
