"""Figures 3 to 6 and Tables 2 and 3 of the hysteresis paper, and the main result in words."""

from collections.abc import Sequence

from catnip.analysis import stats
from catnip.analysis.claims import show
from catnip.analysis.interval import Interval
from catnip.figures.latency import Curve, Panel, distributions, latency_panels
from catnip.figures.style import BASE
from catnip.papers.hysteresis import predictions
from catnip.papers.hysteresis.accuracy import FLOWS, errors, errors_of
from catnip.papers.hysteresis.marking import MARKED
from catnip.papers.hysteresis.predictions import (
    CARDWELL00,
    CARDWELL00_SEND,
    COMPARED,
    HYSTERESIS,
    SIKDAR,
    Model,
)
from catnip.papers.hysteresis.printed import paper_v
from catnip.papers.hysteresis.trials import (
    DESIGN,
    FULL,
    KILOBYTES,
    LONG,
    LOSSES,
    PAPER_TRIALS,
    PARTIAL,
    RENO,
    SHORT,
    Trials,
)
from catnip.report.model import Figure, Table

PARTIAL_MODEL, RENO_SIMULATED = "Partial CATNIP, model", "Reno, simulated"
LOOKS = {
    HYSTERESIS.name: 0,
    CARDWELL00.name: 1,
    SIKDAR.name: 2,
    CARDWELL00_SEND.name: 3,
    PARTIAL: 5,
    PARTIAL_MODEL: 5,
    FULL: 4,
    RENO_SIMULATED: BASE,
}
"""Indices in `style.LOOKS` of the series of all figures."""


def short_flows(trials: Trials) -> Figure:
    """Draws figure 3 of the hysteresis paper: times of short transfers over size, models and simulation."""
    caption = (
        "Points: simulated means with 95 % intervals. At 1 % all models are low between 8 and 32 "
        "KB: the ACK timer fires every 200 ms, in phase with the round trip, and delays more "
        "packets than the models assume. At 10 % the hysteresis model is closest, as in the "
        "paper."
    )
    panels = [_panel(trials, loss, SHORT, (HYSTERESIS, CARDWELL00, SIKDAR)) for loss in (0.01, 0.1)]
    svg = latency_panels("Short transfers: the hysteresis model is closest", panels, looks=LOOKS)
    return Figure("hysteresis-short", "Figure 3: short transfers", caption, svg)


def long_flows(trials: Trials) -> Figure:
    """Draws figure 4 of the hysteresis paper: times of long transfers over size, models and simulation."""
    caption = (
        "At 10 % the hysteresis model overestimates, as the paper states: it counts every loss in "
        "a small window as a timeout. Cardwell-00 with PFTK's receive rate, which goodput "
        "follows, is closer there; with the send rate it is far too low."
    )
    panels = [
        _panel(trials, loss, LONG, (HYSTERESIS, CARDWELL00, CARDWELL00_SEND, SIKDAR)) for loss in (0.01, 0.1)
    ]
    title = "Long transfers: Cardwell-00 depends on its rate formula"
    svg = latency_panels(title, panels, looks=LOOKS)
    return Figure("hysteresis-long", "Figure 4: long transfers", caption, svg)


def distribution(trials: Trials) -> Figure:
    """Draws figure 5: distribution of times of 32 KB at 5 % loss, with CATNIP and with Partial CATNIP."""
    partial, full = (trials.transfer(sender, 23, 0.05) for sender in (PARTIAL, FULL))
    caption = (
        "About one packet in 23 is lost, so few windows are small and few additional packets are "
        "HIGH: the curves coincide. The steps are timeouts of 1, 2 and 4 s."
    )
    samples = [(PARTIAL, partial), (FULL, full)]
    svg = distributions(
        "Marking the first and last packets yields nearly the whole gain", samples, looks=LOOKS
    )
    return Figure("hysteresis-distribution", "Figure 5: 32 KB at 5 % loss", caption, svg)


def partial(trials: Trials) -> Figure:
    """Draws figure 6: transfer times with Partial CATNIP over size, by model and simulation, and of Reno."""
    caption = (
        "Points: simulated Partial CATNIP with 95 % intervals. Reno is simulated, too. At 1 % the "
        "gain is small, because Reno loses few packets; at 10 % a short transfer takes half the "
        "time."
    )
    svg = latency_panels(
        "The gain from marking the first and last three packets grows with loss",
        [_marked_panel(trials, loss) for loss in (0.01, 0.1)],
        simulated="Partial CATNIP, simulated, 95 % interval",
        looks=LOOKS,
    )
    return Figure("hysteresis-partial", "Figure 6: Partial CATNIP", caption, svg)


FIGURES = (short_flows, long_flows, distribution, partial)


def headline(trials: Trials) -> str:
    """Returns the main result of the reproduction in two sentences."""
    worst = max(errors_of(trials, HYSTERESIS, "short", loss).absolute_relative.mean for loss in LOSSES)
    long = errors_of(trials, HYSTERESIS, "long", 0.1).absolute_relative
    gained = 100 * (1 - trials.transfer(PARTIAL, 36, 0.1).mean() / trials.transfer(RENO, 36, 0.1).mean())
    return (
        f"The hysteresis model predicts the mean time of a short transfer to {100 * worst:.0f} % or"
        " better on average at every loss rate"
        f" up to 10 %, and that of a long one to {100 * long.mean:.0f} % at 10 %, always too"
        " high there. Marking the first"
        f" and last three of 36 packets saves {gained:.0f} % of the time at 10 % loss."
    )


def short_errors(trials: Trials) -> Table:
    """Returns Table 2 of the paper, errors of the models for short transfers, with several measures."""
    return _table(trials, "Table 2: short transfers (1 to 50 KB)", "short")


def long_errors(trials: Trials) -> Table:
    """Returns Table 3 of the paper, errors of the models for long transfers, with several measures."""
    return _table(trials, "Table 3: long transfers (64 to 200 KB)", "long")


def _table(trials: Trials, title: str, flows: str) -> Table:
    columns = ["model and measure", *map(_percent, LOSSES)]
    rows: list[list[str]] = []
    count = len(trials.seeds(DESIGN))
    few = min(PAPER_TRIALS, count)
    for model in COMPARED:
        at = [errors_of(trials, model, flows, loss) for loss in LOSSES]
        if model.published:
            rows.append(
                [
                    f"{model.name}: V in the paper, s²",
                    *(show(paper_v(model.name, flows, loss)) for loss in LOSSES),
                ]
            )
        paper_like = [errors_of(trials, model, flows, loss, few) for loss in LOSSES]
        rows.append([f"{model.name}: V, {few} trials, s²", *(show(one.v.mean) for one in paper_like)])
        if count > few:
            rows.append([f"{model.name}: V, {count} trials, s²", *(_plus_minus(one.v) for one in at)])
        rows.append(
            [
                f"{model.name}: mean squared relative difference",
                *(show(one.squared_relative.mean) for one in at),
            ]
        )
        rows.append(
            [
                f"{model.name}: mean absolute relative difference, %",
                *(show(100 * one.absolute_relative.mean) for one in at),
            ]
        )
        rows.append([f"{model.name}: bias, %", *(show(100 * one.bias.mean) for one in at)])
    note = (
        "V is equation 13 as printed, a mean of squared differences in s², which the paper reads as a"
        " relative error. The rows without a"
        " published one are other readings of the models: Cardwell-00 with PFTK's send rate, Sikdar's"
        " fitted form."
    )
    return Table(title, columns, rows, note)


def first_timeouts(trials: Trials) -> Table:
    """Returns the table of the error V by the first timeout."""
    rows = []
    for flows, sizes in FLOWS.items():
        for first_timeout_s in (1, 3, 6):
            at = [
                errors(
                    HYSTERESIS.predicts(sizes, loss),
                    [trials.with_first_timeout(first_timeout_s, packets, loss) for packets in sizes],
                ).v
                for loss in LOSSES
            ]
            rows.append([f"{flows} transfers, {first_timeout_s} s", *map(_plus_minus, at)])
    return Table(
        "V of the hysteresis model by the timeout before the first sample, s²",
        ["transfers, first timeout", *map(_percent, LOSSES)],
        rows,
        "The paper does not say which it is. The model has one T0 of 1 s; the simulated sender has the"
        " given timeout until it has timed"
        " a packet, then 1 s. The other tables use 3 s.",
    )


def _panel(trials: Trials, loss: float, sizes: Sequence[int], compared: Sequence[Model]) -> Panel:
    kilobytes = [KILOBYTES[packets] for packets in sizes]
    simulated = [(KILOBYTES[n], stats.mean(trials.transfer(RENO, n, loss))) for n in sizes]
    curves = [Curve(model.name, [float(t) for t in model.predicts(sizes, loss)]) for model in compared]
    return Panel(f"{_percent(loss)} loss", kilobytes, simulated, curves)


def _marked_panel(trials: Trials, loss: float) -> Panel:
    kilobytes = [KILOBYTES[packets] for packets in MARKED]
    simulated = [(KILOBYTES[n], stats.mean(trials.transfer(PARTIAL, n, loss))) for n in MARKED]
    reno = [float(trials.transfer(RENO, packets, loss).mean()) for packets in MARKED]
    model = [float(t) for t in predictions.partial_catnip(MARKED, loss)]
    curves = [Curve(PARTIAL_MODEL, model), Curve(RENO_SIMULATED, reno)]
    return Panel(f"p = {_percent(loss)}, p' = 0", kilobytes, simulated, curves)


def _plus_minus(v: Interval) -> str:
    return f"{show(v.mean)} ± {show((v.high - v.low) / 2)}"


def _percent(loss: float) -> str:
    return f"{100 * loss:g} %"
