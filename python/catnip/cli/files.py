"""Commands on scenario files: check, new and schema."""

import os
from pathlib import Path
from typing import Any

import click

from catnip import _core
from catnip._core import InputError, Scenario
from catnip.base import paths
from catnip.base.files import write
from catnip.base.verbosity import complain, plain, warn
from catnip.cli.options import BAD_INPUT, OUTPUT_FILE, Changes, common, set_option
from catnip.report import output

SCHEMA = Path(__file__).resolve().parent.parent / "scenario.schema.json"
"""JSON Schema for editors, installed with the package."""
TEMPLATE = Path(__file__).with_name("template.toml")


@click.command(epilog="Example: catnip check my.toml")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@set_option
@common
def check(files: tuple[str, ...], changes: Changes, seed: int, as_json: bool) -> None:
    """Check scenario FILEs and summarize their contents.

    Reports the errors in invalid files, and warns of keys that have no effect. Every variant is checked as
    for a run, but nothing is run. The FILE - is standard input.
    """
    found: dict[str, dict[str, Any]] = {}
    errors: dict[str, str] = {}
    for file in files:
        try:
            found[file] = _contents(paths.scenario(file, changes))
        except (InputError, OSError) as error:
            errors[file] = str(error)
    if as_json:
        output.print_json({"scenarios": found, "errors": errors, "seed": seed})
    for file, contents in found.items():
        if not as_json:
            click.echo(plain(_description(file, contents)))
        for warning in contents["warnings"]:
            warn(warning)
    for message in errors.values():
        complain(message)
    if errors:
        raise click.exceptions.Exit(BAD_INPUT)


@click.command(epilog="Example: catnip new my.toml && catnip run my.toml")
@click.argument("file", type=OUTPUT_FILE, default=Path("scenario.toml"))
@common
def new(file: Path, seed: int, as_json: bool) -> None:
    """Write a small scenario file to start from.

    FILE is scenario.toml by default. Existing files are not overwritten. The first line of the file gives
    editors the location of the JSON Schema that is installed with CATNIP.
    """
    folder = file.resolve().parent
    text = TEMPLATE.read_text().replace("{schema}", Path(os.path.relpath(SCHEMA, folder)).as_posix())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        file.open("x").close()
    except FileExistsError as error:
        raise InputError(f"FILE: {file} already exists; choose another name") from error
    try:
        write(file, text)
    except OSError:
        file.unlink(missing_ok=True)
        raise
    if as_json:
        output.print_json({"file": str(file), "seed": seed})
    else:
        click.echo(f"{file}: run it with `catnip run {file}`; docs/scenario.md describes all keys")


@click.command(epilog="Example: catnip schema > scenario.schema.json")
@common
def schema(seed: int, as_json: bool) -> None:
    """Print the JSON Schema of scenario files.

    Editors use it to complete, explain and check scenarios. Even Better TOML and taplo find it by a first
    line such as `#:schema scenario.schema.json`.
    """
    del seed, as_json
    click.echo(_core.schema(), nl=False)


def _contents(scenario: Scenario) -> dict[str, Any]:
    """Returns the fields of a scenario that `catnip check` prints; hosts, links: of the first variant."""
    if scenario.is_plan:
        from catnip.cli import carried_out  # noqa: PLC0415 -- few scenarios need it

        # The rule of [sweep] is checked as for a run, too.
        carried_out.planned(scenario, scenario.variants, None, 1, None, None)
    first = scenario.overview(scenario.variants[0])
    return {
        "id": scenario.id,
        "title": scenario.title,
        "variants": scenario.variants,
        "seeds": scenario.seeds,
        **first,
        "links": dict(first["links"]),
        "traffic": dict(first["traffic"]),
        "files": [str(file) for file in scenario.files],
        "warnings": scenario.warnings,
    }


def _description(file: str, contents: dict[str, Any]) -> str:
    external = f", {contents['real']} of them external" if contents["real"] else ""
    lines = [
        f"{file}: {contents['id']}: {contents['title']}",
        f"  {_counted(len(contents['variants']), 'variant')}: {', '.join(contents['variants'])}",
        f"  {_counted(contents['seeds'], 'run')} per variant",
        f"  {_counted(contents['hosts'], 'host')}{external}, {_counted(contents['routers'], 'router')}",
        f"  links: {_listed(contents['links'], '')}",
        f"  traffic: {_listed(contents['traffic'], ' pairs of hosts')}",
    ]
    return "\n".join(lines)


def _listed(counts: dict[str, int], suffix: str) -> str:
    named = (f"{name} ({count}{suffix})" if count > 1 else name for name, count in counts.items())
    return ", ".join(named) or "none"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
