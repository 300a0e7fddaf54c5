"""What the paper prints and what ns-2 measured, from validation/reference."""

from catnip.papers.reference import rows

PAGES = range(1, 11)
CALIBRATED_THINK = "exp:40"


def paper_pages(tcp: str, router: str, column: str) -> list[float]:
    """A column of Tables II, III, V, VI, VIII or IX, page by page, seconds."""
    wanted = [r for r in rows("catnip_transfer_times.csv") if (r["tcp"], r["router"]) == (tcp, router)]
    return [float(row[column]) for row in sorted(wanted, key=lambda row: int(row["page"]))]


def paper_loss_pct(tcp: str, router: str, priority: str = "all") -> float:
    """A cell of Tables IV, VII or X, percent."""
    wanted = (tcp, router, priority)
    found = (r for r in rows("catnip_loss.csv") if (r["tcp"], r["router"], r["priority"]) == wanted)
    return float(next(found)["loss_pct"])


def ns2_pages(queue: str, column: str, tcp: str = "") -> list[float]:
    """A column of ns-2's page times: plain Reno by queue, or marking sources by queue and source."""
    if tcp:
        table = [r for r in rows("ns2/catnip_marking_pages.csv") if (r["tcp"], r["queue"]) == (tcp, queue)]
    else:
        table = [
            row
            for row in rows("ns2/catnip_pages_droptail_red.csv")
            if row["queue"] == queue and row["red_gentle"] in ("-", "false")
        ]
    wanted = [row for row in table if row["think"] == CALIBRATED_THINK]
    return [float(row[column]) for row in sorted(wanted, key=lambda row: int(row["page"]))]


def ns2_loss_pct(queue: str, tcp: str = "", priority: str = "") -> list[float]:
    """ns-2's loss in percent, one value per run; `priority` is hi or lo."""
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


def ns2_single_loss() -> dict[int, tuple[float, float, float]]:
    """ns-2's completion time of the 28-packet document by lost packet: median, least, greatest, s."""
    return {
        int(row["k"]): (
            float(row["time_sender"]),
            float(row["time_sender_min"]),
            float(row["time_sender_max"]),
        )
        for row in rows("ns2/single_loss_profile.csv")
        if (row["preset"], row["variant"], row["delack"], row["where"]) == ("era", "Reno", "0", "head")
    }


def mean(values: list[float]) -> float:
    """The plain mean."""
    return sum(values) / len(values)
