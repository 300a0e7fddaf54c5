"""Page loads of replayed sites in headless Chromium, and the same loads simulated."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from catnip import api
from catnip._core import InputError, read_har
from catnip.base import extras
from catnip.base.programs import cannot_emulate
from catnip.base.ranges import runs_of
from catnip.papers.emulation import RED, is_red
from catnip.papers.pages.cells import CELLS, QUICK, Cell
from catnip.papers.pages.sites import Site
from catnip.papers.runs import Runs
from catnip.papers.unavailable import Unavailable
from catnip.web.chromium import find

Result = TypeVar("Result")

CONTROL = "reno"
"""Congestion control of all senders, real and simulated; any network namespace may choose it."""
LOADS, SIMULATED_PER_LOAD = 10, 4
TRIES = 3
NOT_LOADED = 5
"""Exit code of `catnip pages` if a page did not load."""
PAGES = "pages"
"""Name, for `seeds`, of the page loads, whose number is the number of seeds."""
QUEUE = "drop-tail:1000"
"""Queue of the link: the default of the emulator's."""
LIBRARIES = ("cryptography", "dns", "h11", "h2", "pyroute2")
"""Optional libraries of a replay."""


@dataclass(frozen=True)
class Measured:
    """Loads of a cell in the browser, one for each seed whose page was loaded."""

    load_s: Sequence[float]
    """Times until the end of the load event, s."""
    objects: Sequence[int]
    """Numbers of objects that the browser received before its load event."""
    repeated: int
    """Number of loads that were repeated, for a page that did not load, a red link or busy cores."""
    red: int
    """Number of loads whose link was red, or whose programs waited for busy cores, in all tries."""
    failed: int
    """Number of loads that did not end in any try."""


@dataclass
class PageRuns(Runs):
    """Loads of the cells, measured and simulated on demand."""

    quick_seeds = 6
    quick_says = f"one of {len(CELLS)} pages and links"

    def usual_seeds(self, name: str) -> int:
        """Returns the number of loads of a cell at full length."""
        return LOADS

    @property
    def cells(self) -> Sequence[Cell]:
        """Cells that are compared."""
        return (QUICK,) if self.quick else CELLS

    def measured(self, cell: Cell) -> Measured:
        """Returns the loads of a cell in the browser."""
        seeds = self.seeds(PAGES)
        key = ("measured", cell.name, len(seeds))
        loads = self._step(key, f"{cell.name}: Chromium", partial(_measured, cell, seeds))
        self.count_sample(len(loads.load_s))
        return loads

    def simulated(self, cell: Cell) -> NDArray[np.float64]:
        """Returns the simulated times of a cell until the load event, s, one for each seed."""
        seeds = self.first_seeds(SIMULATED_PER_LOAD * len(self.seeds(PAGES)))
        page = self.page_file(cell.site)
        key = ("simulated", cell.name, len(seeds))
        return self._step(key, f"{cell.name}: simulated", partial(simulated, cell, page, seeds))

    def page_file(self, site: Site) -> str:
        """Returns the page file of a site, from one load without a link's rate, delay and losses.

        The folder of the parts gets the file, too, for other simulations of the site.
        """

        text = self._step(("page file", site.name), f"{site.name}: recording", partial(recorded, site))
        if self.parts.folder is not None:
            (self.parts.folder / f"{site.name}.page.json").write_text(text, encoding="utf-8")
        return text

    def _step(self, key: tuple[Any, ...], label: str, make: Callable[[], Result]) -> Result:
        """Returns the result of a step, which is made once, with progress, and is a part."""

        def told() -> Result:
            report = self.progress.task(label)
            report(0, 1)
            result = make()
            report(1, 1)
            return result

        return self.cached(key, partial(self.parts.get, (PAGES, self.first_seed, *key), told))


def simulated(cell: Cell, page: str, seeds: Sequence[int]) -> NDArray[np.float64]:
    """Simulates the loads of a cell from a page file; returns the times until the load event, s."""
    with TemporaryDirectory(prefix="catnip-page-") as folder:
        file = Path(folder) / "site.page.json"
        file.write_text(page, encoding="utf-8")
        tables = api.run(_scenario(cell, str(file)), seeds=seeds, tables=["loads"]).tables
    return np.asarray(tables["loads"]["load_s"], dtype=np.float64)


def recorded(site: Site) -> str:
    """Loads a site in Chromium once, over a link without rate, delay and losses; returns its page file."""
    _require_browser()
    with _written(site) as folder:
        har = folder.parent / "site.har"
        writer = [sys.executable, "-P", "-m", "catnip.web.har", site.url, "--out", str(har)]
        done = _catnip("replay", str(folder), "--quiet", f"--congestion={CONTROL}", "--", *writer)
        if not har.exists():
            raise Unavailable(_reason(done))
        text, [page] = read_har(str(har))
    if page["objects"] != site.objects:
        raise InputError(f"{site.name}: {page['objects']} objects were recorded, not {site.objects}")
    return text


def _scenario(cell: Cell, page: str) -> dict[str, Any]:
    """Returns the scenario of a cell, whose servers are next to the link."""
    lost = {"loss": cell.loss} if cell.loss_pct else {}
    return {
        "id": "PAG",
        "title": cell.name,
        "seeds": 1,
        "node": {
            "server": {"kind": "host", "count": cell.site.origins},
            "near": {"kind": "router"},
            "home": {"kind": "host"},
        },
        "link": {
            "server": {
                "from": "server",
                "to": "near",
                "rate": "10Gbit",
                "delay": "0ms",
                "queue": "drop-tail:100000",
            },
            "access": {"from": "home", "to": "near", "path": cell.link, "queue": QUEUE, **lost},
        },
        "tcp": {"profile": "linux-6", "control": CONTROL},
        "traffic": {
            "site": {
                "kind": "page",
                "clients": "home",
                "servers": "server",
                "page": page,
                "keep_alive": False,
            }
        },
    }


def _measured(cell: Cell, seeds: Sequence[int]) -> Measured:
    """Loads a cell in the browser for all seeds; what does not count is repeated."""
    _require_browser()
    with _written(cell.site) as folder:
        visits: dict[int, dict[str, Any]] = {}
        repeated = 0
        for attempt in range(TRIES):
            wanted = [seed for seed in seeds if seed not in visits or not _counts(visits[seed])]
            repeated += len(wanted) if attempt else 0
            for first, last in runs_of(wanted):
                visits |= {one["seed"]: one for one in _visits(cell, folder, first, 1 + last - first)}
    loads = [visit["load"] for visit in visits.values() if visit["load"]]
    if not loads:
        raise Unavailable(f"{cell.name}: {visits[seeds[0]]['failure']}")
    return Measured(
        [load["seconds"] for load in loads],
        [load["objects"] for load in loads],
        repeated,
        sum(is_red(visit["certificate"]) for visit in visits.values() if visit["load"]),
        len(visits) - len(loads),
    )


def _counts(visit: dict[str, Any]) -> bool:
    return visit["load"] is not None and not is_red(visit["certificate"])


def _visits(cell: Cell, folder: Path, first_seed: int, loads: int) -> list[dict[str, Any]]:
    """Runs `catnip pages` with consecutive seeds; returns its visits."""
    link = f"link: --path {cell.link} --queue {QUEUE} --loss {cell.loss}"
    seeds = [f"--seed={first_seed}", f"--runs={loads}"]
    done = _catnip("pages", str(folder), f"--link={link}", *seeds, f"--congestion={CONTROL}", "--json")
    if done.returncode not in (0, RED, NOT_LOADED):
        raise Unavailable(_reason(done))
    visits: list[dict[str, Any]] = json.loads(done.stdout)["visits"]
    return visits


@contextmanager
def _written(site: Site) -> Iterator[Path]:
    with TemporaryDirectory(prefix="catnip-site-") as folder:
        site.write(Path(folder) / "site")
        yield Path(folder) / "site"


def _catnip(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-P", "-m", "catnip", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _reason(done: "subprocess.CompletedProcess[str]") -> str:
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")] or [
        f"exit code {done.returncode}: {done.stderr.strip()[-300:]}"
    ]
    return lines[-1].removeprefix("error: ")


def _require_browser() -> None:
    if find("chromium") is None:
        raise Unavailable("chromium: not installed (apt install chromium)")
    if missing := cannot_emulate():
        raise Unavailable(missing)
    try:
        extras.need("reproduce", *LIBRARIES)
    except InputError as error:
        raise Unavailable(str(error)) from None
