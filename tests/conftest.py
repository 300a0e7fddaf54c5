"""Common fixtures of the tests, and records of a run: skipped tests with reasons, and durations."""

import os
import resource
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import durations
import pytest

from catnip import cli

if TYPE_CHECKING:
    from agents import Host


@dataclass(frozen=True)
class Finished:
    """Result of a command line that has ended."""

    code: int
    out: str
    err: str


def pytest_configure(config: pytest.Config) -> None:
    """Registers `ReportWriter`, only in the process that receives the reports of all workers."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(
            ReportWriter("python-alone" if config.option.markexpr == "alone" else "python")
        )


class ReportWriter:
    """Writes reasons of skipped tests where `make test` counts them, and durations to build/durations/."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._of: dict[str, durations.Writer] = {}
        self._wall_s: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Records the report of a setup, a call or a teardown, which ends the test."""
        file = os.environ.get("CATNIP_SKIPPED")
        if file and report.skipped and isinstance(report.longrepr, tuple):
            with Path(file).open("a") as lines:
                lines.write(f"{report.nodeid}: {report.longrepr[2].removeprefix('Skipped: ')}\n")
        self._wall_s[report.nodeid] = self._wall_s.get(report.nodeid, 0.0) + report.duration
        if report.when == "teardown":
            layer = Path(report.nodeid).parts[1]
            if layer not in self._of:
                self._of[layer] = durations.Writer(layer, self._kind)
            cpu_s = float(str(dict(report.user_properties).get("cpu_s", 0.0)))
            self._of[layer].add(report.nodeid, cpu_s, self._wall_s.pop(report.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the CPU time of a test, including processes that the test waited for, to its last report."""
    if call.when == "setup":
        item.user_properties.append(("cpu_began_s", _cpu_s() - call.duration))
    if call.when == "teardown":
        item.user_properties.append(
            ("cpu_s", _cpu_s() - float(str(dict(item.user_properties)["cpu_began_s"])))
        )
    return (yield)


def _cpu_s() -> float:
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(of.ru_utime + of.ru_stime for of in used)


Run = Callable[..., Finished]


@pytest.fixture
def catnip(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process."""

    def run(*arguments: object) -> Finished:
        code = cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Finished(code, out, err)

    return run


@pytest.fixture
def host(tmp_path: Path) -> "Iterator[Host]":
    """Provides a host with an agent, over 20 Mbit/s, 40 ms, and a buffer large enough for no losses."""
    import catnip  # noqa: PLC0415 -- few tests need it
    from agents import Host  # noqa: PLC0415

    with catnip.link(rate="20Mbit", delay="20ms", queue="drop-tail:2000") as link:
        yield Host(link, tmp_path)
