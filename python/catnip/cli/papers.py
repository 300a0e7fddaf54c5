"""Command `catnip reproduce`, which reproduces the experiments of a paper."""

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from catnip._core import InputError
from catnip.analysis import claims
from catnip.analysis.stopping import Until
from catnip.base import extras, files, provenance
from catnip.base.locks import only_writer, only_writer_of
from catnip.base.progress import Progress
from catnip.base.verbosity import note, tell, warn
from catnip.cli.options import (
    CLAIM_FAILED,
    MARKDOWN,
    OUTPUT_FILE,
    OUTPUT_FOLDER,
    PAGE,
    SEED_COUNT,
    TIME_OVER,
    check_writable,
    common,
)
from catnip.papers import runner
from catnip.papers.runner import Request
from catnip.report import output, values
from catnip.report.model import Command, Reproduction
from catnip.report.values import THIS, VIRTUAL, Values


def seconds(duration: str) -> float:
    """Returns a duration such as `2h`, `90min` or `30s` in seconds. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(h|min|s)", duration)
    if match is None:
        raise ValueError(f"{duration}: expected a time such as 2h, 90min or 30s")
    return float(match[1]) * {"h": 3600, "min": 60, "s": 1}[match[2]]


def _budget(_context: click.Context, _parameter: click.Parameter, duration: str | None) -> float:
    try:
        return float("inf") if duration is None else seconds(duration)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(epilog="Example: catnip reproduce catnip --experiment CAT-E4 --quick")
@click.argument("paper_name", metavar="PAPER")
@click.option(
    "--experiment",
    "experiments",
    multiple=True,
    metavar="ID",
    help="Experiment to run; repeatable.  [default: all]",
)
@click.option("--quick", is_flag=True, help="Few runs per variant, with wide intervals.")
@click.option(
    "--seeds", type=SEED_COUNT, help="Number of runs per variant.  [default: that of each experiment]"
)
@click.option(
    "--out",
    type=OUTPUT_FOLDER,
    metavar="DIR",
    help="Folder for finished steps; the same command goes on from there after an interruption.",
)
@click.option(
    "--kernel",
    type=click.Choice([THIS, VIRTUAL]),
    default=THIS,
    show_default=True,
    help="Kernel that measures: this machine's, or for linux-tcp one in virtual time, whatever the load.",
)
@click.option(
    "--budget",
    "budget_s",
    metavar="TIME",
    callback=_budget,
    help="Time after which no further experiment is begun, such as 2h.",
)
@click.option(
    "--until",
    metavar="RULE",
    help="Add seeds until claims are decided, or intervals within 5%, up to eight times the number.",
)
@click.option(
    "--values",
    "stored",
    type=OUTPUT_FILE,
    metavar="FILE.json",
    help="Values with all digits to write; --experiment replaces its values in an existing file.",
)
@click.option("--judge", is_flag=True, help="Measure nothing: judge the values in the file of --values.")
@click.option("--report", type=PAGE, metavar="FILE.html", help="Self-contained report to write.")
@click.option("--table", type=MARKDOWN, metavar="FILE.md", help="Markdown table of the claims to write.")
@click.option(
    "--figures",
    type=OUTPUT_FOLDER,
    metavar="DIR",
    help="Folder for the figures, as SVG files; those of stored values are read there.",
)
@common
def reproduce(
    paper_name: str,
    experiments: tuple[str, ...],
    quick: bool,
    seeds: int | None,
    out: Path | None,
    kernel: str,
    budget_s: float,
    until: str | None,
    stored: Path | None,
    judge: bool,
    report: Path | None,
    table: Path | None,
    figures: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Reproduce the experiments of a PAPER and judge its claims.

    A claim is reproduced if the whole 95 % interval of our value lies in its band, not reproduced if all of
    it lies outside, and else undecided (docs/results.md). With --json, each line is one claim: an object with
    id, claim, paper, oracle (ns-2 or theory), ours, low and high (95 % interval), over_paper, band, source,
    verdict, explained_by, seeds and seeds_to_decide.

    Exits with 1 if a claim is not reproduced and no other claim explains it.
    """
    if paper_name not in runner.PAPERS:
        raise InputError(f"PAPER: {paper_name} is not one of {', '.join(runner.PAPERS)}")
    known = runner.experiments(paper_name)
    ids = [_experiment(name, known) for name in experiments]
    if judge and stored is None:
        raise InputError("--judge: needs --values FILE.json")
    extras.need("reproduce", "matplotlib")
    runner.check_kernel(paper_name, kernel)
    if report is not None:
        extras.need("--report", "jinja2")
    written = [path for path in (report, table) if path is not None]
    check_writable([*written, stored])
    with _locked(out, stored):
        before = values.read(stored, paper_name) if stored is not None and stored.is_file() else None
        if before is not None and figures is not None:
            before = before.drawn(figures)
        if judge:
            if before is None:
                raise InputError(f"--values: {stored}: does not exist")
            outcome = runner.judge(paper_name, before)
        else:
            if before is not None and (quick or seeds):
                raise InputError(f"--values: short runs cannot be merged into the full results in {stored}")
            if before is not None:
                _check_same_kernel(before, kernel, stored)
            rule = Until.parse(until) if until is not None else None
            if rule is not None:
                note(str(rule))
            request = Request(paper_name, ids or None, quick, seeds, seed, out, budget_s, rule, kernel)
            with Progress(quiet=as_json) as progress:
                outcome = runner.reproduce(request, progress, before)
        _show(outcome, written, as_json)
        asked = Command(paper_name, ids, _options(quick, seeds, seed, kernel))
        _write(outcome, asked, stored, report, table, figures)
    note("judged the claims and wrote the requested files")
    if outcome.left:
        raise click.exceptions.Exit(TIME_OVER)
    if claims.unexplained(outcome.claims):
        raise click.exceptions.Exit(CLAIM_FAILED)


@contextmanager
def _locked(out: Path | None, stored: Path | None) -> Iterator[None]:
    """Lets no other process write to the folder of the steps and to the values during the block."""
    with ExitStack() as stack:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True, mode=0o700)
            stack.enter_context(only_writer(out))
        if stored is not None:
            stack.enter_context(only_writer_of(stored, "--values"))
        yield


def _show(outcome: Reproduction, written: list[Path], as_json: bool) -> None:
    if as_json:
        output.print_json_lines(claim.as_json() for claim in outcome.claims)
        for line in outcome.notes:
            tell(line)
    else:
        output.print_outcome(outcome, written)


def _write(
    outcome: Reproduction,
    command: Command,
    stored: Path | None,
    report: Path | None,
    table: Path | None,
    figures: Path | None,
) -> None:
    if stored is not None and outcome.values is not None:
        values.write(stored, outcome.values)
    if report is not None:
        from catnip.report.html import render  # noqa: PLC0415 -- needed for a report only

        if without := [figure.name for figure in outcome.figures if not figure.svg]:
            warn(f"--report: without the figures that are not in --figures DIR: {', '.join(without)}")
        files.write(report, render(outcome.with_drawings(), command, provenance.commit()))
    if table is not None:
        files.write(table, output.markdown(outcome, table))
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        for figure in outcome.with_drawings().figures:
            files.write(figures / f"{figure.name}.svg", figure.svg)


def _experiment(name: str, known: Iterable[str]) -> str:
    for experiment in known:
        if experiment.lower() == name.lower():
            return experiment
    raise InputError(f"--experiment: {name} is not one of {', '.join(known)}")


def _check_same_kernel(before: Values, kernel: str, stored: Path | None) -> None:
    if before.kernel != kernel:
        raise InputError(f"--values: {stored}: has values of --kernel {before.kernel}; choose another file")


def _options(quick: bool, seeds: int | None, seed: int, kernel: str) -> list[str]:
    return [
        *["--quick"] * quick,
        *([f"--seeds {seeds}"] if seeds else []),
        f"--seed {seed}",
        *([f"--kernel {kernel}"] if kernel != THIS else []),
    ]
