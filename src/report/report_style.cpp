// Colours are variables: c1, c2 the FFN's stages, c3 attention, c4 norm, c5 other, c6 to c8 a moe
// layer's own.
#include "report/report_style.h"

namespace fourfold {

std::string_view report_style() {
  return R"css(
:root {
  color-scheme: light dark;
  --page: #f6f7f8; --card: #ffffff; --text: #1c2126; --muted: #58626d; --line: #d9dee3;
  --accent: #0b5cad; --mark: #ffe69c; --note: #fff6dd; --note-line: #b7791f;
  --c1: #0b4f94; --c2: #3f8fd2; --c3: #c05a0e; --c4: #4f8a2c; --c5: #78828c;
  --c6: #8a3fa8; --c7: #b8326b; --c8: #0f7f78;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #121519; --card: #1a1f24; --text: #e7eaed; --muted: #a5afb9; --line: #343c44;
    --accent: #7db8f0; --mark: #6b5310; --note: #2b2413; --note-line: #d9a441;
    --c1: #4c9be8; --c2: #9dcbf5; --c3: #ee9a4d; --c4: #8cc265; --c5: #929ca6;
    --c6: #c58be0; --c7: #ee82ab; --c8: #52c2b8;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
header, main, footer { max-width: 70rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2rem; }
footer { padding-top: 2rem; padding-bottom: 2.5rem; color: var(--muted); font-size: .875rem; }
h1, h2, h3 { line-height: 1.25; font-weight: 650; overflow-wrap: anywhere; }
h1 { font-size: 1.75rem; margin: 0 0 .25rem; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .75rem; }
h3 { font-size: 1rem; margin: 0; }
p { margin: .5rem 0; max-width: 46rem; overflow-wrap: anywhere; }
a { color: var(--accent); }
.about { color: var(--muted); }
nav { margin-top: .75rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: 0; padding: 0; list-style: none; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
.card, figure, .tiles > div {
  background: var(--card); border: 1px solid var(--line); border-radius: 8px;
}
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin: 1.5rem 0; }
.tiles > div { padding: .7rem .85rem; display: flex; flex-direction: column; }
.tiles dt { color: var(--muted); font-size: .875rem; line-height: 1.35; }
.tiles dd { margin: auto 0 0; }
.tiles .figure { font-size: 1.375rem; font-weight: 650; line-height: 1.4; font-variant-numeric: tabular-nums; }
.tiles .unit { color: var(--muted); font-size: .875rem; }
.readings { padding-left: 1.25rem; margin: 1rem 0; max-width: 46rem; }
.readings li { margin: .35rem 0; overflow-wrap: anywhere; }
.warnings { background: var(--note); border-left: 4px solid var(--note-line); padding: .5rem 1rem; margin: 1rem 0; }
.warnings p { max-width: none; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.25rem; margin: 0; padding: 1rem 1.25rem; }
.facts dt { color: var(--muted); }
.facts dd { margin: 0; overflow-wrap: anywhere; min-width: 0; }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1rem; align-items: start; }
figure { margin: 0 0 1rem; padding: 1rem 1.25rem; min-width: 0; }
figcaption { font-weight: 600; font-size: .9375rem; line-height: 1.4; margin-bottom: .75rem; }
.chart { display: block; width: 100%; max-width: 34rem; height: auto; margin: 0 auto; font: 12px system-ui, "DejaVu Sans", sans-serif; }
.small { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(13rem, 46%), 1fr)); gap: .75rem 1rem; }
.small .chart { max-width: 19rem; font-size: 11px; }
.chart text { fill: var(--text); }
.chart .tick { fill: var(--muted); font-variant-numeric: tabular-nums; }
.chart .name { font-weight: 600; }
.chart .grid, .chart .axis, .chart .limit, .chart .line { fill: none; }
.chart .inside { fill: var(--card); text-anchor: end; }
.chart .grid { stroke: var(--line); }
.chart .axis { stroke: var(--muted); }
.chart .limit { stroke: var(--text); stroke-dasharray: 4 3; }
.chart .part { stroke: var(--card); stroke-width: .75; }
.chart .line { stroke-width: 1.5; stroke-opacity: .55; }
.c1 { fill: var(--c1); } .c2 { fill: var(--c2); } .c3 { fill: var(--c3); } .c4 { fill: var(--c4); }
.c5 { fill: var(--c5); } .c6 { fill: var(--c6); } .c7 { fill: var(--c7); } .c8 { fill: var(--c8); }
.l1 { stroke: var(--c1); } .l2 { stroke: var(--c2); } .l3 { stroke: var(--c3); } .l4 { stroke: var(--c4); }
details { margin-top: .75rem; }
summary { cursor: pointer; color: var(--accent); width: fit-content; }
summary h3 { display: inline; }
details.card { margin: 0 0 .75rem; padding: .75rem 1.25rem; }
.scroll { overflow-x: auto; max-width: 100%; margin-top: .5rem; }
table { border-collapse: collapse; font-size: .875rem; line-height: 1.45; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); padding-bottom: .35rem; }
th, td { padding: .3rem .75rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { padding-left: .25rem; }
thead th { color: var(--muted); font-weight: 600; white-space: nowrap; }
tbody th { font-weight: 600; }
.neurons tbody th { padding-top: .8rem; }
.neurons .about { font-weight: 400; margin-left: .75rem; }
.n { text-align: right; white-space: nowrap; }
.context { min-width: 17rem; overflow-wrap: anywhere; unicode-bidi: isolate; }
mark { background: var(--mark); color: inherit; padding: 0 .15em; border-radius: 2px; font-weight: 600; }
.terms { max-width: 46rem; }
.terms dt { font-weight: 600; margin-top: .75rem; }
.terms dd { margin: .1rem 0 0; }
@media (max-width: 56rem) { .pair { grid-template-columns: minmax(0, 1fr); gap: 0; } }
@media (max-width: 36rem) {
  header, main, footer { padding-left: .75rem; padding-right: .75rem; }
  header { padding-top: 1.25rem; }
  h1 { font-size: 1.4rem; }
  h2 { margin-top: 2rem; }
  figure, details.card { padding: .75rem; }
  .chart { font-size: 13.5px; }
  .small .chart { font-size: 13px; }
  .small { gap: .5rem; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .5rem; }
  .tiles > div { padding: .6rem .75rem; }
  .tiles .figure { font-size: 1.25rem; }
  th, td { padding: .3rem .45rem; }
  .context { min-width: 9rem; }
  .neurons thead th { white-space: normal; }
  .facts { grid-template-columns: minmax(0, 1fr); gap: 0; padding: .75rem; }
  .facts dd { margin-bottom: .5rem; }
}
@media print {
  :root {
    color-scheme: light;
    --page: #fff; --card: #fff; --text: #000; --muted: #444; --line: #ccc; --accent: #000; --mark: #eee; --note: #fff;
    --c1: #0b4f94; --c2: #3f8fd2; --c3: #c05a0e; --c4: #4f8a2c; --c5: #78828c;
    --c6: #8a3fa8; --c7: #b8326b; --c8: #0f7f78;
  }
  body { font-size: 11pt; }
  header, main, footer { max-width: none; padding-left: 0; padding-right: 0; }
  nav, summary { display: none; }
  details::details-content { display: block; content-visibility: visible; }
  .scroll { overflow: visible; }
  table { font-size: 7.5pt; }
  th, td { padding: .1rem .3rem; }
  thead th { white-space: normal; }
  figure, .tiles > div, tr { break-inside: avoid; }
  h2, h3, figcaption { break-after: avoid; }
  rect, circle, path, mark { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";
}

}  // namespace fourfold
