"""The hysteresis model of short transfers: its components HYS-S1 to S14 and its experiments, judged.

The simulations of the paper's design are made anew; the models' values are checked against independent ones.
"""

from collections.abc import Callable, Mapping, Sequence

from catnip.papers.hysteresis import accuracy, marking, systems
from catnip.papers.hysteresis.trials import PAPER_TRIALS, Trials
from catnip.papers.outcome import Part, Reproduction
from catnip.progress import Progress

TRIALS = 20_000

SYSTEMS = (
    "hysteresis model",
    "Padhye model",
    "Cardwell-98 model",
    "Cardwell-00 model",
    "Sikdar model",
    "Partial CATNIP model",
    "path with an error model",
    "Bernoulli losses",
    "losses by priority",
    "source of exactly N packets",
    "receiver that delays ACKs",
    "full and partial marking",
    "batch of trials",
    "measures of error",
)

Makes = Callable[[Trials], Part]

PARTS: Mapping[str, tuple[str, Makes]] = {
    **{f"HYS-S{number}": (name, systems.components) for number, name in enumerate(SYSTEMS, 1)},
    "HYS-E1": ("models against short transfers", accuracy.short_flows),
    "HYS-E2": ("models against long transfers", accuracy.long_flows),
    "HYS-E3": ("probability of a timeout", systems.timeout_probability),
    "HYS-E4": ("distributions of CATNIP and Partial CATNIP", marking.distribution),
    "HYS-E5": ("Partial CATNIP against Reno", marking.gain),
    "HYS-E6": ("Partial CATNIP model against simulation", marking.gain),
    "HYS-E7": ("Partial CATNIP against CATNIP", marking.partial_and_full),
    "HYS-E8": ("logarithmic and linear growth", accuracy.shapes),
    "HYS-E9": ("the 5 % level", accuracy.five_percent),
    "HYS-E10": ("losses of HIGH packets", marking.between),
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
    trials = Trials(seeds or (PAPER_TRIALS if quick else TRIALS), first_seed, progress)
    chosen = list(experiments or PARTS)
    makers = dict.fromkeys(PARTS[id][1] for id in chosen)
    if not {"HYS-S2", "HYS-S4"}.isdisjoint(chosen):
        makers[systems.two_worlds] = None
    parts = [makes(trials) for makes in makers]
    everything = experiments is None
    return Reproduction(
        title="A hysteresis-based model for the latency of short TCP transfers",
        headline=accuracy.headline(trials) if everything else f"Only {', '.join(chosen)}.",
        claims=sorted(
            (claim for part in parts for claim in part.claims if claim.id in chosen),
            key=lambda claim: list(PARTS).index(claim.id),
        ),
        figures=[figure for part in parts for figure in part.figures],
        tables=accuracy.tables(trials) if everything else [],
        seeds=trials.seeds,
    )
