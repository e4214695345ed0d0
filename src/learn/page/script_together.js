// Attention and FFN on four tokens: shuffle them, change one, and compare with what was there.
const tokens = ["the", "cat", "sat", "still"];

// Attention with one head whose query, key, value and output matrices are the identity.
function attend(rows) {
  const shares = rows.map((row) => softmax(rows.map((other) => dot(row, other) / Math.sqrt(width))));
  const out = shares.map((list) => rows[0].map((_, j) => list.reduce((sum, share, t) => sum + share * rows[t][j], 0)));
  return { shares, out };
}

// In the order of the sentence; results are put back by token.
function runSentence(order, rows) {
  const ordered = order.map((token) => rows[token]);
  const attention = attend(ordered);
  const ffn = ordered.map((x) => runFfn(x, state, weightOf).y);
  const byToken = (list) => tokens.map((_, token) => list[order.indexOf(token)]);
  return {
    attention: byToken(attention.out), ffn: byToken(ffn),
    shares: byToken(attention.shares).map((list) => tokens.map((_, token) => list[order.indexOf(token)])),
  };
}

const furthest = (a, b) => largestOf(a.map((value, j) => value - b[j]));
const sameDigits = (a, b) => furthest(a, b) < 1e-12;

function fillVectors(figure, kind, rows, firstRows) {
  for (const column of figure.querySelectorAll(`.${kind} .vector`)) {
    const token = Number(column.dataset.token);
    column.style.order = state.order.indexOf(token);
    column.classList.toggle("changed", !sameDigits(rows[token], firstRows[token]));
    column.querySelectorAll(".num").forEach((cell, j) => {
      cell.textContent = plain(rows[token][j]);
      cell.dataset.sign = signOf(rows[token][j]);
      cell.dataset.value = String(rows[token][j]);
    });
  }
}

function drawTogether() {
  const first = library.sentence.x;
  const rows = first.map((row, token) => (token === 1 ? [state.cat, ...row.slice(1)] : row));
  const before = runSentence([0, 1, 2, 3], first);
  const now = runSentence(state.order, rows);
  for (const [id, name] of [["mix-attention", "attention"], ["mix-ffn", "ffn"]]) {
    const figure = byId(id);
    fillVectors(figure, "in", rows, first);
    fillVectors(figure, "out", now[name], before[name]);
    for (const line of figure.querySelectorAll("line")) {
      const from = Number(line.dataset.from);
      const to = Number(line.dataset.to);
      line.setAttribute("x1", 50 + 100 * state.order.indexOf(from));
      line.setAttribute("x2", 50 + 100 * state.order.indexOf(to));
      if (name === "attention") line.setAttribute("stroke-width", (0.5 + 6 * now.shares[to][from]).toFixed(2));
    }
  }
  const moved = (name) => tokens.filter((_, token) => !sameDigits(now[name][token], before[name][token]));
  const list = (names) => (names.length === 0 ? "none" : names.map((name) => `“${name}”`).join(", "));
  const shuffled = state.order.join("") !== "0123";
  const worst = largestOf(now.ffn.map((row, token) => furthest(row, before.ffn[token])));
  byId("together-verdict").textContent =
    `${shuffled ? `Order now: ${state.order.map((token) => tokens[token]).join(", ")}. ` : ""}`
    + `Results that differ from the first sentence’s: attention ${list(moved("attention"))}; FFN ${list(moved("ffn"))}.`
    + `${shuffled && state.cat === defaults.cat ? ` Largest difference of an FFN result: ${worst}.` : ""}`;
}

// Columns slide to their new places, unless the reader wants no motion.
function shuffleTo(order) {
  const columns = [...document.querySelectorAll("#together .vector")];
  const before = columns.map((column) => column.getBoundingClientRect().left);
  state.order = order;
  show();
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  columns.forEach((column, i) => {
    const way = before[i] - column.getBoundingClientRect().left;
    if (way !== 0) column.animate([{ transform: `translateX(${way}px)` }, { transform: "none" }], { duration: 450, easing: "ease-in-out" });
  });
}

// another order than the one at hand
function shuffledOrder(order) {
  let next = order;
  while (next.join("") === order.join("") || next.join("") === "0123") {
    next = [...order];
    for (let i = next.length - 1; i > 0; i -= 1) {
      const j = Math.floor(Math.random() * (i + 1));
      [next[i], next[j]] = [next[j], next[i]];
    }
  }
  return next;
}

byId("shuffle").addEventListener("click", () => shuffleTo(shuffledOrder(state.order)));
byId("unshuffle").addEventListener("click", () => shuffleTo([0, 1, 2, 3]));
bind("cat", "cat");
views.push(drawTogether);
