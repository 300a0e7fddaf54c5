"""What a reproduction hands over to the command line and the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catnip.analysis.claims import Claim


@dataclass(frozen=True)
class Table:
    """A table of the report, cells as they are printed; the first column names the row."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure of the report; the caption says what to see in it. `name` is that of its file.

    `experiment` and `seeds` say what draws it again; whoever asks for the drawing knows them.
    """

    name: str
    title: str
    caption: str
    svg: str
    experiment: str = ""
    seeds: Sequence[int] = ()


@dataclass(frozen=True)
class Command:
    """What reproduces a paper, or some experiments of it; `options` say with which seeds."""

    paper: str
    experiments: Sequence[str] = ()
    options: Sequence[str] = ()

    def line(self, written: str) -> str:
        """As it is typed; `written` says what it writes."""
        chosen = [f"--experiment {id}" for id in self.experiments]
        return " ".join(["catnip reproduce", self.paper, *chosen, *self.options, written])


@dataclass(frozen=True)
class RunOfScenario:
    """Everything that a report shows about a run of a scenario, whose text it has."""

    id: str
    title: str
    headline: str
    text: str
    tables: Sequence[Table]
    figures: Sequence[Figure]
    seeds: Sequence[int]


@dataclass(frozen=True)
class Reproduction:
    """Everything that a report shows about one paper; `seeds` are those of the longest experiment.

    `experiments` says what each one shows, by its id. Measurements with a real kernel are not repeatable.
    """

    title: str
    headline: str
    claims: "Sequence[Claim]"
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    seeds: Sequence[int] = field(default_factory=list)
    experiments: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True
