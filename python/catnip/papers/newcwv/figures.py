"""Figures and tables of the report on the newCWV paper, and the summary at its head."""

import numpy as np

from catnip.analysis.bursts import IDLE_S, SIZES_BYTES
from catnip.analysis.claims import show_interval
from catnip.analysis.measures import Floats
from catnip.figures.bursts import DOTS, LINE, Map, Strip, Track, grouped_bars, heat_maps, strips
from catnip.figures.style import BASE, RAMP
from catnip.papers.newcwv import beyond, gains, single
from catnip.papers.newcwv.printed import table_gains
from catnip.papers.newcwv.runs import (
    CONGESTED,
    CWV,
    FREE,
    LINUX,
    NEW_CWV,
    NEW_RENO,
    PACED,
    SEGMENT,
    SHARED,
    BurstRuns,
)
from catnip.papers.rows import Rows, where
from catnip.report.model import Figure, Table

SIZES = [f"> {size // 1000} KB" for size in SIZES_BYTES]
SILENCES = [f"{idle}" for idle in IDLE_S]
LABELS = ("burst", "after idle periods longer than, s")
MINUTE_S = 60
LOOKS = {
    NEW_RENO: BASE,
    NEW_CWV: 0,
    PACED: 3,
    CWV: 1,
    LINUX: 2,
    "CUBIC": 5,
    "ten segments, no restart": 6,
    "newCWV on CUBIC": 4,
    "newCWV on CUBIC, paced": RAMP + 2,
    "NewReno, marked": RAMP + 1,
    "newCWV, marked": RAMP + 3,
    "newCWV, paced, marked": RAMP + 4,
    "RFC 5681": BASE,
    "standard": BASE,
    "Tahoe": 6,
    "Reno": 4,
    "SACK": 5,
    "cwnd": 0,
    "pipeACK": 6,
    "in flight": 6,
}
"""Indices in `style.LOOKS` of the series of all figures; no look is used twice in a figure."""


def burstiness(runs: BurstRuns) -> Figure:
    """Draws figure 1 of the newCWV paper: data that a server sends over one connection, in bursts."""
    rows = runs.events(FREE, NEW_RENO)
    server = single.of_server(rows)
    best = _a_bursty_connection(server)
    sends = (server["kind"] == "send") & (server["connection"] == best)
    start_s = server["time_s"][sends].min()
    bins = np.arange(0, MINUTE_S, 0.25)
    kilobytes = np.histogram(server["time_s"][sends] - start_s, bins, weights=server["wire_bytes"][sends])[0]
    strip = Strip("", "KB per quarter of a second", [Track("", bins[:-1], kilobytes / 1e3)])
    caption = (
        "Data that a server sends over one connection of the trace: bursts with idle periods between them."
    )
    svg = strips("HTTP sends in bursts", [strip], "time, s", 2.8)
    return Figure("newcwv-bursts", "Figure 1: the bursts of a connection", caption, svg)


def versions(runs: BurstRuns) -> Figure:
    """Draws figure 2 of the newCWV paper: cwnd over time with Tahoe, Reno, NewReno and SACK."""
    tracks = []
    for name in ("Tahoe", "Reno", "NewReno", "SACK"):
        rows = single.of_server(runs.events("newcwv-versions", name))
        tracks.append(Track(name, rows["time_s"], rows["cwnd_bytes"] // 1000))
    caption = (
        "A long transfer that begins at 1 s, over 4 Mbit/s with a delay of 50 ms and a buffer of "
        "20 packets (rate and buffer are not in the paper). After the first losses Tahoe returns "
        "to slow start; Reno and NewReno need a timeout; SACK recovers."
    )
    strip = Strip("", "cwnd, whole segments", tracks)
    svg = strips("All windows settle after a few seconds", [strip], "time, s", 4, looks=LOOKS)
    return Figure("newcwv-versions", "Figure 2: windows of four versions of TCP", caption, svg)


def idle(runs: BurstRuns) -> Figure:
    """Draws figure 3 of the newCWV paper: cwnd after an idle period, by congestion control."""
    tracks = []
    names = {"restart": "RFC 5681", "linux": "Linux", "cwv": "CWV", "newcwv": "newCWV"}
    for rule, name in names.items():
        rows = single.of_server(runs.events("newcwv-silence", f"{rule} / idle_s=constant:value=5"))
        tracks.append(Track(name, rows["time_s"], rows["cwnd_bytes"] / SEGMENT))
    caption = (
        "Two bursts of 200 KB with five seconds between them, one packet of the first lost. With "
        "RFC 5681, Linux and CWV the second burst begins with a small window, with newCWV with "
        "the window of the first."
    )
    strip = Strip("", "cwnd, segments", tracks)
    svg = strips("Congestion window after an idle period", [strip], "time, s", 3.6, looks=LOOKS)
    return Figure("newcwv-idle", "Figure 3: the window after an idle period", caption, svg)


def limited(runs: BurstRuns) -> Figure:
    """Draws figure 4 of the newCWV paper: cwnd of an application-limited sender, and its data in flight."""
    tracks = []
    names = {"standard": "standard", "newcwv": "newCWV", "cwv": "CWV"}
    for rule, name in names.items():
        rows = single.of_server(runs.events("newcwv-limited", rule))
        tracks.append(Track(f"cwnd, {name}", rows["time_s"], rows["cwnd_bytes"] / SEGMENT))
    time_s, used = single.flight(runs.events("newcwv-limited", "newcwv"))
    tracks.append(Track("in flight", time_s, used / SEGMENT, LINE))
    caption = (
        "A segment every 10 ms, 20 per round trip. A standard sender that may grow unused windows "
        "ends with ten times the amount that the path has carried; newCWV with the amount that it "
        "needs."
    )
    strip = Strip("", "segments", tracks)
    svg = strips("An application-limited sender", [strip], "time, s", 3.6, looks=_with("cwnd, "))
    return Figure("newcwv-limited", "Figure 4: an unused window", caption, svg)


def filters(runs: BurstRuns) -> Figure:
    """Draws figure 5 of the newCWV paper: cwnd and pipeACK without and with the maximum filter of pipeACK."""
    drawn = []
    for title, name in zip(("(a) each round trip", "(b) the largest of five"), single.FILTERS, strict=True):
        rows = single.of_server(runs.events("newcwv-filter", name))
        tracks = [
            Track("cwnd", rows["time_s"], rows["cwnd_bytes"] / SEGMENT),
            Track("pipeACK", rows["time_s"], rows["pipe_ack_bytes"] / SEGMENT),
        ]
        drawn.append(Strip(title, "segments", tracks))
    caption = (
        "Bursts of any size in quick succession, the same in both panels. pipeACK varies less with history."
    )
    svg = strips("pipeACK without and with history", drawn, "time, s", 3.8, beside=True, looks=LOOKS)
    return Figure("newcwv-filter", "Figure 5: pipeACK without and with its filter", caption, svg)


def uncongested(runs: BurstRuns) -> Figure:
    """Draws figure 7 of the newCWV paper: gain by burst size and idle period, without a rate limit."""
    maps = [Map(name, _map(runs, FREE, name)) for name in (NEW_CWV, PACED)]
    caption = (
        "Mean gain in percent. The paper reports 37 to 62, 50 on average, about 60 above 80 KB. "
        "Paced bursts take one round trip longer to send."
    )
    svg = heat_maps("Gain over NewReno without congestion, %", maps, SIZES, SILENCES, LABELS)
    return Figure("newcwv-free", "Figure 7: gain without congestion", caption, svg)


def congested(runs: BurstRuns) -> Figure:
    """Draws figure 8 of the newCWV paper: gain by burst size and idle period, over a bottleneck."""
    maps = [Map(name, _map(runs, CONGESTED, name)) for name in (NEW_CWV, PACED)]
    caption = (
        "Mean gain in percent over 2 Mbit/s and 30 KB. The paper reports 10 to 35, less for larger bursts."
    )
    svg = heat_maps("Gain over NewReno over a bottleneck, %", maps, SIZES, SILENCES, LABELS)
    return Figure("newcwv-congested", "Figure 8: gain over a bottleneck", caption, svg)


def losses(runs: BurstRuns) -> Figure:
    """Draws figure 9 of the newCWV paper: share of retransmissions with and without a file transfer."""
    names = {"no cross traffic": CONGESTED, "beside a file transfer": SHARED}
    values = {
        variant: [gains.loss_pct(runs, path, variant) for path in names.values()]
        for variant in (NEW_RENO, NEW_CWV, PACED)
    }
    caption = (
        "Retransmitted segments. Larger unpaced bursts lose more segments; pacing avoids some of "
        "these losses."
    )
    svg = grouped_bars("newCWV loses more", list(names), values, "retransmitted segments, %", LOOKS)
    return Figure("newcwv-losses", "Figure 9: losses", caption, svg)


def tables_2_and_3(runs: BurstRuns) -> Figure:
    """Draws Tables 2 and 3 of the newCWV paper as heat maps: gain beside a file transfer."""
    maps = [
        Map("Table 2: newCWV", _map(runs, SHARED, NEW_CWV), table_gains(2)),
        Map("Table 3: newCWV, paced", _map(runs, SHARED, PACED), table_gains(3)),
    ]
    caption = "Mean gain in percent beside a file transfer; the paper's values in small italics."
    svg = heat_maps("Gain over NewReno beside a file transfer, %", maps, SIZES, SILENCES, LABELS)
    return Figure("newcwv-tables", "Tables 2 and 3: gain beside a file transfer", caption, svg)


def pacing(runs: BurstRuns) -> Figure:
    """Draws figure 10 of the newCWV paper: departure times of a burst, with and without pacing."""
    tracks = []
    for rule, name in (("newcwv", NEW_CWV), ("newcwv, paced", PACED)):
        here = single.silence(runs, rule, 5)
        count = int(here.after.cwnd // SEGMENT)
        times_ms = 1e3 * (here.sent_s[:count] - here.sent_s[0])
        tracks.append(Track(name, times_ms, np.arange(count), DOTS))
    caption = (
        "Transmission of the window that remains after an idle period of five seconds. The round "
        "trip is 200 ms."
    )
    strip = Strip("", "segment of the burst", tracks)
    svg = strips("Pacing spreads a burst over a round trip", [strip], "time, ms", 3.4, looks=LOOKS)
    return Figure("newcwv-pacing", "Figure 10: a burst with and without pacing", caption, svg)


def fairness(runs: BurstRuns) -> Figure:
    """Draws figure 11 of the newCWV paper: throughput of the file transfer beside Web traffic, over time."""
    bins = np.arange(0, 3601, MINUTE_S)
    tracks = []
    for name in (NEW_RENO, NEW_CWV, PACED):
        rows = _of_files(runs.events(SHARED, name))
        acked = np.interp(bins, rows["time_s"], np.maximum.accumulate(rows["seq_bytes"]))
        mbps = np.diff(acked) * 8 / MINUTE_S / 1e6
        tracks.append(Track(f"beside {name}", bins[:-1] / MINUTE_S, mbps))
    caption = "Throughput of the file transfer per minute beside Web traffic under three algorithms."
    strip = Strip("", "Mbit/s", tracks)
    svg = strips("No flow starves", [strip], "time, min", 3.4, looks=_with("beside "))
    return Figure("newcwv-fairness", "Figure 11: throughput of the file transfer", caption, svg)


def behind_queues(runs: BurstRuns) -> Figure:
    """Draws CWV-E14: gain of each server behind each queue."""
    queues = list(beyond.QUEUES)
    values = {
        host: [beyond.gain_behind_pct(runs, host, queue, 5) for queue in queues] for host in beyond.HOSTS
    }
    caption = (
        "Bursts above 5 KB after idle periods of more than a second, beside a file transfer over "
        "2 Mbit/s. The gain is over NewReno behind drop tail."
    )
    title = "Responses to an idle period behind the queues of today"
    svg = grouped_bars(title, queues, values, "gain, %", LOOKS)
    return Figure("newcwv-queues", "Beyond the paper: other responses, other queues", caption, svg)


def marks(runs: BurstRuns) -> Figure:
    """Draws CWV-E15: gain by burst size, with newCWV, marks, or both."""
    sizes = (5, 20, 80)
    values = {
        host: [beyond.gain_behind_pct(runs, host, "CATNIP-Good", size) for size in sizes]
        for host in beyond.MARKED
    }
    caption = (
        "Behind CATNIP-Good, which drops packets without a mark first, and with the marks of CATNIP's servers"
        " on the packets whose loss would cost a timeout. The gain is over NewReno behind drop tail."
    )
    groups = [f"> {size} KB" for size in sizes]
    svg = grouped_bars("newCWV combined with marks", groups, values, "gain, %", LOOKS)
    return Figure("newcwv-marks", "Beyond the paper: newCWV combined with marks", caption, svg)


FIGURES = (
    burstiness,
    versions,
    idle,
    limited,
    filters,
    uncongested,
    congested,
    losses,
    tables_2_and_3,
    pacing,
    fairness,
    behind_queues,
    marks,
)


def headline(runs: BurstRuns) -> str:
    """Returns the main result of the reproduction in two sentences."""
    free = gains.average_gain_pct(runs, FREE)
    shared, paced = (gains.gain_pct(runs, SHARED, 5, 1, name).mean for name in (NEW_CWV, PACED))
    alone, both = (
        beyond.gain_behind_pct(runs, host, "CATNIP-Good", 5).mean for host in ("newCWV", "newCWV, marked")
    )
    return (
        f"Bursts after a silence take {free:.0f} % less time with newCWV where nothing is in their way, and"
        f" {shared:.0f} % less beside a file transfer over a small buffer, {paced:.0f} % if they are paced."
        f" Behind a router that knows CATNIP's marks {alone:.0f} % become {both:.0f} % if the packets whose"
        " loss would cost a timeout are marked, too."
    )


def servers_and_queues(runs: BurstRuns) -> Table:
    """Returns the table of bursts and files of each server behind each queue."""
    rows = []
    for queue in beyond.QUEUES:
        for host in dict.fromkeys((*beyond.HOSTS, *beyond.MARKED)):
            if "marked" in host and queue != "CATNIP-Good":
                continue
            gained = [show_interval(beyond.gain_behind_pct(runs, host, queue, size)) for size in (5, 20, 80)]
            time = show_interval(beyond.mean_time_s(runs, host, queue, 5))
            rows.append(
                (queue, host, *gained, time, show_interval(beyond.ftp_behind_mbps(runs, host, queue)))
            )
    columns = ("queue", "server", "gain > 5 KB, %", "> 20 KB", "> 80 KB", "time > 5 KB, s", "files, Mbit/s")
    note = (
        "Gains over NewReno behind drop tail, of bursts after more than a second of silence. Only CATNIP-Good"
    )
    return Table("Servers and queues", columns, rows, f"{note} looks at marks.")


def cost(runs: BurstRuns) -> Table:
    """Returns the table of simulated runs and what they cost."""
    rows = [(name, str(count), f"{hops / 1e6:.1f}") for name, count, hops in runs.cost()]
    return Table("Simulated runs", ("scenario", "hours simulated", "million packet-hops"), rows)


def _with(prefix: str) -> dict[str, int]:
    """Returns `LOOKS` with additional entries for labels that have a prefix before the series' name."""
    return {**LOOKS, **{f"{prefix}{name}": number for name, number in LOOKS.items()}}


def _map(runs: BurstRuns, path: str, variant: str) -> Floats:
    return np.array(
        [
            [gains.gain_pct(runs, path, size / 1000, idle, variant).mean for idle in IDLE_S]
            for size in SIZES_BYTES
        ]
    )


def _of_files(rows: Rows) -> Rows:
    """Returns the ACKs received by the file transfer's sender, whose connection has the most ACKs."""
    server = single.of_server(rows)
    acks = server["kind"] == "ack"
    numbers, counts = np.unique(server["connection"][acks], return_counts=True)
    chosen = acks & (server["connection"] == numbers[counts.argmax()])
    return where(server, chosen)


def _a_bursty_connection(server: Rows) -> int:
    """Returns the connection with the most idle periods above 2 s, among connections of at most a minute."""
    sends = server["kind"] == "send"
    order = np.lexsort((server["time_s"][sends], server["connection"][sends]))
    number, time_s = server["connection"][sends][order], server["time_s"][sends][order]
    same = number[1:] == number[:-1]
    long = same & (np.diff(time_s) > 2)
    silences = np.bincount(number[1:][long].astype(int), minlength=int(number.max()) + 1)
    first = np.searchsorted(number, np.arange(len(silences)))
    last = np.searchsorted(number, np.arange(len(silences)), side="right") - 1
    silences[time_s[np.maximum(last, 0)] - time_s[np.minimum(first, len(time_s) - 1)] > MINUTE_S] = 0
    return int(silences.argmax())
