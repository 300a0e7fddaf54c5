"""Measures the same work in CATNIP, htsim, ns-2 and ns-3, one after the other in every round.

    .venv/bin/python benches/run.py            # five rounds of what is here
    .venv/bin/python benches/run.py --htsim DIR     # with htsim; rewrites the results in benches/
    .venv/bin/python benches/run.py --quick    # one round, CATNIP only; writes nothing
    .venv/bin/python benches/run.py --redraw   # tables and plot from results.json

Every measurement is a process of its own that runs one simulation, or 1000 if flows are measured with their
set-up, and reports the duration of its event loop, the packets that it sent over links and its peak memory.
Results are written only after all cases and simulators were measured in five rounds or more. BIAS.md
describes the limitations of the results.

htsim is in no package: DIR is a checkout of https://github.com/Broadcom/csg-htsim, in which its own Makefile
builds the library.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from catnip import _core
from catnip.figures import style
from catnip.figures.style import BLUE, FAINT, STYLE, VERMILION, WIDTH

ROOT = Path(__file__).resolve().parent.parent
BENCHES = ROOT / "benches"
BUILD = ROOT / "build" / "benches"
OURS = ROOT / "target" / "release" / "examples" / "bench"
RESULTS = BENCHES / "results.json"

CATNIP, HTSIM, NS2, NS3 = "CATNIP", "htsim", "ns-2", "ns-3"
SIMULATORS = (CATNIP, HTSIM, NS2, NS3)
NAMES = {"ours": CATNIP, "htsim": HTSIM, "ns-2": NS2, "ns-3": NS3}

NS3_LIBRARIES = ("nix-vector-routing", "applications", "point-to-point", "internet", "network", "core")
NS2_SCHEDULER = "Splay"  # fastest of ns-2's five schedulers
LEAST_ROUNDS = 5
SHORT_FLOWS = 1000
TIMEOUT_S = 900
NOTHING = "–"

Document = dict[str, Any]


@dataclass(frozen=True)
class Unit:
    """Unit of a case's result, and the function that computes the result from a measurement."""

    name: str
    of: Callable[["Measurement"], float]


@dataclass(frozen=True)
class Case:
    """Workload, with the command that runs it in each simulator that supports it."""

    name: str
    title: str
    unit: Unit
    commands: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Measurement:
    """Results that one benchmark process reported: sums over its simulations, and its peak memory."""

    wall_s: float
    hops: int
    peak_kb: int
    events: int | None = None
    more: dict[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Measurement":
        """Parses the output of a process, which has one JSON object per simulation and line."""
        runs = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        if not runs:
            raise Failure(f"no result in {text!r}")
        known = {"wall_s", "hops", "peak_kb", "events"}
        return cls(
            wall_s=sum(run["wall_s"] for run in runs),
            hops=sum(run["hops"] for run in runs),
            peak_kb=max(run["peak_kb"] for run in runs),
            events=sum(run["events"] for run in runs) if "events" in runs[0] else None,
            more={k: v for k, v in runs[0].items() if k not in known and isinstance(v, int | float)},
        )


class Failure(Exception):
    """Error that ends the benchmark, such as a failed simulator or compiler; the message describes it."""


PER_HOP = Unit("ns per packet-hop", lambda m: 1e9 * m.wall_s / m.hops)
PER_FLOW = Unit("µs per flow", lambda m: 1e6 * m.wall_s / SHORT_FLOWS)
PER_RUN = Unit("ms per run", lambda m: 1e3 * m.wall_s)


def main() -> int:
    """Builds the simulators, measures all cases, and prints and writes the results."""
    options = parse_arguments()
    if options.redraw:
        write(json.loads(RESULTS.read_text()))
        return 0
    try:
        simulators = prepare(options.only, options.htsim)
        cases = [case for case in all_cases() if not options.cases or case.name in options.cases]
        complete = not options.cases and simulators == list(SIMULATORS) and options.rounds >= LEAST_ROUNDS
        recorded = complete and is_clean()
        if complete and not recorded:
            progress("the tree has changes that are not committed: nothing will be written")
        document = measure(cases, simulators, options.rounds, options.htsim)
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(json.dumps(document, indent=2) if options.json else speed_table(document))
    if recorded:
        RESULTS.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        write(document)
        progress("wrote results.json, results.svg, README.md and BIAS.md in benches/")
    else:
        progress(
            f"nothing written: that takes all cases and simulators, {LEAST_ROUNDS} rounds and a clean tree"
        )
    return 0


def parse_arguments() -> argparse.Namespace:
    """Parses the command line; `--quick` is replaced by `--only ours --rounds 1`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [case.name for case in all_cases()]
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS, help="default: %(default)s")
    parser.add_argument("--cases", nargs="+", metavar="CASE", choices=names, help=", ".join(names))
    parser.add_argument("--only", choices=NAMES, help="one simulator")
    parser.add_argument("--htsim", type=Path, metavar="DIR", help="checkout of htsim, which is measured, too")
    parser.add_argument("--quick", action="store_true", help="the same as --only ours --rounds 1")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout instead of a table")
    parser.add_argument("--redraw", action="store_true", help="only redo tables and plot from results.json")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    if options.htsim and not (options.htsim / "sim" / "tcp.h").exists():
        parser.error(f"--htsim: {options.htsim} is no checkout of csg-htsim")
    if options.only == "htsim" and not options.htsim:
        parser.error("--only htsim: needs --htsim DIR")
    if options.quick:
        options.only, options.rounds = "ours", 1
    return options


# Cases.


def all_cases() -> list[Case]:
    """Returns every case, in the order of the tables."""
    return [
        *(dumbbell(flows) for flows in (10, 100, 1_000, 10_000)),
        Case(
            "flow",
            "flow of 36 packets at 5 % loss",
            PER_FLOW,
            {
                CATNIP: ours("short.toml", "1000 flows"),
                HTSIM: htsim("short", f"--flows={SHORT_FLOWS}"),
                NS2: ns2("short.tcl", "ready", SHORT_FLOWS, 1, NS2_SCHEDULER),
                NS3: ns3("short"),
            },
        ),
        Case(
            "flow-set-up",
            "the same with its set-up",
            PER_FLOW,
            {
                CATNIP: ours("short.toml", "one flow", SHORT_FLOWS),
                NS2: ns2("short.tcl", "fresh", SHORT_FLOWS, 1, NS2_SCHEDULER),
                NS3: ns3("short"),
            },
        ),
        Case(
            "web",
            "100 Web clients, one run",
            PER_RUN,
            {
                CATNIP: ours("../python/catnip/papers/catnip/scenarios/catnip-e4.toml", "Reno/DropTail"),
                NS2: ns2("web.tcl", 1, NS2_SCHEDULER, "pooled"),
                NS3: ns3("web", f"--pages={ROOT / 'python/catnip/papers/catnip/reference/catnip_pages.csv'}"),
            },
        ),
    ]


def dumbbell(flows: int) -> Case:
    """Returns the case of `flows` long flows through one bottleneck; ns-2 and ns-3 run 1000 flows at most."""
    commands = {
        CATNIP: ours("dumbbell.toml", f"{flows} flows"),
        HTSIM: htsim("dumbbell", f"--flows={flows}"),
    }
    if flows <= 1_000:
        commands[NS2] = ns2("dumbbell.tcl", flows, 30, 1, NS2_SCHEDULER)
        commands[NS3] = ns3("dumbbell", f"--flows={flows}")
    return Case(f"dumbbell-{flows}", f"{grouped(flows)} long flows", PER_HOP, commands)


def ours(file: str, variant: str, runs: int = 1) -> list[str]:
    """Writes a variant of a scenario to a file of its own, and returns the command that runs it.

    A file with all variants would add their memory to the measured memory.
    """
    path = (BENCHES / file).resolve()
    head, *variants = path.read_text().split("[[variant]]")
    (block,) = (text for text in variants if f'name = "{variant}"\n' in text)
    alone = f"{head}[[variant]]{block}".replace('"../', f'"{path.parent.parent}/')
    copy = BUILD / f"{path.stem}-{variant.replace('/', '-').replace(' ', '-')}.toml"
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(alone)
    return [str(OURS), str(copy), variant, str(runs)]


def ns2(program: str, *arguments: object) -> list[str]:
    """Returns the command that runs a Tcl program of benches/ns2 in ns-2."""
    return ["ns", str(BENCHES / "ns2" / program), *map(str, arguments)]


def htsim(program: str, *arguments: str) -> list[str]:
    """Returns the command that runs a compiled program of benches/htsim."""
    return [str(BUILD / f"htsim-{program}"), *arguments]


def ns3(program: str, *arguments: str) -> list[str]:
    """Returns the command that runs a compiled program of benches/ns3."""
    return [str(BUILD / f"ns3-{program}"), *arguments]


# Building.


def prepare(only: str | None, checkout: Path | None) -> list[str]:
    """Builds the requested simulators; returns those that are there. `checkout` is that of htsim."""
    wanted = [NAMES[only]] if only else list(SIMULATORS)
    is_there = {name: found() for name, found in PRESENT.items()}
    is_there |= {CATNIP: True, HTSIM: checkout is not None}
    there = [name for name in wanted if is_there[name]]
    for name in wanted:
        if name not in there:
            origin = f"Debian package {PACKAGES[name]}" if name in PACKAGES else "--htsim DIR"
            progress(f"{name} is not there ({origin}): measuring without it")
    if not there:
        raise Failure("nothing to measure")
    if CATNIP in there:
        progress("building CATNIP")
        build(["cargo", "build", "--quiet", "--release", "-p", "catnip-lab", "--example", "bench"])
    if HTSIM in there and checkout is not None:
        progress("building htsim")
        library = checkout / "sim"
        build(["make", "-C", str(library), "libhtsim.a"])
        BUILD.mkdir(parents=True, exist_ok=True)
        for program in sorted((BENCHES / "htsim").glob("*.cpp")):
            parts = [str(program), str(library / "libhtsim.a"), "-o", htsim(program.stem)[0]]
            build(["g++", "-O3", "-std=c++17", f"-I{library}", *parts])
    if NS3 in there:
        for source in sorted((BENCHES / "ns3").glob("*.cc")):
            compile_ns3(source, Path(ns3(source.stem)[0]))
    return there


PACKAGES = {NS2: "ns2", NS3: "libns3-dev"}
BUILDS = {
    NS2: "Debian's build",
    NS3: "Debian's build: profile release with log statements, not ns-3's optimized one",
}
"""Origins of the measured ns-2 and ns-3, as text; Debian's sources specify their builds (`debian/rules`)."""
PRESENT: dict[str, Callable[[], bool]] = {
    NS2: lambda: shutil.which("ns") is not None,
    NS3: lambda: Path("/usr/include/ns3/core-module.h").exists() and shutil.which("g++") is not None,
}


def compile_ns3(source: Path, program: Path) -> None:
    """Compiles an ns-3 program if its source is newer than the program."""
    newest = max(file.stat().st_mtime for file in (source, source.parent / "common.h"))
    if program.exists() and program.stat().st_mtime > newest:
        return
    progress(f"compiling {source.relative_to(ROOT)}")
    program.parent.mkdir(parents=True, exist_ok=True)
    libraries = [f"-lns3-{name}" for name in NS3_LIBRARIES]
    build(["g++", "-O2", "-std=c++17", str(source), "-o", str(program), *libraries])


def build(command: list[str]) -> None:
    """Runs a build command at low priority; raises Failure with its error output."""
    done = subprocess.run(
        ["nice", "-n", "10", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Failure(f"{' '.join(command)}\n{done.stderr.strip()}")


# Measuring.


def measure(cases: list[Case], simulators: list[str], rounds: int, checkout: Path | None) -> Document:
    """Measures all cases in all simulators, round by round, and returns the content of results.json."""
    load = [os.getloadavg()[0]]
    jobs = [(case, name) for case in cases for name in simulators if name in case.commands]
    taken: dict[tuple[str, str], list[Measurement]] = {(case.name, name): [] for case, name in jobs}
    start = time.monotonic()
    for n in range(rounds * len(jobs)):
        case, name = jobs[n % len(jobs)]
        done = f"{n + 1}/{rounds * len(jobs)}, {time.monotonic() - start:.0f} s"
        progress(f"[{done}] round {n // len(jobs) + 1}: {case.name}, {name}")
        taken[case.name, name].append(run(case.commands[name]))
    load.append(os.getloadavg()[0])
    return {
        "date": date.today().isoformat(),
        "rounds": rounds,
        "seconds": round(time.monotonic() - start),
        "machine": machine() | {"load": [round(value, 2) for value in load]},
        "versions": versions(simulators, checkout),
        "cases": [
            summary(case, {name: taken[case.name, name] for c, name in jobs if c is case}) for case in cases
        ],
        "traffic": [
            traffic(case, taken) for case in cases if case.unit is PER_HOP and len(case.commands) > 1
        ],
    }


def run(command: Sequence[str]) -> Measurement:
    """Runs one benchmark process and returns its results."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as timeout:
        raise Failure(f"more than {TIMEOUT_S} s: {' '.join(command)}") from timeout
    if done.returncode:
        raise Failure(f"{' '.join(command)}\n{done.stderr.strip()[-2000:]}")
    return Measurement.parse(done.stdout)


def summary(case: Case, taken: Mapping[str, list[Measurement]]) -> Document:
    """Returns the results of a case for results.json.

    For each simulator, the results contain the median and range of its values, and of the ratios of its
    values to CATNIP's values of the same round.
    """
    values = {name: [case.unit.of(m) for m in measurements] for name, measurements in taken.items()}
    result = {}
    for name, measurements in taken.items():
        first = measurements[0]
        result[name] = spread(values[name]) | {
            "rounds": [round(value, 3) for value in values[name]],
            "hops": first.hops,
            "events": first.events,
            "peak_kb": max(m.peak_kb for m in measurements),
        }
        if name != CATNIP and CATNIP in values:
            ratios = [other / own for other, own in zip(values[name], values[CATNIP], strict=True)]
            result[name]["ratio"] = spread(ratios)
    return {"name": case.name, "title": case.title, "unit": case.unit.name, "simulators": result}


def spread(values: list[float]) -> Document:
    """Returns median, minimum and maximum of some values, rounded to three decimals."""
    return {
        "median": round(float(np.median(values)), 3),
        "low": round(min(values), 3),
        "high": round(max(values), 3),
    }


COLUMNS = {"utilization": "utilization", "dropped": "dropped_low"}
"""Columns of CATNIP's table `ports`, by the names that the programs in ns-2 and ns-3 use."""


def traffic(case: Case, taken: Mapping[tuple[str, str], list[Measurement]]) -> Document:
    """Returns utilization and drops of the bottleneck in each simulator, to show if all do equal work."""
    result: Document = {"title": case.title}
    for name in case.commands:
        if name == CATNIP:
            scenario = _core.Scenario.load(case.commands[CATNIP][1])
            ports = scenario.run(scenario.variants, [1], ["ports"], 1)["ports"]
            row = list(ports["port"]).index("bottleneck")
            told = {key: float(ports[column][row]) for key, column in COLUMNS.items()}
        elif taken.get((case.name, name)):
            told = taken[case.name, name][0].more
        else:
            continue
        result[name] = {
            key: round(told[key], 4) for key in ("utilization", "dropped", "goodput") if key in told
        }
    return result


def machine() -> Document:
    """Returns processor, cores, memory, kernel and system of this machine."""
    cpu = [line.split(":", 1)[1].strip() for line in read("/proc/cpuinfo") if line.startswith("model name")]
    memory = [int(line.split()[1]) for line in read("/proc/meminfo") if line.startswith("MemTotal")]
    return {
        "cpu": cpu[0] if cpu else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory[0] / 2**20, 1) if memory else None,
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
    }


def versions(simulators: list[str], checkout: Path | None) -> Document:
    """Returns the versions of the simulators and the compilers. `checkout` is that of htsim."""
    result = {CATNIP: f"{_core.__version__} ({output('git', 'describe', '--always', '--dirty')})"}
    for name in simulators:
        if name == HTSIM:
            commit = output("git", "-C", str(checkout), "rev-parse", "--short", "HEAD")
            result[name] = f"{commit} (its Makefile's build, -O3)"
        if name in PACKAGES:
            version = output("dpkg-query", "--show", "--showformat=${Version}", PACKAGES[name])
            result[name] = f"{version} ({BUILDS[name]})"
    return result | {
        "rustc": output("rustc", "--version").removeprefix("rustc "),
        "g++": output("g++", "-dumpfullversion"),
    }


def is_clean() -> bool:
    """Returns true if the checkout has no changes, so that its commit suffices to repeat the measurement."""
    status = ["git", "status", "--porcelain"]
    done = subprocess.run(status, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode == 0 and not done.stdout


def output(*command: str) -> str:
    """Returns the first line that a program prints; `unknown` if it fails or prints none."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return (done.stdout.splitlines() or ["unknown"])[0]


def read(path: str) -> list[str]:
    """Returns the lines of a file; an empty list if the file does not exist."""
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def progress(text: str) -> None:
    """Prints a message about the progress on stderr."""
    print(text, file=sys.stderr, flush=True)


# Reporting.


def write(document: Document) -> None:
    """Writes the tables and the plot of `document`, the content of results.json."""
    parts = (about(document), speed_table(document), work_table(document))
    replace_between(BENCHES / "README.md", "results", "\n\n".join(parts))
    replace_between(BENCHES / "BIAS.md", "traffic", traffic_table(document))
    (BENCHES / "results.svg").write_text(plot(document))


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


def speed_table(document: Document) -> str:
    """Returns the Markdown table of run times, a row for each case and a column for each simulator."""
    names = present(document)
    others = [name for name in names if name != CATNIP and CATNIP in names]
    rows = []
    for case in document["cases"]:
        own = case["simulators"]
        cells = [ranged(own.get(name)) for name in names]
        ratios = [ranged(own.get(name, {}).get("ratio"), " ×") for name in others]
        rows.append([case["title"], case["unit"], *cells, *ratios])
    return markdown(["work", "", *names, *(f"{name} / {CATNIP}" for name in others)], rows)


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
        for name in present(document):
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
    return [name for name in SIMULATORS if any(name in case["simulators"] for case in document["cases"])]


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
        axes.set(xscale="log", yscale="log", xlabel="long TCP flows through one bottleneck", xlim=(7, 40_000))
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
        if case["unit"] == PER_HOP.name and name in case["simulators"]:
            value = case["simulators"][name]
            yield int(case["name"].split("-")[1]), value["median"], value["low"], value["high"]


def headline(document: Document) -> str:
    """Returns the title of the plot, which states its main result."""
    cases = {case["name"]: case["simulators"] for case in document["cases"]}
    middle = cases["dumbbell-100"]
    ratios = [(name, digits(middle[name]["ratio"]["median"])) for name in SIMULATORS[1:] if name in middle]
    others = [f"{ratio} times as long in {name}" for name, ratio in ratios]
    own = duration(middle[CATNIP]["median"])
    return f"With 100 flows a packet takes {own} per link, {', '.join(others)}"


def duration(nanoseconds: float) -> str:
    """Formats nanoseconds as ns or µs, with two digits."""
    value, unit = (nanoseconds, "ns") if nanoseconds < 995 else (nanoseconds / 1000, "µs")
    return f"{float(f'{value:.2g}'):g} {unit}"


if __name__ == "__main__":
    sys.exit(main())
