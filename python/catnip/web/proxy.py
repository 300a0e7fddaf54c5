"""Servers of mitmproxy for the duration of a block, with a new certificate authority."""

import asyncio
import base64
import hashlib
import logging
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_pem_x509_certificate
from mitmproxy.addons.anticache import AntiCache
from mitmproxy.addons.core import Core
from mitmproxy.addons.disable_h2c import DisableH2C
from mitmproxy.addons.next_layer import NextLayer
from mitmproxy.addons.proxyauth import ProxyAuth
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.addons.tlsconfig import TlsConfig
from mitmproxy.exceptions import OptionsError
from mitmproxy.master import Master
from mitmproxy.options import Options

from catnip._core import InputError
from catnip.base.verbosity import note

CREATED = "mitmproxy-ca-cert.pem"
"""Name of the file in which mitmproxy stores the certificate of its authority."""

TRUSTED = ("CATNIP_CA", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
"""Environment variables with the file of trusted certificate authorities: ours, and those of OpenSSL, curl,
Python's requests and Node.js."""


@dataclass(frozen=True)
class Serving:
    """Running proxy servers: the addresses at which they listen, and their certificate authority."""

    addresses: Sequence[tuple[str, int]]
    authority: Path
    """File with the certificate of the servers' authority, whose key is deleted when the servers end."""
    login: str | None = None
    """Name and password that a proxy asks for, `NAME:PASSWORD`."""

    @property
    def pin(self) -> str:
        """Hash by which Chromium trusts the certificate authority (--ignore-certificate-errors-spki-list)."""
        key = load_pem_x509_certificate(self.authority.read_bytes()).public_key()
        known = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(hashlib.sha256(known).digest()).decode()

    def environment(self) -> dict[str, str]:
        """Returns the environment variables with which a command trusts the certificate authority."""
        return {**dict.fromkeys(TRUSTED, str(self.authority)), "CATNIP_CA_PIN": self.pin}


@asynccontextmanager
async def serving(
    modes: Sequence[str], addon: object, settings: Mapping[str, Any], login: str | None = None
) -> AsyncIterator[Serving]:
    """Runs servers in mitmproxy's modes `modes` during the block; `addon` handles their exchanges.

    With a `login`, `NAME:PASSWORD`, a proxy serves only clients that have it.
    """
    logger = logging.getLogger("mitmproxy")
    notes = _Notes()
    logger.addHandler(notes)
    with TemporaryDirectory(prefix="catnip-proxy-") as name:
        # Commands of other users must read the certificate, but not the key.
        folder, keys = Path(name), Path(name) / "keys"
        folder.chmod(0o755)
        keys.mkdir(mode=0o700)
        running = asyncio.Event()
        master = Master(Options(confdir=str(keys), mode=list(modes)))
        server = Proxyserver()
        try:
            # `addon` comes before the library's addons, because it may have the response, but after the one
            # that refuses a client.
            master.addons.add(_Running(running), ProxyAuth(), addon, Core(), AntiCache(), server)
            master.addons.add(NextLayer(), TlsConfig(), DisableH2C())
            master.options.update(**settings, proxyauth=login)
        except OptionsError as error:
            raise InputError(str(error)) from error
        task = asyncio.create_task(master.run())
        try:
            await running.wait()
            for instance in server.servers:
                if not instance.is_running:
                    reason = instance.last_exception
                    raise InputError(str(getattr(reason, "strerror", None) or reason))
            authority = folder / "ca.pem"
            shutil.copy(keys / CREATED, authority)
            yield Serving([address[:2] for address in server.listen_addrs()], authority, login)
        finally:
            master.shutdown()
            with suppress(asyncio.CancelledError):
                await task
            logger.removeHandler(notes)


class _Running:
    """Addon of mitmproxy that sets an event when all servers have started."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def running(self) -> None:
        self._event.set()


class _Notes(logging.Handler):
    """Log handler that shows mitmproxy's messages if --verbose is set."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())
