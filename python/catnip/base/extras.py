"""Optional libraries, which a plain install leaves out: for drawing, reports, Parquet, replay, clusters."""

from importlib.util import find_spec

from catnip._core import InputError

DISTRIBUTION = "catnip-net"
EXTRAS = {
    "certifi": "replay",
    "cryptography": "replay",
    "dns": "replay",
    "distributed": "dask",
    "h11": "replay",
    "h2": "replay",
    "jinja2": "report",
    "matplotlib": "plot",
    "pyarrow": "parquet",
    "pyroute2": "replay",
}
"""Extra of pyproject.toml that installs each optional library, by the library's import name."""
CALLED = {"dns": "dnspython"}
"""Distribution names of the optional libraries whose import name differs."""


def need(feature: str, *libraries: str) -> None:
    """Raises InputError if a library that `feature` needs is not installed; does not load the library."""
    for library in libraries:
        if find_spec(library) is None:
            raise InputError(missing(feature, library))


def missing(feature: str, library: str) -> str:
    """Returns the error message for a missing library, with the command that installs it."""
    return f"{feature}: needs {CALLED.get(library, library)}: pip install '{DISTRIBUTION}[{EXTRAS[library]}]'"
