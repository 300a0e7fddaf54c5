"""Paths of the emulator and the agent, and checks that this machine can run them."""

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
"""Name under which the emulator and the agent are started, so that their help and errors show it."""
BUILT_BY = {
    PROGRAM: "`make build` builds it",
    AGENT: "`make build` builds it if clang, libelf-dev and zlib1g-dev are installed",
}


def program(name: str = PROGRAM) -> Path:
    """Returns the path of the emulator or the agent.

    $CATNIP_EMU or $CATNIP_AGENT has precedence; next come the folder of the Python interpreter, the wheel,
    the checkout and PATH.
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
    raise InputError(f"{name}: not found; {BUILT_BY[name]}, or set {variable} to its path")


def _installed(name: str) -> Path | None:
    """Returns the path of a program that was installed with the wheel of this package, if any."""
    try:
        files = metadata.files(DISTRIBUTION) or ()
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name == name), None)


def cannot_emulate() -> str | None:
    """Returns the reason why this machine cannot run the link emulator; None if it can."""
    try:
        program()
    except InputError as error:
        return str(error)
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun: no access to TUN devices"
    return None


def cannot_control() -> str | None:
    """Returns the reason why the congestion control behind an emulated link cannot be set; None if it can."""
    if missing := cannot_emulate():
        return missing
    if os.geteuid() != 0:
        return "not root: only root can select the congestion control of a kernel"
    return None


def cannot_mark() -> str | None:
    """Returns the reason why the marking agent cannot run on this machine; None if it can."""
    try:
        agent = program(AGENT)
    except InputError as error:
        return str(error)
    checked = subprocess.run([agent, "check", "--json"], capture_output=True, text=True, check=False)
    missing = [finding for finding in json.loads(checked.stdout) if not finding["ok"]]
    return "; ".join(f"{finding['what']}: {finding['found']}" for finding in missing) or None
