"""The commands of the emulator and of the agent: programs of their own, with privileges of their own."""

import os
import sys

import click

from catnip.base.programs import AGENT, CALLED, PROGRAM, program


def _hands_over(name: str, summary: str, to: str = PROGRAM) -> click.Command:
    """A command that becomes another program, which has the terminal, the signals and the exit code."""

    @click.command(
        name,
        help=summary,
        short_help=summary,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        becomes = program(to)
        sys.stdout.flush()
        # One that is a command by itself says so in its help.
        called = [CALLED, name] if to == PROGRAM else [f"{CALLED} {name}"]
        os.execv(becomes, [*called, *arguments])

    return command


agent = _hands_over("agent", "Mark what this host sends, by programs in its kernel.", AGENT)
link = _hands_over("link", "Run a command behind one emulated link.")
router = _hands_over("router", "Shape what passes between two network interfaces.")
