"""Run summaries as tables and as JSON, for the command line, notebooks and reports."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from catnip import _core
from catnip._core import InputError, Scenario, __version__
from catnip.analysis.interval import Interval
from catnip.analysis.stopping import Until
from catnip.analysis.summary import BUSY, GroupSummary, Summary
from catnip.report.model import Table as ReportTable
from catnip.report.output import finite, interval, print_table, span
from catnip.store.runs import axes_of

if TYPE_CHECKING:
    from catnip.modelling.accuracy import Nearby, Prediction

Summaries: TypeAlias = Mapping[str, Summary]
Pairs: TypeAlias = Mapping[str, tuple[Summary, Summary]]
"""Summaries of variants and of what each is compared with, over the same seeds."""
Axes: TypeAlias = Mapping[str, Sequence[Any]]
Predictions: TypeAlias = "Mapping[str, Mapping[str, Prediction]]"
"""Predicted transfer times by variant and by the model's label."""

TIMES: Mapping[str, str] = _core.TRANSFER_TIMES
"""Labels of the mean transfer times, such as page times, by the name of the measure."""
PAGE_TIME = "page_time_s"
RATES = {
    "p95_s": "95th percentile, s",
    "goodput_mbps": "goodput, Mbit/s",
    BUSY: "goodput while busy, Mbit/s",
    "rtt_ms": "round trip, ms",
    "retransmitted_pct": "retransmitted, %",
    "timeouts": "timeouts",
    "fairness": "Jain's index",
}
MEASURES = {**TIMES, **RATES}
DIFFERENCES = {**TIMES, "restricted_s": "restricted mean, s", **RATES}
STOPPING = [key for key in DIFFERENCES if key != BUSY]
"""Measures of rules of stopping: those that the summary of each variant has while it is run."""
MILESTONES = {
    "first_byte_s": "first byte, s",
    "render_s": "first rendering, s",
    "load_s": "load event, s",
    "byte_index_s": "ByteIndex, s",
    "time_s": "end, s",
}
LINKS = {
    "utilization_pct": "utilization, %",
    "queue_packets": "queue, packets",
    "queue_delay_ms": "queueing delay, ms",
    "loss_pct": "loss, %",
    "high_share_pct": "HIGH share, %",
    "high_loss_pct": "HIGH loss, %",
    "low_loss_pct": "LOW loss, %",
}
BY_INTERVAL = "g"
"""Format of intervals with as many digits as each supports: the terminal has three, whatever they support."""
CUT_SHORT = """\
* Mean of the transfers that finished before the end of the run: longer ones are missing.
  Restricted mean: mean of the time or the limit, whichever is less; includes unfinished transfers."""


ALIKE = (
    "= All times are within 0.1 %: what is random here does not change them, and their spread tells nothing."
)


def print_summary(title: str, seeds: Sequence[int], summaries: Summaries) -> None:
    """Prints each group's measures by variant, and the links that lost packets or were busy."""
    for table in tables(title, seeds, summaries):
        print_one(table)


def tables(title: str, seeds: Sequence[int], summaries: Summaries, digits: str = "") -> list[ReportTable]:
    """Returns a summary as tables: one for each traffic group, and one for the links.

    `digits` formats the intervals: with three digits, or with as many as each supports (`BY_INTERVAL`).
    """
    title = f"{title} ({span(seeds)})"
    tables: list[ReportTable] = []
    names = dict.fromkeys(group for one in summaries.values() for group in one.groups)
    for name in names:
        of = {variant: one.groups[name] for variant, one in summaries.items() if name in one.groups}
        if len(names) > 1:
            title = "\n".join(filter(None, (title, name)))
        tables.append(_of_group(title, of, digits))
        title = ""
    # Only the last table with a mark has the explanation of the mark.
    explained: set[str] = set()
    for index, table in reversed(list(enumerate(tables))):
        notes = [note for note in (CUT_SHORT, ALIKE) if note in table.note and note not in explained]
        explained.update(notes)
        tables[index] = replace(table, note="\n".join(notes))
    for name in names:
        of = {variant: one.groups[name] for variant, one in summaries.items() if name in one.groups}
        if any(one.milestones for one in of.values()):
            about = "Milestones" if len(names) == 1 else f"Milestones of {name}"
            tables.append(_of_milestones(about, of, explained, digits))
    tables.append(_of_links(title or "Links", summaries, digits))
    return tables


def print_one(table: ReportTable) -> None:
    """Prints a table with its note."""
    if table.rows:
        print_table(table.title, table.columns, table.rows)
    if table.note:
        click.echo(table.note)


def bases(against: str, axes: Axes, variants: Sequence[str]) -> dict[str, str]:
    """Returns the base of each variant: the variant with which it is compared. Raises InputError.

    `against` is the name of a variant, which is the base of all others, or a value of an axis as in
    `queue=drop-tail:10`. With a value, the base of a variant is the variant that differs from it only in
    having this value.
    """
    if against in variants:
        return {name: against for name in variants if name != against}
    short, _, value = against.partition("=")
    keys = [key for key in axes if short in (key, key.rsplit(".", 1)[-1])]
    if len(keys) == 1 and value in map(shown, axes[keys[0]]):
        [key] = keys
        levels = {
            name: tuple(shown(values[index]) for other, values in axes.items() if other != key)
            for index, name in enumerate(variants)
        }
        is_base = [shown(level) == value for level in axes[key]]
        base_of = {levels[name]: name for name, base in zip(variants, is_base, strict=True) if base}
        others = (name for name, base in zip(variants, is_base, strict=True) if not base)
        return {name: base_of[levels[name]] for name in others if levels[name] in base_of}
    along = (f"{key.rsplit('.', 1)[-1]}={shown(values[0])}" for key, values in axes.items())
    known = ", ".join(dict.fromkeys((*along, *variants)))
    raise InputError(f"--against: {against!r} is none of {known}")


def is_settled(rule: Until, ours: Summary, theirs: Summary | None) -> bool:
    """Returns true if a rule is satisfied for each traffic group of a variant that has the rule's measure.

    `theirs` is the summary of the variant with which it is compared; None if it is compared with none.
    """
    found: list[bool] = []
    for name, group in ours.groups.items():
        if theirs is None:
            key = rule.measure or group.main
            value, of = _measure(group, key), None
        elif name in theirs.groups:
            key = rule.measure or theirs.groups[name].main
            value, base = group.less(theirs.groups[name]).get(key), _measure(theirs.groups[name], key)
            of = None if base is None else base.mean
        else:
            continue
        if value is not None:
            found.append(rule.is_satisfied(value, of))
        elif rule.measure is None:
            found.append(False)
    return bool(found) and all(found)


def _measure(group: GroupSummary, key: str) -> Interval | None:
    return group.restricted_s if key == "restricted_s" else group.means.get(key)


def pairs_of(against: str, axes: Axes, summaries: Summaries) -> Pairs:
    """Returns the summaries of each variant and of its base (see `bases`), which have the same seeds."""
    return {
        name: (summaries[name], summaries[base])
        for name, base in bases(against, axes, list(summaries)).items()
    }


def print_differences(against: str, pairs: Pairs) -> None:
    """Prints the differences between each variant and its base, also in percent of the base."""
    for table in differences(against, pairs):
        print_one(table)


def differences(against: str, pairs: Pairs, digits: str = "") -> Iterator[ReportTable]:
    """Yields tables of the differences between variants and their bases, one table for each traffic group."""
    yield from paired_differences(f"Difference to {against}, paired by seed", pairs, digits)


def paired_differences(title: str, pairs: Pairs, digits: str = "") -> Iterator[ReportTable]:
    """Yields tables of the differences between two summaries of each name, one table for each group."""
    groups = dict.fromkeys(group for pair in pairs.values() for one in pair for group in one.groups)
    for group in groups:
        rows: dict[str, tuple[GroupSummary, dict[str, Interval]]] = {}
        alike: set[str] = set()
        for name, pair in pairs.items():
            ours, theirs = (one.groups.get(group) for one in pair)
            if ours is not None and theirs is not None:
                rows[name] = theirs, ours.less(theirs)
                alike.update([name] * (ours.is_alike and theirs.is_alike))
        either = [of for name in rows for one in pairs[name] if (of := one.groups.get(group)) is not None]
        keys = [
            key
            for key in DIFFERENCES
            if any(key in less for _, less in rows.values())
            and (key == "restricted_s" or any(is_unusual(key, of) for of in either))
        ]
        cells = [
            (name, *(_difference(key, theirs, less, name in alike, digits) for key in keys))
            for name, (theirs, less) in rows.items()
        ]
        head = f"{title}: {group}" if len(groups) > 1 else title
        yield ReportTable(head, ("variant", *(DIFFERENCES[key] for key in keys)), cells)


def _difference(
    key: str, there: GroupSummary, less: Mapping[str, Interval], is_alike: bool, digits: str
) -> str:
    if key not in less:
        return "–"
    base = there.restricted_s if key == "restricted_s" else there.means.get(key)
    share = f" ({less[key].mean / base.mean:+.0%})" if base is not None and base.mean > 0 else ""
    if is_alike and key in {*TIMES, "p95_s"}:
        return f"{less[key].mean:+.3f}{share} ="
    return f"{less[key]:{f'+{digits}'}}{share}"


def shown(level: Any) -> str:
    """Formats a value of an axis as in the names of variants."""
    return str(level).lower() if isinstance(level, bool) else str(level)


def is_unusual(key: str, of: GroupSummary) -> bool:
    """Returns true if a group has a measure with an unusual value.

    Usual values are equal shares, no retransmissions and no timeouts.
    """
    usual = {"fairness": 1.0, "retransmitted_pct": 0.0, "timeouts": 0.0}
    return key in of.means and abs(of.means[key].mean - usual.get(key, math.inf)) > 5e-4


def print_predictions(summaries: Summaries, predicted: Predictions) -> None:
    """Prints the simulated times of single transfers, and the predictions of the matching models."""
    labels = list(dict.fromkeys(label for row in predicted.values() for label in row))
    rows: list[tuple[str, ...]] = []
    shown_errors: list[Nearby] = []
    for name, row in predicted.items():
        # A single transfer is the only group of its scenario.
        for of in summaries[name].groups.values():
            if mean := of.means.get("completed_s"):
                cells = (_beside(row[key], mean) if key in row else "–" for key in labels)
                rows.append((name, _mean(of, "completed_s"), *cells))
                shown_errors += (one.nearby for one in row.values())
    if labels and rows:
        from catnip.modelling import accuracy  # noqa: PLC0415 -- few scenarios are a single transfer

        print_table("Models and simulated mean", ("variant", "completion time, s", *labels), rows)
        for note in accuracy.notes(shown_errors):
            click.echo(note)


def document(
    scenario: Scenario,
    seeds: Sequence[int],
    summaries: Summaries,
    predicted: Predictions,
    pairs: Pairs,
    base_of: Mapping[str, str],
) -> dict[str, Any]:
    """Returns the summaries, differences and predictions of a run by variant, for JSON.

    `pairs` has the summaries of variants and of their bases, which `base_of` names.
    """
    axes = axes_of(scenario, list(summaries))
    trusted = {}
    if predicted:
        from catnip.modelling.accuracy import nearby_document  # noqa: PLC0415 -- few scenarios are a single transfer

        trusted = {
            name: {label: nearby_document(one.nearby) for label, one in row.items()}
            for name, row in predicted.items()
        }
    return {
        "scenario": scenario.id,
        "title": scenario.title,
        "version": __version__,
        "seeds": list(seeds),
        "axes": axes,
        **summaries_document(summaries, pairs, base_of),
        "models_s": {
            name: {label: one.time_s for label, one in row.items()} for name, row in predicted.items()
        },
        "models_trust": trusted,
    }


def summaries_document(summaries: Summaries, pairs: Pairs, base_of: Mapping[str, str]) -> dict[str, Any]:
    """Returns the summaries of variants, and their differences, for JSON."""
    return {
        "variants": {name: _variant(one) for name, one in summaries.items()},
        "differences": {
            name: {"to": base_of[name], "groups": differences_document(*pair)} for name, pair in pairs.items()
        },
    }


def differences_document(here: Summary, there: Summary) -> dict[str, Any]:
    """Returns the differences between two summaries, by group and measure, for JSON."""
    both = (group for group in here.groups if group in there.groups)
    return {group: _intervals(here.groups[group].less(there.groups[group])) for group in both}


def _beside(prediction: "Prediction", mean: Interval) -> str:
    relative = prediction.time_s / mean.mean - 1
    return f"{prediction.time_s:.3f} ({relative:+.0%}) {prediction.nearby.mark}".rstrip()


def _variant(summary: Summary) -> dict[str, Any]:
    return {
        "groups": {name: _group(of) for name, of in summary.groups.items()},
        "links": {port: _intervals(link) for port, link in summary.links.items()},
    }


def _group(of: GroupSummary) -> dict[str, Any]:
    return {
        "kind": of.kind,
        "started": of.started,
        "finished": of.finished,
        "means": _intervals(of.means),
        "restricted_s": None if of.restricted_s is None else interval(of.restricted_s),
        "horizon_s": finite(of.horizon_s),
        **({"milestones": _milestones(of)} if of.milestones else {}),
    }


def _milestones(of: GroupSummary) -> dict[str, dict[str, float | None]]:
    """Returns the mean times until the milestones of a group of recorded pages, for JSON."""
    return {name: interval(one.means[PAGE_TIME]) for name, one in of.milestones.items()}


def _intervals(means: Mapping[str, Interval]) -> dict[str, dict[str, float | None]]:
    return {key: interval(value) for key, value in means.items()}


def _of_group(title: str, variants: Mapping[str, GroupSummary], digits: str) -> ReportTable:
    """Returns the table of a traffic group: a row per variant, and a column per measure of any variant."""
    keys = [key for key in MEASURES if any(is_unusual(key, of) for of in variants.values())]
    before: dict[str, list[str]] = {}
    counts = [of.seeds for of in variants.values()]
    if len(set(counts)) > 1:
        before["seeds"] = [str(count) for count in counts]
    is_cut_short = any(of.is_cut_short for of in variants.values())
    if is_cut_short:
        before["finished"] = [f"{of.finished} of {of.started}" for of in variants.values()]
        limits_s = {of.horizon_s for of in variants.values()}
        before[f"restricted mean, up to {min(limits_s):.3g} s"] = [
            _text(of.restricted_s, digits) for of in variants.values()
        ]
    rows = [
        [name, *(cells[index] for cells in before.values()), *(_mean(of, key, digits) for key in keys)]
        for index, (name, of) in enumerate(variants.items())
    ]
    columns = ["variant", *before, *(MEASURES[key] for key in keys)]
    marks = {CUT_SHORT: is_cut_short, ALIKE: any(of.is_alike for of in variants.values())}
    return ReportTable(title, columns, rows, "\n".join(note for note, has_mark in marks.items() if has_mark))


def _of_milestones(
    title: str, variants: Mapping[str, GroupSummary], explained: set[str], digits: str
) -> ReportTable:
    """Returns the table of the mean times until the milestones of a group's recorded pages.

    It explains the mark of times that are alike unless that is among the notes `explained`.
    """
    rows = [
        (name, *(_mean(of.milestones.get(one), PAGE_TIME, digits) for one in MILESTONES))
        for name, of in variants.items()
    ]
    is_alike = any(one.is_alike for of in variants.values() for one in of.milestones.values())
    note = ALIKE if is_alike and ALIKE not in explained else ""
    explained.add(note)
    return ReportTable(title, ("variant", *MILESTONES.values()), rows, note)


def _text(value: Interval | None, digits: str) -> str:
    return "–" if value is None else format(value, digits)


def _mean(of: GroupSummary | None, key: str, digits: str = "") -> str:
    if of is None or key not in of.means:
        return "–"
    if of.is_alike and key in {*TIMES, "p95_s"}:
        return f"{of.means[key].mean:.3f} ="
    return f"{of.means[key]:{digits}}{' *' * (of.is_cut_short and key in TIMES)}"


def _of_links(title: str, summaries: Summaries, digits: str) -> ReportTable:
    """Returns the table of the links that lost packets or had 50 % utilization or more, in any variant."""
    links = [(name, port, of) for name, one in summaries.items() for port, of in one.links.items()]
    ports = dict.fromkeys(port for _, port, _ in links)
    matter = {port for _, port, of in links if of["loss_pct"].mean > 0 or of["utilization_pct"].mean >= 50}
    listed = [
        (name, port, of)
        for listed_port in ports
        if listed_port in matter
        for name, port, of in links
        if port == listed_port
    ]
    keys = [key for key in LINKS if any(key in of for *_, of in listed)]
    rows = [(name, port, *(_text(of.get(key), digits) for key in keys)) for name, port, of in listed]
    note = ""
    if others := len(ports) - len(matter):
        subject = "direction of a link has" if others == 1 else "directions of links have"
        note = f"{others} more {subject} no losses and a utilization below 50 %: --json shows them."
    return ReportTable(title, ("variant", "link", *(LINKS[key] for key in keys)), rows, note)
