"""The papers that are reproduced, each by a module that turns simulations into claims."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Protocol, cast

from catnip.papers.outcome import Reproduction
from catnip.progress import Progress

PAPERS = {
    "catnip": "catnip.papers.catnip",
    "hysteresis": "catnip.papers.hysteresis",
    "testbed": "catnip.papers.testbed",
}


class Paper(Protocol):
    """What a paper's module offers."""

    __name__: str
    EXPERIMENTS: Mapping[str, str]
    """What each experiment shows, by id."""

    def reproduce(
        self,
        experiments: Sequence[str] | None,
        quick: bool,
        seeds: int | None,
        first_seed: int,
        progress: Progress,
    ) -> Reproduction:
        """Runs the experiments, all by default; `quick` takes fewer seeds where `seeds` does not say."""
        ...


def paper(name: str) -> Paper:
    """The module of a paper, imported on demand: it draws, and the plotting library is slow to load."""
    return cast(Paper, import_module(PAPERS[name]))
