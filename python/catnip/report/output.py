"""Output of commands: tables for people, JSON for programs."""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

import click

from catnip import _core
from catnip._core import __version__
from catnip.analysis.interval import Interval
from catnip.base import paths
from catnip.base.paths import Outline
from catnip.base.ranges import runs_of
from catnip.base.verbosity import plain
from catnip.report.model import Held, Reproduction
from catnip.report.model import Table as ReportTable

if TYPE_CHECKING:
    from rich.console import Console


def print_json(document: Any) -> None:
    """Prints one JSON document on stdout; NaN is an error, because JSON cannot represent NaN."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def print_json_lines(documents: Iterable[Any]) -> None:
    """Prints JSON documents on stdout, one per line."""
    for document in documents:
        click.echo(json.dumps(document, ensure_ascii=False, allow_nan=False))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a titled table. The terminal wraps long lines, so that no digit is cut."""
    head, *body = cells = [[plain(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]

    def line(row: Sequence[str]) -> str:
        padded = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        return f"  {'   '.join(padded)}".rstrip()

    for part in title.splitlines():
        click.secho(plain(part), bold=True)
    click.echo()
    click.secho(line(head), bold=True)
    click.echo(" " + "─" * (sum(widths) + 3 * len(widths) - 1))
    for row in body:
        click.echo(line(row))
    click.echo()


def print_note(about: object) -> None:
    """Prints a paragraph, wrapped by the terminal; nothing for None."""
    if about is not None:
        click.echo(f"{plain(str(about))}\n")


def print_share(shard: tuple[int, int] | None, as_json: bool) -> None:
    """Prints that a share of the runs is there, and that others are not, or are being put together."""
    number, shares = shard or (1, 1)
    if as_json:
        print_json({"share": [number, shares], "complete": False})
    else:
        click.echo(f"Share {number} of {shares} is done; there are no tables until all are.")


def _width(cell: str) -> int:
    """Returns the number of terminal columns that a text takes."""
    if cell.isascii():
        return len(cell)
    return sum(2 if east_asian_width(of) in "WF" else not combining(of) for of in cell)


def print_outcome(outcome: Reproduction, written: Sequence[Path]) -> None:
    """Prints the headline, every claim, the number of claims per verdict, what is left, and written files."""
    from rich.text import Text  # noqa: PLC0415

    from catnip.analysis import claims  # noqa: PLC0415

    console = _console()
    console.print(Text(outcome.title, style="bold"), Text(outcome.headline), sep="\n\n")
    for one in outcome.sentences:
        console.print(Text(f"- {one.says}: {one.told}{f' ({one.where})' if one.where else ''}"))
    console.print(claims.table(outcome.claims))
    console.print(Text(claims.summary(outcome.claims)))
    for note in outcome.notes:
        console.print(Text(note))
    for path in written:
        console.print(Text(f"wrote {path}"))


def print_scenarios(scenarios: Iterable[Outline], seed: int) -> None:
    """Prints a table of scenarios with their seeds, the first of which is `seed`."""
    rows = [(s.id, s.title, _shortened(s.variants), span(_seeds(s, seed))) for s in scenarios]
    print_table("Scenarios", ("id", "title", "variants", "runs"), rows)


def print_outline(outline: Mapping[str, float | None]) -> None:
    """Prints one line for each number of `outline`, with its name."""
    for key, value in outline.items():
        click.echo(f"{key:<18} {'–' if value is None else round(value, 6)}")


def scenario_document(scenario: Outline, seed: int) -> dict[str, Any]:
    """Returns the outline of a scenario with its seeds, the first of which is `seed`, for JSON."""
    return {
        "id": scenario.id,
        "title": scenario.title,
        "path": scenario.path,
        "variants": scenario.variants,
        "seeds": _seeds(scenario, seed),
    }


def tables_document() -> dict[str, Any]:
    """Returns the results tables with a description of their columns, for JSON."""
    return {
        table: {
            "rows": about,
            "columns": {
                name: {"type": kind, "unit": unit or None, "holds": holds}
                for name, kind, unit, holds in columns
            },
        }
        for table, about, columns in _core.tables()
    }


def markdown(outcome: Reproduction, file: Path) -> str:
    """Returns the claims of a reproduction as a Markdown page; its links are relative to `file`."""
    from catnip.analysis import claims  # noqa: PLC0415

    reasons = paths.deviations()
    deviations = os.path.relpath(reasons, file.resolve().parent) if reasons.is_file() else None
    parts = (
        f"# {outcome.title}",
        outcome.headline,
        *[_markdown_sentences(outcome.sentences)] * bool(outcome.sentences),
        *map(_markdown_table, outcome.tables),
        f"{claims.summary(outcome.claims).capitalize()}.",
        claims.markdown(outcome.claims, deviations).rstrip(),
        *[f"Not measured yet: {', '.join(outcome.unmeasured)}."] * bool(outcome.unmeasured),
        f"Made by catnip {__version__} with {span(outcome.seeds)}.",
    )
    return "\n\n".join(parts) + "\n"


def _markdown_sentences(sentences: Sequence[Held]) -> str:
    rows = "\n".join(f"| {one.says} | {one.told} | {one.where} |" for one in sentences)
    return f"| what is said | here | where |\n| --- | --- | --- |\n{rows}"


def _markdown_table(table: ReportTable) -> str:
    rows = [table.columns, ["---"] * len(table.columns), *table.rows]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"**{table.title}**\n\n{lines}\n\n{table.note}"


def span(seeds: Sequence[int]) -> str:
    """Formats seeds in words, with consecutive seeds as a range."""
    runs = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in runs_of(seeds))
    return f"seed {runs}" if len(seeds) == 1 else f"seeds {runs}"


def _seeds(scenario: Outline, first: int) -> list[int]:
    return list(range(first, first + scenario.seeds))


def _shortened(names: Sequence[str], limit: int = 8) -> str:
    return ", ".join(names if len(names) <= limit else (*names[:2], "…", names[-1]))


def interval(value: Interval) -> dict[str, float | None]:
    """Returns mean and ends of an interval for JSON; None replaces a value that is not finite."""
    return {"mean": finite(value.mean), "low": finite(value.low), "high": finite(value.high)}


def finite(value: float) -> float | None:
    """Returns a number for JSON: None if it is not finite."""
    return value if math.isfinite(value) else None


def _console() -> "Console":
    """Returns a console for stdout, wide for a file or a pipe, so that table lines are not wrapped."""
    from rich.console import Console  # noqa: PLC0415

    console = Console()
    return console if console.is_terminal else Console(width=160)
