"""Functions with which tests read README.md and the pages of docs/."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")


def blocks(page: str, kind: str) -> list[str]:
    """Returns the fenced blocks in the language `kind` of a page of docs/."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """Returns the anchors of the headings in the Markdown text of a page."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    """Returns the links of a page to files or headings that do not exist."""
    dead = []
    for link in LINK.findall(re.sub(r"(?s)```.*?```", "", page.read_text(encoding="utf-8"))):
        target, _, anchor = link.partition("#")
        file = page.parent / target if target else page
        if "://" not in link and not (
            file.exists() and (not anchor or anchor in anchors(file.read_text(encoding="utf-8")))
        ):
            dead.append(link)
    return dead
