"""Measurements of single components of the CATNIP paper's network: CAT-S1 to CAT-S19."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from catnip import _core
from catnip.analysis import measures
from catnip.base import paths
from catnip.papers import component_results
from catnip.papers.catnip import printed, transfers
from catnip.papers.catnip.runs import Result, VariantRuns
from catnip.papers.quantity import Quantities
from catnip.papers.reference import number
from catnip.papers.rows import where

measured = Quantities()

LARGEST_DOCUMENT = 200
DOWNLOADS = int(number("catp12"))


@measured
def one_packet_off_ns(_runs: VariantRuns) -> float:
    """CAT-S1: absolute difference between simulated and calculated time of one packet and its ACK, ns.

    The link is idle.
    """
    done_s = transfers.trace(1)["time_s"][-1]
    return float(abs(done_s - transfers.ROUND_TRIP_S) * 1e9)


@measured
def runs_alike(_runs: VariantRuns, scenario: str, seeds: Sequence[int]) -> str:
    """CAT-S1: `the same` if the runs of a scenario with two seeds have equal events, else `different`."""
    of = paths.scenario(scenario)
    one, other = (_core.fingerprints(of, of.variants, seed) for seed in seeds)
    return "the same" if one == other else "different"


@measured
def packets_unheard_of(runs: VariantRuns, scenario: str) -> str:
    """CAT-S1: number of sent packets for which no host was notified of a delivery or a drop."""
    return str(sum(int(result.rows("runs")["packets_open"].sum()) for result in runs.of(scenario).values()))


@measured
def packet_after_third_duplicate(_runs: VariantRuns, drop: int) -> str:
    """CAT-S2: number of the packet sent on the third duplicate ACK, if the packet `drop` is lost."""
    events = transfers.trace(transfers.PACKETS, drop=[drop])
    third = next(
        i for i, dupacks in enumerate(events["dupacks"]) if dupacks == 3 and events["event"][i] == "send"
    )
    return str(events["seq"][third] + 1)


@measured
def timeouts_of_a_first_packet_s(_runs: VariantRuns, times: int) -> str:
    """CAT-S2: successive retransmission timeouts of a first packet that is lost `times` times, s."""
    sent_s, _ = transfers.sends(transfers.trace(1, drop=list(range(1, times + 1))))
    return ", ".join(f"{gap:g}" for gap in np.diff(sent_s))


@measured
def timeouts_after(_runs: VariantRuns, drop: Sequence[int]) -> str:
    """CAT-S2: number of timeouts of a transfer that loses the packets `drop`."""
    return str(Counter(transfers.trace(transfers.PACKETS, drop=drop)["event"])["rto"])


@measured
def resent_before_the_timeout(_runs: VariantRuns, drop: Sequence[int]) -> str:
    """CAT-S2: packets retransmitted before the first timeout of a transfer that loses the packets `drop`."""
    events = transfers.trace(transfers.PACKETS, drop=drop)
    expired = list(events["event"]).index("rto")
    sent = Counter(
        int(number) + 1
        for number, event in zip(events["seq"][:expired], events["event"][:expired], strict=True)
        if event == "send"
    )
    return ", ".join(str(number) for number, times in sent.items() if times > 1)


@measured
def timeout_on_a_short_path_s(_runs: VariantRuns) -> float:
    """CAT-S2: time from the last ACK to the timeout if the last packet is lost, s.

    The round trip is 2 ms.
    """
    events = transfers.trace(40, drop=[40], delay="1ms", rate="10Mbit", tick_phase="50ms")
    times = {event: events["time_s"][i] for i, event in enumerate(events["event"])}
    last_ack = max(
        t
        for t, event in zip(events["time_s"], events["event"], strict=True)
        if event == "ack" and t < times["rto"]
    )
    return float(times["rto"] - last_ack)


@measured
def max_extra_round_trips(_runs: VariantRuns, source: str) -> float:
    """CAT-S3, S4: largest excess of a source's transfer time over Reno's, in round trips.

    The documents have 1 to 200 packets, none of which is lost.
    """
    options: dict[str, Any] = transfers.SOURCES[source]

    def extra(packets: int) -> float:
        plain, other = transfers.trace(packets), transfers.trace(packets, **options)
        return float(other["time_s"][-1] - plain["time_s"][-1])

    return max(extra(packets) for packets in range(1, LARGEST_DOCUMENT + 1)) / transfers.ROUND_TRIP_S


@measured
def transfers_unlike_reno(_runs: VariantRuns, source: str, up_to: int) -> str:
    """CAT-S4: number of documents of 1 to `up_to` packets that a source sends at other times than Reno."""
    options = {**transfers.SOURCES, **transfers.OTHER_RULES}[source]
    plain, other = (
        [transfers.sends(transfers.trace(packets, **of)) for packets in range(1, up_to + 1)]
        for of in ({}, options)
    )
    return str(sum(one != another for one, another in zip(plain, other, strict=True)))


@measured
def idle_pages_off_ms(runs: VariantRuns, source: str, but: Sequence[int]) -> float:
    """CAT-S4: largest absolute difference of an idle network's page times from the paper's minimum times, ms.

    A single user loads the pages. The pages in `but` are left out.
    """
    paper = printed.paper_pages(source, "DropTail", "min")
    pages = [page for page in printed.PAGES if page not in but]
    return 1e3 * max(abs(_idle_s(runs, source)[page - 1] - paper[page - 1]) for page in pages)


@measured
def idle_page_ratio(runs: VariantRuns, page: int, source: str) -> float:
    """CAT-S4: ratio of a page's time with the source `source` to its time with Reno, for a single user."""
    return _idle_s(runs, source)[page - 1] / _idle_s(runs, "Reno")[page - 1]


@measured
def idle_page_s(runs: VariantRuns, page: int) -> float:
    """CAT-S12: time of a page for a single user whose server uses Reno, s."""
    return _idle_s(runs, "Reno")[page - 1]


@measured
def high_packets(_runs: VariantRuns, packets: int, marker: str) -> str:
    """CAT-S5: numbers of those packets of a document that the marker `marker` marks HIGH."""
    events = transfers.trace(packets, marker=marker)
    sent = [i for i, event in enumerate(events["event"]) if event == "send" and events["high"][i]]
    return ", ".join(str(events["seq"][i] + 1) for i in sent)


@measured
def combinations_that_load_every_page(runs: VariantRuns) -> str:
    """CAT-S6: number of source variants with which every page of every run is loaded."""
    return str(sum(_all_pages(result) for result in runs.of("catnip-variants").values()))


@measured
def dropped_of_a_burst(runs: VariantRuns) -> str:
    """CAT-S7: number of packets dropped from a burst of six at a queue with space for three."""
    return str(int(runs.of("catnip-e11")["room for three"].rows("connections")["dropped"][0]))


@measured
def driven_alone(_runs: VariantRuns, says: str) -> float:
    """CAT-S8 to S11, S14, S19, S22, S23: value that the component test with the claim `says` has recorded."""
    return component_results.alone(says)[0]


@measured
def session_of_a_user(runs: VariantRuns) -> str:
    """CAT-S13: number of connections and number of bytes of one user's session."""
    result = runs.of("catnip-e4")["Reno/DropTail"]
    rows = result.rows("pages")
    one = (rows["seed"] == result.seeds[0]) & (rows["client"] == 0)
    return f"{rows['connections'][one].sum()}, {rows['bytes'][one].sum()}"


@measured
def orders_of_pages(runs: VariantRuns) -> float:
    """CAT-S13: number of different orders in which the users of a run load the pages."""
    result = runs.of("catnip-e4")["Reno/DropTail"]
    rows = result.rows("pages")
    of_seed = rows["seed"] == result.seeds[0]
    rows_of_user = [of_seed & (rows["client"] == client) for client in np.unique(rows["client"])]
    return float(len({tuple(rows["page"][user][np.argsort(rows["start_s"][user])]) for user in rows_of_user}))


@measured
def generated_pages(runs: VariantRuns) -> str:
    """CAT-S14: number of different generated pages, over all runs."""
    rows = runs.of("catnip-generated")["Reno/DropTail"].rows("pages")
    return str(len({(int(page), int(size)) for page, size in zip(rows["page"], rows["bytes"], strict=True)}))


@measured
def max_open_connections(runs: VariantRuns) -> str:
    """CAT-S15: largest number of connections that one client has open at a time."""
    objects = _objects(runs)
    start, end = objects["start_s"], objects["start_s"] + objects["time_s"]
    max_open = 0
    for user in np.unique(objects["client"]):
        is_own = objects["client"] == user
        max_open = max(max_open, measures.max_concurrent(start[is_own], end[is_own]))
    return str(max_open)


@measured
def pages_that_begin_with_an_image(runs: VariantRuns) -> str:
    """CAT-S15: number of pages whose first object is not the HTML."""
    objects = _objects(runs)
    count = 0
    for user in np.unique(objects["client"]):
        for page in np.unique(objects["page"]):
            is_own = (objects["client"] == user) & (objects["page"] == page)
            count += int(objects["object"][is_own][np.argmin(objects["start_s"][is_own])] != 0)
    return str(count)


@measured
def connections_per_page(runs: VariantRuns) -> str:
    """CAT-S16: smallest and largest number of connections per page with HTTP/1.1."""
    per_page = runs.of("catnip-e8")["Reno/DropTail"].rows("pages")["connections"]
    return f"{per_page.min()} to {per_page.max()}"


@measured
def bytes_of_connections_less_pages(runs: VariantRuns) -> str:
    """CAT-S16: number of bytes carried by connections minus number of bytes of pages, with HTTP/1.1."""
    result = runs.of("catnip-e8")["Reno/DropTail"]
    return str(int(result.rows("connections")["bytes"].sum() - result.rows("pages")["bytes"].sum()))


@measured
def packets_dropped_exactly_once(runs: VariantRuns) -> str:
    """CAT-S17: number of packets k for which every transfer that loses k drops exactly one packet."""
    results = runs.of("catnip-e1")
    is_single = (
        (results[f"k = {k}"].rows("connections")["dropped"] == 1).all()
        for k in range(1, transfers.PACKETS + 1)
    )
    return str(sum(map(bool, is_single)))


@measured
def records_less_counters(runs: VariantRuns) -> str:
    """CAT-S18: packets sent, marked HIGH and dropped, counted by connections minus by the bottleneck."""
    result = runs.of("catnip-e4")["Reno/CATNIP-Good"]
    connections, ports = result.rows("connections"), result.rows("ports")
    there = where(ports, ports["port"] == "bottleneck")
    arrived = sum(there[f"arrived_{priority}"].sum() for priority in ("high", "low"))
    dropped = sum(there[f"dropped_{priority}"].sum() for priority in ("high", "low"))
    pairs = (("sent", arrived), ("sent_high", there["arrived_high"].sum()), ("dropped", dropped))
    return ", ".join(str(int(connections[key].sum() - counted)) for key, counted in pairs)


@measured
def high_without_context_less_partial(runs: VariantRuns) -> str:
    """CAT-S19: HIGH packets of sources without the document's size minus those of partial marking."""
    return str(_high(runs, "no context") - _high(runs, "partial SPM"))


@measured
def high_without_context_over_with(runs: VariantRuns) -> float:
    """CAT-S19: ratio of the numbers of HIGH packets of sources without and with the document's size."""
    return _high(runs, "no context") / _high(runs, "victim random")


def _high(runs: VariantRuns, variant: str) -> int:
    return int(runs.of("catnip-victims")[variant].rows("ports")["arrived_high"].sum())


def _objects(runs: VariantRuns) -> dict[str, np.ndarray]:
    """Returns all rows of the table `objects` of one run."""

    def make() -> dict[str, np.ndarray]:
        table = paths.scenario("catnip-e4").run(["Reno/DropTail"], [runs.first_seed], ["objects"])["objects"]
        return {key: np.asarray(values) for key, values in table.items()}

    return runs.cached("objects", make)


def _idle_s(runs: VariantRuns, source: str) -> list[float]:
    """Returns the page times of a single user on the network with a source, s; page 1 is first."""
    return [float(time) for time in runs.of("catnip-idle")[source].page_means()[0]]


def _all_pages(result: Result) -> bool:
    return len(result.rows("pages")["page"]) == DOWNLOADS * len(result.seeds)
