"""Tests that short runs of the papers' scenarios reproduce values of the committed results."""

from pathlib import Path

import pytest

from catnip.base.progress import Progress
from catnip.papers import runner
from catnip.papers.runner import Request
from catnip.papers.testbed import latency
from catnip.papers.testbed.runs import FetchRuns
from catnip.report import values
from published import published

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("name", "seeds", "experiments"),
    [
        ("catnip", None, ["CAT-S2", "CAT-S3", "CAT-S5", "CAT-S17", "CAT-E1", "CAT-E2", "CAT-E11"]),
        ("diffserv", None, ["IDS-S2", "IDS-S4", "IDS-S12", "IDS-S17"]),
        ("hysteresis", 1000, ["HYS-S3", "HYS-S5", "HYS-S7", "HYS-S10", "HYS-S11", "HYS-S12", "HYS-E3"]),
        (
            "newcwv",
            None,
            ["CWV-S1", "CWV-S2", "CWV-S4", "CWV-S7", "CWV-E2", "CWV-E5", "CWV-E12", "CWV-E13"],
        ),
        ("testbed", None, ["TB-S6", "TB-S10", "TB-S11", "TB-S12", "TB-S13", "TB-E1"]),
        ("today", None, ["TDY-S1"]),
    ],
)
def test_a_short_run_gives_the_values_of_the_published_table(
    name: str, seeds: int | None, experiments: list[str]
) -> None:
    shown = {claim.id: claim.ours_shown() for claim in published(name)}
    first_seed = values.read(ROOT / "validation" / f"{name}.json", name).seeds[0]
    with Progress(quiet=True) as progress:
        again = runner.reproduce(Request(name, experiments, False, seeds, first_seed), progress)
    assert len(again.claims) >= 3
    for claim in again.claims:
        assert shown[claim.id] == claim.ours_shown(), claim.id


def test_the_simulated_kernel_of_the_testbed_meets_the_delays_and_losses_of_the_link_under_load() -> None:
    with Progress(quiet=True) as progress:
        runs = FetchRuns(False, None, 1, progress)
        links = latency.cases(runs, "load", latency.LINUX_20)
        # The idle link is not simulated.
        states = latency.states(runs)[1:]
    for state, link in zip(states, links, strict=True):
        of_state = (100 * state.load, state.delay_s.mean, state.loss.mean)
        assert (link.x, link.delay_s, link.loss) == pytest.approx(of_state, abs=6e-5)
