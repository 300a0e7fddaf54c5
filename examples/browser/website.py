"""Files of the ten pages of the CATNIP paper, and an nginx that serves them."""

import csv
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

PORT = 8080
# The smallest GIF image; browsers skip any bytes after its end.
GIF = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")


@dataclass(frozen=True)
class Page:
    """Page with the sizes of its objects in bytes, the HTML first."""

    number: int
    objects: tuple[int, ...]

    @property
    def size(self) -> int:
        return sum(self.objects)

    def paths(self) -> list[str]:
        """Returns the paths of the objects on the server, in order."""
        return [f"/{self.number}/", *(f"/{self.number}/{i}.gif" for i in range(1, len(self.objects)))]

    def html(self) -> bytes:
        images = "".join(f'<img src="{i}.gif">' for i in range(1, len(self.objects)))
        # The empty icon keeps browsers from requesting one.
        text = f'<!doctype html><link rel="icon" href="data:,"><title>{self.number}</title>{images}<!--'
        return (text.ljust(self.objects[0] - 3, "x") + "-->").encode()


def read_pages(path: Path) -> list[Page]:
    """Returns the pages listed in catnip_pages.csv."""
    objects: dict[int, list[int]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            objects.setdefault(int(row["page"]), []).append(int(row["bytes"]))
    return [Page(number, tuple(sizes)) for number, sizes in sorted(objects.items())]


def write_site(pages: list[Page], folder: Path) -> None:
    """Writes each object of the pages as a file of exactly its size."""
    # nginx may run as another user, who must be able to read the files.
    folder.chmod(0o755)
    site = folder / "site"
    for page in pages:
        (site / str(page.number)).mkdir(parents=True)
        contents = [page.html(), *(GIF.ljust(size, b"\0") for size in page.objects[1:])]
        for content, size, path in zip(contents, page.objects, page.paths(), strict=True):
            if len(content) != size:
                raise ValueError(f"page {page.number}: {path} does not fit into {size} bytes")
            file = path[1:] + ("index.html" if path.endswith("/") else "")
            (site / file).write_bytes(content)


@contextmanager
def serve(nginx: str, folder: Path) -> Iterator[None]:
    """Runs nginx with mostly default settings during the block; it serves the files of `write_site`."""
    temporary = " ".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = folder / "nginx.conf"
    configuration.write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1;\n"
        "events {}\n"
        f"http {{ {temporary} access_log off; sendfile on; tcp_nopush on; default_type image/gif;\n"
        "types { text/html html; }\n"
        f"server {{ listen {PORT}; root {folder}/site; index index.html; }} }}\n"
    )
    server = subprocess.Popen(
        [nginx, "-e", f"{folder}/error.log", "-c", str(configuration)], stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            try:
                urlopen(f"http://127.0.0.1:{PORT}/").close()
            except URLError as error:
                if getattr(error, "code", None) is not None:
                    break  # it answers
                if server.poll() is not None:
                    raise RuntimeError(f"nginx: {(folder / 'error.log').read_text().strip()}") from error
                time.sleep(0.05)
        yield
    finally:
        server.terminate()
        server.wait()
