"""The engine in WebAssembly beside the engine of this machine."""

import os
import shutil
import subprocess
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


@needs_page
def test_every_scenario_has_the_same_fingerprints_in_webassembly() -> None:
    stored = STORED.read_text(encoding="utf-8").splitlines()
    # Many variants are many runs: those with most begin first.
    names = sorted(
        {line.split()[1] for line in stored}, key=lambda name: -sum(name in line for line in stored)
    )
    paths = {path.name: path for path in PACKAGE.rglob("scenarios/*.toml")}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        printed = list(pool.map(lambda name: fingerprints(paths[name]), names))
    assert sorted(line for lines in printed for line in lines) == sorted(stored)


def fingerprints(scenario: Path) -> list[str]:
    command = ["node", str(SCRIPT), str(MODULE), str(PACKAGE), str(scenario)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()
