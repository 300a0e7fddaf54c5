"""What is called a deviation is explained."""

import re

from catnip import paths


def test_every_note_of_a_claim_is_a_heading_of_the_deviations() -> None:
    headings = re.findall(r"^## (.+)$", (paths.root() / "docs/deviations.md").read_text("utf-8"), re.M)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    modules = (paths.root() / "python/catnip/reproduce").rglob("*.py")
    notes = {
        note for module in modules for note in re.findall(r'note="([a-z0-9-]+)"', module.read_text("utf-8"))
    }
    assert notes
    assert notes <= anchors
