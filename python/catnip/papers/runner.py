"""Evaluation of the claims of a paper, with code common to all papers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import groupby
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, Any

from catnip._core import InputError
from catnip.analysis import claims
from catnip.analysis.claims import Claim
from catnip.analysis.interval import Interval
from catnip.analysis.stopping import BLOCKS, Until
from catnip.analysis.verdicts import Band, Exactly
from catnip.base import provenance
from catnip.base.progress import Progress
from catnip.papers import maps, reference, statement
from catnip.papers.maps import Map, Mapped
from catnip.papers.parts import opened
from catnip.papers.statement import Claims, Computed, Printed, Quotation, Row, Sentence, Statement
from catnip.papers.unavailable import Unavailable
from catnip.report.model import Figure, Held, Reproduction
from catnip.report.values import THIS, Value, Values

if TYPE_CHECKING:
    from catnip.papers.paper import Paper, Part
    from catnip.papers.runs import Runs

PAPERS = ("catnip", "diffserv", "hysteresis", "linux", "linux-tcp", "newcwv", "pages", "testbed", "today")


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


@dataclass(frozen=True)
class Request:
    """What to reproduce: a paper, or some of its experiments, with a number of seeds and the first one."""

    paper: str
    chosen: Sequence[str] | None = None
    """Ids of the experiments; None for all."""
    quick: bool = False
    seeds: int | None = None
    first_seed: int = 1
    folder: Path | None = None
    """Folder for the results of finished steps."""
    budget_s: float = math.inf
    """Time after which no further experiment is begun, s; the first one always is."""
    until: Until | None = None
    """Rule by which seeds are added; None for the usual number."""
    kernel: str = THIS
    """Kernel that measures, one of the paper's."""

    @property
    def is_short(self) -> bool:
        """True for a quick run of a whole paper."""
        return self.quick and self.chosen is None


def check_kernel(paper: str, kernel: str) -> None:
    """Raises InputError if the experiments of a paper cannot be measured with this kernel."""
    if kernel not in load(paper).kernels:
        able = ", ".join(name for name in PAPERS if kernel in load(name).kernels)
        raise InputError(f"--kernel {kernel}: {paper} cannot be measured with it, only {able}")


def reproduce(request: Request, progress: Progress, before: Values | None = None) -> Reproduction:
    """Measures the values of the chosen experiments and returns the verdicts, figures and tables.

    `before` are the paper's values measured earlier, which the new ones replace by experiment.
    """
    paper, stated = load(request.paper), data(request.paper)
    ids = list(stated.experiments) if request.chosen is None else list(request.chosen)
    slow = {*paper.quick_without, *map(maps.experiment, stated.maps)}
    without = [id for id in ids if id in slow] if request.is_short else []
    ids = [id for id in ids if id not in without]
    chosen = [one for one in stated.statements if one.experiment in ids]
    runs, measured, missing = _measured(request, paper, chosen, progress)
    if missing and not measured:
        raise InputError(f"{request.paper}: {next(iter(missing))}")
    present = {one.experiment for one in chosen if one.id in measured}
    done = [id for id in ids if id in present]
    whole = request.chosen is None and is_whole(stated, done) and not missing
    incomplete = {one.experiment for which in missing.values() for one in which}

    def is_renewed(part: "Part[Any]") -> bool:
        return whole or (bool(part.of) and set(part.of) <= set(done) - incomplete)

    drawn = {figure: id for id in reversed(done) for figure in reversed(stated.figures.get(id, ()))}
    values = Values(
        paper=request.paper,
        made=provenance.program(),
        seeds=paper.seeds(runs),
        headline=paper.headline.make(runs) if is_renewed(paper.headline) else "",
        tables=[part.make(runs) for part in paper.tables if is_renewed(part)],
        figures=[
            *(one for figure, id in reversed(drawn.items()) for one in _drawn(paper, runs, figure, id)),
            *(_drawn_map(paper, runs, stated, one) for one in stated.maps if _has_rows(one, measured)),
        ],
        of={one.id: measured[one.id] for one in chosen if one.id in measured},
        kernel=request.kernel,
    )
    if before is not None and not whole:
        # Of an experiment that could not be measured as a whole, the former values stay.
        values = before.with_new(values.without(incomplete), [id for id in done if id not in incomplete])
    elif not values.headline:
        values = replace(values, headline=f"Only {', '.join(done)}{runs.measured_by}.")
    unavailable = {reason: [one.id for one in which] for reason, which in missing.items()}
    began = present | {one.experiment for which in missing.values() for one in which}
    return replace(
        judge(request.paper, values),
        left=[id for id in ids if id not in began],
        unavailable=unavailable,
        shortened=_shortened(request, runs, without),
    )


def _shortened(request: Request, runs: "Runs", without: Sequence[str]) -> str:
    """Returns what a quick run leaves out, as a sentence; empty for a run at full length."""
    if not request.quick:
        return ""
    seeds = "" if request.seeds else f"{runs.quick_seeds} seed{'s' * (runs.quick_seeds > 1)}"
    parts = ", ".join(filter(None, (seeds, runs.quick_says)))
    missing = f"; left out: {', '.join(without)} (--experiment runs them)" if without else ""
    return f"quick: {parts}{missing}"


def _measured(
    request: Request, paper: "Paper", chosen: Sequence[Statement], progress: Progress
) -> tuple["Runs", dict[str, Value], dict[str, list[Statement]]]:
    """Returns the runs with the first number of seeds, and the values of those statements for which time is.

    The last part are the statements that this machine cannot measure, by the reason. With a rule of stopping,
    seeds are added for the statements that are not settled yet.
    """
    asked = {
        "paper": request.paper,
        "quick": request.quick,
        "seeds": request.seeds,
        "seed": request.first_seed,
        "kernel": request.kernel,
    }
    parts = opened(request.folder, asked)
    seeds = request.quick, request.seeds, request.first_seed
    began_s = perf_counter()
    every: list[Runs] = []
    values: dict[str, Value] = {}
    settled: set[str] = set()
    missing: dict[str, list[Statement]] = {}
    for block in BLOCKS if request.until else BLOCKS[:1]:
        every.append(paper.runs(*seeds, progress, parts=parts, block=block, kernel=request.kernel))
        evaluator = Evaluator(paper, every[-1], data(request.paper))
        unsettled = (one for one in chosen if one.id not in settled)
        for _, some in groupby(unsettled, key=lambda one: one.experiment):
            if values and perf_counter() - began_s > request.budget_s:
                continue
            for one in some:
                try:
                    value = evaluator.value(one.ours)
                except Unavailable as reason:
                    missing.setdefault(str(reason), []).append(one)
                    settled.add(one.id)
                    continue
                values[one.id] = value if request.until is None else value.widened()
                if request.until is None or _is_settled(paper, one, values[one.id], request.until):
                    settled.add(one.id)
    return every[0], values, missing


def _is_settled(paper: "Paper", stated: Statement, value: Value, until: Until) -> bool:
    if not isinstance(value.ours, Interval):
        return True
    if until.share is not None:
        return until.is_narrow(value.ours)
    return claim_of(paper, stated, value).verdict != "undecided"


def judge(name: str, values: Values) -> Reproduction:
    """Returns the verdicts on stored values of a paper, without measuring anything."""
    paper, stated = load(name), data(name)
    known = [one for one in stated.statements if one.id in values.of]
    judged = claims.explained([claim_of(paper, one, values.of[one.id]) for one in known])
    present = {one.experiment for one in known}
    return Reproduction(
        title=stated.title,
        headline=values.headline,
        claims=judged,
        figures=values.figures,
        tables=values.tables,
        seeds=values.seeds,
        experiments={id: about for id, about in stated.experiments.items() if id in present},
        unmeasured=[one.id for one in stated.statements if one.id not in values.of],
        is_repeatable=not any(one.ours.quantity in paper.live for one in known),
        sentences=_held(stated.sentences, judged),
        values=values,
    )


def _held(sentences: Sequence[Sentence], judged: Sequence[Claim]) -> list[Held]:
    """Returns the sentences of which claims were judged, with the numbers of their verdicts."""
    verdicts = {one.id: one.verdict for one in judged}
    held = []
    for one in sentences:
        of = [verdicts[id] for id in one.by if id in verdicts]
        if of:
            missed, undecided = of.count("not reproduced"), of.count("undecided")
            held.append(Held(one.says, of.count("reproduced"), missed, undecided, one.where))
    return held


def _drawn(paper: "Paper", runs: "Runs", figure: str, experiment: str) -> list[Figure]:
    """Returns a drawn figure with its seeds and `experiment`, the first experiment that draws it.

    The list is empty if this machine cannot measure what the figure shows.
    """
    runs.sample = 1
    try:
        drawn = paper.figure(figure)(runs)
    except Unavailable:
        return []
    return [replace(drawn, experiment=experiment, seeds=paper.seeds(runs)[: runs.sample])]


def is_whole(stated: Claims, done: Sequence[str]) -> bool:
    """Returns true if all experiments are `done`, but for maps, which a quick run leaves out."""
    mapped = {maps.experiment(one) for one in stated.maps}
    return set(stated.experiments) - mapped <= set(done)


def _has_rows(one: Map, measured: Mapping[str, Value]) -> bool:
    """Returns true if all claims of a map were measured."""
    return all(row.id in measured for row in statement.rows_of(one))


def _drawn_map(paper: "Paper", runs: "Runs", stated: Claims, one: Map) -> Figure:
    """Returns the figure of a map: the claim's value along each factor, with its band."""
    from catnip.figures.lines import Line, Panel, panels  # noqa: PLC0415 -- slow to load

    mapped = _mapped(paper, runs, stated, one.of)
    claim = next(each for each in stated.statements if each.id == one.of)
    shown = []
    for factor in one.factors:
        cells = mapped.along(factor)
        mean, low, high = ([getattr(cell.value, end) for cell in cells] for end in ("mean", "low", "high"))
        names = list(factor.settings)
        line = Line(one.of, range(len(names)), mean, low, high, dots=True)
        band, usual = (mapped.band.low, mapped.band.high), names.index(factor.usual)
        shown.append(Panel(factor.name, "", "", [line], names, band=band, usual=usual))
    says = f"{claim.says[:1].upper()}{claim.says[1:]}"
    how = f"One factor at a time, {mapped.seeds} runs each. Shaded: the band. Dotted: as published."
    return Figure(
        name=f"map-{one.of.lower().replace('.', '-').replace('_', '-')}",
        title=f"Where it holds: {one.of}",
        caption=f"{says}. {how}",
        svg=panels(says, shown),
        experiment=maps.experiment(one),
        seeds=runs.first_seeds(mapped.seeds),
    )


def _mapped(paper: "Paper", runs: "Runs", stated: Claims, of: str) -> Mapped:
    """Returns the cells of the map of a claim."""
    claim = next(each for each in stated.statements if each.id == of)
    band = band_of(claim, printed(paper, claim.paper), printed(paper, claim.oracle))
    if not isinstance(band, Band):
        raise InputError(f"map of {of}: its band is no range")
    one = next(each for each in stated.maps if each.of == of)

    def measure(changed: "Runs") -> Any:
        return paper.measured[claim.ours.quantity](changed, **claim.ours.arguments)

    return runs.cached(("mapped", of), lambda: Mapped(one, runs, measure, band))


class Evaluator:
    """Evaluator of a paper's quantities, which computes each one only once."""

    def __init__(self, paper: "Paper", runs: "Runs", stated: Claims) -> None:
        self._paper, self._runs, self._stated = paper, runs, stated
        self._known: dict[str, Value] = {}

    def value(self, computed: Computed) -> Value:
        """Returns our value of a quantity with its sample size."""
        key = f"{computed.quantity} {sorted(computed.arguments.items())}"
        if key not in self._known:
            self._runs.sample = 1
            if computed.quantity == maps.QUANTITY:
                mapped = _mapped(self._paper, self._runs, self._stated, computed.arguments["of"])
                ours: Any = mapped.text(computed.arguments["factor"])
                self._runs.count_sample(mapped.seeds)
            else:
                ours = self._paper.measured[computed.quantity](self._runs, **computed.arguments)
            size = ours.n if isinstance(ours, Interval) else self._runs.sample
            self._known[key] = Value(ours, size)
        return self._known[key]


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


def claim_of(paper: "Paper", stated: Statement, value: Value) -> Claim:
    """Returns the claim of a statement, with the verdict on our value."""
    evaluated = evaluate(stated, value.ours, printed(paper, stated.paper), printed(paper, stated.oracle))
    return replace(evaluated, seeds=value.seeds)


def evaluate(stated: Statement, ours: Any, paper: Any, oracle: Any) -> Claim:
    """Returns the claim of a statement, with the verdict on our value; `paper` and `oracle` are values."""
    several = isinstance(oracle, Sequence) and not isinstance(oracle, str)
    shown = fmean(oracle) if several else oracle
    band = band_of(stated, paper, oracle)
    return claims.judged(
        stated.id,
        stated.says,
        str(ours) if stated.band == "equals" else ours,
        band,
        paper=paper,
        oracle=shown,
        source=stated.source,
        note=stated.note,
        explained_by=stated.explained_by,
    )


def band_of(stated: Statement, paper: Any, oracle: Any) -> Band | Exactly | None:
    """Returns the band of a statement, given the values of the paper and the oracle."""
    bound = stated.bound
    match stated.band:
        case "equals":
            return Exactly(str(bound))
        case "at_most":
            return Band(high=bound)
        case "at_least":
            return Band(low=bound)
        case "within":
            return Band(*bound)
        case "oracle_range":
            return Band(min(oracle), max(oracle))
        case "near":
            return _band_around(bound, oracle if bound["of"] == "oracle" else paper)
    return None


def _band_around(bound: Mapping[str, Any], centre: float) -> Band:
    """Returns a band around a value: a percentage of it, a distance from it, or a factor either way."""
    if "factor" in bound:
        return Band(centre / bound["factor"], centre * bound["factor"])
    reach = max(bound.get("points", 0), abs(centre) * bound.get("percent", 0) / 100)
    return Band(max(centre - reach, bound.get("least", -math.inf)), centre + reach)
