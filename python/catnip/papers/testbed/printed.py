"""Values that the testbed paper and the CATNIP paper print, from the reference tables."""

from catnip.papers.quantity import Quantities
from catnip.papers.reference import number, rows

printed = Quantities()


@printed
def milliseconds(id: str) -> float:
    """Value of the reference row `id`, whose unit is seconds, in ms."""
    return 1e3 * number(id)


@printed
def table_xi(column: str, buffer_kb: int) -> float:
    """Column of the CATNIP paper's Table XI for a buffer size, for all pages together."""
    return float(_by_buffer()[buffer_kb][column])


@printed
def table_xi_page(page: int, buffer_kb: int) -> float:
    """Relative time of a page in the CATNIP paper's Table XI for a buffer size."""
    cells = {(int(row["page"]), int(row["buffer_kb"])): row for row in rows("catnip_wan_emulation.csv")}
    return float(cells[page, buffer_kb]["relative_time"])


@printed
def table_xi_largest_gain_pct(buffer_kb: int) -> float:
    """Largest gain of a page in the CATNIP paper's Table XI for a buffer size, percent."""
    return 100 * (1 - min(table_xi_page(page, buffer_kb) for page in range(1, 11)))


@printed
def spreads(at_kb: list[int], than_at_kb: list[int]) -> str:
    """Standard deviations of the pages' time ratios in Table XI at two sets of buffers, as text."""
    some, others = (
        ", ".join(_by_buffer()[kb]["sdev_relative_time"] for kb in buffers) for buffers in (at_kb, than_at_kb)
    )
    return f"{some} against {others}"


def _by_buffer() -> dict[int, dict[str, str]]:
    return {int(row["buffer_kb"]): row for row in rows("catnip_wan_emulation_summary.csv")}
