"""The engine in WebAssembly beside the engine of this machine."""

import os
import shutil
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "page"
MODULE, SCRIPT = BUILT / "catnip_page.wasm", BUILT / "fingerprints.mjs"
PACKAGE = ROOT / "python" / "catnip"
STORED = ROOT / "crates" / "lab" / "tests" / "fingerprints.txt"

needs_page = pytest.mark.skipif(
    shutil.which("node") is None or not MODULE.exists() or not SCRIPT.exists(),
    reason="the page with the simulator is not built (make page)",
)


EVERY_VARIANT = "CATNIP_EVERY_VARIANT"
"""Variable of the environment with which all variants are run: three minutes of a core."""
STEP = 1 if os.environ.get(EVERY_VARIANT) else 5


@needs_page
def test_every_scenario_has_the_same_fingerprints_in_webassembly() -> None:
    stored = STORED.read_text(encoding="utf-8").splitlines()
    of = {path.name: path for path in PACKAGE.rglob("scenarios/*.toml")}
    counts = Counter(line.split()[1] for line in stored)
    # Many variants are many runs: those with most begin first.
    names = [name for name, _ in counts.most_common()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        printed = list(pool.map(lambda name: fingerprints(of[name]), names))
    assert [len(lines) for lines in printed] == [-(-counts[name] // STEP) for name in names]
    assert {line for lines in printed for line in lines} <= set(stored)


def fingerprints(scenario: Path) -> list[str]:
    """Returns the lines of every `STEP`th variant of a scenario, beginning with the first."""
    command = ["node", str(SCRIPT), str(MODULE), str(PACKAGE), str(STEP), str(scenario)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()
