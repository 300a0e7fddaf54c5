"""Tests of what a run does where threads or memory are few: it takes longer, or says so in a line."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PIDS = Path("/sys/fs/cgroup/pids")
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not (PIDS / "cgroup.procs").exists(),
    reason="a limit on threads needs root and control groups with pids",
)


@pytest.fixture
def group() -> Iterator[Path]:
    """Returns a control group for processes with few threads."""
    folder = PIDS / f"catnip-test-{os.getpid()}"
    folder.mkdir()
    yield folder
    folder.rmdir()


def limited(group: Path, threads: int, *arguments: object) -> "subprocess.CompletedProcess[str]":
    (group / "pids.max").write_text(str(threads))
    return subprocess.run(
        [sys.executable, "-m", "catnip", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())) and None,
    )


def test_a_run_with_fewer_threads_than_it_asks_for_has_the_same_results(group: Path, tmp_path: Path) -> None:
    run = ["run", "catnip-e2", "--seeds", 20, "--threads", 8, "--json"]
    whole = limited(group, 1000, *run)
    few = limited(group, 5, *run)
    assert (few.returncode, few.stdout) == (whole.returncode, whole.stdout) == (0, whole.stdout), few.stderr
    stored = limited(group, 8, *run, "--out", tmp_path / "out")
    assert (stored.returncode, stored.stdout) == (0, whole.stdout), stored.stderr


def test_a_run_without_any_thread_is_one_line(group: Path, tmp_path: Path) -> None:
    for number, out in enumerate([[], ["--out", tmp_path / "out"]]):
        ended = limited(group, 1, "run", "catnip-e2", "--seeds", 2, *out)
        # The allocator of pyarrow has a line of its own.
        lines = [line for line in ended.stderr.splitlines() if not line.startswith("<jemalloc>")]
        assert (ended.returncode, ended.stdout, len(lines)) == (2, "", 1), (number, ended.stderr)
        assert lines[0].startswith("error: ") and "thread" in lines[0]
