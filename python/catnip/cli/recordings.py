"""Page loads that a browser has recorded."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from catnip import _core
from catnip._core import __version__
from catnip.base.verbosity import note
from catnip.cli.options import OUTPUT_FILE, check_writable, voice
from catnip.report import output

COLUMNS = ("page", "origins", "objects", "bytes", "connections", "left out")


@click.command(epilog="Example: catnip har site.har --out site.page.json")
@click.argument("recording", metavar="FILE.har", type=click.Path(path_type=Path))
@click.option("--out", type=OUTPUT_FILE, metavar="FILE.page.json", help="Write a page file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else.")
@voice
def har(recording: Path, out: Path | None, as_json: bool) -> None:
    """Read a HAR 1.2, as browsers export it, and tell what it says of each page.

    --out writes what a simulation needs of it, for traffic of the kind page: sizes, server times and
    what waits for what. Headers, cookies, bodies, query strings, fragments and user names are not
    written. Left out, with the reason, is what did not cross the network.
    """
    check_writable([out])
    text, pages = _core.read_har(recording)
    note(f"read {recording}")
    if out is not None:
        out.write_text(text, encoding="utf-8")
    if as_json:
        output.print_json({"version": __version__, "har": str(recording), "pages": pages})
    else:
        output.print_table(str(recording), COLUMNS, map(_row, pages))


def _row(page: Mapping[str, Any]) -> tuple[str, ...]:
    dropped = ", ".join(f"{count} {why}" for why, count in page["dropped"].items())
    counts = (str(page[key]) for key in ("origins", "objects", "bytes"))
    return (page["url"] or "–", *counts, str(page["connections"] or "–"), dropped or "–")
