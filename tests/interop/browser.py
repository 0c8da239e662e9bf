"""A headless Chromium, controlled over its debugging pipe: open pages, measure, take screenshots and print.

It uses the Chrome DevTools Protocol: JSON messages that end with a zero byte (``--remote-debugging-pipe``). It does not
require a library. https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAX_PICTURE_HEIGHT = 16_000  # height limit of a full-page screenshot, in pixels


def find_chromium() -> str | None:
    """Return the path of a Chromium, from ``KAFKAFRAMES_CHROMIUM`` or the PATH."""
    return os.environ.get("KAFKAFRAMES_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


class Browser:
    """One tab. Use ``open_browser``."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = os.fdopen(write, "wb", buffering=0), os.fdopen(read, "rb")
        self._pending = b""
        self._number = 0
        self._events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        self._write.write(json.dumps(command).encode() + b"\0")
        while (message := self._receive()).get("id") != self._number:
            self._events.append(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        result: dict[str, Any] = message["result"]
        return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            more = os.read(self._read.fileno(), 1 << 16)
            if not more:
                raise RuntimeError("Chromium has ended")
            self._pending += more
        text, _, self._pending = self._pending.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _wait_for(self, event: str) -> None:
        while not any(message.get("method") == event for message in self._events):
            self._events.append(self._receive())

    def open(self, url: str, *, width: int, dark: bool = False) -> None:
        """Open a page at a width in CSS pixels. Narrow pages have touch input instead of a pointer."""
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=844 if phone else 900, deviceScaleFactor=1,
            mobile=phone,
        )  # fmt: skip
        colors = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media="", features=colors)
        self._events.clear()
        self.call("Page.navigate", url=url)
        self._wait_for("Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited.

        Raises:
            RuntimeError: the expression threw an exception.
        """
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:2000])
        return result["result"].get("value")

    def take_picture(self, to: Path, *, height: int | None = None) -> None:
        """Write a PNG of the whole page, or of its first ``height`` pixels."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        area = {
            "x": 0,
            "y": 0,
            "width": size["width"],
            "height": min(height or MAX_PICTURE_HEIGHT, size["height"]),
            "scale": 1,
        }
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=area)
        to.write_bytes(base64.b64decode(picture["data"]))

    def print_pdf(self, to: Path) -> None:
        """Write a PDF of the page as printed on A4."""
        page = self.call(
            "Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True
        )
        to.write_bytes(base64.b64decode(page["data"]))

    def close(self) -> None:
        """Close the browser."""
        self._session = None
        self.call("Browser.close")
        self._write.close()
        self._read.close()


@contextmanager
def open_browser(chromium: str) -> Iterator[Browser]:
    """Start a Chromium with a temporary profile."""
    to_it, write = os.pipe()
    read, from_it = os.pipe()
    with tempfile.TemporaryDirectory(prefix="kafkaframes-chromium-", ignore_cleanup_errors=True) as profile:
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        command = [
            chromium,
            *flags,
            "--no-first-run",
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
            "about:blank",
        ]

        def connect() -> None:  # Chromium reads commands from descriptor 3 and writes to 4
            ends = fcntl.fcntl(to_it, fcntl.F_DUPFD, 10), fcntl.fcntl(from_it, fcntl.F_DUPFD, 10)
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        with open(Path(profile) / "stderr", "wb") as log:
            process = subprocess.Popen(command, preexec_fn=connect, pass_fds=(3, 4), stderr=log, stdout=log)
        os.close(to_it)
        os.close(from_it)
        try:
            browser = Browser(write, read)
            yield browser
            browser.close()
            process.wait(20)
        finally:
            process.kill()
            process.wait()
