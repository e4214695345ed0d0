// Parameters and work of a layer as bars that follow the sliders.
function sizeOf(d, ratio, gated, experts, top) {
  const f = d * ratio;
  const matrices = gated ? 3 : 2;
  const one = matrices * d * f;
  const router = experts > 1 ? experts * d : 0;
  return {
    f, matrices, one, router, attention: 4 * d * d,
    total: experts * one + router, active: top * one + router,
  };
}

function drawSize() {
  byId("size-top").max = state.se;
  byId("size-top").disabled = state.se === 1;
  const size = sizeOf(state.sd, state.sr, state.sg === 1, state.se, state.st);
  const largest = Math.max(size.total, size.attention);
  const product = `${size.matrices} × ${grouped(state.sd)} × ${grouped(size.f)}`;
  const router = size.router ? ` + ${grouped(size.router)} (router)` : "";
  const times = (count) => (state.se > 1 ? `${count} × ${product}${router}` : product);
  const bars = {
    attention: [size.attention, largest, `4 × ${grouped(state.sd)}² = ${grouped(size.attention)}`],
    total: [size.total, largest, `${times(state.se)} = ${grouped(size.total)}`],
    active: [size.active, largest, `${times(state.st)} = ${grouped(size.active)}`],
    "attention-flops": [2 * size.attention, 2 * largest, `2 × ${grouped(size.attention)} = ${grouped(2 * size.attention)}`],
    "ffn-flops": [2 * size.active, 2 * largest, `2 × ${grouped(size.active)} = ${grouped(2 * size.active)}`],
  };
  for (const [name, [value, top, formula]] of Object.entries(bars)) {
    const bar = document.querySelector(`[data-bar="${name}"]`);
    bar.dataset.value = String(value);
    bar.querySelector(".figure").textContent = grouped(value);
    bar.querySelector(".formula").textContent = formula;
    bar.querySelector("rect").setAttribute("width", (100 * value / top).toFixed(2));
  }
  const percent = (part, rest) => (100 * part / (part + rest)).toFixed(1);
  byId("size-verdict").textContent =
    `The FFN holds ${percent(size.total, size.attention)} % of this layer’s weights and does ${percent(size.active, size.attention)} % of its work.`
    + `${state.se > 1 ? ` Beside a layer of one such expert, this one stores ${((size.total + size.attention) / (size.one + size.attention)).toFixed(1)} times the weights for ${((size.active + size.attention) / (size.one + size.attention)).toFixed(2)} times the work.` : ""}`;
}

bind("size-d", "sd", grouped);
bind("size-ratio", "sr", (value) => `${plain(value)}: d_ff = ${grouped(state.sd * value)}`);
bind("size-gated", "sg");
bind("size-experts", "se", String);
bind("size-top", "st", String);
byId("size-controls").addEventListener("submit", (event) => event.preventDefault());
for (const button of document.querySelectorAll("[data-shape]"))
  button.addEventListener("click", () => {
    [state.sd, state.sr, state.sg, state.se, state.st] = button.dataset.shape.split(",").map(Number);
    show();
  });
views.unshift(() => {
  byId("size-top").max = state.se;
});
views.push(drawSize);
