"""Runs on the workers of a Dask cluster: the scenario travels by value, and rows as bytes."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, TypeAlias

import dask
from distributed import Client, KilledWorker, LocalCluster, Security, as_completed

from catnip._core import InputError, Scenario, __version__
from catnip.store import arrow
from catnip.store.runs import Pending, Request, Task, next_size
from catnip.store.tables import CodedTable

CONNECT_S = 20
"""Time within which a scheduler must answer, s."""
PAUSE_S = 0.2
"""Time after which a scheduler is asked again, s."""
MOST_DEATHS = 3
"""Number of workers that may die at the same task."""
IN_FLIGHT = 2
"""Number of tasks that each worker has or waits for."""
Bundle: TypeAlias = tuple[str, str, list[tuple[str, str]], dict[str, bytes]]
# What takes a task of seconds needs neither Dask's dashboard nor more than a failure or two of its worker.
SETTINGS = {
    "distributed.scheduler.allowed-failures": MOST_DEATHS - 1,
    "distributed.comm.timeouts.connect": f"{CONNECT_S}s",
    "distributed.worker.daemon": True,
    "distributed.admin.large-graph-warning-threshold": "1GB",
}


@contextmanager
def connected(address: str, threads: int) -> Iterator["Workers"]:
    """Connects to the scheduler at an address during the block; `local` starts one with its workers.

    A local one has a worker for each of `threads` cores (0: all), listens on the loopback only, and speaks
    only with who has its keys, which it has made for itself. Raises InputError.
    """
    with dask.config.set(SETTINGS):
        if address == "local":
            keys = Security.temporary()
            with (
                LocalCluster(
                    n_workers=threads or os.cpu_count() or 1,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    protocol="tls://",
                    security=keys,
                    dashboard_address=None,
                    worker_dashboard_address=None,
                ) as cluster,
                Client(cluster, security=keys) as client,
            ):
                yield Workers(client, address)
            return
        try:
            client = Client(address, timeout=CONNECT_S)
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"--dask: {address}: cannot connect: {reason}") from None
        with client:
            yield Workers(client, address)


@dataclass(frozen=True)
class Workers:
    """Workers of a cluster; implements `runs.Executor`."""

    client: Client
    address: str

    def execute(
        self,
        request: Request,
        pending: Pending,
        add: Callable[[Task, Mapping[str, CodedTable]], None],
        report: Callable[[int], None],
    ) -> None:
        """Executes what is pending on all workers. Raises InputError if a task kills its workers."""
        count = len(self.client.scheduler_info(n_workers=-1)["workers"])
        if count == 0:
            raise InputError(f"--dask: {self.address}: has no workers")
        bundle = request.scenario.bundle()
        key = _digest(bundle)
        there = self._scattered(bundle)
        doing: dict[Any, Task] = {}
        deaths: Counter[Task] = Counter()
        size = 4
        finished = as_completed()

        def submit(task: Task | None) -> None:
            if task is not None:
                names = [request.variants[variant] for variant in task.variants]
                seeds = (task.first, task.end)
                arguments = (__version__, key, there, names, seeds, list(request.tables), request.series)
                future = self.client.submit(work, *arguments, pure=False)
                doing[future] = task
                finished.add(future)

        for _ in range(IN_FLIGHT * count):
            submit(pending.take(size))
        for future in finished:
            task = doing.pop(future)
            try:
                tables, seconds = self._result(future)
            except KilledWorker:
                raise self._deadly(request, task) from None
            except CancelledError:
                # All workers that had the scenario have died. One of their tasks may be the reason.
                deaths[task] += 1
                if deaths[task] == MOST_DEATHS:
                    raise self._deadly(request, task) from None
                there = self._scattered(bundle)
                submit(task)
                continue
            add(task, tables)
            report(0)
            size = next_size(task.runs, seconds)
            submit(pending.take(size))

    def _scattered(self, bundle: Bundle) -> Any:
        """Returns the scenario on all workers; waits for the next one if there is none."""
        until_s = perf_counter() + CONNECT_S
        while perf_counter() < until_s:
            # A worker may die meanwhile, or not yet be missed.
            with suppress(OSError):
                self.client.wait_for_workers(1, timeout=CONNECT_S)
                [there] = self.client.scatter([bundle], broadcast=True, hash=False)
                return there
            sleep(PAUSE_S)
        raise InputError(f"--dask: {self.address}: has no workers any more")

    def _deadly(self, request: Request, task: Task) -> InputError:
        at = f"{request.variants[task.variants[0]]}, seeds {task.first} to {task.end - 1}"
        if len(task.variants) > 1:
            at += f", or one of {len(task.variants) - 1} points after it"
        return InputError(f"--dask: {self.address}: three workers have died at {at}")

    def _result(self, future: Any) -> tuple[dict[str, CodedTable], float]:
        try:
            refused, packed, seconds = future.result()
        except ModuleNotFoundError as error:
            raise InputError(f"--dask: {self.address}: a worker has no {error.name}") from None
        if refused:
            raise InputError(f"--dask: {self.address}: {refused}")
        return {name: arrow.unpacked(table) for name, table in packed.items()}, seconds


_known: dict[str, Scenario] = {}


def work(
    version: str,
    key: str,
    bundle: Bundle,
    variants: Sequence[str],
    seeds: tuple[int, int],
    tables: list[str],
    series: str | None,
) -> tuple[str, dict[str, bytes], float]:
    """Executes runs on a worker.

    Returns the reason why it refuses them, or none; the tables as bytes; and how long it took, s.
    """
    if version != __version__:
        return f"a worker has CATNIP {__version__}, and this is {version}", {}, 0.0
    if key not in _known:
        _known.clear()
        _known[key] = Scenario.from_bundle(*bundle)
    began_s = perf_counter()
    try:
        made = _known[key].run(list(variants), list(range(*seeds)), tables, 1, None, series, coded=True)
    except InputError as error:
        return str(error), {}, 0.0
    return "", {name: arrow.packed(table) for name, table in made.items()}, perf_counter() - began_s


def _digest(bundle: Bundle) -> str:
    path, text, changes, files = bundle
    digest = hashlib.sha256(repr((str(path), text, changes)).encode())
    for name, contents in sorted(files.items()):
        digest.update(repr(str(Path(name))).encode())
        digest.update(hashlib.sha256(contents).digest())
    return digest.hexdigest()
