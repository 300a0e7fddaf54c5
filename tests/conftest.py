"""What the tests share."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from catnip import cli


@dataclass(frozen=True)
class Finished:
    """A command line that has ended."""

    code: int
    out: str
    err: str


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes why a test is skipped where `make test` counts it."""
    file = os.environ.get("CATNIP_SKIPPED")
    if file and report.skipped and isinstance(report.longrepr, tuple):
        with Path(file).open("a") as lines:
            lines.write(f"{report.nodeid}: {report.longrepr[2].removeprefix('Skipped: ')}\n")


Run = Callable[..., Finished]


@pytest.fixture
def catnip(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process."""

    def run(*arguments: object) -> Finished:
        code = cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Finished(code, out, err)

    return run
