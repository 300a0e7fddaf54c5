"""Measures how long a real browser takes for the ten pages of the CATNIP paper, behind an emulated link.

nginx serves the pages, headless Chromium loads them, and other clients load the same link. Two queues are
compared: DropTail, and CATNIP-Good, which drops unmarked packets first; crucial packets are marked where they
enter the link.
"""

import argparse
import json
import math
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from website import PORT, Page, read_pages, serve, write_site

from catnip.web.chromium import LONGEST_S, Chromium, find

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "python/catnip/papers/catnip/reference/catnip_pages.csv"
PROGRAM = "catnip-emu"
# Two-sided 95 % quantiles of Student's t distribution, for 1 to 30 degrees of freedom.
T_95 = [
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
    2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04,
]  # fmt: skip
# Time for which only the other clients use the link, before the first measured page.
WARM_UP_S = 3.0
RESULTS = "results.json"
# Exit code of the emulator if a link was out of tolerance.
RED = 3


class Problem(Exception):
    """Reason why the example cannot run, with advice."""


def emulator() -> str:
    """Returns the path of the emulator: $CATNIP_EMU, or beside the interpreter, in target/, or on PATH."""
    if named := os.environ.get("CATNIP_EMU"):
        if not os.access(named, os.X_OK):
            raise Problem(f"CATNIP_EMU: {named} is not a program")
        return named
    beside = Path(sys.executable).parent / PROGRAM
    for candidate in (beside, ROOT / "target" / "release" / PROGRAM, shutil.which(PROGRAM)):
        if candidate is not None and os.access(candidate, os.X_OK):
            return str(candidate)
    raise Problem(f"{PROGRAM}: not found; `make build` makes it, CATNIP_EMU names it")


def needed(name: str, package: str) -> str:
    """Returns the path of a program, which may be in /usr/sbin; raises Problem if it is not installed."""
    path = find(name) or find(f"/usr/sbin/{name}")
    if path is None:
        raise Problem(f"{name}: not found, install it (apt install {package})")
    return path


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = arguments.add_argument
    add("--repeat", type=int, default=10, metavar="N", help="loads of each page and queue (default: 10)")
    add("--pages", default="1-10", help="which pages, as in 1-10 or 3,5 (default: 1-10)")
    add("--rate", default="1.5Mbit", help="line rate of the link (default: 1.5Mbit)")
    add("--delay", default="25ms", help="delay of the link, one way (default: 25ms)")
    add("--limit", type=int, default=10, metavar="PACKETS", help="limit of the queue (default: 10)")
    add("--mark", default="spm", help="marking before CATNIP-Good, as for catnip-emu link (default: spm)")
    add("--clients", type=int, default=20, metavar="N", help="other clients (default: 20)")
    add("--think", type=float, default=3.0, metavar="S", help="their mean pause between pages (default: 3)")
    add("--control", default="reno", help="the server's congestion control (default: reno)")
    add("--seed", type=int, default=1, help="seed of the order, the pauses and the link (default: 1)")
    add("--tolerance", default="5ms", help="lateness above which a certificate is red (default: 5ms)")
    add("--json", metavar="FILE", help="write every load and certificate to this file")
    add("--stage", nargs=2, help=argparse.SUPPRESS)
    return arguments


def chosen(text: str) -> list[Page]:
    """Returns the pages that the value of `--pages`, such as 1-10 or 3,5, selects."""
    pages = {page.number: page for page in read_pages(PAGES)}
    try:
        numbers: list[int] = []
        for part in text.split(","):
            first, _, last = part.partition("-")
            numbers += range(int(first), int(last or first) + 1)
        return [pages[number] for number in dict.fromkeys(numbers)]
    except (ValueError, KeyError):
        raise Problem(f"--pages: {text!r}, expected numbers from 1 to 10, as in 1-10 or 3,5") from None


def main() -> int:
    """Runs the stage of `--stage`, or the whole measurement with the server in a namespace of its own."""
    options = parser().parse_args()
    try:
        if options.stage:
            stage, folder = options.stage
            {"server": serve_links, "client": load_behind_link}[stage](options, Path(folder))
            return 0
        pages = chosen(options.pages)
        if options.repeat < 1:
            raise Problem("--repeat: expected 1 or more")
        program = emulator()
        for name, package in (("nginx", "nginx-light"), ("chromium", "chromium")):
            needed(name, package)
        with tempfile.TemporaryDirectory(prefix="catnip-browser-") as name:
            folder = Path(name)
            write_site(read_pages(PAGES), folder)
            # The server runs in a network namespace of its own, so that the machine's settings stay
            # unchanged.
            code = subprocess.call([program, "link", "-q", "--", *stage_command("server", folder)])
            if not (folder / RESULTS).exists():
                return code or 2
            results = json.loads((folder / RESULTS).read_text())
        if options.json:
            asked = {key: value for key, value in vars(options).items() if key not in ("json", "stage")}
            Path(options.json).write_text(json.dumps({"options": asked, **results}, indent=1) + "\n")
        report(results, pages, options)
    except (Problem, RuntimeError, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0 if all(link["certificate"]["verdict"] == "green" for link in results["links"]) else RED


def stage_command(stage: str, folder: Path) -> list[str]:
    """Returns the command line of this program with the same options and `--stage`, for another namespace."""
    return [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:], "--stage", stage, str(folder)]


def queues(options: argparse.Namespace) -> dict[str, list[str]]:
    """Returns the options of `catnip-emu link` for each queue, by the name of the queue."""
    return {
        "DropTail": ["--queue", f"drop-tail:{options.limit}"],
        "CATNIP-Good": ["--queue", f"catnip-good:{options.limit}", "--mark", options.mark],
    }


def serve_links(options: argparse.Namespace, folder: Path) -> None:
    """Serves the pages to the browser behind one link after the other, and writes the results to `folder`."""
    settings = Path("/proc/sys/net/ipv4")
    try:
        (settings / "tcp_congestion_control").write_text(options.control)
    except OSError:
        allowed = (settings / "tcp_allowed_congestion_control").read_text().split()
        reason = f"{options.control!r} is not allowed here, only {', '.join(allowed)}"
        raise Problem(f"--control: {reason}") from None
    # The kernel must not reuse the metrics of a connection over one link for the next link.
    (settings / "tcp_no_metrics_save").write_text("1")
    links = []
    progress = Progress(2 * options.repeat)
    with serve(needed("nginx", "nginx-light"), folder):
        for repetition in range(options.repeat):
            # The order alternates, in case the machine is slower at times.
            names = list(queues(options).items())
            for name, queue in names if repetition % 2 == 0 else names[::-1]:
                certificate, loads = folder / "certificate.json", folder / "loads.json"
                seed = options.seed * 1000 + repetition
                (folder / "seed").write_text(str(seed))
                wire = ["--rate", options.rate, "--delay", options.delay, *queue, "--seed", str(seed)]
                judged = ["--tolerance", options.tolerance, "--certificate", str(certificate)]
                link = [emulator(), "link", "-q", *wire, *judged, "--"]
                code = call([*link, *stage_command("client", folder)], progress)
                # Red certificates are reported at the end. All other failures have already been reported.
                if code not in (0, RED):
                    raise SystemExit(code)
                links.append(
                    {
                        "queue": name,
                        "repetition": repetition,
                        "loads": json.loads(loads.read_text()),
                        "certificate": json.loads(certificate.read_text()),
                    }
                )
                progress.done += 1
    progress.clear()
    (folder / RESULTS).write_text(json.dumps({"links": links}))


class Progress:
    """Number of finished links and the elapsed time, shown on stderr if it is a terminal."""

    def __init__(self, total: int) -> None:
        self.done, self.total, self.began_s = 0, total, time.monotonic()

    def show(self) -> None:
        """Shows the progress in place of the previous line."""
        minutes, seconds = divmod(round(time.monotonic() - self.began_s), 60)
        self._write(f"links {self.done}/{self.total} {minutes}:{seconds:02}")

    def clear(self) -> None:
        """Removes the shown line."""
        self._write("")

    def _write(self, text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def call(command: list[str], progress: Progress) -> int:
    """Runs a command, shows the progress every second, and returns the exit code of the command."""
    with subprocess.Popen(command) as process:
        try:
            while True:
                progress.show()
                try:
                    return process.wait(1)
                except subprocess.TimeoutExpired:
                    pass
        except BaseException:
            process.terminate()
            progress.clear()
            raise


def load_behind_link(options: argparse.Namespace, folder: Path) -> None:
    """Loads every page once in a browser while other clients load the link; writes loads.json."""
    server = os.environ["CATNIP_OUTSIDE"]
    chance = random.Random(int((folder / "seed").read_text()))
    everything = read_pages(PAGES)
    for _ in range(options.clients):
        mine = random.Random(chance.random())
        arguments = (server, everything, mine, options.think)
        threading.Thread(target=client, args=arguments, daemon=True).start()
    pages = chosen(options.pages)
    chance.shuffle(pages)
    loads = []
    with Chromium(needed("chromium", "chromium")) as browser:
        # The first page in a new browser is slow, so an empty page precedes the measured pages.
        browser.load("data:text/html,", LONGEST_S)
        time.sleep(WARM_UP_S)
        for page in pages:
            load = browser.load(f"http://{server}:{PORT}{page.paths()[0]}", LONGEST_S)
            if (load.objects, load.bytes) != (len(page.objects), page.size):
                raise RuntimeError(f"page {page.number}: {load.bytes} of {page.size} bytes have come")
            loads.append({"page": page.number, "seconds": load.seconds, "html_seconds": load.html_seconds})
    (folder / "loads.json").write_text(json.dumps(loads))


def client(server: str, pages: list[Page], chance: random.Random, think_s: float) -> None:
    """Fetches the objects of random pages forever, each over a new connection, with pauses between pages."""
    time.sleep(chance.uniform(0, min(think_s, WARM_UP_S)))
    while True:
        for path in chance.choice(pages).paths():
            try:
                with socket.create_connection((server, PORT), timeout=60) as connection:
                    connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
                    while connection.recv(1 << 16):
                        pass
            except OSError:
                break
        time.sleep(chance.expovariate(1 / think_s))


def interval(values: list[float]) -> tuple[float, float]:
    """Returns the mean of `values` and half of its 95 % interval; NaN as half if there is only one value."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.nan
    quantile = T_95[min(len(values) - 1, len(T_95)) - 1]
    return mean, quantile * statistics.stdev(values) / math.sqrt(len(values))


def times(results: dict[str, Any], queue: str, page: int) -> list[float]:
    """Returns the load times of a page behind a queue, s, in the order of the repetitions."""
    links = (link for link in results["links"] if link["queue"] == queue)
    return [load["seconds"] for link in links for load in link["loads"] if load["page"] == page]


def geometric(ratios: list[float]) -> str:
    """Returns the geometric mean of `ratios` with its 95 % interval, as text."""
    mean, half = interval([math.log(ratio) for ratio in ratios])
    if math.isnan(half):
        return f"{math.exp(mean):.2f}"
    return f"{math.exp(mean):.2f} ({math.exp(mean - half):.2f} to {math.exp(mean + half):.2f})"


def report(results: dict[str, Any], pages: list[Page], options: argparse.Namespace) -> None:
    """Prints the page times of both queues, the losses, and the certificates of the links."""
    before, after = queues(options)
    print(f"page load time, s, mean and 95 % interval of {options.repeat} loads")
    print(f"{'page':>4} {'objects':>7} {'bytes':>7}   {before:>14}   {after:>14}   ratio of pairs")
    all_ratios: list[list[float]] = [[] for _ in range(options.repeat)]
    for page in pages:
        cells = []
        for queue in (before, after):
            mean, half = interval(times(results, queue, page.number))
            cells.append(f"{mean:.3f}" if math.isnan(half) else f"{mean:.3f} ± {half:.3f}")
        pairs = zip(times(results, before, page.number), times(results, after, page.number), strict=True)
        ratios = [second / first for first, second in pairs]
        for one, ratio in zip(all_ratios, ratios, strict=True):
            one.append(math.log(ratio))
        print(
            f"{page.number:>4} {len(page.objects):>7} {page.size:>7}   {cells[0]:>14}   {cells[1]:>14}   "
            f"{geometric(ratios)}"
        )
    whole = [math.exp(statistics.fmean(logarithms)) for logarithms in all_ratios]
    print(f"{'all':>4} {'':>7} {'':>7}   {'':>14}   {'':>14}   {geometric(whole)}")
    for queue in (before, after):
        downs = [link["certificate"]["down"] for link in results["links"] if link["queue"] == queue]
        came = sum(down["packets_in"] for down in downs)
        lost = sum(sum(down["dropped"].values()) for down in downs)
        print(f"{queue}: {came} packets to the clients, {100 * lost / came:.1f} % of them dropped")
    red = [link for link in results["links"] if link["certificate"]["verdict"] != "green"]
    print(f"certificates: {len(results['links']) - len(red)} green, {len(red)} red")
    for link in red:
        name = f"{link['queue']}, repetition {link['repetition'] + 1}"
        print(f"  {name}: {'; '.join(link['certificate']['failures'])}")


if __name__ == "__main__":
    sys.exit(main())
