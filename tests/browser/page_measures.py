"""What is measured in the page itself: where its text lies, and how it stands out."""

# Every visible piece of text: [text, left, top, right, bottom, in a link or label of a picture].
# Pieces are the lines of a text node; SVG text counts like any other.
TEXT_BOXES = """
(() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("script, style, noscript, .skip, option")) continue;
    if (!parent.checkVisibility({ visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects())
      if (box.width > 0.5 && box.height > 0.5)
        found.push([node.data.trim().slice(0, 40), box.left + scrollX, box.top + scrollY,
          box.right + scrollX, box.bottom + scrollY]);
  }
  return found;
})()
"""

# Elements whose content is wider or taller than they are and is cut off.
CLIPPED = """
[...document.querySelectorAll("body *")].filter((e) => {
  if (!e.checkVisibility() || e.closest("svg, .skip, option")) return false;
  const style = getComputedStyle(e);
  const cuts = /hidden|clip|auto|scroll/.test(style.overflowX + style.overflowY);
  const field = e.matches("input, select, button");
  const drawn = "nav, input[type=range], input[type=checkbox], input[type=radio]";
  return (cuts || field) && !e.matches(drawn)
    && (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1);
}).map((e) => e.outerHTML.slice(0, 120))
"""

# Numbers that stick out of their box.
STICKING_OUT = """
[...document.querySelectorAll(".cell > span, .vector > span, td.num")].filter((e) => {
  if (!e.checkVisibility()) return false;
  const range = document.createRange();
  range.selectNodeContents(e);
  const text = range.getBoundingClientRect();
  const box = (e.matches("td") ? e : e.parentElement).getBoundingClientRect();
  return text.left < box.left || text.right > box.right || text.bottom > box.bottom;
}).map((e) => e.textContent)
"""

# [text, contrast] of every visible text against what is painted behind it; SVG text against the
# two colours that its pictures use.
CONTRASTS = """
(() => {
  const parse = (text) => {
    const parts = text.match(/[\\d.]+/g).map(Number);
    return { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 };
  };
  const light = (rgb) => rgb.map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => {
    const [high, low] = [light(a), light(b)].sort((p, q) => q - p);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const { rgb, alpha } = parse(getComputedStyle(e).backgroundColor);
      if (alpha > 0) return rgb;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const card = parse(getComputedStyle(document.querySelector(".cell")).backgroundColor).rgb;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.data.trim() || e.closest("script, style, noscript, .skip")) continue;
    if (!e.checkVisibility({ visibilityProperty: true })) continue;
    const style = getComputedStyle(e);
    const text = node.data.trim().slice(0, 40);
    if (e.closest("svg")) {
      const fill = parse(style.fill).rgb;
      found.push([text, Math.min(contrast(fill, behind(e.closest("svg"))), contrast(fill, card))]);
    } else {
      found.push([text, contrast(parse(style.color).rgb, behind(e))]);
    }
  }
  for (const e of document.querySelectorAll("input[type=number], input[type=text], select"))
    if (e.checkVisibility())
      found.push([e.id, contrast(parse(getComputedStyle(e).color).rgb, behind(e))]);
  return found;
})()
"""

Box = tuple[str, float, float, float, float]


def overlaps(boxes: list[Box], slack: float = 2.0) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes share more than `slack` pixels both ways."""
    found = []
    open_boxes: list[Box] = []
    for box in sorted(boxes, key=lambda one: one[2]):
        open_boxes = [other for other in open_boxes if other[4] > box[2] + slack]
        for other in open_boxes:
            wide = min(box[3], other[3]) - max(box[1], other[1])
            tall = min(box[4], other[4]) - max(box[2], other[2])
            if wide > slack and tall > slack:
                found.append((other[0], box[0]))
        open_boxes.append(box)
    return found
