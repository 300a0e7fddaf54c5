"""Claims as data: `claims.toml` of a paper, read into statements.

A `[[claim]]` has

- `experiment`, `says`: the experiment or component of the claim, and its text;
- `quantity`: a function of the paper's quantities, and `with`: its arguments;
- `case`: the last part of its id, EXPERIMENT.QUANTITY.CASE, if it is not to be made from the arguments;
- `paper`, `oracle`: the value of the paper, and of ns-2 or theory: the id of a row of a `*_claims.csv` or
  `*_parameters.csv`, a table `{ quantity = ..., ... }` that computes it from the reference tables, or
  `{ text = ..., at = ... }` for words of the paper;
- one band: `within = [low, high]`, `at_most`, `at_least`, `equals`, `oracle_range = true` (the oracle's own
  runs), `near = { of = "paper" or "oracle", percent | points | factor = ... }`; a claim without a band is
  only reported;
- `source`: where the band comes from, one of `SOURCES`;
- `note`: the section of docs/deviations.md about what is not reproduced;
- `explained_by`: the id of the claim that explains why this one is not reproduced: an experiment that
  changes the one named factor and has a band of its own, or an oracle that does the same;
- `rows`: rows of the reference tables that the claim covers, besides that of `paper`;
- `each`: a table of lists, or a list of tables: the claim holds for each combination, and `{name}` in its
  texts is replaced.

`[excused]` gives the reasons why some rows have no claim. A `[[sentence]]` has `says`, a sentence of the
paper; `by`, the beginnings of the ids of the claims that judge it; and, if it does not hold everywhere,
`where`: the region in which it does. A paper has at most ten, for the first screen of its report. A `[[map]]`
has `of`, the id of a claim; `factors`, at least two names of `[factor.NAME]`; and `seeds`, the number of runs
for each of its settings. A factor has `key` of scenarios, `settings` (its values by name, or tables of keys
and values), and `usual`, the name of the published setting.
"""

import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from catnip._core import InputError
from catnip.papers import maps
from catnip.papers.maps import Map

Arguments: TypeAlias = Mapping[str, Any]

BANDS = ("within", "at_most", "at_least", "equals", "oracle_range", "near")
SOURCES = {
    "acceptance": "what validation/acceptance.md asked of the experiment before it was run",
    "paper": "the number or the words of the paper",
    "oracle": "the runs of ns-2 or of another independent simulator, or theory",
    "exact": "arithmetic, a definition or an RFC",
    "level": "the critical value of a statistical test",
    "changed": "the band of the claim that this one explains, with one factor changed",
    "own": "what this project asks of itself where no paper has a number, set before the run",
}
"""Places where a band comes from, with their meaning."""
UNNAMED = ("scenario", "base", "scale")
"""Arguments that are not part of an id made from arguments."""
KEYS = {
    "experiment",
    "case",
    "says",
    "quantity",
    "with",
    "paper",
    "oracle",
    "source",
    "note",
    "explained_by",
    "rows",
    "each",
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
    source: str = ""
    paper: Printed = None
    oracle: Printed = None
    note: str = ""
    explained_by: str = ""
    rows: tuple[str, ...] = ()

    @property
    def experiment(self) -> str:
        """Id of the experiment or component to which the claim belongs."""
        return self.id.partition(".")[0]


@dataclass(frozen=True)
class Sentence:
    """Sentence of a paper, the ids of the claims that judge it, and the region in which it holds, or ""."""

    says: str
    by: tuple[str, ...]
    where: str = ""


@dataclass(frozen=True)
class Claims:
    """Content of the `claims.toml` of a paper."""

    title: str
    experiments: Mapping[str, str]
    figures: Mapping[str, Sequence[str]]
    statements: Sequence[Statement]
    excused: Mapping[str, str] = field(default_factory=dict)
    sentences: Sequence[Sentence] = ()
    maps: Sequence[Map] = ()


MOST_SENTENCES = 10
NO_SENTENCE = {"changed", "oracle", "level"}
"""Sources of bands of claims that do not judge the paper: they explain, or hold us against a simulator."""


def read(path: Path) -> Claims:
    """Reads the claims of a `claims.toml`; an error names file, claim and key."""
    with path.open("rb") as opened:
        document = tomllib.load(opened)
    statements: dict[str, Statement] = {}
    for entry in document["claim"]:
        for filled in _each(path, dict(entry)):
            one = _statement(path, filled)
            if one.experiment not in document["experiments"]:
                raise InputError(
                    f"{path}: claim {one.id}: experiment = {one.experiment}: not in [experiments]"
                )
            if one.id in statements:
                raise InputError(f"{path}: claim {one.id}: case: another claim has the same id")
            statements[one.id] = one
    for one in statements.values():
        if one.explained_by and one.explained_by not in statements:
            raise InputError(
                f"{path}: claim {one.id}: explained_by = {one.explained_by}: there is no such claim"
            )
    drawn = _maps(path, document, statements)
    for each in drawn:
        statements |= {row.id: row for row in rows_of(each)}
    mapped = {maps.experiment(each): maps.ABOUT for each in drawn}
    return Claims(
        title=document["title"],
        experiments=document["experiments"] | mapped,
        figures={
            id: names if isinstance(names, list) else [names] for id, names in document["figures"].items()
        },
        statements=list(statements.values()),
        excused=document.get("excused", {}),
        sentences=_sentences(path, document.get("sentence", []), statements.values()),
        maps=drawn,
    )


def _maps(path: Path, document: Mapping[str, Any], stated: Mapping[str, Statement]) -> list[Map]:
    known = maps.factors(path, document.get("factor", {}))
    read = maps.maps(path, document.get("map", []), known)
    for one in read:
        if one.of not in stated or not stated[one.of].band:
            raise InputError(f"{path}: map of {one.of}: of: no claim with a band")
    return read


def rows_of(one: Map) -> list[Statement]:
    """Returns the claims of a map: where its claim is reproduced by each factor, and by two together."""
    experiment, named = maps.experiment(one), one.of.partition("-")[2]
    rows = []
    for factor in (*(factor.name for factor in one.factors), maps.TOGETHER):
        along = f"by {factor}" if factor != maps.TOGETHER else "by the two strongest factors together"
        rows.append(
            Statement(
                id=f"{experiment}.{maps.QUANTITY}.{_plain(f'{named}-{factor}').replace('.', '-')}",
                says=f"{one.of}: where it is reproduced, {along}",
                ours=Computed(maps.QUANTITY, {"of": one.of, "factor": factor}),
                band="",
                bound=None,
            )
        )
    return rows


def _sentences(
    path: Path, entries: Sequence[Mapping[str, Any]], stated: Iterable[Statement]
) -> tuple[Sentence, ...]:
    """Returns the sentences of a paper with the claims that judge them, which have bands."""
    judging = [one.id for one in stated if one.band and one.source not in NO_SENTENCE]
    sentences = []
    for entry in entries:
        if unknown := set(entry) - {"says", "by", "where"}:
            raise InputError(f"{path}: sentence {entry.get('says')!r}: {min(unknown)}: there is no such key")
        by = [[id for id in judging if _begins(id, start)] for start in entry["by"]]
        for start, found in zip(entry["by"], by, strict=True):
            if not found:
                raise InputError(f"{path}: sentence {entry['says']!r}: by = {start}: no claim with a band")
        ids = tuple(dict.fromkeys(itertools.chain.from_iterable(by)))
        sentences.append(Sentence(entry["says"], ids, entry.get("where", "")))
    if len(sentences) > MOST_SENTENCES:
        raise InputError(f"{path}: sentence: {len(sentences)}: expected at most {MOST_SENTENCES}")
    return tuple(sentences)


def _begins(id: str, start: str) -> bool:
    """Returns true if an id is `start` or begins with it and a further part."""
    return id.startswith(start) and id[len(start) : len(start) + 1] in ("", ".", "-")


def _statement(path: Path, entry: dict[str, Any]) -> Statement:
    id = _id_of(entry)
    if unknown := set(entry) - KEYS:
        raise InputError(f"{path}: claim {id}: {min(unknown)}: there is no such key")
    bands = [name for name in BANDS if name in entry]
    if len(bands) > 1:
        raise InputError(f"{path}: claim {id}: {bands[1]}: cannot be combined with {bands[0]}")
    band, source = bands[0] if bands else "", entry.get("source", "")
    if band and source not in SOURCES:
        told = f"source = {source}" if source else "source: missing, and a band needs one"
        raise InputError(f"{path}: claim {id}: {told}: expected one of {', '.join(SOURCES)}")
    if not band and (extra := {"source", "note", "explained_by"} & set(entry)):
        raise InputError(f"{path}: claim {id}: {min(extra)}: the claim has no band")
    return Statement(
        id=id,
        says=entry["says"],
        ours=Computed(entry["quantity"], entry.get("with", {})),
        band=band,
        bound=entry.get(band),
        source=source,
        paper=_printed(entry.get("paper")),
        oracle=_printed(entry.get("oracle")),
        note=entry.get("note", ""),
        explained_by=_plain(entry.get("explained_by", "")),
        rows=tuple(entry.get("rows", ())),
    )


def _id_of(entry: Mapping[str, Any]) -> str:
    """Returns EXPERIMENT.QUANTITY.CASE of a claim, whose case is made of its distinctive arguments."""
    arguments = entry.get("with", {}).items()
    distinctive = (name if value is True else value for name, value in arguments if name not in UNNAMED)
    case = entry.get("case", _words(value for value in distinctive if value is not False))
    parts = (entry.get("experiment", "?"), entry.get("quantity", "?"), _plain(case))
    return ".".join(part for part in parts if part)


def _words(values: Iterable[Any]) -> str:
    return " ".join(_words(value) if isinstance(value, list) else str(value) for value in values)


def _plain(text: str) -> str:
    """Returns a text as part of an id: no character but letters, digits, `_`, `.` and `-`."""
    return re.sub(r"[^\w.]+", "-", text).strip("-")


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
            raise InputError(f"{path}: claim {_id_of(entry)}: each: {missing} is missing") from None


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
