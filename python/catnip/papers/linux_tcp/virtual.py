"""Kernel in virtual time that measures transfers: a guest that counts instructions instead of time.

The load of this machine reaches nothing in such a guest. tools/transfers_vm.sh boots it.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catnip._core import InputError
from catnip.base import paths
from catnip.base.programs import program
from catnip.base.verbosity import note
from catnip.papers.linux_tcp import behind_link

GUESTS = 2
"""Number of concurrent guests: each keeps a core busy."""
TARGET = "virtual-kernel"
"""Name of what a guest needs in tools/need.sh."""


@dataclass(frozen=True)
class Guest:
    """Kernel in virtual time; `tools` is the folder of the scripts that boot it."""

    tools: Path
    release: str

    def transfers(
        self, jobs: Sequence[tuple[Mapping[str, str], Sequence[str]]]
    ) -> list[tuple[Mapping[str, Any], dict[str, Any]]]:
        """Boots a guest that measures transfers one after the other, as `behind_link.transfer` does.

        A job has the options of the link and the arguments of the sender. Raises InputError.
        """
        with tempfile.TemporaryDirectory(prefix="catnip-guest-") as folder:
            (Path(folder) / "jobs.json").write_text(json.dumps([[dict(one), list(of)] for one, of in jobs]))
            scripts = [behind_link.__file__, behind_link.SENDER]
            _run([str(self.tools / "transfers_vm.sh"), folder, str(program()), *scripts])
            done = [json.loads((Path(folder) / f"{at}.json").read_text()) for at in range(len(jobs))]
        if others := {one["release"] for one in done} - {self.release}:
            raise InputError(f"--kernel virtual: Linux {others.pop()} has measured, not {self.release}")
        return [(one["certificate"], one["output"]) for one in done]


def prepared() -> Guest:
    """Returns the kernel in virtual time, which is downloaded once; root also installs what boots it.

    Raises InputError if it cannot be had.
    """
    root = paths.checkout()
    if root is None:
        raise InputError("--kernel virtual: needs a checkout of CATNIP, whose tools boot the kernel")
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise InputError(f"--kernel virtual: boots on x86_64 only, this machine is {platform.machine()}")
    program()
    tools = root / "tools"
    _run([str(tools / "need.sh"), TARGET])
    release = _run([str(tools / "transfers_vm.sh"), "prepare"]).split()[-1]
    note(f"Linux {release} measures, in virtual time")
    return Guest(tools, release)


def _run(command: Sequence[str]) -> str:
    """Returns what a script of tools/ prints; raises InputError with its errors and its last line."""
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [*done.stdout.strip().splitlines()[-1:], *done.stderr.strip().splitlines()[-3:]]
        told = "; ".join(line.removeprefix(f"make {TARGET}: ") for line in lines)
        raise InputError(f"--kernel virtual: {told or f'exit code {done.returncode}'}")
    return done.stdout
