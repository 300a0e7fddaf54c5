"""Contents of a paper's Python package."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catnip.papers.runs import Runs
from catnip.report.model import Figure, Table


@dataclass(frozen=True, kw_only=True)
class Paper:
    """Quantities, figures and report of a paper, which its package defines as `PAPER`.

    All functions except printed quantities take the runs as their first argument.
    """

    runs: type[Runs]
    """Class of the runs."""
    simulated: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Quantities that the same seeds reproduce, by name."""
    live: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Quantities measured with this machine's kernel and clock, which no seed reproduces, by name."""
    printed: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Quantities read from the reference tables, by name."""
    figures: Sequence[Callable[[Any], Figure]] = ()
    """Functions that draw the figures."""
    headline: Callable[[Any], str]
    """Main result in a few sentences."""
    tables: Callable[[Any], Sequence[Table]] = lambda _runs: ()
    """Tables of the report."""
    seeds: Callable[[Any], Sequence[int]] = lambda runs: [runs.first_seed]
    """Seeds of the longest experiment."""

    @property
    def measured(self) -> Mapping[str, Callable[..., Any]]:
        """Quantities of the claims, by name."""
        return {**self.simulated, **self.live}

    def figure(self, name: str) -> Callable[[Any], Figure]:
        """Returns the function that draws a figure, by its name in `claims.toml`."""
        return next(one for one in self.figures if one.__name__ == name)
