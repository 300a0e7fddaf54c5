"""Page that has the simulator in it: copies that begin with a scenario."""

import base64
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from catnip._core import InputError, Scenario
from catnip.base import paths

PAGE = paths.PACKAGE / "explorer.html"
"""Page that `make page` builds; a wheel has it."""
VERSION = 2
"""Version of a state, as in page/src/state.ts."""
LARGEST_BYTES = 64 << 20
"""Largest size of the files of a scenario that a page takes."""
PLACE = '<script type="text/plain" id="state"></script>'


def page_of(state: str | None) -> str:
    """Returns the page; it begins with a state (`state_of`), or with its usual scenario.

    Raises InputError if this installation has no page.
    """
    if not PAGE.exists():
        raise InputError("explore: this installation has no page: `make page` builds it, which needs Node")
    page = PAGE.read_text(encoding="utf-8")
    if state is None:
        return page
    before, _, after = page.partition(PLACE)
    return f"{before}{PLACE.replace('><', f'>{state}<')}{after}"


def state_of(
    scenario: Scenario,
    variants: Sequence[str] = (),
    changes: Sequence[tuple[str, str]] = (),
    seed: int = 1,
) -> str:
    """Returns the state of a page that shows a scenario and two of its variants, as in the page's address.

    Scenarios that the page does not have go into it with all their files. Raises InputError if they are too
    large.
    """
    name = Path(scenario.path).stem if is_bundled(scenario) else None
    path, text, _, files = scenario.bundle()
    size = len(text) + sum(map(len, files.values()))
    if name is None and size > LARGEST_BYTES:
        raise InputError(f"{scenario.path}: {size >> 20} MB with its files: a page takes at most 64")
    given = {
        "path": Path(path).name,
        "text": text,
        "files": {one: base64.b64encode(contents).decode() for one, contents in files.items()},
    }
    chosen = [*variants, "", ""][:2]
    sides = [{"variant": one, "set": dict(changes)} for one in chosen]
    return packed({"scenario": name or given, "sides": sides, "seed": seed})


def packed(state: dict[str, Any]) -> str:
    """Returns a state as text: JSON, deflated, in base64url."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    document = json.dumps({"v": VERSION, **state}, ensure_ascii=False).encode()
    return base64.urlsafe_b64encode(deflate.compress(document) + deflate.flush()).decode().rstrip("=")


def is_bundled(scenario: Scenario) -> bool:
    """Returns true if a scenario belongs to the package, and so to the page."""
    path = Path(scenario.path)
    found = paths.scenario_file(path.stem)
    return found is not None and path.exists() and found.samefile(path)
