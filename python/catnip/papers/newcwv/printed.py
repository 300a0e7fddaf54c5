"""Values of the newCWV paper's tables with which the values of the claims are compared."""

import numpy as np

from catnip.analysis.bursts import IDLE_S, SIZES_BYTES
from catnip.analysis.measures import Floats
from catnip.papers.quantity import Quantities
from catnip.papers.reference import rows

printed = Quantities()


@printed
def table_gain_pct(table: int, burst_kb: int, idle_s: int) -> float:
    """Gain in Table 2 or 3 of the paper for a burst size and an idle period, percent."""
    return float(table_gains(table)[[n // 1000 for n in SIZES_BYTES].index(burst_kb), IDLE_S.index(idle_s)])


@printed
def table_improvement_points(burst_kb: int, idle_s: int) -> float:
    """Gain in Table 3 (paced) minus the gain in Table 2 (not paced), percentage points."""
    return table_gain_pct(3, burst_kb, idle_s) - table_gain_pct(2, burst_kb, idle_s)


@printed
def sawtooth_mean() -> float:
    """CWV-E2: mean of a sawtooth cwnd that grows from half of the path's capacity to all of it, segments.

    The capacity includes the buffer.
    """
    path, buffer = 4e6 * 0.1 / 8 / 1000, 20
    return 0.75 * (path + buffer)


@printed
def sawtooth_utilization(buffer_kb: float = 30) -> float:
    """CWV-S10: utilization by a sawtooth cwnd from half of what path and buffer hold to all of it.

    The link is idle only in rounds whose cwnd is below the path without its buffer. cwnd grows by the same
    amount in each round.
    """
    path, buffer = 2e6 * 0.2 / 8 / 1500, buffer_kb / 1.5
    lowest = (path + buffer) / 2
    idle = max(path - lowest, 0) ** 2 / 2
    sent = ((path + buffer) ** 2 - lowest**2) / 2
    return sent / (sent + idle)


def table_gains(table: int) -> Floats:
    """Returns Table 2 or 3 of the paper: a row for each size, a column for each idle period, percent."""
    cells = {
        (int(row["burst_kb"]), int(row["idle_s"])): float(row["gain_pct"])
        for row in rows("newcwv_gain.csv")
        if int(row["table"]) == table
    }
    return np.array([[cells[size // 1000, idle] for idle in IDLE_S] for size in SIZES_BYTES])
