"""The page that has the simulator in it, in a browser without a server and without a network."""

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from visitor import BROWSER, LONGEST_S, Visitor, readable

PAGE = Path(__file__).resolve().parents[2] / "build" / "page" / "explorer.html"
LARGEST_BYTES = 2_000_000

pytestmark = [
    pytest.mark.skipif(not PAGE.exists(), reason="the page with the simulator is not built (make page)"),
    pytest.mark.skipif(BROWSER is None, reason="no chromium"),
]


class Explorer(Visitor):
    """Browser with the page."""

    def visit(self, url: str) -> None:
        """Opens the page and waits until it has drawn or told something."""
        super().visit(url)
        self.wait("document.body.dataset.drawnMs || document.getElementById('told').textContent")


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """Yields the address of a copy of the page that the browser's user can read."""
    with readable(PAGE.read_bytes()) as copy:
        yield copy


@pytest.fixture
def visitor() -> Iterator[Visitor]:
    with Explorer.start() as browser:
        yield browser


def fragment(**state: object) -> str:
    text = json.dumps({"v": 1, "variants": ["", ""], "seed": 1, "rangeS": None, **state})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def state_of(visitor: Visitor) -> dict[str, Any]:
    text = visitor.ask("location.hash.slice(1)")
    state: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return state


def test_the_page_is_small_and_asks_for_nothing(page: str, visitor: Visitor) -> None:
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
    package = PAGE.parents[2] / "python" / "catnip"
    names = {path.stem for path in package.rglob("scenarios/*.toml")}
    assert {line.split()[0] for line in ended.stdout.splitlines()} == names


def test_a_scenario_is_drawn_and_a_choice_draws_another(page: str, visitor: Visitor) -> None:
    visitor.visit(page)
    assert visitor.ask("document.getElementById('told').textContent") == ""
    assert visitor.ask("document.querySelectorAll('#drawings canvas').length") == 8
    assert visitor.ask("document.querySelectorAll('#scenario option').length") > 50
    title = visitor.ask("document.getElementById('title').textContent")
    visitor.ask("""{
      delete document.body.dataset.drawnMs;
      const scenario = document.getElementById('scenario');
      scenario.value = 'catnip-e4';
      scenario.dispatchEvent(new Event('change'));
    }""")
    visitor.wait("document.body.dataset.drawnMs")
    assert visitor.ask("document.getElementById('told').textContent") == ""
    assert (
        visitor.ask("document.getElementById('title').textContent")
        == "CATNIP-Good routers, four marking sources"
    )
    assert title != "CATNIP-Good routers, four marking sources"
    assert state_of(visitor)["variants"] == ["Reno/DropTail", "Reno/CATNIP-Good"]


def test_dragging_over_a_drawing_looks_closer_and_the_link_restores_it(page: str, visitor: Visitor) -> None:
    visitor.visit(page)
    over = "document.querySelector('#drawings .u-over').getBoundingClientRect()"
    left, top, width = (visitor.ask(f"{over}.{side}") for side in ("left", "top", "width"))
    visitor.ask("delete document.body.dataset.drawnMs")
    visitor.drag(left + width / 4, top + 20, left + width / 2)
    visitor.wait("document.body.dataset.drawnMs")
    from_s, until_s = state_of(visitor)["rangeS"]
    # A quarter and a half of 65 s.
    assert (from_s, until_s) == (pytest.approx(16.25, abs=0.5), pytest.approx(32.5, abs=0.5))
    labels = "[...document.querySelectorAll('[role=img]')].map(one => one.getAttribute('aria-label'))"
    drawn = visitor.ask(labels)
    link = visitor.ask("location.href")
    visitor.visit(link)
    assert visitor.ask(labels) == drawn
    assert f"from {from_s:.2f} to {until_s:.2f} s" in drawn[0]


@pytest.mark.parametrize(
    ("damaged", "told"),
    [
        ("%%%", "the link is damaged"),
        (fragment(v=99), "the link is of another version of this page, 99 instead of 1"),
        (fragment(scenario="<img src=x>", variants=["a", "b"]), "there is no scenario <img src=x>"),
    ],
)
def test_a_wrong_link_is_told_as_text(page: str, visitor: Visitor, damaged: str, told: str) -> None:
    visitor.visit(f"{page}#{damaged}")
    assert visitor.ask("document.getElementById('told').textContent") == told
    assert visitor.ask("document.querySelectorAll('img').length") == 0
