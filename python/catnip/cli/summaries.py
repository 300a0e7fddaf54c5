"""How a summary is told: as tables and as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import click

from catnip import compared
from catnip._core import Scenario, __version__
from catnip.compared import Nearby, Prediction, near_document
from catnip.output import finite, interval, print_table, span
from catnip.stats import Interval
from catnip.summary import OfGroup, Summary

Summaries: TypeAlias = Mapping[str, Summary]
Predictions: TypeAlias = Mapping[str, Mapping[str, Prediction]]
"""By variant and model."""

TIMES = {
    "page_time_s": "page time, s",
    "echo_s": "echo, s",
    "completed_s": "completed after, s",
    "retransmitted": "sent again",
    "timeouts": "timeouts",
}
RATES = {
    "goodput_mbps": "goodput, Mbit/s",
    "rtt_ms": "round trip, ms",
    "fairness": "Jain's index",
}
MEASURES = TIMES | RATES
LINKS = {
    "utilization_pct": "utilization, %",
    "queue_packets": "queue, packets",
    "queue_delay_ms": "queueing delay, ms",
    "loss_pct": "loss, %",
    "high_share_pct": "HIGH share, %",
    "high_loss_pct": "HIGH loss, %",
    "low_loss_pct": "LOW loss, %",
}
CUT_SHORT = """\
* of those that finished before the end of the run: those that take longer are missing.
  Restricted mean: of the time or the limit, whichever is less; what is known of the others counts, too.
"""


def print_summary(title: str, seeds: Sequence[int], summaries: Summaries) -> None:
    """How each group fared in each variant, and the links that had something to do with it."""
    title = f"{title} ({span(seeds)})"
    names = dict.fromkeys(group for one in summaries.values() for group in one.groups)
    for name in names:
        of = {variant: one.groups[name] for variant, one in summaries.items() if name in one.groups}
        if len(names) > 1:
            title = "\n".join(filter(None, (title, name)))
        _print_group(title, of)
        title = ""
    if any(of.is_cut_short for one in summaries.values() for of in one.groups.values()):
        click.echo(CUT_SHORT)
    _print_links(title or "Links", summaries)


def print_predictions(summaries: Summaries, predicted: Predictions) -> None:
    """Simulated transfer times of single transfers, and what the models that match say of them."""
    labels = list(dict.fromkeys(label for row in predicted.values() for label in row))
    rows, told = [], list[Nearby]()
    for name, row in predicted.items():
        # A single transfer is the only group there is.
        for of in summaries[name].groups.values():
            if mean := of.means.get("completed_s"):
                said = (_beside(row[key], mean) if key in row else "–" for key in labels)
                rows.append((name, _mean(of, "completed_s"), *said))
                told += (one.near for one in row.values())
    if labels and rows:
        print_table("Models beside the simulated mean", ("variant", "completed after, s", *labels), rows)
        for note in compared.notes(told):
            click.echo(note)


def document(
    scenario: Scenario,
    seeds: Sequence[int],
    summaries: Summaries,
    predicted: Predictions,
) -> dict[str, Any]:
    """What a run gave, by variant, and what models say of single transfers."""
    return {
        "scenario": scenario.id,
        "title": scenario.title,
        "version": __version__,
        "seeds": list(seeds),
        "variants": {name: _variant(one) for name, one in summaries.items()},
        "models_s": {
            name: {label: one.time_s for label, one in row.items()} for name, row in predicted.items()
        },
        "models_trust": {
            name: {label: near_document(one.near) for label, one in row.items()}
            for name, row in predicted.items()
        },
    }


def _beside(said: Prediction, mean: Interval) -> str:
    return f"{said.time_s:.3f} ({said.time_s / mean.mean - 1:+.0%}) {said.near.mark}".rstrip()


def _variant(summary: Summary) -> dict[str, Any]:
    return {
        "groups": {name: _group(of) for name, of in summary.groups.items()},
        "links": {port: _intervals(link) for port, link in summary.links.items()},
    }


def _group(of: OfGroup) -> dict[str, Any]:
    return {
        "kind": of.kind,
        "started": of.started,
        "finished": of.finished,
        "means": _intervals(of.means),
        "restricted_s": None if of.restricted_s is None else interval(of.restricted_s),
        "horizon_s": finite(of.horizon_s),
    }


def _intervals(means: Mapping[str, Interval]) -> dict[str, dict[str, float | None]]:
    return {key: interval(value) for key, value in means.items()}


def _print_group(title: str, variants: Mapping[str, OfGroup]) -> None:
    """A row per variant, a column per measure that any of them has."""
    keys = [key for key in MEASURES if any(_is_told(key, of) for of in variants.values())]
    before: dict[str, list[str]] = {}
    if any(of.is_cut_short for of in variants.values()):
        before["finished"] = [f"{of.finished} of {of.started}" for of in variants.values()]
        limits_s = {of.horizon_s for of in variants.values()}
        before[f"restricted mean, up to {min(limits_s):.3g} s"] = [
            str(of.restricted_s) for of in variants.values()
        ]
    rows = [
        [name, *(cells[index] for cells in before.values()), *(_mean(of, key) for key in keys)]
        for index, (name, of) in enumerate(variants.items())
    ]
    print_table(title, ["variant", *before, *(MEASURES[key] for key in keys)], rows)


def _is_told(key: str, of: OfGroup) -> bool:
    """That all get the same goes without saying."""
    return key in of.means and not (key == "fairness" and of.means[key].mean > 0.9995)


def _mean(of: OfGroup, key: str) -> str:
    if key not in of.means:
        return "–"
    return f"{of.means[key]} *" if of.is_cut_short and key in TIMES else str(of.means[key])


def _print_links(title: str, summaries: Summaries) -> None:
    """Those that have lost packets, or were half used."""
    links = [(name, port, of) for name, one in summaries.items() for port, of in one.links.items()]
    ports = dict.fromkeys(port for _, port, _ in links)
    matter = {port for _, port, of in links if of["loss_pct"].mean > 0 or of["utilization_pct"].mean >= 50}
    shown = [
        (name, port, of) for wanted in ports if wanted in matter for name, port, of in links if port == wanted
    ]
    keys = [key for key in LINKS if any(key in of for *_, of in shown)]
    rows = [(name, port, *(str(of.get(key, "–")) for key in keys)) for name, port, of in shown]
    if rows:
        print_table(title, ("variant", "link", *(LINKS[key] for key in keys)), rows)
    if others := len(ports) - len(matter):
        say = "direction of a link has" if others == 1 else "directions of links have"
        click.echo(f"{others} more {say} lost nothing and carried less than half of what they could: --json.")
