"""Agreement of the kernel's TCP with the simulator's: quantities, tables and the main result."""

from collections.abc import Callable, Mapping, Sequence

from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.papers.linux_tcp.cases import CONTROLS, DELAYS_MS, KINDS, RATE
from catnip.papers.linux_tcp.drawn import GROUPS
from catnip.papers.linux_tcp.flows import FLOW_S, SETTINGS, Setting
from catnip.papers.linux_tcp.runs import Pair, TransferRuns
from catnip.papers.quantity import Quantities
from catnip.report.model import Table

measured = Quantities()

CLOSE, TICK_S = 0.05, 0.004
"""Tolerances of the completion time: a fraction of the kernel's time, and a tick of its timers, s."""


def same_set(pair: Pair) -> bool:
    """Returns true if kernel and simulator retransmitted the same segments, each equally often."""
    return sorted(pair.kernel.retransmitted) == sorted(pair.ours.retransmitted)


def same_order(pair: Pair) -> bool:
    """Returns true if kernel and simulator retransmitted the same segments in the same order."""
    return pair.kernel.retransmitted == pair.ours.retransmitted


def same_timeouts(pair: Pair) -> bool:
    """Returns true if kernel and simulator had the same number of timeouts."""
    return pair.kernel.timeouts == pair.ours.timeouts


def same_probes(pair: Pair) -> bool:
    """Returns true if kernel and simulator sent the same number of tail loss probes."""
    return pair.kernel.probes == pair.ours.probes


def same_time(pair: Pair) -> bool:
    """Returns true if kernel and simulator received the last ACK at about the same time."""
    off = abs(pair.ours.done_s - pair.kernel.done_s)
    return off <= max(CLOSE * pair.kernel.done_s, TICK_S)


NAMES = {"cubic": "CUBIC", "reno": "Reno"}

LIKENESSES: dict[str, Callable[[Pair], bool]] = {
    "retransmissions": same_set,
    "their order": same_order,
    "timeouts": same_timeouts,
    "probes": same_probes,
    "completion": same_time,
}


@measured
def cases(runs: TransferRuns, control: str) -> float:
    """LNX-E1: number of scripted cases compared between kernel and simulator."""
    return float(len(_of(runs, control)))


@measured
def alike_pct(runs: TransferRuns, control: str, likeness: str) -> float:
    """LNX-E1: share of scripted cases in which kernel and simulator agree in `likeness`, percent.

    `likeness` is a key of `LIKENESSES`.
    """
    pairs = _of(runs, control)
    runs.sample = len(pairs)
    return 100 * sum(LIKENESSES[likeness](pair) for pair in pairs) / len(pairs)


@measured
def window_ratio(runs: TransferRuns, control: str) -> Interval:
    """LNX-E2: ratio of the simulator's mean cwnd to the kernel's under random loss."""
    kernel, ours = runs.windows[control]
    return stats.ratio(ours, kernel)


@measured
def window_segments(runs: TransferRuns, control: str, source: str) -> Interval:
    """LNX-E2: mean cwnd of the simulator (`source` is `ours`) or the kernel under random loss, segments."""
    kernel, ours = runs.windows[control]
    return stats.mean(ours if source == "ours" else kernel)


@measured
def flow_ratio(runs: TransferRuns, delay_ms: float, link: str, measure: str) -> Interval:
    """LNX-E3: ratio of `measure` in the simulator to that in the kernel, for long transfers with BBR.

    `measure` is `goodput_kbps` or `queue_ms`.
    """
    kernel, ours = runs.flows[Setting(int(delay_ms), link)]
    return stats.ratio([getattr(one, measure) for one in ours], [getattr(one, measure) for one in kernel])


@measured
def drawn_alike(runs: TransferRuns, likeness: str) -> float:
    """LNX-E4: number of drawn cases in which kernel and simulator agree in `likeness`.

    `likeness` is a key of `LIKENESSES`.
    """
    return float(sum(map(LIKENESSES[likeness], runs.drawn_pairs)))


@measured
def red_certificates(runs: TransferRuns) -> str:
    """LNX-S1: number of links whose certificate is red in all three tries."""
    _ = runs.pairs, runs.windows, None if runs.quick else (runs.flows, runs.drawn_pairs)
    return str(runs.red)


def headline(runs: TransferRuns) -> str:
    """Returns the main result of the comparison in two sentences."""
    pairs = runs.pairs
    alike = {name: sum(likeness(pair) for pair in pairs) for name, likeness in LIKENESSES.items()}
    ratios = {control: window_ratio(runs, control) for control in CONTROLS}
    windows = " and ".join(f"{ratio.mean:.3f} with {NAMES[control]}" for control, ratio in ratios.items())
    return (
        f"Of {len(pairs)} scripted cases the simulated sender retransmits the same segments as Linux "
        f"{runs.kernel_name} in {alike['retransmissions']}, in the same order in {alike['their order']}, "
        f"has as many timeouts in {alike['timeouts']}, and is done as soon in {alike['completion']}. "
        f"Under random loss its mean window is that of the kernel times {windows}."
    )


def likenesses(runs: TransferRuns) -> Table:
    """Returns the table of the numbers of cases in which kernel and simulator do the same."""
    by_kind = {
        label: [pair for pair in runs.pairs if pair.case.kind == kind] for kind, label in KINDS.items()
    }
    by_path = {
        f"round trip of {2 * delay_ms} ms, {control}": [
            pair for pair in runs.pairs if (pair.case.delay_ms, pair.case.control) == (delay_ms, control)
        ]
        for delay_ms in DELAYS_MS
        for control in CONTROLS
    }
    note = "In how many cases the kernel and the simulator do the same."
    return _alike("What is the same", {**by_kind, **by_path, "all": runs.pairs}, note)


def drawn_likenesses(runs: TransferRuns) -> Table:
    """Returns the table of the numbers of drawn cases in which kernel and simulator do the same, by group."""
    pairs = runs.drawn_pairs
    by_group = {group: [pair for pair in pairs if pair.case.kind == group] for group in GROUPS}
    note = "Cases drawn at random, none of which is in the grid of the others."
    return _alike("Drawn cases", {**by_group, "all": pairs}, note)


def _alike(title: str, groups: Mapping[str, Sequence[Pair]], note: str) -> Table:
    rows = [
        [name, str(len(pairs)), *(str(sum(map(likeness, pairs))) for likeness in LIKENESSES.values())]
        for name, pairs in groups.items()
    ]
    return Table(title, ["", "cases", *LIKENESSES], rows, note)


def long_flows(runs: TransferRuns) -> Table:
    """Returns the table of goodputs and queues of BBR in kernel and simulator."""
    rows = []
    for setting in SETTINGS:
        cells = (
            str(stats.mean([getattr(one, measure) for one in flows]))
            for measure in ("goodput_kbps", "queue_ms")
            for flows in runs.flows[setting]
        )
        rows.append([f"{setting.link}, round trip of {2 * setting.delay_ms} ms", *cells])
    columns = ["", "kernel, kbit/s", "simulator, kbit/s", "kernel's queue, ms", "simulator's queue, ms"]
    note = f"Transfers of {FLOW_S:g} s over {RATE}: goodput, and mean round trip above the least one."
    return Table("BBR", columns, rows, note)


def differences(runs: TransferRuns) -> Table:
    """Returns the table of the cases in which kernel and simulator differ, with what each does."""
    return _differences("What differs", runs.pairs)


def drawn_differences(runs: TransferRuns) -> Table:
    """Returns the table of the drawn cases in which kernel and simulator differ, with what each does."""
    return _differences("What differs in drawn cases", runs.drawn_pairs)


def _differences(title: str, pairs: Sequence[Pair]) -> Table:
    rows = []
    for pair in pairs:
        missed = [name for name, likeness in LIKENESSES.items() if not likeness(pair)]
        if missed:
            both = [
                f"{_joined(one.retransmitted)}; {one.timeouts}, {one.probes}; {1e3 * one.done_s:.0f}"
                for one in (pair.kernel, pair.ours)
            ]
            rows.append([pair.case.name, ", ".join(missed), *both])
    columns = ["", "differs in", "kernel", "simulator"]
    note = "Segments sent again, in order; timeouts, probes; milliseconds until the last ACK."
    return Table(title, columns, rows, note)


def _joined(segments: Sequence[int]) -> str:
    return " ".join(map(str, segments)) or "none"


def _of(runs: TransferRuns, control: str) -> list[Pair]:
    return [pair for pair in runs.pairs if pair.case.control == control]
