"""Measures the same work in CATNIP, htsim, ns-2 and ns-3, one after the other in every round.

    .venv/bin/python benches/run.py            # five rounds of what is here
    .venv/bin/python benches/run.py --htsim DIR --before 963bb69    # all; rewrites the results in benches/
    .venv/bin/python benches/run.py --quick    # one round of the plain build; writes nothing
    .venv/bin/python benches/run.py --redraw   # tables and plot from results.json

Every measurement is a process of its own that runs one simulation, or 1000 if flows are measured with their
set-up, and reports the duration of its event loop, the packets that it sent over links and its peak memory.
Results are written only after all cases and simulators were measured in five rounds or more. BIAS.md
describes the limitations of the results.

CATNIP and htsim are measured in two builds: tuned, ours with a profile as in the wheel (tools/profile.sh),
theirs with link-time optimization, for this processor and without assertions; and plain, as `cargo build
--release` and htsim's Makefile make them.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import numpy as np
from gate import built, checkout_of
from report import (
    ALL,
    BASE,
    BEFORE,
    CATNIP,
    HTSIM,
    HTSIM_PLAIN,
    NS2,
    NS3,
    PLAIN,
    RESULTS,
    SIMULATORS,
    Document,
    Failure,
    grouped,
    speed_table,
    write,
)

from catnip import _core

ROOT = Path(__file__).resolve().parent.parent
BENCHES = ROOT / "benches"
BUILD = ROOT / "build" / "benches"
OURS = ROOT / "target" / "release" / "examples" / "bench"
TUNED = BUILD / "profiled" / "release" / "examples" / "bench"

NAMES = {
    "tuned": CATNIP,
    "plain": PLAIN,
    "before": BEFORE,
    "htsim": HTSIM,
    "htsim-plain": HTSIM_PLAIN,
    "ns-2": NS2,
    "ns-3": NS3,
}
NS3_LIBRARIES = ("nix-vector-routing", "applications", "point-to-point", "internet", "network", "core")
NS2_SCHEDULER = "Splay"  # fastest of ns-2's five schedulers
LEAST_ROUNDS = 5
SHORT_FLOWS = 1000
TIMEOUT_S = 900


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
        simulators = prepare(options.only, options.htsim, options.before)
        cases = [case for case in all_cases() if not options.cases or case.name in options.cases]
        complete = not options.cases and simulators == list(ALL) and options.rounds >= LEAST_ROUNDS
        recorded = complete and is_clean()
        if complete and not recorded:
            progress("the tree has changes that are not committed: nothing will be written")
        document = measure(cases, simulators, options)
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(json.dumps(document, indent=2) if options.json else speed_table(document, ALL))
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
    """Parses the command line; `--quick` is replaced by `--only plain --rounds 1`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [case.name for case in all_cases()]
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS, help="default: %(default)s")
    parser.add_argument("--cases", nargs="+", metavar="CASE", choices=names, help=", ".join(names))
    parser.add_argument("--only", choices=NAMES, help="one simulator")
    parser.add_argument("--htsim", type=Path, metavar="DIR", help="checkout of htsim, which is measured, too")
    parser.add_argument("--before", metavar="COMMIT", help="commit of CATNIP that is measured, too")
    parser.add_argument("--quick", action="store_true", help="the same as --only plain --rounds 1")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout instead of a table")
    parser.add_argument("--redraw", action="store_true", help="only redo tables and plot from results.json")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    if options.htsim and not (options.htsim / "sim" / "tcp.h").exists():
        parser.error(f"--htsim: {options.htsim} is no checkout of csg-htsim")
    if options.only in ("htsim", "htsim-plain") and not options.htsim:
        parser.error(f"--only {options.only}: needs --htsim DIR")
    if options.only == "before" and not options.before:
        parser.error("--only before: needs --before COMMIT")
    if options.quick:
        options.only, options.rounds = "plain", 1
    return options


# Cases.


def all_cases() -> list[Case]:
    """Returns every case, in the order of the tables."""
    return [
        *(dumbbell(flows) for flows in (10, 100, 1_000, 10_000, 100_000)),
        *(
            Case(name, f"100 long flows, {title}", PER_HOP, ours("dumbbell.toml", title))
            for name, title in (
                ("cubic", "CUBIC over FQ-CoDel"),
                ("bbr", "BBR over FQ-CoDel"),
                ("cake", "CUBIC over CAKE"),
            )
        ),
        Case(
            "tree",
            "DiffServ tree, FQ-CoDel at every port",
            PER_HOP,
            ours("tree.toml", "FQ-CoDel"),
        ),
        Case(
            "flow",
            "flow of 36 packets at 5 % loss",
            PER_FLOW,
            ours("short.toml", "1000 flows")
            | htsim("short", f"--flows={SHORT_FLOWS}")
            | {
                NS2: ns2("short.tcl", "ready", SHORT_FLOWS, 1, NS2_SCHEDULER),
                NS3: ns3("short"),
            },
        ),
        Case(
            "flow-set-up",
            "the same with its set-up",
            PER_FLOW,
            ours("short.toml", "one flow", SHORT_FLOWS)
            | {
                NS2: ns2("short.tcl", "fresh", SHORT_FLOWS, 1, NS2_SCHEDULER),
                NS3: ns3("short"),
            },
        ),
        Case(
            "web",
            "100 Web clients, one run",
            PER_RUN,
            ours("../python/catnip/papers/catnip/scenarios/catnip-e4.toml", "Reno/DropTail")
            | {
                NS2: ns2("web.tcl", 1, NS2_SCHEDULER, "pooled"),
                NS3: ns3("web", f"--pages={ROOT / 'python/catnip/papers/catnip/reference/catnip_pages.csv'}"),
            },
        ),
    ]


def dumbbell(flows: int) -> Case:
    """Returns the case of `flows` long flows through one bottleneck, in the simulators that can take them."""
    commands = ours("dumbbell.toml", f"{flows} flows")
    if flows <= 10_000:
        commands |= htsim("dumbbell", f"--flows={flows}")
    if flows <= 1_000:
        commands[NS2] = ns2("dumbbell.tcl", flows, 30, 1, NS2_SCHEDULER)
        commands[NS3] = ns3("dumbbell", f"--flows={flows}")
    return Case(f"dumbbell-{flows}", f"{grouped(flows)} long flows", PER_HOP, commands)


def ours(file: str, variant: str, runs: int = 1) -> dict[str, Sequence[str]]:
    """Writes a variant of a scenario to a file of its own, and returns the commands that run it, by build.

    A file with all variants would add their memory to the measured memory.
    """
    path = (BENCHES / file).resolve()
    head, *variants = path.read_text().split("[[variant]]")
    (block,) = (text for text in variants if f'name = "{variant}"\n' in text)
    alone = f"{head}[[variant]]{block}"
    for up in ("../../", "../"):
        alone = alone.replace(f'"{up}', f'"{path.parents[up.count("/")]}/')
    copy = BUILD / f"{path.stem}-{variant.replace('/', '-').replace(' ', '-')}.toml"
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(alone)
    return {name: [str(program), str(copy), variant, str(runs)] for name, program in PROGRAMS.items()}


PROGRAMS = {CATNIP: TUNED, PLAIN: OURS, BEFORE: BUILD / "before"}
"""Builds of CATNIP."""


def ns2(program: str, *arguments: object) -> list[str]:
    """Returns the command that runs a Tcl program of benches/ns2 in ns-2."""
    return ["ns", str(BENCHES / "ns2" / program), *map(str, arguments)]


def htsim(program: str, *arguments: str) -> dict[str, Sequence[str]]:
    """Returns the commands that run a compiled program of benches/htsim, by build."""
    return {
        HTSIM: [str(BUILD / f"htsim-{program}-tuned"), *arguments],
        HTSIM_PLAIN: [str(BUILD / f"htsim-{program}"), *arguments],
    }


def ns3(program: str, *arguments: str) -> list[str]:
    """Returns the command that runs a compiled program of benches/ns3."""
    return [str(BUILD / f"ns3-{program}"), *arguments]


# Building.


def prepare(only: str | None, checkout: Path | None, before: str | None) -> list[str]:
    """Builds the requested simulators; returns those that are there.

    `checkout` is that of htsim, and `before` the commit of CATNIP that is measured as a simulator of its own.
    """
    wanted = [NAMES[only]] if only else list(ALL)
    is_there = {name: found() for name, found in PRESENT.items()}
    is_there |= {PLAIN: True, BEFORE: before is not None}
    is_there |= dict.fromkeys((HTSIM, HTSIM_PLAIN), checkout is not None)
    there = [name for name in wanted if is_there[name]]
    for name in wanted:
        if name not in there:
            progress(f"{name} is not there ({ORIGINS[name]}): measuring without it")
    if not there:
        raise Failure("nothing to measure")
    BUILD.mkdir(parents=True, exist_ok=True)
    if PLAIN in there:
        progress("building CATNIP")
        build(CARGO)
    if CATNIP in there:
        progress("building CATNIP with a profile")
        profile = BUILD / "bench.profdata"
        build(["tools/profile.sh", "bench", str(profile)])
        flags = {"RUSTFLAGS": f"-Cprofile-use={profile}", "CARGO_TARGET_DIR": str(BUILD / "profiled")}
        build(CARGO, flags)
    if BEFORE in there and before is not None:
        progress(f"building CATNIP of {before}")
        commit = output("git", "rev-parse", f"{before}^{{commit}}")
        source = checkout_of(commit)
        if source is None:
            raise Failure(f"--before: {before} is not in this clone's history")
        shutil.copy2(built(source), PROGRAMS[BEFORE])
    if checkout is not None:
        for name in (HTSIM, HTSIM_PLAIN):
            if name in there:
                progress(f"building {name}")
                build_htsim(checkout, name)
    if NS3 in there:
        for source in sorted((BENCHES / "ns3").glob("*.cc")):
            compile_ns3(source, Path(ns3(source.stem)[0]))
    return there


CARGO = ["cargo", "build", "--quiet", "--release", "-p", "catnip-lab", "--example", "bench"]
TUNING = ["-O3", "-DNDEBUG", "-march=native", "-flto", "-ffat-lto-objects"]
"""Flags of htsim's tuned build."""


def build_htsim(checkout: Path, name: str) -> None:
    """Builds htsim's library and our programs: plain by its Makefile, or tuned with `TUNING` in a copy."""
    library, flags = checkout / "sim", ["-O3"]
    if name == HTSIM:
        library, flags = BUILD / "htsim-tuned", TUNING
        shutil.rmtree(library, ignore_errors=True)
        shutil.copytree(checkout / "sim", library, ignore=shutil.ignore_patterns("*.o", "*.a"))
        build(["make", "-C", str(library), f"CFLAGS=-std=c++17 {' '.join(flags)}", "libhtsim.a"])
    else:
        build(["make", "-C", str(library), "libhtsim.a"])
    for program in sorted((BENCHES / "htsim").glob("*.cpp")):
        parts = [str(program), str(library / "libhtsim.a"), "-o", htsim(program.stem)[name][0]]
        build(["g++", "-std=c++17", *flags, f"-I{library}", *parts])


PACKAGES = {NS2: "ns2", NS3: "libns3-dev"}
BUILDS = {
    NS2: "Debian's build",
    NS3: "Debian's build: profile release with log statements, not ns-3's optimized one",
}
"""Origins of the measured ns-2 and ns-3, as text; Debian's sources specify their builds (`debian/rules`)."""
ORIGINS = {
    CATNIP: "rustup component add llvm-tools",
    HTSIM: "--htsim DIR",
    HTSIM_PLAIN: "--htsim DIR",
    BEFORE: "--before COMMIT",
    **{name: f"Debian package {package}" for name, package in PACKAGES.items()},
}
"""How to get what is not there."""
PRESENT: dict[str, Callable[[], bool]] = {
    CATNIP: lambda: bool(
        list(Path(output("rustc", "--print", "target-libdir")).parent.glob("bin/llvm-profdata"))
    ),
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


def build(command: list[str], variables: Mapping[str, str] | None = None) -> None:
    """Runs a build command at low priority; raises Failure with its error output."""
    environment = {**os.environ, **(variables or {})}
    done = subprocess.run(
        ["nice", "-n", "10", *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failure(f"{' '.join(command)}\n{done.stderr.strip()}")


# Measuring.


def measure(cases: list[Case], simulators: list[str], options: argparse.Namespace) -> Document:
    """Measures all cases in all simulators, round by round, and returns the content of results.json."""
    rounds = options.rounds
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
        "versions": versions(simulators, options),
        "cases": [
            summary(case, {name: taken[case.name, name] for c, name in jobs if c is case}) for case in cases
        ],
        "traffic": [traffic(case, taken) for case in cases if case.unit is PER_HOP and NS2 in case.commands],
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
    values to those of its `BASE` in the same round.
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
        if name != BASE[name] and BASE[name] in values:
            ratios = [other / own for other, own in zip(values[name], values[BASE[name]], strict=True)]
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
    for name in SIMULATORS:
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
        "cpu": f"{cpu[0]}{generation()}" if cpu else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory[0] / 2**20, 1) if memory else None,
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
    }


def generation() -> str:
    """Returns the processor's family and model in brackets: several generations have the same name."""
    told = dict(
        line.split("\t", 1) for line in read("/proc/cpuinfo") if line.startswith(("cpu family", "model\t"))
    )
    family, model = (told.get(key, "").strip("\t :") for key in ("cpu family", "model"))
    return f" (family {family}, model {model})" if family and model else ""


def versions(simulators: list[str], options: argparse.Namespace) -> Document:
    """Returns the versions of the simulators and the compilers."""
    result = {CATNIP: f"{_core.__version__} ({output('git', 'describe', '--always', '--dirty')})"}
    for name in simulators:
        if name == HTSIM_PLAIN:
            commit = output("git", "-C", str(options.htsim), "rev-parse", "--short", "HEAD")
            result[HTSIM] = f"{commit} (tuned: {' '.join(TUNING)}; plain: its Makefile's -O3 -g)"
        if name == BEFORE:
            result[name] = options.before
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


if __name__ == "__main__":
    sys.exit(main())
