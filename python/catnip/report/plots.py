"""Single plots of a run: the subject that is asked for, or the most telling one."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catnip._core import InputError, Scenario
from catnip.analysis.summary import Summary
from catnip.figures import style
from catnip.report import over_time, run_page
from catnip.report.model import SUBJECTS, USUAL


@dataclass(frozen=True, repr=False)
class Plot:
    """Figure of a run, shown by notebooks."""

    svg: str

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes the figure as the name of the file says: .svg, .pdf or .png."""
        style.write(Path(file), self.svg)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        """Returns a short text, as the figure is long."""
        return f"<catnip.Plot: {len(self.svg)} characters of SVG>"


def plot(
    scenario: Scenario,
    seeds: Sequence[int],
    summaries: Mapping[str, Summary],
    axes: Mapping[str, Sequence[Any]],
    against: str | None,
    subject: str | None,
) -> Plot:
    """Returns the plot of a subject, of `SUBJECTS`, or of the usual one. Raises InputError."""
    if subject is not None and subject not in SUBJECTS:
        raise InputError(f"{subject} is not one of {', '.join(SUBJECTS)}")
    drawn = {}
    if subject not in over_time.KINDS:
        drawn = {one.name: one for one in run_page.figures(scenario, seeds, summaries, axes)}
    chosen = subject or next((name for name in USUAL if name in drawn), "windows")
    if chosen in over_time.KINDS:
        figures = over_time.figures(scenario, seeds[0], list(summaries), against, [chosen])
        drawn = {one.name: one for one in figures}
    if chosen not in drawn:
        raise InputError(f"nothing to plot: the runs have no {SUBJECTS[chosen]}")
    return Plot(drawn[chosen].svg)
