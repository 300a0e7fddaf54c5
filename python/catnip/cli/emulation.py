"""The emulator's commands: a program of its own does the work, because it needs privileges and real time."""

import os
import shutil
import sys
from importlib import metadata
from pathlib import Path

import click

from catnip import paths
from catnip._core import InputError
from catnip.extras import DISTRIBUTION

PROGRAM = "catnip-emu"
CALLED = "catnip"
"""The name under which it is started, so that its help and its errors say it."""


def program() -> Path:
    """The emulator: $CATNIP_EMU, else beside Python, of the wheel, of the checkout, or on the PATH."""
    if named := os.environ.get("CATNIP_EMU"):
        if not os.access(named, os.X_OK):
            raise InputError(f"CATNIP_EMU: {named} is not a program")
        return Path(named)
    beside = Path(sys.executable).parent / PROGRAM
    root = paths.checkout()
    built = root and root / "target" / "release" / PROGRAM
    for candidate in (beside, _installed(), built, shutil.which(PROGRAM)):
        if candidate is not None and os.access(candidate, os.X_OK):
            return Path(candidate)
    raise InputError(f"{PROGRAM}: not found; `make build` makes it, CATNIP_EMU names it")


def _installed() -> Path | None:
    """Where the wheel of this package has put it."""
    try:
        files = metadata.files(DISTRIBUTION) or ()
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name == PROGRAM), None)


def cannot_emulate() -> str | None:
    """Why there is no emulated link on this machine; None if there can be one."""
    try:
        program()
    except InputError as error:
        return str(error)
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun: no access to TUN devices"
    return None


def cannot_control() -> str | None:
    """Why no kernel behind an emulated link can be told how to control congestion; None if it can."""
    if missing := cannot_emulate():
        return missing
    if os.geteuid() != 0:
        return "not root, who alone may choose how a kernel controls congestion"
    return None


def _hands_over(name: str, summary: str) -> click.Command:
    """A command that becomes the emulator, which has the terminal, the signals and the exit code."""

    @click.command(
        name,
        help=summary,
        short_help=summary,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        emulator = program()
        sys.stdout.flush()
        os.execv(emulator, [CALLED, name, *arguments])

    return command


link = _hands_over("link", "Run a command behind one emulated link.")
router = _hands_over("router", "Shape what passes between two network interfaces.")
