"""Sites of this comparison, made by code: the same bytes on every machine."""

import random
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from catnip.web.site import HTTP1, HTTP2, PORTS, Exchange, Origin, Request, Response, write

NAMES = ("www", "static", "img", "cdn", "media", "fonts", "api", "ads")
"""Names of the hosts of a site, of which the first has its page."""
ORIGINS: Mapping[int, int] = {1: 1, 10: 3, 60: 8}
"""Number of origins of a site by its number of objects."""
PROTOCOLS = {"1.1": HTTP1, "2": HTTP2}
"""Protocols of the servers by the version of HTTP."""
SCHEME = "https"
LEAST_BYTES, MOST_BYTES = 300, 200_000
"""Limits of the sizes of objects, bytes."""
SIZE_MU, SIZE_SIGMA = 8.7, 1.2
"""Parameters of the lognormal distribution of sizes in bytes: their median is 6 KB."""
SINGLE_PAD_BYTES, PAD_BYTES = 60_000, 30_000
"""Length of what the HTML is padded with, if it is the only object and otherwise, bytes."""
PNG_SIDE = 20
"""Width and height of images, pixels."""


@dataclass(frozen=True)
class Site:
    """Site with a number of objects, all of whose servers speak one version of HTTP over TLS."""

    objects: int
    http: str

    @property
    def name(self) -> str:
        """Name of the site, for files."""
        return f"{self.objects}-objects-http-{self.http}"

    @property
    def origins(self) -> int:
        """Number of origins."""
        return ORIGINS[self.objects]

    @property
    def url(self) -> str:
        """URL of the page."""
        return self._url(0, "")

    @property
    def sheets(self) -> list[str]:
        """Paths of the style sheets, all in the head of the page."""
        return [f"sheet{number}.css" for number in range(self._sheets)]

    @property
    def scripts(self) -> list[str]:
        """Paths of the scripts: the first half in the head of the page, the others at the end of its body."""
        return [f"script{number}.js" for number in range(self._scripts)]

    @property
    def images(self) -> list[str]:
        """Paths of the images, in turn from all origins."""
        return [f"image{number}.png" for number in range(self.objects - 1 - self._sheets - self._scripts)]

    def exchanges(self) -> list[Exchange]:
        """Returns the requests and responses of the site, in the order of its page."""
        return [
            Exchange(
                Request("GET", url),
                Response(200, "OK", [("Content-Type", kind), ("Cache-Control", "no-store")], body),
            )
            for url, kind, body in self._files()
        ]

    def write(self, folder: Path) -> None:
        """Writes the site to a folder, for a replay."""
        hosts = {Origin(SCHEME, self._host(number), PORTS[SCHEME]) for number in range(self.origins)}
        write(folder, self.exchanges(), dict.fromkeys(sorted(hosts), PROTOCOLS[self.http]))

    @property
    def _sheets(self) -> int:
        return 0 if self.objects == 1 else max(1, self.objects // 20)

    @property
    def _scripts(self) -> int:
        return 0 if self.objects == 1 else max(2, self.objects // 7)

    def _files(self) -> Iterator[tuple[str, str, bytes]]:
        """Yields URL, type and contents of each object."""
        # Both versions of HTTP have the same objects.
        rng = random.Random(self.objects)
        yield self.url, "text/html", self._html(rng).encode()
        for path in self.sheets:
            yield self._url(0, path), "text/css", _comment(_size(rng))
        for number, path in enumerate(self.scripts):
            yield self._url(number % 2, path), "text/javascript", _comment(_size(rng))
        for number, path in enumerate(self.images):
            yield self._url(1 + number, path), "image/png", png(_size(rng))

    def _html(self, rng: random.Random) -> str:
        scripts = [
            f'<script src="{self._url(number % 2, path)}"></script>'
            for number, path in enumerate(self.scripts)
        ]
        half = len(scripts) // 2
        sheets = (f'<link rel="stylesheet" href="{self._url(0, path)}">' for path in self.sheets)
        images = (
            f'<img width="{PNG_SIDE}" height="{PNG_SIDE}" src="{self._url(1 + number, path)}">'
            for number, path in enumerate(self.images)
        )
        # The browser would ask for an icon by itself.
        head = ['<meta charset="utf-8"><title>A site</title><link rel="icon" href="data:,">', *sheets]
        pad = "".join(rng.choices("abcdefghij", k=SINGLE_PAD_BYTES if self.objects == 1 else PAD_BYTES))
        return (
            f"<!doctype html><html><head>{''.join([*head, *scripts[:half]])}</head>"
            f"<body>{''.join([*images, *scripts[half:]])}<!--{pad}--></body></html>"
        )

    def _host(self, number: int) -> str:
        return f"{NAMES[number % self.origins]}.site.example"

    def _url(self, number: int, path: str) -> str:
        return f"{SCHEME}://{self._host(number)}/{path}"


SITES = [Site(objects, http) for objects in ORIGINS for http in PROTOCOLS]


def png(size: int) -> bytes:
    """Returns a black PNG image of this size or, if that is too small for one, of the least possible size."""
    rows = (b"\0" + bytes(3 * PNG_SIDE)) * PNG_SIDE
    header = struct.pack(">IIBBBBB", PNG_SIDE, PNG_SIDE, 8, 2, 0, 0, 0)
    least = _png(header, b"c\0", rows)
    return _png(header, b"c\0".ljust(2 + size - len(least), b"x"), rows)


def _png(header: bytes, text: bytes, rows: bytes) -> bytes:
    chunks = ((b"IHDR", header), (b"tEXt", text), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def _size(rng: random.Random) -> int:
    """Draws the size of an object."""
    return int(min(MOST_BYTES, max(LEAST_BYTES, rng.lognormvariate(SIZE_MU, SIZE_SIGMA))))


def _comment(size: int) -> bytes:
    """Returns a comment of this size for a style sheet or a script."""
    return b"/*" + b"x" * (size - 4) + b"*/"
