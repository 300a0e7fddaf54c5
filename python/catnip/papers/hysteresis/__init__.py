"""The hysteresis paper, on the duration of short transfers: its components HYS-S1 to S14 and experiments.

Simulations repeat the paper's design. The models' values are checked against independently computed values.
"""

from catnip.papers.hysteresis import accuracy, components, figures, marking, printed
from catnip.papers.hysteresis.trials import DESIGN, Trials
from catnip.papers.paper import Paper

PAPER = Paper(
    runs=Trials,
    simulated=components.measured | accuracy.measured | marking.measured,
    printed=printed.printed,
    figures=figures.FIGURES,
    headline=figures.headline,
    tables=figures.tables,
    seeds=lambda trials: trials.seeds(DESIGN),
)
