"""Access to the pages of docs/ for tests."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def blocks(page: str, kind: str) -> list[str]:
    """Returns the fenced blocks of a page of docs/ in one language."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
