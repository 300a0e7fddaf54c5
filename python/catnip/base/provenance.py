"""Where results come from: what was typed, and in which state the sources were."""

import shlex
import subprocess
import sys
from functools import partial

from catnip.base import paths

WRITTEN = (":!validation/*.html", ":!validation/*.md", ":!docs/figures", ":!docs/models")
"""Files in the checkout that come of runs, as git leaves them out."""


def command_line() -> str:
    """What was typed to start this program."""
    return shlex.join(["catnip", *sys.argv[1:]])


def commit() -> str | None:
    """Of the checkout that the package is in, if it is in one; `+` behind it says that files were changed.

    What reproductions write does not count: no run reads it, and every second report would have the mark.
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
