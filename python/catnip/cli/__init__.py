"""The command line. Whatever the user got wrong ends in one line on stderr and exit code 2."""

import os
import re
import sys
from collections.abc import Sequence

import click

from catnip._core import InputError, __version__
from catnip.cli import emulation
from catnip.cli.models import model
from catnip.cli.options import BAD_INPUT, INTERRUPTED
from catnip.cli.papers import reproduce
from catnip.cli.recordings import har
from catnip.cli.scenarios import list_, run
from catnip.cli.traces import tmix, trace


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


for command in (run, reproduce, model, list_, trace, tmix, har, *emulation.COMMANDS):
    catnip.add_command(command)


def _complain(message: str) -> int:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
