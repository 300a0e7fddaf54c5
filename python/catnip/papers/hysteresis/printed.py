"""Values of the hysteresis paper, and of another simulator with the same settings, from the tables."""

from catnip.papers.quantity import Quantities
from catnip.papers.reference import end_of_row, row_of, rows

printed = Quantities()
printed(end_of_row)


@printed
def paper_v(model: str, flows: str, loss: float) -> float | None:
    """Mean squared error V of a model in Table 2 or 3 of the paper, s²; None for a model without a row."""
    for row in rows("hysteresis_relative_error.csv"):
        if (row["model"], row["flow_class"], float(row["loss_pct"])) == (model, flows, round(100 * loss)):
            return float(row["relative_error"])
    return None


@printed
def paper_v_ratio(flows: str, loss: float) -> float | None:
    """Ratio of the mean squared error V of Cardwell-00 to that of the hysteresis model in Table 2 or 3."""
    above, below = (paper_v(model, flows, loss) for model in ("Cardwell-00", "Hysteresis"))
    return None if above is None or below is None else above / below


@printed
def independent(name: str, flows: str, loss: float, packets: int = 0) -> float:
    """Value of a quantity by another simulator, read from hysteresis_independent.csv."""
    key = (name, flows, str(packets or ""), f"{100 * loss:g}")
    found = (
        row
        for row in rows("hysteresis_independent.csv")
        if (row["quantity"], row["flow_class"], row["packets"], row["loss_pct"]) == key
    )
    return float(next(found)["value"])


@printed
def as_text(id: str) -> str:
    """Value of the reference row `id`, with the digits of its file."""
    return row_of(id)["low"]
