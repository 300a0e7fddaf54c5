"""Test in a browser that the heads of the table of points sort it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import Run
from plans import FILES

SWEEP = (
    FILES
    + """
[[axis]]
keys = ["link.line.delay", "link.line.queue"]
values = [["80ms", "red:8"], ["5ms", "drop-tail:8"], ["20ms", "pie:8"]]
"""
)
CLICKS = """
<script>
const told = [], buttons = document.querySelectorAll(".points button");
for (const column of [0, 0, 1, 2]) {
  buttons[column].click();
  const cells = [...document.querySelectorAll(".points tbody tr")].map(row => row.cells[0].textContent);
  const sorted = [...document.querySelectorAll(".points th")].map(head => head.getAttribute("aria-sort"));
  told.push(cells.join(" ") + ": " + sorted.join(" "));
}
document.title = told.join("; ");
</script>
"""


def test_a_click_sorts_by_numbers_and_a_second_one_in_the_other_direction(
    catnip: Run, tmp_path: Path
) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not installed")
    file, page = tmp_path / "sweep.toml", tmp_path / "page.html"
    file.write_text(SWEEP)
    assert catnip("run", file, "--report", page).code == 0
    page.write_text(page.read_text() + CLICKS)
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    shown = subprocess.run(
        [*words, "--dump-dom", f"file://{page}"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    titles = re.findall("<title>(.*?)</title>", shown)
    assert titles[0].split("; ") == [
        "5ms 20ms 80ms: ascending none none none",
        "80ms 20ms 5ms: descending none none none",
        "80ms 5ms 20ms: none ascending none none",
        "5ms 20ms 80ms: none none ascending none",
    ]
