"""The DiffServ paper (Noureddine and Tobagi, 2002), on interactive applications: IDS-S1 to IDS-E20.

Two experiments go beyond the paper: IDS-E14, today's queues and end systems, and IDS-E15, users who mark all
their packets HIGH.
"""

from catnip.papers.diffserv import beyond, components, curves, figures, printed, schemes, traffic
from catnip.papers.diffserv.runs import TreeRuns
from catnip.papers.paper import Paper, Part

PAPER = Paper(
    runs=TreeRuns,
    simulated=traffic.measured | components.measured | schemes.measured | beyond.measured | curves.measured,
    printed=printed.printed,
    figures=figures.FIGURES,
    headline=Part(figures.headline, ["IDS-E1", "IDS-E4", "IDS-E7", "IDS-E9", "IDS-E14"]),
    tables=[
        Part(figures.findings, ["IDS-E1", "IDS-E3", "IDS-E4", "IDS-E7", "IDS-E8", "IDS-E9", "IDS-E10"]),
        Part(figures.of_schemes, ["IDS-E1", "IDS-E4", "IDS-E7", "IDS-E8", "IDS-E9"]),
        Part(figures.beside_a_fair_queue, ["IDS-E14"]),
        Part(figures.cost),
    ],
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
