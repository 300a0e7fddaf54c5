"""Tests of the waterfalls in the report of a run of recorded pages."""

import re
from pathlib import Path

import numpy as np
import pytest

import catnip as package
from catnip._core import Scenario
from catnip.analysis import loads
from catnip.base import paths
from catnip.figures.waterfalls import Bar
from catnip.report import waterfalls
from conftest import Run
from plans import FILES

NAMES = ["HTTP/1.1", "HTTP/2, one connection"]


@pytest.fixture(scope="module")
def read() -> package.Results:
    return package.run("recorded-page", seeds=2, variants=NAMES)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[Bar], dict[str, float], float]]:
    """Arguments with which waterfalls are drawn, which takes a while, from now on."""
    seen: list[tuple[str, list[Bar], dict[str, float], float]] = []

    def draw(title: str, bars: list[Bar], marks_ms: dict[str, float], end_ms: float) -> str:
        seen.append((title, bars, marks_ms, end_ms))
        return "<svg></svg>"

    monkeypatch.setattr(waterfalls, "waterfall", draw)
    return seen


def scenario_of(read: package.Results) -> Scenario:
    assert read.scenario is not None
    return read.scenario


def test_a_report_has_a_waterfall_of_each_variant_and_a_plot_has_none(catnip: Run, tmp_path: Path) -> None:
    page, plot = tmp_path / "page.html", tmp_path / "plot.svg"
    chosen = [word for name in NAMES for word in ("--variant", name)]
    ended = catnip("run", "recorded-page", "--seeds", 2, *chosen, "--report", page, "--plot", plot)
    assert ended.code == 0
    text = page.read_text(encoding="utf-8")
    found = re.findall(r'<figure id="(waterfall-\d)">.*?<title>(.*?)</title>', text, re.DOTALL)
    assert [id for id, _ in found] == ["waterfall-1", "waterfall-2"]
    assert [title.split(": a load of")[0] for _, title in found] == NAMES
    for id, name in zip(("waterfall-1", "waterfall-2"), NAMES, strict=True):
        assert f'<a href="#{id}">Waterfall of {name}</a>' in text
    assert "Milestones" in text
    assert "distribution of times" in plot.read_text(encoding="utf-8")
    assert "a load of" not in plot.read_text(encoding="utf-8")


def test_a_run_without_recorded_pages_has_no_waterfall(catnip: Run, tmp_path: Path) -> None:
    file, page = tmp_path / "files.toml", tmp_path / "page.html"
    file.write_text(FILES)
    assert catnip("run", file, "--report", page).code == 0
    assert 'id="waterfall' not in page.read_text(encoding="utf-8")


def test_the_load_of_the_median_page_time_of_the_first_seed_is_drawn_on_a_common_axis(
    read: package.Results, drawn: list[tuple[str, list[Bar], dict[str, float], float]]
) -> None:
    figures = waterfalls.figures(scenario_of(read), 1, read.summary)
    assert len(figures) == len(drawn) == 2
    pages = {key: np.asarray(column) for key, column in read.tables["pages"].items()}
    ends = []
    for variant, (title, bars, marks_ms, end_ms) in enumerate(drawn):
        times_s = pages["time_s"][(pages["variant"] == variant) & (pages["seed"] == 1)]
        median_s = float(np.sort(times_s)[(len(times_s) - 1) // 2])
        assert title == f"{NAMES[variant]}: a load of {1e3 * median_s:.0f} ms"
        assert f"the median page time of {len(times_s)} loads" in figures[variant].caption
        assert figures[variant].seeds == [1]
        assert max(bar.start_ms + sum(bar.parts_ms.values()) for bar in bars) == pytest.approx(1e3 * median_s)
        assert marks_ms["first byte"] <= marks_ms["first rendering"] <= marks_ms["load event"]
        # The recording has the browser's own time from its last object to the load event: 2.237 ms.
        assert marks_ms["load event"] == pytest.approx(1e3 * median_s + 2.237, abs=1e-3)
        starts = [bar.start_ms for bar in bars]
        assert starts == sorted(starts) and starts[0] == pytest.approx(0, abs=1e-6)
        assert {bar.name for bar in bars} >= {"www.localhost:8080", "style.css", "image8.png", "items.json"}
        ends.append(end_ms)
    assert ends[0] == ends[1] > 1e3 * float(pages["time_s"][pages["seed"] == 1].min())


def test_the_repeated_run_gives_the_loads_of_the_tables(read: package.Results) -> None:
    shown = waterfalls._medians(scenario_of(read), 2, [("site", name) for name in NAMES])
    for variant, one in enumerate(shown):
        assert one.load == loads.median(loads.loads_of(read.tables, variant, 2))
        assert one.site is not None


def test_at_most_eight_waterfalls_are_drawn_and_the_caption_tells_of_how_many(
    drawn: list[tuple[str, list[Bar], dict[str, float], float]], tmp_path: Path
) -> None:
    base = Path(paths.PACKAGE) / "scenarios" / "recorded-page.toml"
    site = base.parent / "pages" / "site.har"
    axis = '[[axis]]\nkey = "link.access.delay"\nvalues = [{}]\n'
    delays = ", ".join(f'"{delay}ms"' for delay in range(1, 11))
    text = f'base = "{base}"\nid = "X-79"\n[traffic.site]\npage = "{site}"\ntimes = 1\n{axis.format(delays)}'
    (tmp_path / "ten.toml").write_text(text)
    read = package.run(tmp_path / "ten.toml", seeds=1)
    figures = waterfalls.figures(scenario_of(read), 1, read.summary)
    assert len(figures) == len(drawn) == waterfalls.MOST
    count = len(read.variants)
    assert count > waterfalls.MOST
    assert figures[0].caption.endswith(f"Shown are 8 of {count} waterfalls.")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://example.org/", "example.org"),
        ("https://example.org:8443/", "example.org:8443"),
        ("https://example.org/a/b.js", "b.js"),
        ("https://example.org/a/b/", "b/"),
    ],
)
def test_an_object_has_the_last_part_of_its_path_as_name(url: str, name: str) -> None:
    assert waterfalls._name(url) == name
