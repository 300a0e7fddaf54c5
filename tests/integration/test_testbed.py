"""Tests of the testbed: requirements, errors, and one real measurement if the machine allows it."""

import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from catnip import InputError
from catnip.base import paths, programs
from catnip.base.progress import Progress
from catnip.cli import emulation
from catnip.cli.options import BAD_INPUT
from catnip.papers import parts
from catnip.papers.testbed import runs, systems
from catnip.papers.testbed.runs import FetchRuns, Point
from conftest import Run


def needs_a_testbed() -> None:
    missing = runs.can_run("nginx") or (None if os.geteuid() == 0 else "not root")
    if missing:
        pytest.skip(missing)


def test_a_server_that_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "cannot_emulate", lambda: None)
    monkeypatch.setattr("shutil.which", lambda name, path: None if name == "apache2" else name)
    assert runs.can_run("nginx") is None
    assert runs.can_run(*runs.SERVERS) == "apache2: not installed (apt-get install apache2-bin)"


def test_without_the_emulator_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CATNIP_EMU", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"CATNIP_EMU: .*none is not a program"):
        programs.program()


def test_the_emulator_of_a_wheel_is_found_wherever_it_was_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / programs.PROGRAM
    program.parent.mkdir()
    program.touch(0o755)
    metadata = tmp_path / "catnip_net-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: catnip-net\n")
    (metadata / "RECORD").write_text(f"bin/{programs.PROGRAM},,\n")
    monkeypatch.delenv("CATNIP_EMU", raising=False)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.syspath_prepend(tmp_path)
    assert programs.program() == program


@pytest.mark.parametrize(
    ("name", "to", "called"),
    [
        ("link", "catnip-emu", ["catnip", "link"]),
        ("router", "catnip-emu", ["catnip", "router"]),
        ("agent", "catnip-agent", ["catnip agent"]),
    ],
)
def test_commands_of_other_programs_hand_their_arguments_over(
    catnip: Run, monkeypatch: pytest.MonkeyPatch, name: str, to: str, called: list[str]
) -> None:
    handed: list[tuple[Path, list[str]]] = []
    monkeypatch.setattr(emulation, "program", Path)
    monkeypatch.setattr(os, "execv", lambda program, arguments: handed.append((program, arguments)))
    catnip(name, "--delay", "5ms", "--help", "--", "sh", "-c", "exit 3")
    assert handed == [(Path(to), [*called, "--delay", "5ms", "--help", "--", "sh", "-c", "exit 3"])]


def test_a_simulated_server_stands_in_the_network_of_the_real_one() -> None:
    external, simulated = (
        tomllib.loads(Path(paths.scenario(name).path).read_text())
        for name in ("testbed-web", "testbed-admission")
    )
    for part in ("link", "traffic"):
        assert simulated[part] == external[part]
    assert simulated["node"] == {**external["node"], "server": {"kind": "host", "processing": "none"}}
    queues = (
        [(one["name"], one.get("link")) for one in scenario["variant"]] for scenario in (external, simulated)
    )
    assert next(queues) == next(queues)


def test_a_machine_without_nginx_is_bad_input(catnip: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catnip.papers.testbed.runs.can_run", lambda *_: "nginx: not installed")
    ended = catnip("reproduce", "testbed", "--quick", "--experiment", "TB-S1")
    assert (ended.code, ended.err) == (BAD_INPUT, "error: testbed: nginx: not installed\n")


def test_a_real_server_behind_a_link_answers_after_the_round_trips_it_needs() -> None:
    needs_a_testbed()
    measured = FetchRuns(False, None, 1, Progress(quiet=True)).of(
        "a test", [Point("one", ["--delay", "30ms", "--initial-window", "2"], "3", 4, log=True)]
    )["one"]
    assert measured.errors == 0
    # Three round trips: SYN, request, and a second window of data, because the initial window is two of three
    # packets.
    assert 0.18 <= measured.latencies_s.min() < 0.3
    down = measured.certificate["down"]
    # The link may end while the last packet is in flight.
    assert down["packets_in"] == down["packets_out"] + down["held"]
    assert measured.log is not None
    assert measured.log.startswith("event,")


def test_nothing_answers_while_the_emulator_is_stopped() -> None:
    needs_a_testbed()
    assert systems.answers_around_a_stop(FetchRuns(False, None, 1, Progress(quiet=True))) == "200 000 200"


@pytest.fixture
def on_idle_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes runs beside other tests, whose cores are busy, for runs that count."""
    needs_a_testbed()
    monkeypatch.setattr(runs, "is_red", lambda certificate: certificate["verdict"] == "red")


@pytest.mark.usefixtures("on_idle_cores")
def test_who_waits_for_measurements_hears_of_each_as_it_ends() -> None:
    reported: list[tuple[int, int]] = []

    class Recorder(Progress):
        def task(self, label: str) -> Callable[[int, int], None]:
            return lambda done, total: reported.append((done, total))

    points = [Point(name, ["--tolerance", "60s"], "3", 2) for name in ("one", "two", "three")]
    results = FetchRuns(False, None, 1, Recorder(quiet=True)).of("a test", points)
    assert [one.errors for one in results.values()] == [0, 0, 0]
    assert reported == [(0, 3), (1, 3), (2, 3), (3, 3), (3, 3)]


@pytest.mark.usefixtures("on_idle_cores")
def test_an_interrupted_group_of_links_goes_on_with_those_that_have_not_ended(tmp_path: Path) -> None:
    reported: list[int] = []

    class Interrupted(Progress):
        def task(self, label: str) -> Callable[[int, int], None]:
            return self.receive

        def receive(self, done: int, total: int) -> None:
            reported.append(done)
            if reported == [0, 1]:
                raise KeyboardInterrupt

    points = [Point(name, ["--tolerance", "60s"], "3", 2) for name in ("one", "two", "three")]
    kept = parts.opened(tmp_path / "parts", {})
    with pytest.raises(KeyboardInterrupt):
        FetchRuns(False, None, 1, Interrupted(quiet=True), parts=kept).of("a test", points)
    results = FetchRuns(False, None, 1, Interrupted(quiet=True), parts=kept).of("a test", points)
    assert reported == [0, 1, 1, 2, 3, 3]
    assert [(id, one.errors) for id, one in results.items()] == [("one", 0), ("two", 0), ("three", 0)]
