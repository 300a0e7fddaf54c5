"""Tests of the quantities of marks and newCWV in a real kernel: hand-made records, values by hand."""

import json
import math
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pytest import approx
from test_linux_paper import nothing_lost, runs
from test_quantities import Columns
from test_testbed_quantities import HANDSHAKES, bottleneck, emulated

from catnip._core import InputError
from catnip.analysis.interval import Interval
from catnip.analysis.measures import PortLoss
from catnip.papers.linux import captures, network, stack, windows
from catnip.papers.linux.captures import Verdict
from catnip.papers.linux.runs import KernelRuns
from catnip.papers.linux.stack import BASE, LAST, MARKED, OTHERS, SPM, Run
from catnip.papers.testbed import printed
from catnip.papers.testbed.wan import Emulated
from catnip.papers.unavailable import Unavailable

T_3, T_6 = 3.182446, 2.446912  # 97.5 % quantiles of Student's t with 3 and 6 degrees of freedom


def of_each_server(one: KernelRuns, what: str, results: Mapping[Any, Any], at: int) -> KernelRuns:
    """Returns runs that know these results of `what`; the key of a result has its server at index `at`."""
    for server in captures.SERVERS:
        of_server = {key: result for key, result in results.items() if key[at] == server}
        one.cached((what, server), partial(dict, of_server))
    return one


def judged(**verdicts: Verdict) -> KernelRuns:
    """Returns runs with a verdict for each capture; all but the named ones, by marker, are faultless."""
    one = runs(quick=False)
    perfect = Verdict(documents=1, right_documents=1)
    of_cases = {case: verdicts.get(case[0].replace("-", "_"), perfect) for case in captures.cases()}
    return of_each_server(one, "captures", of_cases, 1)


def test_documents_with_a_segment_that_may_be_either_are_not_right() -> None:
    spm = Verdict(
        documents=800,
        right_documents=780,
        undecided_documents=5,
        must_be_high=4000,
        missing_high=2,
        must_be_med=50,
        wrong_med=1,
        must_be_low=600,
        wrong_high=30,
        retransmissions=7,
    )
    known = judged(spm=spm)
    right = captures.right_documents_pct(known, "spm", "nginx")
    # Wilson: 0.975, z = 1.96, 800 trials: centre 0.97273, half 0.01090.
    assert right.mean == approx(97.5) and right.n == 800
    assert right.low == approx(96.17, abs=0.01) and right.high == approx(98.38, abs=0.01)
    assert captures.undecided_documents(known, "spm", "nginx") == "5"
    due = [captures.wrong_marks_pct(known, "spm", "nginx", kind) for kind in ("high", "med", "low")]
    assert [share.mean for share in due] == approx([0.05, 2, 5])
    assert [share.n for share in due] == [4000, 50, 600]
    assert captures.right_documents_pct(known, "last-only", "apache", True).mean == 100
    assert captures.retransmissions(known, "spm", "apache") == 7


def test_losses_and_segments_of_a_capture_select_its_verdict() -> None:
    one = runs(quick=False)
    cases = enumerate(captures.cases())
    shares = {case: Verdict(100, right_documents=at, retransmissions=at) for at, case in cases}
    of_each_server(one, "captures", shares, 1)

    def right(mark: str, server: str, lossy: bool, segments: str = captures.PACED) -> float:
        return round(captures.right_documents_pct(one, mark, server, lossy, segments).mean)

    # Each kind of marks has two servers, without and with loss: partial and full SPM with three kinds of
    # segments each, then the last packets with two kinds, then Algorithm 1.
    assert [right("spm", "nginx", lossy) for lossy in (False, True)] == [12, 13]
    assert right("spm", "apache", True, "single") == 19
    assert right("spm-partial", "nginx", False, "kernel") == 8
    assert right("last-only", "nginx", True, "single") == 29
    assert right("tcp-state", "apache", True) == 35
    assert captures.retransmissions(one, "spm", "nginx") == 13, "with losses"


def test_red_and_damaged_captures_are_counted_over_all_cases() -> None:
    # A marker has two servers, without and with losses. SPM has these four for three kinds of segments, the
    # last packets for two.
    known = judged(
        last_only=Verdict(1, 1, bad_checksums=2, gaps=3, is_red=True), spm=Verdict(1, 1, gaps=1, is_red=True)
    )
    assert captures.red_captures(known) == str(8 + 12)
    assert captures.damaged(known) == str(8 * (2 + 3) + 12)
    assert known.sample == len(captures.cases()) == 36
    assert len(captures.cases(quick=True)) == 16
    with pytest.raises(Unavailable, match="usual segments"):
        captures.right_documents_pct(runs(quick=True), "spm", "nginx", segments="single")


def test_a_verdict_has_what_the_verifier_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = {
        "documents": 12,
        "right_documents": 9,
        "undecided_documents": 1,
        "must_be_high": 30,
        "must_be_med": 10,
        "must_be_low": 20,
        "missing_high": 4,
        "wrong_med": 3,
        "wrong_high": 1,
        "packets": 90,
        "connections": 5,
        "retransmissions": 6,
        "bad_checksums": 7,
        "gaps": 8,
        "faults": ["a", "b", "c", "d", "e", "f"],
    }
    done = SimpleNamespace(returncode=1, stdout=json.dumps(sums), stderr="no agent\n")
    commands: list[list[str]] = []

    def verify(command: list[str], **_: Any) -> SimpleNamespace:
        commands.append(command)
        return done

    monkeypatch.setattr(subprocess, "run", verify)
    monkeypatch.setattr(captures, "program", lambda _: Path("agent"))
    verdict = captures.verified(Path("x.pcap"), "spm", Path("x.txt"))
    options = ["--json", "--mark", "spm", "--acks", "low", "--trace", "x.txt"]
    assert commands == [["agent", "verify", "x.pcap", *options]]
    assert (verdict.documents, verdict.right_documents, verdict.undecided_documents) == (12, 9, 1)
    assert (verdict.must_be_high, verdict.missing_high) == (30, 4)
    assert (verdict.must_be_med, verdict.wrong_med) == (10, 3)
    assert (verdict.must_be_low, verdict.wrong_high) == (20, 1)
    assert (verdict.packets, verdict.connections, verdict.retransmissions) == (90, 5, 6)
    assert (verdict.bad_checksums, verdict.gaps, verdict.faults) == (7, 8, ["a", "b", "c", "d", "e"])
    done.returncode = 2
    with pytest.raises(InputError, match="linux: no agent"):
        captures.verified(Path("x.pcap"), "spm", Path("x.txt"))


def fetched(*values_s: Sequence[float], others: Sequence[float] = (), **fields: Any) -> list[Run]:
    """Returns runs with these fetch times of the server that marks; each has `others` of the other server."""
    same = np.array(others)
    return [Run({MARKED: np.array(of), OTHERS: same}, nothing_lost(), **fields) for of in values_s]


def measured(kernel: Mapping[str, list[Run]], model: Mapping[str, list[Run]] | None = None) -> KernelRuns:
    """Returns runs of CUBIC in the first configuration, in the kernel and in the simulator, by system."""
    one = runs()
    for name, of in (("stack", kernel), ("stack model", model or {})):
        by_key = {("cubic", BASE, system): each for system, each in of.items()}
        one.cached(name, partial(lambda known: known, by_key))
    return one


def test_red_runs_and_failed_fetches_are_counted_over_all_runs() -> None:
    known = measured(
        {
            "DropTail": fetched([1], [1], errors=2, is_red=True),
            LAST: fetched([1], errors=1),
            SPM: fetched([1], is_red=True),
        }
    )
    assert stack.red_runs(known) == "3"
    assert known.sample == 4
    assert stack.failed_fetches(known) == "5"


def test_a_fetch_fails_by_an_error_or_without_the_whole_file_whenever_it_begins() -> None:
    ended = {"server": 0, "size": 8000, "latency_s": 0.5, "bytes": 8000}
    lines: list[dict[str, Any]] = [
        {**ended, "start_s": 5.0},
        {**ended, "start_s": 6.0},
        {**ended, "start_s": 4.0, "bytes": 7999},
        {**ended, "start_s": 3.9, "bytes": 0},
        {**ended, "start_s": 34.9, "server": 1, "error": "refused"},
        {"server": 1, "size": 8000, "start_s": 35.0, "after_s": 4.0, "error": "reset"},
        {"server": 1, "size": 8000, "start_s": 10.0, "after_s": 30.0},
    ]
    out = "\n".join(["ready", *map(json.dumps, lines)])
    run = stack.read_run(out, nothing_lost(), 40.0)
    assert run.errors == 4
    # Fetches count that begin from 4 s to before 35 s.
    assert (list(run.of(MARKED)), list(run.of(OTHERS))) == ([0.5] * 3, [0.5, 30.0])


def test_a_fetch_time_is_a_mean_of_runs_or_a_quantile_of_all_times() -> None:
    known = measured({LAST: fetched([1.0, 2.0], [3.0, 3.0, 3.0, 9.0], others=[10.5])}, {LAST: fetched([5.0])})
    fetch = partial(stack.fetch_s, known, "cubic", BASE, LAST)
    assert fetch(group=MARKED).mean == approx((1.5 + 4.5) / 2)
    assert fetch(group=OTHERS).mean == approx(10.5)
    assert fetch().mean == approx(((1 + 2 + 10.5) / 3 + (3 + 3 + 3 + 9 + 10.5) / 5) / 2)
    # Of the six times 1, 2, 3, 3, 3, 9 the quantile 0.95 is at 4.75: 3 + 0.75 * 6; 0.99 at 4.95.
    assert fetch("95th percentile", group=MARKED).mean == approx(7.5)
    assert fetch("99th percentile", group=MARKED).mean == approx(8.7)
    assert fetch(by="simulator", group=MARKED).mean == 5
    assert stack.fetch_s(known, "bbr", BASE, LAST).n == 0


def test_a_change_is_that_from_drop_tail_in_percent_and_negative_if_fetches_are_faster() -> None:
    known = measured(
        {"DropTail": fetched([4.0], [6.0], others=[1.0]), LAST: fetched([3.0], [4.5], others=[2.0])},
        {"DropTail": fetched([4.0, 2.0], [3.0]), LAST: fetched([4.5, 3.0], [3.75])},
    )
    change = partial(stack.change_pct, known, "cubic", BASE, LAST)
    assert change(group=MARKED).mean == approx(-25)
    assert change(group=OTHERS).mean == approx(100)
    assert change(by="simulator", group=MARKED).mean == approx(25)
    # Simulated are quantiles of 2, 3 and 4 s, and of 3, 3.75 and 4.5 s, at 0.95.
    assert change("95th percentile", by="simulator", group=MARKED).mean == approx(100 * (4.425 / 3.9 - 1))
    # Quantiles of 4 and 6 s, and of 3 and 4.5 s, at 0.95.
    assert change("95th percentile", group=MARKED).mean == approx(100 * (4.425 / 5.9 - 1))


def test_a_change_has_the_interval_of_a_ratio_of_paired_runs() -> None:
    known = measured({"DropTail": fetched([4.0], [6.0]), LAST: fetched([2.0], [6.0])})
    # 8 / 10, residuals of 2 - 3.2 and 6 - 4.8 over 5: deviation 0.24 sqrt(2), over sqrt(2) 0.24.
    change = stack.change_pct(known, "cubic", BASE, LAST, group=MARKED)
    assert (change.mean, change.low, change.high) == approx(
        (-20, -20 - 100 * 12.7062 * 0.24, -20 + 100 * 12.7062 * 0.24)
    )


def of_changes(simulated: Mapping[tuple[str, str, str], tuple[float, float]]) -> Callable[..., Interval]:
    """Returns a stand-in for `change_pct`: measured are 0 to 10 %, simulated 5 to 12 % or as given."""

    def change(_: KernelRuns, control: str, name: str, system: str, by: str) -> Interval:
        low, high = (0, 10) if by == "kernel" else simulated.get((control, name, system), (5, 12))
        return Interval((low + high) / 2, low, high, 4)

    return change


def test_a_prediction_is_off_by_its_change_less_that_in_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "change_pct", of_changes({("cubic", BASE, LAST): (-20, -10)}))
    value = stack.prediction_off_points(runs(quick=False), "cubic", BASE, LAST)
    # Both have a half width of 5: the interval of two means of equal error, 6 degrees of freedom.
    half = 5 * math.sqrt(2) * T_6 / T_3
    assert (value.mean, value.low, value.high) == approx((-15 - 5, -20 - half, -20 + half), rel=1e-5)


def test_predictions_are_known_for_what_can_be_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    # 7 cells of CUBIC and 6 of BBR, which is not simulated without RACK, with two systems each.
    monkeypatch.setattr(stack, "change_pct", of_changes({("bbr", BASE, SPM): (12, 12)}))
    off = [one.mean for one in stack.predictions_off_points(runs(quick=False))]
    assert sorted(off) == approx([3.5] * 25 + [7])


def loss(all_: float, share: float, high: float, low: float) -> PortLoss:
    return PortLoss(*(np.array([value]) for value in (all_, share, high, low)))


def test_losses_of_the_slow_line_are_means_of_the_runs_by_priority() -> None:
    of = [Run({MARKED: np.ones(1)}, one) for one in (loss(0.1, 0.5, 0.02, 0.3), loss(0.3, 0.7, 0.04, 0.5))]
    known = measured({LAST: of})
    shares = [stack.loss_pct(known, "cubic", BASE, LAST, one).mean for one in ("all", "share", "high", "low")]
    assert shares == approx([20, 60, 3, 40])
    assert stack.loss_pct(known, "bbr", BASE, LAST, "all").n == 0


def test_simulated_fetches_count_by_seed_group_and_start() -> None:
    transfers = {
        "seed": [1, 1, 1, 1, 2, 1],
        "group": ["web", "other", "web", "web", "web", "web"],
        "start_s": [4.0, 5.0, 3.9, 34.9, 9.0, 35.0],
        "waited_s": [0.1, 0.2, 9.0, 0.3, 9.0, 9.0],
    }
    ports: dict[str, Any] = {**bottleneck(10, 30, 1, 3), "port": [stack.LINE]}
    ports = {key: np.array(values) for key, values in ports.items()}
    run = stack._simulated({"transfers": transfers, "ports": ports}, 1, 40.0)
    assert (list(run.of(MARKED)), list(run.of(OTHERS))) == ([0.1, 0.3], [0.2])
    assert (run.loss.loss[0], run.loss.high_loss[0], run.errors) == (0.1, 0.1, 0)


def scripted(**measured_windows: list[list[int]]) -> KernelRuns:
    """Returns runs with cwnd before and after the first segment of each of four bursts, and at the end."""
    one = runs()
    one.cached("scripted windows", lambda: measured_windows)
    return one


# Before and after the first segment: the window falls from 40 to 30 and from 20 to 18, and grows at last.
WINDOWS = [[10, 10], [40, 30], [20, 18], [50, 60], [80, 80]]


def server_events(*rows: tuple[str, float, float]) -> dict[str, np.ndarray]:
    kind, time_s, cwnd = (np.array(column) for column in zip(*rows, strict=True))
    return {"kind": kind, "time_s": time_s.astype(float), "cwnd_bytes": cwnd.astype(float) * 1448}


SIMULATED = server_events(
    ("send", 0.1, 99),
    ("ack", 0.2, 10),
    ("ack", 0.3, 20),
    ("send", 2.0, 99),
    ("ack", 2.3, 30),
    ("ack", 2.7, 40),
    ("ack", 5.0, 45),
    ("ack", 7.2, 20),
    ("ack", 7.6, 100),
)


def test_a_window_at_the_end_of_a_burst_is_the_one_before_the_next_burst(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows, "simulated", lambda *_: SIMULATED)
    known = scripted(one=WINDOWS)
    # The kernel has 40, 20, 50 and 80 segments at the ends of the bursts, the simulator 20, 40, 45 and 100.
    ratios = [windows.window_ratio(known, "one", nth) for nth in (1, 2, 3, 4)]
    assert ratios == approx([2, 0.5, 50 / 45, 0.8])


def test_a_burst_ends_with_the_last_ack_before_half_a_second_without_one() -> None:
    assert windows.ends(SIMULATED, 4) == approx([20, 40, 45, 100])
    with pytest.raises(AssertionError, match="longer than round trips"):
        windows.ends(SIMULATED, 3)


def test_the_kept_share_is_the_least_of_all_idle_periods() -> None:
    # 30 / 40, 18 / 20 and 60 / 50; neither the first burst nor the end follows an idle period.
    known = scripted(none=WINDOWS, two=[[9, 1], [40, 36], [20, 20], [50, 40], [90, 1]])
    assert windows.retained_share(known, "none") == approx(0.75)
    assert windows.retained_share(known, "two") == approx(0.8)


def wan(*times_s: float, ports: Columns | None = None) -> Emulated:
    """Returns a run with these times of the ten pages."""
    return emulated(*times_s, ports=ports or bottleneck(0, 1, 0, 0), connections=HANDSHAKES)


def of_network(**cells: list[Emulated]) -> KernelRuns:
    """Returns runs of a hundred clients with nginx and 64 KB, by marks; a blank is an underscore."""
    one = runs()
    names = {name.replace("_", " "): of for name, of in cells.items()}
    return of_each_server(one, "wan", {(64, name, "nginx"): of for name, of in names.items()}, 2)


def test_page_times_with_marks_are_compared_page_by_page_and_run_by_run() -> None:
    fifo = [wan(*[2.0] * 9, 4.0), wan(*[4.0] * 10)]
    # Ratios of the first run are 1/2 for nine pages and 2 for the tenth one, of the second run 1 for all.
    marked = [wan(*[1.0] * 9, 8.0), wan(*[4.0] * 10)]
    known = of_network(FIFO=fifo, full_SPM=marked, partial_SPM=fifo)
    assert network.wan_time_ratio(known, 64, "full SPM").mean == approx((0.65 + 1) / 2)
    assert network.wan_time_ratio(known, 64, "full SPM", pages=(10,)).mean == approx(1.5)
    assert network.wan_time_ratio(known, 64, "full SPM", pages=(1, 10)).mean == approx((1.25 + 1) / 2)
    assert network.wan_time_ratio(known, 64, "FIFO", than="full SPM").mean == approx((1.85 + 1) / 2)


def test_losses_of_the_wan_are_by_priority_and_a_share_of_what_arrives() -> None:
    lossy = [
        wan(*[1.0] * 10, ports=bottleneck(40, 160, 4, 80)),
        wan(*[1.0] * 10, ports=bottleneck(60, 40, 3, 10)),
    ]
    known = of_network(full_SPM=lossy)
    shares = [
        network.wan_loss_pct(known, 64, "full SPM", one).mean for one in ("all", "high", "low", "share")
    ]
    # 84 of 200 and 13 of 100; 4 of 40 and 3 of 60; 80 of 160 and 10 of 40; 40 of 200 and 60 of 100 HIGH.
    assert shares == approx([(42 + 13) / 2, (10 + 5) / 2, (50 + 25) / 2, (20 + 60) / 2])


def spreading(**deviations: float) -> KernelRuns:
    """Returns runs whose ratios of page times deviate by these values from one, by buffer in KB."""
    one = runs()
    known = {}
    for name, deviation in deviations.items():
        buffer_kb = int(name.removeprefix("kb"))
        known[buffer_kb, "FIFO", "nginx"] = [wan(*[1.0] * 10)]
        known[buffer_kb, "full SPM", "nginx"] = [wan(*[1 - deviation, 1 + deviation] * 5)]
    return of_each_server(one, "wan", known, 2)


@pytest.mark.parametrize(
    ("at_128_kb", "at_512_kb", "larger"),
    [(0.3, 0.2, "yes"), (0.2, 0.2, "no"), (0.15, 0.1, "no"), (0.3, 0.4, "no")],
)
def test_ratios_vary_more_only_if_they_do_at_every_buffer(
    at_128_kb: float, at_512_kb: float, larger: str
) -> None:
    known = spreading(kb64=0.5, kb128=at_128_kb, kb256=0.2, kb512=at_512_kb)
    assert network.wan_spread_is_larger(known, "full SPM", [64, 128], [256, 512]) == larger


def test_ratios_are_means_of_the_runs_before_they_are_compared_over_pages() -> None:
    # At 256 KB one page of each of two runs takes three times as long, so two pages take twice as long on
    # average: a deviation of 0.4, and 0.8 for the longest times.
    known = spreading(kb64=0.5, kb128=0.5, kb256=0.1, kb512=0.1)
    cells = known.cached(("wan", "nginx"), dict)
    cells[256, "full SPM", "nginx"] = [wan(3.0, *[1.0] * 9), wan(1.0, 3.0, *[1.0] * 8)]
    cells[256, "FIFO", "nginx"] *= 2
    assert network.wan_spread_is_larger(known, "full SPM", [64, 128], [256, 512]) == "yes"


def test_a_configuration_that_a_quick_run_lacks_has_no_value() -> None:
    one = of_network(FIFO=[wan(*[1.0] * 10)], full_SPM=[wan(*[2.0] * 10)])
    assert network.wan_time_ratio(one, 64, "full SPM").mean == 2
    for marks, server in (("last packets", "nginx"), ("full SPM", "apache")):
        with pytest.raises(Unavailable, match="a quick run has one server"):
            network.wan_time_ratio(one, 64, marks, server=server)


def test_red_runs_and_lost_packets_of_the_wan_are_counted_over_all_configurations() -> None:
    # The certificate of a hand-made run is red and has 2 + 5 packets lost. A quick run has one server, four
    # buffers and three kinds of marks; each has one run here.
    one = runs()
    cells = {key: [wan(*[1.0] * 10)] for key in network._known(one)}
    of_each_server(one, "wan", cells, 2)
    assert network.wan_red_runs(one) == "12"
    assert one.sample == 12
    assert network.wan_unaccounted(one) == str(12 * 7)
    every = network._known(runs(quick=False))
    assert (len(every), every[-1]) == (25, (64, "last packets", "nginx"))


def test_table_xi_is_read_by_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = ("buffer_kb", "mean_relative_time", "sdev_relative_time")
    cells = [("64", "0.8", "0.30"), ("128", "0.9", "0.20"), ("512", "1.1", "0.05")]
    monkeypatch.setattr(printed, "rows", lambda _: [dict(zip(columns, row, strict=True)) for row in cells])
    assert printed.table_xi("mean_relative_time", 128) == 0.9
    assert printed.spreads([64, 128], [512]) == "0.30, 0.20 against 0.05"
