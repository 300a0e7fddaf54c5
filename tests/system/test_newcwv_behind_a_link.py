"""Test that a real client fetches the newCWV paper's bursts behind the emulator."""

import pytest
from pytest import approx

from catnip.base.programs import cannot_control
from catnip.base.progress import Progress
from catnip.papers.newcwv import real
from catnip.papers.newcwv.real import (
    FREE,
)
from catnip.papers.newcwv.runs import NEW_RENO
from catnip.papers.runs import Runs


@pytest.mark.alone
def test_behind_the_emulator_a_real_client_sees_what_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    if missing := cannot_control():
        pytest.skip(missing)
    monkeypatch.setattr(real, "QUICK_S", 15.0)
    monkeypatch.setattr(real, "SETTINGS", (FREE,))
    monkeypatch.setattr(real, "SYSTEMS", (NEW_RENO, real.RENO))
    runs = Runs(quick=True, seed_count=None, first_seed=1, progress=Progress(quiet=True))
    measured = real.of(runs)
    assert [(run.broken, len(run.responses["bytes"]) > 10) for run in measured.emulated] == [(0, True)] * 2
    assert real.unaccounted_packets(runs) == "0"
    assert real.responses_of_another_size(runs) == "0"
    # The first window of three segments takes one round trip with every system, unless the machine is late.
    for system in (NEW_RENO, real.RENO):
        rows = measured.run(FREE, system).responses
        assert rows["time_s"][rows["bytes"] <= 3 * 1448].min() == approx(0.2, abs=0.02)
