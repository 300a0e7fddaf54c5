"""Commands `catnip run` and `catnip list`."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from catnip import _core
from catnip._core import InputError, Scenario
from catnip.base import extras, files, paths
from catnip.base.verbosity import complain, note, warn
from catnip.cli.options import (
    CAPTURE,
    DRAWING,
    EMITTED,
    NOTHING_FINISHED,
    OUTPUT_FOLDER,
    PAGE,
    QLOG,
    SEED_COUNT,
    SHARD,
    Changes,
    check_writable,
    common,
    scenario_argument,
    set_option,
    xplot,
)
from catnip.report.model import SUBJECTS
from catnip.store.tables import SERIES, TABLES, USUAL

if TYPE_CHECKING:
    from catnip.analysis.summary import Summary
    from catnip.cli.carried_out import Outcome, Plan


@click.command(epilog="Example: catnip run catnip-e4 --seeds 5 --out build/catnip-e4")
@scenario_argument
@set_option
@click.option("--seeds", type=SEED_COUNT, help="Number of runs per variant.  [default: that of the scenario]")
@click.option(
    "--variant", "variants", multiple=True, metavar="NAME", help="Variant to run; repeatable.  [default: all]"
)
@click.option(
    "--threads", type=click.IntRange(0, 4096), default=0, help="Number of threads.  [default: one per core]"
)
@click.option("--out", type=OUTPUT_FOLDER, help="Folder for the result tables.")
@click.option(
    "--tables",
    metavar="LIST",
    help="Tables to write, such as runs,pages.  [default: all without an option of their own]",
)
@click.option("--bursts", is_flag=True, help="Also write the table of bursts sent by servers.")
@click.option("--events", is_flag=True, help="Also write the table of all packet events.")
@click.option(
    "--series",
    metavar="INTERVAL",
    help="Also write queues, cwnd and goodput per interval, such as 100ms.",
)
@click.option(
    "--against",
    metavar="VARIANT",
    help="Variant, or value of an axis such as queue=drop-tail:10, to compare the others with.",
)
@click.option(
    "--until",
    metavar="RULE",
    help="Add seeds to a variant until its mean is within 5%, or the difference of --against is decided.",
)
@click.option(
    "--shard",
    type=SHARD,
    metavar="K/N",
    help="Run share K of N, as one task of a job array; the last one to end writes the tables.",
)
@click.option(
    "--emit",
    type=EMITTED,
    metavar="KIND=N",
    help="Print a script that runs N shares: slurm=20, kubernetes=20 or parallel=20; run nothing.",
)
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Scheduler of Dask whose workers run it, or local for processes of this machine.",
)
@click.option("--report", type=PAGE, metavar="FILE.html", help="Report to write, with all results and plots.")
@click.option(
    "--embed",
    is_flag=True,
    help="Put the files that the scenario names into the report, so that it can be run again there.",
)
@click.option(
    "--plot",
    type=DRAWING,
    metavar="FILE.svg",
    help="Plot to write, also as .pdf or .png; --plot-of says of what.",
)
@click.option(
    "--plot-of",
    type=click.Choice(tuple(SUBJECTS)),
    help="Subject of the plot.  [default: axis, or times, or else windows: what the runs have]",
)
@click.option("--packets", type=CAPTURE, metavar="FILE.pcapng", help="Capture to write: packets of one run.")
@click.option(
    "--packets-at",
    multiple=True,
    metavar="NODES",
    help="Nodes of the capture, such as 'client[3]'; repeatable.  [default: each packet once, at its server]",
)
@click.option("--qlog", type=QLOG, metavar="FILE.qlog", help="Log to write: sender events of one run.")
@click.option("--dry-run", is_flag=True, help="Print the runs that would be made, and exit.")
@xplot
@common
def run(
    scenario: str,
    changes: Changes,
    seeds: int | None,
    variants: tuple[str, ...],
    threads: int,
    out: Path | None,
    tables: str | None,
    bursts: bool,
    events: bool,
    series: str | None,
    against: str | None,
    until: str | None,
    shard: tuple[int, int] | None,
    emit: tuple[str, int] | None,
    dask: str | None,
    report: Path | None,
    embed: bool,
    plot: Path | None,
    plot_of: str | None,
    packets: Path | None,
    packets_at: tuple[str, ...],
    qlog: Path | None,
    dry_run: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Run a SCENARIO: a TOML file, or a name or ID from `catnip list`.

    Prints the means of each variant over all seeds with 95 % confidence intervals. For a scenario with a
    single transfer, also prints the predictions of the models, marked ! if they were far off at compared
    points nearby, and ? if they were not compared there. The SCENARIO - is standard input; files named in it
    are relative to the working directory.

    --out writes the tables runs, groups, transfers, pages, objects, connections, ports and datagrams as
    Parquet files, the tables with an option of their own, and manifest.json. The same command resumes an
    interrupted run. Several --shard at once, also on several machines, share a folder.

    A RULE is `[MEASURE] [against BASE] X%` or `decided`, or `MEASURE against NUMBER`; the table [sweep] of a
    scenario may set it, too.

    --packets writes a capture for Wireshark, and --qlog a log for qvis with one trace per connection. Both
    need a single variant, and log its run with --seed.

    Exits with 4 if no transfer finished, or no packet was sent.
    """
    from catnip.cli import carried_out  # noqa: PLC0415 -- help and bad options need none of it

    requested = {name for name, flag in (("bursts", bursts), ("events", events)) if flag}
    requested |= set(SERIES) if series is not None else set()
    if out is None and (tables or requested):
        raise click.UsageError("--tables, --bursts, --events and --series: need --out")
    written = _table_names(tables) | requested if out else set()
    if embed and report is None:
        raise click.UsageError("--embed: needs --report")
    if packets_at and packets is None:
        raise click.UsageError("--packets-at: needs --packets")
    loaded = paths.scenario(scenario, changes)
    note(f"read {loaded.path}")
    for warning in loaded.warnings:
        warn(warning)
    chosen = _choose_variants(loaded, variants)
    logs = [option for option, file in (("--packets", packets), ("--qlog", qlog)) if file is not None]
    if logs:
        _check_logs(loaded, logs[0], chosen, seeds, packets, packets_at, qlog)
        seeds = 1
    plan = carried_out.planned(loaded, chosen, seeds, seed, until, against)
    for option in [name for name, value in (("--shard", shard), ("--emit", emit)) if value is not None]:
        if out is None or report or plot or logs:
            raise click.UsageError(f"{option}: needs --out, and no other output")
    if emit is not None or dry_run:
        _print_plan(plan, sorted(written), emit, as_json)
        return
    if dask is not None:
        extras.need("--dask", "distributed", "pyarrow")
    _check_outputs(out, report, plot)
    _check_subject(loaded, chosen, plot, plot_of)

    outcome = carried_out.outcome_of(plan, out, written, threads, series, shard, dask, quiet=as_json)
    if outcome is None:
        from catnip.report import output  # noqa: PLC0415

        output.print_share(shard, as_json)
        return
    _print(plan, outcome, as_json)
    # The results are printed whatever happens to the files.
    if report is not None or plot is not None:
        _draw(plan, outcome, report, embed, plot, plot_of)
    if logs:
        _write_logs(loaded, chosen[0], seed, packets, packets_at, qlog)
    _check_finished(loaded, outcome.summaries)


def _print(plan: "Plan", outcome: "Outcome", as_json: bool) -> None:
    from catnip.report import output  # noqa: PLC0415
    from catnip.report.summary_tables import (  # noqa: PLC0415
        document,
        print_differences,
        print_predictions,
        print_summary,
    )

    scenario, summaries, seeds = plan.scenario, outcome.summaries, plan.seeds(outcome.counts)
    predicted = _predicted(scenario, plan.variants)
    if as_json:
        output.print_json(document(scenario, seeds, summaries, predicted, outcome.pairs, plan.base_of))
        return
    print_summary(scenario.title, seeds, summaries)
    if plan.against is not None:
        print_differences(plan.against, outcome.pairs)
    print_predictions(summaries, predicted)
    output.print_note(plan.told())


def _predicted(scenario: Scenario, variants: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the models' predictions for each variant that consists of a single transfer."""
    flows = {name: flow for name in variants if (flow := scenario.single_flow(name))}
    if not flows:
        return {}
    from catnip.modelling import accuracy  # noqa: PLC0415 -- needed for a single transfer only

    return {name: accuracy.predictions(flow) for name, flow in flows.items()}


@click.command("list", epilog="Example: catnip list --json")
@common
def list_(seed: int, as_json: bool) -> None:
    """List the scenarios, the names that scenarios may use, and the result tables.

    --json includes the columns of the tables, with their types and units.
    """
    from catnip.report import output  # noqa: PLC0415 -- help needs none of it

    scenarios, profiles, kinds = paths.outlines(), _core.profiles(), _core.kinds()
    note(f"read {len(scenarios)} scenarios")
    if as_json:
        listed = {
            "scenarios": [output.scenario_document(scenario, seed) for scenario in scenarios],
            "profiles": dict(profiles),
            **{family: dict(members) for family, members in kinds},
            "tables": output.tables_document(),
        }
        output.print_json(listed)
    else:
        output.print_scenarios(scenarios, seed)
        output.print_table("TCP profiles", ("name", "description"), profiles)
        for family, members in kinds:
            output.print_table(family.capitalize(), ("name", "description"), members)
        described = [(name, about) for name, about, _ in _core.tables()]
        output.print_table("Result tables (columns: docs/tables.md)", ("name", "rows"), described)


def _check_outputs(out: Path | None, report: Path | None, plot: Path | None) -> None:
    """Raises an error if an output cannot be written or needs a missing library."""
    if report is not None:
        extras.need("--report", "jinja2", "matplotlib")
    if plot is not None:
        extras.need("--plot", "matplotlib")
    check_writable([report, plot])
    if out is not None:
        extras.need("--out", "pyarrow")


def _check_subject(
    scenario: Scenario, variants: Sequence[str], plot: Path | None, plot_of: str | None
) -> None:
    """Raises an error if there is no plot for a subject, or if no run can have the subject."""
    if plot_of is None:
        return
    if plot is None:
        raise click.UsageError("--plot-of: needs --plot")
    has_times = any(map(scenario.has_transfers, variants))
    if (plot_of == "axis" and not scenario.axes) or (plot_of == "times" and not has_times):
        raise InputError(f"--plot-of: {plot_of}: the scenario has no {SUBJECTS[plot_of]}")


def _draw(
    plan: "Plan", outcome: "Outcome", page: Path | None, embed: bool, plot: Path | None, plot_of: str | None
) -> None:
    """Writes the HTML report and the plot of a run."""
    scenario, summaries, seeds = plan.scenario, outcome.summaries, plan.seeds(outcome.counts)
    if page is not None:
        from catnip.report import again, over_time, run_page, waterfalls  # noqa: PLC0415 -- slow to load

        shown = [
            *run_page.figures(scenario, seeds, summaries, plan.axes),
            *over_time.figures(scenario, seeds[0], plan.variants, plan.against),
            *waterfalls.figures(scenario, seeds[0], summaries),
        ]
        repeated = again.again(scenario, seeds, summaries, embed)
        text = run_page.page(scenario, seeds, summaries, shown, plan.against, outcome.pairs, repeated)
        files.write(page, text)
    if plot is not None:
        from catnip.report import plots  # noqa: PLC0415 -- slow to load

        try:
            drawn = plots.plot(scenario, seeds, summaries, plan.axes, plan.against, plot_of)
        except InputError as error:
            raise InputError(f"--plot: {plot}: {error}") from None
        drawn.save(plot)


def _check_logs(
    scenario: Scenario,
    option: str,
    variants: Sequence[str],
    seeds: int | None,
    packets: Path | None,
    packets_at: Sequence[str],
    qlog: Path | None,
) -> None:
    """Reports what prevents the capture or the log of a run, before the run."""
    _check_one_run(scenario, option, variants, seeds)
    check_writable([packets, qlog])
    if packets is not None:
        scenario.check_capture(variants[0], list(packets_at))


def _write_logs(
    scenario: Scenario,
    variant: str,
    seed: int,
    packets: Path | None,
    packets_at: Sequence[str],
    qlog: Path | None,
) -> None:
    """Writes the capture and the log of a run."""
    with ExitStack() as stack:
        capture, log = (
            stack.enter_context(files.replacing(file)) if file is not None else None
            for file in (packets, qlog)
        )
        scenario.write_logs(variant, seed, packets=capture, packets_at=list(packets_at), qlog=log)
    note("wrote the logs")


def _print_plan(plan: "Plan", tables: Sequence[str], emit: tuple[str, int] | None, as_json: bool) -> None:
    """Prints the script that runs a plan, or the plan itself."""
    from catnip.report import output  # noqa: PLC0415

    scenario = plan.scenario
    if emit is not None:
        from catnip.cli.job_scripts import KINDS, words_of  # noqa: PLC0415 -- few runs need it

        kind, shares = emit
        context = click.get_current_context()
        if context.params["scenario"] == "-" or context.params["shard"] is not None:
            raise click.UsageError("--emit: needs a scenario that has a file, and no --shard")
        words = words_of(context, ("emit", "threads", "dry_run"))
        click.echo(KINDS[kind](words, shares, scenario.id), nl=False)
        return
    variants, seeds = plan.variants, plan.seeds([plan.looks[-1]])
    count = len(variants) * len(seeds)
    if as_json:
        head = {"scenario": scenario.id, "title": scenario.title, "runs": count}
        output.print_json({**head, "variants": variants, "seeds": list(seeds), "tables": tables})
        return
    megabytes = max(scenario.overview(name)["memory_bytes"] for name in variants) / 2**20
    rows = [
        ("scenario", f"{scenario.id}: {scenario.title}"),
        ("variants", _shortened(variants)),
        ("seeds", f"{seeds[0]} to {seeds[-1]}"),
        ("runs", f"{count}" if plan.rule is None else f"{len(variants) * plan.looks[0]} to {count}"),
        ("memory", f"at least {max(1, round(megabytes))} MB per thread, in addition to the summary"),
        ("tables", ", ".join(tables) or "none; --out writes them"),
    ]
    output.print_table("Planned runs", ("", ""), rows)


def _shortened(names: Sequence[str], most: int = 20) -> str:
    rest = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def _check_finished(scenario: Scenario, summaries: "Mapping[str, Summary]") -> None:
    """Exits with code 4 and an error if no transfer finished, or no packet was sent."""
    counts = [one.counts() for one in summaries.values()]
    finished, started = (sum(column) for column in zip(*counts, strict=True))
    problem = ""
    if started and not finished:
        problem = f"none of {started} transfers finished before the end of the run"
    elif not any(one.hops for one in summaries.values()):
        problem = "no packet was sent before the end of the run"
    if problem:
        complain(f"{scenario.path}: duration: {problem}")
        raise click.exceptions.Exit(NOTHING_FINISHED)


def _choose_variants(scenario: Scenario, names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in scenario.variants:
            known = ", ".join(scenario.variants)
            raise InputError(f"{scenario.path}: --variant: {name} is not one of {known}")
    return [name for name in scenario.variants if not names or name in names]


def _check_one_run(scenario: Scenario, option: str, variants: Sequence[str], seeds: int | None) -> None:
    if len(variants) > 1:
        raise InputError(f"{option}: needs a single variant; choose one by --variant: {', '.join(variants)}")
    if seeds is not None and seeds > 1:
        raise InputError(f"{option}: needs a single run, not --seeds {seeds}; choose its seed by --seed")


def _table_names(listed: str | None) -> set[str]:
    names = set(USUAL) if listed is None else {name.strip() for name in listed.split(",")}
    for name in sorted(names - set(TABLES)):
        raise InputError(f"--tables: {name} is not one of {', '.join(TABLES)}")
    return names
