"""Choice of simulated loads in stored results."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from catnip._core import InputError
from catnip.analysis import loads
from catnip.analysis.loads import Load
from catnip.base.ranges import runs_of
from catnip.report.har import Run
from catnip.store import results
from catnip.store.results import Manifest
from catnip.store.sites import sites_of
from catnip.store.tables import Table


@dataclass(frozen=True)
class Choice:
    """Options that choose loads of a folder of results; None for the first there is."""

    variant: str | None = None
    seed: int | None = None
    client: int | None = None
    load: int = 1
    page: int | None = None


def chosen(folder: Path, choice: Choice) -> tuple[Run, list[Load]]:
    """Returns a run of stored results and the chosen loads of it, one of each page. Raises InputError."""
    manifest, tables = _read(folder)
    variant = _variant(folder, manifest, choice.variant)
    seed = _one_of(f"{folder}: --seed", choice.seed, manifest.seeds_of(variant))
    name = manifest.variants[variant]
    found = loads.loads_of(tables, variant, seed)
    if not found:
        raise InputError(f"{folder}: {name}, seed {seed}: no page of a recorded site was loaded")
    client = _one_of(f"{folder}: --client", choice.client, sorted({load.client for load in found}))
    of_client = [load for load in found if load.client == client]
    pages = sorted({load.page for load in of_client})
    if choice.page is not None:
        pages = [_one_of(f"{folder}: --page", choice.page, pages)]
    known = sorted({load.number for load in of_client if load.page in pages})
    number = _one_of(f"{folder}: --load", choice.load, known)
    picked = [load for load in of_client if load.page in pages and load.number == number]
    of_group = [load for load in found if load.group == picked[0].group]
    try:
        site = loads.site_of(sites_of(manifest.rebuilt().bundle()[3]), of_group)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    if site is None:
        raise InputError(f"{folder}: manifest: files: none has the pages of {picked[0].group}")
    words = f"Simulated load {number} of {manifest.scenario}: variant {name}, seed {seed}, client {client}"
    return Run(words, site, of_group), picked


def _read(folder: Path) -> tuple[Manifest, dict[str, Table]]:
    for table in loads.TABLES:
        if (folder / "manifest.json").exists() and not (folder / f"{table}.parquet").exists():
            raise InputError(f"{folder}: has no table {table}")
    return results.read(folder, loads.TABLES)


def _variant(folder: Path, manifest: Manifest, name: str | None) -> int:
    known = manifest.variants
    if name is None and len(known) > 1:
        raise InputError(f"{folder}: needs --variant, one of {', '.join(known)}")
    if name is not None and name not in known:
        raise InputError(f"{folder}: --variant: {name} is not one of {', '.join(known)}")
    return 0 if name is None else known.index(name)


def _one_of(option: str, value: int | None, known: Sequence[int]) -> int:
    """Returns a number of an option that is among `known`, by default the first of them."""
    if value is None:
        return known[0]
    if value not in known:
        raise InputError(f"{option}: {value} is not one of {_listed(known)}")
    return value


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(
        f"{first}" if first == last else f"{first} to {last}" for first, last in runs_of(numbers)
    )
