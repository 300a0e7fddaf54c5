"""Emulation of scenarios with external programs in real time, and checks of the emulator's certificates."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catnip._core import InputError
from catnip.base.programs import program
from catnip.store import results
from catnip.store.tables import Table

RED = 3
"""Exit code of the emulator if a certificate is red, that is, if a link or host was out of tolerance."""


@dataclass(frozen=True)
class Emulation:
    """Output of one run of `catnip-emu emulate`; `is_red` is true if its results do not count."""

    out: str
    err: str
    certificate: Mapping[str, Any]
    tables: Mapping[str, Table]
    is_red: bool


def emulate(
    scenario: str, variant: str, seed: int, environment: Mapping[str, str], label: str, *options: str
) -> Emulation:
    """Runs a variant of a scenario in real time, once.

    `environment` has additional environment variables of the scenario's commands, `options` additional
    options of the emulator; `label` begins an error message.
    """
    with tempfile.TemporaryDirectory(prefix="catnip-emulation-") as folder:
        command = [str(program()), "emulate", scenario, "--variant", variant, "--seed", str(seed)]
        ended = subprocess.run(
            [*command, *options, "--quiet", "--out", folder],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode not in (0, RED):
            raise InputError(f"{label}: {ended.stderr.strip()[-300:]}")
        certificate = json.loads((Path(folder) / "certificate.json").read_text())
        _, tables = results.read(Path(folder))
    return Emulation(ended.stdout, ended.stderr, certificate, tables, is_red(certificate))


def is_red(certificate: Mapping[str, Any]) -> bool:
    """Returns true if a run does not count: its certificate is red, or programs waited for busy cores."""
    return certificate.get("verdict") == "red" or bool(certificate.get("busy"))


def unaccounted(certificate: Mapping[str, Any]) -> int:
    """Returns the number of packets of an emulation that were lost by the emulator or missed by its hosts."""
    network, memory = certificate["packets_inside"]
    missed = sum(host["missed"] + host["unwritable"] for host in certificate["hosts"])
    on_links = sum(unaccounted_on_link(link["certificate"]) for link in certificate["links"])
    return int(abs(network - memory) + missed + on_links)


def unaccounted_on_link(certificate: Mapping[str, Any]) -> int:
    """Returns the number of packets that entered a link minus those that left, were dropped or are held."""
    return sum(
        abs(side["packets_in"] - side["packets_out"] - sum(side["dropped"].values()) - side["held"])
        for side in (certificate["up"], certificate["down"])
    )
