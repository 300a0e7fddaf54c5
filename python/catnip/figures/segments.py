"""Sequence plot of one connection as at its sender: segments, ACKs, SACK, the window, losses, timeouts."""

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from catnip.figures import style
from catnip.figures.style import BLUE, FAINT, INK, STYLE, VERMILION, WIDTH

GREEN, PURPLE = "#009e73", "#cc79a7"
SENT = {"data": (BLUE, "segment"), "fin": (BLUE, "segment"), "retransmission": (VERMILION, "retransmission")}


def sequence_plot(title: str, segments: Mapping[str, Any]) -> str:
    """Draws the table of segments of a timeline; sequence numbers in kB."""
    at_s, kinds = np.asarray(segments["at_s"]), np.asarray(segments["kind"])
    low, high = (np.asarray(segments[name], dtype=float) / 1e3 for name in ("from_bytes", "to_bytes"))
    handles: dict[str, Artist] = {}
    with mpl.rc_context(STYLE | {"axes.grid.axis": "both"}):
        figure = Figure(figsize=(WIDTH, 5.6), layout="constrained")
        axes = figure.subplots()
        style.title(figure, title)
        acks = kinds == "ack"
        if acks.any():
            axes.step(at_s[acks], low[acks], where="post", color=GREEN, lw=1.1)
            axes.step(at_s[acks], high[acks], where="post", color=FAINT, lw=0.9, ls=(0, (4, 2)))
            handles |= {"ACK": Line2D([], [], color=GREEN, lw=1.1)}
            handles |= {"end of the receive window": Line2D([], [], color=FAINT, lw=0.9, ls=(0, (4, 2)))}
        for kind, (colour, label) in SENT.items():
            of = kinds == kind
            if of.any():
                axes.vlines(at_s[of], low[of], high[of], color=colour, lw=1.8)
                axes.plot(at_s[of], high[of], ls="", marker="_", ms=4, color=colour)
                handles |= {label: Line2D([], [], ls="", marker="|", ms=8, mew=1.8, color=colour)}
        sacks = kinds == "sack"
        if sacks.any():
            axes.vlines(at_s[sacks], low[sacks], high[sacks], color=PURPLE, lw=1.4)
            handles |= {"SACK block": Line2D([], [], ls="", marker="|", ms=8, mew=1.4, color=PURPLE)}
        for kind, marker, label in (("drop", "x", "dropped"), ("timeout", "o", "timeout")):
            of = kinds == kind
            if of.any():
                axes.plot(at_s[of], high[of], ls="", marker=marker, ms=6, mfc="none", color=INK)
                handles |= {label: Line2D([], [], ls="", marker=marker, ms=6, mfc="none", color=INK)}
        sent = np.isin(kinds, list(SENT))
        top = float(high[sent].max(initial=1e-3))
        axes.set(xlabel="time, s", ylabel="sequence number, kB", ylim=(-0.02 * top, 1.06 * top))
        axes.set_xlim(left=0)
        axes.legend(list(handles.values()), list(handles), loc="lower right")
        return style.svg(figure, title)
