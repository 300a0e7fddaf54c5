"""The page that has the simulator in it, in a browser without a server and without a network."""

import base64
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catnip import Scenario
from catnip.analysis import summary
from catnip.base import paths
from catnip.modelling import accuracy
from catnip.report import effects, explorer
from visitor import BROWSER, LONGEST_S, Visitor, readable

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "build" / "page" / "explorer.html"
AXE = ROOT / "page" / "node_modules" / "axe-core" / "axe.min.js"
LARGEST_BYTES = 2_000_000
LOOKS = ((400, False), (1280, True), (2560, False))
"""Widths of windows, and whether they are dark."""

pytestmark = [
    pytest.mark.skipif(not PAGE.exists(), reason="the page with the simulator is not built (make page)"),
    pytest.mark.skipif(BROWSER is None, reason="no chromium"),
]

SMALL = """
id = "MINE"
title = "My own scenario"
duration = "20s"
[node]
server = { kind = "host" }
client = { kind = "host" }
[link.line]
from = "server"
to = "client"
rate = "trace:rates.txt,step=1s"
delay = "10ms"
queue = "drop-tail:30"
[traffic.file]
kind = "bulk"
from = "server"
to = "client"
bytes = "200KB"
"""


class Explorer(Visitor):
    """Browser with the page."""

    def visit(self, url: str) -> None:
        """Opens the page and waits until it has drawn or told something."""
        super().visit(url)
        self.until_drawn()

    def until_drawn(self) -> None:
        self.wait("document.body.dataset.drawnMs || document.getElementById('told').textContent")
        self.wait("document.body.getAttribute('aria-busy') === 'false'")

    def change(self, code: str) -> None:
        """Runs code that changes the page and waits until it has drawn."""
        self.ask(f"delete document.body.dataset.drawnMs; {code}")
        self.until_drawn()

    def choose(self, element: str, value: str) -> None:
        self.change(
            f"{{ const list = document.querySelector({element!r}); list.value = {value!r};"
            " list.dispatchEvent(new Event('change', {bubbles: true})); }"
        )

    def text(self, selector: str) -> str:
        return str(self.ask(f"document.querySelector({selector!r}).textContent"))

    def rows(self, view: str) -> dict[str, list[str]]:
        """Returns the cells of each row of a view's table by the first of them."""
        cells = "(row) => [...row.children].map((cell) => cell.textContent)"
        rows = self.ask(f"[...document.querySelectorAll('{view} tbody tr')].map({cells})")
        return {first: rest for first, *rest in rows}

    def state(self) -> dict[str, Any]:
        """Returns the state in the page's address."""
        return unpacked(self.ask("location.hash.slice(1)"))

    def until_studied(self) -> int:
        """Waits until all seeds have run; returns their number."""
        self.wait("document.body.dataset.studied === 'true'")
        return int(self.ask("document.body.dataset.seeds"))


@pytest.fixture
def shared() -> Iterator[Path]:
    """Yields a folder that the browser's user can read."""
    with tempfile.TemporaryDirectory(prefix="catnip-shared-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def unpacked(state: str) -> dict[str, Any]:
    deflated = base64.urlsafe_b64decode(state + "=" * (-len(state) % 4))
    found: dict[str, Any] = json.loads(zlib.decompress(deflated, -zlib.MAX_WBITS))
    return found


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """Yields the address of a copy of the page that the browser's user can read."""
    with readable(PAGE.read_bytes()) as copy:
        yield copy


@pytest.fixture(scope="module")
def visitor() -> Iterator[Explorer]:
    with Explorer.start() as browser:
        yield browser


def link(page: str, scenario: str, *variants: str, **more: Any) -> str:
    sides = [{"variant": one, "set": {}} for one in [*variants, "", ""][:2]]
    return f"{page}#{explorer.packed({'scenario': scenario, 'sides': sides, **more})}"


def test_the_page_is_small_and_asks_for_nothing(page: str, visitor: Explorer) -> None:
    assert PAGE.stat().st_size < LARGEST_BYTES
    events = visitor.record(page, LONGEST_S)
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert page in asked
    assert {url.partition(":")[0] for url in asked} <= {"file", "blob", "data"}


def test_every_scenario_of_the_page_opens() -> None:
    node = shutil.which("node")
    assert node is not None, "it has built the page"
    script = PAGE.with_name("library.mjs")
    ended = subprocess.run([node, script, PAGE], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    names = {path.stem for path in (ROOT / "python" / "catnip").rglob("scenarios/*.toml")}
    assert {line.split()[0] for line in ended.stdout.splitlines()} == names


def test_a_trap_of_the_engine_names_the_question_and_the_next_one_has_a_new_engine() -> None:
    ended = subprocess.run(["node", PAGE.with_name("trap.mjs")], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [
        f'Trap: {{"ask":"run","variant":"{one}"}}: RuntimeError: unreachable' for one in ("one", "two")
    ]


def test_a_scenario_is_drawn_and_a_choice_draws_another(page: str, visitor: Explorer) -> None:
    visitor.visit(page)
    assert visitor.text("#told") == ""
    visitor.wait("document.querySelectorAll('#view-time canvas').length === 14")
    assert visitor.ask("document.querySelectorAll('#scenario option').length") > 50
    assert visitor.text("#title") == "CATNIP-Good routers, four marking sources"
    visitor.choose("#scenario", "two-flows")
    assert (visitor.text("#told"), visitor.text("#title")) == ("", "A near and a far sender at one queue")
    assert visitor.state()["scenario"] == "two-flows"


def test_dragging_over_a_drawing_looks_closer_and_the_link_restores_it(page: str, visitor: Explorer) -> None:
    visitor.visit(link(page, "two-flows"))
    visitor.ask("document.querySelector('#view-time').scrollIntoView()")
    over = "document.querySelector('#view-time .u-over').getBoundingClientRect()"
    left, top, width = (visitor.ask(f"{over}.{side}") for side in ("left", "top", "width"))
    visitor.ask("delete document.body.dataset.drawnMs")
    visitor.drag(left + width / 4, top + 20, left + width / 2)
    visitor.until_drawn()
    from_s, until_s = visitor.state()["rangeS"]
    # A quarter and a half of 65 s.
    assert (from_s, until_s) == (pytest.approx(16.25, abs=0.5), pytest.approx(32.5, abs=0.5))
    labels = "[...document.querySelectorAll('[role=img]')].map(one => one.getAttribute('aria-label'))"
    drawn = visitor.ask(labels)
    restored = visitor.ask("location.href")
    visitor.visit(restored)
    assert visitor.ask(labels) == drawn
    assert f"from {from_s:.4g} to {until_s:.4g}" in drawn[0]


@pytest.mark.parametrize(
    ("damaged", "told"),
    [
        ("%%%", "the link is damaged"),
        (explorer.packed({"scenario": "two-flows", "seed": "<b>"}), "the link is damaged"),
        (explorer.packed({"scenario": {"path": 1}}), "the link is damaged"),
        (
            explorer.packed({"v": 99, "scenario": "two-flows"}),
            "the link is of another version of this page, 99 instead of 2",
        ),
        (explorer.packed({"scenario": "<img src=x>"}), "there is no scenario <img src=x>"),
    ],
)
def test_a_wrong_link_is_told_as_text(page: str, visitor: Explorer, damaged: str, told: str) -> None:
    visitor.visit(f"{page}#{damaged}")
    assert visitor.text("#told") == told
    assert visitor.ask("document.querySelectorAll('img, b').length") == 0


def test_a_slider_changes_both_runs_and_a_wrong_value_is_told_and_leaves_the_pictures(
    page: str, visitor: Explorer
) -> None:
    visitor.visit(link(page, "catnip-e4"))
    before = visitor.ask("document.querySelector('#view-time canvas').toDataURL()")
    slider = 'input[aria-label="link.bottleneck.rate, slider"]'
    visitor.change(
        f"{{ const one = document.querySelector({slider!r});"
        " one.value = '20'; one.dispatchEvent(new Event('input')); }"
    )
    assert [side["set"] for side in visitor.state()["sides"]] == [{"link.bottleneck.rate": "3Mbit"}] * 2
    changed = visitor.ask("document.querySelector('#view-time canvas').toDataURL()")
    assert changed != before
    visitor.choose('input[aria-label="link.bottleneck.rate"]', "fast")
    assert visitor.text("#told").startswith('catnip-e4.toml: link.bottleneck.rate: "fast": ')
    assert visitor.ask("document.querySelector('#view-time canvas').toDataURL()") == changed
    visitor.choose('input[aria-label="link.bottleneck.rate"]', "1.5Mbit")
    assert visitor.text("#told") == ""
    assert [side["set"] for side in visitor.state()["sides"]] == [{}, {}]


def test_a_list_changes_one_run_and_a_key_can_be_added(page: str, visitor: Explorer) -> None:
    visitor.visit(link(page, "catnip-e4", "Reno/DropTail", "Reno/DropTail"))
    visitor.ask("document.querySelector('[aria-label=\"link.bottleneck.queue: one for each\"]').click()")
    visitor.choose('select[aria-label="link.bottleneck.queue, below, kind"]', "codel")
    sets = [side["set"] for side in visitor.state()["sides"]]
    assert sets == [{}, {"link.bottleneck.queue": "codel:10"}]
    kind = "document.querySelector('select[aria-label=\"link.bottleneck.queue, below, kind\"]').value"
    changed = visitor.ask("location.hash")
    visitor.change(
        "document.querySelector('[aria-label=\"link.bottleneck.queue: the same for both\"]').click()"
    )
    assert [side["set"] for side in visitor.state()["sides"]] == [{}, {}]
    visitor.change(f"location.hash = {changed!r}")
    assert visitor.ask(kind) == "codel"
    visitor.choose("#add", "tcp.initial_window_segments")
    sets = [side["set"] for side in visitor.state()["sides"]]
    assert [one["tcp.initial_window_segments"] for one in sets] == ["10", "10"]
    assert (
        visitor.ask("document.querySelectorAll('[aria-label=\"tcp.initial_window_segments\"]').length") == 1
    )


def test_the_effect_and_the_measures_are_those_of_a_run_with_as_many_seeds(
    page: str, visitor: Explorer
) -> None:
    names = ["Reno/DropTail", "Reno/CATNIP-Good"]
    visitor.visit(link(page, "catnip-e4", *names, view="times"))
    scenario, seeds = paths.scenario("catnip-e4"), visitor.until_studied()
    base, ours = summary.of_runs(scenario, names, range(1, seeds + 1)).values()
    found = effects.effect_of(ours.groups["web"], base.groups["web"])
    assert found is not None
    assert visitor.text("#effect p") == effects.sentence(names[1], names[0], *found)
    shown = visitor.rows("#view-times")
    means = [one.groups["web"].means["page_time_s"] for one in (base, ours)]
    assert len(shown) > 6
    assert shown["page time, s"] == [
        f"{one.mean:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in means[:1]
    ] + [f"{one.mean:.4f} [{one.low:.4f}, {one.high:.4f}]" for one in means[1:]]


def test_packets_are_read_step_by_step_with_the_keyboard(page: str, visitor: Explorer) -> None:
    visitor.visit(link(page, "lost-packet", "none", "last", view="packets"))
    assert visitor.ask("document.querySelectorAll('#ladders canvas.ladder').length") == 2
    visitor.ask("document.querySelector('.ladder').focus()")
    visitor.press("Home")
    assert visitor.text("#said") == "0.0000 s: data 0–1447, HIGH, comes to the queue of server"
    said = []
    for _ in range(8):
        visitor.press("ArrowDown")
        said.append(visitor.text("#said"))
    assert said == sorted(said)
    assert any("arrives at router" in one for one in said)
    label = visitor.ask("document.querySelectorAll('.ladder')[1].getAttribute('aria-label')")
    assert label.startswith("last: ") and "server, router, client" in label


def test_one_way_delays_are_those_of_the_links(page: str, visitor: Explorer) -> None:
    visitor.visit(link(page, "lost-packet", "none", "last", view="packets"))
    visitor.ask("document.querySelectorAll('#ladders [role=img]')[2].focus()")
    visitor.press("ArrowRight")
    # A segment of 1500 bytes takes 1.2 ms at 10 Mbit/s, 8 ms at 1.5 Mbit/s, and 50 ms on the way, and the
    # client up to 20 us.
    said = re.fullmatch(r"time, s ([\d.]+): delay ([\d.]+) ms", visitor.text("#said"))
    assert said is not None
    assert [float(said[1]), float(said[2]) / 1e3] == pytest.approx([0.0592, 0.0592], abs=25e-6)


def test_charts_are_read_and_zoomed_with_the_keyboard(page: str, visitor: Explorer) -> None:
    visitor.visit(link(page, "two-flows"))
    visitor.ask("document.querySelector('#view-time [role=img]').focus()")
    visitor.press("ArrowRight")
    assert visitor.text("#said").startswith("time, s ")
    assert "kB" in visitor.text("#said")


def test_the_tour_leads_from_a_lost_packet_to_a_queue_that_knows(page: str, visitor: Explorer) -> None:
    visitor.visit(page)
    visitor.change("document.getElementById('start-tour').click()")
    titles = [visitor.text("#step-title")]
    for _ in range(5):
        visitor.change("document.getElementById('step-next').click()")
        titles.append(visitor.text("#step-title"))
        assert visitor.text("#told") == ""
    assert [title[:6] for title in titles] == [f"{number} of 6" for number in range(1, 7)]
    assert visitor.state()["scenario"] == "catnip-e4"
    visitor.change("document.getElementById('step-next').click()")
    assert visitor.ask("document.getElementById('tour').hidden")


def test_a_step_that_the_tour_does_not_have_is_none(page: str, visitor: Explorer) -> None:
    visitor.visit(link(page, "lost-packet", step=99))
    assert (visitor.text("#told"), visitor.ask("document.getElementById('tour').hidden")) == ("", True)


def test_what_the_tour_says_of_lost_packets_is_so() -> None:
    scenario = paths.scenario("lost-packet")
    rows = scenario.run(scenario.variants, [1], ["connections"])["connections"]
    timeouts = dict(zip(scenario.variants, rows["timeouts"], strict=True))
    took_s = dict(zip(scenario.variants, np.subtract(rows["received_s"], rows["start_s"]), strict=True))
    assert timeouts == {"none": 0, "first": 1, "middle": 0, "last": 1}
    assert took_s["middle"] < took_s["none"] + 0.11
    assert min(took_s["first"], took_s["last"]) > took_s["none"] + 0.9


def test_a_waterfall_shows_the_objects_of_a_page(page: str, visitor: Explorer) -> None:
    visitor.visit(link(page, "recorded-page", view="page"))
    assert visitor.ask("document.querySelectorAll('.waterfall').length") == 2
    assert visitor.ask("document.querySelectorAll('.waterfall')[0].children.length") == 12


def test_models_are_those_of_the_command_line(page: str, visitor: Explorer) -> None:
    scenario = paths.scenario("hysteresis")
    flows = {name: scenario.single_flow(name) for name in scenario.variants}
    variant, flow = next((name, flow) for name, flow in flows.items() if flow and flow["packets"] > 10)
    visitor.visit(link(page, "hysteresis", variant, variant, view="models"))
    shown = {label: cells[0] for label, cells in visitor.rows("#view-models").items()}
    predicted = accuracy.predictions(flow)
    assert len(predicted) > 1
    for label, one in predicted.items():
        assert math.isclose(float(shown[label]), one.time_s, rel_tol=1e-3), label


def test_own_scenarios_and_recordings_are_taken_and_other_files_are_told(
    page: str, visitor: Explorer, shared: Path
) -> None:
    own, rates, recording, other = (
        shared / name for name in ("mine.toml", "rates.txt", "page.har", "notes.pdf")
    )
    own.write_text(SMALL)
    rates.write_text("1\n2\n")
    shutil.copy(ROOT / "python" / "catnip" / "scenarios" / "pages" / "site.har", recording)
    other.write_text("nothing")
    visitor.visit(page)
    visitor.ask("delete document.body.dataset.drawnMs")
    visitor.give("#files", own, rates)
    visitor.until_drawn()
    assert (visitor.text("#told"), visitor.text("#title")) == ("", "My own scenario")
    visitor.visit(visitor.ask("location.href"))
    assert visitor.text("#title") == "My own scenario"
    visitor.ask("delete document.body.dataset.drawnMs")
    visitor.give("#files", recording)
    visitor.until_drawn()
    assert (visitor.text("#told"), visitor.text("#title")) == ("", "page.har")
    visitor.give("#files", other)
    visitor.wait("document.getElementById('told').textContent")
    assert visitor.text("#told").startswith("notes.pdf: expected a scenario (.toml)")
    visitor.give("#files", own)
    visitor.wait("document.getElementById('told').textContent.includes('rates.txt')")
    assert visitor.text("#told").startswith("mine.toml: link.line.rate: ")


def test_dropped_files_are_taken(page: str, visitor: Explorer, shared: Path) -> None:
    own = shared / "mine.toml"
    own.write_text(SMALL.replace("trace:rates.txt,step=1s", "1Mbit"))
    visitor.visit(page)
    visitor.ask("delete document.body.dataset.drawnMs")
    visitor.drop(300, 300, own)
    visitor.wait("document.getElementById('title').textContent === 'My own scenario'")


def test_downloads_are_what_the_commands_write(page: str, visitor: Explorer, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "catnip", "run", "lost-packet", "--variant", "last", "--seeds", "1"]
    subprocess.run([*command, "--packets", str(tmp_path / "x.pcapng")], check=True, capture_output=True)
    expected = {"pcapng second": (tmp_path / "x.pcapng").read_bytes()}
    visitor.visit(link(page, "lost-packet", "none", "last"))
    # What the page hands to the browser is kept instead.
    visitor.ask("""{
      window.saved = [];
      const create = URL.createObjectURL.bind(URL);
      URL.createObjectURL = (blob) => {
        blob.arrayBuffer().then((bytes) => window.saved.push([...new Uint8Array(bytes)]));
        return create(blob);
      };
      HTMLAnchorElement.prototype.click = function () { window.named = this.download; };
    }""")
    saved = {}
    for what in ("pcapng second", "toml second", "csv connections", "qlog first", "png"):
        visitor.ask(
            f"window.saved = []; {{ const list = document.getElementById('download'); list.value = {what!r};"
            " list.dispatchEvent(new Event('change')); }"
        )
        visitor.wait("window.saved.length")
        saved[what] = (visitor.ask("window.named"), bytes(visitor.ask("window.saved[0]")))
    assert saved["pcapng second"] == ("lost-packet-2.pcapng", expected["pcapng second"])
    written = Scenario.parse("x.toml", saved["toml second"][1].decode())
    assert written.variants == ["none", "first", "middle", "last"]
    lines = saved["csv connections"][1].decode().splitlines()
    assert (lines[0].split(",")[0], [line.split(",")[0] for line in lines[1:]]) == (
        "variant",
        ["none", "last"],
    )
    assert b"qlog" in saved["qlog first"][1][:200]
    assert saved["png"][1].startswith(b"\x89PNG")


@pytest.mark.parametrize("view", ["time", "times", "packets", "page", "models"])
def test_axe_finds_no_violation(page: str, visitor: Explorer, view: str) -> None:
    visitor.visit(link(page, "recorded-page" if view == "page" else "catnip-e4", view=view, step=None))
    if view == "times":
        visitor.until_studied()
    visitor.ask(AXE.read_text(encoding="utf-8"))
    for width, dark in LOOKS:
        visitor.ask("delete document.body.dataset.drawnMs")
        visitor.show(width, dark=dark)
        visitor.until_drawn()
        visitor.wait("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        visitor.ask("window.found = null; axe.run().then((one) => { window.found = one.violations; })")
        visitor.wait("window.found")
        told = "window.found.map(({id, nodes}) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`)"
        assert visitor.ask(told) == [], (width, dark)


def test_a_report_runs_again_in_the_browser_and_tells_what_differs(visitor: Explorer, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    command = [sys.executable, "-m", "catnip", "run", "catnip-e4", "--seeds", "3", "--seed", "5"]
    subprocess.run([*command, "--report", str(report)], check=True, capture_output=True)
    with readable(report.read_bytes()) as address:
        Visitor.visit(visitor, address)
        visitor.click("#check")
        visitor.wait("document.getElementById('checked').dataset.result")
        assert visitor.text("#checked").startswith("The same: 15 runs, 5 fingerprints and ")
        visitor.click("#touch")
        with visitor.inside():
            visitor.wait("document.getElementById('title')?.textContent.startsWith('CATNIP-Good routers')")
        # A page that says something else than its runs.
        visitor.ask("""{
          const parse = JSON.parse;
          JSON.parse = (text) => {
            const found = parse(text);
            if (found.first) Object.values(found.variants)[1].groups.web.page_time_s[0] *= 1.01;
            return found;
          };
        }""")
        visitor.ask("document.getElementById('check').click()")
        visitor.wait("document.getElementById('checked').dataset.result === 'different'")
        assert visitor.text("#checked").startswith("Not the same: Reno/CATNIP-Good: web: page_time_s: ")


def test_private_files_go_into_a_report_only_if_asked(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SMALL)
    (tmp_path / "rates.txt").write_text("1\n2\n")
    command = [sys.executable, "-m", "catnip", "run", str(tmp_path / "mine.toml"), "--report"]
    for embed, says in (([], "it needs rates.txt, which --embed puts"), (["--embed"], "the files rates.txt")):
        report = tmp_path / "report.html"
        subprocess.run([*command, str(report), *embed], check=True, capture_output=True)
        text = report.read_text()
        assert says in text
        assert ('id="runs"' in text) == bool(embed)
        assert (explorer.state_of(paths.scenario(str(tmp_path / "mine.toml")), ["default"]) in text) == bool(
            embed
        )


def test_explore_writes_a_page_that_begins_with_the_scenario(visitor: Explorer, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SMALL)
    (tmp_path / "rates.txt").write_text("1\n2\n")
    out = tmp_path / "page.html"
    command = [sys.executable, "-m", "catnip", "explore", str(tmp_path / "mine.toml"), "--out", str(out)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout == f"The page holds rates.txt.\nwrote {out}: open it in a browser\n"
    with readable(out.read_bytes()) as address:
        visitor.visit(address)
        assert (visitor.text("#told"), visitor.text("#title")) == ("", "My own scenario")
    changed = [
        *command[:4],
        "catnip-e4",
        "--set",
        "link.bottleneck.rate=3Mbit",
        "--variant",
        "ECA/CATNIP-Good",
    ]
    subprocess.run([*changed, "--out", str(out)], capture_output=True, check=True)
    with readable(out.read_bytes()) as address:
        visitor.visit(address)
        sides = visitor.state()["sides"]
        assert sides[0] == {"variant": "ECA/CATNIP-Good", "set": {"link.bottleneck.rate": "3Mbit"}}
