"""A browser with a freshly written lesson page, and a reader's hands for it."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar

from chromium import Chromium

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("FOURFOLD_BIN", ROOT / "build/bin/fourfold"))
LESSON = json.loads((ROOT / "data/lesson.json").read_text(encoding="utf-8"))
TOLERANCE = 1e-5


def write_page(folder: str) -> Path:
    page = Path(folder) / "lesson.html"
    command = [str(BIN), "learn", "page", "--html", str(page)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
    return page


class PageCase(unittest.TestCase):
    folder: ClassVar[tempfile.TemporaryDirectory[str]]
    browser: ClassVar[Chromium]
    page: ClassVar[Path]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory(prefix="fourfold-lesson-")
        cls.page = write_page(cls.folder.name)
        cls.browser = Chromium()
        cls.browser.scheme("light")
        cls.browser.size(1440)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.browser.close()
        cls.folder.cleanup()

    def setUp(self) -> None:
        self.browser.complaints.clear()
        self.browser.open(self.page)

    def tearDown(self) -> None:
        self.assertEqual(self.browser.complaints, [])

    # Helpers

    def run_js(self, expression: str) -> Any:
        return self.browser.run(expression)

    def text(self, selector: str) -> str:
        return str(self.run_js(f"document.querySelector({json.dumps(selector)}).textContent"))

    def click(self, selector: str) -> None:
        self.run_js(f"document.querySelector({json.dumps(selector)}).click()")

    def put(self, selector: str, value: str | float | bool) -> None:
        """Sets a field as a reader would: its value, then its events."""
        field = f"const field = document.querySelector({json.dumps(selector)});"
        change = (
            f"field.checked = {json.dumps(value)};"
            if isinstance(value, bool)
            else f"field.value = {json.dumps(str(value))};"
        )
        events = (
            "for (const name of ['input', 'change'])"
            " field.dispatchEvent(new Event(name, { bubbles: true }));"
        )
        self.run_js(f"(() => {{ {field} {change} {events} }})()")

    def values(self, key: str) -> list[float]:
        """The numbers that cells of one row hold, in full."""
        found = self.run_js(
            f"[...document.querySelectorAll('#flow [data-key^=\"{key}.\"]')]"
            ".map((cell) => cell.dataset.value)"
        )
        return [float(value) for value in found]

    def columns(self, figure: str, kind: str) -> list[list[str]]:
        """Numbers of each token, by token."""
        found: list[list[str]] = self.run_js(
            f"[...document.querySelectorAll('#{figure} .{kind} .vector')]"
            ".sort((a, b) => a.dataset.token - b.dataset.token)"
            ".map((v) => [...v.querySelectorAll('.num')].map((n) => n.dataset.value))"
        )
        return found

    def assert_near(self, found: list[float], expected: list[float], what: str) -> None:
        self.assertEqual(len(found), len(expected), what)
        for a, b in zip(found, expected, strict=True):
            self.assertLessEqual(abs(a - b), TOLERANCE * max(1.0, abs(b)), f"{what}: {a} {b}")

    def library(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text("#numbers"))
        return found
