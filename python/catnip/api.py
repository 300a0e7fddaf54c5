"""What programs and notebooks use: run a scenario, read results again, put real programs behind a link."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from catnip._core import InputError, Scenario
from catnip.analysis import summary
from catnip.analysis.summary import Summary
from catnip.base import paths
from catnip.base.programs import program
from catnip.report import model, summary_tables
from catnip.store import runs
from catnip.store.tables import SERIES, USUAL, Table

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

SomePath: TypeAlias = str | os.PathLike[str]


def run(
    scenario: SomePath | Mapping[str, Any] | Scenario,
    *,
    seeds: int | Sequence[int] | None = None,
    variants: Sequence[str] | None = None,
    tables: Sequence[str] = USUAL,
    series: str | None = None,
    threads: int = 0,
) -> "Results":
    """Runs a scenario: a file, a name or id that `catnip list` shows, or what a file would say as a dict.

    `seeds` is how many runs each variant has, from seed 1 on, or the seeds themselves; the scenario's own
    number if nothing is said. `variants` leaves out others. `series` is an interval such as 100ms: then there
    are the tables link_series and connection_series. Raises InputError.

    >>> import catnip
    >>> results = catnip.run("hysteresis-priority", seeds=3)
    >>> results.summary["CATNIP / loss=priority:high=0,low=0.1"].groups["document"].finished
    3
    """
    loaded = _scenario(scenario)
    chosen = list(loaded.variants if variants is None else variants)
    for name in chosen:
        if name not in loaded.variants:
            raise InputError(f"variants: {name!r} is not one of {', '.join(loaded.variants)}")
    numbers = list(range(1, 1 + loaded.seeds)) if seeds is None else seeds
    numbers = list(range(1, 1 + numbers)) if isinstance(numbers, int) else sorted(set(numbers))
    if not numbers or numbers[0] < 0:
        raise InputError(f"seeds: {seeds!r}: expected at least one, and none below 0")
    wanted = {*tables, *summary.TABLES, *(SERIES if series else ())}
    made = loaded.run(chosen, numbers, sorted(wanted), threads, None, series)
    return Results(loaded.title, chosen, numbers, runs.axes_of(loaded, chosen), made, loaded)


def read(folder: SomePath) -> "Results":
    """Reads what `catnip run --out` or `Results.save` has written. Raises InputError."""
    manifest, made = _results().read(Path(folder))
    return Results(manifest.title, manifest.variants, manifest.seeds, manifest.axes, made)


@dataclass(frozen=True, repr=False, eq=False)
class Results:
    """What runs gave: tables with a row per connection, page, link …, and a summary of each variant."""

    title: str
    variants: Sequence[str]
    seeds: Sequence[int]
    axes: Mapping[str, Sequence[Any]]
    """In what variants differ: keys of the scenario, each with its value in every variant."""
    tables: Mapping[str, Table]
    """By name, columns as arrays; the column `variant` numbers `variants`."""
    scenario: Scenario | None = None
    """None if they were read."""

    @cached_property
    def summary(self) -> dict[str, Summary]:
        """Of each variant: means with 95 % confidence intervals over the seeds, by group and by link."""
        missing = ", ".join(name for name in summary.TABLES if name not in self.tables)
        if missing:
            raise InputError(f"tables: a summary needs {missing}, too")
        return summary.of_tables(self.tables, self.variants, self.seeds)

    def to_arrow(self, table: str = "groups") -> "pyarrow.Table":
        """A table with variants by name and a column for each axis."""
        return _results().to_arrow(self._table(table), list(self.variants), self.axes)

    def to_pandas(self, table: str = "groups") -> "pandas.DataFrame":
        """The same as a data frame of pandas."""
        return self.to_arrow(table).to_pandas()

    def to_polars(self, table: str = "groups") -> "polars.DataFrame":
        """The same as a data frame of polars."""
        import polars  # noqa: PLC0415 -- who does not call this need not have it

        made = polars.from_arrow(self.to_arrow(table))
        assert isinstance(made, polars.DataFrame)
        return made

    def save(self, folder: SomePath) -> None:
        """Writes all tables as Parquet files, and a manifest, as `catnip run --out` does."""
        if self.scenario is None:
            raise InputError("save: these results were read; copy their folder")
        results = _results()
        manifest = results.Manifest.of(self.scenario, self.variants, self.seeds)
        results.check_folder(Path(folder), manifest)
        results.write(Path(folder), manifest, self.tables)

    def _table(self, name: str) -> Table:
        if name not in self.tables:
            raise InputError(f"{name!r}: no such table; there are {', '.join(self.tables)}")
        return self.tables[name]

    def __repr__(self) -> str:
        seeds = f"{len(self.seeds)} seed{'s' * (len(self.seeds) > 1)}"
        return f"<catnip.Results {self.title!r}: {len(self.variants)} variants, {seeds}>"

    def _repr_html_(self) -> str:
        """As `catnip run` prints it."""
        told = summary_tables.tables(self.title, self.seeds, self.summary)
        return "".join(map(_html, told))


def _results() -> ModuleType:
    """Tables on disk; it needs the library for Parquet, which others do without."""
    from catnip.store import results  # noqa: PLC0415 -- as said

    return results


def _html(table: model.Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in table.rows)
    body = "".join(f"<tr>{cells}</tr>" for cells in rows)
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    caption = f"<caption>{escape(table.title)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _scenario(given: SomePath | Mapping[str, Any] | Scenario) -> Scenario:
    if isinstance(given, Scenario):
        return given
    if isinstance(given, Mapping):
        import tomli_w  # noqa: PLC0415 -- only a dict needs it

        try:
            text = tomli_w.dumps(given)
        except TypeError as error:
            raise InputError(f"scenario: {error}") from None
        return Scenario.parse("scenario", text)
    return paths.scenario(os.fspath(given))


class Link:
    """An emulated link, behind which programs can be run."""

    outside: str
    """The address of this machine as programs behind the link see it: what listens here is reached there."""
    inside: str
    """The address of programs behind the link."""
    certificate: Mapping[str, Any]
    """How well the link has kept its promises: empty until it is closed."""

    def __init__(self, process: int, outside: str, inside: str) -> None:
        self.outside, self.inside, self.certificate = outside, inside, {}
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        self._enter = ["nsenter", f"--target={process}", "--net", *user, "--"]
        self._environment = {**os.environ, "CATNIP_OUTSIDE": outside, "CATNIP_INSIDE": inside}
        self._started: list[subprocess.Popen[Any]] = []

    def run(
        self, command: Sequence[str], *, check: bool = False, **options: Any
    ) -> "subprocess.CompletedProcess[Any]":
        """Runs a command behind the link and waits for it; options are those of `subprocess.run`."""
        return subprocess.run([*self._enter, *command], check=check, env=self._environment, **options)

    def start(self, command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
        """Starts a command behind the link, which ends with it; options are those of `subprocess.Popen`."""
        started = subprocess.Popen([*self._enter, *command], env=self._environment, **options)
        self._started.append(started)
        return started

    def end(self) -> None:
        """Ends what was started and has not ended yet."""
        for started in self._started:
            if started.poll() is None:
                started.kill()
                started.wait()


@contextmanager
def link(**options: str | int | bool) -> Iterator[Link]:
    """A link behind which real programs run; options are those of `catnip link`.

    Raises InputError where there can be no link.

    >>> import catnip
    >>> with catnip.link(rate="10Mbit", delay="20ms", queue="drop-tail:50") as link:
    ...     done = link.run(["sh", "-c", "test $CATNIP_OUTSIDE"])
    >>> done.returncode
    0
    """
    told = [
        f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
        for name, value in options.items()
    ]
    with TemporaryDirectory(prefix="catnip-link-") as folder:
        certificate = Path(folder) / "certificate.json"
        # It says where it is and waits until its input ends.
        waits = 'echo "$CATNIP_OUTSIDE $CATNIP_INSIDE"; exec cat'
        command = [str(program()), "link", *told, "--quiet", f"--certificate={certificate}"]
        command += ["--", "sh", "-c", waits]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            said = process.stdout.readline().split()
            if len(said) != 2:
                raise InputError(
                    process.stderr.read().strip().removeprefix("error: ") or "link: it has ended"
                )
            # All that it has started is behind the link.
            behind = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[-1]
            made = Link(int(behind), *said)
            try:
                yield made
            finally:
                made.end()
                with suppress(BrokenPipeError):
                    process.communicate()
                if certificate.exists():
                    made.certificate = json.loads(certificate.read_text())
