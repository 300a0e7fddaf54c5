"""The DiffServ paper (Noureddine and Tobagi, 2002), on interactive applications: IDS-S1 to IDS-E20.

Two experiments go beyond the paper: IDS-E14, today's queues and end systems, and IDS-E15, users who mark all
their packets HIGH.
"""

from catnip.papers.diffserv import beyond, components, curves, figures, printed, schemes, traffic
from catnip.papers.diffserv.runs import TreeRuns
from catnip.papers.paper import Paper

PAPER = Paper(
    runs=TreeRuns,
    simulated=traffic.measured | components.measured | schemes.measured | beyond.measured | curves.measured,
    printed=printed.printed,
    figures=figures.FIGURES,
    headline=figures.headline,
    tables=figures.tables,
    seeds=lambda runs: runs.seeds("diffserv-small"),
    quick_without=(
        "IDS-S1",
        "IDS-S6",
        "IDS-E2",
        "IDS-E5",
        "IDS-E8",
        "IDS-E10",
        "IDS-E11",
        "IDS-E12",
        "IDS-E13",
        "IDS-E14",
        "IDS-E17",
        "IDS-E19",
        "IDS-E20",
    ),
)
