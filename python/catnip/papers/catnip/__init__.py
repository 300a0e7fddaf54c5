"""The CATNIP paper (Wu and Williamson, 2002): its systems CAT-S1 to S19 and its experiments, judged.

ns-2 2.35 at the same settings is the first oracle, the paper's tables and directions the second.
"""

from collections.abc import Callable, Mapping, Sequence

from catnip.papers.catnip import pages, single, systems
from catnip.papers.catnip.runs import Runs
from catnip.papers.outcome import Part, Reproduction
from catnip.progress import Progress

QUICK_SEEDS = 10

SYSTEMS = (
    "simulator core",
    "Reno baseline",
    "RBPLW: paced last window",
    "ECA: early congestion avoidance",
    "SPM: selective packet marking",
    "combinations of sources",
    "DropTail queue",
    "RED queue",
    "CATNIP-Good queue",
    "CATNIP-Bad queue",
    "CATNIP-RED queue",
    "topology",
    "ten-page workload",
    "generator of workloads",
    "HTTP/1.0 client",
    "approximate HTTP/1.1",
    "single-loss injector",
    "records and counters",
    "context interface",
)

Makes = Callable[[Runs], Part]

PARTS: Mapping[str, tuple[str, Makes]] = {
    **{f"CAT-S{number}": (name, systems.components) for number, name in enumerate(SYSTEMS, 1)},
    "CAT-E1": ("single-loss profile of a 28-packet document", single.loss_profile),
    "CAT-E2": ("burst patterns of the four sources", single.burst_patterns),
    "CAT-E3": ("four sources over DropTail routers", pages.droptail),
    "CAT-E4": ("four marking sources over CATNIP-Good routers", pages.catnip_good),
    "CAT-E5": ("CATNIP-Bad routers", pages.catnip_bad),
    "CAT-E6": ("RED and CATNIP-RED routers", pages.red),
    "CAT-E7": ("ECA and Reno sources share the bottleneck", pages.fairness),
    "CAT-E8": ("approximate HTTP/1.1", pages.http11),
    "CAT-E11": ("a small network worked out by hand", single.small_network),
    "CAT-E12": ("the workload is what the paper says", pages.workload),
}

EXPERIMENTS: Mapping[str, str] = {id: shows for id, (shows, _) in PARTS.items()}


def reproduce(
    experiments: Sequence[str] | None,
    quick: bool,
    seeds: int | None,
    first_seed: int,
    progress: Progress,
) -> Reproduction:
    """Runs the experiments, all by default, and judges each claim of specification and paper."""
    runs = Runs(seeds or (QUICK_SEEDS if quick else None), first_seed, progress)
    chosen = list(experiments or PARTS)
    parts = [makes(runs) for makes in dict.fromkeys(PARTS[id][1] for id in chosen)]
    everything = experiments is None
    return Reproduction(
        title="CATNIP: a context-aware transport/network Internet protocol for the Web",
        headline=pages.headline(runs) if everything else f"Only {', '.join(chosen)}.",
        claims=[claim for part in parts for claim in part.claims if claim.id in chosen],
        figures=[figure for part in parts for figure in part.figures],
        tables=[pages.five_routers(runs)] if everything else [],
        seeds=runs.longest,
    )
