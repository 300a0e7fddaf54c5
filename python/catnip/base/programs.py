"""Locations of the emulator and the agent, and what this machine lacks for them."""

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from catnip._core import InputError
from catnip.base import paths
from catnip.base.extras import DISTRIBUTION

PROGRAM = "catnip-emu"
AGENT = "catnip-agent"
CALLED = "catnip"
"""The name under which it is started, so that its help and its errors say it."""
MADE_BY = {
    PROGRAM: "`make build` makes it",
    AGENT: "`make build` makes it where clang, libelf-dev and zlib1g-dev are installed",
}


def program(name: str = PROGRAM) -> Path:
    """The emulator, or the agent.

    That which $CATNIP_EMU or $CATNIP_AGENT names, else beside Python, of the wheel, of the checkout, on PATH.
    """
    variable = name.upper().replace("-", "_")
    if named := os.environ.get(variable):
        if not os.access(named, os.X_OK):
            raise InputError(f"{variable}: {named} is not a program")
        return Path(named)
    beside = Path(sys.executable).parent / name
    root = paths.checkout()
    built = root and root / "target" / "release" / name
    for candidate in (beside, _installed(name), built, shutil.which(name)):
        if candidate is not None and os.access(candidate, os.X_OK):
            return Path(candidate)
    raise InputError(f"{name}: not found; {MADE_BY[name]}, {variable} names it")


def _installed(name: str) -> Path | None:
    """Where the wheel of this package has put it."""
    try:
        files = metadata.files(DISTRIBUTION) or ()
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name == name), None)


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


def cannot_mark() -> str | None:
    """Why no agent can run on this machine; None if one can."""
    try:
        agent = program(AGENT)
    except InputError as error:
        return str(error)
    checked = subprocess.run([agent, "check", "--json"], capture_output=True, text=True, check=False)
    missing = [finding for finding in json.loads(checked.stdout) if not finding["ok"]]
    return "; ".join(f"{finding['what']}: {finding['found']}" for finding in missing) or None
