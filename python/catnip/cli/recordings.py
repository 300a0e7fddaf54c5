"""Command `catnip har`, which summarizes page loads recorded by a browser."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from catnip import _core
from catnip._core import __version__
from catnip.base import files
from catnip.base.verbosity import note
from catnip.cli.options import OUTPUT_FILE, check_writable, voice
from catnip.report import output

COLUMNS = ("page", "origins", "objects", "bytes", "connections", "left out")


@click.command(epilog="Example: catnip har site.har --out site.page.json")
@click.argument("recording", metavar="FILE.har", type=click.Path(path_type=Path))
@click.option("--out", type=OUTPUT_FILE, metavar="FILE.page.json", help="Page file to write.")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout.")
@voice
def har(recording: Path, out: Path | None, as_json: bool) -> None:
    """Summarize the pages in a HAR 1.2 file, as exported by browsers.

    --out writes a page file for simulated traffic of the kind page: sizes, server times and dependencies of
    the objects. Headers, cookies, bodies, query strings, fragments and user names are not written. Requests
    that did not cross the network are left out, and counted by reason.
    """
    check_writable([out])
    text, pages = _core.read_har(recording)
    note(f"read {recording}")
    if as_json:
        output.print_json({"version": __version__, "har": str(recording), "pages": pages})
    else:
        output.print_table(str(recording), COLUMNS, map(_row, pages))
    if out is not None:
        files.write(out, text)


def _row(page: Mapping[str, Any]) -> tuple[str, ...]:
    dropped = ", ".join(f"{count} {reason}" for reason, count in page["dropped"].items())
    counts = (str(page[key]) for key in ("origins", "objects", "bytes"))
    return (page["url"] or "–", *counts, str(page["connections"] or "–"), dropped or "–")
