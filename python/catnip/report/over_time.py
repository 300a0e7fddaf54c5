"""Figures of what happens over time in one run of a scenario, for the variants that are compared."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from catnip._core import Scenario
from catnip.analysis import timelines
from catnip.analysis.timelines import Timeline
from catnip.figures import timelines as drawings
from catnip.report.model import Figure

MOST = 2
"""Largest number of variants, one above another."""


@dataclass(frozen=True)
class Kind:
    """Kind of figure over time."""

    title: str
    caption: str
    draw: Callable[[str, Sequence[Timeline]], str]
    is_there: Callable[[Timeline], bool]


KINDS: Mapping[str, Kind] = {
    "windows": Kind(
        "Windows over time",
        "Congestion windows, slow-start thresholds below their heights, and data in flight of the servers. "
        "Strokes at the upper edge are drops and timeouts of these connections.",
        drawings.windows,
        lambda of: bool(of.senders),
    ),
    "queues": Kind(
        "Queues over time",
        "Packets in the queue and in transmission by priority, and how long packets were there. Strokes at "
        "the upper edge are drops and CE marks of all connections.",
        drawings.queues,
        lambda of: bool(of.links),
    ),
    "rates": Kind(
        "Rates over time",
        "Goodput of connections and rates of links, as means over ten samples.",
        drawings.rates,
        lambda of: bool(of.links),
    ),
    "round-trips": Kind(
        "Round trips over time",
        "Smoothed round-trip times of the servers.",
        drawings.round_trips,
        lambda of: bool(of.senders),
    ),
}


def figures(
    scenario: Scenario,
    seed: int,
    variants: Sequence[str],
    against: str | None,
    kinds: Sequence[str] = tuple(KINDS),
) -> list[Figure]:
    """Returns figures of the run with this seed, for at most `MOST` of the variants.

    The run is repeated for them, as summaries keep nothing over time. Connections are those that send most,
    some of each traffic group; links are those where packets wait longest. Of runs with short connections,
    the time around the largest of the first variant is drawn.
    """
    first = against if against is not None and against in variants else variants[0]
    chosen = [first, *(name for name in variants if name != first)][:MOST]
    drawn = [timelines.of_run(scenario, chosen[0], seed)]
    drawn += [timelines.of_run(scenario, name, seed, range_s=drawn[0].range_s) for name in chosen[1:]]
    left_out = f" Shown are {MOST} of {len(variants)} variants." if len(variants) > MOST else ""
    found = []
    for name in kinds:
        kind = KINDS[name]
        if all(map(kind.is_there, drawn)):
            svg = kind.draw(f"{scenario.title}: {kind.title.lower()}", drawn)
            caption = f"{kind.caption} One run, seed {seed}.{left_out}"
            found.append(Figure(name, kind.title, caption, svg, seeds=[seed]))
    return found
