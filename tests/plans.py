"""Beginning of small scenarios, and what tests of plans and of stored results look at."""

import json
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

LINE = """
[node]
server = { kind = "host" }
client = { kind = "host" }
[link.line]
from = "server"
to = "client"
"""
"""Two hosts at a line, whose keys follow."""
FILES = (
    """
id = "X-9"
title = "Files over a line"
seeds = 2
"""
    + LINE
    + """
rate = "1Mbit"
delay = "5ms"
queue = "drop-tail:8"
[traffic.file]
kind = "bulk"
from = "server"
to = "client"
bytes = "32KB"
"""
)
"""Scenario of a small file, whose axes follow."""


def tables_of(folder: Path) -> dict[str, bytes]:
    """Returns the contents of the tables of a folder of results, by the name of the file."""
    return {file.name: file.read_bytes() for file in folder.glob("*.parquet")}


def points_in(folder: Path) -> dict[str, list[str]]:
    """Returns the points of each stored part of a folder of results, by the name of the file."""
    return {
        file.name: json.loads(zipfile.ZipFile(file).read("part.json"))["points"]
        for file in (folder / "points").glob("*.zip")
    }


def eventually(holds: Callable[[], bool]) -> bool:
    """Returns true as soon as a condition holds, and false if it does not within two minutes."""
    end_s = time.monotonic() + 120
    while not holds():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.02)
    return True
