"""Congestion control of the servers of a replay, and of the commands behind its links."""

import shutil
import socket
from collections import Counter
from collections.abc import Sequence
from errno import ENOENT, EPERM
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from catnip._core import InputError

SYSCTLS = Path("/proc/sys/net/ipv4")
DEFAULT = SYSCTLS / "tcp_congestion_control"
"""File with the congestion control of new connections, for the network namespace of the reader or writer."""
MAX_NAME = 16
"""Size of the kernel's buffer for a name (TCP_CA_NAME_MAX)."""
# Makes the first argument the default, unless it is empty, writes the default to the file that the second one
# names, and becomes the command that follows.
SCRIPT = f"""
if [ -n "$1" ] && ! {{ echo "$1" >{DEFAULT}; }} 2>/dev/null; then
  echo "error: --congestion: $1: not permitted behind the link" >&2
  exit 2
fi
{{ read -r found <{DEFAULT} && echo "$found" >>"$2"; }} 2>/dev/null
shift 2
exec "$@"
"""


def choose(name: str) -> None:
    """Makes a congestion control the default of this network namespace. Raises InputError."""
    try:
        DEFAULT.write_text(name, encoding="ascii")
    except OSError as error:
        reason = error.strerror
        if error.errno == ENOENT:
            reason = f"not available; available: {_listed('tcp_available_congestion_control')}"
        elif error.errno == EPERM:
            allowed = f"{_listed('tcp_allowed_congestion_control')} {name}"
            setting = f"net.ipv4.tcp_allowed_congestion_control='{allowed}'"
            reason = f"not permitted in network namespaces; permit it: sysctl {setting}"
        raise InputError(f"--congestion: {name}: {reason}") from error


def of(connection: socket.socket) -> str:
    """Returns the congestion control of a connection."""
    name: bytes = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, MAX_NAME)
    return name.partition(b"\0")[0].decode()


class OfCommands:
    """Congestion control of the namespaces of commands; for use in `with`, which removes its file."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._folder = TemporaryDirectory(prefix="catnip-congestion-")
        self._reports = Path(self._folder.name) / "reports"
        # Commands of other users, which know the path, write to the file.
        Path(self._folder.name).chmod(0o711)
        self._reports.touch()
        self._reports.chmod(0o666)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def wrapped(self, command: Sequence[str]) -> list[str]:
        """Returns a command that chooses and reports the congestion control, and then becomes `command`."""
        if shutil.which(command[0]) is None:
            # The link tells what is wrong with it.
            return list(command)
        return ["sh", "-c", SCRIPT, "sh", self._name or "", str(self._reports), *command]

    def counts(self) -> dict[str, int]:
        """Returns the numbers of commands by the congestion control that their namespaces had."""
        return dict(Counter(self._reports.read_text(encoding="utf-8", errors="replace").split()))


def _listed(name: str) -> str:
    return " ".join((SYSCTLS / name).read_text(encoding="ascii").split())
