"""Tests of the uplink of commands behind links, which leaves the machine unchanged afterwards.

The machine is a network namespace with an uplink to a second namespace, which represents the Internet, and
a device to a third one, a neighbour on its local network.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from catnip._core import InputError
from catnip.base import programs

NEEDS = ("ip", "unshare", "nsenter", "runuser", "nft", "dnsmasq", "slirp4netns", "pasta")
USER = "nobody"
"""Account without rights, which every Linux has."""


def missing() -> str | None:
    try:
        programs.program()
    except InputError as error:
        return f"nothing in real time: {error}"
    if os.geteuid() != 0:
        return "network namespaces with an uplink need root"
    lacking = [name for name in NEEDS if shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") is None]
    return f"{', '.join(lacking)} not installed" if lacking else None


REASON = missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

# The first argument is the name server, the others are the command. All processes end with their namespace.
MACHINE = """
set -eu
export PATH=$PATH:/usr/sbin:/sbin
mount -t proc proc /proc
echo "nameserver $1" >resolv.conf && mount --bind resolv.conf /etc/resolv.conf
shift
unshare --net sleep 600 & internet=$!
unshare --net sleep 600 & lan=$!
echo $lan >lan.pid
# From an earlier machine in this folder.
rm -f listens
ip link set lo up
ip link add lan0 type veth peer name if0
for other in $internet $lan; do
  until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
done
ip link set if0 netns $lan
ip addr add 198.51.100.1/24 dev lan0 && ip link set lan0 up
neighbour ip addr add 198.51.100.2/24 dev if0 && neighbour ip link set if0 up
neighbour ip route add default via 198.51.100.1
ip link add up0 type veth peer name if0
ip link set if0 netns $internet
ip addr add 192.0.2.1/24 dev up0 && ip link set up0 up && ip route add default via 192.0.2.2
there() { nsenter --target $internet --net "$@"; }
there ip link set lo up
there ip addr add 192.0.2.2/24 dev if0 && there ip link set if0 up && there ip addr add 203.0.113.5/32 dev lo
there dnsmasq --no-resolv --no-hosts --address=/example.test/203.0.113.5 --pid-file=
dnsmasq --no-resolv --no-hosts --server=203.0.113.5 --listen-address=127.0.0.1 --bind-interfaces --pid-file=
there python3 server.py & while ! [ -e listens ]; do sleep 0.01; done
"$@"
"""

# Server that returns the client's address.
SERVER = """
import http.server, pathlib
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"You are {self.client_address[0]}".encode())
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("", 80), Handler)
pathlib.Path("listens").touch()
server.serve_forever()
"""

FETCH = (
    "import urllib.request; print(urllib.request.urlopen('http://example.test/', timeout=20).read().decode())"
)
STATE = "nft list ruleset; cat /proc/sys/net/ipv4/conf/*/forwarding | sort | uniq -c; ip -brief address"
KNOWN, OWN = "203.0.113.5", "127.0.0.1"

Machine = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Returns a function that runs a shell script on the machine.

    The script has the commands `fetch`, `link` and `clean` (`link --clean`), which ordinary users can
    execute, too, and `neighbour`, which executes a command on the neighbour.
    """
    with tempfile.TemporaryDirectory(prefix="catnip-way-out-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        shutil.copy(programs.program(), root / "catnip-emu")
        (root / "server.py").write_text(SERVER)
        (root / "fetch.py").write_text(FETCH)
        commands = {
            "link": f'{root}/catnip-emu link --tolerance 60s -q "$@"',
            "clean": f"{root}/catnip-emu link --clean",
            "fetch": f"python3 {root}/fetch.py",
            "neighbour": f'nsenter --target "$(cat {root}/lan.pid)" --net "$@"',
        }
        for name, command in commands.items():
            (root / name).write_text(f"#!/bin/sh\nexec {command}\n")
            (root / name).chmod(0o755)

        def run(script: str, resolver: str = KNOWN) -> subprocess.CompletedProcess[str]:
            spaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
            path = f"{root}:{os.environ['PATH']}:/usr/sbin:/sbin"
            return subprocess.run(
                [*spaces, "sh", "-c", MACHINE, "machine", resolver, "sh", "-c", script],
                check=False,
                cwd=root,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                timeout=120,
            )

        yield run


def test_root_goes_out_with_the_address_of_the_machine_and_leaves_it_as_it_was(machine: Machine) -> None:
    done = machine(f"({STATE}) >before; link --nat --delay 5ms -- fetch; ({STATE}) >after; diff before after")
    assert (done.returncode, done.stdout) == (0, "You are 192.0.2.1\n"), done.stderr


def test_names_are_known_though_only_the_machine_itself_reaches_who_knows_them(machine: Machine) -> None:
    # The second fetch uses TCP, as for answers that exceed a datagram.
    done = machine("link --nat -- sh -c 'fetch; RES_OPTIONS=use-vc fetch'", OWN)
    assert done.stdout == "You are 192.0.2.1\n" * 2, done.stderr


def test_links_share_the_way_out_and_the_last_one_closes_it_even_if_others_were_killed(
    machine: Machine,
) -> None:
    script = f"""
      ({STATE}) >before
      link --nat -- sh -c 'echo $$ >short; sleep 0.5; fetch' & short=$!
      link --nat -- sh -c 'touch long; sleep 60' & long=$!
      until [ -e short ] && [ -e long ]; do sleep 0.05; done
      kill -9 $long
      wait $short
      # The killed one is cleaned up by a process that has outlived it.
      for try in $(seq 100); do ({STATE}) >after; cmp -s before after && break; sleep 0.05; done
      diff before after
    """
    done = machine(script)
    assert (done.returncode, done.stdout) == (0, "You are 192.0.2.1\n"), done.stderr


@pytest.mark.parametrize("family", ["ip", "inet"])
def test_a_firewall_that_would_drop_everything_is_named_and_one_that_accepts_the_device_is_none(
    machine: Machine, family: str
) -> None:
    rules = (
        f"table {family} filter {{ chain FORWARD {{ type filter hook forward priority 0; policy drop; }}; }}"
    )
    accept = f'nft add rule {family} filter FORWARD {{}}ifname "\\"catnip*\\"" accept'
    done = machine(
        f"nft '{rules}'; ({STATE}) >before; link --nat -- true; echo $?; ({STATE}) | diff before - &&"
        f"{accept.format('i')} && {accept.format('o')} && link --nat -- fetch"
    )
    assert (done.returncode, done.stdout) == (0, "2\nYou are 192.0.2.1\n"), done.stderr
    assert done.stderr.startswith(
        "error: --nat: cannot set up address translation: the firewall drops forwarded packets "
        f"(table {family} filter, chain FORWARD, policy drop); add rules there that accept"
    )


CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2)
    print("connected")
except OSError as error:
    print(type(error).__name__)
"""
ASK = """
import socket, sys
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asked.settimeout(2)
asked.connect((sys.argv[1], 53))
question = b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" b"\\7example\\4test\\0" b"\\0\\1\\0\\1"
asked.send(question)
try:
    print(len(asked.recv(512)) > 30)
except OSError as error:
    print(type(error).__name__)
"""


def test_neighbours_go_neither_through_a_machine_with_a_link_nor_to_what_is_behind_it(
    machine: Machine,
) -> None:
    # The address 203.0.113.5 answers to the machine only, as it has no route to the neighbour. A packet that
    # comes there would be counted.
    script = f"""
      cat >connect.py <<'END'
{CONNECT}
END
      cat >ask.py <<'END'
{ASK}
END
      link --nat -- sh -c 'echo $CATNIP_INSIDE >inside; echo $CATNIP_OUTSIDE >outside
        python3 -m http.server 8000 >/dev/null 2>&1 & touch up; sleep 60' & link=$!
      until [ -e up ] && python3 connect.py $(cat inside) 8000 | grep -q connected; do sleep 0.1; done
      python3 connect.py $(cat inside) 8000
      python3 ask.py $(cat outside)
      neighbour python3 connect.py $(cat inside) 8000
      neighbour python3 ask.py $(cat outside)
      link --nat -- python3 connect.py $(cat inside) 8000
      nft add table ip count
      nft add chain ip count out '{{ type filter hook postrouting priority 0; }}'
      nft add rule ip count out oifname up0 counter
      neighbour python3 connect.py 203.0.113.5 80
      nft list table ip count | grep -o 'packets 0'
      kill $link; wait
    """
    done = machine(script, OWN)
    machine_itself, neighbours, others = ["connected", "True"], ["TimeoutError"] * 2, ["TimeoutError"]
    lines = done.stdout.splitlines()
    assert lines == [*machine_itself, *neighbours, *others, "TimeoutError", "packets 0"], done.stderr


def test_a_machine_that_forwards_anyway_goes_on_to_forward_for_its_neighbours(machine: Machine) -> None:
    script = f"""
      cat >connect.py <<'END'
{CONNECT}
END
      for one in up0 lan0; do echo 1 >/proc/sys/net/ipv4/conf/$one/forwarding; done
      nft add table ip router
      nft add chain ip router out '{{ type nat hook postrouting priority srcnat; }}'
      nft add rule ip router out oifname up0 masquerade
      link --nat -- sh -c 'touch up; sleep 60' & link=$!
      until [ -e up ]; do sleep 0.1; done
      neighbour python3 connect.py 203.0.113.5 80
      kill $link; wait
    """
    done = machine(script)
    assert done.stdout == "connected\n", done.stderr


def test_another_user_cannot_hold_a_link_up(machine: Machine) -> None:
    # Each user can lock the file of a network namespace.
    script = f"""
      runuser -u {USER} -- flock --exclusive /proc/self/ns/net sh -c 'touch {{}}/held; sleep 60' & held=$!
      sleep 0.3
      timeout 10 link --nat -- fetch
      echo $?
    """
    done = machine(script.replace("{}", "/tmp"))
    assert done.stdout == "You are 192.0.2.1\n0\n", done.stderr


@pytest.mark.parametrize("cleaner", ["clean", "link -- true"])
def test_what_links_leave_that_are_killed_with_their_helpers_is_reverted_by_the_next(
    machine: Machine, cleaner: str
) -> None:
    script = f"""
      ({STATE}) >before
      link --nat -- sh -c 'touch up; sleep 60' & link=$!
      until [ -e up ]; do sleep 0.05; done
      pkill -9 -f '[c]atnip-emu'; wait
      cat /proc/sys/net/ipv4/conf/up0/forwarding
      {cleaner}
      ({STATE}) | diff before -
    """
    done = machine(script)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_devices_may_have_names_that_nft_takes_for_something_else(machine: Machine) -> None:
    script = f"""
      for name in 6to4 log 'a;b' '*' 'a"b*' $(seq 8 20); do ip tuntap add mode tun name "$name"; done
      ({STATE}) >before
      link --nat -- fetch
      ({STATE}) | diff before -
    """
    done = machine(script)
    assert (done.returncode, done.stdout) == (0, "You are 192.0.2.1\n"), done.stderr


@pytest.mark.parametrize("carrier", ["slirp4netns", "pasta"])
def test_ordinary_users_go_out_through_a_program_that_carries_connections(
    machine: Machine, carrier: str
) -> None:
    other = {"slirp4netns": "pasta", "pasta": "slirp4netns"}[carrier]
    hide = f"mount --bind /dev/null $(command -v {other})"
    # A device file as made by udev, which some machines lack.
    allow = "rm -f tun && mknod tun c 10 200 && chmod 666 tun && mount --bind tun /dev/net/tun"
    for resolver in (KNOWN, OWN):
        done = machine(
            f"{hide}; {allow}; runuser -u {USER} -- link --nat --delay 5ms -- sh -c 'id -un; fetch'", resolver
        )
        assert done.stdout == f"{USER}\nYou are 192.0.2.1\n", done.stderr


def test_without_any_of_these_the_refusal_says_what_to_install(machine: Machine) -> None:
    hide = "for one in slirp4netns pasta nft; do mount --bind /dev/null $(command -v $one); done"
    done = machine(f"{hide}; link --nat -- true; echo $?; runuser -u {USER} -- link --nat -- true; echo $?")
    assert done.stdout == "2\n2\n"
    assert done.stderr.count("error: --nat: requires nft (nftables) for root, slirp4netns or pasta") == 2


def test_root_without_nftables_goes_out_as_others_do(machine: Machine) -> None:
    done = machine("mount --bind /dev/null $(command -v nft); link --nat -- fetch")
    assert done.stdout == "You are 192.0.2.1\n", done.stderr


def test_a_command_of_another_user_has_no_rights_of_root(machine: Machine) -> None:
    said = (
        "id -un; id -Gn; echo $HOME $USER; grep CapEff /proc/self/status; /sbin/ip link set lo down; echo $?"
    )
    done = machine(f"link --nat --user {USER} -- sh -c '{said}; ./fetch'")
    name, groups, home, rights, refused, fetched = done.stdout.splitlines()
    assert (name, groups, home) == (USER, "nogroup", f"/nonexistent {USER}")
    assert int(rights.split()[1], 16) == 0
    assert (refused, fetched) == ("2", "You are 192.0.2.1")
    done = machine(f"link --user missing-user -- true; runuser -u {USER} -- link --user root -- true")
    assert done.stderr.splitlines() == [
        'error: --user: there is no user "missing-user"',
        "error: --user: only root can run a command as another user; omit the option",
    ]


def test_a_command_asks_the_name_server_that_is_said(machine: Machine) -> None:
    # The name server is outside two links, and the machine uses another name server.
    done = machine(
        "link --nat --resolver 203.0.113.5 -- link -- sh -c 'cat /etc/resolv.conf; fetch'", "192.0.2.99"
    )
    assert done.stdout == "nameserver 203.0.113.5\nYou are 192.0.2.1\n", done.stderr


def test_the_base_is_outside_of_all_links(machine: Machine) -> None:
    done = machine(
        "CATNIP_BASE=1.2.3.4 link -- sh -c 'echo $CATNIP_BASE; link -- sh -c \"echo \\$CATNIP_BASE\"'"
    )
    assert done.stdout == "100.64.0.1\n100.64.0.1\n", done.stderr
