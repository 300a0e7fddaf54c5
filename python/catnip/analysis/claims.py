"""Claims: published statements with our values, acceptance bands and verdicts."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from rich.table import Table
from rich.text import Text

from catnip.analysis.interval import Interval
from catnip.analysis.verdicts import VERDICTS, Band, Exactly, Measured, Verdict

Value: TypeAlias = float | str | None

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
COLUMNS = ("id", "claim", "paper", "ns-2", "ours [95 %]", "ours/paper", "n", "band", "source", "verdict")
COLOURS: dict[Verdict, str] = {
    "reproduced": "green",
    "not reproduced": "red",
    "undecided": "yellow",
    "reported": "blue",
}


@dataclass(frozen=True)
class Claim:
    """Published statement with the values of the paper, of an oracle and of this simulator, and its verdict.

    `oracle` is the value of ns-2 or of theory. `source` is where the band comes from. `note` is the anchor of
    the section in docs/deviations.md about a value that is not reproduced. `explained_by` is the id of the
    claim that explains it: an experiment that changes one factor, or an oracle that does the same.
    """

    id: str
    claim: str
    ours: Value
    low: float | None
    high: float | None
    band: str
    verdict: Verdict
    seeds: int
    paper: Value = None
    oracle: Value = None
    source: str = ""
    seeds_to_decide: int | None = None
    note: str = ""
    explained_by: str = ""

    @property
    def experiment(self) -> str:
        """Id of the experiment or component to which the claim belongs."""
        return self.id.partition(".")[0]

    @property
    def anchor(self) -> str:
        """Anchor of the claim in a report, computed from its id only."""
        return f"{self.experiment}-{hashlib.sha256(self.id.encode()).hexdigest()[:6]}"

    @property
    def over_paper(self) -> float | None:
        """Ratio of our value to the paper's; None unless both are numbers, and the paper's is not zero."""
        both = isinstance(self.ours, float | int) and isinstance(self.paper, float | int)
        return self.ours / self.paper if both and self.paper else None  # type: ignore[operator]

    @property
    def judgement(self) -> str:
        """Verdict in words, with what else is known of it."""
        if self.verdict == "not reproduced":
            return f"{self.verdict}, {'explained' if self.explained_by else 'unexplained'}"
        if self.verdict == "undecided" and self.seeds > 1:
            needed = "very many" if self.seeds_to_decide is None else f"about {self.seeds_to_decide}"
            return f"{self.verdict}: needs {needed} seeds"
        return self.verdict

    def as_json(self) -> dict[str, Any]:
        """Returns the fields as values that JSON can represent, with `over_paper`."""
        fields = {key: _finite(value) for key, value in asdict(self).items()}
        return fields | {"over_paper": self.over_paper}

    def cells(self) -> tuple[str, ...]:
        """Returns the table cells of the claim as text, one for each of `COLUMNS`."""
        others = (show(self.paper), show(self.oracle))
        ratio = "" if self.over_paper is None else show(self.over_paper)
        ours = (self.ours_shown(), ratio, str(self.seeds))
        return (self.id, self.claim, *others, *ours, self.band, self.source, self.judgement)

    def ours_shown(self) -> str:
        """Returns the value of this simulator as text, with its interval if it has one."""
        if self.low is None or self.high is None:
            return show(self.ours)
        return _bracketed(self.ours, self.low, self.high)


def judged(id: str, claim: str, ours: Measured, band: Band | Exactly | None, **more: Any) -> Claim:
    """Returns a claim with the verdict on our value, `reported` without a band.

    `more` are other fields of the claim. A note and an explanation are kept only where the value is not
    reproduced, a note also where it is undecided.
    """
    verdict: Verdict = band.verdict(ours) if band else "reported"
    low, high, seeds = (ours.low, ours.high, ours.n) if isinstance(ours, Interval) else (None, None, 1)
    one = Claim(
        id=id,
        claim=claim,
        ours=ours.mean if isinstance(ours, Interval) else ours,
        low=_finite(low),
        high=_finite(high),
        band=band_shown(band),
        verdict=verdict,
        seeds=seeds,
        **more,
    )
    if verdict == "undecided" and isinstance(ours, Interval) and isinstance(band, Band):
        one = replace(one, seeds_to_decide=band.seeds_to_decide(ours))
    return replace(
        one,
        note=one.note if verdict in ("not reproduced", "undecided") else "",
        explained_by=one.explained_by if verdict == "not reproduced" else "",
    )


def explained(claims: Sequence[Claim], known: Iterable[Claim] = ()) -> list[Claim]:
    """Returns the claims without those explanations whose claim is not reproduced, or not among all.

    `known` are claims to which explanations may refer besides those in `claims`.
    """
    holds = {claim.id for claim in (*known, *claims) if claim.verdict == "reproduced"}
    return [claim if claim.explained_by in holds else replace(claim, explained_by="") for claim in claims]


def unexplained(claims: Iterable[Claim]) -> list[Claim]:
    """Returns the claims that are not reproduced and that no other claim explains."""
    return [claim for claim in claims if claim.verdict == "not reproduced" and not claim.explained_by]


def tally(claims: Iterable[Claim]) -> dict[Verdict, int]:
    """Returns the number of claims with each verdict, those that occur."""
    counts = Counter(claim.verdict for claim in claims)
    return {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}


def summary(claims: Sequence[Claim]) -> str:
    """Returns the number of claims with each verdict in words."""
    parts = [f"{verdict} {count}" for verdict, count in tally(claims).items()]
    missed = [claim for claim in claims if claim.verdict == "not reproduced"]
    known = len(missed) - len(unexplained(claims))
    return ", ".join(
        f"{part} of which {known} explained" if part.startswith("not ") else part for part in parts
    )


def table(claims: Sequence[Claim]) -> Table:
    """Returns the claims as a table for a terminal, without the sources of the bands."""
    *columns, _, last = COLUMNS
    shown = Table(*columns, last, header_style="bold", pad_edge=False)
    for claim in claims:
        *cells, _, verdict = claim.cells()
        shown.add_row(*map(Text, cells), Text(verdict, style=COLOURS[claim.verdict]))
    return shown


def markdown(claims: Sequence[Claim], deviations: str | None) -> str:
    """Returns the claims as a Markdown table; `deviations` is the path to docs/deviations.md, if any."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    for claim in claims:
        *cells, verdict = (cell.replace("|", "\\|") for cell in claim.cells())
        linked = f"[{verdict}]({deviations}#{claim.note})" if claim.note and deviations else verdict
        by = f" by {claim.explained_by}" if claim.explained_by else ""
        rows.append((*cells, linked + by))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def band_shown(band: Band | Exactly | None) -> str:
    """Returns a band as text."""
    match band:
        case None:
            return "none"
        case Exactly(text):
            return text
        case Band(low, high) if low == -math.inf:
            return f"≤ {show(high)}"
        case Band(low, high) if high == math.inf:
            return f"≥ {show(low)}"
        case Band(low, high):
            return f"{show(low)} to {show(high)}"


def show(value: Value) -> str:
    """Formats a value with three significant digits; a value below 1e-4 as a multiple of a power of ten."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    if abs(value) < 1e-4:
        digit, exponent = f"{value:.0e}".split("e")
        return f"{digit}×10{str(int(exponent)).translate(RAISED)}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    shown = f"{value:.{decimals}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def show_interval(value: Interval) -> str:
    """Formats a mean with its interval in brackets."""
    return _bracketed(value.mean, value.low, value.high)


def _bracketed(middle: Value, low: float, high: float) -> str:
    return f"{show(middle)} [{show(low)}, {show(high)}]"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
