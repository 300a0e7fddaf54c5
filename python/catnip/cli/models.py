"""One transfer by all models, beside a simulation of it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from catnip import _core, case, output, voice
from catnip._core import InputError, __version__
from catnip.case import Case
from catnip.cli.options import DRAWING, check_writable, common
from catnip.stats import Interval

MODEL_POINTS, SIMULATED_POINTS = 60, 9


@click.command(
    epilog="Examples: catnip model --size 32KB --loss 5% --rtt 200ms;"
    " catnip model --sweep loss=0%:15% --plot build/loss.svg"
)
@click.option("--size", help="What is transferred.  [default: 32KB]")
@click.option("--packets", type=click.IntRange(1, case.PACKETS_AT_MOST), help="The same in full segments.")
@click.option("--loss", default="5%", show_default=True, metavar="P", help="Loss of each data packet.")
@click.option("--rtt", default="200ms", show_default=True, help="Round trip without a delayed ACK's wait.")
@click.option(
    "--high-loss", default="0%", show_default=True, metavar="P", help="Loss of packets marked HIGH."
)
@click.option("--mss", default="1433B", show_default=True, help="Data in a full segment.")
@click.option("--t0", default="1s", show_default=True, help="Mean first timeout; the simulation's least RTO.")
@click.option("--first-timeout", default="3s", show_default=True, help="Timeout before the first sample.")
@click.option(
    "--window", type=click.IntRange(1, 10_000), default=24, show_default=True, help="Largest, packets."
)
@click.option(
    "--initial-window", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Packets."
)
@click.option("--ack-every", type=click.IntRange(1, 2), default=2, show_default=True, help="Packets per ACK.")
@click.option(
    "--delayed-ack", help="Mean wait of a lone packet's ACK.  [default: 100ms, or 0s if every packet has one]"
)
@click.option(
    "--trials", type=click.IntRange(0, 1_000_000), default=1000, show_default=True, help="Simulated; 0: none."
)
@click.option("--sweep", metavar="WHAT=FROM:TO", help="Vary size, loss or rtt, as in loss=0%:15%.")
@click.option("--plot", type=DRAWING, metavar="FILE.svg", help="Draw the sweep.")
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
    """Predict a transfer's time with every model, beside simulations of it.

    The defaults are the hysteresis paper's. With --sweep, one quantity is varied and the others stay.
    """
    if size is not None and packets is not None:
        raise click.UsageError("--size: --packets says the same; give one of them")
    if plot is not None and sweep is None:
        raise click.UsageError("--plot: there is nothing to draw without --sweep")
    mss_bytes = _read("--mss", mss, _core.bytes)
    if not 1 <= mss_bytes <= 65_495:
        raise InputError(f"--mss: {mss!r}: expected 1 to 65495 bytes")
    default_wait = "100ms" if ack_every > 1 else "0s"
    asked = Case(
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
    if asked.p_high > asked.p:
        raise InputError(f"--high-loss: {high_loss!r}: expected at most the loss of other packets, {loss!r}")
    check_writable([plot])
    if sweep is None:
        _one(asked, trials, seed, as_json)
    else:
        _sweep(asked, *_swept(sweep, asked), trials=trials, seed=seed, plot=plot, as_json=as_json)


def _one(asked: Case, trials: int, seed: int, as_json: bool) -> None:
    simulated = (
        {marks: case.simulated(asked, marks, trials, seed) for marks in (False, True)} if trials else {}
    )
    voice.note(f"simulated {len(simulated) * trials} transfers")
    times = {model.name: case.latency(model, asked) for model in case.LATENCIES}
    rates = {name: case.rate(name, asked) for name, _, _ in case.RATES}
    if as_json:
        output.print_json(
            {
                "version": __version__,
                "case": vars(asked),
                "simulated": {
                    "reno": output.interval(simulated[False]),
                    "partial_catnip": output.interval(simulated[True]),
                }
                if simulated
                else None,
                "latency_s": {key: output.finite(value) for key, value in times.items()},
                "rate_pps": {key: output.finite(value) for key, value in rates.items()},
            }
        )
        return
    rows = [("simulated, Reno", _seconds(simulated[False]), "", f"{trials} transfers")] if simulated else []
    if simulated:
        saved = 1 - _ratio(simulated)
        note = f"the first and last three packets HIGH: {100 * saved:.0f} % less"
        rows.append(("simulated, Partial CATNIP", _seconds(simulated[True]), "", note))
    for one in case.LATENCIES:
        against = simulated.get(one.marks) if not one.set_up else None
        apart = f"{100 * (times[one.name] / against.mean - 1):+.0f} %" if against else ""
        trust = one.trust + ("; with set-up and request" if one.set_up else "")
        rows.append((one.label, f"{times[one.name]:.3f}", apart, trust))
    title = (
        f"Transfer time of {asked.packets} packets, {100 * asked.p:g} % loss, round trip"
        f" {1e3 * asked.rtt_s:g} ms"
    )
    output.print_table(title, ("model", "time, s", "vs simulated", "trust it for"), rows)
    steady = [
        (label, f"{rates[name]:.2f}", f"{rates[name] * asked.mss_bytes * 8 / 1e3:.0f}", trust)
        for name, label, trust in case.RATES
    ]
    output.print_table("Steady state", ("model", "packets/s", "kbit/s", "trust it for"), steady)


def _sweep(
    asked: Case,
    key: str,
    low: float,
    high: float,
    *,
    trials: int,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    whole = key == "packets"
    fine, coarse = (case.spread(low, high, count, whole) for count in (MODEL_POINTS, SIMULATED_POINTS))
    shown = [model for model in case.LATENCIES if not model.set_up]
    curves = {model.label: case.latencies(model, asked, {key: fine}) for model in shown}
    simulated: Mapping[bool, list[Interval]] = {
        marks: [case.simulated(case.with_value(asked, key, x), marks, trials, seed) for x in coarse]
        if trials
        else []
        for marks in (False, True)
    }
    voice.note(f"simulated {sum(map(len, simulated.values())) * trials} transfers")
    scale, unit = {"packets": (1, "packets"), "p": (100, "loss, %"), "rtt_s": (1e3, "round trip, ms")}[key]
    if plot is not None:
        from catnip.figures.latency import Curve, Panel, latency_panels  # noqa: PLC0415 -- slow to load

        panels = [
            Panel(
                title,
                list(scale * fine),
                list(zip(scale * coarse, simulated[marks], strict=True)) if trials else [],
                [Curve(one.label, list(curves[one.label])) for one in shown if one.marks == marks],
            )
            for title, marks in (("Reno", False), ("Partial CATNIP", True))
        ]
        plot.write_text(latency_panels("Transfer time by all models", panels, xlabel=unit), encoding="utf-8")
    if as_json:
        output.print_json(
            {
                "version": __version__,
                "case": vars(asked),
                "varied": key,
                "values": list(fine),
                "latency_s": {
                    label: [output.finite(float(y)) for y in curve] for label, curve in curves.items()
                },
                "simulated": {
                    "values": list(coarse),
                    "reno": [output.interval(one) for one in simulated[False]],
                    "partial_catnip": [output.interval(one) for one in simulated[True]],
                }
                if trials
                else None,
            }
        )
        return
    rows = []
    for i, x in enumerate(coarse):
        means = [_seconds(simulated[marks][i]) if trials else "–" for marks in (False, True)]
        by_models = [f"{case.latency(one, case.with_value(asked, key, x)):.3f}" for one in shown]
        rows.append((f"{scale * x:g}", *means, *by_models))
    columns = (unit, "simulated, Reno", "simulated, Partial CATNIP", *(one.label for one in shown))
    output.print_table("Transfer time, s", columns, rows)


def _ratio(simulated: Mapping[bool, Interval]) -> float:
    """The mean with marks over that without."""
    return simulated[True].mean / simulated[False].mean


def _swept(sweep: str, asked: Case) -> tuple[str, float, float]:
    what, _, values = sweep.partition("=")
    readers: dict[str, tuple[str, Callable[[str], Any]]] = {
        "size": ("packets", lambda text: case.packets_of(text, asked.mss_bytes)),
        "loss": ("p", case.probability),
        "rtt": ("rtt_s", lambda text: _positive("--sweep", text)),
    }
    if what not in readers:
        raise InputError(f"--sweep: {what!r} is not one of {', '.join(readers)}")
    key, reads = readers[what]
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


def _seconds(interval: Interval) -> str:
    return str(interval)
