"""What commands share: options, exit codes, checks of what the user named."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from catnip._core import __version__
from catnip.voice import Loudness, speak

CLAIM_FAILED = 1
BAD_INPUT = 2
RED = 3
NOTHING_FINISHED = 4
INTERRUPTED = 130

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
    from catnip import paths  # noqa: PLC0415 -- only a shell asks

    names = (path.stem for path in paths.scenario_files())
    return [
        *(CompletionItem(name) for name in names if name.startswith(begun)),
        CompletionItem(begun, "file"),
    ]


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
