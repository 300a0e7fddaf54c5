"""Overlaid segment sequences of the kernel and the simulator."""

from catnip.figures.sequences import Sequence as Drawn
from catnip.figures.sequences import overlaid
from catnip.papers.linux_tcp.runs import Pair, TransferRuns
from catnip.report.model import Figure

SHOWN = (("head", "cubic", 10), ("burst", "reno", 50), ("tail", "cubic", 50), ("acks", "reno", 100))
"""Kind, congestion control and delay of the drawn cases; the first match of each is drawn."""


def sequences(runs: TransferRuns) -> Figure:
    """Draws the segments of four transfers over time, each by the kernel and by the simulator."""
    chosen = [pair for key in SHOWN if (pair := _first(runs, *key))]
    drawn = {
        pair.case.name: {
            name: Drawn(one.times_s, one.segments, one.is_retransmission)
            for name, one in (("kernel", pair.kernel), ("simulator", pair.ours))
        }
        for pair in chosen
    }
    title = "The same transfers by the kernel and by the simulator"
    caption = (
        "Dots: segments sent by the kernel. Circles: segments sent by the simulated sender. "
        "Crosses and squares: their retransmissions. Where circles surround dots, both send the "
        "same segment at the same time."
    )
    return Figure("linux_sequences", title, caption, overlaid(title, drawn))


def _first(runs: TransferRuns, kind: str, control: str, delay_ms: int) -> Pair | None:
    key = kind, control, delay_ms
    found = (pair for pair in runs.pairs if (pair.case.kind, pair.case.control, pair.case.delay_ms) == key)
    return next(found, None)


FIGURES = (sequences,)
