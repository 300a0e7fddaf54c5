#!/usr/bin/env python3
"""Full-length reproduction of the papers, which rewrites validation/ and docs/figures/.

    tools/validate.py [--budget 2h] [--seed N] [PAPER...]

Each paper keeps its finished steps in build/validate/PAPER, and a call goes on where an earlier one ended.
With a budget, no experiment is begun after that time; what is finished is written.
"""

import argparse
import math
import subprocess
import sys
import time
from pathlib import Path

from catnip.cli.options import CLAIM_FAILED, TIME_OVER
from catnip.cli.papers import seconds
from catnip.papers.runner import PAPERS

ROOT = Path(__file__).resolve().parent.parent
FIRST_SEED = 1001
"""First seed of the published results. Seeds from 3001 on belong to readers."""


def main() -> int:
    """Reproduces the papers; returns an exit code that is not that of a claim."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", type=seconds, default=math.inf, metavar="TIME", help="such as 2h")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="first seed (default: %(default)s)")
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=f"of {', '.join(PAPERS)} (default: all)")
    arguments = parser.parse_args()
    for paper in arguments.papers:
        if paper not in PAPERS:
            parser.error(f"{paper} is not one of {', '.join(PAPERS)}")
    began_s = time.monotonic()
    for paper in arguments.papers or PAPERS:
        left_s = arguments.budget - (time.monotonic() - began_s)
        if left_s <= 0:
            print(f"left, as the time was over: {paper} and what follows")
            return TIME_OVER
        budget = [] if left_s == math.inf else [f"--budget={left_s:.0f}s"]
        kinds = {"values": "json", "table": "md", "report": "html"}
        written = [f"--{option}=validation/{paper}.{kind}" for option, kind in kinds.items()]
        options = [f"--seed={arguments.seed}", f"--out=build/validate/{paper}", "--figures=docs/figures"]
        command = ["reproduce", paper, *options, *written, *budget]
        print(f"catnip {' '.join(command)}", flush=True)
        done = subprocess.run([sys.executable, "-m", "catnip", *command], cwd=ROOT, check=False)
        if done.returncode not in {0, CLAIM_FAILED}:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
