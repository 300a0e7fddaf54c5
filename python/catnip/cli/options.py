"""Options and exit codes that several commands share, and checks of output file names."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click
from click.shell_completion import CompletionItem

from catnip._core import __version__
from catnip.base.verbosity import Loudness, set_loudness

CLAIM_FAILED = 1
BAD_INPUT = 2
RED = 3
NOTHING_FINISHED = 4
NOT_LOADED = 5
TIME_OVER = 6
DEFECT = 70
INTERRUPTED = 130

EXIT_CODES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("0", "success", ()),
    (
        f"{CLAIM_FAILED}",
        "a claim is not reproduced, and no other claim explains it, or a run gives other rows than stored",
        ("reproduce", "rerun"),
    ),
    (f"{BAD_INPUT}", "invalid input: one line on standard error names the file, key and value", ()),
    (f"{RED}", "the certificate is red", ("link", "router", "emulate", "replay", "pages")),
    (f"{NOTHING_FINISHED}", "no transfer finished, or no packet was sent", ("run", "record")),
    (f"{NOT_LOADED}", "a page did not load", ("pages",)),
    (f"{TIME_OVER}", "the time of --budget was over before the last experiment", ("reproduce",)),
    (f"{DEFECT}", "a defect of CATNIP, with a traceback to report", ()),
    ("126, 127", "a command cannot be executed, or is not found", ("link", "emulate", "record", "replay")),
    (f"{INTERRUPTED}", "interrupted", ()),
)
"""Exit codes with their meanings and the commands that use them (empty: all), as in docs/results.md."""


def exit_codes_text(command: str | None = None) -> str:
    """Returns the exit codes of a command, or of all commands, as a sentence for a help text."""
    parts = [f"{code} {means}" for code, means, of in EXIT_CODES if not of or command in {*of, None}]
    return f"Exit codes: {'; '.join(parts)}."


Changes: TypeAlias = list[tuple[str, str]]
"""Keys of a scenario to change, such as `link.line.queue`, each with its new value."""

SEED_COUNT = click.IntRange(min=1, max=100_000)
OUTPUT_FOLDER = click.Path(path_type=Path, file_okay=False)
OUTPUT_FILE = click.Path(path_type=Path, dir_okay=False)
STDOUT = Path("-")


class _FileOf(click.Path):
    """Type of options for files to write whose names end as their format demands."""

    def __init__(self, *suffixes: str) -> None:
        super().__init__(path_type=Path, dir_okay=False)
        self._suffixes = suffixes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the path; reports an error unless the file name has one of the suffixes.

        A device, such as /dev/stdout, may have any name.
        """
        is_device = Path("/dev") in Path(value).parents
        if Path(value).suffix.lower() not in self._suffixes and not is_device:
            self.fail(f"{value}: expected a file name that ends in {' or '.join(self._suffixes)}", param, ctx)
        return super().convert(value, param, ctx)


class _Shard(click.ParamType[tuple[int, int]]):
    """Type of a share: its number and the number of shares, as in 3/10."""

    name = "shard"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the two numbers."""
        number, slash, shares = str(value).partition("/")
        if not slash or not (number.isdecimal() and shares.isdecimal()):
            self.fail(f"{value}: expected K/N, such as 3/10", param, ctx)
        if not 1 <= int(number) <= int(shares) <= MOST_SHARES:
            self.fail(f"{value}: expected K from 1 to N, and N up to {MOST_SHARES}", param, ctx)
        return int(number), int(shares)


class _Emitted(click.ParamType[tuple[str, int]]):
    """Type of a kind of script with a number of shares, as in slurm=20."""

    name = "emitted"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Returns the kind and the number."""
        kind, _, shares = str(value).partition("=")
        if kind not in SCRIPTS or not shares.isdecimal() or not 1 <= int(shares) <= MOST_SHARES:
            known = ", ".join(f"{one}=N" for one in SCRIPTS)
            self.fail(f"{value}: expected one of {known}", param, ctx)
        return kind, int(shares)


MOST_SHARES = 10_000
SCRIPTS = ("kubernetes", "parallel", "slurm")
"""Kinds of scripts that run shares (catnip.cli.job_scripts)."""
SHARD = _Shard()
EMITTED = _Emitted()
DRAWING = _FileOf(".svg", ".pdf", ".png")
PAGE = _FileOf(".html", ".htm")
MARKDOWN = _FileOf(".md")
CAPTURE = _FileOf(".pcapng")
EXPORT = _FileOf(".csv", ".arrow")
QLOG = _FileOf(".qlog", ".sqlog", ".json")


def _scenario_names(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Returns shell completions for a scenario argument: names of bundled scenarios, and files."""
    from catnip.base import paths  # noqa: PLC0415 -- needed for completion only

    names = (path.stem for path in paths.scenario_files())
    return [
        *(CompletionItem(name) for name in names if name.startswith(begun)),
        CompletionItem(begun, "file"),
    ]


def _set_option(_context: click.Context, _parameter: click.Parameter, settings: tuple[str, ...]) -> Changes:
    changes = []
    for one in settings:
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
    help="Key to change in all variants, such as link.line.queue=red:10; repeatable.",
)
scenario_argument = click.argument("scenario", shell_complete=_scenario_names)

Command = TypeVar("Command", bound=Callable[..., Any])


def _set_verbosity(context: click.Context, parameter: click.Parameter, is_set: bool) -> None:
    if is_set:
        set_loudness(context, Loudness(parameter.name))


def voice(command: Command) -> Command:
    """Adds the options -q, -v and --version to a command; -q and -v set the verbosity on stderr."""

    def flag(short: str, long: str, about: str) -> Callable[[Command], Command]:
        return click.option(
            short, long, is_flag=True, expose_value=False, callback=_set_verbosity, help=about
        )

    quiet = flag("-q", "--quiet", "Print only errors on stderr: no progress, no notes.")
    verbose = flag("-v", "--verbose", "Report each step on stderr, with its time.")
    return quiet(verbose(click.version_option(__version__, prog_name="catnip")(command)))


def common(command: Command) -> Command:
    """Adds the options that most commands have: --seed, --json, -q, -v and --version."""
    seed = click.option(
        "--seed",
        type=click.IntRange(min=0, max=2**62),
        default=1,
        show_default=True,
        help="Seed of the first run; further runs count up from it.",
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout.")
    return seed(as_json(voice(command)))


def _refuse_xplot(_context: click.Context, _parameter: click.Parameter, file: str | None) -> None:
    if file is not None:
        raise click.UsageError(
            "--xplot: not written; --plot draws packets over time, --qlog is what qvis draws, and tcptrace "
            "makes xplot files of catnip run --packets FILE.pcapng"
        )


xplot = click.option("--xplot", hidden=True, expose_value=False, callback=_refuse_xplot)
"""Hidden option --xplot, which fails with an error that names the equivalent options of this program."""


def check_writable(files: Iterable[Path | None]) -> None:
    """Raises OSError if a file cannot be written. Creates missing folders, but no files."""
    for path in files:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            existed = path.exists()
            path.open("a").close()
            if not existed:
                path.unlink()
