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
    """Yields the path of a temporary file beside `file`, which replaces `file` at the end of the block.

    If the block fails, the temporary file is removed. A device or a pipe is written directly. An OSError of
    the block is raised with the name of the file.
    """
    target = file.resolve()
    is_special = target.exists() and not target.is_file()
    aside = target if is_special else target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield aside
        if not is_special:
            aside.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(file)) from error
    finally:
        if not is_special:
            aside.unlink(missing_ok=True)
