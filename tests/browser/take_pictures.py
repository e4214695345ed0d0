#!/usr/bin/env python3
"""take_pictures.py PAGE FOLDER: each section of the lesson page, three widths, light and dark, and
the two pictures of the README, lesson_machine.png and lesson_together.png.
"""

import sys
from pathlib import Path

from chromium import Chromium

WIDTHS = (360, 768, 1440)
# A state that shows more than the first one: gated experts, a shuffled sentence, a mixture.
BUSY = (
    "machine?act=gelu&ratio=4&gated=1&experts=5&top=2&pick=y.2&order=2013&cat=2"
    "&sr=3.5&sg=1&se=8&st=2"
)
README_PICTURES = {
    "lesson_machine": ("#flow", "machine?act=gelu&pick=y.2"),
    "lesson_together": ("#together .pair", "together?order=2013&cat=2"),
}


def main() -> int:
    page, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with Chromium() as browser:
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            for width in WIDTHS:
                browser.size(width)
                for name, fragment in (("first", ""), ("busy", BUSY)):
                    browser.open(page, fragment)
                    sections = browser.run(
                        "[...document.querySelectorAll('main > section')].map((s) => s.id)"
                    )
                    for section in ["header", *sections]:
                        if name == "busy" and section not in ("machine", "together", "size"):
                            continue
                        selector = "main > header" if section == "header" else f"#{section}"
                        picture = browser.picture(selector, 8)
                        (folder / f"{section}_{name}_{width}_{scheme}.png").write_bytes(picture)
        browser.scheme("light")
        browser.size(900)
        for name, (selector, fragment) in README_PICTURES.items():
            browser.open(page, fragment)
            (folder / f"{name}.png").write_bytes(browser.picture(selector))
        for complaint in browser.complaints:
            print(complaint)
    return 0


if __name__ == "__main__":
    sys.exit(main())
