"""Test of the comparison of page times with a browser: the cell of a quick run, with two loads."""

import json
import math
from pathlib import Path

import pytest

from catnip.base.programs import cannot_emulate
from catnip.base.progress import Progress
from catnip.cli.options import CLAIM_FAILED
from catnip.papers import parts
from catnip.papers.pages import runs
from catnip.papers.pages.cells import QUICK
from catnip.papers.pages.runs import PageRuns
from catnip.papers.unavailable import Unavailable
from catnip.web import chromium
from conftest import Run

LOADS = 2


def test_who_has_no_browser_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "find", lambda _: None)
    with pytest.raises(Unavailable, match="chromium: not installed"):
        PageRuns(True, None, 1, Progress(quiet=True)).measured(QUICK)


def test_a_quick_run_loads_whole_pages_and_is_judged_beside_a_simulation(catnip: Run, tmp_path: Path) -> None:
    if missing := cannot_emulate() or (None if chromium.find("chromium") else "chromium is not installed"):
        pytest.skip(missing)
    # A busy machine makes loads red, which would be repeated.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "TRIES", 1)
        options = ("--quick", "--seeds", LOADS, "--out", tmp_path / "parts")
        ended = catnip("reproduce", "pages", *options, "--values", tmp_path / "values.json", "--json")
        again = catnip("reproduce", "pages", "--judge", "--values", tmp_path / "values.json", "--json")
    assert ended.code in (0, CLAIM_FAILED), ended.err
    claims = {claim["id"]: claim for claim in map(json.loads, ended.out.splitlines())}
    assert set(claims) == {
        "PAG-E1.ratio.60-2-lte",
        "PAG-E1.median_s.60-2-lte-Chromium",
        "PAG-E1.median_s.60-2-lte-ours",
        "PAG-S1.missing_objects",
        "PAG-S1.failed",
        "PAG-S1.red_certificates",
        "PAG-S1.repeated",
    }
    assert math.isfinite(claims["PAG-E1.ratio.60-2-lte"]["ours"])
    assert claims["PAG-E1.ratio.60-2-lte"]["band"] == "0.9 to 1.1"
    assert [claims[f"PAG-S1.{which}"]["ours"] for which in ("missing_objects", "failed")] == ["0", "0"]
    assert [json.loads(line)["verdict"] for line in again.out.splitlines()] == [
        claim["verdict"] for claim in claims.values()
    ]

    page = tmp_path / "parts" / f"{QUICK.site.name}.page.json"
    written = json.loads(page.read_text(encoding="utf-8"))
    assert (len(written["origins"]), len(written["pages"][0]["objects"])) == (8, QUICK.objects)
    # What has ended is not measured again, and the page file gives the same simulated times.
    asked = {"paper": "pages", "quick": True, "seeds": LOADS, "seed": 1}
    stored = PageRuns(True, LOADS, 1, Progress(quiet=True), parts=parts.opened(tmp_path / "parts", asked))
    assert stored.measured(QUICK).objects == [QUICK.objects] * LOADS
    simulated = runs.simulated(QUICK, page.read_text(encoding="utf-8"), range(1, 4 * LOADS + 1))
    assert list(stored.simulated(QUICK)) == list(simulated)
