"""Claims as data: `claims.toml` of a paper, read into statements.

A `[[claim]]` has

- `id`, `says`: the experiment or component of the claim, and its text;
- `quantity`: a function of the paper's quantities, and `with`: its arguments;
- `paper`, `oracle`: the value of the paper, and of ns-2 or theory: the id of a row of a `*_claims.csv` or
  `*_parameters.csv`, a table `{ quantity = ..., ... }` that computes it from the reference tables, or
  `{ text = ..., at = ... }` for words of the paper;
- one band: `within = [low, high]`, `at_most`, `at_least`, `equals`, `oracle_range = true` (the oracle's own
  runs), `near = { of = "paper" or "oracle", percent | points | factor = ... }`; a claim without a band is
  only reported;
- `deviation` and `explains`: the reason, in docs/deviations.md, of a miss, and the values that it explains;
- `rows`: rows of the reference tables that the claim covers, besides that of `paper`;
- `each`: a table of lists, or a list of tables: the claim holds for each combination, and `{name}` in its
  texts is replaced.

`[excused]` gives the reasons why some rows have no claim.
"""

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from catnip._core import InputError

Arguments: TypeAlias = Mapping[str, Any]

BANDS = ("within", "at_most", "at_least", "equals", "oracle_range", "near")
KEYS = {
    "id",
    "says",
    "quantity",
    "with",
    "paper",
    "oracle",
    "deviation",
    "explains",
    "rows",
    "each",
    "by",
    *BANDS,
}


@dataclass(frozen=True)
class Computed:
    """Reference to a quantity by name, with its arguments."""

    quantity: str
    arguments: Arguments


@dataclass(frozen=True)
class Row:
    """Reference to a row of a reference table, by the row's id."""

    id: str


@dataclass(frozen=True)
class Quotation:
    """Quotation of the paper as a value, and its place in the paper."""

    text: str
    at: str


Printed: TypeAlias = Computed | Row | Quotation | None


@dataclass(frozen=True)
class Statement:
    """Claim as stated in `claims.toml`: quantity, band, and sources of the values of paper and oracle."""

    id: str
    says: str
    ours: Computed
    band: str
    bound: Any
    paper: Printed = None
    oracle: Printed = None
    deviation: str = ""
    explains: tuple[float, float] | None = None
    rows: tuple[str, ...] = ()
    by_mean: bool = False


@dataclass(frozen=True)
class Claims:
    """Content of the `claims.toml` of a paper."""

    title: str
    experiments: Mapping[str, str]
    figures: Mapping[str, Sequence[str]]
    statements: Sequence[Statement]
    excused: Mapping[str, str] = field(default_factory=dict)


def read(path: Path) -> Claims:
    """Reads the claims of a `claims.toml`; an error names file, claim and key."""
    with path.open("rb") as opened:
        document = tomllib.load(opened)
    statements = [_statement(path, one) for entry in document["claim"] for one in _each(path, dict(entry))]
    unknown = [one.id for one in statements if one.id not in document["experiments"]]
    if unknown:
        raise InputError(f"{path}: claim: id = {unknown[0]}: not in [experiments]")
    return Claims(
        title=document["title"],
        experiments=document["experiments"],
        figures={
            id: names if isinstance(names, list) else [names] for id, names in document["figures"].items()
        },
        statements=statements,
        excused=document.get("excused", {}),
    )


def _statement(path: Path, entry: dict[str, Any]) -> Statement:
    says = entry.get("says", "?")
    if unknown := set(entry) - KEYS:
        raise InputError(f"{path}: claim {says!r}: {min(unknown)}: there is no such key")
    bands = [name for name in BANDS if name in entry]
    if len(bands) > 1:
        raise InputError(f"{path}: claim {says!r}: {bands[1]}: cannot be combined with {bands[0]}")
    band = bands[0] if bands else ""
    if entry.get("by", "mean") != "mean":
        raise InputError(f"{path}: claim {says!r}: by = {entry['by']}: expected mean")
    explains = entry.get("explains")
    if bool(entry.get("deviation")) != bool(explains):
        raise InputError(
            f"{path}: claim {says!r}: deviation: requires explains, and explains requires deviation"
        )
    return Statement(
        id=entry["id"],
        says=says,
        ours=Computed(entry["quantity"], entry.get("with", {})),
        band=band,
        bound=entry.get(band),
        paper=_printed(entry.get("paper")),
        oracle=_printed(entry.get("oracle")),
        deviation=entry.get("deviation", ""),
        explains=(explains[0], explains[1]) if explains else None,
        rows=tuple(entry.get("rows", ())),
        by_mean="by" in entry,
    )


def _printed(source: Any) -> Printed:
    if isinstance(source, Mapping):
        if "text" in source:
            return Quotation(source["text"], source["at"])
        return Computed(
            source["quantity"], {key: value for key, value in source.items() if key != "quantity"}
        )
    return Row(source) if source else None


def _each(path: Path, entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields a copy of a `[[claim]]` for each combination of the values of its `each`."""
    each = entry.pop("each", None)
    if each is None:
        yield entry
        return
    if isinstance(each, Mapping):
        combinations = [dict(zip(each, values, strict=True)) for values in itertools.product(*each.values())]
    else:
        combinations = each
    for values in combinations:
        try:
            yield _filled(entry, values)
        except KeyError as missing:
            says = entry.get("says", "?")
            raise InputError(f"{path}: claim {says!r}: each: {missing} is missing") from None


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    """Replaces `{name}` in a value: by the value of the name if it stands alone, else by its text."""
    if isinstance(value, str):
        if value.startswith("{") and value.endswith("}") and value.count("{") == 1 and ":" not in value:
            return values[value[1:-1]]
        return value.format_map(values)
    if isinstance(value, Mapping):
        return {key: _filled(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, values) for inner in value]
    return value
