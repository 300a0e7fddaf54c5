"""Entry point of `catnip` and of `python -m catnip`."""

import os
import sys

# OpenBLAS, NumPy's library of linear algebra, starts a thread per core on loading; no command uses it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def start() -> int:
    """Runs the command line; reports an interrupt in one line, even while the modules are loading."""
    try:
        from catnip.cli import main  # noqa: PLC0415 -- slow to load
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(start())
