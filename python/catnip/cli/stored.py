"""Commands `catnip rerun` and `catnip results`, which read what `catnip run --out` has written."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from catnip._core import InputError, __version__
from catnip.base import extras, files
from catnip.base.verbosity import note, warn
from catnip.cli.options import CLAIM_FAILED, EXPORT, check_writable, common

if TYPE_CHECKING:
    from catnip.api import Results
    from catnip.store.repeated import Repeated
    from catnip.store.results import Manifest

STORED = click.Path(path_type=Path, exists=True, file_okay=False)
folder_argument = click.argument("folder", metavar="DIR", type=STORED)


@click.command(epilog="Example: catnip rerun build/catnip-e4 --variant Reno/DropTail")
@folder_argument
@click.option(
    "--variant", "variants", multiple=True, metavar="NAME", help="Variant to run; repeatable.  [default: all]"
)
@click.option(
    "--point",
    "points",
    multiple=True,
    metavar="ID",
    help="Variant to run, by its ID in the manifest, or its begin.",
)
@click.option("--seeds", "only", type=click.IntRange(min=1), help="Number of seeds to run.  [default: all]")
@click.option(
    "--threads", type=click.IntRange(0, 4096), default=0, help="Number of threads.  [default: one per core]"
)
@common
def rerun(
    folder: Path,
    variants: tuple[str, ...],
    points: tuple[str, ...],
    only: int | None,
    threads: int,
    seed: int,
    as_json: bool,
) -> None:
    """Repeat the runs of a folder DIR of results, and compare the rows bit by bit.

    DIR is what `catnip run --out` has written, perhaps on another machine: the scenario and its files are
    taken from the manifest alone. Only with the same version of CATNIP are equal rows promised; another one
    is told.

    Exits with 1 if a run gives other rows.
    """
    del seed
    extras.need("rerun", "pyarrow")
    from catnip.base.progress import Progress  # noqa: PLC0415 -- help needs none of these
    from catnip.report import output  # noqa: PLC0415
    from catnip.store import repeated, results  # noqa: PLC0415

    manifest, _ = results.read(folder, tables=())
    scenario = repeated.scenario_of(folder, manifest)
    _tell_version(manifest)
    chosen = _chosen(folder, manifest, (*variants, *_of_points(folder, manifest, points)))
    seeds = manifest.seeds[:only]
    with Progress(quiet=as_json) as progress:
        report = progress.task(manifest.scenario)
        done = repeated.compared(folder, manifest, scenario, chosen, seeds, threads, report)
    if as_json:
        output.print_json({"same": all(one.is_same for one in done), "tables": list(map(_document, done))})
    else:
        rows = [(one.table, f"{one.rows}", one.difference or "the same") for one in done]
        title = f"Repeated runs of {folder}: {len(chosen)} variants, {len(seeds)} seeds"
        output.print_table(title, ("table", "rows", "values"), rows)
    if not all(one.is_same for one in done):
        raise click.exceptions.Exit(CLAIM_FAILED)


@click.command(epilog="Example: catnip results build/catnip-e4 --against Reno/DropTail")
@folder_argument
@click.option(
    "--against",
    metavar="VARIANT",
    help="Variant, or value of an axis such as queue=drop-tail:10, to compare the others with.",
)
@click.option("--compare", type=STORED, metavar="DIR", help="Other results, whose variants to compare with.")
@click.option("--table", metavar="NAME", help="Table to export.  [default: groups]")
@click.option("--export", type=EXPORT, metavar="FILE.csv", help="File to write a table to: CSV, or Arrow.")
@common
def results(
    folder: Path,
    against: str | None,
    compare: Path | None,
    table: str | None,
    export: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Summarize the results of a folder DIR, compare or export them.

    Prints what `catnip run` has printed, and what takes all rows: the goodput of users while they are busy,
    and the fairness among the users of all groups. --compare prints the differences of the variants that two
    results share, paired by the seeds that both have: what another version, or another value of a key, has
    changed.
    """
    del seed
    extras.need("results", "pyarrow")
    if table is not None and export is None:
        raise click.UsageError("--table: needs --export")
    from catnip.report import output, stored  # noqa: PLC0415
    from catnip.report.summary_tables import pairs_of, print_differences, print_summary  # noqa: PLC0415

    read = _read(folder)
    if export is not None:
        check_writable([export])
        with files.replacing(export) as file:
            _export(read.to_arrow(table or "groups"), export, file)
        note(f"wrote the table to {export}")
    other = _read(compare) if compare is not None else None
    if as_json:
        output.print_json(stored.document(read, against, other))
        return
    print_summary(read.title, read.seeds, read.summary)
    stored.print_fairness(read)
    if against is not None:
        print_differences(against, pairs_of(against, read.axes, read.summary))
    if other is not None:
        stored.print_comparison(read, other, str(compare))


def _read(folder: Path) -> "Results":
    """Reads results that have what a summary needs. Raises InputError."""
    from catnip import api  # noqa: PLC0415 -- help needs none of these
    from catnip.analysis import summary  # noqa: PLC0415

    read = api.read(folder)
    if missing := [name for name in summary.TABLES if name not in read.tables]:
        raise InputError(f"{folder}: has no table {missing[0]}, which a summary needs")
    return read


def _export(table: Any, name: Path, to: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415 -- help needs none of it
    from pyarrow import csv  # noqa: PLC0415

    if name.suffix.lower() == ".csv":
        csv.write_csv(table, to)
        return
    with pa.OSFile(str(to), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _chosen(folder: Path, manifest: "Manifest", names: tuple[str, ...]) -> list[str]:
    for name in names:
        if name not in manifest.variants:
            known = ", ".join(manifest.variants)
            raise InputError(f"--variant: {name}: {folder} has only {known}")
    return [name for name in manifest.variants if not names or name in names]


def _of_points(folder: Path, manifest: "Manifest", begins: tuple[str, ...]) -> list[str]:
    """Returns the variants whose IDs begin so; each must be the only one."""
    found = []
    for begin in begins:
        named = zip(manifest.variants, manifest.points or [], strict=False)
        matching = [name for name, point in named if begin and point.startswith(begin)]
        if len(matching) != 1:
            raise InputError(f"--point: {begin}: {len(matching)} IDs in {folder} begin so")
        found += matching
    return found


def _tell_version(manifest: "Manifest") -> None:
    by = manifest.created_by.split()[-1]
    if by != __version__:
        warn(f"version: the results are of CATNIP {by}, and this is {__version__}")


def _document(one: "Repeated") -> dict[str, Any]:
    return {"table": one.table, "rows": one.rows, "difference": one.difference or None}
