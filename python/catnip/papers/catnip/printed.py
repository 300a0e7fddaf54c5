"""Values printed in the CATNIP paper or measured with ns-2, read from the reference tables."""

from collections.abc import Sequence
from statistics import fmean

from catnip.papers.quantity import Quantities
from catnip.papers.reference import end_of_row, row_of, rows

printed = Quantities()
printed(end_of_row)

PAGES = range(1, 11)
CALIBRATED_THINK = "exp:40"


def paper_pages(tcp: str, router: str, column: str) -> list[float]:
    """Returns a column of the paper's tables of page times for `tcp` over `router`, s, page by page.

    The tables are II, III, V, VI, VIII and IX; the result is empty if none of them has this combination.
    """
    selected = [r for r in rows("catnip_transfer_times.csv") if (r["tcp"], r["router"]) == (tcp, router)]
    return [float(row[column]) for row in sorted(selected, key=lambda row: int(row["page"]))]


def ns2_pages(queue: str, column: str, tcp: str = "") -> list[float]:
    """Returns a column of ns-2's page times with a queue, s, page by page.

    The sources are plain Reno or, if `tcp` is given, this marking source.
    """
    if tcp:
        table = [r for r in rows("ns2/catnip_marking_pages.csv") if (r["tcp"], r["queue"]) == (tcp, queue)]
    else:
        table = [
            row
            for row in rows("ns2/catnip_pages_droptail_red.csv")
            if row["queue"] == queue and row["red_gentle"] in ("-", "false")
        ]
    selected = [row for row in table if row["think"] == CALIBRATED_THINK]
    return [float(row[column]) for row in sorted(selected, key=lambda row: int(row["page"]))]


def paper_reductions_pct(router: str, column: str) -> list[float]:
    """Returns the reductions of the paper's page times from DropTail to `router`, page by page, percent."""
    return _reductions_pct(*(paper_pages("Reno", name, column) for name in ("DropTail", router)))


def ns2_reductions_pct(queue: str, column: str) -> list[float]:
    """Returns the reductions of ns-2's page times from DropTail to `queue`, page by page, percent."""
    return _reductions_pct(*(ns2_pages(name, column, "SPM") for name in ("CatTail", queue)))


def single_loss_s() -> dict[int, tuple[float, float, float]]:
    """Returns ns-2's transfer times of a 28-packet document by lost packet: median, least, greatest, s."""
    return {
        int(row["k"]): (
            float(row["time_sender"]),
            float(row["time_sender_min"]),
            float(row["time_sender_max"]),
        )
        for row in rows("ns2/single_loss_profile.csv")
        if (row["preset"], row["variant"], row["delack"], row["where"]) == ("era", "Reno", "0", "head")
    }


@printed
def paper_loss_pct(tcp: str, router: str, priority: str = "all") -> float:
    """Share of packets lost by the source `tcp` over `router`, from Tables IV, VII or X, percent."""
    key = (tcp, router, priority)
    found = (r for r in rows("catnip_loss.csv") if (r["tcp"], r["router"], r["priority"]) == key)
    return float(next(found)["loss_pct"])


@printed
def paper_sent_packets(tcp: str, router: str) -> float:
    """Number of packets sent by the source `tcp` over `router`, from Tables IV, VII or X."""
    found = (
        r for r in rows("catnip_loss.csv") if (r["tcp"], r["router"], r["priority"]) == (tcp, router, "all")
    )
    return float(next(found)["sent"])


@printed
def paper_loss_reduction_pct(tcp: str) -> float:
    """Reduction of the paper's loss rate from Reno to the source `tcp`, both over DropTail, percent."""
    return 100 * (1 - paper_loss_pct(tcp, "DropTail") / paper_loss_pct("Reno", "DropTail"))


@printed
def paper_high_share_pct(tcp: str, router: str) -> float:
    """Share of HIGH packets among the packets that the source `tcp` sends over `router`, percent."""
    sent = {
        row["priority"]: float(row["sent"])
        for row in rows("catnip_loss.csv")
        if (row["tcp"], row["router"]) == (tcp, router)
    }
    return 100 * sent["high"] / sent["all"]


@printed
def paper_loss_ratio(tcp: str, router: str, over: Sequence[str], scale: float = 1.0) -> float:
    """Ratio of the paper's loss rate of `tcp` over `router` to that of `over` (both), times `scale`.

    If `over` is `high/low`, the result is the ratio of the loss rate of HIGH packets to that of LOW packets.
    """
    if over == "high/low":
        return paper_loss_pct(tcp, router, "high") / paper_loss_pct(tcp, router, "low")
    return scale * paper_loss_pct(tcp, router) / paper_loss_pct(*over)


@printed
def paper_page(tcp: str, router: str, column: str, page: int) -> float:
    """Column of the paper's time of a page, with the source `tcp` over `router`, s."""
    return paper_pages(tcp, router, column)[page - 1]


@printed
def paper_page_ratio(page: int, column: str, tcp: str) -> float:
    """Ratio of the paper's time of a page with the source `tcp` to that with Reno, both over DropTail."""
    return paper_page(tcp, "DropTail", column, page) / paper_page("Reno", "DropTail", column, page)


@printed
def paper_loss_difference_points(tcp: str, base: str) -> float:
    """Loss rate of the paper's source `tcp` minus that of `base`, both over DropTail, percentage points."""
    return paper_loss_pct(tcp, "DropTail") - paper_loss_pct(base, "DropTail")


@printed
def paper_times_ratio(tcp: str, router: str, scale: float = 1.0) -> float | None:
    """Ratio of the paper's mean page time of `tcp` over `router` to that of Reno over DropTail.

    The ratio is multiplied by `scale`. None if the paper prints no page times for `tcp` over `router`.
    """
    ours, base = paper_pages(tcp, router, "mean"), paper_pages("Reno", "DropTail", "mean")
    return scale * fmean(ours) / fmean(base) if ours else None


@printed
def paper_gain_pct(router: str, column: str, statistic: str) -> float:
    """Statistic (`of_pages`) of the paper's reductions of page times from DropTail to `router`, percent."""
    return of_pages(paper_reductions_pct(router, column), statistic)


@printed
def ns2_gain_pct(queue: str, column: str, statistic: str) -> float:
    """Statistic (`of_pages`) of the reductions of ns-2's page times from DropTail to `queue`, percent."""
    return of_pages(ns2_reductions_pct(queue, column), statistic)


@printed
def ns2_loss_pct(queue: str, tcp: str = "", priority: str = "") -> list[float]:
    """Share of packets lost in each run of ns-2, percent; `priority` is hi, lo, or empty for all packets."""
    if not tcp:
        return [
            100 * float(row["loss"])
            for row in rows("ns2/catnip_loss_by_seed.csv")
            if (row["queue"], row["think"]) == (queue, CALIBRATED_THINK)
            and row["red_gentle"] in ("-", "false")
        ]
    table = [
        row
        for row in rows("ns2/catnip_marking_loss_by_seed.csv")
        if (row["tcp"], row["queue"], row["think"]) == (tcp, queue, CALIBRATED_THINK)
    ]
    dropped, sent = (f"{priority}_drops", f"{priority}_sent") if priority else ("drops", "sent")
    return [100 * float(row[dropped]) / float(row[sent]) for row in table]


@printed
def ns2_mean_loss_pct(queue: str, tcp: str = "", priority: str = "") -> float:
    """Share of packets lost in ns-2, mean over the runs, percent."""
    return fmean(ns2_loss_pct(queue, tcp, priority))


@printed
def ns2_loss_ratio(queue: str, tcp: str, over: Sequence[str], scale: float = 1.0) -> float:
    """Ratio of ns-2's loss rate with a queue and source to that with `over` (queue, source), times `scale`.

    If `over` is `high/low`, the result is the ratio of the loss rate of HIGH packets to that of LOW packets.
    """
    if over == "high/low":
        return ns2_mean_loss_pct(queue, tcp, "hi") / ns2_mean_loss_pct(queue, tcp, "lo")
    return scale * ns2_mean_loss_pct(queue, tcp) / ns2_mean_loss_pct(*over)


@printed
def ns2_loss_difference_pct(queue: str, base: str) -> float:
    """Loss rate in ns-2 with the queue `queue` minus that with `base`, plain Reno, percentage points."""
    return ns2_mean_loss_pct(queue) - ns2_mean_loss_pct(base)


@printed
def ns2_loss_reduction_pct(tcp: str) -> float:
    """Reduction of ns-2's loss rate from marking Reno to the marking source `tcp`, percent.

    Both sources send over DropTail.
    """
    return 100 * (1 - ns2_mean_loss_pct("CatTail", tcp) / ns2_mean_loss_pct("CatTail", "SPM"))


@printed
def ns2_page_s(queue: str, tcp: str) -> float:
    """Mean page time in ns-2 with a queue and source, s."""
    return fmean(ns2_pages(queue, "mean", tcp))


@printed
def ns2_times_ratio(queue: str, tcp: str) -> float:
    """Ratio of the mean page time in ns-2 to that of marking Reno over DropTail."""
    return ns2_page_s(queue, tcp) / ns2_page_s("CatTail", "SPM")


@printed
def ns2_single_loss_s(k: int) -> float:
    """Transfer time in ns-2 of a document that loses packet k, s; k = 0 means no loss."""
    return single_loss_s()[k][0]


@printed
def ns2_extra_s(k: int) -> float:
    """Transfer time in ns-2 with the loss of packet k minus that without loss, s."""
    times = single_loss_s()
    return times[k][0] - times[0][0]


@printed
def ns2_sent() -> list[float]:
    """Number of data packets sent in each run of ns-2 over DropTail."""
    return [
        float(row["sent"])
        for row in rows("ns2/catnip_loss_by_seed.csv")
        if (row["queue"], row["think"]) == ("DropTail", CALIBRATED_THINK)
    ]


@printed
def loss_ratio_of_rows(one: str, other: str) -> float:
    """Ratio of the `low` values of two rows of catnip_claims.csv, `one` to `other`."""
    return float(row_of(one)["low"]) / float(row_of(other)["low"])


@printed
def row_over_loss(id: str, tcp: str, router: str) -> float:
    """Ratio of a reference row's `low` value to the loss rate of `tcp` over `router` (Tables IV, VII, X)."""
    return float(row_of(id)["low"]) / paper_loss_pct(tcp, router)


def of_pages(values: Sequence[float], statistic: str) -> float:
    """Returns a statistic of values: `mean`, `max`, `pages` (the number of values above 0), or a rank.

    The rank n, counted from 0, selects the n-th smallest value.
    """
    match statistic:
        case "pages":
            return float(sum(value > 0 for value in values))
        case "mean":
            return fmean(values)
        case "max":
            return float(max(values))
    return float(sorted(values)[int(statistic)])


def _reductions_pct(base: Sequence[float], ours: Sequence[float]) -> list[float]:
    return [100 * (1 - b / a) for a, b in zip(base, ours, strict=True)]
