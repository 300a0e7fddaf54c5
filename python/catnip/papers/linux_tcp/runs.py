"""Transfers by the kernel behind an emulated link, and by the profile linux-6 over a simulated one."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import compress
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from catnip import api
from catnip._core import InputError
from catnip.analysis import measures
from catnip.base.programs import cannot_control, program
from catnip.base.progress import side_by_side
from catnip.papers.emulation import is_red
from catnip.papers.linux_tcp import behind_link, virtual
from catnip.papers.linux_tcp.cases import CONTROLS, QUEUE, RATE, SEGMENT_BYTES, Case, scripted
from catnip.papers.linux_tcp.drawn import drawn
from catnip.papers.linux_tcp.flows import FLOW_S, SETTINGS, Flow, Setting, from_events, from_kernel
from catnip.papers.linux_tcp.virtual import Guest
from catnip.papers.rows import where
from catnip.papers.runs import Runs
from catnip.papers.unavailable import Unavailable
from catnip.report.values import VIRTUAL

Key = TypeVar("Key")
Result = TypeVar("Result")

SIDE_BY_SIDE, LONG_SIDE_BY_SIDE, FLOWS_SIDE_BY_SIDE = 6, 30, 4
"""Numbers of concurrent links, by type of transfer. They are low where the link is full, because the capture
must keep up with each packet."""
CASES_AT_A_TIME, LONG_AT_A_TIME, FLOWS_AT_A_TIME = 30, 6, 4
"""Numbers of transfers of a guest, by type: an interruption loses them, which took some minutes."""
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
    def guest(self) -> Guest | None:
        """Kernel in virtual time that measures; None if this machine's does."""
        if self.kernel == VIRTUAL:
            return virtual.prepared()
        if missing := cannot_control():
            raise Unavailable(missing)
        return None

    @property
    def measured_by(self) -> str:
        """End of a sentence that names the kernel in virtual time; empty for that of this machine."""
        return f", beside Linux {self.kernel_name}" if self.kernel == VIRTUAL else ""

    @property
    def kernel_name(self) -> str:
        """Release of the kernel that measures."""
        if self.kernel == VIRTUAL and self.guest:
            return f"{self.guest.release} in virtual time"
        return platform.release()

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
        return self._pairs("cases", self.cases)

    @cached_property
    def drawn_pairs(self) -> list[Pair]:
        """Pairs of transfers of the cases that the first seed draws."""
        return self._pairs("drawn cases", drawn(self.seeds(LONG)[0]))

    def _pairs(self, label: str, cases: Sequence[Case]) -> list[Pair]:
        jobs = {(at, case.name): _by_kernel(case) for at, case in enumerate(cases)}
        theirs = self._measured(f"{label}, by the kernel", jobs, SIDE_BY_SIDE, CASES_AT_A_TIME)
        report = self.progress.task(f"{label}, simulated")
        ours = side_by_side([partial(simulated, case) for case in cases], 2, report)
        return [Pair(*three) for three in zip(cases, theirs, ours, strict=True)]

    @cached_property
    def windows(self) -> Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Mean cwnd (segments) of each long transfer, by congestion control: kernel's, then simulator's."""
        seeds, windows = self.seeds(LONG), {}
        for control in CONTROLS:
            jobs = {(control, seed): _long(control, seed, self.long_s) for seed in seeds}
            theirs = self._measured(f"random loss, {control}", jobs, LONG_SIDE_BY_SIDE, LONG_AT_A_TIME)
            windows[control] = np.array(theirs), _long_simulated(control, seeds, self.long_s)
        return windows

    @cached_property
    def flows(self) -> Mapping[Setting, tuple[list[Flow], list[Flow]]]:
        """Long transfers with BBR, by link and delay: the kernel's and the simulator's, one for each seed."""
        seeds = self.seeds(LONG)[:FLOWS]
        jobs = {(one, seed): _flow(one, seed) for one in SETTINGS for seed in seeds}
        theirs = self._measured("BBR, by the kernel", jobs, FLOWS_SIDE_BY_SIDE, FLOWS_AT_A_TIME)
        report = self.progress.task("BBR, simulated")
        ours = side_by_side([partial(_flows, one, seeds) for one in SETTINGS], 2, report)
        return {
            setting: (theirs[at * len(seeds) : (at + 1) * len(seeds)], simulated)
            for at, (setting, simulated) in enumerate(zip(SETTINGS, ours, strict=True))
        }

    def _measured(
        self, label: str, jobs: Mapping[Key, "Job[Result]"], at_once: int, at_a_time: int
    ) -> list[Result]:
        """Returns the results of measurements behind links, and counts the links that are red.

        `at_once` of them run concurrently in this kernel, `at_a_time` one after the other in a guest, which
        has no other work.
        """
        report = self.progress.task(label)
        if self.guest is None:
            here = {key: partial(_here, job) for key, job in jobs.items()}
            ended = list(self.each("linux-tcp", here, at_once, report).values())
        else:
            keys = list(jobs)
            chosen = [tuple(keys[at : at + at_a_time]) for at in range(0, len(keys), at_a_time)]
            batches = {some: partial(_in_guest, self.guest, [jobs[key] for key in some]) for some in chosen}
            name = f"linux-tcp by {self.guest.release}"
            of_batches = self.each(name, batches, virtual.GUESTS, report)
            ended = [one for batch in of_batches.values() for one in batch]
        self.red += sum(red for _, red in ended)
        return [result for result, _ in ended]


@dataclass(frozen=True)
class Job(Generic[Result]):
    """Transfer to measure: the options of its link, the arguments of its sender, its output's evaluation."""

    options: Mapping[str, str]
    arguments: Sequence[str]
    evaluate: Callable[[dict[str, Any]], Result]


def _here(job: Job[Result]) -> tuple[Result, bool]:
    """Measures a transfer with this kernel; returns true if the certificate is red in all tries."""
    for _ in range(TRIES):
        try:
            certificate, output = behind_link.transfer(str(program()), job.options, job.arguments)
        except behind_link.Failed as error:
            raise InputError(f"linux-tcp: the sender failed: {error}") from None
        if not is_red(certificate):
            break
    return job.evaluate(output), is_red(certificate)


def _in_guest(guest: Guest, jobs: Sequence[Job[Result]]) -> list[tuple[Result, bool]]:
    """Measures transfers in a guest, once: nothing from outside disturbs the first try."""
    measured = guest.transfers([(job.options, job.arguments) for job in jobs])
    return [
        (job.evaluate(output), is_red(certificate))
        for job, (certificate, output) in zip(jobs, measured, strict=True)
    ]


def _by_kernel(case: Case) -> Job[Transfer]:
    # The SYN and an ACK precede the data, and the SYN-ACK precedes the ACKs of the data.
    directions = case.directions(before_data=2, before_acks=1)
    options = {"delay": f"{case.delay_ms}ms", "rate": case.rate, "queue": case.queue}
    options |= _options(directions)
    size, marks = str(case.segments * SEGMENT_BYTES), "1" if case.marked else "0"
    switches = list(compress(["paced", "late-fin"], [case.paced, not case.fin]))
    if case.window:
        switches.append(f"{behind_link.WINDOW}{case.window * SEGMENT_BYTES}")
    return Job(options, [size, case.control, marks, str(POLLED_S), *switches], _transfer)


def _transfer(output: Mapping[str, Any]) -> Transfer:
    counted = output["counters"]
    return Transfer(
        [at for at, _ in output["segments"]],
        [first // SEGMENT_BYTES + 1 for _, first in output["segments"]],
        counted.get("TCPTimeouts", 0),
        counted.get("TCPLossProbes", 0),
        output["done_s"],
    )


def _long(control: str, seed: int, long_s: float) -> Job[float]:
    link = {"delay": f"{LONG_DELAY_MS}ms", "rate": RATE, "queue": QUEUE}
    options = {**link, "seed": str(seed), "up": f"loss=bernoulli:{LOSS_PCT}%"}
    return Job(options, [f"{long_s}s", control, "0", str(LONG_POLLED_S)], _mean_window)


def _mean_window(output: Mapping[str, Any]) -> float:
    return float(np.mean([cwnd for at, cwnd in output["cwnd"] if at > SETTLED_S]))


def _flow(setting: Setting, seed: int) -> Job[Flow]:
    link = {"delay": f"{setting.delay_ms}ms", "rate": RATE, "queue": setting.queue, "seed": str(seed)}
    options = link | _options({"data": setting.loss, "acks": {}})
    return Job(options, [f"{FLOW_S}s", "bbr", "0", str(LONG_POLLED_S)], from_kernel)


def simulated(case: Case) -> Transfer:
    """Simulates a scripted case.

    The sender opens the connection; the ACK of its handshake travels with the data.
    """
    directions = case.directions(before_data=1, before_acks=1)
    tcp: dict[str, Any] = {"control": CONTROLS.get(case.control, case.control), "fin": case.fin}
    tcp["ecn"] = "classic" if case.marked else "none"
    if case.window:
        tcp["window_segments"] = case.window
    if case.paced:
        tcp["pacing"] = "linux"
    scenario = _scenario(case.delay_ms, directions, tcp, {"packets": case.segments})
    scenario["link"]["path"] |= {"rate": case.rate, "queue": case.queue}
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
    delay_ms: float,
    directions: Mapping[str, Mapping[str, str]],
    tcp: Mapping[str, Any],
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
        # The sender turns off the offload of its device, so that captures have packets.
        "tcp": {"profile": "linux-6", "segmentation_offload": False, **tcp},
        "traffic": {"file": {"kind": "bulk", "from": "server", "to": "client", **file}},
    }


def _options(directions: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Returns the options of `catnip link` for these scenario keys; the sender is behind the link."""
    return {
        option: ",".join(f"{key.replace('_', '-')}={value}" for key, value in keys.items())
        for option, keys in (("up", directions["data"]), ("down", directions["acks"]))
        if keys
    }
