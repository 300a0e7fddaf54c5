"""Certificate authority of a recording or a replay, whose key is in memory only."""

import base64
import hashlib
import ipaddress
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from catnip.web.site import HTTP1

TRUSTED = ("CATNIP_CA", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
"""Environment variables with the file of trusted certificate authorities: ours, and those of OpenSSL, curl,
Python's requests and Node.js."""
VALID = timedelta(days=90)
"""Time for which certificates are valid, from a day before they are made."""


class Authority:
    """Authority that certifies every host; for use in `with`, which removes its certificate at the end."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        # One key for all hosts saves time, and no client looks at it.
        self._host_key = ec.generate_private_key(ec.SECP256R1())
        self._contexts: dict[tuple[str, str], ssl.SSLContext] = {}
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "CATNIP, one recording or replay")])
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        self._certificate = (
            _begun(name, name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, SHA256())
        )
        self._folder = TemporaryDirectory(prefix="catnip-authority-")
        # Commands of other users read the certificate.
        Path(self._folder.name).chmod(0o755)
        self.file = Path(self._folder.name) / "ca.pem"
        """File with the authority's certificate."""
        self.file.write_bytes(self._certificate.public_bytes(Encoding.PEM))
        # Whatever the umask: commands of other users read it.
        self.file.chmod(0o644)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    @property
    def pin(self) -> str:
        """Hash by which Chromium trusts the authority (--ignore-certificate-errors-spki-list)."""
        known = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(hashlib.sha256(known).digest()).decode()

    def environment(self) -> dict[str, str]:
        """Returns the environment variables with which a command trusts the authority."""
        return {**dict.fromkeys(TRUSTED, str(self.file)), "CATNIP_CA_PIN": self.pin}

    def context(self, host: str, protocol: str = HTTP1) -> ssl.SSLContext:
        """Returns the TLS context of a server with this name or IP address.

        Clients choose `protocol`, or HTTP/1.1 if they lack it.
        """
        if (host, protocol) not in self._contexts:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.set_alpn_protocols(list(dict.fromkeys([protocol, HTTP1])))
            chain = [self._certify(host), self._certificate]
            key = self._host_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            _load(context, b"".join([key, *(one.public_bytes(Encoding.PEM) for one in chain)]))
            self._contexts[host, protocol] = context
        return self._contexts[host, protocol]

    def _certify(self, host: str) -> x509.Certificate:
        # No common name: its 64 characters are too few for some hosts, and clients look at the other names.
        ours = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            _begun(x509.Name([]), self._certificate.subject, self._host_key.public_key())
            .add_extension(x509.SubjectAlternativeName([_named(host)]), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(ours, critical=False)
            .sign(self._key, SHA256())
        )


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    begin = datetime.now(UTC) - timedelta(days=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _named(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _load(context: ssl.SSLContext, chain: bytes) -> None:
    """Loads a key and its certificates, which OpenSSL reads from a file, from a file that is on no disk."""
    memory = os.memfd_create("certificates")
    try:
        os.write(memory, chain)
        context.load_cert_chain(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)
