// Two mistakes run live: a network over the whole sentence, and the width that is said to be magic.

// The library's second network: up is [32, 16] and down [16, 32], read from the machine's weights.
function runFlattened(rows) {
  const x = rows.flat();
  const units = library.flattened_units;
  const up = library.weights.up.flat();
  const down = library.weights.down.flat();
  const hidden = Array.from({ length: units }, (_, i) => Math.max(0, dot(x, up.slice(i * x.length, (i + 1) * x.length))));
  const y = x.map((_, j) => dot(hidden, down.slice(j * units, (j + 1) * units)));
  return rows.map((_, t) => y.slice(t * width, (t + 1) * width));
}

function fillRow(id, values) {
  byId(id).querySelectorAll("td").forEach((cell, j) => {
    cell.textContent = plain(values[j]);
    cell.dataset.sign = signOf(values[j]);
    cell.dataset.value = String(values[j]);
  });
}

const firstSetting = structuredClone(defaults);

function drawFlattened() {
  const rows = library.sentence.x;
  const place = state.flat.indexOf(1);
  const ordered = state.flat.map((token) => rows[token]);
  const ffn = (x) => runFfn(x, firstSetting, firstWeightOf).y;
  const results = [
    ["flat-ffn-before", ffn(rows[1])], ["flat-ffn-after", ffn(ordered[place])],
    ["flat-net-before", runFlattened(rows)[1]], ["flat-net-after", runFlattened(ordered)[place]],
  ];
  for (const [id, values] of results) fillRow(id, values);
  byId("flat-order").textContent = `Order: ${state.flat.map((token) => tokens[token]).join(", ")}`;
  byId("flat-verdict").textContent =
    `Largest change: ${plain(furthest(results[0][1], results[1][1]))} for the FFN, ${plain(furthest(results[2][1], results[3][1]))} for the network over the sentence.`;
}

// sin(5t) joined by straight lines: one ReLU unit a bend, each adding the change of slope.
function joinLines(n, t) {
  let sum = 0;
  let before = 0;
  for (let i = 0; i < n; i += 1) {
    const slope = (Math.sin(5 * (i + 1) / n) - Math.sin(5 * i / n)) * n;
    sum += (slope - before) * Math.max(0, t - i / n);
    before = slope;
  }
  return sum;
}

function drawFit() {
  const n = state.fit;
  const grid = Array.from({ length: 201 }, (_, i) => i / 200);
  const path = grid.map((t, i) => `${i ? "L" : "M"}${(10 + 320 * t).toFixed(1)} ${(10 + 60 * (1 - joinLines(n, t))).toFixed(1)}`);
  byId("fit-line").setAttribute("d", path.join(""));
  const error = largestOf(grid.map((t) => joinLines(n, t) - Math.sin(5 * t)));
  byId("fit-verdict").textContent = `${n} ${n === 1 ? "unit" : "units"}, ${3 * n} numbers: largest error ${error.toFixed(4)}.`;
}

byId("flat-shuffle")?.addEventListener("click", () => {
  state.flat = shuffledOrder(state.flat);
  show();
});
if (byId("flat-verdict")) views.push(drawFlattened);
if (byId("fit-units")) {
  bind("fit-units", "fit", String);
  views.push(drawFit);
}
