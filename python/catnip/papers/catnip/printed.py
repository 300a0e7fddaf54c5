"""Values that the paper prints and values measured with ns-2, from the reference tables."""

from collections.abc import Sequence
from statistics import fmean

from catnip.papers.quantity import Quantities
from catnip.papers.reference import end_of_row, row_of, rows

printed = Quantities()
printed(end_of_row)

PAGES = range(1, 11)
CALIBRATED_THINK = "exp:40"


def paper_pages(tcp: str, router: str, column: str) -> list[float]:
    """Returns a column of Tables II, III, V, VI, VIII or IX, page by page, seconds."""
    selected = [r for r in rows("catnip_transfer_times.csv") if (r["tcp"], r["router"]) == (tcp, router)]
    return [float(row[column]) for row in sorted(selected, key=lambda row: int(row["page"]))]


def ns2_pages(queue: str, column: str, tcp: str = "") -> list[float]:
    """Returns a column of ns-2's page times: plain Reno by queue, or marking sources by queue and source."""
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
    """Returns the paper's reduction of page times by a router relative to DropTail, page by page, percent."""
    return _reductions_pct(*(paper_pages("Reno", name, column) for name in ("DropTail", router)))


def ns2_reductions_pct(queue: str, column: str) -> list[float]:
    """Returns ns-2's reduction of page times by a queue relative to DropTail, page by page, percent."""
    return _reductions_pct(*(ns2_pages(name, column, "SPM") for name in ("CatTail", queue)))


def single_loss_s() -> dict[int, tuple[float, float, float]]:
    """Returns ns-2's completion time of the 28-packet document by lost packet: median, least, greatest, s."""
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
    """Packet loss with a source and router from Tables IV, VII or X, percent."""
    key = (tcp, router, priority)
    found = (r for r in rows("catnip_loss.csv") if (r["tcp"], r["router"], r["priority"]) == key)
    return float(next(found)["loss_pct"])


@printed
def paper_sent_packets(tcp: str, router: str) -> float:
    """Number of packets sent with a source and router, from Tables IV, VII or X."""
    found = (
        r for r in rows("catnip_loss.csv") if (r["tcp"], r["router"], r["priority"]) == (tcp, router, "all")
    )
    return float(next(found)["sent"])


@printed
def paper_loss_reduction_pct(tcp: str) -> float:
    """Reduction of the loss by a source relative to Reno, both over DropTail, percent."""
    return 100 * (1 - paper_loss_pct(tcp, "DropTail") / paper_loss_pct("Reno", "DropTail"))


@printed
def paper_high_share_pct(tcp: str, router: str) -> float:
    """Share of HIGH packets among all packets sent with a source and router, percent."""
    sent = {
        row["priority"]: float(row["sent"])
        for row in rows("catnip_loss.csv")
        if (row["tcp"], row["router"]) == (tcp, router)
    }
    return 100 * sent["high"] / sent["all"]


@printed
def paper_loss_ratio(tcp: str, router: str, over: Sequence[str], scale: float = 1.0) -> float:
    """Ratio of the loss with a source and router to that with `over` (source and router), times `scale`.

    If `over` is `high/low`, the result is the ratio of the loss of HIGH packets to the loss of LOW packets.
    """
    if over == "high/low":
        return paper_loss_pct(tcp, router, "high") / paper_loss_pct(tcp, router, "low")
    return scale * paper_loss_pct(tcp, router) / paper_loss_pct(*over)


@printed
def paper_page(tcp: str, router: str, column: str, page: int) -> float:
    """Time of a page with a source and router, from the tables of page times, s."""
    return paper_pages(tcp, router, column)[page - 1]


@printed
def paper_page_ratio(page: int, column: str, tcp: str) -> float:
    """Ratio of the time of a page with a source to its time with Reno, both over DropTail."""
    return paper_page(tcp, "DropTail", column, page) / paper_page("Reno", "DropTail", column, page)


@printed
def paper_times_ratio(tcp: str, router: str, scale: float = 1.0) -> float | None:
    """Ratio of the mean page time to that with Reno and DropTail, times `scale`.

    None if the paper prints no page times.
    """
    ours, base = paper_pages(tcp, router, "mean"), paper_pages("Reno", "DropTail", "mean")
    return scale * fmean(ours) / fmean(base) if ours else None


@printed
def paper_gain_pct(router: str, column: str, statistic: str) -> float:
    """Statistic of the paper's reductions of page times relative to DropTail, percent."""
    return of_pages(paper_reductions_pct(router, column), statistic)


@printed
def ns2_gain_pct(queue: str, column: str, statistic: str) -> float:
    """Statistic of ns-2's reductions of page times relative to DropTail, percent."""
    return of_pages(ns2_reductions_pct(queue, column), statistic)


@printed
def ns2_loss_pct(queue: str, tcp: str = "", priority: str = "") -> list[float]:
    """Loss in ns-2, percent, one value per run; `priority` is hi or lo."""
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
    """Mean over the runs of the loss in ns-2, percent."""
    return fmean(ns2_loss_pct(queue, tcp, priority))


@printed
def ns2_loss_ratio(queue: str, tcp: str, over: Sequence[str], scale: float = 1.0) -> float:
    """Ratio of the loss in ns-2 with a queue and source to that with `over` (both), times `scale`.

    If `over` is `high/low`, the result is the ratio of the loss of HIGH packets to the loss of LOW packets.
    """
    if over == "high/low":
        return ns2_mean_loss_pct(queue, tcp, "hi") / ns2_mean_loss_pct(queue, tcp, "lo")
    return scale * ns2_mean_loss_pct(queue, tcp) / ns2_mean_loss_pct(*over)


@printed
def ns2_loss_difference_pct(queue: str, base: str) -> float:
    """Difference between the losses of two queues in ns-2 with plain Reno, percentage points."""
    return ns2_mean_loss_pct(queue) - ns2_mean_loss_pct(base)


@printed
def ns2_loss_reduction_pct(tcp: str) -> float:
    """Reduction of the loss in ns-2 by a marking source relative to marking Reno, percent.

    Both sources send over DropTail.
    """
    return 100 * (1 - ns2_mean_loss_pct("CatTail", tcp) / ns2_mean_loss_pct("CatTail", "SPM"))


@printed
def ns2_page_s(queue: str, tcp: str) -> float:
    """Mean page time in ns-2 over all pages, s."""
    return fmean(ns2_pages(queue, "mean", tcp))


@printed
def ns2_times_ratio(queue: str, tcp: str) -> float:
    """Ratio of the mean page time in ns-2 to that of marking Reno over DropTail."""
    return ns2_page_s(queue, tcp) / ns2_page_s("CatTail", "SPM")


@printed
def ns2_single_loss_s(k: int) -> float:
    """Completion time in ns-2 with packet k lost, s; 0 for no loss."""
    return single_loss_s()[k][0]


@printed
def ns2_extra_s(k: int) -> float:
    """Extra time due to the loss of packet k in ns-2, s."""
    times = single_loss_s()
    return times[k][0] - times[0][0]


@printed
def ns2_sent() -> list[float]:
    """Data packets sent per run in ns-2."""
    return [
        float(row["sent"])
        for row in rows("ns2/catnip_loss_by_seed.csv")
        if (row["queue"], row["think"]) == ("DropTail", CALIBRATED_THINK)
    ]


@printed
def loss_ratio_of_rows(one: str, other: str) -> float:
    """Ratio of the values of two rows of catnip_claims.csv, `one` to `other`."""
    return float(row_of(one)["low"]) / float(row_of(other)["low"])


@printed
def row_over_loss(id: str, tcp: str, router: str) -> float:
    """Ratio of the value of a reference row to the loss with a source and router (Tables IV, VII or X)."""
    return float(row_of(id)["low"]) / paper_loss_pct(tcp, router)


def of_pages(values: Sequence[float], statistic: str) -> float:
    """Returns a statistic of values: `mean`, `max`, `pages` (the number of values above 0), or a rank.

    A rank n, counted from 0, selects the n-th smallest value.
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
