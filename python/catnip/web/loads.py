"""Page loads of a replayed site in a real browser, over several links that are compared pair by pair."""

import json
import shlex
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory
from typing import Any

from catnip._core import InputError
from catnip.analysis import stats
from catnip.analysis.interval import Interval
from catnip.report.output import interval
from catnip.web import commands
from catnip.web.chromium import Load
from catnip.web.congestion import OfCommands

BROWSER = [sys.executable, "-P", "-m", "catnip.web.chromium"]
"""Command that loads one page in Chromium and prints the times."""
NO_SANDBOX = "--no-sandbox"
"""Option of `BROWSER` that runs pages without the browser's sandbox."""
OURS = ("--certificate", "--json", "--resolver", "--seed")
"""Options of a link that the program sets for each load, so a user cannot set them."""


@dataclass(frozen=True)
class NamedLink:
    """Emulated link to compare: its name and the options of `catnip link`."""

    name: str
    options: Sequence[str]

    @classmethod
    def parse(cls, text: str) -> "NamedLink":
        """Parses `NAME: OPTIONS`, the value of --link. Raises InputError."""
        name, colon, rest = text.partition(":")
        if not colon or not name.strip() or name.strip().startswith("-"):
            raise InputError(
                f"--link: {text}: expected NAME: OPTIONS, as in 'slow: --rate 1Mbit --delay 50ms'"
            )
        try:
            options = shlex.split(rest)
        except ValueError as error:
            raise InputError(f"--link: {text}: {error}") from error
        for option in options:
            if option.partition("=")[0] in OURS:
                raise InputError(f"--link: {text}: {option}: each load has its own")
        return cls(name.strip(), options)


def value_of(options: Sequence[str], name: str) -> str | None:
    """Returns the value of the last option with this name, given as `NAME VALUE` or `NAME=VALUE`."""
    value = None
    for option, following in zip(options, [*options[1:], None], strict=False):
        key, equals, rest = option.partition("=")
        if key == name:
            value = rest if equals else following
    return value


@dataclass(frozen=True)
class LinkRunner:
    """Emulator, DNS resolver and environment variables with which commands run behind links."""

    emulator: Path
    resolver: str
    environment: Mapping[str, str]
    congestion: OfCommands
    has_sandbox: bool = True
    """True if a browser runs pages in its sandbox."""

    def command(self, options: Sequence[str], command: Sequence[str]) -> list[str]:
        """Returns the command line that runs a command behind a link with these options of `catnip link`."""
        command = self.congestion.wrapped(command)
        if value_of(options, "--user") is not None:
            # A command of another user gets no variables of the caller.
            command = ["env", *(f"{name}={value}" for name, value in self.environment.items()), *command]
        return [str(self.emulator), "link", *options, f"--resolver={self.resolver}", "--", *command]


@dataclass(frozen=True)
class Visit:
    """Load of a page over a link with one seed: its times, or the reason for its failure."""

    url: str
    link: str
    seed: int
    load: Load | None
    failure: str | None
    certificate: Mapping[str, Any]

    @property
    def is_red(self) -> bool:
        """True if the emulated link was out of tolerance."""
        return bool(self.certificate.get("verdict") == "red")


async def visits(
    runner: LinkRunner,
    urls: Sequence[str],
    links: Sequence[NamedLink],
    seeds: Sequence[int],
    longest_s: float,
) -> AsyncIterator[Visit]:
    """Loads each page over each link once for each seed, in a new browser each time, and yields the results.

    The order of the links is reversed for every second seed, so that a drift over time affects all links
    equally.
    """
    for url in urls:
        # Servers and files are slower the first time, so the first visit of each page does not count.
        await _visit(runner, url, NamedLink("", []), seeds[0], longest_s)
    for number, seed in enumerate(seeds):
        for url in urls:
            for link in links if number % 2 == 0 else reversed(links):
                yield await _visit(runner, url, link, seed, longest_s)


async def _visit(runner: LinkRunner, url: str, link: NamedLink, seed: int, longest_s: float) -> Visit:
    with TemporaryDirectory(prefix="catnip-pages-") as folder:
        file = Path(folder) / "certificate.json"
        options = [*link.options, f"--seed={seed}", f"--certificate={file}", "--quiet"]
        browser = [*BROWSER, url, f"--longest-s={longest_s}", *([] if runner.has_sandbox else [NO_SANDBOX])]
        code, out, err = await commands.run(
            runner.command(options, browser), runner.environment, stdout=PIPE, stderr=PIPE
        )
        message = err.decode(errors="replace").strip().removeprefix("error: ")
        if code > 128:
            raise commands.Ended(code)
        if not file.exists():
            raise InputError(f"--link: {link.name}: {' '.join(message.split())}" if link.name else message)
        certificate = json.loads(file.read_text(encoding="utf-8"))
    load = Load(**json.loads(out)) if out else None
    failure = None if load else message.splitlines()[-1] if message else "no output from the browser"
    return Visit(url, link.name, seed, load, failure, certificate)


@dataclass(frozen=True)
class Timed:
    """Summary of all loads of one page over one link."""

    loaded: int
    visits: int
    load_s: Interval | None
    """Time until the end of the load event; None if the page was never loaded."""
    html_s: Interval | None
    """Time until the last byte of the HTML; None if the page was never loaded."""
    less_s: Interval | None
    """Mean load time minus that over the first link, s, from pairs of successful loads with the same seed;
    None without pairs."""


def timed(visits: Sequence[Visit], url: str, link: str, first: str) -> Timed:
    """Returns the summary of the loads of a page over a link, compared with the link `first`."""
    here, there = (
        {one.seed: one.load for one in visits if (one.url, one.link) == (url, of)} for of in (link, first)
    )
    loads = [load for load in here.values() if load]
    pairs = [(load, other) for seed, load in here.items() if load and (other := there.get(seed))]
    return Timed(
        len(loads),
        len(here),
        stats.mean([load.seconds for load in loads]) if loads else None,
        stats.mean([load.html_seconds for load in loads]) if loads else None,
        stats.paired_difference([one.seconds for one, _ in pairs], [other.seconds for _, other in pairs])
        if pairs and link != first
        else None,
    )


def document(visits: Sequence[Visit], urls: Sequence[str], links: Sequence[NamedLink]) -> dict[str, Any]:
    """Returns the summaries by URL and by link, and every single load, for JSON."""
    first = links[0].name
    return {
        "links": {link.name: shlex.join(link.options) for link in links},
        "pages": {
            url: {link.name: _document(timed(visits, url, link.name, first)) for link in links}
            for url in urls
        },
        "visits": [
            {
                "url": visit.url,
                "link": visit.link,
                "seed": visit.seed,
                "load": visit.load and asdict(visit.load),
                "failure": visit.failure,
                "certificate": visit.certificate,
            }
            for visit in visits
        ],
    }


def _document(of: Timed) -> dict[str, Any]:
    intervals = {"load_s": of.load_s, "html_s": of.html_s, "less_s": of.less_s}
    shown = {name: value and interval(value) for name, value in intervals.items()}
    return {"loaded": of.loaded, "visits": of.visits, **shown}
