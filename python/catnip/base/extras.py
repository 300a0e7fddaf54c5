"""What a plain install leaves out: the libraries that draw, make reports, write tables, and replay sites."""

from importlib.util import find_spec

from catnip._core import InputError

DISTRIBUTION = "catnip-net"
EXTRAS = {
    "dns": "replay",
    "jinja2": "report",
    "matplotlib": "plot",
    "mitmproxy": "replay",
    "pyarrow": "parquet",
    "pyroute2": "replay",
}
"""The extra of pyproject.toml that brings a library."""
CALLED = {"dns": "dnspython"}
"""Libraries that are installed by another name than they are used by."""


def need(what: str, *libraries: str) -> None:
    """Refuses what a library is missing for, before the long work and without loading it."""
    for library in libraries:
        if find_spec(library) is None:
            raise InputError(missing(what, library))


def missing(what: str, library: str) -> str:
    """What to do about it."""
    return f"{what}: needs {CALLED.get(library, library)}: pip install '{DISTRIBUTION}[{EXTRAS[library]}]'"
