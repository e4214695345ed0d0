"""SVG charts of docs/performance.md: points on a line per row, curves, and bars.

Each picture brings its own background and colours for light and dark pages; labels are text.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH = 860
# Fourfold first; colours that differ in brightness, too (Okabe and Ito 2008).
COLORS = ("#0072b2", "#d55e00", "#009e73", "#b8860b", "#cc79a7", "#56b4e9")
DARK_COLORS = ("#56b4e9", "#ff9d5c", "#3fd0a4", "#f0c54a", "#e79bc5", "#9fb8c8")
STYLE = """
.back { fill: #ffffff } .text { fill: #1b1f24 } .soft { fill: #57606a }
.grid { stroke: #d8dee4 } .goal { stroke: #1b1f24; stroke-dasharray: 5 4 }
text { font: 13px system-ui, "DejaVu Sans", sans-serif }
.title { font-weight: 600; font-size: 15px }
"""
DARK_STYLE = """
.back { fill: #0d1117 } .text { fill: #e6edf3 } .soft { fill: #9da7b3 }
.grid { stroke: #30363d } .goal { stroke: #e6edf3 }
"""


@dataclass
class Series:
    name: str
    values: list[tuple[float, float]]  # x, y


@dataclass
class Bar:
    label: str
    group: str
    value: float
    color: int
    text: str


def number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text(x: float, y: float, words: str, kind: str = "text", anchor: str = "start") -> str:
    place = f'x="{number(x)}" y="{number(y)}" class="{kind}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(words)}</text>"


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> str:
    ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
    return f'<line {ends} class="{kind}"/>'


def mark(x: float, y: float, color: int, radius: float = 4) -> str:
    """A different shape for each series, for those who do not see its colour."""
    look = f'class="c{color}"'
    if color % 3 == 0:
        return f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" {look}/>'
    if color % 3 == 1:
        side, corner = number(2 * radius - 1), (number(x - radius + 0.5), number(y - radius + 0.5))
        return f'<rect x="{corner[0]}" y="{corner[1]}" width="{side}" height="{side}" {look}/>'
    points = [(x, y - radius - 0.5), (x + radius + 0.5, y + radius), (x - radius - 0.5, y + radius)]
    listed = " ".join(f"{number(a)},{number(b)}" for a, b in points)
    return f'<polygon points="{listed}" {look}/>'


def picture(title: str, description: str, height: float, parts: Sequence[str]) -> str:
    def classes(colors: Sequence[str]) -> str:
        return "".join(
            f".c{i} {{ fill: {color} }} .s{i} {{ stroke: {color}; fill: none; stroke-width: 2 }}\n"
            for i, color in enumerate(colors)
        )

    style = f"{STYLE}{classes(COLORS)}@media (prefers-color-scheme: dark) {{{DARK_STYLE}"
    style += f"{classes(DARK_COLORS)}}}"
    size = f'width="{WIDTH}" height="{number(height)}" viewBox="0 0 {WIDTH} {number(height)}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(title)}</title><desc>{escape(description)}</desc>",
            f"<style>{style}</style>",
            f'<rect class="back" width="{WIDTH}" height="{number(height)}"/>',
            text(16, 26, title, "text title"),
            *parts,
            "</svg>\n",
        ]
    )


def legend(names: Sequence[str], y: float) -> list[str]:
    parts, x = [], 20.0
    for color, name in enumerate(names):
        parts += [mark(x, y - 4, color), text(x + 10, y, name)]
        x += 26 + 7.4 * len(name)
    return parts


def nice_steps(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from low to high."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= rough)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def ratio_chart(title: str, description: str, rows: Sequence[tuple[str, str, float, float]]) -> str:
    """One row per case: (group, label, ratio, goal). The axis is logarithmic."""
    left, right, top, step = 356.0, 40.0, 62.0, 18.0
    low = min(0.5, *(0.8 * row[2] for row in rows))  # room for a label beside the mark
    high = max(2.0, *(1.2 * row[2] for row in rows))
    scale = (WIDTH - left - right) / math.log(high / low)

    def place(ratio: float) -> float:
        return left + scale * math.log(ratio / low)

    parts: list[str] = []
    y, group = top, ""
    bottom = top + step * (len(rows) + len({row[0] for row in rows}))
    for tick in (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20):
        if low <= tick <= high:
            parts.append(line(place(tick), top - 10, place(tick), bottom))
            parts.append(text(place(tick), top - 16, number(tick), "soft", "middle"))
    for name, label, ratio, goal in rows:
        if name != group:
            group = name
            parts.append(text(16, y + 6, group, "text title"))
            y += step
        reached = ratio >= goal
        parts.append(text(left - 14, y + 4, label, "text", "end"))
        parts.append(line(place(min(ratio, goal)), y, place(max(ratio, goal)), y))
        parts.append(line(place(goal), y - 8, place(goal), y + 8, "goal"))
        parts.append(mark(place(ratio), y, 0 if reached else 1))
        # Beside the mark, on the side where the goal is not.
        shift, anchor = (10, "start") if reached else (-10, "end")
        parts.append(text(place(ratio) + shift, y + 4, f"{ratio:.2f}", "soft", anchor))
        y += step
    parts += legend(["goal reached", "goal missed"], bottom + 24)
    parts.append(text(250, bottom + 24, "dashed: the goal; axis logarithmic", "soft"))
    return picture(title, description, bottom + 40, parts)


def curve_chart(
    title: str,
    description: str,
    panels: Sequence[tuple[str, Sequence[Series]]],
    x_label: str,
    y_label: str,
    labels: Sequence[str] = (),
) -> str:
    """Panels one below the other, with the same axes of x; labels name the places 0, 1, ... of x.
    The axis of y is logarithmic."""
    left, right, height, gap = 66.0, 20.0, 210.0, 100.0 if labels else 62.0
    names = list(dict.fromkeys(one.name for _, series in panels for one in series))
    parts = legend(names, 50)
    top = 84.0
    for heading, series in panels:
        xs = [x for one in series for x, _ in one.values]
        ys = [y for one in series for _, y in one.values]
        x_low, x_high = min(xs), max(xs)
        if labels:
            x_low, x_high = x_low - 0.5, x_high + 0.5
        y_low, y_high = min(ys) / 1.12, max(ys) * 1.12

        def across(x: float, low: float = x_low, high: float = x_high) -> float:
            return left + (WIDTH - left - right) * (x - low) / max(high - low, 1e-9)

        def down(y: float, low: float = y_low, high: float = y_high, at: float = top) -> float:
            return at + height * (1 - math.log(y / low) / math.log(high / low))

        parts.append(text(left, top - 8, f"{heading}: {y_label}", "text"))
        steps = [f * 10.0**p for p in range(-6, 7) for f in (1, 1.5, 2, 3, 5, 7)]
        for tick in (tick for tick in steps if y_low <= tick <= y_high):
            parts.append(line(left, down(tick), WIDTH - right, down(tick)))
            parts.append(text(left - 8, down(tick) + 4, number(tick), "soft", "end"))
        if labels:
            for i, label in enumerate(labels):
                at = f"{number(across(i))} {number(top + height + 14)}"
                turned = text(across(i), top + height + 14, label, "soft", "end")
                parts.append(turned.replace("<text", f'<text transform="rotate(-50 {at})"', 1))
        else:
            for tick in nice_steps(x_low, x_high, 8):
                parts.append(text(across(tick), top + height + 18, number(tick), "soft", "middle"))
        for one in series:
            color = names.index(one.name)
            points = " ".join(f"{number(across(x))},{number(down(y))}" for x, y in one.values)
            if not labels:  # places with names have nothing between them
                parts.append(f'<polyline points="{points}" class="s{color}"/>')
            parts += [mark(across(x), down(y), color, 3) for x, y in one.values]
        top += height + gap
    parts.append(text(WIDTH / 2, top - 14, x_label, "soft", "middle"))
    return picture(title, description, top, parts)


def bar_chart(title: str, description: str, bars: Sequence[Bar], end: float, unit: str) -> str:
    """Bars in groups on an axis from 0 to at least `end`, where a dashed line is drawn."""
    left, right, step = 150.0, 130.0, 18.0
    top = 66.0
    high = max(end, *(bar.value for bar in bars))
    scale = (WIDTH - left - right) / high
    bottom = top + step * len(bars) + 26 * len(dict.fromkeys(bar.group for bar in bars))
    parts: list[str] = []
    for tick in nice_steps(0, high):
        parts.append(line(left + scale * tick, top - 8, left + scale * tick, bottom))
        parts.append(text(left + scale * tick, top - 14, number(tick), "soft", "middle"))
    parts.append(text(WIDTH - 16, top - 14, unit, "soft", "end"))
    y, group = top, ""
    for bar in bars:
        if bar.group != group:
            group = bar.group
            parts.append(text(16, y + 13, group, "text title"))
            y += 26
        parts.append(text(left - 8, y + 5, bar.label, "text", "end"))
        size = f'width="{number(max(scale * bar.value, 1))}" height="12"'
        parts.append(f'<rect x="{number(left)}" y="{number(y - 6)}" {size} class="c{bar.color}"/>')
        parts.append(text(left + scale * bar.value + 6, y + 5, bar.text, "soft"))
        y += step
    if end > 0:
        parts.append(line(left + scale * end, top - 8, left + scale * end, bottom, "goal"))
    return picture(title, description, bottom + 12, parts)
