"""The command line. Whatever the user got wrong ends in one line on stderr and exit code 2.

What a command needs is imported when it is used, so that help and completion are there at once.
"""

import os
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

import click
from click.shell_completion import shell_complete

from catnip._core import InputError, __version__
from catnip.base import extras
from catnip.cli.options import BAD_INPUT, INTERRUPTED, told_exit_codes

COMMANDS = {
    "agent": ("emulation", "Mark what this host sends, by programs in its kernel."),
    "check": ("files", "Read scenario FILEs and tell what is in them, or what is wrong with them."),
    "emulate": ("real_time", "Run a scenario in real time, with real programs at some of its nodes."),
    "har": ("recordings", "Read a HAR 1.2, as browsers export it, and tell what it says of each page."),
    "link": ("emulation", "Run a command behind one emulated link."),
    "list": ("scenarios", "List the scenarios, all that scenarios name, and the tables of results."),
    "model": ("models", "Predict a transfer's time with every model, beside simulations of it."),
    "new": ("files", "Write a small scenario that runs, to begin with."),
    "pages": ("sites", "Time a recorded SITE's pages in a browser, behind one link and behind another."),
    "record": ("sites", "Record what a browser or any other command fetches, as a SITE to replay."),
    "replay": ("sites", "Run a command that finds a recorded SITE, with all its servers, behind a link."),
    "reproduce": ("papers", "Reproduce the experiments of a PAPER and judge its claims."),
    "router": ("emulation", "Shape what passes between two network interfaces."),
    "run": ("scenarios", "Run a SCENARIO: a TOML file, or a name or id that `catnip list` shows."),
    "schema": ("files", "Print the JSON Schema of scenario files."),
    "tmix": ("traces", "Write the connections that a SCENARIO replays as connection vectors of Tmix."),
    "trace": ("traces", "Send one transfer over one link and tell what happens to each of its packets."),
}
"""The module of each command, and what it does."""
COMPLETE = "_CATNIP_COMPLETE"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code."""
    _open_streams()
    if instruction := os.environ.get(COMPLETE):
        return shell_complete(catnip, {}, "catnip", COMPLETE, instruction)
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
    except ModuleNotFoundError as error:
        if error.name not in extras.EXTRAS:
            raise
        return _complain(extras.missing("this command", error.name))
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (KeyboardInterrupt, click.Abort):
        _complain("interrupted")
        return INTERRUPTED


class _Lazy(click.Group):
    """Commands that are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All of them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of them, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        name = "list_" if cmd_name == "list" else cmd_name
        command: click.Command = getattr(import_module(f"catnip.cli.{module}"), name)
        codes = told_exit_codes(cmd_name)
        if codes not in (command.epilog or ""):
            command.epilog = f"{command.epilog or ''}\n\n{codes}".strip()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """With a guess if there is no such command."""
        name = args[0]
        if name not in COMMANDS and (near := get_close_matches(name, COMMANDS, 1)):
            raise click.UsageError(f"No such command '{name}'. Did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(
    cls=_Lazy,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"Example: catnip reproduce catnip --quick --report build/report.html\n\n{told_exit_codes()}",
)
@click.version_option(__version__, prog_name="catnip")
@click.pass_context
def catnip(context: click.Context) -> None:
    """Packet-level simulation of context-aware Web transport.

    Leaves with 2 after bad input, with 130 if interrupted; what else a command leaves with, its help says.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _open_streams() -> None:
    """Standard streams may be closed, or know few letters."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 -- until the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace" if name == "stdout" else "backslashreplace")


def _complain(message: str) -> int:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
