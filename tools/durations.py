#!/usr/bin/env python3
"""Durations of tests: files in build/durations/ with a line per test: CPU s, wall s, name.

tools/durations.py [COUNT]     prints the tests with the most CPU time, and the sum of each file
"""

import sys
from pathlib import Path
from typing import Self

FOLDER = Path(__file__).resolve().parent.parent / "build" / "durations"


class Writer:
    """Writer of the durations of a layer's tests of a kind, `rust` or `python`; replaces the last run's."""

    def __init__(self, layer: str, kind: str) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        self._file = (FOLDER / f"{layer}-{kind}.tsv").open("w", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, name: str, cpu_s: float, wall_s: float) -> None:
        """Writes the line of a test immediately, so that it is kept if the run is stopped."""
        self._file.write(f"{cpu_s:.3f}\t{wall_s:.3f}\t{name}\n")
        self._file.flush()


def read(layer: str, kind: str) -> dict[str, float]:
    """Returns the CPU seconds of each test in the last run of a layer; empty if there was no run."""
    file = FOLDER / f"{layer}-{kind}.tsv"
    return {name: cpu_s for cpu_s, _, name in _lines(file)} if file.exists() else {}


def main() -> int:
    """Prints the tests with the most CPU time, and the sums of each layer."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    files = sorted(FOLDER.glob("*.tsv"))
    if not files:
        print(f"no durations yet: a run of `make test` writes them to {FOLDER.name}/")
        return 0
    rows = [(cpu_s, wall_s, file.stem, name) for file in files for cpu_s, wall_s, name in _lines(file)]
    print("   CPU s   wall s  layer-kind            test")
    for cpu_s, wall_s, stem, name in sorted(rows, reverse=True)[:count]:
        print(f"{cpu_s:8.2f} {wall_s:8.2f}  {stem:20}  {name}")
    print()
    for file in files:
        of = [row[:2] for row in rows if row[2] == file.stem]
        cpu_s, wall_s = map(sum, zip(*of, strict=True))
        print(f"{cpu_s:8.1f} {wall_s:8.1f}  {file.stem:20}  {len(of)} tests together")
    return 0


def _lines(file: Path) -> list[tuple[float, float, str]]:
    parts = (line.split("\t", 2) for line in file.read_text(encoding="utf-8").splitlines())
    return [(float(cpu_s), float(wall_s), name) for cpu_s, wall_s, name in parts]


if __name__ == "__main__":
    sys.exit(main())
