"""Fetches by real clients from a real server over emulated links, and simulated fetches, each run once."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from catnip._core import InputError
from catnip.analysis import resampling
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.base import paths
from catnip.base.programs import cannot_emulate, program
from catnip.papers.emulation import is_red
from catnip.papers.runs import Runs, shifted
from catnip.papers.unavailable import Unavailable
from catnip.store.tables import Table

SIZES_KB = (3, 10, 30)
FILES = {f"{size}": size * 1024 for size in SIZES_KB} | {"bulk": 1 << 20}
FETCHES, QUICK = 10_000, 0.01
"""Number of fetches over a link with losses at full length, and fraction of it in a quick run."""
SERVERS: Mapping[str, tuple[str, str]] = {
    "nginx": ("nginx", "nginx-light"),
    "apache": ("apache2", "apache2-bin"),
}
"""Program and Debian package of each Web server."""
AT_ONCE = 6  # the surrounding link has no addresses for more links
TRIES = 2
TIMEOUT_S, QUICK_TIMEOUT_S = 120.0, 10.0
"""Time after which a fetch is abandoned, at full length and in a quick run, s."""

OLD_STACK: Mapping[str, Any] = {
    "ipv4/tcp_no_metrics_save": 1,
    "ipv4/tcp_congestion_control": "reno",
    "ipv4/tcp_timestamps": 0,
    "ipv4/tcp_sack": 0,
    "ipv4/tcp_early_retrans": 0,
    "ipv4/tcp_recovery": 0,
    "ipv4/tcp_frto": 0,
    "ipv4/tcp_ecn": 0,
}
"""Settings of Linux as close as possible to the paper's 2.0.34: Reno, neither SACK nor tail loss probes.

The first timeout stays 1 s and the minimum timeout 200 ms.
"""

TODAY: Mapping[str, Any] = {"ipv4/tcp_no_metrics_save": 1, "ipv4/tcp_congestion_control": "reno"}
"""Default settings of Linux, but with Reno, because few kernels let a network namespace use CUBIC."""


@dataclass(frozen=True)
class Point:
    """Measurement (point): a link, by options of `catnip link`, and the actions of the client behind it.

    Fetches begin at fixed times, `per_second` of them in a second.
    """

    id: str
    link: Sequence[str]
    file: str = "10"
    count: int = 10
    per_second: float = 20.0
    command: str | None = None
    log: bool = False
    stops: bool = False
    """True if the emulator is stopped during the second of three runs of `command`, and the link red."""


@dataclass(frozen=True)
class Measured:
    """Results of the measurement of a `Point`."""

    point: Point
    out: str
    certificate: Mapping[str, Any]
    log: str | None
    snmp: str = ""
    """Counters of the server's kernel after the measurement, in the format of /proc/net/snmp."""

    @cached_property
    def fetches(self) -> list[dict[str, Any]]:
        """Entries of the client's log, one for each fetch."""
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]

    @cached_property
    def latencies_s(self) -> Floats:
        """Time from the SYN to the last byte of each fetch, s; up to the end of an abandoned fetch."""
        return np.array([fetch.get("latency_s", fetch.get("after_s")) for fetch in self.fetches])

    @cached_property
    def mean_s(self) -> Interval:
        """Mean latency, s; its interval is from resampling, because losses cause a heavy tail."""
        return resampling.mean(self.latencies_s)

    @property
    def errors(self) -> int:
        """Number of fetches that did not end or lacked a part of the file."""
        expected = FILES[self.point.file]
        return sum(fetch.get("bytes") != expected for fetch in self.fetches)

    @property
    def is_red(self) -> bool:
        """True if the measurement does not count (`is_red`) and the link was not stopped on purpose."""
        return is_red(self.certificate) and not self.point.stops


@dataclass
class FetchRuns(Runs):
    """Fetches from real and simulated servers, made on demand.

    The number of seeds is the number of fetches over a link.
    """

    quick_says = f"{FETCHES * QUICK:.0f} fetches over a link, each abandoned after {QUICK_TIMEOUT_S:.0f} s"
    measured: list[Measured] = field(default_factory=list)
    """Results of all measurements so far."""

    @property
    def scale(self) -> float:
        """Number of fetches or runs of this reproduction as a fraction of that at full length."""
        return self.seed_count / FETCHES if self.seed_count else QUICK if self.quick else 1.0

    @property
    def timeout_s(self) -> float:
        """Time after which a fetch is abandoned, s."""
        return QUICK_TIMEOUT_S if self.quick else TIMEOUT_S

    def scaled(self, at_full_length: int, minimum: int = 10) -> int:
        """Returns a number of fetches or runs, scaled from the number at full length; at least `minimum`."""
        return max(minimum, round(at_full_length * self.scale)) * self.block

    def seeds(self, name: str) -> list[int]:
        """Returns the seeds of a simulated scenario, fewer in a quick run."""
        return self.first_seeds(self.scaled(self.usual_seeds(name)))

    def of(
        self,
        name: str,
        points: Sequence[Point],
        stack: Mapping[str, Any] = OLD_STACK,
        server: str = "nginx",
    ) -> dict[str, Measured]:
        """Measures `points` with one server and returns the results by the points' ids.

        A point whose certificate is red is measured again.
        """
        return self.cached(name, lambda: self._of(name, points, stack, server))

    def _of(
        self, name: str, points: Sequence[Point], stack: Mapping[str, Any], server: str
    ) -> dict[str, Measured]:
        if missing := can_run(server):
            raise Unavailable(missing)
        report = self.progress.task(f"testbed, {name}")
        keys = {(name, self.first_seed, self.block, point.id): point.id for point in points}
        results: dict[str, Measured] = {keys[key]: one for key, one in self.parts.known(keys).items()}
        report(len(results), len(points))
        for _ in range(TRIES):
            remaining = [point for point in points if point.id not in results or results[point.id].is_red]
            if not remaining:
                break
            part = shifted(report, len(points) - len(remaining), len(points))
            for one in self._measure(remaining, points, stack, server, part):
                results[one.point.id] = one
                self.parts.put((name, self.first_seed, self.block, one.point.id), one)
            report(sum(not one.is_red for one in results.values()), len(points))
        results = {point.id: results[point.id] for point in points}
        self.count_sample(max((point.count for point in points if point.command is None), default=1))
        self.measured += results.values()
        return results

    def simulated(self, name: str) -> dict[str, dict[int, Floats]]:
        """Returns the latencies of simulated fetches, s, cut at the time limit, by variant and size in KB."""
        return self.cached(("simulated", name), lambda: self._simulated(name))

    def _simulated(self, name: str) -> dict[str, dict[int, Floats]]:
        def by_size(rows: Table) -> dict[int, Floats]:
            times, pages = np.minimum(rows["time_s"], self.timeout_s), np.asarray(rows["page"])
            durations = {size: times[pages == page] for page, size in enumerate(SIZES_KB, 1)}
            self.count_sample(max(map(len, durations.values())))
            return durations

        return self.run_each(name, "pages", by_size, self.seeds(name), paths.scenario(name).title)

    def _measure(
        self,
        points: Sequence[Point],
        of: Sequence[Point],
        stack: Mapping[str, Any],
        server: str,
        report: Callable[[int, int], None],
    ) -> Iterator[Measured]:
        """Yields the results of some points of the group `of` as they end, and reports their number.

        A point is seeded by its index in the group.
        """
        known = {point.id: point for point in points}
        task = {
            "sysctl": dict(stack),
            "files": FILES,
            "server": server,
            "at_once": AT_ONCE,
            "emulator": str(program()),
            "points": [
                {
                    "id": point.id,
                    "file": point.file,
                    "count": point.count,
                    "per_second": point.per_second,
                    "timeout_s": self.timeout_s,
                    "command": point.command,
                    "stops": point.stops,
                    "log": point.log,
                    "link": [*point.link, "--seed", str(self.first_seed + of.index(point))],
                }
                for point in points
            ],
        }
        site = Path(__file__).parents[2] / "testbed" / "site.py"
        # The server has a network namespace of its own, so the machine's settings stay unchanged.
        command = [str(program()), "link", "--quiet", "--", sys.executable, str(site)]
        done = 0
        with (
            tempfile.TemporaryDirectory(prefix="catnip-testbed-") as folder,
            tempfile.TemporaryFile("w+") as task_file,
            tempfile.TemporaryFile("w+") as err,
        ):
            json.dump(task | {"folder": folder}, task_file)
            task_file.seek(0)
            with subprocess.Popen(
                command, stdin=task_file, stdout=subprocess.PIPE, stderr=err, text=True
            ) as running:
                try:
                    for line in running.stdout or ():
                        yield _measured(known, json.loads(line))
                        done += 1
                        report(done, len(points))
                except BaseException:
                    # Interrupted by a caller, not by the terminal, it would go on.
                    running.terminate()
                    running.wait()
                    raise
            err.seek(0)
            errors = err.read().strip().splitlines() or ["no output"]
        if done < len(points):
            raise InputError(f"testbed: only {done} of {len(points)} points were measured: {errors[-1]}")


def _measured(points: Mapping[str, Point], row: Mapping[str, Any]) -> Measured:
    """Returns the result of one of these points, by id, from a row of the site's output."""
    point = points[row["id"]]
    if row["certificate"] is None:
        raise InputError(f"testbed: {point.id}: {row['err'].strip()}")
    one = Measured(point, row["out"], row["certificate"], row["log"], row["snmp"])
    fetched = sum(line.startswith("{") for line in one.out.splitlines())
    if point.command is None and fetched != point.count:
        raise InputError(f"testbed: {point.id}: {fetched} of {point.count} fetches")
    return one


def can_run(*servers: str) -> str | None:
    """Returns the reason why this machine cannot run the testbed with these servers, None if it can."""
    if missing := cannot_emulate():
        return missing
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin"
    for program_name, package in (SERVERS[server] for server in servers):
        if shutil.which(program_name, path=path) is None:
            return f"{program_name}: not installed (apt-get install {package})"
    return None
