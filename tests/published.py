"""Access of tests to the committed claims of the papers in validation/."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def published(name: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Yields the claims in validation/`name`.md: id, text, our value as shown, band and verdict."""
    text = (ROOT / "validation" / f"{name}.md").read_text(encoding="utf-8")
    for line in text.splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 8 and re.match(r"[A-Z]{2,3}-[SE]\d", cells[0]):
            yield cells[0], cells[1], cells[4], cells[6], re.sub(r"\[(\w+)\].*", r"\1", cells[7])
