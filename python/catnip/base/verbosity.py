"""Verbosity of a command on stderr, and timed messages about its progress."""

from enum import Enum
from time import perf_counter

import click

_KEY = "catnip.base.verbosity"


class Loudness(Enum):
    """Amount of messages on stderr in addition to errors."""

    QUIET = "quiet"
    USUAL = "usual"
    VERBOSE = "verbose"


def set_loudness(context: click.Context, loudness: Loudness) -> None:
    """Sets the verbosity of the command of this click context and starts the clock of its messages."""
    context.meta[_KEY] = loudness, perf_counter()


def loudness() -> Loudness:
    """Returns the verbosity of the running command."""
    return _settings()[0]


def note(message: str) -> None:
    """Prints a message with the seconds since the command began, if --verbose is set."""
    of, began_s = _settings()
    if of is Loudness.VERBOSE:
        click.echo(f"{perf_counter() - began_s:8.3f} s  {message}", err=True)


def warn(message: str) -> None:
    """Prints a warning, unless --quiet is set."""
    if loudness() is not Loudness.QUIET:
        click.echo(f"warning: {message}", err=True)


def _settings() -> tuple[Loudness, float]:
    context = click.get_current_context(silent=True)
    settings: tuple[Loudness, float] = (context.meta if context else {}).get(_KEY, (Loudness.USUAL, 0.0))
    return settings
