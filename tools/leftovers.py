#!/usr/bin/env python3
"""Finds what tests have left behind: network namespaces, processes, temporary folders.

tools/leftovers.py           prints a line for each that is there now
tools/leftovers.py FILE      prints those that are not in FILE; 1 if there are any after some seconds
"""

import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = {
    *("catnip-emu", "catnip-agent", "nginx", "chromium", "tcpdump", "tshark", "dumpcap", "dnsmasq"),
    *("slirp4netns", "pasta", "passt"),
}
PATIENCE_S = 10.0
"""Time in which processes that were told to end may still do so."""


def main() -> int:
    """Prints, or compares."""
    if len(sys.argv) < 2:
        print("\n".join(found()))
        return 0
    before = set(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())
    until = time.monotonic() + PATIENCE_S
    while (left := [line for line in found() if line not in before]) and time.monotonic() < until:
        time.sleep(0.5)
    for line in left:
        print(f"left behind: {line}")
    return int(bool(left))


def found() -> list[str]:
    """One line for each thing, the same line as long as it is the same thing."""
    return sorted({*processes(), *namespaces(), *folders()})


def processes() -> Iterator[str]:
    """Processes of our programs and of those that tests start; a zombie has ended."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "comm").read_text().strip()
            # "pid (name) state ppid …", and the time of its start as field 22.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if name in PROGRAMS and fields[0] != "Z":
            yield f"process {folder.name} since {fields[19]}: {command[:120]}"


def namespaces() -> Iterator[str]:
    """Network namespaces that have a name, and those that only processes hold."""
    named = Path("/run/netns")
    if named.is_dir():
        yield from (f"network namespace {entry.name}" for entry in named.iterdir())
    held = set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            held.add(re.sub(r"\D", "", os.readlink(link)))
        except OSError:
            continue
    yield from (f"network namespace with number {number}" for number in held)


def folders() -> Iterator[str]:
    """Folders of ours among those for temporary files; pytest clears up its own.

    Not /run/catnip-agent: an agent that ends with its network namespace leaves its notes there, on purpose.
    """
    for place in {Path(tempfile.gettempdir()), Path("/var/tmp")}:
        try:
            entries = list(place.glob("*catnip*"))
        except OSError:
            continue
        yield from (f"folder {entry}" for entry in entries)


if __name__ == "__main__":
    sys.exit(main())
