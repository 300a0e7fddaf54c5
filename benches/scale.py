"""Cost of a packet-hop and memory of a flow, from 10 to 100 000 flows and from 1 to 64 hops.

    .venv/bin/python benches/scale.py            # writes scale.json and scale.svg; about two minutes

Every point is measured in a process of its own, so that peak memory is known for each point. The result is
the fastest round, because noise only increases times. The last measurement is the speed-up of an ensemble of
runs by a second core.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from catnip import _core
from catnip.figures import style
from catnip.figures.style import LOOKS, STYLE, WIDTH

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target" / "release" / "examples" / "bench"
FLOWS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
HOPS = (1, 2, 4, 8, 16, 32, 64)
HOP_FLOWS = 10


def main() -> int:
    """Measures all numbers of flows and hops, and writes scale.json and scale.svg."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--redraw", action="store_true", help="only redo the plot from scale.json")
    arguments = parser.parse_args()
    if arguments.redraw:
        document = json.loads((ROOT / "benches" / "scale.json").read_text())
        draw(document["flows"], document["links"])
        return 0
    rounds = arguments.rounds
    build = ["cargo", "build", "--quiet", "--release", "-p", "catnip-lab", "--example", "bench"]
    subprocess.run(build, cwd=ROOT, check=True)
    flows = [measure("flows", count, dumbbell(count), rounds) for count in FLOWS]
    hops = [measure("links", count, chain(count), rounds) for count in HOPS]
    document = {"flows": flows, "links": hops, "ensemble": ensemble()}
    (ROOT / "benches" / "scale.json").write_text(json.dumps(document, indent=2) + "\n")
    draw(flows, hops)
    return 0


def measure(key: str, value: int, scenario: str, rounds: int) -> dict[str, float]:
    """Runs a scenario `rounds` times in one process and returns the results of the fastest round.

    The results are labelled with `key`: `value`, the number of flows or of links.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(scenario)
        file.flush()
        command = [str(PROGRAM), file.name, "default", str(rounds)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    best = min(runs, key=lambda run: run["ns_per_hop"])
    point = {key: value} | {name: best[name] for name in ("ns_per_hop", "hops", "peak_kb")}
    print(point, file=sys.stderr)
    return point


def dumbbell(flows: int) -> str:
    """Returns a scenario with `flows` flows through one bottleneck of 100 Mbit/s."""
    text = (ROOT / "benches" / "dumbbell.toml").read_text().split("[[variant]]")[0]
    return text.replace("count = 100 ", f"count = {flows} ")


def chain(hops: int) -> str:
    """Returns a scenario with ten flows through `hops` links of 100 Mbit/s in a row."""
    return "\n".join(_chain(hops))


def _chain(hops: int) -> Iterator[str]:
    text = (ROOT / "benches" / "dumbbell.toml").read_text().split("[[variant]]")[0]
    head, tail = text.split("[link.bottleneck]")
    _, tail = tail.split("[link.downlink]")
    nodes = "\n".join(f'r{i} = {{ kind = "router" }}' for i in range(hops + 1))
    yield (
        head.replace("count = 100 ", f"count = {HOP_FLOWS} ")
        .replace('left = { kind = "router" }\nright = { kind = "router" }', nodes)
        .replace('to = "left"', 'to = "r0"')
    )
    for i in range(hops):
        yield f'[link.l{i}]\nfrom = "r{i}"\nto = "r{i + 1}"\nrate = "100Mbit"\ndelay = "1ms"'
        yield 'queue = "drop-tail:250"'
    yield "[link.downlink]" + tail.replace('from = "right"', f'from = "r{hops}"')


def ensemble(rounds: int = 5) -> dict[str, float]:
    """Returns the speed-up of the runs of the scenario catnip-matrix by a second thread.

    In each round, the runs are executed with one thread and with two threads, one after the other. The result
    has the median and the range over the rounds.
    """
    scenario = _core.Scenario.load(str(ROOT / "python/catnip/papers/catnip/scenarios/catnip-matrix.toml"))
    ratios = []
    for _ in range(rounds):
        seconds = []
        for threads in (1, 2):
            start = time.perf_counter()
            scenario.run(scenario.variants, list(range(1, 7)), ["runs"], threads)
            seconds.append(time.perf_counter() - start)
        ratios.append(seconds[0] / seconds[1])
    result = {"speed_up": sorted(ratios)[len(ratios) // 2], "lowest": min(ratios), "highest": max(ratios)}
    print(result, file=sys.stderr)
    return result


def draw(flows: list[dict[str, float]], hops: list[dict[str, float]]) -> None:
    """Draws scale.svg: cost of a packet-hop and memory per flow over the flows, and cost over the hops."""
    count = [point["flows"] for point in flows]
    cost = [point["ns_per_hop"] for point in flows]
    memory = [1024 * point["peak_kb"] / point["flows"] for point in flows]
    links, by_links = [p["links"] for p in hops], [p["ns_per_hop"] for p in hops]
    title = "Cost and memory from 10 to 100 000 flows, and cost over longer paths"
    least, most = flows[0], flows[-1]
    each_kb = (most["peak_kb"] - least["peak_kb"]) / (most["flows"] - least["flows"])
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 3.8), layout="constrained")
        axes = figure.subplots(1, 3)
        style.title(figure, title)
        for panel, x, y, finding, label in (
            (axes[0], count, cost, "Cost grows as state outgrows the cache", "flows"),
            (axes[1], count, memory, f"A flow with its two access links: {each_kb:.1f} KB", "flows"),
            (axes[2], links, by_links, "A longer path costs no more per hop", "links in a row"),
        ):
            panel.plot(x, y, marker="o", ms=5, **LOOKS[0].line)
            panel.set(xscale="log", xlabel=label, title=finding)
        axes[0].set(ylabel="ns per packet-hop", ylim=(0, None))
        axes[1].set(ylabel="peak memory / flows, B", yscale="log")
        axes[2].set(ylabel="ns per packet-hop", ylim=(0, None))
        (ROOT / "benches" / "scale.svg").write_text(style.svg(figure, title) + "\n")


if __name__ == "__main__":
    sys.exit(main())
