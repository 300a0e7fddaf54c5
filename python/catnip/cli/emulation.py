"""Commands agent, link and router, which run the emulator and the agent as separate programs."""

import os
import sys

import click

from catnip.base.programs import AGENT, CALLED, PROGRAM, program


def _hands_over(name: str, summary: str, to: str = PROGRAM) -> click.Command:
    """Creates a click command that replaces this process by the emulator or the agent, with its arguments."""

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
        # A program with a single command shows the name of that command in its help.
        called = [CALLED, name] if to == PROGRAM else [f"{CALLED} {name}"]
        os.execv(becomes, [*called, *arguments])

    return command


agent = _hands_over("agent", "Mark the packets that this host sends, with programs in its kernel.", AGENT)
link = _hands_over("link", "Run a command behind an emulated link.")
router = _hands_over("router", "Shape the traffic between two network interfaces.")
