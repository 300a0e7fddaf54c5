"""Tests of locks of folders with results: one writer at a time, whatever has ended and whatever is there."""

import multiprocessing
import os
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from catnip._core import InputError
from catnip.base.locks import LOCK, contents, only_writer, only_writer_of


def hold(folder: Path, is_held: Event, may_end: Event) -> None:
    with only_writer(folder):
        is_held.set()
        may_end.wait(timeout=30)


def test_a_second_process_is_refused_and_told_the_first_one_until_it_ends(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "results"
    spawn = multiprocessing.get_context("spawn")
    is_held, may_end = spawn.Event(), spawn.Event()
    first = spawn.Process(target=hold, args=(folder, is_held, may_end))
    first.start()
    assert is_held.wait(timeout=30)
    with (
        pytest.raises(InputError, match=rf"--out: .*results: process {first.pid} on .* writes there"),
        only_writer(folder),
    ):
        pass
    may_end.set()
    first.join()
    with only_writer(folder):
        assert contents(folder) == []
    assert list(folder.iterdir()) == []


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    is_held, may_end = spawn.Event(), spawn.Event()
    killed = spawn.Process(target=hold, args=(tmp_path, is_held, may_end))
    killed.start()
    assert is_held.wait(timeout=30)
    killed.kill()
    killed.join()
    assert (tmp_path / LOCK).exists()
    with only_writer(tmp_path):
        assert (tmp_path / LOCK).read_text().startswith(f"process {os.getpid()} on ")


def test_a_file_is_locked_beside_others_and_a_link_is_not_followed(tmp_path: Path) -> None:
    with (
        only_writer_of(tmp_path / "a.json", "--values"),
        only_writer_of(tmp_path / "b.json", "--values"),
        pytest.raises(InputError, match=r"--values: .*a\.json: process"),
        only_writer_of(tmp_path / "a.json", "--values"),
    ):
        pass
    target = tmp_path / "target"
    (tmp_path / LOCK).symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"), only_writer(tmp_path):
        pass
    assert not target.exists()


@pytest.mark.parametrize("text", [b"", b"\x1b]0;owned\x07", b"process 1 on \x1b[31m\n", b"process \xff\x00"])
def test_what_a_lock_says_is_printed_only_if_it_names_a_process(tmp_path: Path, text: bytes) -> None:
    with only_writer(tmp_path):
        (tmp_path / LOCK).write_bytes(text)
        with pytest.raises(InputError) as refused, only_writer(tmp_path):
            pass
        assert f"{tmp_path}: another process writes there" in str(refused.value)
