"""The checkout is found from anywhere, or its absence is explained."""

from pathlib import Path

import pytest

from catnip import InputError, paths

CHECKOUT = Path(__file__).resolve().parent.parent


def test_found_around_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CATNIP_ROOT", raising=False)
    monkeypatch.chdir(CHECKOUT / "tests")
    assert paths.root() == CHECKOUT


def test_found_around_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CATNIP_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    assert paths.root() == CHECKOUT


def test_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "validation" / "reference").mkdir(parents=True)
    monkeypatch.setenv("CATNIP_ROOT", str(tmp_path))
    assert paths.reference() == tmp_path / "validation" / "reference"
    assert {Path(one.path).parents[2] for one in paths.scenarios()} == {paths.PAPERS}


def test_a_wrong_name_is_bad_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CATNIP_ROOT", str(tmp_path))
    with pytest.raises(InputError, match="CATNIP_ROOT: "):
        paths.root()


def test_every_scenario_reads_and_has_its_own_id() -> None:
    ids = [scenario.id for scenario in paths.scenarios()]
    assert ids
    assert len(set(ids)) == len(ids)
