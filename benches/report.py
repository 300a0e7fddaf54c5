"""Tables and plot of the measurements of benches/run.py, written into README.md and BIAS.md in benches/."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from catnip.figures import style
from catnip.figures.style import BLUE, FAINT, STYLE, VERMILION, WIDTH

BENCHES = Path(__file__).resolve().parent
RESULTS = BENCHES / "results.json"

CATNIP, HTSIM, NS2, NS3 = "CATNIP", "htsim", "ns-2", "ns-3"
PLAIN, HTSIM_PLAIN, BEFORE = "CATNIP, plain", "htsim, plain", "before"
SIMULATORS = (CATNIP, HTSIM, NS2, NS3)
BUILDS_APART = (PLAIN, HTSIM_PLAIN, BEFORE)
ALL = (*SIMULATORS, *BUILDS_APART)
BASE = {name: PLAIN if name in (HTSIM_PLAIN, BEFORE) else CATNIP for name in ALL}
"""Simulator to whose values the values of each simulator are divided."""

NOTHING = "–"

Document = dict[str, Any]


class Failure(Exception):
    """Error that ends the benchmark, such as a failed simulator or compiler; the message describes it."""


def write(document: Document) -> None:
    """Writes the tables and the plot of `document`, the content of results.json."""
    replace_between(BENCHES / "README.md", "results", "\n\n".join(tables(document)))
    replace_between(BENCHES / "BIAS.md", "traffic", traffic_table(document))
    (BENCHES / "results.svg").write_text(plot(document))


def tables(document: Document) -> list[str]:
    """Returns what README.md in benches/ says of a measurement: its conditions, and its tables."""
    builds = (SIMULATORS, BUILDS_APART)
    return [
        about(document),
        goals_table(document),
        *(speed_table(document, names) for names in builds),
        work_table(document),
    ]


def replace_between(path: Path, name: str, text: str) -> None:
    """Replaces the text between `<!-- name -->` and `<!-- /name -->` in a file by `text`."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    old = path.read_text()
    if opening not in old or closing not in old:
        raise Failure(f"{path}: {opening} … {closing} is not there")
    before, rest = old.split(opening, 1)
    path.write_text(f"{before}{opening}\n\n{text}\n\n{closing}{rest.split(closing, 1)[1]}")


def about(document: Document) -> str:
    """Returns a sentence with the date, machine, versions and number of rounds of a measurement."""
    m, v = document["machine"], document["versions"]
    told = ", ".join(f"{name} {version}" for name, version in v.items())
    return (
        f"{document['date']}, {m['cpu']}, {m['cores']} cores, {m['system']}, kernel {m['kernel']}, "
        f"load {m['load'][0]} before and {m['load'][1]} after; {told}. Medians of {document['rounds']} "
        "rounds, with the least and the greatest; the ratios are medians of ratios within a round."
    )


def goals_table(document: Document) -> str:
    """Returns the Markdown table of the goals on speed and memory, with what is reached."""
    cases = {case["name"]: case["simulators"] for case in document["cases"]}

    def over(one: tuple[str, str], other: tuple[str, str]) -> str:
        """Formats the median of the ratios of one case's values to another's, both of the same round."""
        values = [cases[case][name]["rounds"] for case, name in (one, other)]
        return f"{np.median([a / b for a, b in zip(*values, strict=True)]):.2g}"

    def htsim_over_ours(case: str) -> list[str]:
        return [over((case, HTSIM), (case, CATNIP)), over((case, HTSIM_PLAIN), (case, PLAIN))]

    def ours_over(case: str, before: str) -> list[str]:
        return [over((case, name), (before, BEFORE)) for name in (CATNIP, PLAIN)]

    def peak_mb(case: str, name: str) -> float:
        return float(cases[case][name]["peak_kb"]) / 1024

    per_flow = [
        digits((peak_mb("dumbbell-100000", name) - peak_mb("dumbbell-10000", name)) * 1024 / 90_000)
        for name in (CATNIP, PLAIN)
    ]
    tree_mb = [digits(peak_mb("tree", CATNIP)), digits(peak_mb("tree", BEFORE))]
    rows = [
        *(
            [f"htsim / CATNIP, {flows} flows", goal, *htsim_over_ours(f"dumbbell-{flows}")]
            for flows, goal in ((10, "2.5"), (100, "2.5"), (1000, "3"))
        ),
        ["htsim / CATNIP, short lossy flows", "1.3", *htsim_over_ours("flow")],
        ["100 000 flows, over 100 flows before", "3", *ours_over("dumbbell-100000", "dumbbell-100")],
        ["memory per flow, KB", "1", *per_flow],
        ["CUBIC over FQ-CoDel, over NewReno before", "0.9", *ours_over("cubic", "dumbbell-100")],
        ["BBR over FQ-CoDel, over NewReno before", "1.2", *ours_over("bbr", "dumbbell-100")],
        ["CUBIC over CAKE, over NewReno before", "1.3", *ours_over("cake", "dumbbell-100")],
        ["DiffServ tree with FQ-CoDel, over before", "0.35", *ours_over("tree", "tree")],
        ["Web, over before", "0.5", *ours_over("web", "web")],
    ]
    memory = f"The DiffServ tree takes {tree_mb[0]} MB; before, {tree_mb[1]} MB."
    table = markdown(["work", "goal", "tuned builds", "plain builds"], rows)
    return f"{table}\n\n*Before* is {document['versions'][BEFORE]}, the plain build. {memory}"


def speed_table(document: Document, names: Sequence[str]) -> str:
    """Returns the Markdown table of run times, a row for each case and a column for each simulator."""
    names = [name for name in names if name in present(document)]
    others = [name for name in names if name != BASE[name] and BASE[name] in names]
    rows = []
    for case in document["cases"]:
        own = case["simulators"]
        cells = [ranged(own.get(name)) for name in names]
        ratios = [ranged(own.get(name, {}).get("ratio"), " ×") for name in others]
        rows.append([case["title"], case["unit"], *cells, *ratios])
    return markdown(["work", "", *names, *(f"{name} / {BASE[name]}" for name in others)], rows)


def work_table(document: Document) -> str:
    """Returns the Markdown table of packet-hops, events per hop and peak memory, a row for each case."""
    columns: dict[str, Callable[[Document], str]] = {
        "packet-hops": lambda result: grouped(result["hops"]),
        "events per hop": lambda result: (
            f"{result['events'] / result['hops']:.2f}" if result["events"] else NOTHING
        ),
        "peak MB": lambda result: f"{result['peak_kb'] / 1024:.1f}",
    }
    cases = document["cases"]
    table = {"work": [case["title"] for case in cases]}
    for what, tell in columns.items():
        for name in (name for name in present(document) if name in SIMULATORS):
            results = [case["simulators"].get(name) for case in cases]
            cells = [tell(result) if result else NOTHING for result in results]
            if set(cells) != {NOTHING}:
                table[f"{what}, {name}"] = cells
    return markdown(list(table), [list(row) for row in zip(*table.values(), strict=True)])


def traffic_table(document: Document) -> str:
    """Returns the Markdown table of utilization, goodput and drops at the dumbbell's bottleneck."""
    rows = []
    for row in document["traffic"]:
        for name in SIMULATORS:
            if name in row:
                told = row[name]
                goodput = f"{100 * told['goodput']:.0f} %" if "goodput" in told else NOTHING
                full = f"{100 * told['utilization']:.0f} %"
                rows.append([row["title"], name, full, goodput, grouped(told["dropped"])])
    return markdown(["dumbbell", "", "bottleneck in use", "new data in order", "packets dropped"], rows)


def present(document: Document) -> list[str]:
    """Returns the simulators that have results in `document`."""
    return [name for name in ALL if any(name in case["simulators"] for case in document["cases"])]


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Returns a Markdown table whose first column is text and whose other columns are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def ranged(value: Document | None, unit: str = "") -> str:
    """Formats a median from `spread`, with the range in brackets if the values differ; a dash for None."""
    if value is None:
        return NOTHING
    if value["low"] == value["high"]:
        return f"{digits(value['median'])}{unit}"
    return f"{digits(value['median'])}{unit} ({digits(value['low'])}–{digits(value['high'])})"


def digits(value: float) -> str:
    """Formats a value with two or three significant digits."""
    return f"{value:.1f}" if value < 10 else grouped(float(f"{value:.3g}"))


def grouped(value: float) -> str:
    """Formats a whole number with narrow spaces between groups of three digits."""
    return f"{value:,.0f}".replace(",", "\u202f")


def plot(document: Document) -> str:
    """Draws the cost per packet-hop over the number of flows, as SVG."""
    colours = {CATNIP: BLUE, HTSIM: style.LOOKS[3].colour, NS2: FAINT, NS3: VERMILION}
    lines = {name: list(points(document, name)) for name in SIMULATORS}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4.8), layout="constrained")
        axes = figure.subplots()
        for name, line in lines.items():
            if not line:
                continue
            flows, median, low, high = (np.array(column) for column in zip(*line, strict=True))
            axes.fill_between(flows, low, high, color=colours[name], alpha=0.25, linewidth=0)
            axes.plot(flows, median, "o-", color=colours[name], linewidth=2 if name == CATNIP else 1.2)
            weight = "bold" if name == CATNIP else "normal"
            label = f"{name}  {duration(median[-1])}"
            axes.annotate(label, (flows[-1], median[-1]), (9, 0), textcoords="offset points", va="center",
                          color=colours[name], weight=weight)  # fmt: skip
        axes.set(
            xscale="log", yscale="log", xlabel="long TCP flows through one bottleneck", xlim=(7, 400_000)
        )
        bottom, top = np.log10(axes.get_ylim())
        axes.set_ylim(10 ** np.floor(bottom), 10 ** np.ceil(top))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: grouped(value)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
        axes.set_xticks([flows for flows, *_ in lines[CATNIP]])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_locator(NullLocator())
        style.title(figure, headline(document))
        return style.svg(figure, headline(document)) + "\n"


def points(document: Document, name: str) -> Iterator[tuple[int, float, float, float]]:
    """Yields number of flows, and median, least and greatest cost per packet-hop in the simulator `name`."""
    for case in document["cases"]:
        if case["name"].startswith("dumbbell-") and name in case["simulators"]:
            value = case["simulators"][name]
            yield int(case["name"].split("-")[1]), value["median"], value["low"], value["high"]


def headline(document: Document) -> str:
    """Returns the title of the plot, which states its main result."""
    cases = {case["name"]: case["simulators"] for case in document["cases"]}
    middle = cases["dumbbell-100"]
    ratios = [(name, digits(middle[name]["ratio"]["median"])) for name in SIMULATORS[1:] if name in middle]
    others = [f"{ratio} times that in {name}" for name, ratio in ratios]
    own = duration(middle[CATNIP]["median"])
    return f"A packet of 100 flows takes {own} per link, {', '.join(others)}"


def duration(nanoseconds: float) -> str:
    """Formats nanoseconds as ns or µs, with two digits."""
    value, unit = (nanoseconds, "ns") if nanoseconds < 995 else (nanoseconds / 1000, "µs")
    return f"{float(f'{value:.2g}'):g} {unit}"
