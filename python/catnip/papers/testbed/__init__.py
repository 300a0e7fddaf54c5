"""The testbed paper (Wang, Zhang and Keshav): real servers and clients over emulated links, and its model.

Its components TB-S1 to S14 and its experiments, judged. The kernel is today's, set near to the paper's; the
models are given its timeouts.
"""

from collections.abc import Callable, Mapping, Sequence

from catnip._core import InputError
from catnip.papers.outcome import Part, Reproduction
from catnip.papers.testbed import latency, systems, wan
from catnip.papers.testbed.runs import PACKAGES, Runs, can_run
from catnip.progress import Progress

QUICK = 0.2

SYSTEMS = (
    "two hosts",
    "virtual link",
    "binding of interfaces",
    "forced routing",
    "modes of the link",
    "generator of load",
    "browser and latency logger",
    "real Web server",
    "independence of applications",
    "short-connection model",
    "evolution of the RTO",
    "model of the handshake",
    "Model C, low and high",
    "comparison",
)

Makes = Callable[[Runs], Part]

PARTS: Mapping[str, tuple[str, Makes]] = {
    **{f"TB-S{number}": (name, systems.components) for number, name in enumerate(SYSTEMS, 1)},
    "TB-S6": ("generator of load", latency.characterization),
    "TB-S14": ("comparison", latency.over_load),
    "TB-E1": ("delay and loss over load", latency.characterization),
    "TB-E2": ("latency over load", latency.over_load),
    "TB-E3": ("latency over delay", latency.over_delay),
    "TB-E4": ("latency over loss", latency.over_loss),
    "TB-E5": ("latency as a sum of parts", latency.over_load),
    "TB-E6": ("models over load", latency.over_load),
    "TB-E7": ("models over one factor", latency.one_factor),
    "TB-E8": ("models above 10 % loss", latency.over_loss),
    "TB-E9": ("losses in the handshake", systems.handshakes),
    "TB-E10": ("other applications", systems.other_applications),
    "CAT-S24": ("real Web server for emulated clients", wan.emulation),
    "CAT-S25": ("WAN emulator", wan.emulation),
    "CAT-E10": ("WAN emulation with four buffers", wan.emulation),
    "CWV-S14": ("both settings of the emulation router", systems.emulation_router),
}

EXPERIMENTS: Mapping[str, str] = {id: shows for id, (shows, _) in PARTS.items()}


def reproduce(
    experiments: Sequence[str] | None,
    quick: bool,
    seeds: int | None,
    first_seed: int,
    progress: Progress,
) -> Reproduction:
    """Measures the experiments, all by default; `seeds` is the number of fetches per point."""
    if missing := can_run(*PACKAGES):
        raise InputError(f"testbed: {missing}")
    scale = seeds / latency.MOST_FETCHES if seeds else QUICK if quick else 1.0
    runs = Runs(scale, first_seed, progress)
    chosen = list(experiments or PARTS)
    parts = [makes(runs) for makes in dict.fromkeys(PARTS[id][1] for id in chosen)]
    everything = experiments is None
    return Reproduction(
        title="Understanding end-to-end performance: a testbed and a model of short connections",
        headline=latency.headline(runs) if everything else f"Only {', '.join(chosen)}.",
        claims=sorted(
            (claim for part in parts for claim in part.claims if claim.id in chosen),
            key=lambda claim: list(PARTS).index(claim.id),
        ),
        figures=[figure for part in parts for figure in part.figures],
        tables=[latency.comparison(runs), wan.table(runs)] if everything else [],
        seeds=list(range(first_seed, first_seed + 1)),
    )
