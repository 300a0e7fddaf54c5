"""Recorder of a site: exchanges that a proxy has forwarded."""

import re
from collections.abc import Iterable
from itertools import count

from catnip.web.site import Exchange, Headers, Request, Response, origin_of

SECRETS = {"authorization", "cookie", "proxy-authorization"}
"""Headers of requests that identify the user; they are not recorded, because a replay does not need them."""
MAX_BODY = 100 * 10**6
"""Size of the largest body that is recorded, bytes."""
TOO_LARGE = f"a body of more than {MAX_BODY // 10**6} MB"
MAX_RECORDED = 1 << 30
"""Largest total size of the recorded bodies, which are in memory until the end, bytes."""


class Recorder:
    """Exchanges of a recording, and what could not be recorded."""

    def __init__(self) -> None:
        self._numbers = count()
        self._begun: dict[int, Exchange] = {}
        self._lost: dict[int, str] = {}
        self._recorded_bytes = 0

    @property
    def exchanges(self) -> list[Exchange]:
        """Complete exchanges, in the order of their requests."""
        return [exchange for _, exchange in sorted(self._begun.items())]

    @property
    def lost(self) -> list[str]:
        """Requests without a complete exchange, each with the reason."""
        return [line for _, line in sorted(self._lost.items())]

    def begin(self, subject: str) -> int:
        """Registers a request, `METHOD URL`, as incomplete until `complete`; returns its number."""
        number = next(self._numbers)
        self._lost[number] = f"{subject}: not complete at the end of the recording"
        return number

    def lose(self, number: int, reason: str) -> None:
        """Registers the reason why a request has no complete response."""
        subject = self._lost[number].partition(": ")[0]
        self._lost[number] = f"{subject}: {re.sub(r'[^ -~]+', ' ', reason)}"

    def fail(self, subject: str, reason: str) -> None:
        """Registers a connection over which no request can be sent."""
        self.lose(self.begin(subject), reason)

    def complete(self, number: int, request: Request, response: Response, address: str | None) -> None:
        """Registers a complete response from the server with this IP address."""
        size = len(request.body) + len(response.body)
        try:
            origin_of(request.url)
        except ValueError as why:
            self.lose(number, str(why))
            return
        if max(len(request.body), len(response.body)) > MAX_BODY:
            self.lose(number, TOO_LARGE)
        elif self._recorded_bytes + size > MAX_RECORDED:
            self.lose(number, f"the recording has {MAX_RECORDED >> 20} MB, and no more is kept")
        else:
            self._recorded_bytes += size
            self._begun[number] = Exchange(request, response, address)
            del self._lost[number]


def listed(fields: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Returns headers as pairs of Latin-1 texts, which represent every byte."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]
