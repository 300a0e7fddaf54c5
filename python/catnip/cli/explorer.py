"""Command `catnip explore`."""

import os
import tempfile
import webbrowser
from pathlib import Path

import click

from catnip.base import paths
from catnip.base.files import write
from catnip.cli.options import OUTPUT_FILE, Changes, check_writable, common, set_option
from catnip.report import explorer, output


@click.command(epilog="Example: catnip explore catnip-e4 --variant Reno/DropTail --variant Reno/CATNIP-Good")
@click.argument("scenario", required=False)
@set_option
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME",
    help="Variant to show above, and given twice, below.  [default: the first two]",
)
@click.option("--out", type=OUTPUT_FILE, help="File for the page.  [default: one for temporary files]")
@common
def explore(
    scenario: str | None,
    changes: Changes,
    variants: tuple[str, ...],
    out: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Open a page that runs a SCENARIO in the browser.

    The page has the simulator in it and needs no server and no network: sliders change the scenario, and
    pictures show two runs of it over time and packet by packet, and how their times differ. A SCENARIO of
    one's own goes into the page with the files that it names. Without a display the page is written only.
    """
    if len(variants) > 2:
        raise click.UsageError(f"--variant: given {len(variants)} times, two at most")
    check_writable([out])
    state, held = None, []
    if scenario is not None:
        of = paths.scenario(scenario, changes)
        for variant in variants:
            of.has_transfers(variant)  # raises what is wrong with its name
        source = paths.scenario(scenario)
        state = explorer.state_of(source, variants, changes, seed)
        held = [] if explorer.is_bundled(source) else sorted(source.bundle()[3])
    elif changes or variants:
        raise click.UsageError("--set and --variant: of which SCENARIO?")
    page = explorer.page_of(state)
    if out is None:
        folder = Path(tempfile.mkdtemp(prefix="catnip-explore-"))
        out = folder / "explorer.html"
    write(out, page)
    opened = _has_display() and webbrowser.open(out.resolve().as_uri())
    if as_json:
        output.print_json({"page": str(out), "holds": held, "opened": opened, "seed": seed})
        return
    if held:
        click.echo(f"The page holds {', '.join(held)}.")
    click.echo(f"opened {out}" if opened else f"wrote {out}: open it in a browser")


def _has_display() -> bool:
    """Returns true if a browser can be opened that does not take over the terminal."""
    return any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")))
