"""Tests of `link --user`: what a command of another user gets of root's terminal, environment and files."""

import json
import os
import pty
import re
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from catnip._core import InputError
from catnip.base import programs

USER = "nobody"


def missing() -> str | None:
    try:
        programs.program()
    except InputError as error:
        return f"nothing in real time: {error}"
    return None if os.geteuid() == 0 else "only root runs commands as another user"


REASON = missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
NAMESPACE = ["unshare", "--net", "--"]
LINK = f"{programs.program() if REASON is None else ''} link --quiet --tolerance 60s --user {USER} --"
PRIVILEGES = "grep NoNewPrivs /proc/self/status"
TYPES = """
import fcntl, os, sys, termios
print("terminal", os.isatty(0), os.stat(os.ttyname(0)).st_uid == os.getuid())
for typed in sys.argv[1] + chr(10):
    fcntl.ioctl(0, termios.TIOCSTI, typed)
"""


class Shell:
    """Shell of root in a terminal, with a network namespace of its own."""

    def __init__(self) -> None:
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.execvp(NAMESPACE[0], [*NAMESPACE, "sh", "-c", "PS1= ENV= exec sh -i"])

    def type(self, line: str) -> None:
        os.write(self.terminal, line.encode() + b"\n")

    def until(self, pattern: str, limit_s: float = 20) -> str:
        """Returns what the terminal shows until a line matches the pattern."""
        shown, end = "", time.monotonic() + limit_s
        while not re.search(pattern, shown, re.MULTILINE):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.terminal], [], [], left)[0]:
                raise AssertionError(f"no {pattern!r} in {shown!r}")
            shown += os.read(self.terminal, 1 << 16).decode(errors="replace").replace("\r", "")
        return shown


@pytest.fixture
def shell() -> Iterator[Shell]:
    started = Shell()
    yield started
    os.close(started.terminal)
    os.waitpid(started.process, 0)


@pytest.fixture
def readable() -> Iterator[Path]:
    """Returns a folder that all users can read."""
    with tempfile.TemporaryDirectory(prefix="catnip-user-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_command_cannot_type_into_the_shell_that_has_started_it(shell: Shell, readable: Path) -> None:
    (readable / "types.py").write_text(TYPES)
    owned = readable / "owned"
    shell.type(f"{LINK} python3 {readable}/types.py 'id -u >{owned}'; echo code $?")
    shell.until("^terminal True True$[^$]*code 0$")
    # What is typed now runs after all that the command could have typed.
    shell.type("echo end of $((20 + 3))")
    shell.until("^end of 23$")
    assert not owned.exists()


def test_a_command_has_a_terminal_of_its_own_that_passes_on_what_is_typed(shell: Shell) -> None:
    shell.type("stty rows 33 columns 99; stty -a; echo shown $((1 + 1))")
    before = shell.until("^shown 2$")
    shell.type(f"{LINK} sh -c 'stty size; read typed; echo got $typed; exit 7'; echo code $?")
    shell.until("^33 99$")
    shell.type("hello")
    shell.until("^got hello\ncode 7$")
    shell.type(f"{LINK} sh -c 'echo waits; exec sleep 60'; echo code $?")
    shell.until("^waits$")
    os.write(shell.terminal, b"\x03")
    shell.until("code 130$")
    shell.type("stty -a; echo shown $((1 + 1))")
    after = shell.until("^shown 2$")
    settings = [text[text.index("speed") : text.index("shown 2")] for text in (before, after)]
    assert settings[0] == settings[1]


def test_input_that_is_no_terminal_reaches_a_command_as_it_is(shell: Shell) -> None:
    shell.type(f"printf 'a\\001b\\n' | {LINK} od -An -c; echo code $?")
    shell.until(r"^ +a +001 +b +\\n\ncode 0$")
    # With a terminal for output only, nothing that is typed reaches the command.
    shell.type(f"{LINK} cat | cat; echo code $?")
    shell.until("^code 0$")


def test_a_command_gets_the_environment_of_a_login_and_no_files_of_root(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("only root reads this")
    says = "import json, os; print(json.dumps([list(os.environ), os.listdir('/proc/self/fd')]))"
    environment = {
        **os.environ,
        "SECRET_TOKEN": "abc",
        "SSH_AUTH_SOCK": "/tmp/agent",
        "CATNIP_X": "1",
        "LANG": "C",
        "TERM": "xterm",
    }
    with secret.open() as file:
        os.dup2(file.fileno(), 77)
        try:
            done = subprocess.run(
                [*NAMESPACE, *LINK.split(), "sh", "-c", f'{PRIVILEGES}; python3 -c "{says}"'],
                capture_output=True,
                text=True,
                check=True,
                env=environment,
                pass_fds=[77],
            )
        finally:
            os.close(77)
    privileges, rest = done.stdout.splitlines()
    variables, descriptors = json.loads(rest)
    assert privileges.split() == ["NoNewPrivs:", "1"]
    ours = {name for name in variables if name.startswith("CATNIP_")}
    assert "CATNIP_X" in ours and "CATNIP_OUTSIDE" in ours
    shells = {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"}
    login = {"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
    assert set(variables) - ours - shells == login
    # The last one is that of the folder itself.
    assert sorted(descriptors) == ["0", "1", "2", "3"]


def test_a_command_without_privileges_still_sends_pings() -> None:
    # As `ping` does where it is neither setuid nor has capabilities (icmp(7)).
    says = """
import os, socket
pings = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
pings.settimeout(10)
pings.sendto(bytes([8, 0, 0, 0, 0, 0, 0, 1]), (os.environ["CATNIP_OUTSIDE"], 1))
print("answer", pings.recv(100)[0])
"""
    command = [*NAMESPACE, *LINK.split(), "python3", "-c", says]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "answer 0\n", done.stderr
