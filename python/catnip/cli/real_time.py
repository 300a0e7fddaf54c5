"""Scenarios in real time: the emulator does the work, and what it gives is told and kept as that of a run."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from catnip._core import InputError, Scenario
from catnip.analysis import summary
from catnip.base import extras, paths
from catnip.base.programs import CALLED, program
from catnip.base.progress import Progress
from catnip.base.verbosity import Loudness, loudness, note
from catnip.cli.options import OUTPUT_FILE, OUTPUT_FOLDER, common, scenario_argument
from catnip.report import output
from catnip.report.summary_tables import document, print_summary
from catnip.store.tables import Table
from catnip.web.commands import ENDING

if TYPE_CHECKING:
    from catnip.store.results import Manifest

POLL_S = 0.1


@click.command(epilog="Example: catnip emulate testbed-web --variant '64 KB CATNIP' --out build/wan")
@scenario_argument
@click.option("--variant", metavar="NAME", help="Which of its variants.  [default: the first]")
@click.option(
    "--mtu",
    type=click.IntRange(576, 65535),
    default=1500,
    show_default=True,
    help="Longest packet of real hosts in bytes.",
)
@click.option("--no-real-time", is_flag=True, help="Do without SCHED_FIFO even if it is permitted.")
@click.option(
    "--spin",
    metavar="TIME",
    help="How long before a deadline to spin instead of sleeping.  [default: 60us under SCHED_FIFO, for 1 % "
    "of the time at most; else 0us]",
)
@click.option(
    "--tolerance",
    metavar="TIME",
    default="5ms",
    show_default=True,
    help="For how much longer than asked 1 of 100 packets may be kept before the certificate is red, and "
    "none a hundred times as long.",
)
@click.option("--out", type=OUTPUT_FOLDER, help="Write tables and certificate there.")
@click.option("--bursts", is_flag=True, help="Also write the table of the bursts in which servers send.")
@click.option("--certificate", type=OUTPUT_FILE, metavar="FILE.json", help="Write the certificate.")
@click.option(
    "--pcap", type=OUTPUT_FILE, metavar="FILE.pcapng", help="Write every packet, and what became of it."
)
@common
def emulate(
    scenario: str,
    variant: str | None,
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
    """Run a scenario in real time, with real programs at some of its nodes.

    The SCENARIO is that of a simulation. A host with a command is real: a network namespace of its own, in
    which the command runs. $CATNIP_HERE is its address, $CATNIP_SERVER that of the node server,
    $CATNIP_DOCUMENTS a folder with all that simulated clients fetch from it, $CATNIP_SCENARIO the folder of
    the scenario. Without real hosts it is the simulator's run, in real time.

    A run ends when all simulated users are done, when a command with ends_run has ended, with its duration,
    or by a signal. It prints what `catnip run` prints, then the certificate on stderr. --out writes the
    tables of `catnip run`, manifest.json and certificate.json. With --json, what commands print goes to
    stderr.

    Leaves with the exit code of the command that ends the run, if that is not 0; with 3 if the certificate is
    red, 126 or 127 if a command cannot be run or is not there, and 128 and the number of a signal that ended
    it.
    """
    if out is None and bursts:
        raise click.UsageError("--bursts: nothing is written without --out")
    extras.need("emulate", "pyarrow")
    loaded = paths.scenario(scenario)
    chosen = _variant(loaded, variant)
    from catnip.store import results  # noqa: PLC0415 -- needs the library for Parquet

    emulator = program()
    manifest = results.Manifest.of(loaded, [chosen], [seed])
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        results.check_folder(out, manifest)
    options: dict[str, object] = {
        "--variant": chosen,
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
    # On the disk on which the results will be; if they cannot be put in their place, they stay here.
    folder = Path(tempfile.mkdtemp(prefix="catnip-emulate-", dir=out))
    kept = False
    try:
        began_s = monotonic()
        command = [CALLED, "emulate", loaded.path, *_words(options), "--out", str(folder), "--hand-over"]
        code = _run(emulator, command, folder, loaded.id, as_json)
        if not (folder / "manifest.json").exists():
            raise click.exceptions.Exit(code)
        _, tables = results.read(folder)
        certified = json.loads((folder / results.CERTIFICATE).read_text(encoding="utf-8"))
        wrong = None
        if out is not None:
            wrong = _keep(out, manifest.made_in(monotonic() - began_s), tables, certified)
            kept = wrong is not None
        _tell(loaded, chosen, seed, tables, certified, as_json)
        if loudness() is not Loudness.QUIET:
            click.echo((folder / "told.txt").read_text(encoding="utf-8"), err=True, nl=False)
        if wrong:
            raise InputError(f"{wrong}; what it should hold is in {folder}")
        if code:
            raise click.exceptions.Exit(code)
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def _variant(scenario: Scenario, name: str | None) -> str:
    if name is not None and name not in scenario.variants:
        known = ", ".join(scenario.variants)
        raise InputError(f"{scenario.path}: --variant: {name} is not one of {known}")
    return scenario.variants[0] if name is None else name


def _words(options: Mapping[str, object]) -> list[str]:
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    return [name if value is True else f"{name}={value}" for name, value in given.items()]


def _run(emulator: Path, command: Sequence[str], folder: Path, label: str, quiet: bool) -> int:
    """Waits for the emulator, which hears of every signal; gives its exit code."""
    # Nothing of ours may come behind what commands print.
    sys.stdout.flush()
    with subprocess.Popen(command, executable=emulator) as process:
        try:
            with _passed_on(process):
                return _attend(process, folder, label, quiet)
        except BaseException:
            process.terminate()
            raise


def _attend(process: "subprocess.Popen[bytes]", folder: Path, label: str, quiet: bool) -> int:
    told: Callable[[int, int], None] | None = None
    began_s = total_s = 0.0
    with ExitStack() as shown:
        while True:
            try:
                code = process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                if not began_s and (begun := _begun(folder)):
                    began_s, total_s = monotonic(), begun["duration_s"]
                    # A command that ends the run has the terminal until then.
                    if not (begun["a_command_ends_it"] and sys.stdout.isatty()):
                        told = shown.enter_context(Progress(quiet)).task(f"{label} in real time, s")
                if told:
                    told(round(min(monotonic() - began_s, total_s)), round(total_s))
            else:
                return code if code >= 0 else 128 - code


@contextmanager
def _passed_on(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Signals that end a run are the emulator's; two of a kind are as one to it."""

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
    """What the emulator says of the run as soon as its clock has started."""
    file = folder / "begun.json"
    begun: dict[str, Any] | None = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    return begun


def _keep(
    out: Path, manifest: "Manifest", tables: Mapping[str, Table], certificate: Mapping[str, Any]
) -> str | None:
    """Puts the results in their place; says why it cannot."""
    from catnip.store import results  # noqa: PLC0415 -- needs the library for Parquet

    try:
        results.write(out, manifest, tables, certificate)
    except OSError as error:
        return f"{error.filename or out}: {error.strerror or error}"
    note(f"the tables are in {out}")
    return None


def _tell(
    scenario: Scenario,
    variant: str,
    seed: int,
    tables: Mapping[str, Table],
    certificate: Mapping[str, Any],
    as_json: bool,
) -> None:
    summaries = summary.of_tables(tables, [variant], [seed])
    if as_json:
        output.print_json({**document(scenario, [seed], summaries, {}), "certificate": certificate})
    else:
        print_summary(scenario.title, [seed], summaries)
