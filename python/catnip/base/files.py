"""Files that appear only when they are complete: written aside, and renamed."""

import errno
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
    try:
        _refuse_foreign(file)
        target = file.resolve()
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


def _refuse_foreign(file: Path) -> None:
    """Raises PermissionError if root would write where another user has put a link or a pipe.

    As by fs.protected_symlinks and fs.protected_fifos, which cover neither a path that is read first nor all
    machines. What belongs to the owner of the folder is that user's own.
    """
    if os.geteuid() != 0 or not (file.is_symlink() or file.is_fifo()):
        return
    if file.lstat().st_uid not in (0, file.parent.stat().st_uid):
        raise PermissionError(errno.EACCES, "a link or a pipe of another user")
