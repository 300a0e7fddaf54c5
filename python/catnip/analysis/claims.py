"""Claims: published statements with our values, acceptance bands and verdicts."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from rich.table import Table
from rich.text import Text

from catnip.analysis.interval import Interval

Value: TypeAlias = float | str | None
Verdict: TypeAlias = Literal["pass", "fail", "deviation", "reported"]

SETTLED_SEEDS = 30
"""Smallest number of seeds with which the mean alone decides whether a value is within its band.

With fewer seeds, a value misses the band only if its whole confidence interval lies outside the band.
"""

VERDICTS: tuple[Verdict, ...] = ("pass", "deviation", "fail", "reported")
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
COLUMNS = ("id", "claim", "paper", "ns-2", "ours [95 %]", "n", "band", "verdict")
COLOURS: dict[Verdict, str] = {"pass": "green", "deviation": "yellow", "fail": "red", "reported": "blue"}


@dataclass(frozen=True)
class Claim:
    """Published statement with the values of the paper, of an oracle and of this simulator, and its verdict.

    `oracle` is the value of ns-2 or of theory. `note` is the anchor of the section in docs/deviations.md that
    explains why the value misses its band.
    """

    id: str
    claim: str
    paper: Value
    oracle: Value
    ours: Value
    low: float | None
    high: float | None
    band: str
    verdict: Verdict
    seeds: int
    note: str = ""

    @property
    def anchor(self) -> str:
        """Anchor of the claim in a report, computed from its id and text only."""
        return f"{self.id}-{hashlib.sha256(self.claim.encode()).hexdigest()[:6]}"

    def as_json(self) -> dict[str, Any]:
        """Returns the fields as values that JSON can represent, without `note` if it is empty."""
        fields = {key: _finite(value) for key, value in asdict(self).items()}
        return fields if self.note else {key: fields[key] for key in fields if key != "note"}

    def cells(self) -> tuple[str, ...]:
        """Returns the table cells of the claim as text, one for each of `COLUMNS`."""
        others = (show(self.paper), show(self.oracle))
        return (self.id, self.claim, *others, self.ours_shown(), str(self.seeds), self.band, self.verdict)

    def ours_shown(self) -> str:
        """Returns the value of this simulator as text, with its interval if it has one."""
        if self.low is None or self.high is None:
            return show(self.ours)
        return _bracketed(self.ours, self.low, self.high)


class Beside(TypedDict, total=False):
    """Optional fields of a claim: values of paper and oracle; anchor and range of a documented deviation."""

    paper: Value
    oracle: Value
    note: str
    explains: Sequence[Any] | None


def within(
    id: str, claim: str, ours: Interval | float, low: float, high: float, **beside: Unpack[Beside]
) -> Claim:
    """Returns a claim that passes if the mean (with few seeds: part of the interval) is in [low, high]."""
    lowest, highest = _reach(ours)
    return _with_verdict(
        id, claim, ours, f"{show(low)} to {show(high)}", low <= highest and lowest <= high, beside
    )


def at_most(id: str, claim: str, ours: Interval | float, limit: float, **beside: Unpack[Beside]) -> Claim:
    """Returns a claim that passes if the mean (with few seeds: part of the interval) is at most `limit`."""
    return _with_verdict(id, claim, ours, f"≤ {show(limit)}", _reach(ours)[0] <= limit, beside)


def at_least(id: str, claim: str, ours: Interval | float, limit: float, **beside: Unpack[Beside]) -> Claim:
    """Returns a claim that passes if the mean (with few seeds: part of the interval) is at least `limit`."""
    return _with_verdict(id, claim, ours, f"≥ {show(limit)}", _reach(ours)[1] >= limit, beside)


def exactly(id: str, claim: str, ours: str, expected: str, **beside: Unpack[Beside]) -> Claim:
    """Returns a claim that passes if `ours` and `expected` are equal texts, such as lists of burst sizes."""
    return _with_verdict(id, claim, ours, expected, ours == expected, beside)


def reported(id: str, claim: str, ours: Interval | Value, **beside: Unpack[Beside]) -> Claim:
    """Returns a claim without an acceptance band, whose verdict is `reported`."""
    return _claim(id, claim, ours, "none", "reported", beside)


def failed(claims: Iterable[Claim]) -> list[Claim]:
    """Returns the claims whose value misses the acceptance band without a documented reason."""
    return [claim for claim in claims if claim.verdict == "fail"]


def tally(claims: Iterable[Claim]) -> dict[Verdict, int]:
    """Returns the number of claims with each verdict."""
    counts = Counter(claim.verdict for claim in claims)
    return {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}


def table(claims: Sequence[Claim]) -> Table:
    """Returns the claims as a table for a terminal."""
    shown = Table(*COLUMNS, header_style="bold", pad_edge=False)
    for claim in claims:
        *cells, verdict = claim.cells()
        shown.add_row(*map(Text, cells), Text(verdict, style=COLOURS[claim.verdict]))
    return shown


def markdown(claims: Sequence[Claim], deviations: str | None) -> str:
    """Returns the claims as a Markdown table; `deviations` is the path to docs/deviations.md, if any."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    for claim in claims:
        *cells, verdict = (cell.replace("|", "\\|") for cell in claim.cells())
        linked = f"[{verdict}]({deviations}#{claim.note})" if claim.note and deviations else verdict
        rows.append((*cells, linked))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


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


def _with_verdict(
    id: str, claim: str, ours: Interval | float | str, band: str, holds: bool, beside: Beside
) -> Claim:
    """Returns a claim with its verdict; `holds` is true if the value is within the acceptance band.

    A value outside the band is a known deviation if the note explains the value. A claim that passes has no
    note.
    """
    if holds:
        return _claim(id, claim, ours, band, "pass", {**beside, "note": ""})
    if beside.get("note") and _explained(ours, beside.get("explains")):
        return _claim(id, claim, ours, band, "deviation", beside)
    return _claim(id, claim, ours, band, "fail", {**beside, "note": ""})


def _explained(ours: Interval | float | str, explains: Sequence[Any] | None) -> bool:
    if explains is None or isinstance(ours, str):
        return explains is None or ours in explains
    value = ours.mean if isinstance(ours, Interval) else ours
    return bool(explains[0] <= value <= explains[1])


def _claim(id: str, claim: str, ours: Interval | Value, band: str, verdict: Verdict, beside: Beside) -> Claim:
    value: Value = ours.mean if isinstance(ours, Interval) else ours
    low, high, seeds = (ours.low, ours.high, ours.n) if isinstance(ours, Interval) else (None, None, 1)
    return Claim(
        id=id,
        claim=claim,
        paper=beside.get("paper"),
        oracle=beside.get("oracle"),
        ours=value,
        low=_finite(low),
        high=_finite(high),
        band=band,
        verdict=verdict,
        seeds=seeds,
        note=beside.get("note", ""),
    )


def _reach(ours: Interval | float) -> tuple[float, float]:
    """Returns the range to compare with a band: [mean, mean] or, with few seeds, the interval."""
    if not isinstance(ours, Interval):
        return ours, ours
    if ours.n >= SETTLED_SEEDS or math.isnan(ours.low):
        return ours.mean, ours.mean
    return ours.low, ours.high


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
