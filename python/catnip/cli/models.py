"""Command that predicts a transfer with all models, and simulates it."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from catnip import _core
from catnip._core import InputError, __version__
from catnip.analysis.interval import Interval
from catnip.base import extras, verbosity
from catnip.cli.options import DRAWING, check_writable, common
from catnip.modelling import accuracy, case
from catnip.modelling.accuracy import Model, Nearby
from catnip.modelling.case import Case, Latency, Simulated
from catnip.report import output

MODEL_POINTS, SIMULATED_POINTS = 60, 9
SIMULATED: Mapping[Simulated, str] = {
    "reno": "simulated, Reno",
    "partial_catnip": "simulated, Partial CATNIP",
    "download": "simulated, download",
}
TRUST = ("observed error", "valid range")
SWEPT: Mapping[Simulated, str] = {"reno": "Reno", "partial_catnip": "Partial CATNIP"}


@click.command(
    epilog="Examples: catnip model --size 32KB --loss 5% --rtt 200ms;"
    " catnip model --sweep loss=0%:15% --plot build/loss.svg"
)
@click.option("--size", help="Size of the transfer.  [default: 32KB]")
@click.option(
    "--packets", type=click.IntRange(1, case.MAX_PACKETS), help="Size of the transfer in full segments."
)
@click.option(
    "--loss", default="5%", show_default=True, metavar="P", help="Loss probability of data packets."
)
@click.option("--rtt", default="200ms", show_default=True, help="Round-trip time, without delayed ACKs.")
@click.option(
    "--high-loss",
    default="0%",
    show_default=True,
    metavar="P",
    help="Loss probability of data packets marked HIGH.",
)
@click.option("--mss", default="1433B", show_default=True, help="Data bytes of a full segment.")
@click.option("--t0", default="1s", show_default=True, help="Mean first timeout; minimum RTO of simulations.")
@click.option("--first-timeout", default="3s", show_default=True, help="Timeout before the first RTT sample.")
@click.option(
    "--window",
    type=click.IntRange(1, 10_000),
    default=24,
    show_default=True,
    help="Maximum window in packets.",
)
@click.option(
    "--initial-window",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    help="Initial window in packets.",
)
@click.option("--ack-every", type=click.IntRange(1, 2), default=2, show_default=True, help="Packets per ACK.")
@click.option(
    "--delayed-ack", help="Mean delay of the ACK of a single packet.  [default: 100ms; 0s with --ack-every 1]"
)
@click.option(
    "--trials",
    type=click.IntRange(0, 1_000_000),
    default=1000,
    show_default=True,
    help="Number of simulated transfers; 0 for none.",
)
@click.option("--sweep", metavar="WHAT=FROM:TO", help="Range of size, loss or rtt, such as loss=0%:15%.")
@click.option("--plot", type=DRAWING, metavar="FILE.svg", help="Plot of the sweep.")
@common
def model(
    size: str | None,
    packets: int | None,
    loss: str,
    rtt: str,
    high_loss: str,
    mss: str,
    t0: str,
    first_timeout: str,
    window: int,
    initial_window: int,
    ack_every: int,
    delayed_ack: str | None,
    trials: int,
    sweep: str | None,
    plot: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Predict the completion time of a transfer with every model, and simulate it.

    The defaults are those of the hysteresis paper. --sweep varies one quantity and keeps the others.

    A prediction is marked ! if the error of the model exceeds 15 % at compared points nearby.
    """
    if size is not None and packets is not None:
        raise click.UsageError("--size: cannot be used with --packets")
    if plot is not None and sweep is None:
        raise click.UsageError("--plot: needs --sweep")
    mss_bytes = _read("--mss", mss, _core.bytes)
    if not 1 <= mss_bytes <= 65_495:
        raise InputError(f"--mss: {mss!r}: expected 1 to 65495 bytes")
    default_wait = "100ms" if ack_every > 1 else "0s"
    query = Case(
        packets=packets or _read("--size", size or "32KB", lambda text: case.packets_of(text, mss_bytes)),
        p=_read("--loss", loss, case.probability),
        p_high=_read("--high-loss", high_loss, case.probability),
        rtt_s=_positive("--rtt", rtt),
        t0_s=_positive("--t0", t0),
        first_timeout_s=_positive("--first-timeout", first_timeout),
        w_max=window,
        b=ack_every,
        w1=initial_window,
        delack_s=_read("--delayed-ack", delayed_ack or default_wait, _core.seconds),
        mss_bytes=mss_bytes,
    )
    if query.p_high > query.p:
        raise InputError(f"--high-loss: {high_loss!r}: expected at most --loss, {loss!r}")
    if plot is not None:
        extras.need("--plot", "matplotlib")
    check_writable([plot])
    if sweep is None:
        _one(query, trials, seed, as_json)
    else:
        _sweep(query, *_swept(sweep, query), trials=trials, seed=seed, plot=plot, as_json=as_json)


def _one(query: Case, trials: int, seed: int, as_json: bool) -> None:
    simulated = {kind: case.simulated(query, kind, trials, seed) for kind in SIMULATED} if trials else {}
    verbosity.note(f"simulated {len(simulated) * trials} transfers")
    times = {model.key: case.latency(model, query) for model in case.LATENCIES}
    rates = {model.key: case.rate(model.name, query) for model in case.RATES}
    if as_json:
        output.print_json(
            {
                "version": __version__,
                "case": vars(query),
                "simulated": {kind: output.interval(mean) for kind, mean in simulated.items()} or None,
                "latency_s": {key: output.finite(value) for key, value in times.items()},
                "rate_pps": {key: output.finite(value) for key, value in rates.items()},
                "latency_trust": {one.key: accuracy.document(one, query) for one in case.LATENCIES},
                "rate_trust": {one.key: accuracy.document(one, query) for one in case.RATES},
            }
        )
        return
    notes = {"reno": f"{trials} transfers", "download": "with handshake and request, loss in both directions"}
    if simulated:
        saved = 1 - simulated["partial_catnip"].mean / simulated["reno"].mean
        notes["partial_catnip"] = f"first and last three packets HIGH: {100 * saved:.0f} % less"
    rows = [
        (SIMULATED[kind], _shown(mean.mean, mean), "", "", notes[kind]) for kind, mean in simulated.items()
    ]
    for one in case.LATENCIES:
        time_s, against = times[one.key], simulated.get(one.simulated)
        off = time_s / against.mean - 1 if against else math.nan
        apart = f"{100 * off:+.0f} %" if math.isfinite(off) else ""
        rows.append((one.label, _shown(time_s, f"{time_s:.3f}"), apart, *_trust(one, query)))
    title = (
        f"Transfer time of {query.packets} packets, {100 * query.p:g} % loss, round trip"
        f" {1e3 * query.rtt_s:g} ms"
    )
    output.print_table(title, ("model", "time, s", "vs simulated", *TRUST), rows)
    steady = [
        (
            one.label,
            f"{rates[one.key]:.2f}",
            f"{rates[one.key] * query.mss_bytes * 8 / 1e3:.0f}",
            *_trust(one, query),
        )
        for one in case.RATES
    ]
    output.print_table("Steady state", ("model", "packets/s", "kbit/s", *TRUST), steady)
    click.echo(
        f"Valid range: packets and loss with an error of at most {100 * accuracy.LIMIT:g} % on the compared"
        f" path most similar to this one ({accuracy.path_like(query)}).\nObserved error: error at compared"
        f" points around this case; ! marks errors above {100 * accuracy.LIMIT:g} %."
    )
    for reason, models in _reasons(query).items():
        click.echo(f"Not compared: {reason}: {', '.join(models)}.")


def _shown(value: float, text: object) -> str:
    """Returns the formatted time, or a dash for NaN: handshakes with 50 % loss or more have no mean time."""
    return "–" if math.isnan(value) else str(text)


def _trust(model: Model, query: Case) -> tuple[str, str]:
    """Returns, as texts, the error of a model near a case and the region in which it can be trusted."""
    region = accuracy.trusted_for(model, query)
    nearby = accuracy.nearby(model, query)
    mark = "" if nearby.outside else nearby.mark
    return f"{nearby} {mark}".rstrip(), f"{region}; {model.note}" if model.note else region


def _reasons(query: Case) -> dict[str, list[str]]:
    """Returns the models that were not compared with simulations near a case, grouped by the reason."""
    reasons: dict[str, list[str]] = {}
    for listed, noun in ((case.LATENCIES, "times"), (case.RATES, "rates")):
        all_of = {one.label: accuracy.nearby(one, query).outside for one in listed}
        for reason in dict.fromkeys(filter(None, all_of.values())):
            labels = [label for label, other in all_of.items() if other == reason]
            reasons.setdefault(reason, []).extend([f"all {noun}"] if len(labels) == len(listed) else labels)
    return reasons


def _sweep(
    query: Case,
    key: str,
    low: float,
    high: float,
    *,
    trials: int,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    is_integer = key == "packets"
    fine, coarse = (case.spread(low, high, count, is_integer) for count in (MODEL_POINTS, SIMULATED_POINTS))
    shown = [model for model in case.LATENCIES if model.simulated in SWEPT]
    curves = {model.label: case.latencies(model, query, {key: fine}) for model in shown}
    simulated: Mapping[Simulated, list[Interval]] = {
        kind: [case.simulated(case.with_value(query, key, x), kind, trials, seed) for x in coarse]
        if trials
        else []
        for kind in SWEPT
    }
    verbosity.note(f"simulated {sum(map(len, simulated.values())) * trials} transfers")
    scale, unit = {"packets": (1, "packets"), "p": (100, "loss, %"), "rtt_s": (1e3, "round trip, ms")}[key]
    if as_json:
        output.print_json(
            {
                "version": __version__,
                "case": vars(query),
                "varied": key,
                "values": list(fine),
                "latency_s": {
                    label: [output.finite(float(y)) for y in curve] for label, curve in curves.items()
                },
                "trusted": {
                    one.label: [accuracy.nearby(one, case.with_value(query, key, x)).is_trusted for x in fine]
                    for one in shown
                },
                "simulated": {
                    "values": list(coarse),
                    **{kind: [output.interval(one) for one in means] for kind, means in simulated.items()},
                }
                if trials
                else None,
            }
        )
    else:
        _print_sweep(query, key, scale, unit, coarse, shown, simulated if trials else None)
    if plot is not None:
        from catnip.figures import style  # noqa: PLC0415 -- slow to load
        from catnip.figures.latency import Curve, Panel, latency_panels  # noqa: PLC0415 -- slow to load

        panels = [
            Panel(
                title,
                list(scale * fine),
                list(zip(scale * coarse, simulated[kind], strict=True)) if trials else [],
                [Curve(one.label, list(curves[one.label])) for one in shown if one.simulated == kind],
            )
            for kind, title in SWEPT.items()
        ]
        style.write(plot, latency_panels("Transfer time by all models", panels, xlabel=unit))


def _print_sweep(
    query: Case,
    key: str,
    scale: float,
    unit: str,
    coarse: Iterable[float],
    shown: Sequence[Latency],
    simulated: Mapping[Simulated, list[Interval]] | None,
) -> None:
    """Prints the times of the simulations, if there are any, and of the models, at each value of a key."""
    rows, all_nearby = [], list[Nearby]()
    for i, x in enumerate(coarse):
        at = case.with_value(query, key, x)
        means = [str(simulated[kind][i]) if simulated else "–" for kind in SWEPT]
        nearby = [accuracy.nearby(one, at) for one in shown]
        all_nearby += nearby
        by_models = [
            f"{case.latency(one, at):.3f} {of.mark}".rstrip() for one, of in zip(shown, nearby, strict=True)
        ]
        rows.append((f"{scale * x:g}", *means, *by_models))
    columns = (unit, *(SIMULATED[kind] for kind in SWEPT), *(one.label for one in shown))
    output.print_table("Transfer time, s", columns, rows)
    for note in accuracy.notes(all_nearby):
        click.echo(note)


def _swept(sweep: str, query: Case) -> tuple[str, float, float]:
    name, _, values = sweep.partition("=")
    readers: dict[str, tuple[str, Callable[[str], Any]]] = {
        "size": ("packets", lambda text: case.packets_of(text, query.mss_bytes)),
        "loss": ("p", case.probability),
        "rtt": ("rtt_s", lambda text: _positive("--sweep", text)),
    }
    if name not in readers:
        raise InputError(f"--sweep: {name!r} is not one of {', '.join(readers)}")
    key, reads = readers[name]
    low, high = _read("--sweep", values, lambda text: case.bounds(text, reads))
    return key, low, high


def _read(option: str, text: str, reads: Callable[[str], Any]) -> Any:
    try:
        return reads(text)
    except InputError as error:
        raise InputError(f"{option}: {error}") from None


def _positive(option: str, text: str) -> float:
    value: float = _read(option, text, _core.seconds)
    if value <= 0:
        raise InputError(f"{option}: {text!r}: expected a time above zero")
    return value
