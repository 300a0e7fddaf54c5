"""What the tests share."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from catnip import cli


@dataclass(frozen=True)
class Finished:
    """A command line that has ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Finished]


@pytest.fixture
def catnip(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process."""

    def run(*arguments: object) -> Finished:
        code = cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Finished(code, out, err)

    return run
