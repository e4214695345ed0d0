"""The lesson page in a headless Chromium: every control, and its numbers against the library's.

Run by hand: python3 tests/browser/lesson_page_test.py, with the tool at build/bin/fourfold.
"""

import math
import time
import unittest
from typing import Any

from page_case import LESSON, TOLERANCE, PageCase


class LessonPageTest(PageCase):
    # Numbers

    def test_script_agrees_with_the_library(self) -> None:
        worst = float(self.run_js("document.getElementById('agreement').dataset.worst"))
        self.assertLess(worst, TOLERANCE)
        menu = self.run_js("[...document.querySelectorAll('#act option')].map((o) => o.value)")
        self.assertEqual(menu, self.library()["activations"])
        self.assertGreaterEqual(len(menu), 13)

    def test_every_setting_shows_the_librarys_numbers(self) -> None:
        for number, check in enumerate(self.library()["checks"]):
            self.put("#act", check["act"])
            if not self.run_js("document.getElementById('gated').disabled"):
                self.put("#gated", bool(check["gated"]))
            self.put("#ratio", check["ratio"])
            self.put("#experts", check["experts"])
            self.put("#top", check["top"])
            for j, value in enumerate(check["x"]):
                self.put(f"#x-{j}", value)
            name = f"setting {number}"
            if check["logits"]:
                self.assert_near(self.values("logit"), check["logits"], name)
            for expert in check["chosen"]:
                if check["experts"] > 1:
                    self.click(f"#flow [data-look='{expert['index']}']")
                    self.assert_near(self.values("out"), expert["out"], name)
                for key in ("pre", "up", "hidden"):
                    self.assert_near(self.values(key), expert[key], f"{name} {key}")
            for key in ("y", "sum", "normal"):
                self.assert_near(self.values(key), check[key], f"{name} {key}")

    def test_a_weight_in_the_arithmetic_can_be_changed(self) -> None:
        self.click("#flow [data-key='pre.6']")
        before = self.values("pre")
        products = self.run_js(
            "[...document.querySelectorAll('.working tr:not(.total) .product')]"
            ".map((e) => Number(e.textContent.replace('−', '-')))"
        )
        self.assertAlmostEqual(sum(products), before[6], 3)
        self.put("[data-weight='up.0.6.3']", 0.4)
        after = self.values("pre")
        self.assertAlmostEqual(after[6] - before[6], 2 * (0.4 - 0.9), 6)
        self.assertEqual(after[:6] + after[7:], before[:6] + before[7:])
        self.put("[data-weight='up.0.6.3']", "")
        self.assertEqual(self.values("pre"), after)
        self.click("#reset")
        self.assertEqual(self.values("pre"), before)

    def test_every_number_opens_its_arithmetic(self) -> None:
        self.browser.open(self.page, "machine?experts=3&top=2&gated=1&act=silu")
        keys = self.run_js(
            "[...document.querySelectorAll('#flow .cell')].map((c) => c.dataset.key)"
        )
        self.assertGreater(len(keys), 40)
        for key in keys:
            self.click(f"#flow [data-key='{key}']")
            shown = self.text(".working strong").split(" = ")[1].replace("−", "-")
            value = float(
                self.run_js(f"document.querySelector('[data-key=\"{key}\"]').dataset.value")
            )
            self.assertAlmostEqual(float(shown), value, 3, key)
            pressed = self.run_js("document.querySelectorAll('.cell[aria-pressed=true]').length")
            self.assertEqual(pressed, 1)

    def test_steps_appear_one_by_one(self) -> None:
        self.click("#replay")
        shown = "document.querySelectorAll('#flow .step:not([hidden])').length"
        self.assertEqual(self.run_js(shown), 1)
        for count in range(2, 7):
            self.click("#next-step")
            self.assertEqual(self.run_js(shown), count)
        self.assertTrue(self.run_js("document.getElementById('next-step').disabled"))
        self.click("#replay")
        self.click("#show-all")
        self.assertEqual(self.run_js(shown), 6)

    def test_bad_input_keeps_the_last_number(self) -> None:
        before = self.values("y")
        for bad in ("", "1000"):
            self.put("#x-0", bad)
            self.assertEqual(self.values("y"), before)
            self.assertIn("Give a number", self.text("#machine-message"))
        self.put("#x-0", "1")
        self.assertEqual(self.text("#machine-message"), "")

    # Sections

    def test_shuffling_moves_results_with_their_tokens(self) -> None:
        first = {name: self.columns(f"mix-{name}", "out") for name in ("attention", "ffn")}
        sentence = self.library()["sentence"]
        for name in ("attention", "ffn"):
            for found, expected in zip(first[name], sentence[name], strict=True):
                self.assert_near([float(v) for v in found], expected, name)
        orders = set()
        for _ in range(5):
            self.click("#shuffle")
            orders.add(self.text("#together-verdict").split(".")[0])
            self.assertEqual(self.columns("mix-ffn", "out"), first["ffn"])
            self.assertIn("FFN none", self.text("#together-verdict"))
        self.assertGreater(len(orders), 1)
        self.put("#cat", 3)
        self.click("#unshuffle")
        changed = self.columns("mix-ffn", "out")
        moved = [a != b for a, b in zip(changed, first["ffn"], strict=True)]
        self.assertEqual(moved, [False, True, False, False])
        mixed = self.columns("mix-attention", "out")
        self.assertTrue(all(a != b for a, b in zip(mixed, first["attention"], strict=True)))

    def test_sizes_equal_the_librarys_counts(self) -> None:
        for size in self.library()["sizes"]:
            self.put("#size-d", size["d"])
            self.put("#size-ratio", size["ratio"])
            self.put("#size-gated", bool(size["gated"]))
            self.put("#size-experts", size["experts"])
            self.put("#size-top", size["top"])
            bars = self.run_js(
                "Object.fromEntries([...document.querySelectorAll('[data-bar]')]"
                ".map((b) => [b.dataset.bar, Number(b.dataset.value)]))"
            )
            self.assertEqual(bars["total"], size["total"])
            self.assertEqual(bars["active"], size["active"])
            self.assertEqual(bars["ffn-flops"], size["flops"])
            self.assertEqual(bars["attention"], 4 * size["d"] ** 2)
            widths = self.run_js(
                "['attention', 'total'].map((n) => Number(document.querySelector"
                "(`[data-bar=${n}] rect`).getAttribute('width')))"
            )
            share = min(bars["attention"], bars["total"]) / max(bars["attention"], bars["total"])
            self.assertAlmostEqual(min(widths), 100 * share, 1)
        for button in range(3):
            self.run_js(f"document.querySelectorAll('[data-shape]')[{button}].click()")
        self.assertEqual(self.text("#size-d-text"), "4,096")

    def test_mistakes_fail_when_run(self) -> None:
        before = self.run_js("document.getElementById('flat-net-after').innerText")
        self.click("#flat-shuffle")
        self.assertNotEqual(
            before, self.run_js("document.getElementById('flat-net-after').innerText")
        )
        self.assertIn("Largest change: 0 for the FFN", self.text("#flat-verdict"))
        rows = {
            name: self.run_js(
                f"[...document.querySelectorAll('#{name} td')].map((c) => c.textContent)"
            )
            for name in ("flat-ffn-before", "flat-ffn-after", "flat-net-before", "flat-net-after")
        }
        self.assertEqual(rows["flat-ffn-before"], rows["flat-ffn-after"])
        self.assertNotEqual(rows["flat-net-before"], rows["flat-net-after"])
        for units in (1, 7, 32):
            self.put("#fit-units", units)
            grid = [i / 200 for i in range(201)]
            error = max(abs(self.joined(units, t) - math.sin(5 * t)) for t in grid)
            self.assertIn(f"largest error {error:.4f}", self.text("#fit-verdict"))

    @staticmethod
    def joined(n: int, t: float) -> float:
        """sin(5t) joined by lines between n + 1 knots."""
        i = min(int(t * n), n - 1)
        left, right = math.sin(5 * i / n), math.sin(5 * (i + 1) / n)
        return left + (right - left) * (t * n - i)

    def test_cards_turn(self) -> None:
        count = len(LESSON["cards"])
        shown = "[...document.querySelectorAll('#deck .card:not([hidden])')].map((c) => c.id)"
        seen = []
        for _ in range(count):
            seen += self.run_js(shown)
            self.click("#card-next")
        self.assertEqual(seen, [f"card-{card['id']}" for card in LESSON["cards"]])
        self.click("#card-back")
        self.assertEqual(self.run_js(shown), seen[-1:])
        self.click("#card-all")
        self.assertEqual(len(self.run_js(shown)), count)

    def test_choices_are_marked(self) -> None:
        for number, choice in enumerate(LESSON["choices"]):
            form = f"#choice-{choice['id']}"
            wrong = (choice["answer"] + 1) % 4
            self.click(f"{form} button")
            self.assertIn("Choose", self.text(f"{form} .verdict"))
            self.click(f"{form} input[value='{wrong if number % 2 else choice['answer']}']")
            self.click(f"{form} button")
            expected = "Not quite." if number % 2 else "Right."
            self.assertEqual(self.text(f"{form} .verdict"), expected)
            self.assertTrue(self.run_js(f"document.querySelector('{form} .answer').open"))
            self.click("#quiz-next")
        count = len(LESSON["choices"])
        self.assertEqual(self.text("#score"), f"{(count + 1) // 2} right of {count} answered")

    def test_drawn_questions_are_right(self) -> None:
        kinds = set()
        for turn in range(80):
            place = "document.getElementById('numeric-question').dataset"
            kind, values = self.run_js(f"[{place}.kind, JSON.parse({place}.values)]")
            kinds.add(kind)
            answer = self.answer(kind, values)
            self.put("#numeric-answer", f"{answer + 7 if turn % 2 else answer}")
            self.click("#numeric-form [type=submit]")
            verdict = self.text("#numeric-verdict")
            self.assertTrue(
                verdict.startswith("Not quite" if turn % 2 else "Right"), (kind, values)
            )
            self.click("#numeric-new")
        self.assertEqual(len(kinds), 6)
        self.assertEqual(self.text("#score"), "40 right of 80 answered")

    @staticmethod
    def answer(kind: str, v: dict[str, Any]) -> float:
        if kind == "layer_norm":
            mean = sum(v["x"]) / 3
            deviation = math.sqrt(sum((x - mean) ** 2 for x in v["x"]) / 3)
            return (v["x"][2] - mean) / deviation
        if kind == "hidden_unit":
            return max(0.0, sum(a * b for a, b in zip(v["x"], v["w"], strict=True)) + v["b"])
        d, f = v["d"], v["f"]
        if kind == "active_parameters":
            return float(v["top"] * 3 * d * f + v["experts"] * d)
        return float(
            {"dense_parameters": 2 * d * f + f + d, "gated_parameters": 3 * d * f}.get(
                kind, 4 * d * f
            )
        )

    def test_levels_and_map_links(self) -> None:
        for one in LESSON["explanations"]:
            self.click(f"#levels [data-level='{one['level']}']")
            shown = self.run_js(
                "[...document.querySelectorAll('.explanation:not([hidden])')]"
                ".map((e) => e.dataset.level)"
            )
            self.assertEqual(shown, [one["level"]])
        broken = self.run_js(
            "[...document.querySelectorAll('a[href^=\"#\"]')].map((a) => a.getAttribute('href'))"
            ".filter((href) => !document.getElementById(href.slice(1)))"
        )
        self.assertEqual(broken, [])
        nodes = self.run_js("document.querySelectorAll('.map a').length")
        self.assertEqual(nodes, len(LESSON["concepts"]))

    def test_claims_have_a_place_for_their_verdict(self) -> None:
        shown = self.run_js(
            "[...document.querySelectorAll('.claim .place')].map((p) => p.textContent)"
        )
        self.assertEqual(shown, [claim["verdict"] for claim in LESSON["claims"]])

    # Address

    def test_the_address_brings_everything_back(self) -> None:
        self.put("#x-2", 1.5)
        self.put("#act", "gelu")
        self.put("#experts", 4)
        self.put("#top", 2)
        self.click("#flow [data-key='out.1']")
        weight = "document.querySelector('.working input').dataset.weight"
        self.put(f"[data-weight='{self.run_js(weight)}']", -0.7)
        self.put("#cat", -1)
        self.click("#shuffle")
        self.put("#size-d", 1024)
        self.click("#card-next")
        everything = (
            "JSON.stringify([...document.querySelectorAll('.cell, .num, .size-bar')]"
            ".map((e) => e.dataset.value)"
            ".concat(document.getElementById('card-place').textContent))"
        )
        before = self.run_js(everything)
        time.sleep(0.3)
        fragment = self.run_js("location.hash.slice(1)")
        self.assertIn("w=", fragment)
        self.browser.open(self.page, fragment)
        self.assertEqual(self.run_js(everything), before)

    def test_a_damaged_address_is_harmless(self) -> None:
        first = self.values("y")
        damaged = "machine?x=1,2&act=evil&ratio=9&top=-1&order=0012&sd=7&%ff=1"
        damaged += "&w=up.9.1.1:3;x:;up.0.1.1:1e999"
        self.browser.open(self.page, damaged)
        self.assertEqual(self.values("y"), first)


if __name__ == "__main__":
    unittest.main()
