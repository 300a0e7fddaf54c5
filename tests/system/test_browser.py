"""Tests of the example with a real browser, which loads pages over DropTail and CATNIP-Good links."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "browser" / "load_pages.py"


def missing() -> str | None:
    """Returns the reason why the browser example cannot run here; None if it can."""
    for name in ("chromium", "nginx"):
        if not (shutil.which(name) or Path(f"/usr/sbin/{name}").is_file()):
            return f"{name} is not installed"
    beside = Path(sys.executable).parent / "catnip-emu"
    built = ROOT / "target" / "release" / "catnip-emu"
    candidates = (os.environ.get("CATNIP_EMU"), beside, built, shutil.which("catnip-emu"))
    emulator = next((path for path in candidates if path and os.access(path, os.X_OK)), None)
    if emulator is None:
        return "catnip-emu is not built"
    # The large tolerance makes the check independent of the speed of this machine.
    link = [emulator, "link", "-q", "--tolerance", "60s", "--", "true"]
    tried = subprocess.run(link, capture_output=True, text=True, check=False)
    if tried.returncode:
        return tried.stderr.strip()
    return None


REASON = missing()


@pytest.mark.skipif(REASON is not None, reason=f"no browser behind a link: {REASON}")
def test_a_browser_loads_pages_through_both_links(tmp_path: Path) -> None:
    file = tmp_path / "loads.json"
    command = [
        sys.executable,
        str(SCRIPT),
        "--pages",
        "1,3",
        "--repeat",
        "1",
        "--clients",
        "2",
        # The large tolerance makes the test independent of the speed of this machine.
        "--tolerance",
        "60s",
        "--json",
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "certificates: 2 green, 0 red" in done.stdout
    links = json.loads(file.read_text())["links"]
    assert [link["queue"] for link in links] == ["DropTail", "CATNIP-Good"]
    for link in links:
        assert link["certificate"]["verdict"] == "green"
        assert {load["page"] for load in link["loads"]} == {1, 3}
        for load in link["loads"]:
            # The connection, HTML and images take a round trip of 50 ms each.
            assert 0.15 < load["seconds"] < 20
            assert 0.1 < load["html_seconds"] < load["seconds"]


def test_the_example_says_what_is_wrong_with_its_options() -> None:
    command = [sys.executable, str(SCRIPT), "--pages", "11"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --pages: '11', expected")


# Page 1 has HTML of 2589 bytes with two images.
SIMULATED = """
id = "B"
title = "a real browser, simulated servers"
duration = "60s"
[node]
server = {{ kind = "host" }}
user = {{ kind = "host", ends_run = true, command = ["sh", "-c", '''{load}'''] }}
[link.way]
from = "server"
to = "user"
rate = "5Mbit"
delay = "30ms"
queue = "drop-tail:100"
[tcp]
profile = "rfc"
[traffic.web]
kind = "web"
clients = "user"
servers = "server"
http = "1.1"
think = "constant:value=1s"
pages = "{pages}"
"""


@pytest.mark.skipif(REASON is not None, reason=f"no browser behind a link: {REASON}")
def test_a_browser_renders_a_simulated_page_with_all_that_it_names(tmp_path: Path) -> None:
    pages = tmp_path / "pages.csv"
    pages.write_text("page,object_index,kind,bytes\n1,0,html,2589\n1,1,image,548\n1,2,image,1808\n")
    browser = f"{sys.executable} -P -m catnip.web.chromium http://$CATNIP_SERVER/1/0?from=a-test"
    file = tmp_path / "browser.toml"
    file.write_text(SIMULATED.format(load=browser, pages=pages))
    emulate = [sys.executable, "-m", "catnip", "emulate", str(file), "--tolerance", "60s"]
    done = subprocess.run(
        [*emulate, "--out", str(tmp_path / "out")], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # The browser reports the page and its images to the byte, after two round trips.
    [load] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert (load["objects"], load["bytes"]) == (3, 2589 + 548 + 1808), done.stdout
    assert load["seconds"] > load["html_seconds"] > 2 * 0.06
