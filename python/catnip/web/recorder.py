"""Recorder of a site: exchanges that a proxy has forwarded."""

import re
from collections.abc import Iterable
from itertools import count

from catnip.web.site import Exchange, Headers, Origin, Site, origin_of

SECRETS = {"authorization", "cookie", "proxy-authorization"}
"""Headers of requests that identify the user; they are not recorded, because a replay does not need them."""
MAX_BODY = 100 * 10**6
"""Size of the largest exchange that is recorded, bytes."""
TOO_LARGE = f"a body of more than {MAX_BODY // 10**6} MB"
MAX_RECORDED = 1 << 30
"""Largest total size of the recorded messages, which are in memory until the end, bytes."""
MAX_SUBJECT = 2000
"""Longest text by which a request without a complete exchange is told, characters."""


class Recorder:
    """Exchanges of a recording, and what could not be recorded."""

    def __init__(self) -> None:
        self._numbers = count()
        self._begun: dict[int, Exchange] = {}
        self._lost: dict[int, str] = {}
        self.protocols: dict[Origin, str] = {}
        """Protocols that servers choose if they are offered all of ours."""
        self._held_bytes = 0
        """Size of the messages in memory: those of complete exchanges, and what is there of the others."""
        self._held_of: dict[int, int] = {}
        """Sizes of the exchanges that are not complete, bytes."""

    @property
    def exchanges(self) -> list[Exchange]:
        """Complete exchanges, in the order of their requests."""
        return [exchange for _, exchange in sorted(self._begun.items())]

    @property
    def site(self) -> Site:
        """Complete exchanges, with the protocols of their servers as far as these are known."""
        found = Site(self.exchanges)
        known = [origin for origin in found.origins if origin in self.protocols]
        return Site(found.exchanges, {origin: self.protocols[origin] for origin in known})

    @property
    def lost(self) -> list[str]:
        """Requests without a complete exchange, each with the reason."""
        return [line for _, line in sorted(self._lost.items())]

    def begin(self, subject: str) -> int:
        """Registers a request, `METHOD URL`, as incomplete until `complete`; returns its number."""
        number = next(self._numbers)
        self._lost[number] = f"{subject[:MAX_SUBJECT]}: not complete at the end of the recording"
        self._held_of[number] = 0
        return number

    def hold(self, number: int, size: int) -> bool:
        """Registers bytes of a message that come into memory.

        Returns false if they must not, because the message or the recording would be too large. The exchange
        is lost then, and what it has held is free.
        """
        if number not in self._held_of:
            return False
        self._held_of[number] += size
        self._held_bytes += size
        if self._held_of[number] > MAX_BODY:
            self.lose(number, TOO_LARGE)
        elif self._held_bytes > MAX_RECORDED:
            self.lose(number, f"the recording has {MAX_RECORDED >> 20} MB, and no more is kept")
        return number in self._held_of

    def lose(self, number: int, reason: str) -> None:
        """Registers the reason why a request has no complete response; the first one counts."""
        if number in self._held_of:
            self._held_bytes -= self._held_of.pop(number)
            subject = self._lost[number].partition(": ")[0]
            self._lost[number] = f"{subject}: {re.sub(r'[^ -~]+', ' ', reason)}"

    def fail(self, subject: str, reason: str) -> None:
        """Registers a connection over which no request can be sent."""
        self.lose(self.begin(subject), reason)

    def complete(self, number: int, exchange: Exchange) -> None:
        """Registers a complete response, whose bodies are held."""
        request, response = exchange.request, exchange.response
        try:
            origin_of(request.url)
        except ValueError as why:
            self.lose(number, str(why))
            return
        fields = [*request.headers, *response.headers]
        if self.hold(number, len(request.url) + sum(len(name) + len(value) for name, value in fields)):
            self._begun[number] = exchange
            del self._lost[number], self._held_of[number]


def listed(fields: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Returns headers as pairs of Latin-1 texts, which represent every byte."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]
