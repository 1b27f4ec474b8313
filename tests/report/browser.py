"""A headless Chromium driven over DevTools through two pipes: no driver program, no port, no further package."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """Return the program, or None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One tab: what it shows, and everything it complained about or asked the network for."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser, self.session = browser, session
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.call(method, session=self.session, **params)

    def hear(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(json.dumps(params["entry"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 500)  # fmt: skip
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + 60
        while self.run("document.readyState") != "complete":
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} did not load")
            time.sleep(0.05)

    def run(self, expression: str) -> Any:
        """Return the value of an expression, evaluated in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key such as Tab, Enter or Escape."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}
        common = {"key": key, "windowsVirtualKeyCode": codes[key], "modifiers": 8 if shift else 0}
        text = {"Enter": {"text": "\r"}, " ": {"text": " "}}.get(key, {})
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def picture(self, path: Path, *, clip: tuple[float, float, float, float] | None = None) -> None:
        more: dict[str, Any] = {"captureBeyondViewport": True}
        if clip is not None:
            more["clip"] = dict(zip(("x", "y", "width", "height"), clip, strict=True)) | {"scale": 1}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"]))

    def printed(self) -> bytes:
        """Return the page as it is printed, a PDF."""
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])


class Browser:
    """A running Chromium."""

    def __init__(self, program: str, folder: str) -> None:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                 "--no-first-run", "--disable-background-networking", "--disable-component-update",
                 "--disable-extensions", "--mute-audio"]  # fmt: skip
        # The shell gives the browser the two ends under the numbers it looks for.
        line = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(
            [
                "bash",
                "-c",
                line,
                program,
                *flags,
                f"--user-data-dir={folder}",
                "--remote-debugging-pipe",
                "about:blank",
            ],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out, self._rest, self._last = ours_in, ours_out, b"", 0
        self._pages: dict[str, Page] = {}

    def call(self, method: str, session: str | None = None, timeout: float = 60, **params: Any) -> dict[str, Any]:
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            page = self._pages.get(answer.get("sessionId", ""))
            if page is not None and "method" in answer:
                page.hear(answer["method"], answer.get("params", {}))

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(deadline - time.monotonic(), 0))
            piece = os.read(self._in, 1 << 20) if ready else b""
            if not piece:
                raise TimeoutError("the browser does not answer")
            self._rest += piece
        one, self._rest = self._rest.split(b"\0", 1)
        return dict(json.loads(one))

    def page(self) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        return page

    def close(self) -> None:
        try:
            self.call("Browser.close", timeout=10)
            self.process.wait(10)
        except (OSError, TimeoutError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self._in)
        os.close(self._out)


@contextmanager
def started(program: str) -> Iterator[Browser]:
    """Start a browser with a profile of its own and close it again."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(program, folder)
        try:
            yield browser
        finally:
            browser.close()
