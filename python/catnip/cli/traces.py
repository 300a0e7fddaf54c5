"""Commands `trace`, a transfer packet by packet, `tmix`, traces of connections, `capture`, their maker."""

import re
import sys
from pathlib import Path
from typing import Any

import click

from catnip import _core
from catnip._core import InputError, __version__
from catnip.analysis import traces
from catnip.base import extras, files, paths
from catnip.base.verbosity import note
from catnip.cli.options import (
    DRAWING,
    STDOUT,
    check_writable,
    common,
    scenario_argument,
    voice,
    xplot,
)
from catnip.report import output

FORM = click.option(
    "--form",
    type=click.Choice(("original", "alternate")),
    default="original",
    show_default=True,
    help="Format of the connection vectors.",
)
VECTORS = click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE.cvec",
    help="File for the connection vectors; - is stdout.",
)


@click.command(epilog="Example: catnip trace --profile ns2-2.35 --recovery newreno --drop 20,22 --csv -")
@click.option("--profile", default="ns2-2.35", show_default=True, help="TCP profile; see catnip list.")
@click.option("--recovery", metavar="NAME", help="Loss recovery.  [default: that of the profile]")
@click.option("--control", metavar="NAME", help="Congestion controller.  [default: that of the profile]")
@click.option("--pacing", metavar="NAME", help="Pacing method.  [default: that of the profile]")
@click.option("--marker", metavar="NAME", help="Marker of HIGH packets.  [default: none]")
@click.option(
    "--packets",
    type=click.IntRange(1, 1_000_000),
    default=100,
    show_default=True,
    help="Number of data packets.",
)
@click.option("--size", metavar="BYTES", help="Data bytes per packet.  [default: those of the profile]")
@click.option("--rate", default="1Mbit", show_default=True, help="Rate of the link.")
@click.option("--delay", default="50ms", show_default=True, help="Propagation delay of the link.")
@click.option(
    "--queue", default="drop-tail:10", show_default=True, help="Queue of the link; see catnip list."
)
@click.option("--window", type=click.IntRange(1, 1_000_000), help="Receive window in packets.")
@click.option("--drop", metavar="LIST", help="Packets to drop, such as 20,22, numbered on the link from 1.")
@click.option("--delayed-ack", is_flag=True, help="Acknowledge every second packet, or after 200 ms.")
@click.option("--tick-phase", metavar="TIME", help="Phase of the sender's clock ticks.  [default: random]")
@click.option(
    "--csv",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE.csv",
    help="File for all events; - is stdout.",
)
@click.option(
    "--plot", type=DRAWING, metavar="FILE.svg", help="Sequence plot: segments, ACKs, SACK, window, losses."
)
@xplot
@common
def trace(
    packets: int, drop: str | None, csv: Path | None, plot: Path | None, as_json: bool, **options: Any
) -> None:
    """Simulate one transfer over one link and trace each of its packets."""
    if as_json and csv == STDOUT:
        raise click.UsageError("--json and --csv -: both write to stdout")
    if plot is not None:
        extras.need("--plot", "matplotlib")
    check_writable(path for path in (csv, plot) if path not in (None, STDOUT))
    events, segments = _core.trace(packets=packets, drop=_packet_numbers(drop), **options)
    note(f"simulated a transfer of {packets} packets")

    outline = traces.outline(events)
    if csv == STDOUT:
        traces.write_csv(sys.stdout, events)
    elif as_json:
        output.print_json({"version": __version__, "outline": outline, "events": list(traces.rows(events))})
    else:
        output.print_outline(outline)
    if csv not in (None, STDOUT):
        with files.replacing(csv) as aside, aside.open("w", encoding="utf-8", newline="") as file:
            traces.write_csv(file, events)
    if plot is not None:
        from catnip.figures import style  # noqa: PLC0415 -- slow to load
        from catnip.figures.segments import sequence_plot  # noqa: PLC0415 -- slow to load

        style.write(plot, sequence_plot(f"A transfer of {packets} packets", segments))


@click.command(epilog="Example: catnip tmix bursts --seed 3 --out bursts.cvec")
@scenario_argument
@click.option("--variant", metavar="NAME", help="Name of the variant.  [default: the first]")
@click.option("--group", metavar="NAME", help="Name of the traffic group.  [default: the only one]")
@FORM
@VECTORS
@common
def tmix(
    scenario: str,
    variant: str | None,
    group: str | None,
    form: str,
    out: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Write the connections that a SCENARIO replays as Tmix connection vectors.

    The connections are those of the run with --seed, read from a trace or generated as the scenario
    specifies. Prints the numbers of connections and exchanges, and the amounts of data from both ends. The
    rate is that of the responses, from the start of the first connection to the start of the last.
    """
    if as_json and out == STDOUT:
        raise click.UsageError("--json and --out -: both write to stdout")
    check_writable([] if out in (None, STDOUT) else [out])
    loaded = paths.scenario(scenario)
    if variant is not None and variant not in loaded.variants:
        raise InputError(f"{loaded.path}: --variant: {variant} is not one of {', '.join(loaded.variants)}")
    text, connections = loaded.tmix(variant or loaded.variants[0], group, form, seed)
    note(f"read or generated the connections of {loaded.path}")
    outline = traces.connections_outline(connections)
    _print_vectors(text, {"scenario": loaded.id, "seed": seed}, outline, out, as_json)


@click.command(epilog="Example: catnip capture site.pcapng --out site.cvec")
@click.argument("recording", metavar="FILE.pcapng", type=click.Path(path_type=Path))
@FORM
@VECTORS
@click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout.")
@voice
def capture(recording: Path, form: str, out: Path | None, as_json: bool) -> None:
    """Turn a packet capture into connection vectors, which a scenario can replay.

    A connection vector has what both ends of a TCP connection sent, in turn or at the same time, and how long
    they waited, without the effects of the network. Neither addresses nor names nor data of packets are kept.
    Connections whose opening is not in the capture are left out. Traffic of kind tmix replays the file.
    """
    if as_json and out == STDOUT:
        raise click.UsageError("--json and --out -: both write to stdout")
    check_writable([] if out in (None, STDOUT) else [out])
    text, connections, empty, unopened, is_cut = _core.read_vectors(recording, form)
    note(f"read {recording}")
    if is_cut:
        note("the capture ends in the middle of a packet; what is before it counts")
    outline = traces.connections_outline(connections) | {"without_data": empty, "left_out_packets": unopened}
    _print_vectors(text, {"capture": str(recording), "is_cut": is_cut}, outline, out, as_json)


def _print_vectors(
    text: str, source: dict[str, Any], outline: dict[str, float], out: Path | None, as_json: bool
) -> None:
    """Prints or writes connection vectors, and tells what is in them."""
    if out == STDOUT:
        sys.stdout.write(text)
    elif as_json:
        output.print_json({"version": __version__, **source, "outline": outline})
    else:
        output.print_outline(outline)
    if out not in (None, STDOUT):
        files.write(out, text, encoding="ascii")


def _packet_numbers(listed: str | None) -> list[int]:
    numbers = listed.split(",") if listed else []
    for number in numbers:
        if not re.fullmatch(r"\s*0*[1-9]\d{0,8}\s*", number):
            raise InputError(f"--drop: {number.strip()!r} is not a packet number; expected 1 or more")
    return [int(number) for number in numbers]
