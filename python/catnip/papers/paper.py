"""Definition of a reproduced paper by its Python package."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from catnip.papers.runs import Runs
from catnip.report.model import Figure, Table
from catnip.report.values import THIS

Content = TypeVar("Content")


@dataclass(frozen=True)
class Part(Generic[Content]):
    """Part of a report that is made from the paper's runs, and renewed with the experiments that it shows."""

    make: Callable[[Any], Content]
    of: Sequence[str] = ()
    """Ids of these experiments; none if it shows all."""


@dataclass(frozen=True, kw_only=True)
class Paper:
    """Quantities, figures and report of a paper, which its package defines as `PAPER`.

    All functions except printed quantities take the paper's runs, an object of the class `runs`, as their
    first argument.
    """

    runs: type[Runs]
    """Class of the paper's runs, a subclass of `Runs`."""
    simulated: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Functions of simulated quantities, by name; the same seeds give the same values."""
    live: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Functions of quantities measured with this machine's kernel and clock, by name; not repeatable."""
    printed: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Functions of quantities read from the reference tables, by name."""
    figures: Sequence[Callable[[Any], Figure]] = ()
    """Functions that draw the figures of the report, given the paper's runs."""
    headline: Part[str]
    """The main result in a few sentences."""
    tables: Sequence[Part[Table]] = ()
    """Tables of the report, with titles that differ."""
    seeds: Callable[[Any], Sequence[int]] = lambda runs: [runs.first_seed]
    """Function that returns the seeds of the experiment with the most seeds."""

    kernels: Sequence[str] = (THIS,)
    """Kernels with which the experiments can be measured."""
    quick_without: Sequence[str] = ()
    """Experiments that a quick run of the whole paper leaves out, so that it ends within two minutes."""

    @property
    def measured(self) -> Mapping[str, Callable[..., Any]]:
        """Functions of all simulated and live quantities, by name."""
        return {**self.simulated, **self.live}

    def figure(self, name: str) -> Callable[[Any], Figure]:
        """Returns the function that draws a figure, by its name in `claims.toml`."""
        return next(one for one in self.figures if one.__name__ == name)
