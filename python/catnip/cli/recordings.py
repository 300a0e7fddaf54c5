"""Commands about recordings: `har` of page loads, `bursts` of captures, `convert` of network paths."""

import csv
import json
import sys
from collections.abc import Mapping
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from catnip import _core
from catnip._core import __version__
from catnip.analysis import bursts as analysis
from catnip.base import extras, files
from catnip.base.verbosity import note, tell
from catnip.cli.options import OUTPUT_FILE, STDOUT, check_writable, voice
from catnip.report import output
from catnip.testbed import recorded_paths

if TYPE_CHECKING:
    from catnip.analysis.loads import Load

ESTIMATED = "they have the median size of their kind (Web Almanac 2025)"
LEFT_OUT = "they are left out; --estimate takes usual sizes"
NOT_CAPTURED = {"variant", "seed", "group", "dropped", "timeouts"}
"""Columns of bursts that a capture does not tell."""
COLUMNS = ("page", "origins", "objects", "bytes", "connections", "protocols", "left out")
LOAD_COLUMNS = (
    "page",
    "objects",
    "bytes",
    "connections",
    "start, s",
    "first byte, s",
    "first rendering, s",
    "load event, s",
    "end, s",
)


@click.command(epilog="Example: catnip har site.har --out site.page.json")
@click.argument("recording", metavar="FILE.har", type=click.Path(path_type=Path))
@click.option("--out", type=OUTPUT_FILE, metavar="FILE", help="Page file to write, or, of RESULTS, HAR.")
@click.option(
    "--estimate",
    is_flag=True,
    help="Take usual sizes for responses whose size is not recorded (Web Almanac).",
)
@click.option("--variant", metavar="NAME", help="Variant of RESULTS.  [default: the only one]")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of RESULTS.  [default: the first]")
@click.option("--client", type=click.IntRange(min=0), help="Client, by its number.  [default: the first]")
@click.option("--load", type=click.IntRange(min=1), help="Load of each page by the client.  [default: 1]")
@click.option("--page", type=click.IntRange(min=1), help="Page of the site.  [default: all]")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout.")
@voice
def har(
    recording: Path,
    out: Path | None,
    estimate: bool,
    variant: str | None,
    seed: int | None,
    client: int | None,
    load: int | None,
    page: int | None,
    as_json: bool,
) -> None:
    """Summarize the pages in a HAR 1.2 file, or export simulated loads of pages as one.

    --out writes a page file for simulated traffic of the kind page: sizes, server times and dependencies of
    the objects. Headers, cookies, bodies, query strings, fragments and user names are not written. Requests
    that did not cross the network are left out, and counted by reason.

    If FILE.har is a folder RESULTS that `catnip run --out` has written, --out writes a HAR instead: one
    simulated load of each page, for any viewer of HARs.
    """
    choice = {"variant": variant, "seed": seed, "client": client, "load": load, "page": page}
    given = {key: value for key, value in choice.items() if value is not None}
    check_writable([out])
    if recording.is_dir():
        if estimate:
            raise click.UsageError(f"--estimate: needs a HAR, not {recording}")
        _export_load(recording, out, given, as_json)
        return
    for key in given:
        raise click.UsageError(f"--{key}: needs a folder of results, not {recording}")
    text, pages = _core.read_har(recording, estimate)
    note(f"read {recording}")
    if count := sum(page["unsized"] for page in pages):
        tell(f"{count} responses have no recorded size: {ESTIMATED if estimate else LEFT_OUT}")
    if as_json:
        output.print_json({"version": __version__, "har": str(recording), "pages": pages})
    else:
        output.print_table(str(recording), COLUMNS, map(_row, pages))
    if out is not None:
        files.write(out, text)


def _export_load(folder: Path, out: Path | None, given: Mapping[str, Any], as_json: bool) -> None:
    """Prints the milestones of simulated loads in a folder of results, and writes them as a HAR."""
    extras.need("har", "pyarrow")
    from catnip.report import har as writer  # noqa: PLC0415 -- other commands need none of it
    from catnip.report.simulated_loads import Choice, chosen  # noqa: PLC0415

    run, picked = chosen(folder, Choice(**given))
    note(f"read {folder}")
    document = writer.har_of(run, picked)
    pages = document["log"]["pages"]
    if as_json:
        output.print_json({"version": __version__, "results": str(folder), "told": run.told, "pages": pages})
    else:
        rows = [_load_row(load, page["title"]) for load, page in zip(picked, pages, strict=True)]
        output.print_table(run.told, LOAD_COLUMNS, rows)
    if out is not None:
        files.write(out, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


@click.command(epilog="Example: catnip bursts site.pcapng --csv bursts.csv")
@click.argument("capture", metavar="FILE.pcapng", type=click.Path(path_type=Path))
@click.option(
    "--csv",
    "to",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE.csv",
    help="File for all bursts; - is stdout.",
)
@click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout.")
@voice
def bursts(capture: Path, to: Path | None, as_json: bool) -> None:
    """Summarize the bursts that servers send in a packet capture.

    The capture is pcapng or pcap, best taken at the server. A burst begins with data of the side that
    accepted the connection, and ends when all that it has sent is acknowledged; the silence before it began
    with the end of the burst before, or with the connection. The table shows the number of bursts above a
    size (rows) after a silence above a time (columns), in the classes of the newCWV paper. Connections whose
    opening is not in the capture are left out.
    """
    if as_json and to == STDOUT:
        raise click.UsageError("--json and --csv -: both write to stdout")
    check_writable([to] if to != STDOUT else [])
    table, connections, unopened, is_cut = _core.read_bursts(capture)
    note(f"read {capture}")
    if is_cut:
        note("the capture ends in the middle of a packet; what is before it counts")
    outline = {"connections": connections, "left_out_packets": unopened, **analysis.outline(table)}
    classes = analysis.counts(table)
    if to == STDOUT:
        _write_bursts(sys.stdout, table)
    elif as_json:
        document = {"version": __version__, "capture": str(capture), "is_cut": is_cut, "outline": outline}
        output.print_json(document | {"classes": classes})
    else:
        output.print_outline(outline)
        click.echo()
        heads = [f"> {idle_s:g} s" for idle_s in (0, *analysis.IDLE_S)]
        rows = [[f"> {row['above_bytes'] / 1e3:g} KB", *map(str, row["bursts"])] for row in classes]
        output.print_table("Bursts by size and silence", ["", *heads], rows)
    if to not in (None, STDOUT):
        with files.replacing(to) as aside, aside.open("w", encoding="utf-8", newline="") as file:
            _write_bursts(file, table)


def _write_bursts(file: TextIO, table: Mapping[str, Any]) -> None:
    names = [name for name in table if name not in NOT_CAPTURED]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*(table[name] for name in names), strict=True))


def _load_row(load: "Load", url: str) -> tuple[str, ...]:
    connections = {fetch.connection for fetch in load.fetches}
    counts = len(load.fetches), sum(fetch.bytes for fetch in load.fetches), len(connections)
    times_s = load.start_s, load.first_byte_s, load.render_s, load.load_s, load.time_s
    return (url, *map(str, counts), *(f"{time_s:.3f}" for time_s in times_s))


def _row(page: Mapping[str, Any]) -> tuple[str, ...]:
    listed = (
        ", ".join(f"{count} {name}" for name, count in page[key].items()) for key in ("protocols", "dropped")
    )
    counts = (str(page[key]) for key in ("origins", "objects", "bytes"))
    return (page["url"] or "–", *counts, str(page["connections"] or "–"), *(text or "–" for text in listed))


@click.command(epilog="Example: catnip convert leo bw_1.txt delay_1.txt leo-1.toml")
@click.argument("form", type=click.Choice(sorted(recorded_paths.FORMS)))
@click.argument("recordings", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.argument("out", metavar="OUT.toml", type=OUTPUT_FILE)
@click.option(
    "--opportunities", is_flag=True, help="Write rates as opportunities, in the format of mahimahi."
)
@click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout.")
@voice
def convert(form: str, recordings: tuple[Path, ...], out: Path, opportunities: bool, as_json: bool) -> None:
    """Convert a recorded network path of another tool into a path file.

    OUT.toml has the keys of both directions, for `path` of a link and for `catnip link --path`, and refers to
    traces that are written beside it. Direction `there` is up, away from the client. Forms and their files:

    \b
    {forms}
    """
    if out.suffix != ".toml":
        raise click.UsageError(f"{out}: expected a name that ends with .toml")
    check_writable([out])
    written = recorded_paths.write(recorded_paths.read(form, recordings), out, opportunities=opportunities)
    if as_json:
        output.print_json({"version": __version__, "written": [str(file) for file in written]})
    else:
        for file in written:
            click.echo(file)


convert.help = cleandoc(str(convert.help)).format(
    forms="\n".join(
        f"{form:<12} {' '.join(names)}: {about}" for form, (names, about, _) in recorded_paths.FORMS.items()
    )
)
