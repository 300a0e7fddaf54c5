#!/usr/bin/env python3
"""Comparison of the published verdicts with those on other seeds, which rewrites validation/second-set.md.

    tools/second_set.py [--run [--seed 2001]] [PAPER...]

Compares validation/PAPER.json with validation/second/PAPER.json. With --run, first measures the latter at
full length; build/second/PAPER keeps the finished steps. A row that is reproduced with one set of seeds and
not reproduced with the other is unstable.
"""

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from catnip.analysis.claims import Claim
from catnip.cli.options import CLAIM_FAILED
from catnip.papers import runner
from catnip.report import values

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "validation" / "second-set.md"
SIMULATED = ("catnip", "hysteresis", "diffserv", "newcwv", "today")
"""Papers whose results follow from their seeds; the others measure this machine's kernel and clock."""
TEXT = (
    "# The verdicts on other seeds",
    "",
    "The published results have seeds from 1001 on, each used for the first time. After they were committed,",
    "the papers in the table ran once more with seeds from 2001 on. A row is *unstable* if it is reproduced",
    "in one set and not reproduced in the other. A row that is undecided in one of them has an interval that",
    "the edge of its band divides. No seed was run again for its verdict. Rows whose experiment has changed",
    "since then are left out.",
)
KINDS = ("same", "settled", "unstable")
DECIDED = {"reproduced", "not reproduced"}


def main() -> int:
    """Measures the second set if asked to, and writes the page; returns an exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", action="store_true", help="measure the second set")
    parser.add_argument("--seed", type=int, default=2001, help="its first seed (default: %(default)s)")
    parser.add_argument(
        "papers", nargs="*", metavar="PAPER", help=f"of {', '.join(SIMULATED)} (default: all)"
    )
    arguments = parser.parse_args()
    for paper in arguments.papers:
        if paper not in SIMULATED:
            parser.error(f"{paper} is not one of {', '.join(SIMULATED)}")
    for paper in arguments.papers or SIMULATED if arguments.run else ():
        stored = f"--values=validation/second/{paper}.json"
        options = [f"--seed={arguments.seed}", f"--out=build/second/{paper}", stored]
        done = subprocess.run(
            [sys.executable, "-m", "catnip", "reproduce", paper, *options], cwd=ROOT, check=False
        )
        if done.returncode not in {0, CLAIM_FAILED}:
            return done.returncode
    PAGE.write_text(page(), encoding="utf-8")
    return 0


def page() -> str:
    """Returns the page with all rows whose verdicts differ."""
    rows: list[list[str]] = []
    changed: list[list[str]] = []
    sums: Counter[str] = Counter()
    for paper in SIMULATED:
        both = _pairs(paper)
        counts = Counter(_kind(*pair) for pair in both)
        sums += counts
        rows.append([f"[{paper}]({paper}.md)", *(str(counts[kind]) for kind in KINDS)])
        changed += [_row(one, other) for one, other in both if _kind(one, other) not in ("same", "reported")]
    total = ["all", *(str(sums[kind]) for kind in KINDS)]
    text = "\n".join(TEXT) + "\n\n"
    text += _table(["results", "same verdict", "undecided in one", "unstable"], [*rows, total])
    text += "\n## Rows whose verdict differs\n\n"
    head = ["row", "band", "seeds from 1001", "verdict", "seeds from 2001", "verdict"]
    return text + _table(head, changed)


def _pairs(paper: str) -> list[tuple[Claim, Claim]]:
    """Returns the claims of a paper that both sets have measured."""
    folders = (ROOT / "validation", ROOT / "validation" / "second")
    ours, other = (
        {one.id: one for one in runner.judge(paper, values.read(folder / f"{paper}.json", paper)).claims}
        for folder in folders
    )
    return [(one, other[id]) for id, one in ours.items() if id in other]


def _kind(one: Claim, other: Claim) -> str:
    if one.verdict == "reported":
        return "reported"
    if one.verdict == other.verdict:
        return "same"
    return "unstable" if {one.verdict, other.verdict} == DECIDED else "settled"


def _row(one: Claim, other: Claim) -> list[str]:
    sides = [text for side in (one, other) for text in (side.ours_shown(), side.verdict)]
    mark = " **unstable**" if _kind(one, other) == "unstable" else ""
    return [f"{one.id}{mark}", one.band, *sides]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
