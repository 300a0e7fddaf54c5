"""Bursts fetched by a real client over an emulated router, and simulated bursts (CWV-S14, S15, E6 to E11).

Servers are simulated or use the kernel's TCP. The trace, its links and the time are the same in all runs. A
response is identified by its connection and its first byte, so variants are compared burst by burst. Clients
measure from a request to the last byte of its response, simulated servers from the first segment to the last
ACK. Both are the same duration half a round trip apart, up to the delay of that ACK.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from catnip._core import InputError
from catnip.analysis import bursts, measures, resampling, stats
from catnip.analysis.bursts import Pairs, Rows
from catnip.analysis.interval import Interval
from catnip.base import paths
from catnip.base.programs import cannot_control
from catnip.papers.emulation import emulate, is_red, unaccounted
from catnip.papers.newcwv.runs import NEW_CWV, NEW_RENO, PACED
from catnip.papers.quantity import Quantities
from catnip.papers.runs import Runs
from catnip.papers.unavailable import Unavailable
from catnip.report.model import Table as ReportTable
from catnip.store.tables import Table as ResultTable

measured = Quantities()

FREE, CONGESTED, SHARED = "free", "congested", "shared"
SETTINGS = (FREE, CONGESTED, SHARED)
BUFFER_KB = 30
"""Size of the bottleneck's buffer in the paper, in KB."""
RENO, CUBIC = "Reno of the kernel", "CUBIC of the kernel"
KERNEL_CWV, KERNEL_PACED = "newCWV of the kernel", "newCWV of the kernel, paced"
SYSTEMS = (NEW_RENO, NEW_CWV, PACED, RENO, CUBIC)
OF_THE_KERNEL = (RENO, KERNEL_CWV, KERNEL_PACED)
"""Systems whose server uses the kernel's TCP, measured while an agent provides newCWV to the kernel."""
BESIDE = {RENO: "Reno as Linux", CUBIC: "CUBIC as Linux", KERNEL_CWV: NEW_CWV, KERNEL_PACED: PACED}
"""Simulated counterpart of each system that uses the kernel; each other system is its own counterpart."""

EMULATED, SIMULATED = "newcwv-real", "newcwv-short"
FULL_S, QUICK_S = 300.0, 45.0
MIN_BYTES = 5_000
"""Smallest size of a burst that counts, bytes; smaller bursts fit into the initial window."""
SHORTEST_BYTES = 200
"""Upper bound of the size of a response header, bytes. Shorter responses of the trace cannot be
reproduced."""
AT_ONCE_S = 0.3
"""Duration below which a response is assumed to take one round trip, s; less than two round trips."""
TRIES = 2
SIDE_BY_SIDE = 15
BOTTLENECK, FILE = "bottleneck", "sink"
OPENED_BEFORE = {FREE: 0, CONGESTED: 0, SHARED: 1}
"""Number of connections, by setting, that precede those of the trace: that of the file transfer, if any."""


@dataclass(frozen=True)
class Variant:
    """Setting and system of a run; `simulated` selects the simulated counterpart of the measurement."""

    setting: str
    system: str
    simulated: bool = False

    @property
    def name(self) -> str:
        """Name of the variant in the scenario of the emulation or the simulation."""
        system = BESIDE.get(self.system, self.system) if self.simulated else self.system
        return f"{self.setting}: {system}"


@dataclass(frozen=True)
class Run:
    """Results of one run of a `Variant`."""

    responses: Rows
    """Responses of the Web server, in columns of the table `bursts`; the times are those of the client if the
    client is real."""
    ports: Rows
    duration_s: float
    sent: int
    """Number of data segments sent by the Web server."""
    retransmitted: int
    """Number of retransmissions among `sent`."""
    certificate: Mapping[str, Any] | None = None
    broken: int = 0
    """Number of connections that ended early."""

    @property
    def is_red(self) -> bool:
        """True if the run's certificate is red."""
        return self.certificate is not None and is_red(self.certificate)

    @cached_property
    def dropped_pct(self) -> float:
        """Share of the packets towards the clients that the router drops, of all traffic, percent."""
        port = self._port(BOTTLENECK)
        names = [
            f"{counter}_{priority}"
            for counter in ("dropped", "arrived")
            for priority in ("high", "med", "low")
        ]
        counts = [port[name] for name in names]
        return 100 * sum(counts[:3]) / max(sum(counts[3:]), 1)

    @cached_property
    def file_kbps(self) -> float:
        """Throughput of the file transfer at its receiver, headers included, kbit/s."""
        return self._port(FILE)["delivered_bytes"] * 8 / self.duration_s / 1e3

    def _port(self, name: str) -> dict[str, float]:
        index = int(np.flatnonzero(self.ports["port"] == name)[0])
        return {
            key: float(values[index]) for key, values in self.ports.items() if key not in ("port", "group")
        }


@dataclass(frozen=True)
class RealRuns:
    """Runs of all variants with one trace."""

    seed: int
    trace_bytes: Mapping[tuple[int, int], int]
    """Length of each response in the trace, bytes, by connection and first byte."""
    runs: Mapping[Variant, Run]

    def run(self, setting: str, system: str, simulated: bool = False) -> Run:
        """Returns the measured (or, if `simulated` is set, the simulated) run of a setting and system."""
        return self.runs[Variant(setting, system, simulated)]

    @property
    def emulated(self) -> list[Run]:
        """Measured runs, which were emulated in real time."""
        return [run for variant, run in self.runs.items() if not variant.simulated]

    def pairs(self, reference: Variant, other: Variant) -> Pairs:
        """Returns the responses that occur in the runs of both variants, paired."""
        return pair(self.runs[reference].responses, self.runs[other].responses)


def of(runs: Runs) -> RealRuns:
    """Returns the runs of all settings and systems, which are executed at the first call.

    Quick runs are shorter.
    """
    return runs.cached("real", lambda: measure(runs, SYSTEMS, FULL_S, SETTINGS))


@measured
def red_certificates(runs: Runs) -> str:
    """CWV-S14: number of runs whose router has a red certificate in both tries."""
    return str(sum(run.is_red for run in of(runs).emulated))


@measured
def router_lateness_ms(runs: Runs) -> float:
    """CWV-S14: 99th percentile of the emulator's lateness, largest over all runs and hosts, ms."""
    lateness_us = []
    for run in of(runs).emulated:
        certificate = run.certificate or {}
        lateness_us += [host["lateness_us"][1] for host in (certificate, *certificate["hosts"])]
    return float(max(lateness_us)) / 1e3


@measured
def unaccounted_packets(runs: Runs) -> str:
    """CWV-S14: number of packets unaccounted for by links and hosts.

    A link's packets are accounted for if they left the link, were dropped or are held. Packets that hosts
    missed count as unaccounted for.
    """
    return str(sum(unaccounted(run.certificate or {}) for run in of(runs).emulated))


@measured
def rate_off_pct(runs: Runs) -> float:
    """CWV-S14: largest relative difference of the bottleneck's rate while busy from 2 Mbit/s, percent."""
    off = [
        100 * abs(_bottleneck(run)["busy_rate"] / 2e6 - 1)
        for variant, run in of(runs).runs.items()
        if not variant.simulated and variant.setting != FREE
    ]
    return float(max(off, default=0.0))


@measured
def broken_connections(runs: Runs) -> str:
    """CWV-S15: number of connections that a server or its kernel ended early."""
    return str(sum(run.broken for run in of(runs).emulated))


@measured
def responses_of_another_size(runs: Runs) -> str:
    """CWV-S15: number of responses whose length differs by more than a byte from that in the trace.

    Responses that are shorter than a header in the trace are not counted.
    """
    known = of(runs)
    mismatches = 0
    for run in known.emulated:
        columns = (run.responses[name].tolist() for name in ("connection", "first_byte", "bytes"))
        for connection, first_byte, size in zip(*columns, strict=True):
            expected_bytes = known.trace_bytes[connection, first_byte]
            # The header is shorter if the body's length has fewer digits, so some responses are one byte
            # short.
            mismatches += not 0 <= expected_bytes - size <= 1 and expected_bytes > SHORTEST_BYTES
    return str(mismatches)


@measured
def real_time_s(
    runs: Runs, setting: str, system: str, simulated: bool = False, above_bytes: float = MIN_BYTES
) -> Interval:
    """CWV-E6 to E9: mean time of responses above `above_bytes`, s.

    A response ends with its last byte or, if simulated, with its last ACK.
    """
    rows = of(runs).run(setting, system, simulated).responses
    return resampling.mean(rows["time_s"][rows["bytes"] > above_bytes])


@measured
def over_simulated(runs: Runs, setting: str, system: str, above_bytes: float = MIN_BYTES) -> Interval:
    """CWV-S15: ratio of the measured to the simulated time of the responses that occur in both runs."""
    here = beside_simulated(runs, setting, system, above_bytes)
    return stats.ratio(here.other["time_s"], here.reference["time_s"])


@measured
def real_gain_pct(
    runs: Runs,
    setting: str,
    system: str,
    above_bytes: float = MIN_BYTES,
    idle_s: float = 1.0,
    simulated: bool = False,
    reference: str = NEW_RENO,
) -> Interval:
    """CWV-E6 to E9: mean reduction of response times relative to the system `reference`, percent.

    The responses are above `above_bytes` and follow idle periods above `idle_s`.
    """
    here = class_of(runs, setting, system, above_bytes, idle_s, simulated, reference)
    return bursts.gain(here, [of(runs).seed])


@measured
def file_kbps(runs: Runs, system: str, simulated: bool = False) -> float:
    """CWV-E11: throughput of the file transfer beside the bursts of a system, kbit/s."""
    return of(runs).run(SHARED, system, simulated).file_kbps


@measured
def real_spread_ms(runs: Runs, system: str, quantile: float = 0.5, reference: str = NEW_CWV) -> float:
    """CWV-E10: quantile of the time from the first to the last byte of a response at the client, ms.

    The path has no rate limit. The responses are above 20 KB, follow more than 1 s of idle time, and newCWV
    sends them within one round trip.
    """
    return spread_ms(class_of(runs, FREE, system, 20_000, 1.0, reference=reference), quantile)


def pair(reference: Rows, other: Rows) -> Pairs:
    """Pairs each burst of one run with the same burst of another run, in the columns that both have."""
    joined = {key: np.concatenate([reference[key], other[key]]) for key in reference if key in other}
    sides = np.repeat([0, 1], [len(reference["bytes"]), len(other["bytes"])])
    return bursts.pair({**joined, "variant": sides}, 0, 1)


def class_of(
    runs: Runs,
    setting: str,
    system: str,
    above_bytes: float,
    idle_s: float,
    simulated: bool = False,
    reference: str = NEW_RENO,
) -> Pairs:
    """Returns the responses above a size and idle time of `system`, each paired with that of `reference`."""
    sides = (Variant(setting, name, simulated) for name in (reference, system))
    return of(runs).pairs(*sides).within(above_bytes, idle_s)


def beside_simulated(runs: Runs, setting: str, system: str, above_bytes: float = MIN_BYTES) -> Pairs:
    """Returns the measured responses above a size, each paired with the same response in the simulation."""
    sides = Variant(setting, system, simulated=True), Variant(setting, system)
    return of(runs).pairs(*sides).within(above_bytes, 0)


def spread_ms(both: Pairs, quantile: float = 0.5) -> float:
    """Returns a quantile of the time from the first to the last byte of the responses `both.other`, ms.

    Only responses that take less than `AT_ONCE_S` in the reference count.
    """
    at_once = both.reference["time_s"] < AT_ONCE_S
    spread_s = (both.other["time_s"] - both.other["first_s"])[at_once]
    return 1e3 * float(np.quantile(spread_s, quantile)) if len(spread_s) else float("nan")


def table(runs: Runs) -> ReportTable:
    """Returns the table of measured and simulated times, gains and losses of all variants."""
    known, rows = of(runs), []
    for variant, run in known.runs.items():
        setting, system, simulated = variant.setting, variant.system, variant.simulated
        gains = [_gain_text(runs, variant, above_bytes) for above_bytes in (5_000, 20_000, 80_000)]
        rows.append(
            [
                f"{variant.name}, {'simulated' if simulated else 'measured'}",
                str((run.responses["bytes"] > MIN_BYTES).sum()),
                str(real_time_s(runs, setting, system, simulated)),
                *gains,
                f"{100 * run.retransmitted / run.sent:.2f}",
                f"{run.dropped_pct:.2f}",
                f"{run.file_kbps:.0f}" if setting == SHARED else "",
            ]
        )
    columns = [
        "",
        "bursts above 5 KB",
        "mean, s",
        *(f"gain above {size} KB, %" for size in (5, 20, 80)),
        "sent again, %",
        "dropped at the router, %",
        "file, kbit/s",
    ]
    note = (
        "The same trace, round trip 200 ms; free: no rate limit, congested: 2 Mbit/s and a buffer of 30 KB, "
        "shared: a file beside it. Gains are those of bursts after more than 1 s of "
        "silence over NewReno. Measured times are a real client's, simulated ones the server's."
    )
    return ReportTable("Bursts behind the emulator, and simulated", columns, sorted(rows), note)


def _gain_text(runs: Runs, variant: Variant, above_bytes: float) -> str:
    """Returns the gain of a variant over NewReno as text; empty for NewReno and without responses."""
    here = class_of(runs, variant.setting, variant.system, above_bytes, 1.0, variant.simulated)
    is_known = variant.system != NEW_RENO and len(here.gain_pct) > 0
    return f"{bursts.gain(here, [of(runs).seed])} ({len(here.gain_pct)})" if is_known else ""


def measure(
    runs: Runs,
    systems: Sequence[str],
    full_s: float,
    settings: Sequence[str],
    buffer_kb: int = BUFFER_KB,
) -> RealRuns:
    """Measures these systems in these settings concurrently, and simulates their counterparts.

    `settings` with another buffer than the paper's must have a bottleneck.
    """
    if missing := cannot_control():
        raise Unavailable(missing)
    for_s = QUICK_S if runs.quick else full_s
    variants = [Variant(setting, system) for setting in settings for system in systems]
    changes = [] if buffer_kb == BUFFER_KB else [("define.queue", f"drop-tail:{1000 * buffer_kb}B")]
    simulation = paths.scenario(SIMULATED)
    text, _ = simulation.tmix(simulation.variants[0], "web", "original", runs.first_seed)
    emulation, report = paths.scenario_file(EMULATED), runs.progress.task("bursts behind the emulator")
    with tempfile.TemporaryDirectory(prefix="catnip-newcwv-") as folder:
        trace = Path(folder) / "web.cvec"
        trace.write_text(text, encoding="ascii")
        jobs = {
            variant: partial(_emulate, str(emulation), variant, trace, for_s, runs.first_seed, changes)
            for variant in variants
        }
        name = " ".join([EMULATED, *(value for _, value in changes)])
        results: dict[Variant, Run] = runs.each(name, jobs, SIDE_BY_SIDE, report)
    beside = [Variant(one.setting, one.system, simulated=True) for one in variants]
    simulated = _simulate(beside, for_s, runs.first_seed, changes)
    return RealRuns(runs.first_seed, trace_bytes(text), results | simulated)


def _emulate(
    scenario: str, variant: Variant, trace: Path, for_s: float, seed: int, changes: Sequence[tuple[str, str]]
) -> Run:
    """Emulates one run, at most `TRIES` times, until its certificate is not red."""
    environment = {"CATNIP_TRACE": str(trace), "CATNIP_FOR_S": str(for_s)}
    options = ["--bursts", *(f"--set={key}={value}" for key, value in changes)]
    label = f"{scenario}: {variant.name}"
    for _ in range(TRIES):
        ended = emulate(scenario, variant.name, seed, environment, label, *options)
        if not ended.is_red:
            break
    return read_run(variant, ended.out, ended.err, ended.certificate, ended.tables, seed)


def read_run(
    variant: Variant,
    out: str,
    err: str,
    certificate: Mapping[str, Any],
    tables: Mapping[str, ResultTable],
    seed: int,
) -> Run:
    """Returns a run from the output of client and server and from the emulator's tables and certificate."""
    lines = [json.loads(line) for line in out.splitlines()]
    if len(lines) < 2 or "late_s" not in lines[-1]:
        raise InputError(
            f"newcwv: {variant.name}: the client ended after {len(lines)} responses: {err[-300:]}"
        )
    totals = lines.pop()
    if variant.system in BESIDE:
        counts = [json.loads(line) for line in err.splitlines() if line.startswith('{"sent"')]
    else:
        counts = [measures.select(tables["bursts"], 0, "http")]
    sent, retransmitted = (int(sum(np.sum(one[key]) for one in counts)) for key in ("sent", "retransmitted"))
    responses: Rows = {key: np.array([line[key] for line in lines]) for key in lines[0]}
    return Run(
        responses={**responses, "seed": np.full(len(lines), seed)},
        ports=measures.select(tables["ports"], 0),
        duration_s=float(certificate["links"][0]["certificate"]["duration_s"]),
        sent=sent,
        retransmitted=retransmitted,
        certificate=certificate,
        broken=int(totals["errors"]),
    )


def _simulate(
    variants: Sequence[Variant], for_s: float, seed: int, changes: Sequence[tuple[str, str]]
) -> dict[Variant, Run]:
    """Simulates variants and keeps the responses that end within the real clients' time limit `for_s`."""
    scenario = paths.scenario(SIMULATED, changes)
    tables = scenario.run([variant.name for variant in variants], [seed], ["bursts", "ports", "runs"])
    results = {}
    for index, variant in enumerate(variants):
        rows = _of_trace(tables["bursts"], index, "web", variant)
        ended = rows["start_s"] + rows["time_s"] <= for_s
        known = {key: values[ended] for key, values in rows.items()}
        results[variant] = Run(
            responses=known,
            ports=measures.select(tables["ports"], index),
            duration_s=float(np.asarray(tables["runs"]["end_s"])[index]),
            sent=int(known["sent"].sum()),
            retransmitted=int(known["retransmitted"].sum()),
        )
    return results


def _of_trace(table: ResultTable, index: int, group: str, variant: Variant) -> Rows:
    """Returns the bursts of the Web server, with connections numbered as in the trace."""
    rows = measures.select(table, index, group)
    before = OPENED_BEFORE[variant.setting]
    return {**rows, "connection": rows["connection"].astype(np.int64) - before}


def trace_bytes(text: str) -> dict[tuple[int, int], int]:
    """Returns the length of each response of a Tmix trace, bytes, by its connection and first byte."""
    lengths: dict[tuple[int, int], int] = {}
    connection, first_byte = -1, 0
    for line in text.splitlines():
        tag, _, value = line.partition(" ")
        if tag == "SEQ":
            connection, first_byte = connection + 1, 0
        elif tag == "<":
            lengths[connection, first_byte] = int(value)
            first_byte += int(value)
    return lengths


def _bottleneck(run: Run) -> Mapping[str, Any]:
    """Returns the certificate of the bottleneck link in the direction of the clients."""
    links = (run.certificate or {})["links"]
    up: Mapping[str, Any] = next(link for link in links if link["name"] == BOTTLENECK)["certificate"]["up"]
    return up
