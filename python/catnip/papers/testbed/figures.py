"""Figures 3, 4 and 7 of the testbed paper, tables of models and of Linux stacks, and the main result."""

from collections.abc import Sequence

import numpy as np

from catnip.analysis import stats
from catnip.figures.latency import Curve, Panel, latency_panels
from catnip.papers.quantity import Quantities
from catnip.papers.testbed import latency, wan
from catnip.papers.testbed.estimators import ESTIMATORS, HIGH, LOW, NEW, TODAY, packets
from catnip.papers.testbed.runs import SIZES_KB, FetchRuns
from catnip.report.model import Figure, Table

measured = Quantities()

STACK_LOSS_PCT = 15
MEASURED_LABEL = "measured, 95 % interval"


def headline(runs: FetchRuns) -> str:
    """Returns the main result of the measurements in three sentences."""
    loads, losses = latency.fetches(runs, "load"), latency.fetches(runs, "loss")
    count = sum(len(one.fetches) for one in runs.measured if one.point.command is None)
    red = sum(one.is_red for one in runs.measured)
    idle, full = (loads[f"10-{load}"].mean_s.mean for load in (0, 100))
    lossy = losses["10-20"].mean_s.mean
    links = f"{len(runs.measured)} of them, {red or 'none'} with a red certificate"
    return (
        f"{count} fetches from nginx and Apache through emulated links ({links}): latency grows linearly "
        f"with delay and faster than linearly with loss. A 10 KB file takes {1e3 * idle:.1f} ms on an idle "
        f"link, {full:.2f} s on one that is offered all it can carry, and {lossy:.1f} s at 20 % loss each "
        "way. The paper's model is the closest one for a kernel of its time; for today's it is too slow with "
        "10 and 30 KB."
    )


def comparison(runs: FetchRuns) -> Table:
    """TB-S14: table of latencies over load, measured and by the models (new, Model C low, Model C high)."""
    rows = []
    for size in SIZES_KB:
        measured_s = latency.latencies(runs, "load", size)
        for case, ours in zip(latency.cases(runs, "load"), measured_s, strict=True):
            values = [one(packets(size), case.loss, case.delay_s, TODAY) for one in ESTIMATORS.values()]
            link = f"{1e3 * case.delay_s:.2f}", f"{100 * case.loss:.2f}"
            rows.append(
                [f"{size} KB, load {case.x:.0f} %", *link, str(ours), *(f"{value:.3f}" for value in values)]
            )
    columns = ["", "delay, ms", "loss, %", "measured, s", *ESTIMATORS]
    note = "The delay is one way; loss hits each direction."
    return Table("Retrieval latency over load, s", columns, rows, note)


@measured
def numbers_of_the_comparison(runs: FetchRuns) -> str:
    """TB-S14: number of cells in the table of `comparison` with a time above zero."""
    times = [cell.split()[0] for row in comparison(runs).rows for cell in row[3:]]
    return str(sum(np.isfinite(float(time)) and float(time) > 0 for time in times))


def stacks(runs: FetchRuns) -> Table:
    """TB-E8: table of the latencies of simulated Linux stacks, this kernel and the new model, lossy link."""
    simulated = runs.simulated("testbed-loss")
    suffix = f" / wire_loss=bernoulli:{STACK_LOSS_PCT / 100:g}"
    kernel = [latency.fetches(runs, "loss")[f"{size}-{STACK_LOSS_PCT}"] for size in SIZES_KB]

    def cells(times: Sequence[np.ndarray]) -> list[str]:
        return [f"{np.median(one):.2f}; {stats.mean(one)}" for one in times]

    rows = [["nginx on this kernel", *(f"{np.median(one.latencies_s):.2f}; {one.mean_s}" for one in kernel)]]
    for variant, of_size in simulated.items():
        if variant.endswith(suffix):
            name = variant.removesuffix(suffix)
            rows.append([f"simulated: {name}", *cells([of_size[size] for size in SIZES_KB])])
    loss = STACK_LOSS_PCT / 100
    rows.append(
        ["new model", *(f"{ESTIMATORS[NEW](packets(size), loss, 0.0, TODAY):.2f}" for size in SIZES_KB)]
    )
    title = f"Stacks at {STACK_LOSS_PCT} % loss each way: median; mean, s"
    note = "Variants of the scenario testbed-loss. The new model is given the timers of today's Linux."
    return Table(title, ["", *(f"{size} KB" for size in SIZES_KB)], rows, note)


def link(runs: FetchRuns) -> Figure:
    """Draws figure 3 of the testbed paper: delay and loss of a link over its offered load."""
    states = latency.states(runs)
    loads = [100 * state.load for state in states]
    panels = [
        Panel("mean delay, ms", loads, [(100 * s.load, s.delay_s * 1e3) for s in states], []),
        Panel("loss, %", loads, [(100 * s.load, s.loss * 100) for s in states], []),
    ]
    caption = (
        "10 Mbit/s, 50 packets, Pareto on-off sources with packets of 512 bytes on average. The "
        "paper's Figure 3 is not available; the later experiments use these delays and losses."
    )
    svg = latency_panels(
        "Delay and loss of a link by offered load", panels, xlabel="offered load, %", ylabel=""
    )
    return Figure("testbed-load", "Figure 3: the link", caption, svg)


def over_load(runs: FetchRuns) -> Figure:
    """Draws figures 4a and 7 of the testbed paper: fetch latency over load, measured and by models."""
    caption = (
        "nginx on Linux with settings similar to the paper's (Reno, no SACK, initial window 2), "
        "each fetch over a new connection through a link with the delay and loss of that load."
    )
    svg = _panels(runs, "load", "Retrieval latency over load, measured and by model", "offered load, %")
    return Figure("testbed-models", "Figures 4a and 7: models and measurement", caption, svg)


def over_delay(runs: FetchRuns) -> Figure:
    """Draws figure 4b of the testbed paper: fetch latency over delay, measured and by models."""
    caption = "Without loss, every fetch takes a fixed number of round trips."
    svg = _panels(runs, "delay", "Latency grows linearly with delay", "one-way delay, ms")
    return Figure("testbed-delay", "Figure 4b: latency over delay", caption, svg)


def over_loss(runs: FetchRuns) -> Figure:
    """Draws figure 4c of the testbed paper: fetch latency over loss, measured and by models."""
    caption = (
        "Both directions have losses, as in the paper. Without delay, timeouts account for nearly "
        "all of the time."
    )
    svg = _panels(runs, "loss", "Latency grows faster than linearly with loss", "loss of each direction, %")
    return Figure("testbed-loss", "Figure 4c: latency over loss", caption, svg)


def paper_kernel(runs: FetchRuns) -> Figure:
    """Draws figure 7 with simulated hosts that have a kernel of the paper's time."""
    caption = (
        "The same links between simulated hosts with the timers of Linux 2.0 (3 s before the "
        "first sample): the new model is close for every size, Model C far too low."
    )
    title = "Simulated hosts of the paper's time, and models"
    svg = _panels(runs, "load", title, "offered load, %", latency.LINUX_20, "simulated, 95 % interval")
    return Figure("testbed-linux-2.0", "Figure 7 with the paper's kernel", caption, svg)


def _panels(
    runs: FetchRuns,
    over: str,
    title: str,
    xlabel: str,
    server: str = latency.KERNEL,
    label: str = MEASURED_LABEL,
) -> str:
    positions = [case.x for case in latency.cases(runs, over, server)]
    panels = [
        Panel(
            f"{size} KB",
            positions,
            list(zip(positions, latency.latencies(runs, over, size, server), strict=True)),
            [
                Curve(name, list(latency.predicted(runs, name, over, size, server)))
                for name in (NEW, LOW, HIGH)
            ],
        )
        for size in SIZES_KB
    ]
    return latency_panels(title, panels, xlabel=xlabel, ylabel="latency, s", simulated=label)


FIGURES = (link, over_load, over_delay, over_loss, paper_kernel, wan.page_time_changes)
