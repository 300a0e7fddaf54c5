"""How much a command says on stderr beside errors, and what is done when, for one who asks."""

from enum import Enum
from time import perf_counter

import click

_KEY = "catnip.base.verbosity"


class Loudness(Enum):
    """What a command says on stderr beside errors."""

    QUIET = "quiet"
    USUAL = "usual"
    VERBOSE = "verbose"


def speak(context: click.Context, loudness: Loudness) -> None:
    """From now on the command of this context is so loud; its time begins."""
    context.meta[_KEY] = loudness, perf_counter()


def loudness() -> Loudness:
    """Of the command that runs."""
    return _spoken()[0]


def note(what: str) -> None:
    """Says what is done, behind the seconds since the command began, if --verbose asks for it."""
    of, began_s = _spoken()
    if of is Loudness.VERBOSE:
        click.echo(f"{perf_counter() - began_s:8.3f} s  {what}", err=True)


def _spoken() -> tuple[Loudness, float]:
    context = click.get_current_context(silent=True)
    spoken: tuple[Loudness, float] = (context.meta if context else {}).get(_KEY, (Loudness.USUAL, 0.0))
    return spoken
