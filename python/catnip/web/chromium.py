"""Headless Chromium, controlled through its DevTools pipe.

Run as a program, the module loads one page and prints its times as JSON, so that it can be the command of a
link.
"""

import argparse
import fcntl
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

FLAGS = [
    "--headless",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    # The browser's own requests for time, updates and accounts would share the link with the page.
    "--disable-features=NetworkTimeServiceQuerying,OptimizationHints,OptimizationGuideModelDownloading",
    "--component-updater=url-source=http://127.0.0.1:9/",
    "--gaia-url=http://127.0.0.1:9/",
    "--disable-extensions",
    "--remote-debugging-pipe",
]
LONGEST_S = 120.0
PATH = "/usr/local/bin:/usr/bin:/bin"
LANGUAGE = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ")
"""Variables of root's that a browser gets."""
UNUSED_USER = 1_900_000_000
"""First id of users that no account, container or service of systemd has (docs/UIDS-GIDS of systemd)."""
# Script that returns the browser's times of a page since its own start, in milliseconds, and its numbers of
# objects and bytes: those received before the load event, without the icon that the browser asks for itself.
TIMING = """(() => {
  const [page] = performance.getEntriesByType('navigation');
  const received = object => object.responseEnd <= page.loadEventStart;
  const objects = [page, ...performance.getEntriesByType('resource').filter(received)];
  const bytes = objects.reduce((sum, object) => sum + object.encodedBodySize, 0);
  return [page.loadEventEnd, page.responseEnd, objects.length, bytes];
})()"""


@dataclass(frozen=True)
class Load:
    """Times and size of one page load, as reported by the browser.

    The times count from the moment at which the page is asked for. The browser's own times count from the
    navigation start, before which it may have been connecting for some time, longer on a busier machine.
    """

    seconds: float
    html_seconds: float
    objects: int
    bytes: int


class Chromium:
    """Headless browser with a new profile; for use in `with`, which removes the profile at the end.

    A browser that root starts belongs to a user without an account, and gets nothing of root's: no terminal,
    no descriptor, no working folder, and of the environment only the language. It ends when this process
    does. Pages run in the browser's sandbox, if `has_sandbox`. `login` is the name and the password for a
    proxy that asks for them. Raises RuntimeError if no such user is possible.
    """

    def __init__(
        self,
        program: str,
        flags: Sequence[str] = (),
        *,
        has_sandbox: bool = True,
        login: tuple[str, str] | None = None,
    ) -> None:
        self._login = login
        self._not_awaited: set[int] = set()
        """Numbers of the calls whose answers nothing waits for."""
        self._buffer = b""
        self._number = 0
        self._events: list[dict[str, Any]] = []
        self._profile = tempfile.mkdtemp(prefix="catnip-browser-")
        try:
            self._start(program, () if has_sandbox else ("--no-sandbox",), flags)
        except BaseException:
            # A signal may end this process, too.
            shutil.rmtree(self._profile, ignore_errors=True)
            raise

    def _start(self, program: str, *flags: Sequence[str]) -> None:
        command = [*_without_privileges(self._profile), os.path.abspath(program), *FLAGS]
        # The browser reads from descriptor 3 and writes to descriptor 4, so our ends of the pipes need other
        # numbers. It must not inherit ours: it ends when its command pipe does, also if we are killed.
        ends = [_above(end) for pair in (os.pipe(), os.pipe()) for end in pair]
        read_here, write_here, read_there, write_there = ends[2], ends[1], ends[0], ends[3]
        quiet = os.open(os.devnull, os.O_RDWR)
        self._process = os.posix_spawn(
            command[0],
            [
                *command,
                *chain.from_iterable(flags),
                f"--user-data-dir={self._profile}",
                "about:blank",
            ],
            _environment() | {"HOME": self._profile},
            file_actions=[
                *((os.POSIX_SPAWN_CLOSE, inherited) for inherited in _inheritable()),
                (os.POSIX_SPAWN_DUP2, quiet, 0),
                (os.POSIX_SPAWN_DUP2, quiet, 1),
                (os.POSIX_SPAWN_DUP2, quiet, 2),
                (os.POSIX_SPAWN_DUP2, read_there, 3),
                (os.POSIX_SPAWN_DUP2, write_there, 4),
            ],
            # Neither a terminal that the caller has, nor one that it opens.
            setsid=True,
        )
        for end in (quiet, read_there, write_there):
            os.close(end)
        self._read, self._write = read_here, write_here

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._read)
        os.close(self._write)
        os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        shutil.rmtree(self._profile, ignore_errors=True)

    def load(self, url: str, timeout_s: float) -> Load:
        """Loads a page with an empty cache and new connections; returns the times of the load."""
        context, session, asked_at_s = self._visit(url, timeout_s, "Page", "Performance")
        while True:
            answer = self._call("Runtime.evaluate", session, expression=TIMING, returnByValue=True)
            loaded, html, objects, size = answer["result"]["value"]
            # The page may still be handling its load event.
            if loaded > 0:
                break
        metrics = self._call("Performance.getMetrics", session)["metrics"]
        [navigation_start_s] = [of["value"] for of in metrics if of["name"] == "NavigationStart"]
        self._call("Target.disposeBrowserContext", browserContextId=context)
        waited_s = navigation_start_s - asked_at_s
        return Load(waited_s + loaded / 1000, waited_s + html / 1000, int(objects), int(size))

    def record(self, url: str, timeout_s: float, quiet_s: float = 1.0) -> list[dict[str, Any]]:
        """Loads a page like `load`; returns its DevTools events until no event has arrived for `quiet_s`."""
        context, *_ = self._visit(url, timeout_s, "Page", "Network")
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            try:
                self._events.append(self._message(time.monotonic() + quiet_s))
            except TimeoutError:
                break
        events = list(self._events)
        self._call("Target.disposeBrowserContext", browserContextId=context)
        return events

    def _visit(self, url: str, timeout_s: float, *domains: str) -> tuple[str, str, float]:
        """Navigates to a page and waits for its load event.

        Returns the ids of the DevTools context and session, and the time at which the page was asked for, in
        seconds of CLOCK_MONOTONIC, the clock of the browser, too. `domains` are the DevTools domains that are
        enabled.
        """
        context = self._call("Target.createBrowserContext")["browserContextId"]
        target = self._call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in domains:
            self._call(f"{domain}.enable", session)
        if self._login is not None:
            self._call("Fetch.enable", session, handleAuthRequests=True)
        self._events.clear()
        asked_at_s = time.monotonic()
        deadline = asked_at_s + timeout_s
        failed = self._call("Page.navigate", session, timeout_s, url=url).get("errorText")
        if failed:
            raise RuntimeError(f"{url}: {failed}")
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._events.append(self._message(deadline))
        return context, session, asked_at_s

    def _send(self, method: str, session: str | None, parameters: Mapping[str, Any]) -> None:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")

    def _call(self, method: str, session: str | None = None, timeout_s: float = 30, **parameters: Any) -> Any:
        self._send(method, session, parameters)
        number = self._number
        deadline = time.monotonic() + timeout_s
        while True:
            answer = self._message(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self._events.append(answer)

    def _message(self, deadline: float) -> dict[str, Any]:
        """Returns the next message of the browser, after it has been let through to the proxy if it asks."""
        while self._lets_through(message := self._next(deadline)):
            pass
        return message

    def _lets_through(self, event: Mapping[str, Any]) -> bool:
        """Answers an event that holds a request up until it is answered; returns false for another event."""
        if event.get("id") in self._not_awaited:
            self._not_awaited.remove(event["id"])
            return True
        method, session = event.get("method"), event.get("sessionId")
        if method not in ("Fetch.requestPaused", "Fetch.authRequired") or self._login is None:
            return False
        answer: dict[str, Any] = {"requestId": event["params"]["requestId"]}
        if method == "Fetch.requestPaused":
            self._send("Fetch.continueRequest", session, answer)
            self._not_awaited.add(self._number)
            return True
        name, password = self._login
        is_proxy = event["params"]["authChallenge"].get("source") == "Proxy"
        credentials = {"response": "ProvideCredentials", "username": name, "password": password}
        answer["authChallengeResponse"] = credentials if is_proxy else {"response": "Default"}
        self._send("Fetch.continueWithAuth", session, answer)
        self._not_awaited.add(self._number)
        return True

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            some = os.read(self._read, 1 << 16)
            if not some:
                raise RuntimeError("the browser exited")
            self._buffer += some
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message


def _without_privileges(profile: str) -> list[str]:
    """Returns the begin of a command that gives up root's rights and folder; empty for other users.

    The profile becomes that of the user without an account to which the command belongs.
    """
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise RuntimeError("setpriv: not found; install it (apt install util-linux)")
    user = _unused_user()
    os.chown(profile, user, user)
    identity = [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    rights = ["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--pdeathsig=KILL"]
    return [setpriv, *identity, *rights, "--", "env", f"--chdir={profile}"]


def _environment() -> dict[str, str]:
    """Returns the environment of a browser: ours, or for root a path and what is known of the language."""
    if os.geteuid() != 0:
        return dict(os.environ)
    handed_on = {name: value for name, value in os.environ.items() if name in LANGUAGE}
    return {"PATH": PATH, **handed_on}


def _above(descriptor: int) -> int:
    """Replaces a descriptor by one above those that a browser uses, which programs do not inherit."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


def _inheritable() -> list[int]:
    """Returns the descriptors that a program would inherit, without the first three."""
    inherited = []
    for name in os.listdir("/proc/self/fd"):
        # The folder itself is closed by now.
        with suppress(OSError):
            if int(name) > 2 and os.get_inheritable(int(name)):
                inherited.append(int(name))
    return inherited


def _unused_user() -> int:
    """Returns the id of a user without an account; within a user namespace, the last ones that it has."""
    ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    first, _, count = max(ranges)
    if first <= UNUSED_USER < first + count:
        return UNUSED_USER + os.getpid()
    if first + count <= 1:
        raise RuntimeError("a browser needs another user than root, and this user namespace has none")
    return first + count - 1


def find(name: str) -> str | None:
    """Returns the path of a program: on PATH, or `name` if it is a file. None if there is neither."""
    return shutil.which(name) or (name if Path(name).is_file() else None)


def flags_of(environment: Mapping[str, str]) -> list[str]:
    """Returns browser flags for the proxy and certificate authority that the environment names."""
    flags = []
    if "CATNIP_PROXY" in environment:
        proxy = urlsplit(environment["CATNIP_PROXY"])
        flags.append(f"--proxy-server={proxy.scheme}://{proxy.hostname}:{proxy.port}")
    if "CATNIP_CA_PIN" in environment:
        flags.append(f"--ignore-certificate-errors-spki-list={environment['CATNIP_CA_PIN']}")
    return flags


def login_of(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Returns name and password of the proxy that the environment names; None if it has none."""
    proxy = urlsplit(environment.get("CATNIP_PROXY", ""))
    return (proxy.username, proxy.password) if proxy.username and proxy.password else None


def main() -> int:
    """Loads one page and prints its times as JSON."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("url", metavar="URL")
    arguments.add_argument("--longest-s", type=float, default=LONGEST_S, help="time limit of the page")
    arguments.add_argument(
        "--settle", action="store_true", help="wait until the network is idle, without output"
    )
    arguments.add_argument("--no-sandbox", action="store_true", help="run pages without the sandbox")
    options = arguments.parse_args()
    # The browser and its profile are removed by whatever signal we end.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda of, _: sys.exit(128 + of))
    try:
        program = find("chromium")
        if program is None:
            raise RuntimeError("chromium: not found; install it (apt install chromium)")
        flags, login = flags_of(os.environ), login_of(os.environ)
        with Chromium(program, flags, has_sandbox=not options.no_sandbox, login=login) as browser:
            if options.settle:
                browser.record(options.url, options.longest_s)
            else:
                print(json.dumps(asdict(browser.load(options.url, options.longest_s))))
    except (RuntimeError, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
