"""Browser whose pages a test reads and operates."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from catnip.web.chromium import Chromium, find

BROWSER = find("chromium")
LONGEST_S = 60
CODES = {
    "Enter": ("Enter", 13, "\r"),
    " ": ("Space", 32, " "),
    "Tab": ("Tab", 9, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "Home": ("Home", 36, ""),
}


class Visitor(Chromium):
    """Browser with one page, whose scripts, keys and mouse a test uses."""

    session = ""
    context = ""

    @classmethod
    def start(cls) -> Self:
        """Returns a browser, for use in `with`."""
        assert BROWSER is not None
        return cls(BROWSER, has_sandbox=os.geteuid() != 0)

    def visit(self, url: str) -> None:
        """Opens a page instead of the one before, and waits until it is loaded."""
        if self.context:
            self._call("Target.disposeBrowserContext", browserContextId=self.context)
        self.context, self.session, _ = self._visit(url, LONGEST_S, "Page", "Runtime")

    def show(self, width: int, *, dark: bool = False, media: str = "screen") -> None:
        """Gives the page a window of this width, a colour scheme, and a medium: screen or print."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", self.session, **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", self.session, media=media, features=[scheme])

    def ask(self, expression: str) -> Any:
        """Returns the value of an expression in the page."""
        answer = self._call("Runtime.evaluate", self.session, expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Waits until an expression is true."""
        deadline = time.monotonic() + LONGEST_S
        while not self.ask(f"Boolean({expression})"):
            assert time.monotonic() < deadline, expression
            time.sleep(0.02)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Asks the page's only frame, which has a process of its own, during the block."""
        deadline = time.monotonic() + LONGEST_S
        frames: list[str] = []
        while not frames:
            assert time.monotonic() < deadline, "no frame"
            targets = self._call("Target.getTargets")["targetInfos"]
            frames = [one["targetId"] for one in targets if one["type"] == "iframe"]
        outer = self.session
        self.session = self._call("Target.attachToTarget", targetId=frames[0], flatten=True)["sessionId"]
        try:
            yield
        finally:
            self.session = outer

    def press(self, key: str) -> None:
        """Presses a key, of `CODES`."""
        code, number, text = CODES[key]
        pressed: dict[str, Any] = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        self._call("Input.dispatchKeyEvent", self.session, type="keyDown", text=text, **pressed)
        self._call("Input.dispatchKeyEvent", self.session, type="keyUp", **pressed)

    def click(self, selector: str) -> None:
        """Clicks the middle of an element with the mouse."""
        self.ask(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        box = self.ask(f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])"
                       f"(document.querySelector({selector!r}).getBoundingClientRect())")  # fmt: skip
        where: dict[str, Any] = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", self.session, type=kind, **where)

    def give(self, selector: str, *files: Path) -> None:
        """Chooses files in an input for files."""
        document = self._call("DOM.getDocument", self.session)["root"]["nodeId"]
        node = self._call("DOM.querySelector", self.session, nodeId=document, selector=selector)["nodeId"]
        self._call("DOM.setFileInputFiles", self.session, nodeId=node, files=[*map(str, files)])

    def drop(self, x: float, y: float, *files: Path) -> None:
        """Drops files on the page."""
        data = {"items": [], "files": [*map(str, files)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self._call("Input.dispatchDragEvent", self.session, type=kind, x=x, y=y, data=data)

    def drag(self, x: float, y: float, to_x: float) -> None:
        """Drags the mouse with its left button down."""
        for kind, at in (
            ("mouseMoved", x),
            ("mousePressed", x),
            ("mouseMoved", to_x),
            ("mouseReleased", to_x),
        ):
            where: dict[str, Any] = {"x": at, "y": y, "button": "left", "buttons": 1, "clickCount": 1}
            self._call("Input.dispatchMouseEvent", self.session, type=kind, **where)


@contextmanager
def readable(content: bytes) -> Iterator[str]:
    """Yields the address of a page with this content that the browser's user can read."""
    folder = Path(tempfile.mkdtemp(prefix="catnip-page-"))
    folder.chmod(0o755)
    page = folder / "page.html"
    page.write_bytes(content)
    page.chmod(0o644)
    try:
        yield page.as_uri()
    finally:
        shutil.rmtree(folder)
