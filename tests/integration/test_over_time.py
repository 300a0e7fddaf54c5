"""Drawings of what happens over time, against the tables of the same runs."""

from pathlib import Path

import numpy as np
import pytest

import catnip as catnip_api
from catnip._core import InputError, Scenario
from catnip.analysis import timelines
from catnip.report import over_time
from conftest import Run

TWO = """
id = "TWO"
title = "Two <transfers> at one queue"
seeds = 1
duration = "20s"
[node.server]
kind = "host"
count = 2
[node.router]
kind = "router"
[node.client]
kind = "host"
count = 2
[link.access]
from = "server"
to = "router"
rate = "10Mbit"
delay = "1ms"
queue = "drop-tail:100"
[link.line]
from = "router"
to = "client"
rate = "1Mbit"
delay = "20ms"
queue = "drop-tail:10"
[tcp]
profile = "rfc"
ecn = "classic"
[traffic.files]
kind = "bulk"
from = "server"
to = "client"
bytes = "endless"
[[axis]]
key = "link.line.queue"
values = ["drop-tail:10", "codel:30"]
"""


@pytest.fixture
def two(tmp_path: Path) -> Path:
    file = tmp_path / "two.toml"
    file.write_text(TWO)
    return file


def test_a_timeline_has_what_the_tables_of_the_run_have() -> None:
    scenario = Scenario.parse("two.toml", TWO)
    for variant in scenario.variants:
        drawn = timelines.of_run(scenario, variant, 3)
        assert drawn.left_out == 0
        tables = scenario.run([variant], [3], ["connections", "ports"])
        assert [one.name for one in drawn.links] == ["line"]
        [line], ports = drawn.links, tables["ports"]
        at = list(ports["port"]).index("line")
        dropped = sum(int(ports[f"dropped_{priority}"][at]) for priority in ("high", "med", "low"))
        assert (len(line.drops_s), len(line.marks_s)) == (dropped, int(ports["marked"][at]))
        assert dropped + len(line.marks_s) > 0, variant
        sent = {one.connection: one for one in drawn.senders}
        for row, number in enumerate(tables["connections"]["connection"]):
            assert len(sent[int(number)].drops_s) == tables["connections"]["dropped"][row]
            assert len(sent[int(number)].timeouts_s) == tables["connections"]["timeouts"][row]
        mean = float(np.mean(line.packets["LOW"]))
        # A packet in transmission waits no more.
        in_transmission = float(ports["links"][at]) * float(ports["utilization"][at])
        assert mean == pytest.approx(float(ports["queue_mean_packets"][at]) + in_transmission, rel=0.02)


@pytest.mark.parametrize("subject", over_time.KINDS)
def test_each_subject_is_drawn_for_two_variants_one_above_the_other(
    catnip: Run, two: Path, tmp_path: Path, subject: str
) -> None:
    plot = tmp_path / "plot.svg"
    ended = catnip("run", two, "--plot", plot, "--plot-of", subject)
    assert (ended.code, ended.err) == (0, "")
    drawn = plot.read_text(encoding="utf-8")
    assert "Two &lt;transfers&gt; at one queue" in drawn
    [told] = [part.split("</desc>")[0] for part in drawn.split("<desc>")[1:]]
    assert told.index("queue=drop-tail:10") < told.index("queue=codel:30")
    assert "files, user 1" in told or "LOW" in told


def test_without_transfer_times_and_axes_a_plot_shows_windows(catnip: Run, two: Path, tmp_path: Path) -> None:
    two.write_text(TWO.split("[[axis]]", maxsplit=1)[0].replace('ecn = "classic"', ""))
    ended = catnip("run", two, "--plot", tmp_path / "plot.svg")
    assert (ended.code, ended.err) == (0, "")
    assert "cwnd" in (tmp_path / "plot.svg").read_text(encoding="utf-8")


def test_the_subject_of_no_plot_is_a_mistake(catnip: Run, two: Path) -> None:
    ended = catnip("run", two, "--plot-of", "queues")
    assert (ended.code, ended.out) == (2, "")
    assert "--plot-of: needs --plot" in ended.err


def test_a_plot_is_written_in_the_format_that_its_name_tells(catnip: Run, two: Path, tmp_path: Path) -> None:
    for name, begins in (("a.pdf", b"%PDF-"), ("a.png", b"\x89PNG\r\n"), ("a.svg", b"<svg ")):
        plot = tmp_path / name
        assert catnip("run", two, "--plot", plot, "--plot-of", "queues").code == 0
        drawn = plot.read_bytes()
        assert drawn.startswith(begins)
        assert catnip("run", two, "--plot", plot, "--plot-of", "queues").code == 0
        assert plot.read_bytes() == drawn, f"{name}: equal data, equal bytes"


def test_results_plot_what_is_asked_for(tmp_path: Path) -> None:
    results = catnip_api.run(Scenario.parse("two.toml", TWO), seeds=2)
    queues = results.plot("queues")
    assert queues._repr_svg_().startswith("<svg ")
    queues.save(str(tmp_path / "queues.png"))
    assert (tmp_path / "queues.png").read_bytes().startswith(b"\x89PNG")
    assert "queue=codel" in results.plot("windows", against="queue=codel:30")._repr_svg_()
    assert "results by queue" in results.plot()._repr_svg_()
    for subject, problem in (("times", "no transfer times"), ("sound", "sound is not one of times, axis")):
        with pytest.raises(InputError, match=f"plot: .*{problem}"):
            results.plot(subject)
    results.save(tmp_path / "out")
    with pytest.raises(InputError, match="plot: these results were read from a folder"):
        catnip_api.read(tmp_path / "out").plot()


def test_a_report_shows_windows_queues_rates_and_round_trips(catnip: Run, two: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert catnip("run", two, "--report", page).code == 0
    text = page.read_text(encoding="utf-8")
    for name, kind in over_time.KINDS.items():
        assert f'id="{name}"' in text
        assert kind.title in text


def test_a_trace_is_drawn_with_acks_losses_and_what_is_sent_again(catnip: Run, tmp_path: Path) -> None:
    plot = tmp_path / "trace.svg"
    ended = catnip("trace", "--packets", 60, "--drop", "30", "--recovery", "sack", "--plot", plot)
    assert (ended.code, ended.err) == (0, "")
    drawn = plot.read_text(encoding="utf-8")
    for label in ("segment", "ACK", "end of the receive window", "retransmission", "SACK block", "dropped"):
        assert label in drawn
    assert "timeout" not in drawn
