"""The newCWV paper (Hossain and Fairhurst, 2023), on newCWV and pacing for HTTP: CWV-S1 to CWV-E17.

Two experiments go beyond the paper: CWV-E14, other responses to idle periods behind today's queues, and
CWV-E15, newCWV combined with marks.
"""

from catnip.papers.newcwv import beyond, captured, figures, gains, printed, real, single, videos
from catnip.papers.newcwv.runs import SHARED, BurstRuns
from catnip.papers.paper import Paper, Part

PAPER = Paper(
    runs=BurstRuns,
    simulated=single.measured | gains.measured | beyond.measured | videos.measured | captured.measured,
    live=real.measured,
    printed=printed.printed,
    figures=figures.FIGURES,
    headline=Part(figures.headline, ["CWV-E6", "CWV-E8", "CWV-E9", "CWV-E14", "CWV-E15"]),
    tables=[
        Part(figures.servers_and_queues, ["CWV-E14", "CWV-E15"]),
        Part(real.table, ["CWV-S15"]),
        Part(figures.cost),
    ],
    seeds=lambda runs: runs.seeds(SHARED),
)
