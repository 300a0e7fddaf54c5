"""Locks of folders with results: one process writes to a folder at a time, or several their shares."""

import fcntl
import os
import platform
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from catnip._core import InputError

LOCK = ".catnip-lock"
"""Name of the lock's file in a folder; `catnip-emu emulate --out` takes the same one."""

OF_SHARES = " (all shares)"
"""End of the text of a lock whose holder writes the tables of all shares: one that begins meanwhile waits."""
PATIENCE_S = 1.0
"""Time for which one of several writers tries to get a lock: the last one to end holds it alone, s."""


@contextmanager
def only_writer(folder: Path, option: str = "--out") -> Iterator[None]:
    """Creates a folder if needed, and holds its lock during the block.

    Raises InputError if another process holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _held(folder / LOCK, f"{option}: {folder}"):
        yield


@contextmanager
def one_of_several_writers(folder: Path, option: str = "--out") -> Iterator[None]:
    """Creates a folder if needed, and holds a share of its lock during the block.

    Raises InputError if another process holds the lock alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _held(folder / LOCK, f"{option}: {folder}", fcntl.LOCK_SH):
        yield


@contextmanager
def last_of_several_writers(folder: Path) -> Iterator[bool]:
    """Holds the lock of a folder during the block, if no other process does; yields true if one does.

    One of several writers that begins meanwhile waits for the end of the block.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(_held(folder / LOCK, f"{folder}", text=OF_SHARES))
        except InputError:
            yield True
            return
        yield False


@contextmanager
def only_writer_of(file: Path, option: str) -> Iterator[None]:
    """Holds the lock of a file, whose folder must exist, during the block.

    Raises InputError if another process holds the lock.
    """
    with _held(file.with_name(f"{LOCK}.{file.name}"), f"{option}: {file}"):
        yield


def contents(folder: Path) -> list[Path]:
    """Returns what a folder contains, without its lock."""
    return [file for file in folder.iterdir() if file.name != LOCK]


@contextmanager
def _held(lock: Path, of: str, kind: int = fcntl.LOCK_EX, text: str = "") -> Iterator[None]:
    """Holds a lock during the block, alone or as one of several: a file that names a process.

    Network file systems lock files, but not all of them folders.
    """
    end_s = time.monotonic() + (PATIENCE_S if kind == fcntl.LOCK_SH else 0.0)
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _holder(os.pread(descriptor, 1000, 0))
                if kind == fcntl.LOCK_SH and (holder.endswith(OF_SHARES) or time.monotonic() < end_s):
                    time.sleep(0.02)
                    continue
                raise InputError(f"{of}: {holder} writes there; wait for it, or choose another one") from None
            # A process that has ended meanwhile has removed the file.
            if not _is_linked(descriptor, lock):
                continue
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {platform.node()}{text}\n".encode(), 0)
            try:
                yield
            finally:
                # The file is removed while it is locked, so that no process locks a removed file. Of several
                # holders the last one removes it.
                with suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    lock.unlink(missing_ok=True)
            return
        finally:
            os.close(descriptor)


def _holder(signature: bytes) -> str:
    """Returns the process that a lock's file names, for an error message."""
    text = signature.decode(errors="replace").rstrip("\n")
    return text if text.startswith("process ") and text.isprintable() else "another process"


def _is_linked(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
