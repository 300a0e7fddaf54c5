"""Command line interface. Invalid input is reported in one line on stderr, with exit code 2.

Modules of commands are imported on use, so that help and completion start fast.
"""

import os
import re
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

import click
from click.shell_completion import shell_complete

from catnip._core import InputError, __version__
from catnip.base import extras
from catnip.base.verbosity import complain
from catnip.cli.options import BAD_INPUT, DEFECT, INTERRUPTED, exit_codes_text

COMMANDS = {
    "agent": ("emulation", "Mark the packets that this host sends, with programs in its kernel."),
    "bursts": ("recordings", "Summarize the bursts that servers send in a packet capture."),
    "capture": ("traces", "Turn a packet capture into connection vectors, which a scenario can replay."),
    "check": ("files", "Check scenario FILEs and summarize their contents."),
    "convert": ("recordings", "Convert a recorded network path of another tool into a path file."),
    "emulate": ("real_time", "Run a scenario in real time, with real programs on some of its hosts."),
    "explore": ("explorer", "Open a page that runs a SCENARIO in the browser."),
    "har": (
        "recordings",
        "Summarize the pages in a HAR 1.2 file, or export simulated loads of pages as one.",
    ),
    "link": ("emulation", "Run a command behind an emulated link."),
    "list": ("scenarios", "List the scenarios, the names that scenarios may use, and the result tables."),
    "model": ("models", "Predict the completion time of a transfer with every model, and simulate it."),
    "new": ("files", "Write a small scenario file to start from."),
    "pages": ("sites", "Measure the page load times of a recorded SITE in a browser, over several links."),
    "record": ("sites", "Record what a browser or another command fetches, as a SITE for replay."),
    "replay": ("sites", "Run a command behind an emulated link to the servers of a recorded SITE."),
    "reproduce": ("papers", "Reproduce the experiments of a PAPER and judge its claims."),
    "rerun": ("stored", "Repeat the runs of a folder DIR of results, and compare the rows bit by bit."),
    "results": ("stored", "Summarize the results of a folder DIR, compare or export them."),
    "router": ("emulation", "Shape the traffic between two network interfaces."),
    "run": ("scenarios", "Run a SCENARIO: a TOML file, or a name or ID from `catnip list`."),
    "schema": ("files", "Print the JSON Schema of scenario files."),
    "tmix": ("traces", "Write the connections that a SCENARIO replays as Tmix connection vectors."),
    "trace": ("traces", "Simulate one transfer over one link and trace each of its packets."),
}
"""Module of catnip.cli that defines each command, and the command's summary for the help."""
COMPLETE = "_CATNIP_COMPLETE"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line, by default that of this process, and returns its exit code."""
    _open_streams()
    if instruction := os.environ.get(COMPLETE):
        return shell_complete(catnip, {}, "catnip", COMPLETE, instruction)
    try:
        # click's own main() prints the usage above an error and exits with 1 after Ctrl-C.
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
        # The reader has closed the pipe. Python must not report that at exit either.
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
    except Exception:
        # Python itself exits with 1, which says of a reproduction that a claim is not reproduced.
        traceback.print_exc()
        return DEFECT


class _Lazy(click.Group):
    """Group of commands whose modules are imported when a command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a command and returns it; None if it does not exist."""
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        name = "list_" if cmd_name == "list" else cmd_name
        command: click.Command = getattr(import_module(f"catnip.cli.{module}"), name)
        codes = exit_codes_text(cmd_name)
        if codes not in (command.epilog or ""):
            command.epilog = f"{command.epilog or ''}\n\n{codes}".strip()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolves a command; the error for an unknown name suggests a similar one."""
        name = args[0]
        if name not in COMMANDS and (similar := get_close_matches(name, COMMANDS, 1)):
            raise click.UsageError(f"No such command '{name}'. Did you mean '{similar[0]}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(
    cls=_Lazy,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"Example: catnip reproduce catnip --quick --report build/report.html\n\n{exit_codes_text()}",
)
@click.version_option(__version__, prog_name="catnip")
@click.pass_context
def catnip(context: click.Context) -> None:
    """Packet-level simulation of context-aware Web transport.

    Exits with 2 after invalid input and with 130 if interrupted. The help of each command lists its other
    exit codes.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _open_streams() -> None:
    """Makes stdout and stderr usable even if they are closed or their encoding lacks some characters."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 -- open until exit
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace" if name == "stdout" else "backslashreplace")


def _complain(message: str) -> int:
    complain(message)
    return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
