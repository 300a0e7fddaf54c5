"""Evaluation of the claims of a paper, with code common to all papers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from catnip.analysis import claims
from catnip.analysis.claims import Claim
from catnip.analysis.interval import Interval
from catnip.base.progress import Progress
from catnip.papers import reference, statement
from catnip.papers.statement import Claims, Computed, Printed, Quotation, Row, Statement
from catnip.report.model import Figure, Reproduction

if TYPE_CHECKING:
    from catnip.papers.paper import Paper
    from catnip.papers.runs import Runs

PAPERS = ("catnip", "diffserv", "hysteresis", "linux", "linux-tcp", "newcwv", "testbed", "today")


def load(name: str) -> "Paper":
    """Imports and returns the package of a paper, on demand because it loads the slow plotting library."""
    paper: Paper = import_module(f"catnip.papers.{_folder(name)}").PAPER
    return paper


def data(name: str) -> Claims:
    """Returns the claims of a paper as read from its `claims.toml`."""
    return statement.read(Path(__file__).parent / _folder(name) / "claims.toml")


def _folder(name: str) -> str:
    return name.replace("-", "_")


def experiments(name: str) -> Mapping[str, str]:
    """Returns the purpose of each experiment of a paper, by id."""
    return data(name).experiments


def reproduce(
    name: str,
    chosen: Sequence[str] | None,
    quick: bool,
    seeds: int | None,
    first_seed: int,
    progress: Progress,
) -> Reproduction:
    """Evaluates the claims of the chosen experiments, all by default, and draws their figures."""
    paper = load(name)
    stated = data(name)
    runs = paper.runs(quick, seeds, first_seed, progress)
    everything = chosen is None
    ids = list(stated.experiments) if chosen is None else chosen
    evaluator = Evaluator(paper, runs)
    selected = [one for one in stated.statements if one.id in ids]
    verdicts = [evaluator.claim(one) for one in selected]
    drawn = {figure: id for id in reversed(ids) for figure in reversed(stated.figures.get(id, ()))}
    return Reproduction(
        title=stated.title,
        headline=paper.headline(runs) if everything else f"Only {', '.join(ids)}.",
        claims=verdicts,
        figures=[_drawn(paper, runs, figure, id) for figure, id in reversed(drawn.items())],
        tables=paper.tables(runs) if everything else [],
        seeds=paper.seeds(runs),
        experiments={id: stated.experiments[id] for id in ids},
        is_repeatable=not any(one.ours.quantity in paper.live for one in selected),
    )


def _drawn(paper: "Paper", runs: "Runs", figure: str, experiment: str) -> Figure:
    """Returns a drawn figure with its seeds and `experiment`, the first experiment that draws it."""
    runs.sample = 1
    drawn = paper.figure(figure)(runs)
    return replace(drawn, experiment=experiment, seeds=paper.seeds(runs)[: runs.sample])


class Evaluator:
    """Evaluator of a paper's statements, which computes each quantity only once."""

    def __init__(self, paper: "Paper", runs: "Runs") -> None:
        self._paper, self._runs = paper, runs
        self._known: dict[str, tuple[Any, int]] = {}

    def claim(self, stated: Statement) -> Claim:
        """Computes our value of a statement, compares it, and returns the claim with the verdict."""
        ours, sample = self._measured(stated.ours)
        evaluated = evaluate(
            stated, ours, printed(self._paper, stated.paper), printed(self._paper, stated.oracle)
        )
        return evaluated if isinstance(ours, Interval) else replace(evaluated, seeds=sample)

    def _measured(self, computed: Computed) -> tuple[Any, int]:
        key = f"{computed.quantity} {sorted(computed.arguments.items())}"
        if key not in self._known:
            self._runs.sample = 1
            value = self._paper.measured[computed.quantity](self._runs, **computed.arguments)
            self._known[key] = value, self._runs.sample
        value, sample = self._known[key]
        return value, sample


def printed(paper: "Paper", source: Printed) -> Any:
    """Returns the paper's or oracle's value for a claim: computed, from a reference row, or quoted."""
    match source:
        case Computed(quantity, arguments):
            return paper.printed[quantity](**arguments)
        case Row(id):
            return reference.published(id)
        case Quotation(text, _):
            return text
    return None


def evaluate(stated: Statement, ours: Any, paper: Any, oracle: Any) -> Claim:
    """Returns the claim of a statement, with the verdict on our value; `paper` and `oracle` are values."""
    if stated.by_mean and isinstance(ours, Interval):
        claim = evaluate(stated, ours.mean, paper, oracle)
        return replace(claim, low=ours.low, high=ours.high, seeds=ours.n)
    several = isinstance(oracle, Sequence) and not isinstance(oracle, str)
    beside = claims.Beside(paper=paper, oracle=fmean(oracle) if several else oracle)
    if stated.deviation:
        beside |= {"note": stated.deviation, "explains": stated.explains}
    id, says, bound = stated.id, stated.says, stated.bound
    match stated.band:
        case "":
            return claims.reported(id, says, ours, **beside)
        case "equals":
            return claims.exactly(id, says, str(ours), str(bound), **beside)
        case "at_most":
            return claims.at_most(id, says, ours, bound, **beside)
        case "at_least":
            return claims.at_least(id, says, ours, bound, **beside)
        case "within":
            return claims.within(id, says, ours, *bound, **beside)
        case "oracle_range":
            return claims.within(id, says, ours, min(oracle), max(oracle), **beside)
    return claims.within(id, says, ours, *_band_around(bound, beside), **beside)


def _band_around(bound: Mapping[str, Any], beside: claims.Beside) -> tuple[float, float]:
    """Returns the ends of a band around the paper's or oracle's value, which `bound` specifies.

    The band is a percentage of the value, a distance from it, or a factor either way.
    """
    centre = beside["oracle"] if bound["of"] == "oracle" else beside["paper"]
    assert isinstance(centre, float | int)
    if "factor" in bound:
        return centre / bound["factor"], centre * bound["factor"]
    reach = max(bound.get("points", 0), abs(centre) * bound.get("percent", 0) / 100)
    return max(centre - reach, bound.get("least", -float("inf"))), centre + reach
