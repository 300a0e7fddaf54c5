"""Fixtures of all tests, and records of a test run: reasons of skipped tests, and durations."""

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
    """Exit code and output of a `catnip` command line."""

    code: int
    out: str
    err: str


def pytest_configure(config: pytest.Config) -> None:
    """Registers `ReportWriter` in the main process only, which receives the reports of all workers."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(
            ReportWriter("python-alone" if config.option.markexpr == "alone" else "python")
        )


class ReportWriter:
    """Plugin that records skipped tests for `make test` and durations in build/durations/."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._of: dict[str, durations.Writer] = {}
        self._wall_s: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Records the report of a setup, call or teardown; the teardown's report completes the test."""
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
    """Adds the CPU time of a test, including processes that it waited for, to the report of its teardown."""
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
    """Returns a function that runs a `catnip` command line in this process."""

    def run(*arguments: object) -> Finished:
        code = cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Finished(code, out, err)

    return run


@pytest.fixture
def host(tmp_path: Path) -> "Iterator[Host]":
    """Provides a host for an agent, behind a link of 20 Mbit/s and 20 ms each way that loses no packets."""
    import catnip  # noqa: PLC0415 -- few tests need it
    from agents import Host  # noqa: PLC0415

    with catnip.link(rate="20Mbit", delay="20ms", queue="drop-tail:2000") as link:
        yield Host(link, tmp_path)
