// The machine: controls, the steps with their cells, and the lines into the chosen number.
const stages = new Map();
for (const note of document.querySelectorAll("#stage-notes [data-step]"))
  stages.set(note.dataset.step, { title: note.dataset.title, why: note.textContent });

let run = runMachine(state, weightOf);
const viewed = () => run.experts.find((expert) => expert.index === state.look) ?? run.experts[0];

// Rows of cells, in order: {step, key, name, values}. A step may have several rows.
function machineRows() {
  const expert = viewed();
  const rows = [{ step: "input", key: "x", name: "x", values: state.x }];
  if (state.experts > 1) {
    rows.push({ step: "route", key: "logit", name: "score", values: run.logits });
    rows.push({ step: "route", key: "share", name: "share", values: run.shares });
  }
  rows.push({ step: "expand", key: "pre", name: state.gated ? "gate" : "pre", values: expert.pre });
  if (state.gated) rows.push({ step: "expand", key: "up", name: "up", values: expert.up });
  rows.push({ step: "activate", key: "hidden", name: "h", values: expert.hidden });
  if (state.experts > 1) {
    rows.push({ step: "contract", key: "out", name: "out", values: expert.out });
    rows.push({ step: "combine", key: "y", name: "y", values: run.y });
  } else {
    rows.push({ step: "contract", key: "y", name: "y", values: run.y });
  }
  rows.push({ step: "add", key: "sum", name: "s", values: run.sum });
  rows.push({ step: "normalise", key: "normal", name: "n", values: run.normal });
  return rows;
}

function formulaOf(step) {
  const act = state.act;
  const formulas = {
    input: "x",
    route: "score = router x, share = softmax(score)",
    expand: state.gated ? "gate = Wg x, up = W1 x + b1" : "pre = W1 x + b1",
    activate: act === "swiglu_oai" ? "h = (up + 1) · gate · sigmoid(1.702 gate), clamped at 7"
      : state.gated ? `h = ${act}(gate) · up` : `h = ${act}(pre)`,
    contract: state.experts > 1 ? "out = W2 h + b2" : "y = W2 h + b2",
    combine: "y = sum of weight · out over the chosen experts",
    add: "s = x + y",
    normalise: "n = (s − mean) / √(variance + 0.00001)",
  };
  return formulas[step];
}

// The activation as a curve, a dot for every unit.
function activationCurve(expert) {
  const limit = Math.max(3, Math.ceil(largestOf(expert.pre)));
  const y = (x) => hiddenOf(state.act, x, state.act === "swiglu_oai" ? 0 : null);
  const points = Array.from({ length: 121 }, (_, i) => limit * (i / 60 - 1));
  const high = Math.max(1, ...points.map(y));
  const low = Math.min(-0.5, ...points.map(y));
  const across = (x) => 160 + 150 * x / limit;
  const down = (value) => 8 + 84 * (high - value) / (high - low);
  const path = points.map((x, i) => `${i ? "L" : "M"}${across(x).toFixed(1)} ${down(y(x)).toFixed(1)}`);
  const picture = drawing("svg", {
    class: "curve", viewBox: "0 0 320 100", role: "img",
    "aria-label": `The curve of ${state.act} with a dot for each unit`,
  });
  picture.append(
    drawing("line", { class: "axis", x1: 10, x2: 310, y1: down(0), y2: down(0) }),
    drawing("line", { class: "axis", x1: 160, x2: 160, y1: 4, y2: 96 }),
    drawing("path", { class: "line", d: path.join("") }),
  );
  for (const value of expert.pre)
    picture.append(drawing("circle", {
      class: signOf(y(value)), r: 4, cx: across(value).toFixed(1), cy: down(y(value)).toFixed(1),
    }));
  return picture;
}

// Buttons that lead from number to number with the arrow keys; one stop of the Tab key a row.
function cellRow(row) {
  const list = element("div", { class: "cells", role: "group", "aria-label": row.name });
  row.values.forEach((_, i) => {
    const key = `${row.key}.${i}`;
    const picked = key === state.pick;
    list.append(element("button", {
      type: "button", class: "cell", "data-key": key, "aria-pressed": String(picked),
      tabindex: picked || (i === 0 && !state.pick.startsWith(`${row.key}.`)) ? "0" : "-1",
    }, element("span", { class: "name" }, letter(row.name, i + 1)),
    element("span", { class: "value" }),
    drawing("svg", { class: "bar", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
      drawing("rect", { width: 0, height: 4 }))));
  });
  return list;
}

// Puts the values of a row into its cells.
function fillCells(row) {
  const top = largestOf(row.values);
  const chosen = run.experts.map((expert) => expert.index);
  row.values.forEach((value, i) => {
    const cell = document.querySelector(`#flow [data-key="${row.key}.${i}"]`);
    cell.dataset.value = String(value);
    cell.dataset.sign = signOf(value);
    cell.querySelector(".value").textContent = plain(value);
    cell.querySelector("rect").setAttribute("width", top > 0 ? 100 * Math.abs(value) / top : 0);
    cell.classList.toggle("unused", row.key === "share" && !chosen.includes(i));
  });
}

function expertChoice() {
  const group = element("div", { class: "buttons tabs", role: "group", "aria-label": "Expert shown below" });
  run.experts.forEach((expert, i) => {
    const button = element("button", {
      type: "button", "aria-pressed": String(expert === viewed()), "data-look": String(expert.index),
    }, `Expert ${expert.index + 1}: weight ${plain(run.weights[i])}`);
    button.addEventListener("click", () => {
      state.look = expert.index;
      show();
    });
    group.append(button);
  });
  return group;
}

// The elements of the flow; rebuilt only when other numbers are to be shown, so that a field in
// which somebody types stays what it is.
let drawn = "";
let fillWorking = () => {};
function buildFlow(rows) {
  const flow = byId("flow");
  const held = document.activeElement?.closest?.("#flow [data-key], #flow [data-look]");
  const attribute = held?.dataset.key ? "data-key" : "data-look";
  const again = held ? `[${attribute}="${held.getAttribute(attribute)}"]` : null;
  fillWorking = () => {};
  const steps = [...new Set(rows.map((row) => row.step))];
  const nodes = steps.map((step, place) => {
    const text = element("div", {},
      element("h3", {}, stages.get(step).title),
      element("p", { class: "formula" }, formulaOf(step)),
      element("p", { class: "why" }, stages.get(step).why));
    const numbers = element("div");
    if (step === "activate") text.append(element("div", { class: "curve-place" }));
    for (const row of rows.filter((one) => one.step === step)) {
      numbers.append(cellRow(row));
      if (state.pick.startsWith(`${row.key}.`)) numbers.append(workingPanel(row));
    }
    if (step === "route") numbers.append(element("div", { class: "expert-place" }));
    const section = element("section", { class: "step", "data-step": step }, text, numbers);
    section.hidden = place > state.step;
    return section;
  });
  flow.replaceChildren(drawing("svg", { class: "wires", "aria-hidden": "true" }), ...nodes);
  const last = state.step >= steps.length - 1;
  if (last) state.step = defaults.step;
  byId("next-step").disabled = last;
  byId("show-all").disabled = last;
  byId("replay").disabled = state.step === 0;
  return again;
}

function drawFlow() {
  const rows = machineRows();
  const [key, place] = state.pick.split(".");
  if (!rows.some((row) => row.key === key && Number(place) < row.values.length)) state.pick = defaults.pick;
  const shape = JSON.stringify([state.ratio, state.gated, state.experts, state.top, state.look, state.pick,
    state.step, state.act, run.experts.map((expert) => expert.index)]);
  const again = shape === drawn ? null : buildFlow(rows);
  drawn = shape;
  for (const row of rows) fillCells(row);
  document.querySelector("#flow .curve-place").replaceChildren(activationCurve(viewed()));
  const choice = document.querySelector("#flow .expert-place");
  if (choice) choice.replaceChildren(expertChoice());
  fillWorking();
  if (again) byId("flow").querySelector(again)?.focus();
  drawWires();
}

// A line from every number that enters the chosen one, as thick as its share, coloured by its sign.
function drawWires() {
  const overlay = document.querySelector("#flow .wires");
  const target = document.querySelector(`#flow [data-key="${state.pick}"]`);
  if (!overlay) return;
  overlay.replaceChildren();
  for (const cell of document.querySelectorAll("#flow .enters")) cell.classList.remove("enters");
  if (!target || target.closest(".step").hidden) return;
  const origin = byId("flow").getBoundingClientRect();
  overlay.setAttribute("viewBox", `0 0 ${origin.width} ${origin.height}`);
  const end = target.getBoundingClientRect();
  const sources = workingOf(state.pick).terms.filter((term) => term.key);
  const top = largestOf(sources.map((term) => term.product)) || 1;
  for (const term of sources) {
    const source = document.querySelector(`#flow [data-key="${term.key}"]`);
    if (!source) continue;
    const start = source.getBoundingClientRect();
    source.classList.add("enters");
    const x1 = start.left + start.width / 2 - origin.left;
    const y1 = start.bottom - origin.top;
    const x2 = end.left + end.width / 2 - origin.left;
    const y2 = end.top - origin.top;
    const bend = (y2 - y1) / 2;
    overlay.append(drawing("path", {
      class: signOf(term.product), d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`,
      "stroke-width": (0.75 + 3.25 * Math.abs(term.product) / top).toFixed(2),
    }));
  }
}

byId("flow").addEventListener("click", (event) => {
  const cell = event.target.closest(".cell");
  if (!cell) return;
  state.pick = cell.dataset.key;
  show();
});
byId("flow").addEventListener("keydown", (event) => {
  const cell = event.target.closest(".cell");
  const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!cell || !way) return;
  const row = [...cell.parentElement.children];
  const next = row[(row.indexOf(cell) + way + row.length) % row.length];
  event.preventDefault();
  cell.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});

for (let j = 0; j < width; j += 1) {
  const field = byId(`x-${j}`);
  field.addEventListener("input", () => {
    const value = finite(field.value);
    field.toggleAttribute("aria-invalid", value === null);
    byId("machine-message").textContent = value === null ? "Give a number from −100 to 100; the last good one is still in use." : "";
    if (value === null) return;
    state.x = state.x.map((old, i) => (i === j ? value : old));
    show();
  });
}
byId("act").addEventListener("change", () => {
  state.act = byId("act").value;
  show();
});
bind("gated", "gated");
bind("ratio", "ratio", (value) => `${value}: d_ff = ${value * width}`);
bind("experts", "experts", (value) => (value === 1 ? "1: no router" : String(value)));
bind("top", "top", (value) => `${value} of ${state.experts}`);
views.unshift(() => {
  run = runMachine(state, weightOf);
  byId("top").max = state.experts;
  byId("top").disabled = state.experts === 1;
  byId("act").value = state.act;
  byId("gated").disabled = gatedOnly(state.act);
  for (const option of byId("act").options) option.disabled = false;
  state.x.forEach((value, j) => {
    if (document.activeElement !== byId(`x-${j}`)) byId(`x-${j}`).value = value;
  });
});
views.push(drawFlow);

byId("machine-controls").addEventListener("submit", (event) => event.preventDefault());
byId("replay").addEventListener("click", () => {
  state.step = 0;
  show();
});
byId("next-step").addEventListener("click", () => {
  state.step += 1;
  show();
  const steps = document.querySelectorAll("#flow .step");
  steps[Math.min(state.step, steps.length - 1)].classList.add("arrives");
});
byId("show-all").addEventListener("click", () => {
  state.step = defaults.step;
  show();
});
byId("reset").addEventListener("click", () => {
  for (const key of ["x", "act", "ratio", "gated", "experts", "top", "look", "pick", "step"])
    state[key] = structuredClone(defaults[key]);
  edits = {};
  byId("machine-message").textContent = "";
  show();
});
new ResizeObserver(drawWires).observe(byId("flow"));
