"""Tests that commands find the package's files wherever the package is installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from catnip._core import Scenario
from catnip.base import paths

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a copy of the package, outside the checkout."""
    folder = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(paths.PACKAGE, folder / "catnip", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run(elsewhere: Path, *arguments: str) -> str:
    """Runs a command line of the copied package, without the checkout on the path; returns its output."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(elsewhere)}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_package_knows_its_checkout() -> None:
    assert paths.checkout() == CHECKOUT


def test_an_installed_copy_knows_of_no_checkout(elsewhere: Path) -> None:
    assert run(
        elsewhere, "-c", "from catnip.base import paths; print(paths.PACKAGE, paths.checkout())"
    ).split() == [
        str(elsewhere / "catnip"),
        "None",
    ]


def test_an_installed_copy_lists_and_runs_the_same_scenarios(elsewhere: Path) -> None:
    ours = {Path(one.path).relative_to(paths.PACKAGE) for one in paths.outlines()}
    listed = "from catnip.base import paths\nfor one in paths.outlines(): print(one.path)"
    theirs = {Path(path).relative_to(elsewhere / "catnip") for path in run(elsewhere, "-c", listed).split()}
    assert theirs == ours
    assert "Single-loss profile" in run(elsewhere, "-m", "catnip", "run", "catnip-e1", "--seeds", "1")


def test_an_installed_copy_judges_by_the_same_tables(elsewhere: Path) -> None:
    experiment = ("catnip", "--experiment", "CAT-E1", "--quick", "--table", "claims.md")
    run(elsewhere, "-m", "catnip", "reproduce", *experiment)
    claims = (elsewhere / "claims.md").read_text(encoding="utf-8")
    assert "CAT-E1" in claims
    assert "](" not in claims, "a link to a document that is not there"


def test_every_scenario_reads_and_has_its_own_id() -> None:
    scenarios = [Scenario.load(path) for path in paths.scenario_files()]
    ids = [scenario.id for scenario in scenarios]
    assert ids
    assert len(set(ids)) == len(ids)


def test_an_outline_says_what_the_whole_scenario_says() -> None:
    for one in paths.outlines():
        scenario = Scenario.load(one.path)
        assert (one.id, one.title, one.seeds, one.variants) == (
            scenario.id,
            scenario.title,
            scenario.seeds,
            scenario.variants,
        )
