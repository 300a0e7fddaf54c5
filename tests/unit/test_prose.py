"""Tests of the language rules of CONTRIBUTING.md.

Doc comments begin with a noun phrase or a verb, and no sentence has an indefinite person as its subject.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ["crates", "python", "tests", "tools", "benches", "examples/custom-policy/src", "fuzz/fuzz_targets"]
MAX_SHARE = 0.02
"""Largest share of doc comments that may break the rule, because some noun phrases begin with such words."""

FIRST_WORDS = [
    "What Whatever Who Whom Whose Whoever Which Whichever How Where Wherever When Whenever Whether Why",
    "That Those These This It Its They Their",
    "Nobody Somebody Everybody Nothing Something Everything",
    "Is Are Was Were Has Have Does Do Did Can May Must",
    "Of As At By For From In On Until To With Without If Before After Behind Beside",
    "Not Such So And Or But Also Then There",
]
FIRST_PHRASES = ["The same", "The one that", "The ones that", "The thing that", "All that"]
FRAGMENT = re.compile(rf"({'|'.join([*' '.join(FIRST_WORDS).split(), *FIRST_PHRASES])})\b")
"""Pattern of a doc comment whose beginning does not name the thing."""

PERSONS = re.compile(r"\b(nobody|whoever|whomever|somebody|everybody|anybody|whom)\b", re.IGNORECASE)
NAME = '"nobody"'
NAMED = {
    # The user account of Linux.
    "tests/system/test_link_user.py",
    "tests/system/test_way_out.py",
    # The name of a variant, which is a key in crates/lab/tests/fingerprints.txt and in
    # validation/.
    "python/catnip/papers/catnip/claims.toml",
    "python/catnip/papers/catnip/scenarios/catnip-e19.toml",
    "python/catnip/papers/diffserv/beyond.py",
    "python/catnip/papers/diffserv/claims.toml",
    "python/catnip/papers/diffserv/scenarios/diffserv-random.toml",
}
"""Files in which the quoted word of `NAME` is a name."""

RUST_DOC = re.compile(r"\s*//[/!] ?(?!/)(.*)")
PYTHON_DOC = re.compile(r'"""(.*?)"""', re.DOTALL)


def sources() -> list[Path]:
    found = (path for root in SOURCES for ending in ("*.rs", "*.py") for path in (ROOT / root).rglob(ending))
    return sorted(path for path in found if "target" not in path.parts)


def doc_comments(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the doc comments of a file, each with the number of its first line."""
    text = path.read_text()
    if path.suffix == ".py":
        for found in PYTHON_DOC.finditer(text):
            yield text[: found.start()].count("\n") + 1, " ".join(found[1].split())
        return
    first, lines = 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if doc := RUST_DOC.match(line):
            first = first or number
            lines.append(doc[1])
        elif lines:
            yield first, " ".join(lines)
            first, lines = 0, []


def test_doc_comments_begin_with_a_noun_phrase_or_a_verb() -> None:
    every = [(path, line, text) for path in sources() for line, text in doc_comments(path)]
    fragments = [
        f"{path.relative_to(ROOT)}:{line}: {text[:80]}" for path, line, text in every if FRAGMENT.match(text)
    ]
    share = len(fragments) / len(every)
    assert share < MAX_SHARE, f"{len(fragments)} of {len(every)} doc comments:\n" + "\n".join(fragments)


@pytest.mark.parametrize("ending", ["*.rs", "*.py", "*.md", "*.toml", "*.c", "*.h"])
def test_nobody_and_whoever_do_nothing(ending: str) -> None:
    roots = [ROOT / "docs", *(ROOT / root for root in SOURCES)]
    files = {path for root in roots for path in root.rglob(ending) if "target" not in path.parts}
    files |= {path for path in ROOT.glob(ending) if path.name != "CHANGELOG.md"}
    found = list[str]()
    for path in sorted(files - {Path(__file__)}):
        name = str(path.relative_to(ROOT))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if PERSONS.search(line.replace(NAME, "") if name in NAMED else line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)
