"""Measured values of a paper's claims, with all digits, in a file from which they can be judged again."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from catnip._core import InputError
from catnip.analysis import stopping
from catnip.analysis.interval import Interval
from catnip.analysis.verdicts import Measured
from catnip.base import files
from catnip.base.ranges import runs_of
from catnip.report.model import Figure, Table

THIS, VIRTUAL = "this", "virtual"
"""Kernels that can be asked for: that of this machine, and one in virtual time."""


@dataclass(frozen=True)
class Value:
    """Value of a claim, and the number of seeds or measurements on which it rests."""

    ours: Measured
    seeds: int

    def widened(self) -> "Value":
        """Returns the value with the confidence of one of several looks."""
        return replace(self, ours=stopping.widened(self.ours)) if isinstance(self.ours, Interval) else self

    def as_json(self) -> dict[str, Any]:
        """Returns the value as JSON: `ours`, `seeds` and, for an interval, `low` and `high`."""
        if not isinstance(self.ours, Interval):
            return {"ours": _finite(self.ours), "seeds": self.seeds}
        mean, low, high = (_finite(one) for one in (self.ours.mean, self.ours.low, self.ours.high))
        return {"ours": mean, "low": low, "high": high, "seeds": self.seeds}

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> "Value":
        """Returns the value whose JSON is `document`; what is null there is not a number."""
        ours, seeds = _number(document["ours"]), int(document["seeds"])
        if "low" not in document:
            return cls(ours, seeds)
        low, high = (float(_number(document[key])) for key in ("low", "high"))
        return cls(Interval(float(ours), low, high, seeds), seeds)


@dataclass(frozen=True)
class Values:
    """Values of the claims of a paper by the claims' ids, with the headline and the tables of its report."""

    paper: str
    made: str
    """Version and commit of CATNIP that measured the values last."""
    seeds: Sequence[int]
    """Seeds of the experiment with the most seeds."""
    headline: str = ""
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    """Figures of the report. A file of values does not have the drawings, only what is said of them."""
    of: Mapping[str, Value] = field(default_factory=dict)
    kernel: str = THIS
    """Kernel that measured the values."""

    def with_new(self, new: "Values", experiments: Sequence[str]) -> "Values":
        """Returns these values with those of some experiments replaced by `new`.

        So are the figures and tables that `new` has, and the headline if it has one.
        """
        kept = {id: one for id, one in self.of.items() if id.partition(".")[0] not in experiments}
        drawn = {figure.name: figure for figure in new.figures}
        figures = [drawn.pop(figure.name, figure) for figure in self.figures] + list(drawn.values())
        made = {table.title: table for table in new.tables}
        tables = [made.pop(table.title, table) for table in self.tables] + list(made.values())
        headline = new.headline or self.headline
        return replace(
            self, made=new.made, headline=headline, tables=tables, figures=figures, of={**kept, **new.of}
        )

    def without(self, experiments: Collection[str]) -> "Values":
        """Returns the values without those of some experiments and their figures."""
        kept = {id: one for id, one in self.of.items() if id.partition(".")[0] not in experiments}
        figures = [figure for figure in self.figures if figure.experiment not in experiments]
        return replace(self, figures=figures, of=kept)

    def drawn(self, folder: Path) -> "Values":
        """Returns the values, their figures with those drawings that are in `folder`, each as NAME.svg."""
        files = {figure.name: folder / f"{figure.name}.svg" for figure in self.figures}
        texts = {name: file.read_text(encoding="utf-8") for name, file in files.items() if file.is_file()}
        return replace(
            self, figures=[replace(figure, svg=texts.get(figure.name, "")) for figure in self.figures]
        )


def read(file: Path, paper: str) -> Values:
    """Reads the values of `paper` from a file that `write` has written. Raises InputError."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        stored = Values(
            paper=document["paper"],
            made=document["made"],
            seeds=_seeds(document["seeds"]),
            headline=document["headline"],
            tables=[Table(**one) for one in document["tables"]],
            figures=[Figure(**{**one, "seeds": _seeds(one["seeds"])}, svg="") for one in document["figures"]],
            of={id: Value.of_json(one) for id, one in document["values"].items()},
            kernel=document.get("kernel", THIS),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"--values: {file}: not the values of a reproduction: {error}") from None
    if stored.paper != paper:
        raise InputError(f"--values: {file}: has the values of {stored.paper}, not of {paper}")
    return stored


def write(file: Path, values: Values) -> None:
    """Writes values to a file, a line for each claim."""
    document = asdict(replace(values, of={}))
    del document["of"]
    if values.kernel == THIS:
        del document["kernel"]
    for one in (document, *document["figures"]):
        one["seeds"] = runs_of(one["seeds"])
        one.pop("svg", None)
    for table in document["tables"]:
        if not table["in_order"]:
            del table["in_order"]
    head = "".join(f"{_json(key)}: {_json(value)},\n" for key, value in document.items())
    rows = ",\n".join(f"  {_json(id)}: {_json(one.as_json())}" for id, one in values.of.items())
    files.write(file, f'{{\n{head}"values": {{\n{rows}\n}}\n}}\n')


def _seeds(ranges: Sequence[Sequence[int]]) -> list[int]:
    return [seed for first, last in ranges for seed in range(first, last + 1)]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _finite(value: Measured) -> float | str | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value  # type: ignore[return-value]


def _number(value: Any) -> Any:
    return math.nan if value is None else value
