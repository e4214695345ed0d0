"""A headless Chromium driven over its DevTools pipe, with the standard library alone.

The pipe carries JSON messages, each ended by a zero byte: commands into the browser's descriptor 3,
answers and events out of its descriptor 4.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

ANSWER_SECONDS = 60.0


class BrowserError(RuntimeError):
    """The browser is missing, silent, or refused a command."""


class Chromium:
    """One browser with one page. Whatever the page complains about is kept in `complaints`."""

    def __init__(self, *, scripts: bool = True) -> None:
        program = shutil.which("chromium")
        if program is None:
            raise BrowserError("chromium is missing; on Debian: apt-get install chromium")
        self.folder = tempfile.mkdtemp(prefix="fourfold-chromium-")
        self.complaints: list[str] = []
        self._pending = b""
        self._last_id = 0
        browser_in, self._to_browser = os.pipe()
        self._from_browser, browser_out = os.pipe()
        command = [program, "--headless=new", "--remote-debugging-pipe", "--disable-gpu"]
        command += [f"--user-data-dir={self.folder}", "--no-first-run", "--hide-scrollbars"]
        command += ["--disable-dev-shm-usage", "--force-color-profile=srgb"]
        if os.geteuid() == 0:
            command.append("--no-sandbox")
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{browser_in} 4>&{browser_out}', *command],
            pass_fds=(browser_in, browser_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(browser_in)
        os.close(browser_out)
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})
        self._session = str(attached["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        if not scripts:
            self.call("Emulation.setScriptExecutionDisabled", {"value": True})

    def __enter__(self) -> "Chromium":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._to_browser)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from_browser)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _receive(self, seconds: float) -> dict[str, Any] | None:
        """The next message; None when there is none within the time."""
        end = time.monotonic() + seconds
        while b"\0" not in self._pending:
            ready = select.select([self._from_browser], [], [], max(0.0, end - time.monotonic()))
            if not ready[0]:
                return None
            piece = os.read(self._from_browser, 1 << 16)
            if not piece:
                raise BrowserError(f"chromium ended with code {self._process.poll()}")
            self._pending += piece
        text, _, self._pending = self._pending.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: Mapping[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            text = details.get("exception", {}).get("description", details["text"])
            self.complaints.append(f"exception: {text}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(f"console: {params['args']}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"log: {params['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("file:", "about:", "data:")):
                self.complaints.append(f"request: {url}")

    def _call(self, method: str, params: Mapping[str, Any], session: str = "") -> dict[str, Any]:
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < end:
            answer = self._receive(end - time.monotonic())
            if answer is not None and answer.get("id") == self._last_id:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
        raise BrowserError(f"{method}: no answer within {ANSWER_SECONDS:.0f} s")

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self._call(method, params or {}, self._session)

    def open(self, path: Path, fragment: str = "") -> None:
        """Loads a file from scratch and waits until it is there."""
        self.call("Page.navigate", {"url": "about:blank"})
        self._wait("location.href === 'about:blank'")
        url = path.resolve().as_uri() + (f"#{fragment}" if fragment else "")
        self.call("Page.navigate", {"url": url})
        self._wait("location.protocol === 'file:' && document.readyState === 'complete'")

    def _wait(self, condition: str) -> None:
        end = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < end:
            try:
                if self.run(condition):
                    return
            except BrowserError:
                pass  # the page is being replaced
            time.sleep(0.02)
        raise BrowserError(f"the page never came to: {condition}")

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, also a promise's."""
        answer = self.call(
            "Runtime.evaluate",
            {"expression": expression, "returnByValue": True, "awaitPromise": True},
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def size(self, width: int, height: int = 900, scale: float = 1) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False},
        )

    def scheme(self, name: str) -> None:
        """light or dark; motion is reduced so that nothing moves under a measurement."""
        self.call(
            "Emulation.setEmulatedMedia",
            {
                "features": [
                    {"name": "prefers-color-scheme", "value": name},
                    {"name": "prefers-reduced-motion", "value": "reduce"},
                ]
            },
        )

    def key(self, name: str) -> None:
        """Presses and releases a key: Tab, Enter, ArrowRight ..."""
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, " ": 32}
        event: dict[str, Any] = {"key": name, "code": name, "windowsVirtualKeyCode": codes[name]}
        if name in ("Enter", " "):
            event["text"] = "\r" if name == "Enter" else " "
        self.call("Input.dispatchKeyEvent", {"type": "keyDown", **event})
        self.call("Input.dispatchKeyEvent", {"type": "keyUp", **event})

    def picture(self, selector: str, margin: int = 0) -> bytes:
        """A PNG of one element, however tall."""
        box = self.run(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect();"
            " return [b.left + scrollX, b.top + scrollY, b.width, b.height]; })()"
        )
        clip = {"x": box[0] - margin, "y": box[1] - margin, "scale": 1}
        clip |= {"width": box[2] + 2 * margin, "height": box[3] + 2 * margin}
        shot = self.call("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
        return base64.b64decode(shot["data"])
