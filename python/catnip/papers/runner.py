"""Evaluation of the claims of a paper, common to all papers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol, cast

from catnip.analysis import claims
from catnip.analysis.claims import Claim
from catnip.analysis.interval import Interval
from catnip.base.progress import Progress
from catnip.papers import reference, statement
from catnip.papers.quantity import Quantities
from catnip.papers.statement import Claims, Computed, Printed, Row, Statement, Words
from catnip.report.model import Figure, Reproduction, Table

PAPERS = ("catnip", "diffserv", "hysteresis", "linux", "linux-tcp", "newcwv", "testbed", "today")


class Paper(Protocol):
    """Interface of a paper's Python package, whose quantities take the object that `start` returns."""

    __file__: str
    MEASURED: Quantities
    PRINTED: Quantities
    FIGURES: Mapping[str, Callable[[Any], Figure]]
    LIVE: Collection[str]
    """Quantities measured with this machine's kernel and clock, which no seed reproduces."""

    def start(self, quick: bool, seeds: int | None, first_seed: int, progress: Progress) -> Any:
        """Returns the first argument of the quantities; `quick` takes fewer seeds if `seeds` is None."""
        ...

    def headline(self, runs: Any) -> str:
        """Returns the main result in two sentences."""
        ...

    def tables(self, runs: Any) -> Sequence[Table]:
        """Returns the tables of the report."""
        ...

    def seeds(self, runs: Any) -> Sequence[int]:
        """Returns the seeds of the longest experiment."""
        ...


def paper(name: str) -> Paper:
    """Imports the package of a paper, on demand because it loads the plotting library, which is slow."""
    return cast(Paper, import_module(f"catnip.papers.{_folder(name)}"))


def data(name: str) -> Claims:
    """Returns the claims of a paper as data."""
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
    module = paper(name)
    stated = data(name)
    runs = module.start(quick, seeds, first_seed, progress)
    everything = chosen is None
    ids = list(stated.experiments) if chosen is None else chosen
    judged = Judge(module, runs)
    asked = [one for one in stated.statements if one.id in ids]
    verdicts = [judged.claim(one) for one in asked]
    drawn = {figure: id for id in reversed(ids) for figure in reversed(stated.figures.get(id, ()))}
    return Reproduction(
        title=stated.title,
        headline=module.headline(runs) if everything else f"Only {', '.join(ids)}.",
        claims=verdicts,
        figures=[_drawn(module, runs, figure, id) for figure, id in reversed(drawn.items())],
        tables=module.tables(runs) if everything else [],
        seeds=module.seeds(runs),
        experiments={id: stated.experiments[id] for id in ids},
        is_repeatable=not any(one.ours.quantity in module.LIVE for one in asked),
    )


def _drawn(module: Paper, runs: Any, figure: str, experiment: str) -> Figure:
    """Returns a figure with the first experiment that draws it, and its seeds."""
    runs.sample = 1
    made = module.FIGURES[figure](runs)
    return replace(made, experiment=experiment, seeds=module.seeds(runs)[: runs.sample])


class Judge:
    """Evaluator of statements, which computes each quantity once."""

    def __init__(self, module: Paper, runs: Any) -> None:
        self._module, self._runs = module, runs
        self._known: dict[str, tuple[Any, int]] = {}

    def claim(self, stated: Statement) -> Claim:
        """Computes the value of a statement and returns its claim with the verdict."""
        ours, sample = self._measured(stated.ours)
        made = judge(stated, ours, printed(self._module, stated.paper), printed(self._module, stated.oracle))
        return made if isinstance(ours, Interval) else replace(made, seeds=sample)

    def _measured(self, asked: Computed) -> tuple[Any, int]:
        key = f"{asked.quantity} {sorted(asked.arguments.items())}"
        if key not in self._known:
            self._runs.sample = 1
            value = self._module.MEASURED[asked.quantity](self._runs, **asked.arguments)
            self._known[key] = value, self._runs.sample
        value, sample = self._known[key]
        return value, sample


def printed(module: Paper, source: Printed) -> Any:
    """Returns the value of paper or oracle for a claim: computed, of a reference row, or a quotation."""
    match source:
        case Computed(quantity, arguments):
            return module.PRINTED[quantity](**arguments)
        case Row(id):
            return reference.published(id)
        case Words(text, _):
            return text
    return None


def judge(stated: Statement, ours: Any, paper: Any, oracle: Any) -> Claim:
    """Returns a claim with the verdict that follows from our value, its band, and paper and oracle."""
    if stated.by_mean and isinstance(ours, Interval):
        made = judge(stated, ours.mean, paper, oracle)
        return replace(made, low=ours.low, high=ours.high, seeds=ours.n)
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
    return claims.within(id, says, ours, *_near(bound, beside), **beside)


def _near(bound: Mapping[str, Any], beside: claims.Beside) -> tuple[float, float]:
    """Returns the band around another value: a share of it, a distance from it, or a factor either way."""
    centre = beside["oracle"] if bound["of"] == "oracle" else beside["paper"]
    assert isinstance(centre, float | int)
    if "factor" in bound:
        return centre / bound["factor"], centre * bound["factor"]
    reach = max(bound.get("points", 0), abs(centre) * bound.get("percent", 0) / 100)
    return max(centre - reach, bound.get("least", -float("inf"))), centre + reach
