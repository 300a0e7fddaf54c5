"""Runs of a report that its reader repeats in a browser: the report holds them, and the simulator."""

import base64
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from catnip import _core
from catnip._core import InputError, Scenario
from catnip.analysis.interval import Interval
from catnip.analysis.summary import BUSY, Summary
from catnip.base import paths
from catnip.report import explorer
from catnip.report.model import Again

SCRIPT = paths.PACKAGE / "check.js"
"""Script of the page that `make page` builds; a wheel has it."""
LARGEST_BYTES = 1 << 20
"""Largest size of a scenario with its files that a report holds."""


def again(
    scenario: Scenario, seeds: Sequence[int], summaries: Mapping[str, Summary], is_embedded: bool
) -> Again | None:
    """Returns what a report needs to repeat its runs; None if this installation has no page to do so.

    Files of a scenario of one's own may be private: they go in only if `is_embedded`.
    """
    if not (SCRIPT.exists() and explorer.PAGE.exists()):
        return None
    path, text, changes, files = scenario.bundle()
    size = len(text) + sum(map(len, files.values()))
    own = [] if explorer.is_bundled(scenario) else sorted(files)
    if own and not is_embedded:
        return Again(f"it needs {', '.join(own)}, which --embed puts into the report")
    if size > LARGEST_BYTES:
        return Again(
            f"the scenario and its files have {size >> 10} KB, and a report holds {LARGEST_BYTES >> 10}"
        )
    if not _is_repeatable(seeds, summaries):
        return Again("seeds and intervals follow a rule by which the runs ended")
    try:
        prints = _core.fingerprints(scenario, list(summaries), seeds[0])
    except InputError:
        return Again("its hosts are real")
    held = {
        "path": path,
        "text": text,
        "set": changes,
        "files": {name: base64.b64encode(contents).decode() for name, contents in files.items()},
        "first": seeds[0],
        "seeds": len(seeds),
        "variants": {
            name: {"fingerprint": f"{prints[name]:016x}", "groups": _groups(summary)}
            for name, summary in summaries.items()
        },
    }
    return Again(
        files=own,
        runs=_packed(json.dumps(held)),
        explorer=_packed(explorer.page_of(None)),
        state=explorer.state_of(scenario, list(summaries), changes, seeds[0]),
        script=SCRIPT.read_text(encoding="utf-8"),
    )


def _is_repeatable(seeds: Sequence[int], summaries: Mapping[str, Summary]) -> bool:
    """Returns true if all variants have all seeds, which ascend one by one, and usual intervals."""
    groups = [group for summary in summaries.values() for group in summary.groups.values()]
    is_usual = all(group.confidence == 0.95 and group.seeds in (0, len(seeds)) for group in groups)
    return is_usual and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))


def _groups(summary: Summary) -> dict[str, dict[str, Any]]:
    return {
        name: {measure: _interval(of) for measure, of in group.means.items() if measure != BUSY}
        for name, group in summary.groups.items()
    }


def _interval(of: Interval) -> list[float | int | None]:
    return [value if math.isfinite(value) else None for value in (of.mean, of.low, of.high)] + [of.n]


def _packed(text: str) -> str:
    # Without a time, so that the same runs make the same report.
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
