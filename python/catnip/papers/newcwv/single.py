"""Quantities of single connections, event by event: CWV-S1 to S7, E2 to E5, E10, E12 and E13."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnip.analysis import measures, stats
from catnip.analysis.interval import Interval
from catnip.analysis.measures import Floats
from catnip.base import paths
from catnip.papers.newcwv.runs import SEGMENT, BurstRuns
from catnip.papers.quantity import Quantities
from catnip.papers.rows import Rows, where
from catnip.papers.single_transfer import trace

measured = Quantities()

RTT_S, RTO_S = 0.2, 0.4
HEADERS = 52
INITIAL_WINDOW = 3 * SEGMENT
WARM_UP_S = 5
"""Initial part of the connections of figures 4 and 5 in which cwnd still grows, s."""


@dataclass(frozen=True)
class Moment:
    """State of a sender at an event: cwnd, ssthresh and pipeACK in bytes, and the phase of newCWV."""

    at_s: float
    cwnd: float
    ssthresh: float
    pipe_ack: float
    phase: str


@dataclass(frozen=True)
class Silence:
    """Longest idle period of a server, with the sender's state before and after it."""

    before: Moment
    after: Moment
    sent_s: Floats
    """Transmission times of the segments after the idle period, s."""

    @property
    def gap_s(self) -> float:
        """Time from the last segment before the idle period to the first segment after it, s."""
        return float(self.sent_s[0] - self._last_s)

    _last_s: float = 0.0


@measured
def cwnd_after_silence(runs: BurstRuns, rule: str, idle_s: float) -> float:
    """CWV-S1: cwnd at the first segment after an idle period, segments."""
    return silence(runs, rule, idle_s).after.cwnd / SEGMENT


@measured
def cwnd_after_idle_ratio(runs: BurstRuns, rule: str, idle_s: float) -> float:
    """Ratio of cwnd after an idle period to cwnd before it, with the response `rule`."""
    here = silence(runs, rule, idle_s)
    return here.after.cwnd / here.before.cwnd


@measured
def linux_off_segments(runs: BurstRuns, idle_s: float) -> float:
    """CWV-S1: absolute difference between cwnd after an idle period and the Linux kernel's rule, segments.

    The rule halves cwnd, in whole segments, for each RTO of the idle period, down to three segments.
    """
    here = silence(runs, "linux", idle_s)
    halvings = int((here.gap_s - 1e-9) / RTO_S)
    expected = max(int(here.before.cwnd // SEGMENT) >> halvings, 3) * SEGMENT
    return abs(here.after.cwnd - (expected if halvings else here.before.cwnd)) / SEGMENT


@measured
def cwv_off_bytes(runs: BurstRuns, idle_s: float) -> float:
    """CWV-S2: difference of cwnd or ssthresh after an idle period from RFC 2861, the larger one, bytes."""
    here = silence(runs, "cwv", idle_s)
    cwnd, halvings = int(here.before.cwnd), int(here.gap_s / RTO_S)
    for _ in range(min(halvings, 64)):
        cwnd = max(cwnd // 2, SEGMENT)
    ssthresh = max(here.before.ssthresh, 3 * here.before.cwnd // 4) if halvings else here.before.ssthresh
    return float(max(abs(here.after.cwnd - cwnd), abs(here.after.ssthresh - ssthresh)))


@measured
def newcwv_after_idle_off_bytes(runs: BurstRuns, idle_s: float, rule: str = "newcwv") -> float:
    """CWV-S3, E12: difference of cwnd or ssthresh after an idle period from RFC 7661, the larger one, bytes.

    The RFC's rule is that of section 4.4.3; `rule` is that of the sender.
    """
    here = silence(runs, rule, idle_s)
    cwnd, ssthresh = int(here.before.cwnd), int(here.before.ssthresh)
    # The phase stays validated while the last pipeACK sample is at most a second old. After that, cwnd is
    # halved every five minutes.
    for _ in range(int(idle_s // 300)):
        cwnd, ssthresh = max(cwnd // 2, INITIAL_WINDOW), max(ssthresh, 3 * cwnd // 4)
    return float(max(abs(here.after.cwnd - cwnd), abs(here.after.ssthresh - ssthresh)))


@measured
def pipe_ack_after_silence(runs: BurstRuns, idle_s: float) -> float:
    """CWV-S4: pipeACK at the first segment after an idle period, segments."""
    return silence(runs, "newcwv", idle_s).after.pipe_ack / SEGMENT


@measured
def pipe_ack_after_idle_ratio(runs: BurstRuns) -> float:
    """CWV-S4: ratio of pipeACK after an idle period of 20 ms to pipeACK before it."""
    here = silence(runs, "newcwv", 0.02)
    return here.after.pipe_ack / here.before.pipe_ack


@measured
def phases_around_silence(runs: BurstRuns, idle_s: float) -> str:
    """CWV-S13: phases of newCWV before and after an idle period."""
    here = silence(runs, "newcwv", idle_s)
    return f"{here.before.phase}, {here.after.phase}"


@measured
def pipe_ack_over_rate(runs: BurstRuns) -> float:
    """CWV-S4: median pipeACK of a constant-rate source over the product of its rate and the round trip."""
    rows = _acks(runs.events("newcwv-limited", "newcwv"))
    settled = rows["pipe_ack_bytes"][rows["time_s"] > WARM_UP_S]
    return float(np.median(settled)) / (SEGMENT / 0.01 * RTT_S)


@measured
def window_over_use(runs: BurstRuns, rule: str) -> float:
    """CWV-E3, E4: ratio of a constant-rate source's largest cwnd to its largest amount of data in flight."""
    rows = runs.events("newcwv-limited", rule)
    is_warm = of_server(rows)["time_s"] > WARM_UP_S
    return float(of_server(rows)["cwnd_bytes"][is_warm].max() / flight(rows)[1].max())


@measured
def window_over_present_use(runs: BurstRuns, rule: str) -> float:
    """CWV-E4: ratio of a constant-rate source's last cwnd to its largest amount of data in flight."""
    rows = runs.events("newcwv-limited", rule)
    time_s, used = flight(rows)
    return float(of_server(rows)["cwnd_bytes"][-1] / used[time_s > WARM_UP_S].max())


@measured
def pipe_ack_variation_ratio(runs: BurstRuns) -> Interval:
    """CWV-E5: ratio of the relative variances of pipeACK with and without the maximum filter."""
    without, within = (_filtered(runs, variant, _relative_variance) for variant in FILTERS)
    return stats.ratio(within, without)


@measured
def peak_cwnd(runs: BurstRuns, variant: str) -> Interval:
    """CWV-E5: largest cwnd of each run, mean over the runs, segments."""
    return stats.mean(_filtered(runs, variant, lambda rows: rows["cwnd_bytes"].max() / SEGMENT))


@measured
def peak_cwnd_ratio(runs: BurstRuns) -> Interval:
    """CWV-E5: ratio of the largest cwnd with pipeACK's maximum filter to that without the filter."""
    without, within = (_filtered(runs, name, lambda rows: rows["cwnd_bytes"].max()) for name in FILTERS)
    return stats.ratio(within, without)


@measured
def spread_round_trips(runs: BurstRuns, rule: str) -> float:
    """CWV-S6, E10: time that sending the window after an idle period of 5 s takes, round trips."""
    here = silence(runs, rule, 5)
    window = int(here.after.cwnd // SEGMENT)
    return float(here.sent_s[window - 1] - here.sent_s[0]) / RTT_S


@measured
def spread_ms(runs: BurstRuns, rule: str) -> float:
    """CWV-E10: time that sending the window after an idle period of 5 s takes, ms."""
    return spread_round_trips(runs, rule) * RTT_S * 1e3


@measured
def paced_time_ratio(runs: BurstRuns, variant: str = "paced") -> float:
    """CWV-S6: ratio of the time of a transfer of 5 MB over an idle path with pacing to that without.

    `variant` paces one window per round trip, or the number of windows that its name states.
    """
    scenario = paths.scenario("newcwv-long")
    rows = scenario.run(list(scenario.variants), [runs.first_seed], ["connections"], 0, None)["connections"]
    parts = {name: measures.select(rows, index) for index, name in enumerate(scenario.variants)}
    durations_s = {name: float((part["acked_s"] - part["start_s"])[0]) for name, part in parts.items()}
    return durations_s[variant] / durations_s["at once"]


@measured
def timeouts_of_drops(_runs: BurstRuns, recovery: str, lost: Sequence[int]) -> str:
    """CWV-S7: number of timeouts of a transfer of 100 packets that loses the packets `lost`."""
    link = {"rate": "10Mbit", "delay": "50ms", "queue": "drop-tail:100"}
    return str(list(trace("ns2-2.35", 100, lost, recovery=recovery, **link)["event"]).count("rto"))


@measured
def restarts_of(runs: BurstRuns, variant: str) -> float:
    """CWV-E2: number of times that cwnd falls to one segment in the 15 s of figure 2."""
    rows = of_server(runs.events("newcwv-versions", variant))
    small = rows["cwnd_bytes"] <= 1000
    return float((np.diff(small.astype(int)) == 1).sum())


@measured
def timeouts_of_version(runs: BurstRuns, variant: str) -> str:
    """CWV-E2: number of expired retransmission timers in the long transfer of figure 2."""
    return str(int((runs.events("newcwv-versions", variant)["kind"] == "rto").sum()))


@measured
def settled_window(runs: BurstRuns, variant: str) -> float:
    """CWV-E2: mean cwnd after the first five seconds of figure 2's long transfer, segments of 1000 bytes."""
    rows = of_server(runs.events("newcwv-versions", variant))
    return float(rows["cwnd_bytes"][rows["time_s"] > 6].mean() / 1000)


@measured
def cwnd_after_loss_off_segments(runs: BurstRuns, variant: str) -> float:
    """CWV-E13: absolute difference between cwnd after a loss recovery and its value in RFC 7661, segments.

    That value is (max(pipeACK, LossFlightSize) - R) / 2, where R is the amount of retransmitted data.
    """
    rows = runs.events("newcwv-loss", variant)
    server = of_server(rows)
    is_retransmission = _retransmissions(server)
    first, last = int(np.flatnonzero(is_retransmission)[0]), int(np.flatnonzero(is_retransmission)[-1])
    phase = server["phase"][first - 1]
    assert phase == "non-validated", phase
    in_flight, used = flight(rows), server["pipe_ack_bytes"][first - 1]
    lost_at_s = server["time_s"][first]
    at_loss = float(in_flight[1][in_flight[0] <= lost_at_s][-1])
    retransmitted = SEGMENT * len(np.unique(server["seq_bytes"][is_retransmission]))
    end_byte = server["seq_bytes"][: first + 1].max() + SEGMENT
    over = (
        (server["kind"] == "ack")
        & (server["seq_bytes"] >= end_byte)
        & (np.arange(len(is_retransmission)) > last)
    )
    after = float(server["cwnd_bytes"][np.flatnonzero(over)[0]])
    expected = max((max(np.nan_to_num(used), at_loss) - retransmitted) / 2, SEGMENT)
    return float(abs(after - expected) / SEGMENT)


@measured
def measured_round_trip_ms(runs: BurstRuns) -> float:
    """CWV-S8: shortest round-trip time of a connection without a rate limit, ms."""
    return 1e3 * float(round_trips_s(runs.events("newcwv-silence", _name("restart", 5))).min())


@measured
def link_mbps(runs: BurstRuns) -> float:
    """CWV-S8: largest rate of a transfer over the bottleneck in any second, headers included, Mbit/s."""
    acks = _acks(runs.events("newcwv-alone", "NewReno"))
    grid = np.arange(10, 290)
    reached = np.interp(grid, acks["time_s"], acks["seq_bytes"])
    return float(np.diff(reached).max() * 8 * (SEGMENT + HEADERS) / SEGMENT / 1e6)


@measured
def packets_in_buffer(runs: BurstRuns) -> str:
    """CWV-S8: number of packets that an idle bottleneck accepts if thirty full-sized ones arrive at once."""
    rows = runs.events("newcwv-alone", "thirty segments at once")
    first_s = of_server(rows)["time_s"][0]
    dropped = (rows["kind"] == "drop") & (rows["time_s"] < first_s + RTT_S / 2)
    return str(30 - int(dropped.sum()))


@measured
def utilization_alone(runs: BurstRuns, buffer_kb: int = 30) -> float:
    """CWV-S10: utilization of the bottleneck by the file transfer without other traffic."""
    changes = () if buffer_kb == 30 else (("define.queue", f"drop-tail:{1000 * buffer_kb}B"),)
    scenario = paths.scenario("newcwv-alone", changes)
    ports = measures.select(scenario.run(["NewReno"], [runs.first_seed], ["ports"], 0, None)["ports"], 0)
    return float(ports["utilization"][ports["port"] == "bottleneck"][0])


@measured
def found_bursts(runs: BurstRuns) -> str:
    """CWV-S11: sizes (bytes) of the bursts found for a connection with two responses of 200 000 bytes."""
    scenario = paths.scenario("newcwv-silence")
    rows = scenario.run([_name("newcwv", 5)], [runs.first_seed], ["bursts"], 0, None)["bursts"]
    return ", ".join(str(int(size)) for size in rows["bytes"])


@measured
def found_silence_off_ms(runs: BurstRuns) -> float:
    """CWV-S11: absolute difference between the idle period in the table `bursts` and 5 s, ms.

    The scenario configures 5 s.
    """
    scenario = paths.scenario("newcwv-silence")
    rows = scenario.run([_name("newcwv", 5)], [runs.first_seed], ["bursts"], 0, None)["bursts"]
    # The client sends the last ACK when the last byte arrives, and the request five seconds later, over the
    # same path.
    return 1e3 * abs(float(rows["idle_s"][1]) - 5)


@measured
def traced(runs: BurstRuns) -> str:
    """CWV-S13: names of the columns of the table `events` that hold the sender's state."""
    rows = runs.events("newcwv-silence", _name("newcwv", 5))
    names = ("time_s", "cwnd_bytes", "ssthresh_bytes", "pipe_ack_bytes", "phase")
    return ", ".join(name for name in names if name in rows)


FILTERS = ("last sample", "largest of five")


def silence(runs: BurstRuns, rule: str, idle_s: float) -> Silence:
    """Returns a sender's longest idle period, with its state around it, for the response `rule`."""
    rows = of_server(runs.events("newcwv-silence", _name(rule, idle_s)))
    sends = np.flatnonzero(rows["kind"] == "send")
    sent_s = rows["time_s"][sends]
    cut = int(np.argmax(np.diff(sent_s)))
    after = sends[cut + 1]
    return Silence(_moment(rows, after - 1), _moment(rows, after), sent_s[cut + 1 :], float(sent_s[cut]))


def of_server(rows: Rows) -> Rows:
    """Returns the events of the sender of documents, with signed integers."""
    here = where(rows, rows["end"] == "server")
    # Signed integers, so that differences can be negative.
    return here | {name: here[name].astype(np.int64) for name in ("seq_bytes", "wire_bytes")}


def flight(rows: Rows) -> tuple[Floats, Floats]:
    """Returns the times of the server's transmissions, s, and the bytes in flight at these times."""
    server = of_server(rows)
    is_send, is_ack = server["kind"] == "send", server["kind"] == "ack"
    acked = np.maximum.accumulate(np.where(is_ack, server["seq_bytes"], 0))
    ends = np.where(is_send, server["seq_bytes"] + np.maximum(server["wire_bytes"] - HEADERS, 0), 0)
    sent = np.maximum.accumulate(ends)
    return server["time_s"][is_send], (sent - acked)[is_send].astype(float)


def round_trips_s(rows: Rows) -> Floats:
    """Returns the round-trip times that the ACKs in a sender's events measure, s.

    A round trip lasts from the transmission of the newest acknowledged segment that was sent once to its ACK.
    Only ACKs without delay are included.
    """
    server = of_server(rows)
    is_retransmission = _retransmissions(server)
    first = (server["kind"] == "send") & ~is_retransmission
    ends = server["seq_bytes"][first] + np.maximum(server["wire_bytes"][first] - HEADERS, 0)
    acks = _acks(rows)
    newest = np.searchsorted(ends, acks["seq_bytes"], side="right") - 1
    known = newest >= 0
    times = acks["time_s"][known] - server["time_s"][first][newest[known]]
    # Only an ACK of two segments in order is immediate. Other ACKs were delayed, or follow a filled gap.
    newly_acked = np.diff(acks["seq_bytes"][known], prepend=0)
    calm = acks["dupacks"][known] == 0
    fresh = (newly_acked == 2 * SEGMENT) & calm & np.concatenate([[True], calm[:-1]])
    return np.asarray(times[fresh], dtype=np.float64)


def _acks(rows: Rows) -> Rows:
    server = of_server(rows)
    return where(server, server["kind"] == "ack")


def _retransmissions(server: Rows) -> NDArray[Any]:
    sends = server["kind"] == "send"
    highest = np.maximum.accumulate(np.where(sends, server["seq_bytes"], -1))
    return np.asarray(sends & (server["seq_bytes"] <= np.concatenate([[-1], highest[:-1]])))


def _moment(rows: Rows, at: int) -> Moment:
    names = ("time_s", "cwnd_bytes", "ssthresh_bytes", "pipe_ack_bytes")
    at_s, cwnd, ssthresh, pipe_ack = (float(rows[name][at]) for name in names)
    return Moment(at_s, cwnd, ssthresh, pipe_ack, str(rows["phase"][at]))


def _filtered(runs: BurstRuns, variant: str, statistic: Any) -> Floats:
    seeds = runs.first_seeds(paths.scenario("newcwv-filter").seeds)
    runs.count_sample(len(seeds))
    values = []
    for seed in seeds:
        rows = of_server(runs.events("newcwv-filter", variant, seed))
        values.append(statistic(where(rows, rows["time_s"] > WARM_UP_S)))
    return np.array(values, dtype=np.float64)


def _relative_variance(rows: Rows) -> float:
    known = rows["pipe_ack_bytes"][~np.isnan(rows["pipe_ack_bytes"])]
    return float(known.var() / known.mean() ** 2)


def _name(rule: str, idle_s: float) -> str:
    return f"{rule} / idle_s=constant:value={idle_s:g}"
