"""Command `catnip emulate`, which runs a scenario in real time and reports like a simulation."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from catnip._core import InputError, Scenario
from catnip.analysis import summary
from catnip.base import extras, paths
from catnip.base.locks import only_writer
from catnip.base.programs import CALLED, program
from catnip.base.progress import Progress
from catnip.base.verbosity import Loudness, loudness, note
from catnip.cli.options import (
    CAPTURE,
    OUTPUT_FILE,
    OUTPUT_FOLDER,
    Changes,
    common,
    scenario_argument,
    set_option,
)
from catnip.report import output
from catnip.report.summary_tables import document, print_summary
from catnip.store.tables import Table
from catnip.web.commands import ENDING

if TYPE_CHECKING:
    from catnip.store.results import Manifest

POLL_S = 0.1


@click.command(epilog="Example: catnip emulate testbed-web --variant '64 KB CATNIP' --out build/wan")
@scenario_argument
@click.option("--variant", metavar="NAME", help="Variant to run.  [default: the first]")
@set_option
@click.option(
    "--mtu",
    type=click.IntRange(576, 65535),
    default=1500,
    show_default=True,
    help="Largest packet of external hosts in bytes.",
)
@click.option("--no-real-time", is_flag=True, help="Do not use SCHED_FIFO, even if it is permitted.")
@click.option(
    "--spin",
    metavar="TIME",
    help="Time before each deadline to spin instead of sleeping.  [default: 60us under SCHED_FIFO, for at "
    "most 1 % of the time; else 0us]",
)
@click.option(
    "--tolerance",
    metavar="TIME",
    default="5ms",
    show_default=True,
    help="Tolerated lateness: the certificate is red if more than 1 % of the packets are later than this, or "
    "any is later than 100 times this.",
)
@click.option("--out", type=OUTPUT_FOLDER, help="Folder for the result tables and the certificate.")
@click.option("--bursts", is_flag=True, help="Also write the table of bursts sent by servers.")
@click.option("--certificate", type=OUTPUT_FILE, metavar="FILE.json", help="Certificate to write.")
@click.option(
    "--pcap", type=CAPTURE, metavar="FILE.pcapng", help="Capture to write: all packets, with their fates."
)
@common
def emulate(
    scenario: str,
    variant: str | None,
    changes: Changes,
    mtu: int,
    no_real_time: bool,
    spin: str | None,
    tolerance: str,
    out: Path | None,
    bursts: bool,
    certificate: Path | None,
    pcap: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Run a scenario in real time, with real programs on some of its hosts.

    The SCENARIO has the same format as for `catnip run`. A host with a command is real: its command runs in
    a network namespace. $CATNIP_HERE is the address of the host, $CATNIP_SERVER the address of the node
    server, $CATNIP_DOCUMENTS a folder with all documents that simulated clients fetch from the host, and
    $CATNIP_SCENARIO the folder of the scenario. Without external hosts, the simulation runs in real time.

    A run ends when all simulated users have finished, when a command with ends_run exits, after the duration
    of the scenario, or by a signal. The results are printed as by `catnip run`, and the certificate is
    printed on stderr. --out writes the tables of `catnip run`, manifest.json and certificate.json. With
    --json, the output of commands goes to stderr.

    Exits with the code of the command that ends the run, if it is not 0; with 3 if the certificate is red;
    with 126 or 127 if a command cannot be executed or is not found; and with 128 + N after signal N.
    """
    if out is None and bursts:
        raise click.UsageError("--bursts: needs --out")
    extras.need("emulate", "pyarrow")
    loaded = paths.scenario(scenario, changes)
    chosen = _variant(loaded, variant)
    from catnip.store import results  # noqa: PLC0415 -- imports pyarrow

    emulator = program()
    manifest = results.Manifest.of(loaded, [chosen], [seed])
    options: dict[str, object] = {
        "--variant": chosen,
        "--set": [f"{key}={value}" for key, value in changes],
        "--seed": seed,
        "--mtu": mtu,
        "--spin": spin,
        "--tolerance": tolerance,
        "--certificate": certificate,
        "--pcap": pcap,
        "--no-real-time": no_real_time,
        "--bursts": bursts,
        "--json": as_json,
        "--quiet": loudness() is Loudness.QUIET,
        "--verbose": loudness() is Loudness.VERBOSE,
    }
    with only_writer(out) if out is not None else nullcontext():
        if out is not None:
            results.check_folder(out, manifest)
        # The emulator writes to a temporary folder in the output folder. The results stay there if they
        # cannot be moved to the output folder itself.
        folder = Path(tempfile.mkdtemp(prefix="catnip-emulate-", dir=out))
        is_retained = False
        try:
            began_s = monotonic()
            arguments = _arguments({**options, "--out": folder, "--hand-over": True})
            code = _run(emulator, [CALLED, "emulate", loaded.path, *arguments], folder, loaded.id, as_json)
            if not (folder / "manifest.json").exists():
                raise click.exceptions.Exit(code)
            _, tables = results.read(folder)
            certified = json.loads((folder / results.CERTIFICATE).read_text(encoding="utf-8"))
            error = None
            if out is not None:
                error = _store(out, manifest.with_provenance(monotonic() - began_s), tables, certified)
                is_retained = error is not None
            _print_results(loaded, chosen, seed, tables, certified, as_json)
            if loudness() is not Loudness.QUIET:
                click.echo((folder / "told.txt").read_text(encoding="utf-8"), err=True, nl=False)
            if error:
                raise InputError(f"{error}; the results are in {folder}")
            if code:
                raise click.exceptions.Exit(code)
        finally:
            if not is_retained:
                shutil.rmtree(folder, ignore_errors=True)


def _variant(scenario: Scenario, name: str | None) -> str:
    if name is not None and name not in scenario.variants:
        known = ", ".join(scenario.variants)
        raise InputError(f"{scenario.path}: --variant: {name} is not one of {known}")
    return scenario.variants[0] if name is None else name


def _arguments(options: Mapping[str, object]) -> list[str]:
    """Returns the arguments for options with these values; a flag has True, a repeatable option a list."""
    arguments = []
    for name, value in options.items():
        values = value if isinstance(value, list) else [value]
        active = [one for one in values if one is not None and one is not False]
        arguments += [name if one is True else f"{name}={one}" for one in active]
    return arguments


def _run(emulator: Path, command: Sequence[str], folder: Path, label: str, quiet: bool) -> int:
    """Runs the emulator, passes signals on to it, shows its progress, and returns its exit code."""
    # The output of this process must precede the output of the commands.
    sys.stdout.flush()
    with subprocess.Popen(command, executable=emulator) as process:
        try:
            with _passed_on(process):
                return _attend(process, folder, label, quiet)
        except BaseException:
            process.terminate()
            raise


def _attend(process: "subprocess.Popen[bytes]", folder: Path, label: str, quiet: bool) -> int:
    report: Callable[[int, int], None] | None = None
    began_s = total_s = 0.0
    with ExitStack() as shown:
        while True:
            try:
                code = process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                if not began_s and (begun := _begun(folder)):
                    began_s, total_s = monotonic(), begun["duration_s"]
                    # A command that ends the run owns the terminal.
                    if not (begun["a_command_ends_it"] and sys.stdout.isatty()):
                        report = shown.enter_context(Progress(quiet)).task(f"{label} in real time, s")
                if report:
                    report(round(min(monotonic() - began_s, total_s)), round(total_s))
            else:
                return code if code >= 0 else 128 - code


@contextmanager
def _passed_on(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Forwards signals that end a run to the emulator during the block; it ignores repeated ones."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    ours = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, pass_on) for number in ours}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _begun(folder: Path) -> dict[str, Any] | None:
    """Returns the description of the run that the emulator writes when its clock starts.

    Returns None before the clock has started.
    """
    file = folder / "begun.json"
    begun: dict[str, Any] | None = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    return begun


def _store(
    out: Path, manifest: "Manifest", tables: Mapping[str, Table], certificate: Mapping[str, Any]
) -> str | None:
    """Writes the results into the output folder; returns an error message if a file cannot be written."""
    from catnip.store import results  # noqa: PLC0415 -- imports pyarrow

    try:
        results.write(out, manifest, tables, certificate)
    except OSError as error:
        return f"{error.filename or out}: {error.strerror or error}"
    note(f"wrote the tables to {out}")
    return None


def _print_results(
    scenario: Scenario,
    variant: str,
    seed: int,
    tables: Mapping[str, Table],
    certificate: Mapping[str, Any],
    as_json: bool,
) -> None:
    from catnip.analysis import milestones  # noqa: PLC0415 -- help needs none of it

    summaries = summary.of_tables(tables, [variant], [seed])
    summaries = milestones.of_tables(summaries, tables, [1], [seed])
    if as_json:
        output.print_json({**document(scenario, [seed], summaries, {}, {}, {}), "certificate": certificate})
    else:
        print_summary(scenario.title, [seed], summaries)
