"""Tests of an installation without extras: most commands work, the others name the missing extra."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from catnip.base import extras
from catnip.cli.options import BAD_INPUT
from conftest import Run

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PLAIN = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(extras.EXTRAS)}:
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Missing())
from catnip import cli
sys.exit(cli.main())
"""


@pytest.fixture
def lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda library: None)


def plain(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the `catnip` command line in a process in which the libraries of all extras are missing."""
    command = [sys.executable, "-c", PLAIN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_library_is_brought_by_the_extra_that_is_named() -> None:
    brought = PROJECT["optional-dependencies"]
    for library, extra in extras.EXTRAS.items():
        assert any(one.startswith(f"{extras.CALLED.get(library, library)}>=") for one in brought[extra]), (
            library
        )
        assert not any(one.startswith(library) for one in PROJECT["dependencies"]), library
    assert brought["all"] == [
        f"{PROJECT['name']}[{','.join(sorted(set(brought) - {'all', 'dev', 'wheel'}))}]"
    ]
    assert PROJECT["name"] == extras.DISTRIBUTION


@pytest.mark.usefixtures("lacks")
@pytest.mark.parametrize(
    ("arguments", "needs"),
    [
        (["run", "catnip-e1", "--out", "tables"], "--out: needs pyarrow: pip install 'catnip-net[parquet]'"),
        (["trace", "--plot", "p.svg"], "--plot: needs matplotlib: pip install 'catnip-net[plot]'"),
        (
            ["model", "--sweep", "loss=0%:5%", "--plot", "p.svg"],
            "--plot: needs matplotlib: pip install 'catnip-net[plot]'",
        ),
        (["reproduce", "catnip"], "reproduce: needs matplotlib: pip install 'catnip-net[plot]'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_missing_is_one_line_and_nothing_is_written(
    catnip: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], needs: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = catnip(*arguments)
    assert (ended.code, ended.out, ended.err) == (BAD_INPUT, "", f"error: {needs}\n")
    assert not list(tmp_path.iterdir())


def test_a_report_needs_more_than_its_claims(catnip: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda library: None if library == "jinja2" else library)
    ended = catnip("reproduce", "catnip", "--report", "/dev/null/report.html")
    assert ended.err == "error: --report: needs jinja2: pip install 'catnip-net[report]'\n"


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["run", "catnip-e1", "--seeds", "1"], ["trace"], ["model"], ["tmix", "bursts", "--json"]],
    ids=" ".join,
)
def test_without_extras_the_rest_works(arguments: list[str]) -> None:
    ended = plain(*arguments)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_library_that_is_missing_deeper_down_is_named_too() -> None:
    ended = plain("reproduce", "catnip")
    assert ended.returncode == BAD_INPUT
    assert ended.stderr == "error: this command: needs matplotlib: pip install 'catnip-net[plot]'\n"
