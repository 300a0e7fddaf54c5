"""Files that appear only when they are complete: written aside, and renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write(file: Path, text: str, encoding: str = "utf-8") -> None:
    """Writes a text to a file, which keeps its former contents if writing fails.

    Raises OSError with the name of the file.
    """
    with replacing(file) as aside:
        aside.write_text(text, encoding=encoding)


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Yields the path of a new file beside `file`, which replaces `file` at the end of the block.

    Its name cannot be guessed, so that no link waits there. If the block fails, the new file is removed. A
    device or a pipe is written directly. An OSError of the block is raised with the name of the file.
    """
    target = file.resolve()
    try:
        if target.exists() and not target.is_file():
            yield target
            return
        aside = target.with_name(f".{target.name}.{os.urandom(8).hex()}")
        os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            yield aside
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(file)) from error
