#!/usr/bin/env python3
"""Runs Rust tests, each in a process of its own, and records their durations.

    tools/rust_tests.py --layer unit [CARGO ARGUMENTS…]

The programs to run are those of `cargo test CARGO ARGUMENTS`. Each core runs one test at a time. Tests of a
program whose name ends in `alone` run one by one, after all other tests. The output of failed tests is shown.
build/durations/ gets a line per test (tools/durations.py).
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

sys.path.insert(0, str(Path(__file__).parent))
import durations

TIMEOUT_S = 900
"""Time after which a test counts as hung, and thus as failed."""


@dataclass(frozen=True)
class Test:
    """Test function of a Rust test program."""

    program: Path
    package: Path
    target: str
    name: str

    @property
    def shown(self) -> str:
        """Name under which the test is reported: crate, test program, path of the function."""
        crate = self.package.name
        return (
            f"{crate}::{self.name}"
            if self.target.startswith(f"catnip_{crate}")
            else f"{crate}/{self.target}::{self.name}"
        )


@dataclass(frozen=True)
class Outcome:
    """Result of one test."""

    test: Test
    passed: bool
    output: str
    cpu_s: float
    wall_s: float


def main() -> int:
    """Builds and runs the tests, and reports their results; returns 1 if a test fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layer", required=True, help="name of the file in build/durations/")
    parser.add_argument("--only", choices=["together", "alone"], help="which programs; both by default")
    arguments, cargo = parser.parse_known_args()
    chosen = [one for one in programs(cargo) if arguments.only in {None, _when(one[2])}]
    tests = [test for program in chosen for test in listed(*program)]
    kind = "rust-alone" if arguments.only == "alone" else "rust"
    known = durations.read(arguments.layer, kind)
    # The longest tests come first, so that all cores finish at about the same time.
    tests.sort(key=lambda test: -known.get(test.shown, 0))
    failed = []
    with durations.Writer(arguments.layer, kind) as writer:
        for outcome in run_all(tests):
            writer.add(outcome.test.shown, outcome.cpu_s, outcome.wall_s)
            if not outcome.passed:
                failed.append(outcome.test.shown)
                print(f"---- {outcome.test.shown}\n{outcome.output}", flush=True)
    print(f"Rust, {arguments.layer}: {len(tests) - len(failed)} passed, {len(failed)} failed")
    for name in failed:
        print(f"  failed: {name}")
    return int(bool(failed))


def programs(cargo: list[str]) -> list[tuple[Path, Path, str]]:
    """Builds the test programs; returns path, folder of the package, and name of the target of each."""
    command = ["cargo", "test", "--no-run", "--message-format=json-render-diagnostics", *cargo]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        sys.exit(built.returncode)
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    return [
        (Path(message["executable"]), Path(message["manifest_path"]).parent, message["target"]["name"])
        for message in messages
        if message["reason"] == "compiler-artifact" and message["executable"] and message["profile"]["test"]
    ]


def listed(program: Path, package: Path, target: str) -> Iterator[Test]:
    """Yields the tests of a test program, as it lists them."""
    listing = subprocess.run(
        [program, "--list", "--format=terse"], cwd=package, capture_output=True, text=True, check=True
    )
    for line in listing.stdout.splitlines():
        if line.endswith(": test"):
            yield Test(program, package, target, line.removesuffix(": test"))


def run_all(tests: list[Test]) -> Iterator[Outcome]:
    """Yields the outcomes as tests end: first of tests that share the cores, then of tests that run alone."""
    alone = [test for test in tests if _when(test.target) == "alone"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for future in as_completed([pool.submit(run, test) for test in tests if test not in alone]):
            yield future.result()
    yield from map(run, alone)


def _when(target: str) -> str:
    return "alone" if target.endswith("alone") else "together"


def run(test: Test) -> Outcome:
    """Runs one test in a process of its own, for at most `TIMEOUT_S`."""
    began = time.monotonic()
    # The output goes to a file, because a process that outlives its test would keep a pipe open.
    with TemporaryFile() as output:
        process = subprocess.Popen(
            [test.program, "--exact", test.name, "--test-threads=1"],
            cwd=test.package,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        limit = threading.Timer(TIMEOUT_S, process.kill)
        limit.start()
        _, status, used = os.wait4(process.pid, 0)
        limit.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - began
        output.seek(0)
        shown = output.read().decode(errors="replace")
        if wall_s > TIMEOUT_S:
            shown += f"\nstopped after {TIMEOUT_S} s"
    return Outcome(test, process.returncode == 0, shown, used.ru_utime + used.ru_stime, wall_s)


if __name__ == "__main__":
    sys.exit(main())
