"""Tests of the browser's account and sandbox, as the kernel reports them."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from catnip.web.chromium import Chromium, find

PROGRAM = find("chromium")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")


def status(process: int) -> dict[str, str]:
    """Returns the fields of /proc/PID/status; none if the process has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except FileNotFoundError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def renderers(browser: Chromium) -> list[dict[str, str]]:
    """Returns the status of each process that runs a page of the browser."""
    every = {int(folder.name): status(int(folder.name)) for folder in Path("/proc").glob("[0-9]*")}
    family = {browser._process}
    while more := {one for one, of in every.items() if int(of.get("PPid", 0)) in family} - family:
        family |= more
    return [every[one] for one in family if b"--type=renderer" in command(one)]


def command(process: int) -> bytes:
    """Returns the command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives its rights up")
def test_a_browser_that_root_starts_has_no_account_and_runs_pages_in_its_sandbox() -> None:
    assert PROGRAM is not None
    with Chromium(PROGRAM) as browser:
        browser.load("data:text/html,page", 60)
        whole = status(browser._process)
        pages = renderers(browser)
    users = {user for user in whole["Uid"].split()}
    assert len(users) == 1 and int(users.pop()) > 1_800_000_000
    assert whole["Groups"] == "" and int(whole["CapEff"], 16) == int(whole["CapBnd"], 16) == 0
    assert len(pages) > 0
    for page in pages:
        # Filters of system calls (prctl(2)), as the sandbox sets them.
        assert (page["Seccomp"], page["NoNewPrivs"]) == ("2", "1")
        assert page["Uid"] == whole["Uid"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to lose")
def test_a_browser_gets_no_terminal_no_descriptor_and_no_secret_of_roots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert PROGRAM is not None
    monkeypatch.setenv("A_SECRET", "of root")
    ends = os.pipe()
    os.set_inheritable(ends[1], True)
    with Chromium(PROGRAM) as browser:
        browser.load("data:text/html,page", 60)
        folder = Path(f"/proc/{browser._process}")
        environment = (folder / "environ").read_bytes()
        assert os.readlink(folder / "cwd") == browser._profile
        opened = {}
        for one in (folder / "fd").iterdir():
            # The browser opens and closes others all the time.
            with suppress(FileNotFoundError):
                opened[int(one.name)] = os.readlink(one)
        session, terminal = (folder / "stat").read_text().rpartition(")")[2].split()[3:5]
    assert os.readlink(f"/proc/self/fd/{ends[1]}") not in opened.values()
    for end in ends:
        os.close(end)
    assert b"A_SECRET" not in environment
    assert (int(session), terminal) == (browser._process, "0")
    assert [opened[number] for number in range(3)] == [os.devnull] * 3
    assert not any(of.startswith(("/dev/pts", "/dev/tty")) for of in opened.values())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_browser_ends_with_the_program_that_started_it(number: signal.Signals) -> None:
    # A server that never answers keeps the page loading. Pytest's folders are closed to the browser's user.
    with socket.create_server(("127.0.0.1", 0)) as silent, tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        program = [sys.executable, "-m", "catnip.web.chromium", url]
        with subprocess.Popen(program, env={**os.environ, "TMPDIR": folder}) as running:
            silent.settimeout(60)
            connection, _ = silent.accept()
            assert any(folder.encode() in command(one) for one in processes())
            running.send_signal(number)
            running.wait(timeout=30)
        until, left = time.monotonic() + 10, processes()
        while time.monotonic() < until and left:
            time.sleep(0.1)
            left = [one for one in processes() if folder.encode() in command(one)]
        connection.close()
        assert left == []
        assert number == signal.SIGKILL or list(Path(folder).iterdir()) == []


def processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def test_a_browser_without_its_sandbox_is_one_that_was_asked_for() -> None:
    assert PROGRAM is not None
    with Chromium(PROGRAM, has_sandbox=False) as browser:
        browser.load("data:text/html,page", 60)
        pages = renderers(browser)
    assert {page["Seccomp"] for page in pages} == {"0"}
    assert all(page["Uid"].split()[0] != "0" for page in pages)
