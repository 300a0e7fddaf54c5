"""`catnip`, and `python -m catnip`."""

import sys


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
