"""Tests of scenarios in real time: output, results, errors and signals.

All hosts are simulated, which needs no privileges, except in tests with a marker.
"""

import dataclasses
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from catnip import cli
from catnip._core import InputError
from catnip.base import programs
from catnip.cli.options import BAD_INPUT, RED
from catnip.store import results
from conftest import Run

TWO_HOSTS = """
id = "X"
title = "two hosts"
duration = "{duration}"
[node]
a = {{ kind = "host" }}
b = {{ kind = "host"{real} }}
[link.ab]
from = "a"
to = "b"
rate = "1Mbit"
delay = "5ms"
queue = "drop-tail:30"
[traffic.file]
kind = "bulk"
from = "a"
to = "b"
bytes = "{size}"
"""


def missing() -> str | None:
    try:
        programs.program()
    except InputError as error:
        return str(error)
    return None


REASON = missing()
NO_HOSTS = programs.cannot_emulate()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"nothing in real time: {REASON}")


@pytest.fixture
def scenario(tmp_path: Path) -> Callable[..., Path]:
    """Returns a function that writes a scenario with changes and returns its path."""

    def write(duration: str = "20s", size: str = "20KB", real: str = "") -> Path:
        file = tmp_path / "two.toml"
        file.write_text(TWO_HOSTS.format(duration=duration, size=size, real=real))
        return file

    return write


def tokens(text: str) -> list[list[str]]:
    """Returns the words of each line, so that spacing does not count in comparisons."""
    return [line.split() for line in text.splitlines()]


def test_an_emulation_prints_and_leaves_what_a_run_does_and_certificates_after_it(
    catnip: Run, scenario: Callable[..., Path], tmp_path: Path
) -> None:
    file, one, two = scenario(), tmp_path / "one", tmp_path / "two"
    changed = ["--bursts", "--set", "link.ab.delay=30ms", "--set", "duration=15s"]
    simulated = catnip("run", file, "--seeds", 1, *changed, "--out", one)
    emulated = catnip("emulate", file, *changed, "--out", two, "--tolerance", "60s")
    assert (simulated.code, emulated.code) == (0, 0)
    # A simulation prints the models' values after the tables.
    printed = tokens(emulated.out)
    assert printed == tokens(simulated.out)[: len(printed)]
    assert "default" in emulated.out
    assert "link certificate: green" in emulated.err
    names = {path.name for path in one.iterdir()}
    assert {path.name for path in two.iterdir()} == names | {results.CERTIFICATE}
    for name in names - {"manifest.json"}:
        expected, actual = pq.ParquetFile(one / name), pq.ParquetFile(two / name)
        assert expected.schema_arrow.equals(actual.schema_arrow, check_metadata=True), name
        assert str(expected.schema).split("\n", 1)[1] == str(actual.schema).split("\n", 1)[1], name
    (ran, _), (did, tables) = results.read(one), results.read(two)
    assert dataclasses.replace(did, made=ran.made) == ran
    assert did.made is not None
    assert ran.made is not None
    assert list(did.made) == list(ran.made)
    assert float(tables["runs"]["duration_s"][0]) > 0
    # A simulation into the same folder has no certificate.
    assert catnip("run", file, "--seeds", 1, "--out", two).code == 0
    assert not (two / results.CERTIFICATE).exists()


def test_a_folder_with_other_results_is_refused_and_left_as_it_is(
    catnip: Run, scenario: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert catnip("run", "catnip-e2", "--seeds", 1, "--out", out).code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    refused = catnip("emulate", scenario(), "--out", out)
    assert refused.code == BAD_INPUT
    assert refused.err.startswith(f"error: --out: {out} has results of scenario CAT-E2, not of X; ")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    for option in (["--variant", "x"], ["--out", "/dev/null"], ["--mtu", "1"], ["--bursts"], ["--set", "x"]):
        refused = catnip("emulate", scenario(), *option)
        assert (refused.code, refused.out, refused.err.count("\n")) == (BAD_INPUT, "", 1)


def test_json_is_the_result_of_a_run_with_a_certificate_and_nothing_else_is_printed(
    catnip: Run, scenario: Callable[..., Path]
) -> None:
    file = scenario()
    ran = json.loads(catnip("run", file, "--seeds", 1, "--json").out)
    ended = catnip("emulate", file, "--json", "--quiet", "--tolerance", "60s")
    assert (ended.code, ended.err) == (0, "")
    did = json.loads(ended.out)
    assert did.pop("certificate")["verdict"] == "green"
    assert did == {**ran, "models_s": {}}


@pytest.mark.skipif(NO_HOSTS is not None, reason=f"no external hosts: {NO_HOSTS}")
def test_with_json_what_commands_print_goes_to_standard_error(scenario: Callable[..., Path]) -> None:
    real = ", ends_run = true, command = ['sh', '-c', 'echo said; exit 7']"
    for option, out in (["--json"], None), ([], "said\n"):
        ended = started(scenario(real=real), "-q", "--tolerance", "60s", *option)
        printed, err = ended.communicate(timeout=60)
        assert ended.returncode == 7, err
        if out is None:
            assert json.loads(printed)["scenario"] == "X"
            assert err == "said\n"
        else:
            assert printed.startswith(out)


def test_a_red_certificate_and_an_error_keep_their_exit_codes(
    catnip: Run, scenario: Callable[..., Path]
) -> None:
    red = catnip("emulate", scenario(), "--tolerance", "0ms")
    assert red.code == RED
    assert "out of tolerance: " in red.err
    assert "completion time, s" in red.out


@pytest.mark.skipif(NO_HOSTS is not None, reason=f"no external hosts: {NO_HOSTS}")
def test_a_command_that_is_not_there_is_one_line_and_127(scenario: Callable[..., Path]) -> None:
    ended = started(scenario(real=", command = ['no-such-command']"))
    out, err = ended.communicate(timeout=60)
    assert (ended.returncode, out) == (127, "")
    assert err.startswith("error: node.b.command: no-such-command: command not found")
    assert err.count("\n") == 1


def started(file: Path, *options: object, **how: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "catnip", "emulate", str(file), *map(str, options)]
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **how}
    return subprocess.Popen(command, **how)


def begun(out: Path) -> Path:
    """Waits until the clock of a real-time run has started and returns the folder of its results."""
    for _ in range(1200):
        if found := list(out.glob("catnip-emulate-*/begun.json")):
            return found[0].parent
        time.sleep(0.05)
    raise AssertionError("it has not begun")


@pytest.mark.parametrize("to_all", [False, True], ids=["to it", "to it and its emulator, as a terminal does"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_a_signal_ends_leaves_what_there_is(
    scenario: Callable[..., Path], tmp_path: Path, number: signal.Signals, to_all: bool
) -> None:
    out = tmp_path / "out"
    running = started(scenario("60s", "10MB"), "--out", out, "--tolerance", "60s", start_new_session=True)
    begun(out)
    (os.killpg if to_all else os.kill)(running.pid, number)
    printed, err = running.communicate(timeout=60)
    assert running.returncode == 128 + number, err
    assert "0 of 1" in printed
    assert "the run was cut short: a signal was received" in err
    manifest, tables = results.read(out)
    assert manifest.scenario == "X"
    assert len(tables["connections"]["seed"]) == 1
    assert not list(out.glob("catnip-emulate-*"))


def test_the_emulator_ends_with_who_has_started_it(scenario: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    running = started(scenario("60s", "10MB"), "--out", out)
    folder = begun(out)
    running.kill()
    running.communicate(timeout=60)
    # The emulator still writes its results.
    for _ in range(1200):
        if (folder / "manifest.json").exists():
            return
        time.sleep(0.05)
    raise AssertionError("it goes on")


def test_results_that_cannot_be_put_in_their_place_are_kept(
    catnip: Run, scenario: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "pages.parquet")

    monkeypatch.setattr(results, "write", full)
    ended = catnip("emulate", scenario(), "--out", tmp_path / "out", "-q")
    assert ended.code == BAD_INPUT
    assert "completion time, s" in ended.out
    found = re.fullmatch(
        r"error: pages\.parquet: No space left on device; the results are in (.+)\n", ended.err
    )
    assert found
    _, tables = results.read(Path(found[1]))
    assert len(tables["connections"]["seed"]) == 1


@pytest.mark.parametrize("options", [[], ["--quiet"]])
def test_who_waits_sees_how_far_it_is_in_a_terminal_that_is_as_it_was(
    scenario: Callable[..., Path], options: list[str]
) -> None:
    ours, theirs = pty.openpty()
    command = ["--tolerance", "60s", *options]
    environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm"}
    running = started(scenario("1s", "10MB"), *command, stderr=theirs, env=environment)
    os.close(theirs)
    output = b""
    try:
        while part := os.read(ours, 1 << 16):
            output += part
    except OSError:  # The terminal is closed.
        pass
    running.communicate(timeout=60)
    shown = output.decode()
    assert ("X in real time, s" in shown) == (not options), shown
    assert ("link certificate" in shown) == (not options)
    # The cursor is visible again.
    assert shown.rfind("\x1b[?25h") >= shown.rfind("\x1b[?25l")


def test_each_option_of_the_emulator_is_one_of_the_command(catnip: Run) -> None:
    def options(text: str) -> set[str]:
        return set(re.findall(r"^\s+(?:-\w, )?(--[\w-]+)", text, re.MULTILINE))

    ended = subprocess.run(
        [programs.program(), "emulate", "--help"], capture_output=True, text=True, check=True
    )
    assert options(ended.stdout)
    assert options(ended.stdout) == options(catnip("emulate", "--help").out)


@pytest.mark.parametrize("name", ["link", "router", "emulate"])
def test_help_and_version_are_of_one_program(name: str) -> None:
    def said(option: str) -> str:
        made = subprocess.run(
            [sys.executable, "-m", "catnip", name, option], capture_output=True, text=True, check=True
        )
        return made.stdout

    assert said("--help").startswith(f"Usage: catnip {name} [OPTIONS]")
    assert "catnip-emu" not in said("--help")
    assert re.fullmatch(r"catnip, version \S+\n", said("--version"))


def test_a_name_of_a_scenario_is_completed_for_an_emulation() -> None:
    command = cli.catnip.get_command(None, "emulate")  # type: ignore[arg-type]
    assert command is not None
    parameter = next(one for one in command.params if one.name == "scenario")
    with command.make_context("emulate", ["x"], resilient_parsing=True) as context:
        assert "testbed-web" in {item.value for item in parameter.shell_complete(context, "testbed")}
