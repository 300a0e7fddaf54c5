"""Contents of reports about a reproduction or a run, for the command line and for HTML pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catnip.analysis.claims import Claim
    from catnip.report.values import Values

SUBJECTS = {
    "times": "transfer times",
    "axis": "axis",
    "map": "two axes",
    "windows": "TCP connections",
    "queues": "link that packets cross",
    "rates": "link that packets cross",
    "round-trips": "TCP connections",
}
"""Subjects of plots of a run by name, each with the words of a message if the runs do not have it."""
USUAL = ("axis", "map", "times")
"""Subjects of which the first that the runs have is drawn if none is asked for; windows if they have none."""


@dataclass(frozen=True)
class Table:
    """Table of a report, with cells as printed text; the first column names the row."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    in_order: bool = False
    """True if rows read on from those above them, so that a reader cannot sort them."""


@dataclass(frozen=True)
class Cell:
    """Cell of a table that can be sorted: its text, and the number by which it is sorted, empty if none."""

    text: str
    order: str


@dataclass(frozen=True)
class PointTable:
    """Table of the points of a sweep."""

    columns: Sequence[str]
    are_numbers: Sequence[bool]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """Figure of a report. The caption states what the figure shows; `name` is its file name without suffix.

    `experiment` and `seeds` select the runs from which the figure is drawn. The caller of the drawing
    function sets them.
    """

    name: str
    title: str
    caption: str
    svg: str
    experiment: str = ""
    seeds: Sequence[int] = ()


@dataclass(frozen=True)
class Command:
    """Command line that reproduces a paper, or only `experiments` of it; `options` select the seeds."""

    paper: str
    experiments: Sequence[str] = ()
    options: Sequence[str] = ()

    def line(self, written: str) -> str:
        """Returns the command line as text; `written` is the option that specifies its output."""
        chosen = [f"--experiment {id}" for id in self.experiments]
        return " ".join(["catnip reproduce", self.paper, *chosen, *self.options, written])


@dataclass(frozen=True)
class Again:
    """What a report holds so that its reader can repeat the runs in a browser, or why it holds nothing."""

    why_not: str = ""
    files: Sequence[str] = ()
    """Names of the files of the scenario that the report holds."""
    runs: str = ""
    """Scenario and results, compressed, in base64, as page/src/check.ts reads them."""
    explorer: str = ""
    """Page with the simulator, compressed, in base64."""
    state: str = ""
    """State of that page which shows the scenario."""
    script: str = ""


@dataclass(frozen=True)
class RunOfScenario:
    """Content of a report about a run of a scenario; `text` is that of the scenario file."""

    id: str
    title: str
    headline: str
    text: str
    tables: Sequence[Table]
    figures: Sequence[Figure]
    seeds: Sequence[int]
    points: PointTable | None = None
    """Points of a sweep; None if nothing is swept."""
    more: Sequence[str] = ()
    """Sentences below the headline."""
    again: Again | None = None
    """What the page holds so that its reader can repeat the runs; None if it says nothing of it."""


@dataclass(frozen=True)
class Held:
    """Sentence of a paper with the number of claims that reproduce it, do not, and are undecided.

    `where` is the region in which it holds, if that is known and not everywhere.
    """

    says: str
    reproduced: int
    missed: int
    undecided: int
    where: str = ""

    @property
    def kind(self) -> str:
        """`holds`, `holds in part`, `does not hold` or `is undecided`."""
        if not self.reproduced:
            return "does not hold" if self.missed else "is undecided"
        return "holds in part" if self.missed or self.undecided else "holds"

    @property
    def told(self) -> str:
        """The kind, with the numbers of claims if they differ."""
        if self.kind in {"holds", "is undecided"}:
            return self.kind
        of = self.reproduced + self.missed + self.undecided
        undecided = f", {self.undecided} undecided" if self.undecided else ""
        part = f": {self.reproduced} of {of}" if self.reproduced else ""
        return f"{self.kind}{part}{undecided}"


@dataclass(frozen=True)
class Reproduction:
    """Content of a report about one paper; `seeds` are the seeds of the experiment with the most seeds.

    `experiments` describes each experiment, by its id. `is_repeatable` is false for measurements with a real
    kernel.
    """

    title: str
    headline: str
    claims: "Sequence[Claim]"
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    seeds: Sequence[int] = field(default_factory=list)
    experiments: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True
    sentences: Sequence[Held] = ()
    """Sentences of the paper for which claims were judged."""
    values: "Values | None" = None
    """Values on which the verdicts were given."""
    unmeasured: Sequence[str] = ()
    """Ids of the paper's claims without a value."""
    left: Sequence[str] = ()
    """Experiments for which the time was not enough."""
    unavailable: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Ids of the claims that this machine cannot measure, by the reason."""
    shortened: str = ""
    """What a quick run leaves out, as a sentence."""

    def with_drawings(self) -> "Reproduction":
        """Returns the content without the figures that have no drawing, such as those of stored values."""
        return replace(self, figures=[figure for figure in self.figures if figure.svg])

    @property
    def notes(self) -> list[str]:
        """What was not measured, and why: a line for each reason."""
        missing = []
        for reason, ids in self.unavailable.items():
            experiments = dict.fromkeys(id.partition(".")[0] for id in ids)
            missing.append(f"not measured: {len(ids)} claims of {', '.join(experiments)}: {reason}")
        left = [f"left, as the time was over: {', '.join(self.left)}"] if self.left else []
        return [*filter(None, [self.shortened]), *missing, *left]
