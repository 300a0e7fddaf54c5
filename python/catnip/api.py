"""Python interface: runs scenarios, reads results, and runs programs behind emulated links."""

import json
import operator
import os
import subprocess
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from html import escape
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from catnip._core import InputError, Scenario
from catnip.analysis import milestones, summary, users
from catnip.analysis.interval import Interval
from catnip.analysis.summary import Summary
from catnip.base import extras, files, paths
from catnip.base.programs import program
from catnip.report import model, summary_tables
from catnip.store import runs
from catnip.store.tables import SERIES, USUAL, Table

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from catnip.report import plots

MAX_RUNS = 100_000
MAX_SEED = 2**62
UNWRITABLE = (TypeError, RecursionError, UnicodeEncodeError)
"""Errors of what cannot be written as TOML."""
LONGEST_SHOWN = 60
"""Number of characters of a wrong value that are shown."""
SomePath: TypeAlias = str | os.PathLike[str]


def run(
    scenario: SomePath | Mapping[str, Any] | Scenario,
    *,
    set: Mapping[str, Any] | None = None,
    seeds: SupportsIndex | Sequence[int] | None = None,
    variants: Sequence[str] | None = None,
    tables: Sequence[str] = USUAL,
    series: str | None = None,
    threads: int = 0,
) -> "Results":
    """Runs a scenario: a file, a name or id that `catnip list` shows, or a dict with the keys of a file.

    `set` changes keys in all variants, as in {"link.line.rate": "2Mbit"}. `seeds` is the number of runs of
    each variant, with seeds from 1 on, or the seeds themselves; the default is the number in the scenario.
    `variants` selects variants. `series` is an interval such as 100ms and adds the tables link_series and
    connection_series. Raises InputError; warns of keys that have no effect.

    >>> import catnip
    >>> results = catnip.run("hysteresis-priority", seeds=3)
    >>> results.summary["CATNIP / loss=priority:high=0,low=0.1"].groups["document"].finished
    3
    """
    loaded = _scenario(scenario, _changes(set))
    for warning in loaded.warnings:
        warnings.warn(warning, stacklevel=2)
    chosen = loaded.variants if variants is None else _variants(variants, loaded.variants)
    numbers = _seeds(loaded.seeds if seeds is None else seeds)
    threads = _whole("threads", threads, 4096)
    if not isinstance(series, str | None):
        raise InputError(f"series: {series!r}: expected an interval such as '100ms'")
    requested = {*_names("tables", tables), *summary.TABLES, *(SERIES if series else ())}
    filled = loaded.run(chosen, numbers, sorted(requested), threads, None, series)
    return Results(loaded.title, chosen, numbers, runs.axes_of(loaded, chosen), filled, loaded, series)


def read(folder: SomePath) -> "Results":
    """Reads results that `catnip run --out` or `Results.save` has written. Raises InputError."""
    manifest, tables = _results().read(_path("folder", folder))
    head = manifest.title, manifest.variants, manifest.seeds, manifest.axes
    return Results(*head, tables, series=manifest.series, seed_counts=manifest.seed_counts)


@dataclass(frozen=True, repr=False, eq=False)
class Results:
    """Results of runs: tables with a row per connection, page, link …, and a summary of each variant."""

    title: str
    variants: Sequence[str]
    seeds: Sequence[int]
    axes: Mapping[str, Sequence[Any]]
    """Axes of the variants: keys of the scenario that vary, each with a list of its value in every
    variant."""
    tables: Mapping[str, Table]
    """Tables by name, with columns as arrays; the column `variant` holds indices into `variants`."""
    scenario: Scenario | None = None
    """Scenario of the runs; None if the results were read from a folder."""
    series: str | None = None
    """Interval of time series; None if there are none."""
    seed_counts: Sequence[int] | None = None
    """Number of seeds of each variant, which has the first of `seeds`; None if all have all seeds."""

    @cached_property
    def summary(self) -> dict[str, Summary]:
        """Summary of each variant: means with 95 % confidence intervals over the seeds, by group and link."""
        missing = ", ".join(name for name in summary.TABLES if name not in self.tables)
        if missing:
            raise InputError(f"tables: a summary also needs {missing}")
        summaries = summary.of_tables(self.tables, self.variants, self.seeds, self.seed_counts)
        summaries = users.with_busy_goodput(summaries, self.tables, self._counts, self.seeds)
        return milestones.of_tables(summaries, self.tables, self._counts, self.seeds)

    @cached_property
    def fairness(self) -> dict[str, Interval]:
        """Jain's index of the bytes that the users of all groups together received, of each variant.

        A variant with a single group, with a warm-up, or with users without a connection does not have it.
        """
        if "groups" not in self.tables:
            raise InputError("tables: fairness needs groups")
        return users.fairness(self.tables, self.variants, self._counts, self.seeds)

    def differences(self, against: str) -> dict[str, dict[str, dict[str, Interval]]]:
        """Returns what differs between variants, paired by seed: by variant, group and measure.

        Each variant is compared with the variant `against`, or, with the value of an axis as in
        `queue=drop-tail:10`, with the variant that differs from it in this value only. Raises InputError.
        """
        pairs = summary_tables.pairs_of(_text("against", against), self.axes, self.summary)
        return {
            name: {
                group: of.less(base.groups[group])
                for group, of in ours.groups.items()
                if group in base.groups
            }
            for name, (ours, base) in pairs.items()
        }

    def report(self, file: SomePath, against: str | None = None) -> None:
        """Writes an HTML report with all results and plots, as `catnip run --report`.

        Raises InputError, also if the library that draws is missing.
        """
        to, base = _path("file", file), None if against is None else _text("against", against)
        extras.need("report", "jinja2", "matplotlib")
        if self.scenario is None:
            raise InputError("report: these results were read from a folder, which has no scenario to show")
        from catnip.report import over_time, run_page, waterfalls  # noqa: PLC0415 -- need the library that draws

        drawn = run_page.figures(self.scenario, self.seeds, self.summary, self.axes)
        drawn += over_time.figures(self.scenario, self.seeds[0], self.variants, base)
        drawn += waterfalls.figures(self.scenario, self.seeds[0], self.summary)
        written = run_page.page(self.scenario, self.seeds, self.summary, drawn, base)
        with _told("report"):
            files.write(to, written)

    def plot(self, subject: str | None = None, against: str | None = None) -> "plots.Plot":
        """Returns a plot, which notebooks show and which has a method `save`, as of `catnip run --plot`.

        The subject is `times`, `axis`, `map`, `windows`, `queues`, `rates` or `round-trips`, by default the
        first of axis, map and times that the runs have, or else windows. What happens over time is drawn for
        the first seed and two variants, the first of which is `against`. Raises InputError, also if the
        library that draws is missing.
        """
        extras.need("plot", "matplotlib")
        base = None if against is None else _text("against", against)
        if self.scenario is None:
            raise InputError("plot: these results were read from a folder, which has no scenario to run")
        from catnip.report import plots  # noqa: PLC0415 -- needs the library that draws

        try:
            return plots.plot(self.scenario, self.seeds, self.summary, self.axes, base, subject)
        except InputError as error:
            raise InputError(f"plot: {error}") from None

    def only(self, variants: Sequence[str], seeds: Sequence[int]) -> dict[str, Table]:
        """Returns the rows of some variants and seeds; their variants are indices into `variants`.

        Raises InputError for a variant or a seed that the results do not have.
        """
        chosen, numbers = _variants(variants, self.variants), _seeds(list(_listed("seeds", seeds)))
        if others := sorted({*numbers} - {*self.seeds}):
            raise InputError(f"seeds: {others[0]} is not one of these results")
        position = {name: index for index, name in enumerate(self.variants)}
        number = np.full(len(self.variants), -1)
        number[[position[name] for name in chosen]] = range(len(chosen))
        some: dict[str, Table] = {}
        for name, table in self.tables.items():
            variant = number[np.asarray(table["variant"]).astype(np.int64)]
            at = np.flatnonzero((variant >= 0) & np.isin(np.asarray(table["seed"]), numbers))
            at = at[np.argsort(variant[at], kind="stable")]
            columns = {key: np.asarray(column)[at] for key, column in table.items()}
            some[name] = {**columns, "variant": variant[at].astype(np.uint64)}
        return some

    def to_arrow(self, table: str = "groups") -> "pyarrow.Table":
        """Returns a results table in Arrow's format, with the variants' names and a column for each axis."""
        return _results().arrow.to_arrow(self._table(table), list(self.variants), self.axes)

    def to_pandas(self, table: str = "groups") -> "pandas.DataFrame":
        """Returns a results table as a data frame of pandas."""
        return self.to_arrow(table).to_pandas()

    def to_polars(self, table: str = "groups") -> "polars.DataFrame":
        """Returns a results table as a data frame of polars."""
        import polars  # noqa: PLC0415 -- an optional library

        frame = polars.from_arrow(self.to_arrow(table))
        assert isinstance(frame, polars.DataFrame)
        return frame

    def save(self, folder: SomePath) -> None:
        """Writes all tables as Parquet files, and a manifest, as `catnip run --out` does."""
        if self.scenario is None:
            raise InputError("save: these results were read from a folder; copy the folder")
        to, results = _path("folder", folder), _results()
        manifest = results.Manifest.of(self.scenario, self.variants, self.seeds, series=self.series)
        results.check_folder(to, manifest)
        with _told("save"):
            results.write(to, manifest, self.tables)

    @property
    def _counts(self) -> Sequence[int]:
        return self.seed_counts or [len(self.seeds)] * len(self.variants)

    def _table(self, name: str) -> Table:
        if not isinstance(name, str) or name not in self.tables:
            raise InputError(f"{name!r}: no such table; there are {', '.join(self.tables)}")
        return self.tables[name]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Results":
        """Returns a copy with tables of its own; the scenario, which never changes, is shared."""
        own = (one.name for one in fields(self) if one.name != "scenario")
        return replace(self, **{name: deepcopy(getattr(self, name), memo) for name in own})

    def __repr__(self) -> str:
        seeds = f"{len(self.seeds)} seed{'s' * (len(self.seeds) > 1)}"
        return f"<catnip.Results {self.title!r}: {len(self.variants)} variants, {seeds}>"

    def _repr_html_(self) -> str:
        """Returns the summary tables that `catnip run` prints, as HTML for notebooks."""
        shown = summary_tables.tables(self.title, self.seeds, self.summary)
        return "".join(map(_html, shown))


def _results() -> ModuleType:
    """Returns the module `store.results`; raises InputError if the Parquet library is missing."""
    from catnip.store import results  # noqa: PLC0415 -- requires the Parquet library

    return results


def _html(table: model.Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in table.rows)
    body = "".join(f"<tr>{cells}</tr>" for cells in rows)
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    caption = f"<caption>{escape(table.title)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _seeds(seeds: SupportsIndex | Sequence[int]) -> list[int]:
    """Returns the seeds of a number of runs, or those that are given, sorted."""
    if isinstance(seeds, Iterable) and not isinstance(seeds, str | bytes):
        listed = list(islice(seeds, MAX_RUNS + 1))
        if len(listed) > MAX_RUNS:
            raise InputError(f"seeds: {_shown(seeds)}: expected at most {MAX_RUNS}")
        numbers = sorted({_whole("seeds", seed, MAX_SEED) for seed in listed})
    else:
        numbers = list(range(1, 1 + _whole("seeds", seeds, MAX_RUNS)))
    if not numbers:
        raise InputError(f"seeds: {seeds!r}: expected at least one")
    return numbers


def _whole(key: str, value: Any, greatest: int) -> int:
    """Returns a whole number of any type as an int; raises InputError for anything else."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number <= greatest:
        raise InputError(f"{key}: {value!r}: expected a whole number from 0 to {greatest}")
    return number


def _shown(value: Any) -> str:
    """Returns a value in one line, cut if it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _variants(names: Any, known: Sequence[str]) -> list[str]:
    """Returns names of variants, each of which must be known, and there once."""
    chosen, there = _names("variants", names), {*known}
    for name in chosen:
        if name not in there:
            raise InputError(f"variants: {name!r} is not one of {', '.join(known)}")
    for name in chosen:
        if name not in there:
            raise InputError(f"variants: {name!r} is there twice")
        there.remove(name)
    return chosen


def _names(key: str, names: Any) -> list[str]:
    """Returns a list of names; raises InputError for anything else, a single text included."""
    listed = list(_listed(key, names, "names"))
    for name in listed:
        if not isinstance(name, str):
            raise InputError(f"{key}: {name!r}: expected a name")
    if not listed:
        raise InputError(f"{key}: expected at least one")
    return listed


def _listed(key: str, values: Any, kind: str = "whole numbers") -> Iterable[Any]:
    """Returns what can be listed, and is no text; raises InputError for anything else."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"{key}: {values!r}: expected a list of {kind}")
    return values


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{key}: {_shown(value)}: expected a text")
    return value


def _path(key: str, value: Any) -> Path:
    """Returns the path of a file or folder; raises InputError for anything else."""
    name = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise InputError(f"{key}: {_shown(value)}: expected a path")
    return Path(name)


@contextmanager
def _told(key: str) -> Iterator[None]:
    """Raises InputError for an error of the system about a file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{key}: {error.filename}: {error.strerror}") from error


def _changes(changes: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Returns keys and values as `--set` takes them: texts as they are, other values as in TOML."""
    if changes is None:
        return []
    if not isinstance(changes, Mapping):
        raise InputError(f"set: {changes!r}: expected a dict of keys and values")
    import tomli_w  # noqa: PLC0415 -- few runs need it

    written = []
    for key, value in changes.items():
        if not isinstance(key, str):
            raise InputError(f"set: {key!r}: expected the path of a key, such as 'link.line.rate'")
        try:
            text = (
                value
                if isinstance(value, str)
                else tomli_w.dumps({"value": value}).partition("= ")[2].strip()
            )
            text.encode()
        except UNWRITABLE as error:
            raise InputError(f"set: {key}: {error}") from None
        written.append((key, text))
    return written


def _scenario(source: SomePath | Mapping[str, Any] | Scenario, changes: list[tuple[str, str]]) -> Scenario:
    if isinstance(source, Scenario):
        if not changes:
            return source
        path, text, before, files = source.bundle()
        return Scenario.from_bundle(path, text, [*before, *changes], files)
    if isinstance(source, Mapping):
        import tomli_w  # noqa: PLC0415 -- needed only for a dict

        try:
            text = tomli_w.dumps(source)
            text.encode()
        except UNWRITABLE as error:
            raise InputError(f"scenario: {error}") from None
        return Scenario.parse("scenario", text, changes)
    if not isinstance(source, str | os.PathLike):
        raise InputError(f"scenario: {source!r}: expected a file, a name, a dict or a Scenario")
    return paths.scenario(os.fspath(source), changes)


class Link:
    """Emulated link, behind which programs can be run."""

    outside: str
    """Address of this machine for programs behind the link; servers on this machine are reached there."""
    inside: str
    """Address of programs behind the link."""
    certificate: Mapping[str, Any]
    """Certificate of the link, with its measured deviations; empty until the link is closed."""

    def __init__(self, process: int, outside: str, inside: str) -> None:
        self.outside, self.inside, self.certificate = outside, inside, {}
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        self._enter = ["nsenter", f"--target={process}", "--net", *user, "--"]
        self._environment = {**os.environ, "CATNIP_OUTSIDE": outside, "CATNIP_INSIDE": inside}
        self._started: list[subprocess.Popen[Any]] = []

    def run(
        self, command: Sequence[str], *, check: bool = False, **options: Any
    ) -> "subprocess.CompletedProcess[Any]":
        """Runs a command behind the link and waits for it; the options are those of `subprocess.run`."""
        return subprocess.run([*self._enter, *command], check=check, env=self._environment, **options)

    def start(self, command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
        """Starts a command behind the link; the options are those of `subprocess.Popen`.

        The command is killed when the link is closed.
        """
        started = subprocess.Popen([*self._enter, *command], env=self._environment, **options)
        self._started.append(started)
        return started

    def end(self) -> None:
        """Kills all started commands that are still running."""
        for started in self._started:
            if started.poll() is None:
                started.kill()
                started.wait()


@contextmanager
def link(**options: str | int | bool) -> Iterator[Link]:
    """Opens a link behind which real programs run; the options are those of `catnip link`.

    Raises InputError if the link cannot be created.

    >>> import catnip
    >>> with catnip.link(rate="10Mbit", delay="20ms", queue="drop-tail:50") as link:
    ...     done = link.run(["sh", "-c", "test $CATNIP_OUTSIDE"])
    >>> done.returncode
    0
    """
    arguments = [
        f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
        for name, value in options.items()
    ]
    with TemporaryDirectory(prefix="catnip-link-") as folder:
        certificate = Path(folder) / "certificate.json"
        # This shell keeps the link open: it prints the addresses and waits for the end of its input.
        waits = 'echo "$CATNIP_OUTSIDE $CATNIP_INSIDE"; exec cat'
        command = [str(program()), "link", *arguments, "--quiet", f"--certificate={certificate}"]
        command += ["--", "sh", "-c", waits]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            addresses = process.stdout.readline().split()
            if len(addresses) != 2:
                raise InputError(
                    process.stderr.read().strip().removeprefix("error: ")
                    or "link: it ended without a message"
                )
            # Every child of the emulator runs behind the link.
            child = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[-1]
            opened = Link(int(child), *addresses)
            try:
                yield opened
            finally:
                opened.end()
                with suppress(BrokenPipeError):
                    process.communicate()
                if certificate.exists():
                    opened.certificate = json.loads(certificate.read_text())
