"""Measures long transfers through today's queues with ns-3, whose dumbbell.cc is beside this file.

    python3 validation/ns3/dumbbell.py [SEEDS]

Into python/catnip/reference/ns3 it writes dumbbell.csv, a row for each case and seed. Debian's packages
libns3-dev and g++ must be installed.
"""

import csv
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = HERE.parents[1] / "python" / "catnip" / "reference" / "ns3" / "dumbbell.csv"
LIBRARIES = ("applications", "traffic-control", "point-to-point", "internet", "network", "core")
CASES = (
    ("codel", "reno"),
    ("codel", "linux-reno"),
    ("fq-codel", "reno"),
    ("fq-codel", "linux-reno"),
    ("pie", "reno"),
    ("pie", "linux-reno"),
    ("red-step", "dctcp"),
    ("codel", "rfc6675"),
    ("fq-codel", "rfc6675"),
    ("pie", "rfc6675"),
    ("red-step", "dctcp-once"),
)
COLUMNS = ("goodput_mbps", "sojourn_ms", "dropped_pct", "marked_pct")
SEEDS, PARALLEL = 10, 2


def main() -> None:
    """Compiles, runs all, writes the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "dumbbell"
        libraries = [f"-lns3-{name}" for name in LIBRARIES]
        source = str(HERE / "dumbbell.cc")
        subprocess.run(["g++", "-O2", "-std=c++17", source, "-o", str(program), *libraries], check=True)

        def measure(job: tuple[tuple[str, str], int]) -> list[str]:
            (queue, tcp), seed = job
            options = [f"--queue={queue}", f"--tcp={tcp}", f"--seed={seed}"]
            ended = subprocess.run([str(program), *options], capture_output=True, text=True, check=True)
            return [queue, tcp, str(seed), *ended.stdout.split()]

        with ThreadPoolExecutor(PARALLEL) as pool:
            rows = list(pool.map(measure, product(CASES, range(1, count + 1))))
    TABLE.parent.mkdir(exist_ok=True)
    with TABLE.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(["queue", "tcp", "seed", *COLUMNS])
        writer.writerows(rows)


if __name__ == "__main__":
    main()
