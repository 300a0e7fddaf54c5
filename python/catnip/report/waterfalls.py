"""Waterfalls of a run of recorded pages: the load with the median page time of each variant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from catnip._core import Scenario
from catnip.analysis import loads
from catnip.analysis.loads import Fetch, Load
from catnip.analysis.summary import Summary
from catnip.figures.waterfalls import Bar, waterfall
from catnip.report.model import Figure
from catnip.store.sites import Site, sites_of

MOST = 8
"""Largest number of waterfalls of a report."""
MARGIN = 1.02
"""Length of the time axis in that of the longest load."""


@dataclass(frozen=True)
class _Shown:
    """Load that is drawn, and the number of loads of the run among which it has the median page time."""

    name: str
    load: Load
    among: int
    site: Site | None


def figures(scenario: Scenario, seed: int, summaries: Mapping[str, Summary]) -> list[Figure]:
    """Returns a waterfall for each variant that loads recorded pages, all with one time axis.

    The runs with this seed are repeated for it, as summaries keep no single fetches.
    """
    places = [
        (group, name) for name, one in summaries.items() for group, of in one.groups.items() if of.milestones
    ]
    shown = _medians(scenario, seed, places[:MOST])
    if not shown:
        return []
    end_ms = MARGIN * 1e3 * max(one.load.time_s for one in shown)
    left_out = f" Shown are {MOST} of {len(places)} waterfalls." if len(places) > MOST else ""
    return [_figure(number, one, seed, end_ms, left_out) for number, one in enumerate(shown, 1)]


def _medians(scenario: Scenario, seed: int, places: Sequence[tuple[str, str]]) -> list[_Shown]:
    """Returns the median load of each group and variant, which all load the same page of a group's site."""
    if not places:
        return []
    variants = list(dict.fromkeys(name for _, name in places))
    has_groups = len({group for group, _ in places}) > 1
    tables = scenario.run(variants, [seed], list(loads.TABLES))
    sites = sites_of(scenario.bundle()[3])
    pages: dict[str, int] = {}
    shown = []
    for group, name in places:
        found = [load for load in loads.loads_of(tables, variants.index(name), seed) if load.group == group]
        if found:
            page = pages.setdefault(group, loads.median(found).page)
        of_page = [load for load in found if load.page == page]
        if of_page:
            called = f"{name}, {group}" if has_groups else name
            site = loads.site_of(sites, found)
            shown.append(_Shown(called, loads.median(of_page), len(of_page), site))
    return shown


def _figure(number: int, one: _Shown, seed: int, end_ms: float, left_out: str) -> Figure:
    load = one.load
    bars = [_bar(load, fetch, one.site) for fetch in load.fetches]
    marks_ms = {
        "first byte": 1e3 * load.first_byte_s,
        "first rendering": 1e3 * load.render_s,
        "load event": 1e3 * load.load_s,
    }
    title = f"{one.name}: a load of {1e3 * load.time_s:.0f} ms"
    url = "" if one.site is None else f" ({one.site.pages[load.page - 1][0].url})"
    caption = (
        f"Load {load.number} of page {load.page}{url} by client {load.client}: the median page time of "
        f"{one.among} loads of this run. A row for each object, in the order in which the browser wanted "
        f"them; a queued request waits for a connection. All waterfalls have the same time axis.{left_out}"
    )
    drawn = waterfall(title, bars, marks_ms, end_ms)
    return Figure(f"waterfall-{number}", f"Waterfall of {one.name}", caption, drawn, seeds=[seed])


def _bar(load: Load, fetch: Fetch, site: Site | None) -> Bar:
    name = f"object {fetch.object}" if site is None else _name(site.pages[load.page - 1][fetch.object].url)
    parts_ms = {part: ns / 1e6 for part, ns in fetch.parts_ns.items()}
    return Bar(name, fetch.bytes, 1e3 * (fetch.start_s - load.start_s), parts_ms)


def _name(url: str) -> str:
    """Returns the last part of the path of a URL, or its host and port if the path is empty."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if not path:
        return parts.netloc
    return path.rpartition("/")[2] + "/" * parts.path.endswith("/")
