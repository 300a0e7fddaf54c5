"""Output of commands: tables for people, JSON for programs."""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

import click

from catnip import _core
from catnip._core import InputError, __version__
from catnip.analysis.interval import Interval
from catnip.base import paths
from catnip.base.paths import Outline
from catnip.base.ranges import runs_of
from catnip.report.model import Reproduction
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
    head, *body = cells = [list(columns), *map(list, rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]

    def line(row: Sequence[str]) -> str:
        padded = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        return f"  {'   '.join(padded)}".rstrip()

    for part in title.splitlines():
        click.secho(part, bold=True)
    click.echo()
    click.secho(line(head), bold=True)
    click.echo(" " + "─" * (sum(widths) + 3 * len(widths) - 1))
    for row in body:
        click.echo(line(row))
    click.echo()


def _width(cell: str) -> int:
    """Returns the number of terminal columns that a text takes."""
    if cell.isascii():
        return len(cell)
    return sum(2 if east_asian_width(of) in "WF" else not combining(of) for of in cell)


def print_outcome(outcome: Reproduction, written: Sequence[Path]) -> None:
    """Prints the headline, every claim, the number of claims per verdict, and the written files."""
    from rich.text import Text  # noqa: PLC0415

    from catnip.analysis import claims  # noqa: PLC0415

    console = _console()
    console.print(Text(outcome.title, style="bold"), Text(outcome.headline), sep="\n\n")
    console.print(claims.table(outcome.claims))
    console.print(Text(", ".join(f"{n} {verdict}" for verdict, n in claims.tally(outcome.claims).items())))
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
        *map(_markdown_table, outcome.tables),
        claims.markdown(outcome.claims, deviations).rstrip(),
        f"Made by catnip {__version__} with {span(outcome.seeds)}.",
    )
    return "\n\n".join(parts) + "\n"


def merged(page: str, outcome: Reproduction, file: Path, order: Sequence[tuple[str, str]]) -> str:
    """Returns the Markdown page of a paper with the rows of the reproduced experiments replaced.

    `order` has the id and text of every claim of the paper, in order. Rows of other claims are dropped.
    """
    lines = page.splitlines()
    head = check_page(page, outcome.title, file)
    end = next((index for index in range(head, len(lines)) if not lines[index].startswith("|")), len(lines))
    new_lines = markdown(outcome, file).splitlines()
    rows = {_key(row): row for row in lines[head + 2 : end] if _key(row)[0] not in outcome.experiments}
    rows |= {_key(row): row for row in new_lines if _key(row)[0] in outcome.experiments}
    listed = [rows[key] for key in order if key in rows]
    return "\n".join((*lines[: head + 2], *listed, *lines[end:])) + "\n"


def check_page(page: str, title: str, file: Path) -> int:
    """Returns the index of the line with the column names in a page of `markdown`. Raises InputError."""
    lines = page.splitlines()
    head = next((index for index, line in enumerate(lines) if line.startswith("| id | claim |")), None)
    if head is None or lines[0] != f"# {title}":
        raise InputError(
            f"--table: {file}: exists, but is not a table of this paper that rows can be added to"
        )
    return head


def _key(row: str) -> tuple[str, str]:
    """Returns the id and text of the claim in a Markdown table row; empty texts for any other line."""
    cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
    return (cells[0], cells[1]) if len(cells) > 1 else ("", "")


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
