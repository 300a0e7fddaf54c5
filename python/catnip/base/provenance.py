"""Provenance of results: the command line and the state of the sources."""

import shlex
import subprocess
import sys
from functools import partial

from catnip._core import __version__
from catnip.base import paths

WRITTEN = (
    ":!validation/*.html",
    ":!validation/*.md",
    ":!validation/*.json",
    ":!docs/figures",
    ":!docs/models",
)
"""Pathspecs for git that exclude the files of a checkout that `catnip reproduce` generates."""


def command_line() -> str:
    """Returns the command line that started this program."""
    return shlex.join(["catnip", *sys.argv[1:]])


def program() -> str:
    """Returns name and version of this program, with the commit of its checkout, if any."""
    at = commit()
    return f"catnip {__version__}" + (f" at {at}" if at else "")


def commit() -> str | None:
    """Returns the commit of the checkout around the package, if any; a trailing `+` marks changed files.

    Files that `catnip reproduce` writes do not count as changes: no run reads them, and writing one report
    would mark the next one as changed.
    """
    root = paths.checkout()
    if root is None or not (root / ".git").exists():
        return None
    try:
        git = partial(subprocess.run, cwd=root, capture_output=True, text=True, check=True)
        changed = git(["git", "status", "--porcelain", "--untracked-files=no", "--", ".", *WRITTEN]).stdout
        return git(["git", "rev-parse", "HEAD"]).stdout.strip() + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return None
