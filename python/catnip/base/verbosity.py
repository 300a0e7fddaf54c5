"""Messages of a command on stderr: how many there are, and what of their text reaches a terminal."""

import re
from enum import Enum
from time import perf_counter

import click

_KEY = "catnip.base.verbosity"
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that control terminals, lines and tabs excepted, or the direction of text."""


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


def plain(text: str) -> str:
    """Returns a text with escapes in place of the characters that would control a terminal.

    Names of files, addresses of recorded pages and messages of other programs may contain them.
    """
    return _CONTROLS.sub(lambda control: f"\\u{{{ord(control[0]):x}}}", text)


def tell(message: str) -> None:
    """Prints a line on stderr."""
    click.echo(plain(message), err=True)


def complain(message: str) -> None:
    """Prints an error on stderr, in one line."""
    tell(f"error: {' '.join(message.split())}")


def note(message: str) -> None:
    """Prints a message with the seconds since the command began, if --verbose is set."""
    of, began_s = _settings()
    if of is Loudness.VERBOSE:
        tell(f"{perf_counter() - began_s:8.3f} s  {message}")


def warn(message: str) -> None:
    """Prints a warning, unless --quiet is set."""
    if loudness() is not Loudness.QUIET:
        tell(f"warning: {message}")


def _settings() -> tuple[Loudness, float]:
    context = click.get_current_context(silent=True)
    settings: tuple[Loudness, float] = (context.meta if context else {}).get(_KEY, (Loudness.USUAL, 0.0))
    return settings
