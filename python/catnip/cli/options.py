"""What commands share: options, exit codes, checks of what the user named."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click
from click.shell_completion import CompletionItem

from catnip._core import __version__
from catnip.base.verbosity import Loudness, speak

CLAIM_FAILED = 1
BAD_INPUT = 2
RED = 3
NOTHING_FINISHED = 4
NOT_LOADED = 5
INTERRUPTED = 130

EXIT_CODES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("0", "done", ()),
    (f"{CLAIM_FAILED}", "a claim fails", ("reproduce",)),
    (f"{BAD_INPUT}", "bad input: one line on standard error names file, key and value", ()),
    (f"{RED}", "the certificate is red", ("link", "router", "emulate", "replay", "pages")),
    (f"{NOTHING_FINISHED}", "nothing has finished, or nothing has begun", ("run", "record")),
    (f"{NOT_LOADED}", "a page has not loaded", ("pages",)),
    ("126, 127", "a command cannot be run, or is not there", ("link", "emulate", "record", "replay")),
    (f"{INTERRUPTED}", "interrupted", ()),
)
"""Codes, what they mean, and which commands have them, if not all. docs/results.md has the same."""


def told_exit_codes(command: str | None = None) -> str:
    """Those of a command, or all, as its help says it."""
    told = [f"{code} {means}" for code, means, of in EXIT_CODES if not of or command in {*of, None}]
    return f"Exit codes: {'; '.join(told)}."


Changes: TypeAlias = list[tuple[str, str]]
"""Keys of a scenario, each as a path, and what they are instead."""

SEED_COUNT = click.IntRange(min=1, max=100_000)
OUTPUT_FOLDER = click.Path(path_type=Path, file_okay=False)
OUTPUT_FILE = click.Path(path_type=Path, dir_okay=False)
STDOUT = Path("-")


class _Drawing(click.Path):
    """A file for a drawing, whose name must not promise another kind of picture."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuses names that end otherwise."""
        if Path(value).suffix.lower() != ".svg":
            self.fail(f"{value}: drawings are SVG: expected a name that ends in .svg", param, ctx)
        return super().convert(value, param, ctx)


DRAWING = _Drawing(path_type=Path, dir_okay=False)


def _scenario_names(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """For completion: file names without ending, and files."""
    from catnip.base import paths  # noqa: PLC0415 -- only a shell asks

    names = (path.stem for path in paths.scenario_files())
    return [
        *(CompletionItem(name) for name in names if name.startswith(begun)),
        CompletionItem(begun, "file"),
    ]


def _set_option(_context: click.Context, _parameter: click.Parameter, said: tuple[str, ...]) -> Changes:
    changes = []
    for one in said:
        key, equals, value = one.partition("=")
        if not equals or not all(part.strip() for part in key.split(".")):
            raise click.BadParameter(f"{one}: expected KEY=VALUE, such as link.line.queue=drop-tail:10")
        changes.append((key.strip(), value.strip()))
    return changes


set_option = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_set_option,
    help="Change a key in all variants, such as link.line.queue=red:10; repeatable.",
)
scenario_argument = click.argument("scenario", shell_complete=_scenario_names)

Command = TypeVar("Command", bound=Callable[..., Any])


def _spoken(context: click.Context, parameter: click.Parameter, is_given: bool) -> None:
    if is_given:
        speak(context, Loudness(parameter.name))


def voice(command: Command) -> Command:
    """How much a command says on stderr beside errors; of two words the last one counts."""

    def flag(short: str, long: str, about: str) -> Callable[[Command], Command]:
        return click.option(short, long, is_flag=True, expose_value=False, callback=_spoken, help=about)

    quiet = flag("-q", "--quiet", "Nothing on stderr but errors: no progress, no notes.")
    verbose = flag("-v", "--verbose", "Say on stderr what is done, and when.")
    return quiet(verbose(click.version_option(__version__, prog_name="catnip")(command)))


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
    return seed(as_json(voice(command)))


def check_writable(files: Iterable[Path | None]) -> None:
    """Finds out before the long work, not after it, and leaves nothing behind."""
    for path in files:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            existed = path.exists()
            path.open("a").close()
            if not existed:
                path.unlink()
