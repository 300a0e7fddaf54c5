"""Network namespace in which a site is replayed: creation, addresses, and removal of known host names."""

import ipaddress
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile

from pyroute2 import AsyncIPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl.ifaddrmsg import IFA_F_NODAD

from catnip._core import InputError

AS_ROOT = ["unshare", "--net", "--mount", "--"]
AS_USER = ["unshare", "--user", "--map-current-user", "--keep-caps", "--net", "--mount", "--"]
"""Command prefix that creates a namespace as an ordinary user, whose account commands keep."""
HOSTS = Path("/etc/hosts")


def namespace_prefix() -> list[str]:
    """Returns the command prefix that runs a command in a new network namespace. Raises InputError."""
    reason = ""
    for prefix in [AS_ROOT, AS_USER] if os.geteuid() == 0 else [AS_USER]:
        tried = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            return prefix
        reason = tried.stderr.strip()
    advice = "run as root, or permit user namespaces (sysctl user.max_user_namespaces)"
    raise InputError(f"cannot create a network namespace: {reason}; {advice}")


async def have(addresses: Iterable[str]) -> None:
    """Adds addresses to the loopback device of this network namespace. Raises InputError."""
    async with AsyncIPRoute() as kernel:
        [loopback] = await kernel.link_lookup(ifname="lo")
        await kernel.link("set", index=loopback, state="up")
        for address in addresses:
            length = ipaddress.ip_address(address).max_prefixlen
            try:
                # Without a search for duplicates, which can last until after the first bind.
                await kernel.addr("add", index=loopback, address=address, prefixlen=length, flags=IFA_F_NODAD)
            except NetlinkError as error:
                raise InputError(f"{address}: cannot be added to this machine: {error}") from error


def hide_names() -> None:
    """Hides the machine's /etc/hosts in this mount namespace, because programs would use it before DNS."""
    if HOSTS.exists():
        with NamedTemporaryFile("w", prefix="catnip-hosts-") as file:
            file.write("127.0.0.1 localhost\n::1 localhost\n")
            file.flush()
            Path(file.name).chmod(0o644)
            tried = subprocess.run(
                ["mount", "--bind", file.name, HOSTS], capture_output=True, text=True, check=False
            )
        if tried.returncode:
            raise InputError(f"{HOSTS}: cannot be replaced: {tried.stderr.strip()}")
