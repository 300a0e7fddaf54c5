"""Self-contained HTML page of a reproduction or a run, with its styles, figures and known deviations."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from itertools import count, groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from catnip._core import __version__
from catnip.analysis import claims
from catnip.analysis.claims import Claim
from catnip.base import paths
from catnip.figures import style
from catnip.report.model import Command, Figure, Reproduction, RunOfScenario, Table
from catnip.report.output import span

LIBRARIES = ("matplotlib", "numpy", "scipy")
"""Libraries whose versions influence the bytes of a page."""
NUMBER = re.compile(r"[-–+≤≥]?\d|–$")
UNBROKEN = re.compile(r"(?<=\d) (?=(?:%|[kMG]?(?:B|bit/s)|[mµn]?s)(?!\w))|(?<=page|able|gure) (?=\d)")
SENTENCES = re.compile(r"(?<=[.!?]) (?=[A-Z0-9])")
"""Pattern of what is between two sentences."""


def render(outcome: Reproduction, command: Command, commit: str | None) -> str:
    """Returns the HTML page of a reproduction.

    `command` generates the page again; `commit` has the form of `provenance.commit`.
    """
    return _page(
        "report.html.j2",
        outcome,
        commit,
        command=command,
        show=claims.show,
        tally=claims.tally(outcome.claims),
        groups={
            id: list(group) for id, group in groupby(sorted(outcome.claims, key=_order(outcome)), _experiment)
        },
        anchors={claim.id: claim.anchor for claim in outcome.claims},
        reasons=_reasons(claim.note for claim in outcome.claims if claim.note),
        again=lambda figure: _command_line(command, figure),
    )


def render_run(outcome: RunOfScenario, command: str, commit: str | None) -> str:
    """Returns the HTML page of a scenario run; `command` is the command line that generates it again."""
    return _page("run.html.j2", outcome, commit, command=command, again=lambda _figure: command, tally={})


def _page(template: str, outcome: Reproduction | RunOfScenario, commit: str | None, **more: Any) -> str:
    environment = Environment(
        loader=PackageLoader("catnip.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["has_gaps"] = _has_gaps
    environment.filters["unbroken"] = _unbroken
    environment.filters["sentences"] = SENTENCES.split
    environment.filters["columns_in_words"] = _text_columns
    environment.filters["slug"] = lambda verdict: verdict.replace(" ", "-")
    environment.filters["breakable"] = _breakable
    return environment.get_template(template).render(
        outcome=outcome,
        commit=commit,
        version=__version__,
        made=_created_by(commit),
        libraries=", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES),
        span=span,
        figures=[(figure, Markup(style.in_page(figure.svg))) for figure in outcome.figures],
        drawings=lambda dark: Markup(style.variables(dark)),
        **more,
    )


@dataclass(frozen=True)
class _Reason:
    """Section of docs/deviations.md, the reason why a value misses its band."""

    title: str
    html: Markup


def _reasons(anchors: Iterable[str]) -> Mapping[str, _Reason]:
    """Returns the sections of docs/deviations.md with these anchors, in the order of the document.

    Returns no sections if the document does not exist.
    """
    file = paths.deviations()
    if not file.is_file():
        return {}
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    requested, found = set(anchors), {}
    for section in re.split(r"^## ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, text = section.split("\n", 1)
        if (anchor := _anchor(title)) in requested:
            found[anchor] = _Reason(title, _with_boxes(title, markdown.render(text)))
    return found


def _with_boxes(title: str, html: str) -> Markup:
    """Returns the HTML of a section with each table in a box of its own, which scrolls."""
    tables = count(1)

    def opening(_: re.Match[str]) -> Markup:
        about = f"{title}, table {next(tables)}"
        box = '<div class="scroll" tabindex="0" role="region" aria-label="{}"><table aria-label="{}">'
        return Markup(box).format(about, about)

    return Markup(re.sub("<table>", opening, html).replace("</table>", "</table></div>"))


def _anchor(title: str) -> str:
    """Returns the anchor of a heading, as Markdown viewers make it."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def _order(outcome: Reproduction) -> Callable[[Claim], int]:
    """Returns the sort key of claims: the position of their experiment in the reproduction."""
    positions = {id: index for index, id in enumerate(outcome.experiments)}
    return lambda claim: positions.get(claim.experiment, len(positions))


def _experiment(claim: Claim) -> str:
    return claim.experiment


def _created_by(commit: str | None) -> str:
    if commit is None:
        return f"catnip {__version__}"
    changed = ", changed" if commit.endswith("+") else ""
    return f"catnip {__version__}, commit {commit[:12]}{changed}"


def _command_line(command: Command, figure: Figure) -> str:
    experiments = [figure.experiment] if figure.experiment else []
    return replace(command, experiments=experiments).line("--figures figures")


def _unbroken(text: str) -> str:
    """Returns text with no-break spaces between numbers and units, and in references such as `Table 2`."""
    return UNBROKEN.sub("\u00a0", text)


def _breakable(id: str) -> Markup:
    """Returns the id of a claim with places where a line may break."""
    return Markup("<wbr>").join(re.split(r"(?<=[._-])(?=\w)", id))


def _text_columns(table: Table) -> set[int]:
    """Returns the indices of the table columns to align like text: the first, and those without numbers."""
    columns = enumerate(zip(*table.rows, strict=True))
    return {0, *(at for at, cells in columns if not any(map(NUMBER.match, cells)))}


def _has_gaps(table: Table) -> bool:
    return any("–" in row[1:] for row in table.rows)
