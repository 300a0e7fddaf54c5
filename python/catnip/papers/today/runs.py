"""Runs of each cell behind its queues, made on demand and reduced to the values that the claims need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catnip import _core
from catnip.analysis import measures
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.papers.rows import Rows, where
from catnip.papers.runs import Runs
from catnip.papers.today.cells import ALL_SETS, DROP_TAIL, FQ_CODEL, PageSet, step

TABLES = ("transfers", "groups", "ports")
MARKED, OTHERS, FILE = "web", "other", "file"
"""Traffic groups: pages whose servers mark, pages of the other servers, and the file transfer."""
LINE = "line"
OLD, OLD_VARIANT = "catnip-e4", "Reno/DropTail"
OLD_QUEUES: Mapping[str, str] = {
    DROP_TAIL: "drop-tail:10",
    "CATNIP-Good": "catnip-good:10",
    "CATNIP-RED": "catnip-red:10",
    FQ_CODEL: "linux-fq-codel:10",
}
"""Queues in the CATNIP paper's network, by name; each replaces the queue of the scenario's variant."""

QUICK = 0.3
"""Share of the pages of a run that a quick run loads."""


@dataclass(frozen=True)
class Pages:
    """Page times with the indices of their runs; an unfinished page counts with its time so far."""

    waited_s: Floats
    run: NDArray[np.intp]

    def quantile(self, q: float, runs: int) -> tuple[Interval, Floats]:
        """Returns the quantile `q` of the page times of all `runs`, s, with a value for each run.

        The mean of the values estimates the quantile, so that values of two queues can be paired.
        """
        times = _core.Times(self.waited_s.tolist(), [True] * len(self.run), self.run.tolist(), runs)
        found = times.quantile(q)
        assert found is not None, "every page is over, or counted as over"
        interval, values = found
        return Interval(*interval), np.asarray(values)


@dataclass(frozen=True)
class Result:
    """Results of the runs of one cell behind one queue."""

    pages: Mapping[str, Pages]
    file_mbps: Floats
    """Rate of the file transfer in each run, Mbit/s; NaN for runs without a file transfer."""
    loss: Mapping[str, Floats]
    """Fraction of arriving packets that the line drops in each run, by priority; NaN without arrivals."""
    queue_s: Floats
    utilization: Floats

    @property
    def runs(self) -> int:
        """Number of runs in the results."""
        return len(self.queue_s)


class CellRuns(Runs):
    """Runs of the cells, made on demand; each cell is run behind all of its queues at once."""

    quick_seeds = 2
    quick_says = f"{100 * QUICK:.0f} % of the pages of each run"

    def usual_seeds(self, name: str) -> int:
        """Returns the number of seeds of a scenario at full length.

        The number is higher for small pages, because a run of them has fewer packets.
        """
        seeds = {page_set.scenario: page_set.seeds for page_set in ALL_SETS.values()}
        return seeds.get(name) or super().usual_seeds(name)

    def cell(self, page_set: str, name: str) -> Mapping[str, Result]:
        """Returns the results of a cell with a set of pages, by queue."""
        return self.cached((page_set, name), lambda: self._cell(ALL_SETS[page_set], name))

    def old(self, name: str, queue: str) -> Floats:
        """Returns mean page times in the CATNIP paper's network with a step's hosts, s: a row per run."""
        return self.cached(("old", name, queue), lambda: self._old(name, queue))

    def _cell(self, page_set: PageSet, name: str) -> Mapping[str, Result]:
        report = self.progress.task(f"{page_set.says}: {name}")
        counted_s, changes = page_set.lasting(QUICK if self.quick else 1)
        of_cell, queues = page_set.cell(name)
        changes = [*of_cell, *(changes if self.quick else ())]
        tables = self.run(page_set.scenario, queues, TABLES, report, changes)
        parts = {table: measures.by_variant(tables[table], len(queues)) for table in TABLES}
        seeds = self.seeds(page_set.scenario)
        return {
            queue: reduced({table: part[index] for table, part in parts.items()}, seeds, counted_s)
            for index, queue in enumerate(queues)
        }

    def _old(self, name: str, queue: str) -> Floats:
        report = self.progress.task(f"the paper's network: {name}, {queue}")
        changes = [*step(name), ("link.bottleneck.queue", OLD_QUEUES[queue])]
        results = self.run(OLD, [OLD_VARIANT], ["pages"], report, changes)
        return measures.page_times(results["pages"], 0, self.seeds(OLD))


def reduced(rows: Mapping[str, Rows], seeds: Sequence[int], counted_s: tuple[float, float]) -> Result:
    """Reduces the rows of one variant's results tables to the values that the claims need."""
    ports, groups, transfers = (rows[name] for name in ("ports", "groups", "transfers"))
    line, files = where(ports, ports["port"] == LINE), where(groups, groups["group"] == FILE)
    return Result(
        pages={
            group: _pages(where(transfers, transfers["group"] == group), seeds, counted_s)
            for group in (MARKED, OTHERS)
        },
        file_mbps=files["goodput_mbps"] if len(files["seed"]) else np.full(len(seeds), np.nan),
        loss={priority: _loss(line, priority) for priority in ("high", "med", "low")},
        queue_s=line["queue_delay_mean_s"],
        utilization=line["utilization"],
    )


def _pages(rows: Rows, seeds: Sequence[int], counted_s: tuple[float, float]) -> Pages:
    first_s, last_s = counted_s
    counted = (rows["start_s"] >= first_s) & (rows["start_s"] < last_s)
    return Pages(rows["waited_s"][counted], np.searchsorted(seeds, rows["seed"][counted]))


def _loss(line: Rows, priority: str) -> Floats:
    arrived = line[f"arrived_{priority}"].astype(float)
    with np.errstate(invalid="ignore"):
        return np.asarray(line[f"dropped_{priority}"] / arrived)
