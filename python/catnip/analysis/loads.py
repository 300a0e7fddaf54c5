"""Loads of recorded pages, with the fetch of each object, from the tables `loads` and `fetches`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from catnip.store.sites import Site
from catnip.store.tables import Table

TABLES = ("loads", "fetches")
WITHIN_S = 1e-9
"""Largest difference of two times that are the same."""


@dataclass(frozen=True)
class Fetch:
    """Fetch of an object: a row of the table `fetches`."""

    object: int
    origin: int
    connection: int
    http: str
    """Version of HTTP: 1.1 or 2."""
    bytes: int
    start_s: float
    look_up_s: float
    connect_s: float
    tls_s: float
    sent_s: float
    first_byte_s: float
    time_s: float

    @property
    def parts_ns(self) -> dict[str, int]:
        """Parts of the fetch in their order, in whole nanoseconds, whose sum is its time.

        After the look-up of its name, a request waits for a connection; the first one of a connection then
        waits for that to be opened.
        """
        ends = [
            self.look_up_s,
            max(self.look_up_s, self.sent_s - self.connect_s - self.tls_s),
            max(self.look_up_s, self.sent_s - self.tls_s),
            self.sent_s,
            self.first_byte_s,
            self.time_s,
        ]
        at_ns, parts = 0, {}
        for name, end_s in zip(PARTS, ends, strict=True):
            end_ns = max(at_ns, round(end_s * 1e9))
            parts[name] = end_ns - at_ns
            at_ns = end_ns
        return parts

    @property
    def sent_at_s(self) -> float:
        """Time at which the request was sent, since the begin of the run."""
        return self.start_s + self.sent_s

    @property
    def end_at_s(self) -> float:
        """Time at which the last byte had arrived, since the begin of the run."""
        return self.start_s + self.time_s


PARTS = ("look_up", "queued", "connect", "tls", "wait", "receive")
"""Names of the parts of a fetch, in their order."""


@dataclass(frozen=True)
class Load:
    """Load of a page: a row of the table `loads`, and the fetches of its objects, by start."""

    group: str
    client: int
    page: int
    number: int
    """Number of the load among those of the client and the page, from 1."""
    start_s: float
    first_byte_s: float
    render_s: float
    load_s: float
    byte_index_s: float
    time_s: float
    fetches: Sequence[Fetch]


def loads_of(tables: Mapping[str, Table], variant: int, seed: int) -> list[Load]:
    """Returns the loads of a run that have ended, by client and start; `variant` is an index."""
    loads, fetches = (_rows(tables[name], variant, seed) for name in TABLES)
    of_client: dict[tuple[Any, Any], list[Fetch]] = {}
    for row in fetches:
        fetch = Fetch(**{one.name: row[one.name] for one in fields(Fetch)})
        of_client.setdefault((row["client"], row["page"]), []).append(fetch)
    for all_of_client in of_client.values():
        all_of_client.sort(key=lambda fetch: (fetch.start_s, fetch.object))
    found, counts = [], dict[tuple[Any, Any], int]()
    for row in sorted(loads, key=lambda row: (row["client"], row["start_s"])):
        place = row["client"], row["page"]
        counts[place] = number = counts.get(place, 0) + 1
        during = list(_during(of_client.get(place, ()), row["start_s"], row["start_s"] + row["time_s"]))
        known = {one.name: row[one.name] for one in fields(Load) if one.name in row}
        found.append(Load(**known, number=number, fetches=during))
    return found


def site_of(sites: Sequence[Site], loads: Iterable[Load]) -> Site | None:
    """Returns the recorded site that has the loaded objects, by their origins and sizes; None if none has."""
    loaded = [(load.page, fetch) for load in loads for fetch in load.fetches]
    return next((site for site in sites if all(_has(site, *one) for one in loaded)), None)


def median(loads: Sequence[Load]) -> Load:
    """Returns the load with the median time, the shorter one of two; there must be a load."""
    ordered = sorted(loads, key=lambda load: (load.time_s, load.start_s))
    return ordered[(len(ordered) - 1) // 2]


def _during(fetches: Iterable[Fetch], start_s: float, end_s: float) -> Iterator[Fetch]:
    for fetch in fetches:
        if start_s - WITHIN_S <= fetch.start_s and fetch.end_at_s <= end_s + WITHIN_S:
            yield fetch


def _has(site: Site, page: int, fetch: Fetch) -> bool:
    if page > len(site.pages) or fetch.object >= len(site.pages[page - 1]):
        return False
    recorded = site.pages[page - 1][fetch.object]
    return (recorded.origin, recorded.bytes) == (fetch.origin, fetch.bytes)


def _rows(table: Table, variant: int, seed: int) -> list[dict[str, Any]]:
    """Returns the rows of a run as Python's numbers and texts."""
    columns = {key: np.asarray(column) for key, column in table.items()}
    chosen = (columns["variant"] == variant) & (columns["seed"] == seed)
    lists = [column[chosen].tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
