"""One transfer, packet by packet; traces of connections."""

import re
import sys
from pathlib import Path
from typing import Any

import click

from catnip import _core
from catnip._core import InputError, __version__
from catnip.analysis import traces
from catnip.base import extras, paths
from catnip.base.verbosity import note
from catnip.cli.options import (
    DRAWING,
    STDOUT,
    check_writable,
    common,
    scenario_argument,
)
from catnip.report import output


@click.command(epilog="Example: catnip trace --profile ns2-2.35 --recovery newreno --drop 20,22 --csv -")
@click.option("--profile", default="ns2-2.35", show_default=True, help="TCP parameters; see catnip list.")
@click.option("--recovery", metavar="NAME", help="What to resend.  [default: the profile's]")
@click.option("--control", metavar="NAME", help="How fast to grow.  [default: the profile's]")
@click.option("--pacing", metavar="NAME", help="When to send.  [default: the profile's]")
@click.option("--marker", metavar="NAME", help="Which packets to mark HIGH.  [default: none]")
@click.option("--packets", type=click.IntRange(1, 1_000_000), default=100, show_default=True)
@click.option("--size", metavar="BYTES", help="Data bytes of a packet.  [default: the profile's]")
@click.option("--rate", default="1Mbit", show_default=True, help="Rate of the link.")
@click.option("--delay", default="50ms", show_default=True, help="Its propagation delay.")
@click.option("--queue", default="drop-tail:10", show_default=True, help="Its queue; see catnip list.")
@click.option("--window", type=click.IntRange(1, 1_000_000), help="Receive window, packets.")
@click.option("--drop", metavar="LIST", help="Lose these packets, counted on the link from 1.")
@click.option("--delayed-ack", is_flag=True, help="ACK every second packet, or after 200 ms.")
@click.option("--tick-phase", metavar="TIME", help="When the sender's clock ticks.  [default: drawn]")
@click.option(
    "--csv",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE.csv",
    help="Write every event; - is stdout.",
)
@click.option("--plot", type=DRAWING, metavar="FILE.svg", help="Draw packet numbers over time.")
@common
def trace(
    packets: int, drop: str | None, csv: Path | None, plot: Path | None, as_json: bool, **options: Any
) -> None:
    """Send one transfer over one link and tell what happens to each of its packets."""
    if as_json and csv == STDOUT:
        raise click.UsageError("--json and --csv -: both want stdout")
    if plot is not None:
        extras.need("--plot", "matplotlib")
    check_writable(path for path in (csv, plot) if path not in (None, STDOUT))
    events = _core.trace(packets=packets, drop=_packet_numbers(drop), **options)
    note(f"simulated the transfer of {packets} packets")

    if plot is not None:
        from catnip.figures.transfers import sequence_plots  # noqa: PLC0415 -- slow to load

        sent = [(row["time"], row["seq"]) for row in traces.rows(events) if row["event"] == "send"]
        times, seqs = zip(*sent, strict=True)
        plot.write_text(sequence_plots([(f"{packets} packets", times, seqs)]), encoding="utf-8")
    if csv == STDOUT:
        traces.write_csv(sys.stdout, events)
        return
    if csv is not None:
        with csv.open("w", encoding="utf-8", newline="") as file:
            traces.write_csv(file, events)
    outline = traces.outline(events)
    if as_json:
        output.print_json({"version": __version__, "outline": outline, "events": list(traces.rows(events))})
    else:
        output.print_outline(outline)


@click.command(epilog="Example: catnip tmix bursts --seed 3 --out bursts.cvec")
@scenario_argument
@click.option("--variant", metavar="NAME", help="Of this one.  [default: the first]")
@click.option("--group", metavar="NAME", help="Of this group of traffic.  [default: the only one]")
@click.option(
    "--form",
    type=click.Choice(("original", "alternate")),
    default="original",
    show_default=True,
    help="Which form of Tmix to write.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE.cvec",
    help="Write the connection vectors; - is stdout.",
)
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
    """Write the connections that a SCENARIO replays as connection vectors of Tmix.

    They are those of the run with the seed of --seed, read or generated as the scenario says. Prints how many
    connections and exchanges there are, and what both ends say; the rate is that of the responses, from the
    first connection opened to the last.
    """
    if as_json and out == STDOUT:
        raise click.UsageError("--json and --out -: both want stdout")
    check_writable([] if out in (None, STDOUT) else [out])
    loaded = paths.scenario(scenario)
    if variant is not None and variant not in loaded.variants:
        raise InputError(f"{loaded.path}: --variant: {variant} is not one of {', '.join(loaded.variants)}")
    text, connections = loaded.tmix(variant or loaded.variants[0], group, form, seed)
    note(f"read or generated the connections of {loaded.path}")
    if out == STDOUT:
        sys.stdout.write(text)
        return
    if out is not None:
        out.write_text(text, encoding="ascii")
    outline = traces.connections_outline(connections)
    if as_json:
        output.print_json({"version": __version__, "scenario": loaded.id, "seed": seed, "outline": outline})
    else:
        output.print_outline(outline)


def _packet_numbers(listed: str | None) -> list[int]:
    numbers = listed.split(",") if listed else []
    for number in numbers:
        if not re.fullmatch(r"\s*0*[1-9]\d{0,8}\s*", number):
            raise InputError(f"--drop: {number.strip()!r} is not the number of a packet, counted from 1")
    return [int(number) for number in numbers]
