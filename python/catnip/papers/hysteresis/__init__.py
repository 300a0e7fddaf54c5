"""The hysteresis paper, on the duration of short transfers: its components HYS-S1 to S14 and experiments.

Simulations repeat the paper's design. The models' values are checked against independently computed values.
"""

from catnip.papers.hysteresis import accuracy, components, figures, marking, printed
from catnip.papers.hysteresis.trials import DESIGN, Trials
from catnip.papers.paper import Paper, Part

PAPER = Paper(
    runs=Trials,
    simulated=components.measured | accuracy.measured | marking.measured,
    printed=printed.printed,
    figures=figures.FIGURES,
    headline=Part(figures.headline, ["HYS-E1", "HYS-E2", "HYS-E5"]),
    tables=[
        Part(figures.short_errors, ["HYS-E1"]),
        Part(figures.long_errors, ["HYS-E2"]),
        Part(figures.first_timeouts, ["HYS-E1", "HYS-E2"]),
    ],
    seeds=lambda trials: trials.seeds(DESIGN),
)
