"""Tests of the regions in which models can be trusted, against all compared points."""

import json

from pytest import approx

from catnip.modelling import accuracy
from catnip.modelling.accuracy import Point
from conftest import Run


def test_stored_errors_are_those_of_the_models_against_the_stored_means() -> None:
    for one in accuracy.points():
        computed = Point.of(one.simulated, one.case, one.mean)
        assert computed.errors == approx(one.errors, abs=1e-4), one.case


def test_a_sweep_marks_what_cannot_be_trusted(catnip: Run) -> None:
    arguments = ("model", "--sweep", "loss=0%:30%", "--packets", 20_000, "--trials", 0)
    out = catnip(*arguments).out
    marked = {line.split()[0]: line for line in out.splitlines() if line.strip()[:1].isdigit()}
    assert "!" in marked["3.75"] and "?" not in marked["3.75"]
    assert "?" in marked["30"] and "!" not in marked["30"]
    assert "? not compared with simulations of such transfers: " in out
    trusted = json.loads(catnip(*arguments, "--json").out)["trusted"]
    assert trusted["hysteresis"][0] and not trusted["hysteresis"][-1]
