"""Results of the long steps of a reproduction, on disk, so that an interrupted one can go on."""

import builtins
import hashlib
import json
import os
import pickle
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import catnip
from catnip._core import InputError
from catnip.base.locks import contents
from catnip.base.verbosity import note
from catnip.report.values import THIS

Result = TypeVar("Result")
Key = TypeVar("Key")

REQUEST = "request.json"
USUAL = {"kernel": THIS}
"""Keys that requests did not always have, with the values that they had."""
SHOWING = {"cli", "figures", "report"}
"""Folders of the package whose code only shows results."""
SAFE = {"set", "frozenset", "slice", "complex", "range", "bytearray"}
"""Built-in names that a part may contain besides literals."""


@dataclass(frozen=True)
class Parts:
    """Folder with a file for the result of each finished step; without a folder nothing is kept."""

    folder: Path | None = None

    def get(self, key: object, make: Callable[[], Result]) -> Result:
        """Returns the stored result of the step `key`, or that of `make`, which is then stored.

        `key` must have the same text in every process.
        """
        if known := self.known([key]):
            return cast(Result, known[key])
        result = make()
        self.put(key, result)
        return result

    def known(self, keys: Iterable[Key]) -> dict[Key, Any]:
        """Returns the results of those of the steps `keys` that are stored."""
        results: dict[Key, Any] = {}
        for key in keys if self.folder else ():
            file = self._file(key)
            with suppress(FileNotFoundError), file.open("rb") as stored:
                try:
                    results[key] = _Reader(stored).load()
                except (pickle.UnpicklingError, EOFError, AttributeError, ImportError) as error:
                    raise InputError(f"--out: {file}: not a part of a reproduction: {error}") from None
        return results

    def put(self, key: object, result: object) -> None:
        """Stores the result of the step `key`; its file appears only when it is complete."""
        if self.folder is None:
            return
        file = self._file(key)
        aside = file.with_suffix(f".{os.getpid()}")
        with aside.open("wb") as written:
            pickle.dump(result, written, protocol=5)
            written.flush()
            os.fsync(written.fileno())
        aside.replace(file)

    def _file(self, key: object) -> Path:
        assert self.folder is not None
        return self.folder / f"{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.part"


def opened(folder: Path | None, request: Mapping[str, Any]) -> Parts:
    """Returns the parts of a request in a folder, which is made or, after a change of the program, emptied.

    Raises InputError if the folder has the parts of another request or other files, or if another user can
    write to it.
    """
    if folder is None:
        return Parts()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InputError(f"--out: {folder}: another user can write to it")
    asked = {**request, "program": program()}
    file = folder / REQUEST
    try:
        before = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if contents(folder):
            raise InputError(f"--out: {folder}: has files that are not of a reproduction") from None
        before = asked
        file.write_text(json.dumps(asked) + "\n", encoding="utf-8")
    except ValueError:
        raise InputError(f"--out: {file}: not written by a reproduction") from None
    for key, value in request.items():
        if (stored := before.get(key, USUAL.get(key))) != value:
            told = f"{folder} has results for {key} = {stored}, not {value}"
            raise InputError(f"--out: {told}; choose another folder or remove it")
    if before["program"] != asked["program"]:
        note(f"{folder} has results of another version of the program, which are measured again")
        for one in contents(folder):
            one.unlink()
        return opened(folder, request)
    for unfinished in folder.glob("*.[0-9]*"):
        unfinished.unlink()
    return Parts(folder)


def program() -> str:
    """Returns a hash of the files that determine results: the compiled module, scenarios and Python.

    Claims, with their bands, and the code that shows results do not.
    """
    root = Path(catnip.__file__).parent
    files = sorted(
        path
        for path in root.rglob("*")
        if path.suffix in {".py", ".so", ".toml", ".csv"}
        and path.name != "claims.toml"
        and path.relative_to(root).parts[0] not in SHOWING
    )
    total = hashlib.sha256()
    for path in files:
        total.update(f"{path.relative_to(root)} {path.stat().st_size}\n".encode())
        total.update(path.read_bytes())
    return total.hexdigest()


class _Reader(pickle.Unpickler):
    """Unpickler that makes nothing but arrays and the classes of this package."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)

    def find_class(self, module: str, name: str) -> Any:
        """Returns a class by name; raises UnpicklingError for all but data."""
        if module == "builtins" and name in SAFE:
            return getattr(builtins, name)
        of_numpy = module.startswith("numpy") and name in {
            "ndarray",
            "dtype",
            "_reconstruct",
            "scalar",
            "_frombuffer",
        }
        if of_numpy or (module.startswith("catnip.") and name[:1].isupper()):
            return getattr(import_module(module), name)
        raise pickle.UnpicklingError(f"{module}.{name}: not data")
