"""Tests of sites of three hosts, recorded from external servers and replayed behind a link.

All programs run in one of two network namespaces: that of the origins (tests/origins.py) or that of the
replay.
"""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import origins
from catnip.base import extras, programs
from catnip.cli.options import BAD_INPUT, NOT_LOADED, NOTHING_FINISHED, RED
from catnip.web import network, site
from catnip.web.congestion import SYSCTLS
from catnip.web.site import Exchange, Request, Response
from origins import API, CSS, IMAGES, STATIC, WWW

ROOT = Path(__file__).resolve().parents[2]
CATNIP = [sys.executable, "-m", "catnip"]
AT_ORIGINS = ["unshare", "--net", "--mount", "--", sys.executable, str(ROOT / "tests" / "origins.py")]
AS_USER = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]
LINK = ["--tolerance", "60s"]
"""Tolerance of the links, so large that the tests do not depend on the speed of this machine."""
FETCHES = f"""
curl -sS https://{WWW}/ -o page.gz
curl -sS -L http://{WWW}/ -o /dev/null
curl -sS https://{STATIC}/style.css -o style.css
for n in 0 1 2; do curl -sS "https://{STATIC}/image.gif?number=$n&size=large" -o $n.gif; done
curl -sS -d 'x=1' https://{API}:8443/form -o form
curl -sS --head https://{STATIC}/style.css -o head
curl -sS https://{API}:8443/nothing
"""


def missing(*names: str) -> str | None:
    """Returns the reason why sites cannot be recorded and replayed here; None if they can be."""
    if reason := programs.cannot_emulate():
        return reason
    for name in ("curl", "openssl", "ip", "unshare", "mount", *names):
        if not shutil.which(name):
            return f"{name} is not installed"
    allowed = subprocess.run([*AT_ORIGINS[:4], "true"], capture_output=True, text=True, check=False)
    return allowed.stderr.strip() if allowed.returncode else None


REASON = missing()
NO_BROWSER = missing("chromium")
NO_TCPDUMP = missing("tcpdump")
NO_NGHTTP = missing("nghttp")
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"nothing to replay: {REASON}")
with_browser = pytest.mark.skipif(NO_BROWSER is not None, reason=f"no browser: {NO_BROWSER}")


@dataclass(frozen=True)
class Recording:
    """Recorded site, with the output of its recorder."""

    folder: Path
    out: str
    err: str


def at_origins(folder: Path, *command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command in the network namespace of the origins, with the certificates in `folder`."""
    arguments = [*AT_ORIGINS, str(folder), *map(str, command)]
    return run(arguments, cwd=folder, **options)


def replay(
    folder: Path, script: str, *options: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a shell script behind a link to the servers that replay the site in `folder`."""
    return run([*CATNIP, "replay", str(folder), *LINK, *options, "--", "sh", "-c", script], cwd=cwd)


def run(arguments: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    defaults = {"capture_output": True, "text": True, "timeout": 100, **options}
    return subprocess.run(arguments, check=False, **defaults)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Records what curl fetches from the origins."""
    folder = tmp_path_factory.mktemp("curl")
    ended = at_origins(folder, *CATNIP, "record", "site", "--json", "--", "sh", "-ec", FETCHES)
    assert ended.returncode == 0, ended.stderr
    return Recording(folder / "site", ended.stdout, ended.stderr)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Records what Chromium fetches for the page of the origins."""
    folder = tmp_path_factory.mktemp("chromium")
    ended = at_origins(folder, *CATNIP, "record", "site", "--url", f"https://{WWW}/")
    assert ended.returncode == 0, ended.stderr
    return Recording(folder / "site", ended.stdout, ended.stderr)


def test_what_came_is_what_is_kept_and_told(recording: Recording) -> None:
    printed = json.loads(recording.out)
    recorded = site.read(recording.folder)
    assert printed["origins"] == [
        f"https://{WWW}",
        f"http://{WWW}",
        f"https://{STATIC}",
        f"https://{API}:8443",
    ]
    assert printed["exchanges"] == len(recorded.exchanges) == 10
    protocols = {
        f"https://{WWW}": "http/1.1",
        f"https://{STATIC}": "h2",
        f"https://{API}:8443": "http/1.1",
    }
    assert printed["protocols"] == protocols
    assert {str(origin): protocol for origin, protocol in recorded.protocols.items()} == protocols
    assert printed["bytes"] == sum(len(one.response.body) for one in recorded.exchanges)
    assert (printed["not_recorded"], recording.err) == ([], "")
    by_request = {(one.request.method, one.request.url): one for one in recorded.exchanges}
    zipped = by_request["GET", f"https://{WWW}/"]
    assert zipped.response.body == (recording.folder.parent / "page.gz").read_bytes()
    assert ("Content-Encoding", "gzip") in zipped.response.headers
    assert by_request["GET", f"https://{STATIC}/style.css"].response.body == CSS.encode()
    assert by_request["POST", f"https://{API}:8443/form"].request.body == b"x=1"
    assert by_request["HEAD", f"https://{STATIC}/style.css"].response.body == b""
    assert by_request["GET", f"https://{API}:8443/nothing"].response.status == 204
    assert by_request["GET", f"http://{WWW}/"].response.status == 301
    assert {one.origin.host: one.address for one in recorded.exchanges} == origins.ADDRESSES


def test_two_recordings_of_one_site_differ_in_dates_and_think_times_alone(
    recording: Recording, tmp_path: Path
) -> None:
    assert at_origins(tmp_path, *CATNIP, "record", "site", "--", "sh", "-ec", FETCHES).returncode == 0
    bodies, repeated = (
        sorted(path.name for path in (one / "bodies").iterdir())
        for one in (recording.folder, tmp_path / "site")
    )
    assert bodies == repeated
    lines = (
        re.sub(r'\["Date", "[^"]*"\]|"think_s": [0-9.e-]+', "", (one / site.INDEX).read_text())
        for one in (recording.folder, tmp_path / "site")
    )
    assert next(lines) == next(lines)


def test_what_is_not_whole_is_not_kept_and_told(tmp_path: Path) -> None:
    script = (
        f"curl -sS https://{WWW}/short; curl -sS https://nowhere.example.org/; curl -s http://127.0.0.1:9/; "
        f"curl -sS --cacert ca.pem https://{API}:8443/items; "
        f"curl -sS -H 'Cookie: secret' https://{WWW}/ -o page.gz; exit 9"
    )
    ended = at_origins(tmp_path, *CATNIP, "record", "site", "--", "sh", "-c", script)
    assert ended.returncode == 9
    recorded = site.read(tmp_path / "site")
    assert [one.request.url for one in recorded.exchanges] == [f"https://{WWW}/"]
    assert "secret" not in (tmp_path / "site" / site.INDEX).read_text()
    lines = [line for line in ended.stderr.splitlines() if line.startswith("not recorded: ")]
    assert len(lines) == 4
    assert "peer closed connection without sending complete message body (received 20 bytes, " in lines[0]
    assert "nowhere.example.org" in lines[1]
    assert lines[2].startswith("not recorded: GET http://127.0.0.1:9/: ")
    assert re.search(rf"https://{API}:8443: .+ is \$CATNIP_CA trusted there\?", lines[3])
    assert "1 responses from 1 origins" in ended.stderr


def test_a_client_without_the_proxys_password_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    code = "curl -s -o /dev/null --proxy $(echo $CATNIP_PROXY | sed 's|//.*@|//|') -w"
    script = (
        f"{code} '%{{http_code}} ' http://{WWW}/items; {code} '%{{http_connect}} ' https://{WWW}/; "
        f"curl -s -o page.gz https://{WWW}/"
    )
    ended = at_origins(tmp_path, *CATNIP, "record", "site", "--json", "--", "sh", "-c", script)
    assert ended.returncode == 0 and ended.stderr.startswith("407 407 "), ended.stderr
    printed = json.loads(ended.stdout)
    assert (printed["exchanges"], printed["not_recorded"]) == (1, [])
    assert "catnip:" not in (tmp_path / "site" / site.INDEX).read_text()


def test_a_body_that_is_too_large_is_not_recorded_and_told(tmp_path: Path) -> None:
    script = f"curl -s -o large https://{WWW}/large; curl -s -o page.gz https://{WWW}/"
    ended = at_origins(tmp_path, *CATNIP, "record", "site", "--", "sh", "-c", script)
    assert ended.returncode == 0, ended.stderr
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("not recorded: ")]
    assert line == f"not recorded: GET https://{WWW}/large: a body of more than 100 MB"
    assert len(site.read(tmp_path / "site").exchanges) == 1


def test_a_server_that_nobody_vouches_for_is_not_recorded(tmp_path: Path) -> None:
    ended = at_origins(
        tmp_path,
        "env",
        "-u",
        "SSL_CERT_FILE",
        *CATNIP,
        "record",
        "site",
        "--",
        "sh",
        "-c",
        f"curl -s https://{WWW}/; true",
    )
    assert ended.returncode == NOTHING_FINISHED
    assert "certificate verify failed" in ended.stderr.lower()
    assert ended.stderr.splitlines()[-1] == "error: site: nothing was recorded"
    assert not (tmp_path / "site" / site.INDEX).exists()


@pytest.mark.parametrize(("name", "code"), [("no-such-command", 127), ("/etc/hostname", 126)])
def test_a_command_that_cannot_be_run(tmp_path: Path, name: str, code: int) -> None:
    ended = run([*CATNIP, "record", str(tmp_path / "site"), "--", name])
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (code, "", 1)
    assert ended.stderr.startswith(f"error: {name}: c")


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run([*CATNIP, "record", str(tmp_path / "site"), "--port", str(port), "--", "true"])
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (BAD_INPUT, "", 1)
    assert f"127.0.0.1:{port}" in ended.stderr and "address already in use" in ended.stderr


def test_a_recorder_hands_signals_on_and_keeps_what_it_has(tmp_path: Path) -> None:
    script = f"curl -s -o /dev/null https://{WWW}/; touch there; exec sleep 60"
    record = " ".join([*CATNIP, "record", "site", "--", "sh", "-c", f'"{script}"'])
    waits = "n=0; until [ -e there ] || [ $n -gt 400 ]; do n=$((n+1)); sleep 0.05; done"
    ended = at_origins(tmp_path, "sh", "-c", f"{record} & {waits}; kill $!; wait $!")
    assert ended.returncode == 128 + signal.SIGTERM, ended.stderr
    assert len(site.read(tmp_path / "site").exchanges) == 1


def test_a_killed_recorder_leaves_no_key_and_ends_its_command(tmp_path: Path) -> None:
    trap = "trap 'kill $!; touch ended' TERM; sleep 60 & wait"
    script = f"curl -s -o /dev/null https://{WWW}/; echo $CATNIP_CA >there; {trap}"
    record = f"""{" ".join(CATNIP)} record site -- sh -c "{script.replace("$", chr(92) + "$")}" """
    waits = "n=0; until [ -e {0} ] || [ $n -gt 400 ]; do n=$((n+1)); sleep 0.05; done"
    ended = at_origins(
        tmp_path,
        "sh",
        "-c",
        f"export TMPDIR={tmp_path}/temporary; mkdir $TMPDIR; {record} & {waits.format('there')}; "
        f"kill -9 $!; {waits.format('ended')}; cat $(cat there)",
    )
    assert "BEGIN CERTIFICATE" in ended.stdout, ended.stderr
    assert (tmp_path / "ended").exists()
    left = [file.read_bytes() for file in (tmp_path / "temporary").rglob("*") if file.is_file()]
    assert left and not any(b"PRIVATE" in one for one in left)


def test_without_a_command_a_recorder_waits_for_its_end(tmp_path: Path) -> None:
    record = " ".join([*CATNIP, "record", "site", "2>told"])
    waits = "n=0; until grep -q CATNIP_CA_PIN told || [ $n -gt 400 ]; do n=$((n+1)); sleep 0.05; done"
    fetch = f'curl -sS --proxy "$CATNIP_PROXY" --cacert "$CATNIP_CA" https://{WWW}/ -o page.gz'
    ended = at_origins(tmp_path, "sh", "-c", f"{record} & {waits}; . ./told; {fetch}; kill $!; wait $!")
    assert ended.returncode == 0, ended.stderr
    assert site.read(tmp_path / "site").exchanges[0].response.body == (tmp_path / "page.gz").read_bytes()


def test_replayed_bytes_are_the_recorded_ones(recording: Recording, tmp_path: Path) -> None:
    ended = replay(recording.folder, f"set -e; {FETCHES} getent hosts {WWW} {STATIC} {API}", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    recorded = recording.folder.parent
    for name in ("page.gz", "style.css", "0.gif", "1.gif", "2.gif", "form", "head"):
        assert (tmp_path / name).read_bytes() == expected(recorded / name), name
    addresses = [line.split()[0] for line in ended.stdout.splitlines()]
    assert addresses == ["198.18.0.2", "198.18.0.3", "198.18.0.4"]
    assert "not recorded" not in ended.stderr


def expected(file: Path) -> bytes:
    """Returns the contents of a fetched file; `head` without the proxy's, and as HTTP/2 has it."""
    text = file.read_bytes()
    if file.name != "head":
        return text
    begin, *lines = text.partition(b"\r\n\r\n")[2].split(b"\r\n")
    assert begin == b"HTTP/1.1 200 OK"
    fields = (line.partition(b":") for line in lines)
    return b"\r\n".join([b"HTTP/2 200 ", *(name.lower() + b + rest for name, b, rest in fields)])


def test_headers_are_the_recorded_ones_but_for_those_about_the_connection(
    recording: Recording, tmp_path: Path
) -> None:
    script = f"curl -sS -i https://{WWW}/ -o page; curl -sS -i https://{API}:8443/nothing -o nothing"
    assert replay(recording.folder, script, cwd=tmp_path).returncode == 0
    head = (tmp_path / "page").read_bytes().partition(b"\r\n\r\n")[0].decode().splitlines()
    recorded = site.read(recording.folder).exchanges[0].response
    names = [line.partition(":")[0] for line in head[1:]]
    assert head[0] == "HTTP/1.1 200 OK"
    assert names == ["Server", "Date", "Content-Type", "Content-Encoding", "Set-Cookie", "Content-Length"]
    assert {"Transfer-Encoding", "Alt-Svc"} < {name for name, _ in recorded.headers}
    assert f"Content-Length: {len(recorded.body)}" in head
    assert (tmp_path / "nothing").read_text().startswith("HTTP/1.1 204 No Content\n")


def test_connections_stay_open_and_each_request_crosses_the_link(recording: Recording) -> None:
    times = "%{num_connects} %{time_namelookup} %{time_connect} %{time_appconnect} %{time_total}\\n"
    urls = f"https://{STATIC}/style.css 'https://{STATIC}/image.gif?number=1&size=large'"
    ended = replay(
        recording.folder,
        f"curl -sS -Z --parallel-max 1 -o /dev/null -o /dev/null -w '{times}' {urls}",
        "--delay",
        "50ms",
    )
    first, second = ([float(field) for field in line.split()] for line in ended.stdout.splitlines())
    assert (first[0], second[0]) == (1, 0)
    # The name, the handshakes of TCP and TLS, and the request take a round trip of 100 ms each.
    for before, after in pairwise([0, *first[1:]]):
        assert after - before > 0.099
    assert second[4] > 0.099


@pytest.mark.skipif(NO_TCPDUMP is not None, reason=f"no tcpdump: {NO_TCPDUMP}")
def test_names_and_bytes_cross_the_link(recording: Recording, tmp_path: Path) -> None:
    capture = tmp_path / "link.pcapng"
    fetch = ["curl", "-sS", f"https://{STATIC}/style.css", "-o", "/dev/null"]
    command = [
        *CATNIP,
        "replay",
        str(recording.folder),
        "--json",
        *LINK,
        "--pcap",
        str(capture),
        "--",
        *fetch,
    ]
    ended = run(command)
    printed = json.loads(ended.stdout)
    down = printed["certificate"]["down"]
    assert printed["certificate"]["verdict"] in {"green", "grey"}
    assert down["packets_in"] > len(CSS) / 1500
    assert printed["replay"]["addresses"] == {WWW: "198.18.0.2", STATIC: "198.18.0.3", API: "198.18.0.4"}
    assert (printed["replay"]["answered"], printed["replay"]["unmatched"]) == (1, {})
    captured = run(["tcpdump", "-n", "-r", str(capture)]).stdout
    assert re.search(rf"> 198\.18\.0\.1\.53: .*A\? {re.escape(STATIC)}", captured)
    assert re.search(r"198\.18\.0\.1\.53 > .* A 198\.18\.0\.3", captured)
    sent = re.findall(r"198\.18\.0\.3\.443 > .* length (\d+)", captured)
    assert sum(map(int, sent)) > len(CSS)


@pytest.mark.parametrize(
    ("version", "spoken"), [("recorded", "1.1 2 1.1"), ("2", "2 2 1.1"), ("1.1", "1.1 1.1 1.1")]
)
def test_servers_speak_the_recorded_version_of_http_or_the_one_that_is_asked_for(
    recording: Recording, version: str, spoken: str
) -> None:
    urls = [f"https://{WWW}/", f"https://{STATIC}/style.css", f"http://{WWW}/"]
    fetches = " ".join(f"curl -sS -o /dev/null -w '%{{http_version}} ' {url};" for url in urls)
    ended = replay(recording.folder, fetches, "--http", version)
    assert ended.stdout.split() == spoken.split(), ended.stderr


def test_a_site_that_was_recorded_without_protocols_is_replayed_by_http_1(
    recording: Recording, tmp_path: Path
) -> None:
    shutil.copytree(recording.folder, tmp_path / "site")
    index = tmp_path / "site" / site.INDEX
    first, rest = index.read_text().split("\n", 1)
    old = {key: value for key, value in json.loads(first).items() if key != "protocols"}
    index.write_text(f"{json.dumps(old)}\n{rest}")
    script = f"curl -sS -o /dev/null -w '%{{http_version}}' https://{STATIC}/style.css"
    assert replay(tmp_path / "site", script).stdout == "1.1"


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_servers_think_as_long_as_the_recorded_ones_unless_they_are_not_to(
    tmp_path: Path, version: str
) -> None:
    urls = [f"https://{WWW}/{n}" for n in range(2)]
    exchanges = [Exchange(Request("GET", url), Response(200, "OK"), think_s=0.4) for url in urls]
    site.write(tmp_path / "site", exchanges)
    # A request is sent after the handshake, whose end curl notes as it happens; 0 if the connection was open.
    script = f"curl -sS -w '%{{time_appconnect}} %{{time_starttransfer}}\\n' {' '.join(urls)}"
    for option, total_s in (("--think", 0.8), ("--no-think", 0)):
        command = [
            str(tmp_path / "site"),
            "--json",
            option,
            "--http",
            version,
            *LINK,
            "--",
            "sh",
            "-c",
            script,
        ]
        ended = run([*CATNIP, "replay", *command])
        assert json.loads(ended.stdout)["replay"]["think_s"] == total_s
        for line in ended.stderr.splitlines()[:2]:
            before, after = map(float, line.split())
            assert after - before > total_s / 2 - 0.001


@pytest.mark.parametrize(
    ("option", "default", "found"),
    [
        ("--ipv6", "198.18.0.3", ["198.18.0.3", "2001:2::3"]),
        ("--ipv6-only", "2001:2::3", ["2001:2::3"]),
    ],
)
def test_hosts_have_addresses_of_ipv6_if_asked_for(
    recording: Recording, option: str, default: str, found: list[str]
) -> None:
    shown = "-o /dev/null -w '%{remote_ip}\\n'"
    script = f"curl -sS {shown} https://{STATIC}/style.css; curl -6 -sS {shown} https://{STATIC}/style.css"
    script += f"; getent ahosts {STATIC} | grep -v -e DGRAM -e RAW"
    ended = replay(recording.folder, script, "--json", option)
    assert ended.returncode == 0, ended.stderr
    first, second, *known = [line.split()[0] for line in ended.stderr.splitlines()]
    # Without addresses of the Internet, programs prefer IPv4 (RFC 6724).
    assert (first, second) == (default, "2001:2::3")
    assert sorted(known) == found
    printed = json.loads(ended.stdout)["replay"]
    assert printed["addresses6"] == {WWW: "2001:2::2", STATIC: "2001:2::3", API: "2001:2::4"}
    assert printed["connections6"] == (2 if option == "--ipv6-only" else 1)


def test_hosts_have_no_addresses_of_ipv6_by_default(recording: Recording) -> None:
    ended = replay(recording.folder, f"getent ahosts {STATIC}", "--quiet")
    assert {line.split()[0] for line in ended.stdout.splitlines()} == {"198.18.0.3"}


def test_hosts_that_are_addresses_keep_them_beside_ipv6(tmp_path: Path) -> None:
    url = "https://203.0.113.77/a"
    site.write(tmp_path / "site", [Exchange(Request("GET", url), Response(200, "OK", (), b"found"))])
    ended = replay(tmp_path / "site", f"curl -sS -m 20 {url}", "--ipv6-only")
    assert ended.stdout == "found", ended.stderr


@pytest.mark.parametrize("option", ["--mtu=1279", "--mtu 1279"])
def test_a_link_that_is_too_narrow_for_ipv6_is_one_line(recording: Recording, option: str) -> None:
    ended = replay(recording.folder, "true", "--ipv6", *option.split())
    message = "error: --mtu: 1279: IPv6 needs links for packets of 1280 bytes\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (BAD_INPUT, "", message)


@with_browser
def test_pages_load_by_ipv6(page: Recording) -> None:
    links = ["--link", f"near: --delay 10ms {' '.join(LINK)}"]
    command = [*CATNIP, "pages", str(page.folder), "--json", "--runs", "1", "--ipv6-only", *links]
    ended = run(command)
    assert (ended.returncode, ended.stderr) == (0, "")
    printed = json.loads(ended.stdout)
    # The fetch of a script may end after the load event.
    assert printed["visits"][0]["load"]["objects"] in {2 + IMAGES, 3 + IMAGES}
    congestion = printed["replay"]["congestion"]
    assert congestion["servers"].keys() == congestion["commands"].keys()
    assert sum(congestion["commands"].values()) == 2
    assert printed["replay"]["connections6"] == sum(printed["replay"]["connections"].values()) > 0


def allowed_congestion() -> list[str]:
    """Returns the congestion controls that a new network namespace may have as its default."""
    shown = run(["unshare", "--net", "cat", str(SYSCTLS / "tcp_allowed_congestion_control")])
    return shown.stdout.split()


def without_agents(names: Iterable[str]) -> list[str]:
    """Returns congestion controls without those that agents of other tests add to the kernel for a while."""
    return [name for name in names if not name.startswith("catnip_")]


@pytest.mark.parametrize("prefix", [[], AS_USER], ids=["root", "user"])
def test_both_ends_have_the_congestion_control_that_is_chosen(
    recording: Recording, prefix: list[str]
) -> None:
    if run([*prefix, *network.AS_USER, "true"]).returncode:
        pytest.skip("no user namespaces in user namespaces")
    script = (
        "import socket; there = socket.create_connection(('198.18.0.2', 80)); "
        "print(there.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b'\\0').decode())"
    )
    for name in without_agents(allowed_congestion()):
        command = ["replay", str(recording.folder), *LINK, "--congestion", name, "--json", "--quiet"]
        ended = run([*prefix, *CATNIP, *command, "--", sys.executable, "-c", script])
        assert ended.stderr == f"{name}\n"
        both = {"servers": {name: 1}, "commands": {name: 1}}
        assert json.loads(ended.stdout)["replay"]["congestion"] == both


def test_without_a_choice_the_congestion_control_of_the_machine_is_told(
    recording: Recording, tmp_path: Path
) -> None:
    read = f"cat {SYSCTLS / 'tcp_congestion_control'}"
    ended = replay(
        recording.folder, f"{read}; curl -s -o page.gz https://{WWW}/", "--json", "--quiet", cwd=tmp_path
    )
    name = ended.stderr.strip()
    both = {"servers": {name: 1}, "commands": {name: 1}}
    assert json.loads(ended.stdout)["replay"]["congestion"] == both


def test_a_congestion_control_that_cannot_be_chosen_is_one_line(recording: Recording) -> None:
    ended = replay(recording.folder, "true", "--congestion", "none-such")
    available = without_agents((SYSCTLS / "tcp_available_congestion_control").read_text().split())
    told, listed = ended.stderr.strip().split("; available: ")
    assert (ended.returncode, ended.stdout) == (BAD_INPUT, "")
    assert told == "error: --congestion: none-such: not available"
    assert without_agents(listed.split()) == available
    allowed = without_agents(allowed_congestion())
    for name in set(available) - set(allowed):
        ended = replay(recording.folder, "true", "--congestion", name)
        reason = "not permitted in network namespaces; permit it"
        told, setting = ended.stderr.strip().split(": sysctl net.ipv4.tcp_allowed_congestion_control=")
        assert (ended.returncode, told) == (BAD_INPUT, f"error: --congestion: {name}: {reason}")
        assert without_agents(setting.strip("'").split()) == [*allowed, name]


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_a_message_is_the_same_by_every_version_of_http(
    recording: Recording, tmp_path: Path, version: str
) -> None:
    upload = tmp_path / "upload"
    upload.write_bytes(bytes(3_000_000))
    script = (
        f"set -e; curl -sS -i https://{WWW}/ -o page; curl -sS -I https://{STATIC}/style.css -o head; "
        f"curl -sS -i https://{API}:8443/nothing -o nothing; curl -sS https://{WWW}/none -o none; "
        f"curl -sS --data-binary @upload https://{API}:8443/form -o form"
    )
    ended = replay(recording.folder, script, "--http", version, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    head, _, body = (tmp_path / "page").read_bytes().partition(b"\r\n\r\n")
    recorded = site.read(recording.folder).exchanges[0].response
    assert head.startswith(f"HTTP/{version} 200".encode()) and body == recorded.body
    names = [line.partition(b":")[0].lower().decode() for line in head.splitlines()[1:]]
    assert names == ["server", "date", "content-type", "content-encoding", "set-cookie", "content-length"]
    assert f"content-length: {len(CSS)}" in (tmp_path / "head").read_text().lower()
    assert (tmp_path / "nothing").read_text().startswith(f"HTTP/{version} 204")
    assert (tmp_path / "none").read_text() == "not recorded\n"
    assert (tmp_path / "form").read_text() == "got x=1"


@pytest.mark.parametrize(
    ("large", "small", "order"),
    [("u=3", "u=0", ["small", "large"]), ("u=1", "u=6", ["large", "small"]), ("i", "i", ["small", "large"])],
)
def test_the_priorities_of_curl_decide_which_response_ends_first(
    tmp_path: Path, large: str, small: str, order: list[str]
) -> None:
    sizes = {"large": 400_000, "small": 50_000}
    urls = {name: f"https://{WWW}/{name}" for name in sizes}
    exchanges = [
        Exchange(Request("GET", urls[name]), Response(200, "OK", (), bytes(sizes[name]))) for name in sizes
    ]
    site.write(tmp_path / "site", exchanges)
    fetches = [
        f"--http2 -o {name} -w '%{{url_effective}}\\n' -H 'priority: {priority}' {urls[name]}"
        for name, priority in (("large", large), ("small", small))
    ]
    script = f"curl -sS -Z {' --next '.join(fetches)}"
    ended = replay(
        tmp_path / "site", script, "--http", "2", "--rate", "4Mbit", "--delay", "10ms", "--json", cwd=tmp_path
    )
    done = re.findall(rf"https://{WWW}/(large|small)\n", ended.stderr)
    assert (done, json.loads(ended.stdout)["replay"]["connections"]) == (order, {"h2": 1})
    assert {name: (tmp_path / name).stat().st_size for name in sizes} == sizes


@pytest.mark.skipif(NO_NGHTTP is not None, reason=f"no nghttp: {NO_NGHTTP}")
def test_nghttp_takes_what_the_servers_send_for_http_2(recording: Recording) -> None:
    urls = " ".join(f"'https://{STATIC}/image.gif?number={n}&size=large'" for n in range(3))
    script = f"nghttp -nv https://{STATIC}/style.css {urls}"
    ended = replay(recording.folder, script, "--no-think", "--delay", "5ms")
    assert ended.returncode == 0, ended.stderr
    shown = re.sub(r"\x1b\[[0-9;]*m", "", ended.stdout)
    assert "The negotiated protocol: h2" in shown
    data = re.findall(r"recv DATA frame <length=(\d+), flags=0x\d+, stream_id=(\d+)>", shown)
    sizes = {stream: sum(int(size) for size, of in data if of == stream) for _, stream in data}
    assert sorted(sizes.values()) == sorted([len(CSS), *(len(origins.image(n)) for n in range(3))])
    # Of equal urgency, a response begins when the one before has ended.
    streams = [int(stream) for _, stream in data]
    assert streams == sorted(streams)


@with_browser
def test_a_browser_loads_a_page_by_both_versions_of_http(page: Recording, tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    chromium = (
        "chromium --headless --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage "
        f"--ignore-certificate-errors-spki-list=$CATNIP_CA_PIN --user-data-dir={tmp_path}/profile "
        f"--log-net-log={log} --virtual-time-budget=5000 --dump-dom https://{WWW}/ >/dev/null 2>&1"
    )
    ended = run([*CATNIP, "replay", str(page.folder), "--json", *LINK, "--", "sh", "-c", chromium])
    assert ended.returncode == 0, ended.stderr
    logged = log.read_text()
    asked = re.findall(r'":method: GET",\s*":authority: ([^"]+)"[^]]*":path: ([^"]+)"', logged)
    assert {host for host, _ in asked} == {STATIC}
    assert len({path for _, path in asked}) == 1 + IMAGES
    printed = json.loads(ended.stdout)["replay"]
    # A browser that does not know a host yet opens more connections than it uses.
    assert printed["connections"].keys() == {"h2", "http/1.1"} and printed["unmatched"] == {}


def test_what_was_not_recorded_is_not_there_and_told(recording: Recording) -> None:
    script = (
        f"curl -s https://{STATIC}/none https://{STATIC}/none; "
        "curl -sS https://other.example.org/; "
        "curl -sS -m 3 http://192.0.2.1/; curl -sS -m 3 http://$CATNIP_OUTSIDE/; true"
    )
    ended = replay(recording.folder, script)
    assert ended.returncode == 0
    assert ended.stdout == "not recorded\n" * 2
    assert "Could not resolve host: other.example.org" in ended.stderr
    assert f"404, not recorded: GET https://{STATIC}/none (2 times)\n" in ended.stderr
    assert re.search(r"no such name, not recorded: other\.example\.org( \(\d times\))?\n", ended.stderr)
    assert ended.stderr.count("curl: (") == 3
    printed = json.loads(
        run(
            [*CATNIP, "replay", str(recording.folder), "--json", "--", "curl", f"https://{STATIC}/none"]
        ).stdout
    )
    assert printed["replay"]["unmatched"] == {f"GET https://{STATIC}/none": 1}


def test_hosts_without_a_name_have_the_address_that_they_are(tmp_path: Path) -> None:
    # The second URL has the address of a link's end, the third URL the first address of the range.
    urls = [
        "https://203.0.113.77/a",
        "http://100.64.0.1:81/b",
        "https://198.18.0.2/c",
        "https://a_b.example.org/d",
    ]
    exchanges = [Exchange(Request("GET", url), Response(200, "OK", (), url.encode())) for url in urls]
    site.write(tmp_path / "site", exchanges)
    ended = replay(tmp_path / "site", f"curl -sS -m 20 {' '.join(urls)}; getent hosts a_b.example.org")
    assert ended.stdout.split() == ["".join(urls) + "198.18.0.3", "a_b.example.org"], ended.stderr


def test_the_machines_own_list_of_names_is_hidden(recording: Recording, tmp_path: Path) -> None:
    # The machine's list has the addresses of the origins.
    command = [
        *CATNIP,
        "replay",
        recording.folder,
        *LINK,
        "--",
        "curl",
        "-sS",
        "-m",
        "20",
        f"https://{STATIC}/style.css",
    ]
    ended = at_origins(tmp_path, *command)
    assert (ended.returncode, ended.stdout) == (0, CSS), ended.stderr


def test_the_query_that_begins_most_alike_is_answered(recording: Recording, tmp_path: Path) -> None:
    script = f"curl -sS 'https://{STATIC}/image.gif?number=2&size=small&time=99' -o image"
    assert replay(recording.folder, script, cwd=tmp_path).returncode == 0
    assert (tmp_path / "image").read_bytes() == origins.image(2)


@pytest.mark.parametrize(
    ("options", "command", "code", "message"),
    [
        (["--delay", "1ms", *LINK], ["sh", "-c", "exit 7"], 7, "link certificate"),
        (LINK, ["sh", "-c", "kill -KILL $$"], 137, "link certificate"),
        (["--rate", "much"], ["true"], BAD_INPUT, 'error: --rate: "much": expected'),
        (LINK, ["no-such-command"], 127, "error: no-such-command: command not found"),
        (
            ["--tolerance", "0ms"],
            ["curl", "-s", "-o", "/dev/null", f"https://{WWW}/"],
            RED,
            "certificate: red",
        ),
    ],
)
def test_exit_codes_are_those_of_a_link(
    recording: Recording, options: list[str], command: list[str], code: int, message: str
) -> None:
    ended = run([*CATNIP, "replay", str(recording.folder), *options, "--", *command])
    assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
    assert message in ended.stderr


def test_an_ordinary_user_can_replay(recording: Recording) -> None:
    if run([*AS_USER, *network.AS_USER, "true"]).returncode:
        pytest.skip("no user namespaces in user namespaces")
    command = ["sh", "-c", f"id -u; curl -sS https://{STATIC}/style.css | wc -c"]
    ended = run([*AS_USER, *CATNIP, "replay", str(recording.folder), *LINK, "--quiet", "--", *command])
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"1000\n{len(CSS)}\n", "")


def test_a_signal_ends_a_replay_and_nothing_stays(recording: Recording, tmp_path: Path) -> None:
    pid_file = tmp_path / "there"
    command = [
        *CATNIP,
        "replay",
        str(recording.folder),
        *LINK,
        "--",
        "sh",
        "-c",
        f"echo $$ >{pid_file}; exec sleep 4711",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        for _ in range(600):
            if pid_file.exists() and pid_file.read_text():
                break
            time.sleep(0.05)
        running.send_signal(signal.SIGTERM)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM, err
    remaining = [
        link for link in Path("/proc").glob("[0-9]*/cmdline") if read_if_there(link) == b"sleep\x004711\x00"
    ]
    assert remaining == []


def read_if_there(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


@with_browser
def test_a_browser_records_a_page_of_three_hosts(page: Recording) -> None:
    recorded = site.read(page.folder)
    assert {origin.host for origin in recorded.origins} == {WWW, STATIC, API}
    assert len(recorded.exchanges) == 3 + IMAGES
    size = sum(len(one.response.body) for one in recorded.exchanges)
    assert page.err == f"site: 9 responses from 3 origins, {size} bytes\n"
    assert recorded.documents == [f"https://{WWW}/"]


@with_browser
def test_pages_are_timed_pair_by_pair(page: Recording) -> None:
    named_links = [f"near: --delay 10ms {' '.join(LINK)}", f"far: --delay 60ms {' '.join(LINK)}"]
    command = [
        *CATNIP,
        "pages",
        str(page.folder),
        "--runs",
        "2",
        "--seed",
        "7",
        *(f"--link={link}" for link in named_links),
    ]
    ended = run([*command, "--json"])
    assert (ended.returncode, ended.stderr) == (0, "")
    printed = json.loads(ended.stdout)
    assert printed["seeds"] == [7, 8]
    assert printed["links"]["near"] == f"--delay 10ms {' '.join(LINK)}"
    # Loads alternate, with equal seeds in each pair.
    order = [(visit["link"], visit["seed"]) for visit in printed["visits"]]
    assert order == [("near", 7), ("far", 7), ("far", 8), ("near", 8)]
    assert all(visit["certificate"]["seed"] == visit["seed"] for visit in printed["visits"])
    [(url, links)] = printed["pages"].items()
    assert url == f"https://{WWW}/"
    for name, rtt_s in (("near", 0.02), ("far", 0.12)):
        of = links[name]
        assert (of["loaded"], of["visits"]) == (2, 2)
        # The name, two handshakes and the page take a round trip each, as do those of the next host.
        assert of["html_s"]["mean"] > 4 * rtt_s
        assert of["load_s"]["mean"] > 8 * rtt_s
        loads_s = [visit["load"]["seconds"] for visit in printed["visits"] if visit["link"] == name]
        assert of["load_s"]["mean"] == pytest.approx(sum(loads_s) / 2)
        assert of["load_s"]["low"] < of["load_s"]["mean"] < of["load_s"]["high"]
    assert links["near"]["less_s"] is None
    assert links["far"]["less_s"]["mean"] == pytest.approx(
        links["far"]["load_s"]["mean"] - links["near"]["load_s"]["mean"]
    )
    # One load precedes the counted loads. The fetch of a script may end after the load event.
    assert 5 * (2 + IMAGES) <= printed["replay"]["answered"] <= 5 * (3 + IMAGES)
    assert (printed["replay"]["unmatched"], printed["replay"]["unknown_names"]) == ({}, {})


@with_browser
def test_a_page_that_has_not_loaded_is_no_time(page: Recording) -> None:
    command = [
        *CATNIP,
        "pages",
        str(page.folder),
        "--runs",
        "1",
        "--link",
        f"gone: --delay 1s {' '.join(LINK)}",
    ]
    ended = run([*command, "--longest", "1.5"])
    assert ended.returncode == NOT_LOADED
    assert "0 of 1" in ended.stdout
    assert "gone, seed 1: not loaded: " in ended.stderr


@with_browser
def test_a_red_certificate_and_a_wrong_link_are_told(page: Recording) -> None:
    command = [*CATNIP, "pages", str(page.folder), "--runs", "1", "--link"]
    red = run([*command, "hasty: --tolerance 0ms"])
    assert red.returncode == RED
    assert "1 of 1" in red.stdout
    assert "hasty, seed 1: the certificate is red: " in red.stderr
    invalid = run([*command, "odd: --rate much"])
    assert (invalid.returncode, invalid.stdout, invalid.stderr.count("\n")) == (BAD_INPUT, "", 1)
    assert invalid.stderr.startswith('error: --link: odd: --rate: "much": expected')
    other = run([*command, "a:", "--url", f"https://{WWW}/other"])
    assert (other.returncode, other.stderr.count("\n")) == (BAD_INPUT, 1)
    assert f"https://{WWW}/other: not recorded in {page.folder}, which has https://{WWW}/" in other.stderr


@with_browser
def test_the_page_about_it_can_be_followed(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    # The large tolerance makes the test independent of the speed of this machine.
    script = "\n".join(blocks).replace("--rate", f"{' '.join(LINK)} --rate").replace("--runs 10", "--runs 1")
    called = f'catnip() {{ {" ".join(CATNIP)} "$@"; }}'
    ended = at_origins(tmp_path, "sh", "-euc", f"{called}\n{script}", timeout=200)
    assert ended.returncode == 0, ended.stderr
    assert len(site.read(tmp_path / "build" / "site").exchanges) == 3 + IMAGES
    assert "load event less dsl, s" in ended.stdout
    printed = json.loads((tmp_path / "build" / "replay.json").read_text())
    assert set(printed) == {"version", "site", "certificate", "replay"}
    # The columns are those of the page.
    [shown] = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert shown.splitlines()[2].split() in [line.split() for line in ended.stdout.splitlines()]


def test_what_this_needs_is_an_extra() -> None:
    assert {name for name, extra in extras.EXTRAS.items() if extra == "replay"} == {
        "certifi",
        "cryptography",
        "dns",
        "h11",
        "h2",
        "pyroute2",
    }
