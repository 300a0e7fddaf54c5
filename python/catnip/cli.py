"""The command line. Whatever the user got wrong ends in one line on stderr and exit code 2."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from catnip import _core, measures, output, paths, results, tracing
from catnip._core import InputError, Scenario, __version__
from catnip.progress import Progress
from catnip.reproduce import PAPERS, claims, paper

CLAIM_FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130

SEED_COUNT = click.IntRange(min=1, max=100_000)
OUTPUT_FOLDER = click.Path(path_type=Path, file_okay=False)
OUTPUT_FILE = click.Path(path_type=Path, dir_okay=False)
STDOUT = Path("-")

Command = TypeVar("Command", bound=Callable[..., Any])


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code."""
    try:
        # click's own main() prints usage above an error and leaves with 1 after Ctrl-C.
        with catnip.make_context("catnip", list(sys.argv[1:] if arguments is None else arguments)) as context:
            catnip.invoke(context)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        return _complain(re.sub(r"^Invalid value for '([^']+)'", r"\1", error.format_message()))
    except InputError as error:
        return _complain(str(error))
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python must not complain of it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (KeyboardInterrupt, click.Abort):
        _complain("interrupted")
        return INTERRUPTED


def common(command: Command) -> Command:
    """The options of every command."""
    seed = click.option(
        "--seed",
        type=click.IntRange(min=0, max=2**62),
        default=1,
        show_default=True,
        help="Seed of the first run; the others count up from it.",
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else.")
    return seed(as_json(command))


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: catnip reproduce catnip --quick --report build/report.html",
)
@click.version_option(__version__, prog_name="catnip")
@click.pass_context
def catnip(context: click.Context) -> None:
    """Packet-level simulation of context-aware Web transport."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@catnip.command(epilog="Example: catnip run catnip-e4 --seeds 5 --out build/catnip-e4")
@click.argument("scenario")
@click.option("--seeds", type=SEED_COUNT, help="Runs per variant.  [default: the scenario's]")
@click.option("--variant", "variants", multiple=True, metavar="NAME", help="Only this one; repeatable.")
@click.option("--threads", type=click.IntRange(0, 4096), default=0, help="0, the default, takes every core.")
@click.option("--out", type=OUTPUT_FOLDER, help="Write tables there.")
@click.option("--tables", metavar="LIST", help="Which tables to write.  [default: all but events]")
@click.option("--events", is_flag=True, help="Also write the table of every packet.")
@common
def run(
    scenario: str,
    seeds: int | None,
    variants: tuple[str, ...],
    threads: int,
    out: Path | None,
    tables: str | None,
    events: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Run a SCENARIO: a TOML file, or the name or id of one in scenarios/.

    Prints each variant's means over the seeds with their 95 % confidence intervals; --out writes the tables
    runs, pages, objects, connections, ports, datagrams and events as Parquet files, and manifest.json.
    """
    if out is None and (tables or events):
        raise click.UsageError("--tables and --events: nothing is written without --out")
    written = _table_names(tables, events) if out else set()
    loaded = paths.scenario(scenario)
    chosen = _choose_variants(loaded, variants)
    numbers = list(range(seed, seed + (seeds or loaded.seeds)))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)

    with Progress(quiet=as_json) as progress:
        needed = sorted(written | {"pages", "connections", "ports"})
        made = loaded.run(chosen, numbers, needed, threads, progress.task(loaded.id))
    if out is not None:
        manifest = results.Manifest.of(loaded, chosen, numbers)
        results.write(out, manifest, {name: made[name] for name in written})

    summary = measures.summary(made, chosen, numbers)
    if as_json:
        output.print_json(output.summary_document(loaded, numbers, summary))
    else:
        output.print_summary(loaded.title, numbers, summary)


@catnip.command(epilog="Example: catnip reproduce catnip --experiment CAT-E4 --quick")
@click.argument("paper_name", metavar="PAPER")
@click.option("--experiment", "experiments", multiple=True, metavar="ID", help="Only this one; repeatable.")
@click.option("--quick", is_flag=True, help="Few seeds: soon done, wide intervals.")
@click.option("--seeds", type=SEED_COUNT, help="Runs per variant.  [default: each experiment's]")
@click.option("--report", type=OUTPUT_FILE, metavar="FILE.html", help="Write a self-contained report.")
@click.option("--table", type=OUTPUT_FILE, metavar="FILE.md", help="Write the claims as Markdown.")
@click.option("--figures", type=OUTPUT_FOLDER, metavar="DIR", help="Write each figure as SVG.")
@common
def reproduce(
    paper_name: str,
    experiments: tuple[str, ...],
    quick: bool,
    seeds: int | None,
    report: Path | None,
    table: Path | None,
    figures: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Reproduce the experiments of a PAPER and judge its claims.

    With --json, each line is one claim: an object with id, claim, paper, oracle (ns-2 or theory), ours, low
    and high (95 % interval), band, verdict (pass, fail, deviation or reported) and seeds.

    Leaves with 1 if a claim fails, that is, misses its band without a reason in docs/deviations.md.
    """
    if paper_name not in PAPERS:
        raise InputError(f"PAPER: {paper_name} is not one of {', '.join(PAPERS)}")
    module = paper(paper_name)
    ids = [_experiment(name, module.EXPERIMENTS) for name in experiments]
    written = [path for path in (report, table) if path is not None]
    _check_writable(written)

    with Progress(quiet=as_json) as progress:
        outcome = module.reproduce(ids or None, quick, seeds, seed, progress)
    if report is not None:
        from catnip.report import render  # noqa: PLC0415 -- only a report needs it

        command = _command_line(paper_name, ids, quick, seeds, seed)
        report.write_text(render(outcome, command), encoding="utf-8")
    if table is not None:
        table.write_text(output.markdown(outcome, table), encoding="utf-8")
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        for figure in outcome.figures:
            (figures / f"{figure.name}.svg").write_text(figure.svg, encoding="utf-8")

    if as_json:
        output.print_json_lines(claim.as_json() for claim in outcome.claims)
    else:
        output.print_outcome(outcome, written)
    if claims.failed(outcome.claims):
        raise click.exceptions.Exit(CLAIM_FAILED)


@catnip.command("list", epilog="Example: catnip list --json")
@common
def list_(seed: int, as_json: bool) -> None:
    """List the scenarios with the seeds of their runs, the TCP profiles and the queues."""
    scenarios, profiles, queues = paths.scenarios(), _core.profiles(), _core.queues()
    if as_json:
        listed = [output.scenario_document(scenario, seed) for scenario in scenarios]
        output.print_json({"scenarios": listed, "profiles": dict(profiles), "queues": dict(queues)})
    else:
        output.print_scenarios(scenarios, seed)
        output.print_table("TCP profiles", ("name", "what it stands for"), profiles)
        output.print_table("Queues", ("name", "what it does"), queues)


@catnip.command(epilog="Example: catnip trace --profile ns2-2.35 --recovery newreno --drop 20,22 --csv -")
@click.option("--profile", default="ns2-2.35", show_default=True, help="TCP parameters; see catnip list.")
@click.option("--recovery", metavar="NAME", help="What to resend.  [default: the profile's]")
@click.option("--control", metavar="NAME", help="How fast to grow.  [default: the profile's]")
@click.option("--pacing", metavar="NAME", help="When to send.  [default: the profile's]")
@click.option("--marker", metavar="NAME", help="Which packets to mark HIGH.  [default: none]")
@click.option("--packets", type=click.IntRange(1, 1_000_000), default=100, show_default=True)
@click.option("--size", metavar="BYTES", help="Data bytes of a packet.  [default: the profile's]")
@click.option("--rate", default="1Mbit", show_default=True, help="Rate of the link.")
@click.option("--delay", default="50ms", show_default=True, help="Its propagation delay.")
@click.option("--queue", default="drop-tail:10", show_default=True, help="Its queue; see catnip list.")
@click.option("--window", type=click.IntRange(1, 1_000_000), help="Receive window, packets.")
@click.option("--drop", metavar="LIST", help="Lose these packets, counted on the link from 1.")
@click.option("--delayed-ack", is_flag=True, help="ACK every second packet, or after 200 ms.")
@click.option("--tick-phase", metavar="TIME", help="When the sender's clock ticks.  [default: drawn]")
@click.option(
    "--csv",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE.csv",
    help="Write every event; - is stdout.",
)
@click.option("--plot", type=OUTPUT_FILE, metavar="FILE.svg", help="Draw packet numbers over time.")
@common
def trace(
    packets: int, drop: str | None, csv: Path | None, plot: Path | None, as_json: bool, **options: Any
) -> None:
    """Send one transfer over one link and tell what happens to each of its packets."""
    if as_json and csv == STDOUT:
        raise click.UsageError("--json and --csv -: both want stdout")
    _check_writable(path for path in (csv, plot) if path not in (None, STDOUT))
    events = _core.trace(packets=packets, drop=_packet_numbers(drop), **options)

    if plot is not None:
        from catnip.figures.transfers import sequence_plots  # noqa: PLC0415 -- slow to load

        sent = [(row["time"], row["seq"]) for row in tracing.rows(events) if row["event"] == "send"]
        times, seqs = zip(*sent, strict=True)
        plot.write_text(sequence_plots([(f"{packets} packets", times, seqs)]), encoding="utf-8")
    if csv == STDOUT:
        tracing.write_csv(sys.stdout, events)
        return
    if csv is not None:
        with csv.open("w", encoding="utf-8", newline="") as file:
            tracing.write_csv(file, events)
    outline = tracing.outline(events)
    if as_json:
        output.print_json({"version": __version__, "outline": outline, "events": list(tracing.rows(events))})
    else:
        output.print_outline(outline)


def _complain(message: str) -> int:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return BAD_INPUT


def _choose_variants(scenario: Scenario, names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in scenario.variants:
            known = ", ".join(scenario.variants)
            raise InputError(f"{scenario.path}: --variant: {name} is not one of {known}")
    return [name for name in scenario.variants if not names or name in names]


def _table_names(listed: str | None, events: bool) -> set[str]:
    names = (
        set(results.TABLES) - {"events"} if listed is None else {name.strip() for name in listed.split(",")}
    )
    for name in sorted(names - set(results.TABLES)):
        raise InputError(f"--tables: {name} is not one of {', '.join(results.TABLES)}")
    return names | ({"events"} if events else set())


def _packet_numbers(listed: str | None) -> list[int]:
    numbers = listed.split(",") if listed else []
    for number in numbers:
        if not re.fullmatch(r"\s*0*[1-9]\d{0,8}\s*", number):
            raise InputError(f"--drop: {number.strip()!r} is not the number of a packet, counted from 1")
    return [int(number) for number in numbers]


def _experiment(name: str, known: Iterable[str]) -> str:
    for experiment in known:
        if experiment.lower() == name.lower():
            return experiment
    raise InputError(f"--experiment: {name} is not one of {', '.join(known)}")


def _check_writable(files: Iterable[Path | None]) -> None:
    """Finds out before the long work, not after it, and leaves nothing behind."""
    for path in files:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            existed = path.exists()
            path.open("a").close()
            if not existed:
                path.unlink()


def _command_line(name: str, experiments: Sequence[str], quick: bool, seeds: int | None, seed: int) -> str:
    words = ["catnip reproduce", name, *(f"--experiment {id}" for id in experiments)]
    words += ["--quick"] if quick else []
    words += [f"--seeds {seeds}"] if seeds else []
    return " ".join([*words, f"--seed {seed}", "--report report.html"])


if __name__ == "__main__":
    sys.exit(main())
