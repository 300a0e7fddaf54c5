#!/usr/bin/env python3
"""Finds leftovers of tests: network namespaces, processes, temporary folders.

tools/leftovers.py           prints a line for each leftover that exists now
tools/leftovers.py FILE      prints the leftovers that FILE does not list; exits with 1 if any remain
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
    *("slirp4netns", "pasta", "passt", "munged", "slurmctld", "slurmd", "slurmstepd"),
}
TIMEOUT_S = 10.0
"""Waiting time for processes of the tests that are still ending, s."""


def main() -> int:
    """Prints the leftovers, or only the leftovers that a file does not list."""
    if len(sys.argv) < 2:
        print("\n".join(found()))
        return 0
    before = set(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())
    until = time.monotonic() + TIMEOUT_S
    while (left := [line for line in found() if line not in before]) and time.monotonic() < until:
        time.sleep(0.5)
    for line in left:
        print(f"left behind: {line}")
    return int(bool(left))


def found() -> list[str]:
    """Returns one line for each leftover; the line stays the same as long as the leftover exists."""
    return sorted({*processes(), *namespaces(), *folders()})


def processes() -> Iterator[str]:
    """Yields a line for each process of our programs and of programs that tests start, except zombies."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "comm").read_text().strip()
            # The format is "pid (name) state ppid …", with the start time as field 22.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if name in PROGRAMS and fields[0] != "Z":
            yield f"process {folder.name} since {fields[19]}: {command[:120]}"


def namespaces() -> Iterator[str]:
    """Yields a line for each network namespace that has a name or is held by a process."""
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
    """Yields a line for each folder of ours in the directories for temporary files.

    pytest removes its own folders. /run/catnip-agent does not count: an agent that ends with its network
    namespace leaves its records there, on purpose.
    """
    for place in {Path(tempfile.gettempdir()), Path("/var/tmp")}:
        try:
            entries = list(place.glob("*catnip*"))
        except OSError:
            continue
        yield from (f"folder {entry}" for entry in entries)


if __name__ == "__main__":
    sys.exit(main())
