"""Transfers by the kernel behind an emulated link, and by the profile linux-6 over a simulated one."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import compress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from catnip import api
from catnip._core import InputError
from catnip.analysis import measures
from catnip.base.programs import cannot_control
from catnip.base.progress import side_by_side
from catnip.papers.emulation import is_red
from catnip.papers.linux_tcp import sender
from catnip.papers.linux_tcp.cases import CONTROLS, QUEUE, RATE, SEGMENT_BYTES, SEGMENTS, Case, scripted
from catnip.papers.linux_tcp.flows import FLOW_S, SETTINGS, Flow, Setting, from_events, from_kernel
from catnip.papers.rows import where
from catnip.papers.runs import Runs
from catnip.papers.unavailable import Unavailable

Key = TypeVar("Key")
Result = TypeVar("Result")

SIDE_BY_SIDE, LONG_SIDE_BY_SIDE, FLOWS_SIDE_BY_SIDE = 6, 30, 4
"""Numbers of concurrent links, by type of transfer. They are low where the link is full, because the capture
must keep up with each packet."""
TRIES = 3
LONG = "long transfers"
"""Name, for `seeds`, of the long transfers, whose number is the number of seeds."""
LONG_TRANSFERS, FLOWS = 60, 12
LONG_S, QUICK_LONG_S = 60.0, 25.0
"""Duration of a long transfer under random loss at full length, and in a quick run, s."""
LOSS_PCT, LONG_DELAY_MS = 1.0, 50
"""Loss rate (percent) and one-way delay (ms) of the long transfers under random loss."""
SETTLED_S = 10.0
"""Initial part of a long transfer that is not evaluated, s: slow start has ended by then."""
POLLED_S, LONG_POLLED_S = 0.004, 0.05
LONGEST_S = 120


@dataclass(frozen=True)
class Transfer:
    """Transmissions of a transfer, with segment numbers from 1 and times, and the sender's counters."""

    times_s: Sequence[float]
    segments: Sequence[int]
    timeouts: int
    probes: int
    done_s: float
    """Time from the first segment to the last ACK, s."""

    @cached_property
    def is_retransmission(self) -> list[bool]:
        """Flags of the transmissions, true for a segment that was sent before."""
        sent: set[int] = set()
        flags = []
        for segment in self.segments:
            flags.append(segment in sent)
            sent.add(segment)
        return flags

    @property
    def retransmitted(self) -> list[int]:
        """Numbers of the retransmitted segments, in the order of the retransmissions."""
        return list(compress(self.segments, self.is_retransmission))


@dataclass(frozen=True)
class Pair:
    """Transfers of a case by the kernel and by the simulator (`ours`)."""

    case: Case
    kernel: Transfer
    ours: Transfer


@dataclass
class TransferRuns(Runs):
    """Transfers by the kernel and by the simulator, made on demand."""

    quick_seeds = 4
    quick_says = f"every eleventh case, long transfers of {QUICK_LONG_S:.0f} s"
    red: int = 0
    """Number of emulated links whose certificate was red in all tries."""

    def usual_seeds(self, name: str) -> int:
        """Returns the number of long transfers at full length."""
        return LONG_TRANSFERS

    @cached_property
    def cases(self) -> list[Case]:
        """Scripted cases to compare."""
        return scripted(self.quick)

    @property
    def long_s(self) -> float:
        """Duration of a long transfer under random loss, s."""
        return QUICK_LONG_S if self.quick else LONG_S

    @cached_property
    def pairs(self) -> list[Pair]:
        """Pairs of transfers of all scripted cases."""
        _require_kernel()
        cases = self.cases
        jobs = {(at, case.name): partial(_by_kernel, case) for at, case in enumerate(cases)}
        theirs = self._measured("cases, by the kernel", jobs, SIDE_BY_SIDE)
        report = self.progress.task("cases, simulated")
        ours = side_by_side([partial(simulated, case) for case in cases], 2, report)
        return [Pair(*three) for three in zip(cases, theirs, ours, strict=True)]

    @cached_property
    def windows(self) -> Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Mean cwnd (segments) of each long transfer, by congestion control: kernel's, then simulator's."""
        _require_kernel()
        seeds, windows = self.seeds(LONG), {}
        for control in CONTROLS:
            jobs = {(control, seed): partial(_long, control, seed, self.long_s) for seed in seeds}
            theirs = self._measured(f"random loss, {control}", jobs, LONG_SIDE_BY_SIDE)
            windows[control] = np.array(theirs), _long_simulated(control, seeds, self.long_s)
        return windows

    @cached_property
    def flows(self) -> Mapping[Setting, tuple[list[Flow], list[Flow]]]:
        """Long transfers with BBR, by link and delay: the kernel's and the simulator's, one for each seed."""
        _require_kernel()
        seeds = self.seeds(LONG)[:FLOWS]
        jobs = {(one, seed): partial(_flow, one, seed) for one in SETTINGS for seed in seeds}
        theirs = self._measured("BBR, by the kernel", jobs, FLOWS_SIDE_BY_SIDE)
        report = self.progress.task("BBR, simulated")
        ours = side_by_side([partial(_flows, one, seeds) for one in SETTINGS], 2, report)
        return {
            setting: (theirs[at * len(seeds) : (at + 1) * len(seeds)], simulated)
            for at, (setting, simulated) in enumerate(zip(SETTINGS, ours, strict=True))
        }

    def _measured(
        self, label: str, jobs: Mapping[Key, Callable[[], tuple[Result, bool]]], at_once: int
    ) -> list[Result]:
        """Returns the results of measurements behind links, and counts the links that are red."""
        ended = self.each("linux-tcp", jobs, at_once, self.progress.task(label))
        self.red += sum(red for _, red in ended.values())
        return [result for result, _ in ended.values()]


def _require_kernel() -> None:
    if missing := cannot_control():
        raise Unavailable(missing)


def _by_kernel(case: Case) -> tuple[Transfer, bool]:
    # The SYN and an ACK precede the data, and the SYN-ACK precedes the ACKs of the data.
    directions = case.directions(before_data=2, before_acks=1)
    output, red = _behind_link(
        {"delay": f"{case.delay_ms}ms", "rate": RATE, "queue": QUEUE} | _options(directions),
        [str(SEGMENTS * SEGMENT_BYTES), case.control, "1" if case.marked else "0", str(POLLED_S)],
    )
    counted = output["counters"]
    transfer = Transfer(
        [at for at, _ in output["segments"]],
        [first // SEGMENT_BYTES + 1 for _, first in output["segments"]],
        counted.get("TCPTimeouts", 0),
        counted.get("TCPLossProbes", 0),
        output["done_s"],
    )
    return transfer, red


def _long(control: str, seed: int, long_s: float) -> tuple[float, bool]:
    link = {"delay": f"{LONG_DELAY_MS}ms", "rate": RATE, "queue": QUEUE}
    options = {**link, "seed": str(seed), "up": f"loss=bernoulli:{LOSS_PCT}%"}
    output, red = _behind_link(options, [f"{long_s}s", control, "0", str(LONG_POLLED_S)])
    return float(np.mean([cwnd for at, cwnd in output["cwnd"] if at > SETTLED_S])), red


def _flow(setting: Setting, seed: int) -> tuple[Flow, bool]:
    link = {"delay": f"{setting.delay_ms}ms", "rate": RATE, "queue": setting.queue, "seed": str(seed)}
    options = link | _options({"data": setting.loss, "acks": {}})
    output, red = _behind_link(options, [f"{FLOW_S}s", "bbr", "0", str(LONG_POLLED_S)])
    return from_kernel(output), red


def _behind_link(options: Mapping[str, str], arguments: Sequence[str]) -> tuple[dict[str, Any], bool]:
    """Returns the sender's output, and true if the link's certificate is red in all tries."""
    for _ in range(TRIES):
        certificate, output = _measure_behind_link(options, arguments)
        if not is_red(certificate):
            break
    return output, is_red(certificate)


def simulated(case: Case) -> Transfer:
    """Simulates a scripted case.

    The sender opens the connection; the ACK of its handshake travels with the data.
    """
    directions = case.directions(before_data=1, before_acks=1)
    tcp = {"control": CONTROLS[case.control], "ecn": "classic" if case.marked else "none"}
    scenario = _scenario(case.delay_ms, directions, tcp, {"packets": SEGMENTS})
    result = api.run(scenario, seeds=[1], tables=["events", "connections"])
    events = result.to_arrow("events").to_pylist()
    sent = [event for event in events if event["end"] == "server" and event["kind"] == "send"]
    connection = result.to_arrow("connections").to_pylist()[0]
    start = sent[0]["time_s"]
    return Transfer(
        [event["time_s"] - start for event in sent],
        [event["seq_bytes"] // SEGMENT_BYTES + 1 for event in sent],
        connection["timeouts"],
        connection["probes"],
        connection["acked_s"] - start,
    )


def _long_simulated(control: str, seeds: Sequence[int], long_s: float) -> NDArray[np.float64]:
    directions = {"data": {"loss": f"bernoulli:{LOSS_PCT}%"}, "acks": {}}
    scenario = _scenario(LONG_DELAY_MS, directions, {"control": CONTROLS[control]}, {"bytes": "endless"})
    scenario["duration"] = f"{long_s:g}s"
    result = api.run(scenario, seeds=seeds, series=f"{LONG_POLLED_S:g}s", tables=["connection_series"])
    series = measures.select(result.tables["connection_series"], 0)
    settled = where(series, series["time_s"] > SETTLED_S)
    return measures.per_seed(settled, "cwnd_bytes", seeds, np.mean) / SEGMENT_BYTES


def _flows(setting: Setting, seeds: Sequence[int]) -> list[Flow]:
    directions = {"data": setting.loss, "acks": {}}
    # Without loss, runs differ only in their start.
    begin = {"bytes": "endless", "start": "uniform:minimum=0s,maximum=20ms"}
    scenario = _scenario(setting.delay_ms, directions, {"control": "bbr"}, begin)
    scenario["duration"] = f"{FLOW_S:g}s"
    scenario["link"]["path"]["queue"] = setting.queue
    return from_events(measures.select(api.run(scenario, seeds=seeds, tables=["events"]).tables["events"], 0))


def _scenario(
    delay_ms: int,
    directions: Mapping[str, Mapping[str, str]],
    tcp: Mapping[str, str],
    file: Mapping[str, Any],
) -> dict[str, Any]:
    link = {"from": "server", "to": "client", "rate": RATE, "delay": f"{delay_ms}ms", "queue": QUEUE}
    return {
        "id": "LNX",
        "title": "A transfer as by Linux",
        "seeds": 1,
        "duration": f"{LONGEST_S}s",
        "node": {name: {"kind": "host", "processing": "none"} for name in ("server", "client")},
        "link": {"path": {**link, "there": directions["data"], "back": directions["acks"]}},
        "tcp": {"profile": "linux-6", **tcp},
        "traffic": {"file": {"kind": "bulk", "from": "server", "to": "client", **file}},
    }


def _options(directions: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Returns the options of `catnip link` for these scenario keys; the sender is behind the link."""
    return {
        option: ",".join(f"{key.replace('_', '-')}={value}" for key, value in keys.items())
        for option, keys in (("up", directions["data"]), ("down", directions["acks"]))
        if keys
    }


def _measure_behind_link(
    options: Mapping[str, str], arguments: Sequence[str]
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Runs a sender behind a link and a receiver outside; returns the certificate and the sender's output."""
    with socket.create_server(("0.0.0.0", 0)) as server, api.link(**options) as link:
        receiver = threading.Thread(target=_receive, args=(server,), daemon=True)
        receiver.start()
        port = server.getsockname()[1]
        command = [sys.executable, str(Path(sender.__file__)), link.outside, str(port), *arguments]
        done = link.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise InputError(f"linux-tcp: the sender failed: {done.stderr.strip().splitlines()[-1]}")
        receiver.join()
    return link.certificate, json.loads(done.stdout)


def _receive(server: socket.socket) -> None:
    server.settimeout(sender.TIMEOUT_S)
    try:
        connection, _ = server.accept()
    except OSError:
        # The sender never connected and reports the reason.
        return
    with connection:
        connection.settimeout(sender.TIMEOUT_S)
        while connection.recv(1 << 20):
            pass
