"""Execution of commands while servers run in this process, with signals forwarded to the command."""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
OF_TERMINAL = {signal.SIGINT, signal.SIGQUIT}
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


async def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdout: int | IO[str] | None = None,
    stderr: int | None = None,
) -> tuple[int, bytes, bytes]:
    """Runs a command and forwards to it every signal that would end this process.

    If this process is killed, the command receives SIGTERM: its servers are gone.
    Returns its exit code as a shell does (128 + N after signal N), and the output of `stdout` and `stderr` if
    these are pipes.
    """
    # Our own buffered output must precede the output of the command.
    sys.stdout.flush()
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, **environment},
        stdout=stdout,
        stderr=stderr,
        preexec_fn=_end_with_parent,
    )

    def pass_on(number: signal.Signals) -> None:
        # A terminal signals all processes in the foreground, so the command has already received the signal.
        if process.returncode is None and not (number in OF_TERMINAL and _is_in_front()):
            process.send_signal(number)

    with _handling_signals(pass_on):
        out, err = await process.communicate()
    code = process.returncode or 0
    return (code if code >= 0 else 128 - code), out or b"", err or b""


async def interrupted() -> None:
    """Waits until this process receives a signal that would end it."""
    ended = asyncio.Event()
    with _handling_signals(lambda _: ended.set()):
        await ended.wait()


def _end_with_parent() -> None:
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def _handling_signals(handler: Callable[[signal.Signals], object]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    ours = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    for number in ours:
        loop.add_signal_handler(number, handler, number)
    try:
        yield
    finally:
        for number in ours:
            loop.remove_signal_handler(number)


def _is_in_front() -> bool:
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


class Ended(Exception):
    """Raised if a signal ended a command, so that the calling command ends, too; `code` is its exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
