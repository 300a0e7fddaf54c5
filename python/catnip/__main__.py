"""`catnip`, and `python -m catnip`."""

import os
import sys

# NumPy's library of linear algebra, which no command uses, starts a thread per core as it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def start() -> int:
    """Runs the command line, loading which may be interrupted, too."""
    try:
        from catnip.cli import main  # noqa: PLC0415 -- this takes a while
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(start())
