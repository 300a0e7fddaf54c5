"""TCP transfer from a sender behind an emulated link to a receiver outside.

As a program, it measures the transfers of a file, one after the other, and writes a file of JSON for each:
certificate, sender's output and kernel. It imports only the standard library, so that a guest in virtual time
needs nothing else.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ENDED = (0, 3)
"""Exit codes of a link whose sender has ended well, the second with a red certificate."""
PYTHON = (sys.executable, "-I", "-S", "-B")
SENDER = str(Path(__file__).with_name("sender.py"))
WINDOW = "window="
"""Switch of a sender whose receiver has a fixed window of this number of bytes, below `BUFFER_BYTES`."""
BUFFER_BYTES = 200_000
TIMEOUT_S = 90.0
"""Longest wait of the receiver for a connection or for bytes, s."""


class Failed(Exception):
    """Transfer that was not made; the text is the reason."""


def main(program: str, jobs: str, folder: str) -> None:
    """Measures the transfers of the file `jobs` and writes NUMBER.json for each into `folder`."""
    for number, (options, arguments) in enumerate(json.loads(Path(jobs).read_text())):
        try:
            certificate, output = transfer(program, options, arguments)
        except Failed as error:
            sys.exit(f"the sender failed: {error}")
        result = {"certificate": certificate, "output": output, "release": os.uname().release}
        Path(folder, f"{number}.json").write_text(json.dumps(result))


def transfer(
    program: str, options: Mapping[str, str], arguments: Sequence[str]
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Runs a sender behind a link and a receiver outside; returns the certificate and the sender's output.

    `program` is the emulator, `options` are those of `catnip link`, `arguments` those of the sender behind
    the port; one of them can be a `WINDOW`. Raises Failed.
    """
    fixed = [int(one.removeprefix(WINDOW)) for one in arguments if one.startswith(WINDOW)]
    with TemporaryDirectory(prefix="catnip-link-") as folder, socket.create_server(("0.0.0.0", 0)) as server:
        certificate = Path(folder) / "certificate.json"
        for window_bytes in fixed:
            # A buffer of a given size is not tuned; the window is the clamp.
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, window_bytes)
        receiver = threading.Thread(target=_receive, args=(server, fixed), daemon=True)
        receiver.start()
        port = str(server.getsockname()[1])
        link = [f"--{name}={value}" for name, value in options.items()]
        command = [program, "link", *link, "--quiet", f"--certificate={certificate}", "--"]
        command += [*PYTHON, SENDER, port, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in ENDED:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise Failed(lines[-1].removeprefix("error: "))
        receiver.join()
        return json.loads(certificate.read_text()), json.loads(done.stdout)


def _receive(server: socket.socket, fixed: Sequence[int]) -> None:
    server.settimeout(TIMEOUT_S)
    try:
        connection, _ = server.accept()
    except OSError:
        # The sender never connected and reports the reason.
        return
    with connection:
        connection.settimeout(TIMEOUT_S)
        while connection.recv(1 << 20):
            for window_bytes in fixed:
                # The first segments tell the kernel what they take of the buffer, and it forgets the clamp.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, window_bytes)


if __name__ == "__main__":
    main(*sys.argv[1:])
