"""Recorded sites that a scenario loads: the HARs and page files among its files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catnip import _core
from catnip._core import Scenario

HARS = (".har", ".har.gz")
"""Ends of the names of files that are read as a HAR, in lower case."""
DEFAULT_PORTS = {"http": ":80", "https": ":443"}


@dataclass(frozen=True)
class SiteObject:
    """Object of a recorded page; None stands for what the recording does not tell."""

    origin: int
    url: str
    bytes: int
    request_bytes: int
    after: int | None
    """Number of the object that must end before the request."""
    kind: str | None
    protocol: str | None
    priority: str | None
    blocks_rendering: bool


@dataclass(frozen=True)
class Site:
    """Recorded site: the objects of each page, in the order of the recording."""

    pages: Sequence[Sequence[SiteObject]]

    @classmethod
    def of_text(cls, text: str | bytes) -> "Site":
        """Returns the site of a page file, which must be a valid one."""
        document = json.loads(text)
        origins = [_without_default_port(origin) for origin in document["origins"]]
        return cls([[_object(one, origins) for one in page["objects"]] for page in document["pages"]])


def may_load(scenario: Scenario) -> bool:
    """Returns false only if no traffic of a scenario is of the kind that loads recorded sites."""
    return any(f"{quote}page{quote}" in scenario.text for quote in "'\"")


def sites_of(files: Mapping[str, bytes]) -> list[Site]:
    """Returns the recorded sites among the files of a scenario. Raises InputError."""
    found = []
    for name, contents in files.items():
        if name.lower().endswith(HARS):
            found.append(_of_har(contents))
        elif b'"catnip_page"' in contents:
            found.append(Site.of_text(contents))
    return found


def _of_har(contents: bytes) -> Site:
    from tempfile import TemporaryDirectory  # noqa: PLC0415 -- few commands need it

    with TemporaryDirectory() as folder:
        file = Path(folder, "recording.har")
        file.write_bytes(contents)
        text, _ = _core.read_har(file)
    return Site.of_text(text)


def _object(one: Mapping[str, Any], origins: Sequence[str]) -> SiteObject:
    return SiteObject(
        origin=one["origin"],
        url=origins[one["origin"]] + one["path"],
        bytes=one["bytes"],
        request_bytes=one["request_bytes"],
        after=one["after"],
        kind=one.get("kind"),
        protocol=one.get("protocol"),
        priority=one.get("priority"),
        blocks_rendering=one.get("holds") == "render",
    )


def _without_default_port(origin: str) -> str:
    return origin.removesuffix(DEFAULT_PORTS.get(origin.partition(":")[0], ""))
