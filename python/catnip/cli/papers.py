"""Command `catnip reproduce`, which reproduces the experiments of a paper."""

from collections.abc import Iterable
from pathlib import Path

import click

from catnip._core import InputError
from catnip.analysis import claims
from catnip.base import extras, provenance
from catnip.base.progress import Progress
from catnip.base.verbosity import note
from catnip.cli.options import CLAIM_FAILED, OUTPUT_FILE, OUTPUT_FOLDER, SEED_COUNT, check_writable, common
from catnip.papers import runner
from catnip.report import output
from catnip.report.model import Command


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
@click.option("--report", type=OUTPUT_FILE, metavar="FILE.html", help="Self-contained report to write.")
@click.option(
    "--table",
    type=OUTPUT_FILE,
    metavar="FILE.md",
    help="Markdown table of the claims to write; --experiment updates its rows in an existing table.",
)
@click.option("--figures", type=OUTPUT_FOLDER, metavar="DIR", help="Folder for the figures, as SVG files.")
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
    """Reproduce the experiments of a PAPER and evaluate its claims.

    With --json, each line is one claim: an object with id, claim, paper, oracle (ns-2 or theory), ours, low
    and high (95 % interval), band, verdict (pass, fail, deviation or reported) and seeds.

    Exits with 1 if a claim fails, that is, misses its band without a reason in docs/deviations.md.
    """
    if paper_name not in runner.PAPERS:
        raise InputError(f"PAPER: {paper_name} is not one of {', '.join(runner.PAPERS)}")
    known = runner.experiments(paper_name)
    ids = [_experiment(name, known) for name in experiments]
    extras.need("reproduce", "matplotlib")
    if report is not None:
        extras.need("--report", "jinja2")
    written = [path for path in (report, table) if path is not None]
    check_writable(written)
    page = table.read_text(encoding="utf-8") if ids and table is not None and table.is_file() else None
    if page is not None and table is not None:
        output.check_page(page, runner.data(paper_name).title, table)
        if quick:
            raise InputError(f"--quick: short runs cannot be merged into the full results in {table}")

    with Progress(quiet=as_json) as progress:
        outcome = runner.reproduce(paper_name, ids or None, quick, seeds, seed, progress)
    if report is not None:
        from catnip.report.html import render  # noqa: PLC0415 -- needed for a report only

        command = Command(paper_name, ids, _options(quick, seeds, seed))
        report.write_text(render(outcome, command, provenance.commit()), encoding="utf-8")
    if table is not None:
        order = [(one.id, one.says) for one in runner.data(paper_name).statements]
        merged = (
            output.markdown(outcome, table) if page is None else output.merged(page, outcome, table, order)
        )
        table.write_text(merged, encoding="utf-8")
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        for figure in outcome.figures:
            (figures / f"{figure.name}.svg").write_text(figure.svg, encoding="utf-8")

    note("evaluated the claims and wrote the requested files")
    if as_json:
        output.print_json_lines(claim.as_json() for claim in outcome.claims)
    else:
        output.print_outcome(outcome, written)
    if claims.failed(outcome.claims):
        raise click.exceptions.Exit(CLAIM_FAILED)


def _experiment(name: str, known: Iterable[str]) -> str:
    for experiment in known:
        if experiment.lower() == name.lower():
            return experiment
    raise InputError(f"--experiment: {name} is not one of {', '.join(known)}")


def _options(quick: bool, seeds: int | None, seed: int) -> list[str]:
    return [*["--quick"] * quick, *([f"--seeds {seeds}"] if seeds else []), f"--seed {seed}"]
