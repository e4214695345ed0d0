"""How the lesson page looks and who can use it: three widths, light and dark, keys alone, names for
screen readers, and all of it without scripts.
"""

import tempfile
import unittest

import page_measures
from chromium import Chromium
from page_case import LESSON, PageCase, write_page

WIDTHS = (360, 768, 1440)
# States with other shapes than the first: wide and gated, a mixture, nonsense numbers, one step.
STATES = (
    "",
    "machine?act=swiglu_oai&gated=1&ratio=4&experts=8&top=8&look=7&pick=out.2&order=3120&cat=-100",
    "machine?act=mish&experts=5&top=2&pick=y.2&sd=8192&sr=8&sg=1&se=64&st=64&fit=32&seed=9",
    "machine?x=100,-100,99.999,-99.999&act=relu2&gated=1&ratio=4&pick=y.1&level=hinglish&card=9",
    "machine?act=gelu&ratio=4&gated=1&experts=5&top=2&pick=y.2",
    "machine?step=2&pick=pre.7&question=11&w=up.0.7.1:-12.345",
)


class PageLooksTest(PageCase):
    def test_keys_alone_reach_a_number(self) -> None:
        self.run_js("document.getElementById('reset').focus()")
        self.browser.key("Tab")
        self.assertEqual(self.run_js("document.activeElement.dataset.key"), "x.0")
        self.browser.key("ArrowRight")
        self.browser.key("ArrowRight")
        self.browser.key("Enter")
        self.assertEqual(self.run_js("document.activeElement.dataset.key"), "x.2")
        self.assertEqual(self.run_js("document.activeElement.ariaPressed"), "true")
        self.browser.key("Tab")
        self.assertEqual(self.run_js("document.activeElement.dataset.key"), "pre.0")

    def test_everything_operable_has_a_name(self) -> None:
        self.browser.call("Accessibility.enable")
        tree = self.browser.call("Accessibility.getFullAXTree")["nodes"]
        roles = {
            "button",
            "textbox",
            "spinbutton",
            "slider",
            "checkbox",
            "radio",
            "combobox",
            "link",
            "img",
        }
        nameless = [
            node["role"]["value"]
            for node in tree
            if not node.get("ignored")
            and node.get("role", {}).get("value") in roles
            and not node.get("name", {}).get("value")
        ]
        self.browser.call("Accessibility.disable")
        self.assertEqual(nameless, [])
        levels = self.run_js(
            "[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((h) => +h.tagName[1])"
        )
        self.assertEqual(levels[0], 1)
        for above, below in zip(levels, levels[1:], strict=False):
            self.assertLessEqual(below, above + 1)

    # Looks

    def check_looks(self, what: str, width: int) -> None:
        boxes = [tuple(box) for box in self.run_js(page_measures.TEXT_BOXES)]
        self.assertGreater(len(boxes), 300, what)
        self.assertEqual(page_measures.overlaps(boxes)[:5], [], f"{what}: text over text")
        outside = [box for box in boxes if box[1] < -0.5 or box[3] > width + 0.5]
        self.assertEqual(outside[:5], [], f"{what}: outside the page")
        wide = self.run_js("document.documentElement.scrollWidth")
        self.assertLessEqual(wide, width, f"{what}: scrolls sideways")
        self.assertEqual(self.run_js(page_measures.CLIPPED), [], f"{what}: clipped")
        self.assertEqual(self.run_js(page_measures.STICKING_OUT), [], f"{what}: sticks out")

    def test_no_text_is_covered_or_cut(self) -> None:
        open_all = (
            "document.querySelectorAll('details').forEach((d) => { d.open = true; });"
            "document.getElementById('card-all').click();"
        )
        for width in WIDTHS:
            self.browser.size(width)
            for state in STATES:
                self.browser.open(self.page, state)
                self.check_looks(f"{width} {state}", width)
            self.run_js(open_all)
            self.check_looks(f"{width} all open", width)
        self.browser.size(1440)

    def test_text_stands_out(self) -> None:
        for scheme in ("light", "dark"):
            self.browser.scheme(scheme)
            for state in STATES:
                self.browser.open(self.page, state)
                self.click("#choice-" + LESSON["choices"][0]["id"] + " input")
                weak = [one for one in self.run_js(page_measures.CONTRASTS) if one[1] < 4.5]
                self.assertEqual(weak[:5], [], f"{scheme} {state}")
        self.browser.scheme("light")


class WithoutScriptTest(unittest.TestCase):
    def test_text_and_pictures_are_there(self) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="fourfold-lesson-") as name,
            Chromium(scripts=False) as browser,
        ):
            page = write_page(name)
            for width in WIDTHS:
                browser.size(width)
                browser.open(page)
                browser.run(
                    "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
                )
                text = " ".join(browser.run("document.body.innerText").split())
                for wanted in self.texts():
                    self.assertIn(" ".join(wanted.replace("`", "").split()), text)
                for number in ("0.26", "0.14", "2.07", "0.44", "−1.329", "4,718,592"):
                    self.assertIn(number, text)
                pictures = browser.run(
                    "[...document.querySelectorAll('svg:not(.bar)')]"
                    ".filter((s) => s.checkVisibility()"
                    " && s.querySelector('line, path, rect')"
                    " && s.getBoundingClientRect().width > 60).length"
                )
                self.assertGreaterEqual(pictures, 9)
                live = browser.run(
                    "[...document.querySelectorAll('.live')]"
                    ".filter((e) => e.checkVisibility()).length"
                )
                self.assertEqual(live, 0)
                boxes = [tuple(box) for box in browser.run(page_measures.TEXT_BOXES)]
                self.assertEqual(page_measures.overlaps(boxes)[:5], [], width)
                self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), width)
            self.assertEqual(browser.complaints, [])

    @staticmethod
    def texts() -> list[str]:
        wanted = [card[key] for card in LESSON["cards"] for key in ("question", "answer")]
        wanted += [
            c[key] for c in LESSON["claims"] for key in ("claim", "what_literature_says", "verdict")
        ]
        wanted += [choice["explanation"] for choice in LESSON["choices"]]
        wanted += [text for one in LESSON["explanations"] for text in one["paragraphs"]]
        wanted += [one["text"] for one in LESSON["concepts"]]
        wanted += [text for one in LESSON["page"]["sections"] for text in one["paragraphs"]]
        return wanted


if __name__ == "__main__":
    unittest.main()
