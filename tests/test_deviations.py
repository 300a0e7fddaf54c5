"""Whatever excuses a miss is written down."""

import re

import pytest

from catnip import paths
from catnip.papers import PAPERS, paper

ANCHOR = re.compile(r'note="([a-z0-9-]+)"')


def anchors() -> set[str]:
    """The headings of docs/deviations.md as a link names them."""
    headings = re.findall(r"^#+ (.+)$", (paths.root() / "docs" / "deviations.md").read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAPERS)
def test_every_reason_given_is_documented(name: str) -> None:
    module = paths.root() / "python" / paper(name).__name__.replace(".", "/")
    sources = [module.with_suffix(".py")] if module.with_suffix(".py").exists() else module.glob("*.py")
    given = {anchor for source in sources for anchor in ANCHOR.findall(source.read_text())}
    assert given
    assert given <= anchors()


def test_every_link_of_the_published_table_leads_somewhere() -> None:
    linked = re.findall(r"deviations\.md#([^)]+)\)", (paths.root() / "validation" / "catnip.md").read_text())
    assert set(linked) <= anchors()
