// The reader's settings, their place in the address, and how numbers and elements are written.
const byId = (id) => document.getElementById(id);

// At most `decimals` decimals and about seven characters; a real minus sign.
function plain(value, decimals = 3) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value < 0 ? "−∞" : "∞";
  const size = Math.abs(value);
  const before = size < 100 ? 0 : Math.floor(Math.log10(size)) - 1;
  const text = size >= 1e5 ? size.toExponential(2).replace("e+", "e")
    : String(Number(size.toFixed(Math.max(0, decimals - before))));
  return value < 0 && text !== "0" ? `−${text}` : text;
}
const grouped = (value) => Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
const signOf = (value) => (value > 0 ? "pos" : value < 0 ? "neg" : "zero");

// element("p", {class: "x"}, "text", child ...)
function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
function drawing(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
// "h", 3: h with a small 3 below
function letter(name, number) {
  const whole = document.createDocumentFragment();
  whole.append(name, element("sub", {}, String(number)));
  return whole;
}

const whole = (text, low, high) => {
  const value = Number(text);
  return Number.isInteger(value) && value >= low && value <= high ? value : null;
};
const finite = (text, limit = 100) => {
  const value = text.trim() === "" ? NaN : Number(text);
  return Math.abs(value) <= limit ? value : null;
};

const weightParts = ["up", "gate", "up_bias", "down", "down_bias", "router"];
const defaults = {
  x: [1, 0, -1, 2], act: "relu", ratio: 2, gated: 0, experts: 1, top: 1, look: 0, pick: "pre.3",
  step: 9, order: [0, 1, 2, 3], cat: 0.5, flat: [3, 2, 1, 0], fit: 4, sd: 768, sr: 4, sg: 0, se: 1,
  st: 1, card: 0, question: 0, seed: 1, level: "engineer",
};
let state = structuredClone(defaults);
let edits = {}; // "up.0.3.1" (part, expert, row, column) -> number

// The weight as the page brings it. down is stored by unit: row `unit`, column of the result.
function firstWeightOf(part, expert, row, column) {
  const all = library.weights;
  if (part === "up_bias") return all.up_bias[expert * library.units + row];
  if (part === "down_bias" || part === "router") return all[part][expert][row];
  return all[part][expert * library.units + row][column];
}

// ... and as the reader left it.
const weightOf = (part, expert, row, column) =>
  edits[`${part}.${expert}.${row}.${column}`] ?? firstWeightOf(part, expert, row, column);

const permutation = (text) => {
  const list = text.split("").map(Number);
  return [...list].sort().join("") === "0123" ? list : null;
};
const readers = {
  x: (text) => {
    const list = text.split(",").map((part) => finite(part));
    return list.length === width && !list.includes(null) ? list : null;
  },
  act: (text) => (library.activations.includes(text) ? text : null),
  ratio: (text) => whole(text, 1, 4),
  gated: (text) => whole(text, 0, 1),
  experts: (text) => whole(text, 1, 8),
  top: (text) => whole(text, 1, 8),
  look: (text) => whole(text, 0, 7),
  pick: (text) => (/^[a-z]+\.\d+$/.test(text) ? text : null),
  step: (text) => whole(text, 0, 9),
  order: permutation,
  cat: (text) => finite(text),
  flat: permutation,
  fit: (text) => whole(text, 1, 32),
  sd: (text) => (whole(text, 64, 8192) % 64 === 0 ? whole(text, 64, 8192) : null),
  sr: (text) => (Number(text) >= 0.25 && Number(text) <= 8 ? Number(text) : null),
  sg: (text) => whole(text, 0, 1),
  se: (text) => whole(text, 1, 64),
  st: (text) => whole(text, 1, 64),
  card: (text) => whole(text, 0, 999),
  question: (text) => whole(text, 0, 999),
  seed: (text) => whole(text, 0, 999999),
  level: (text) => (/^[a-z]+$/.test(text) ? text : null),
};
const written = { order: (list) => list.join(""), flat: (list) => list.join("") };

function keepInRange() {
  state.top = Math.min(state.top, state.experts);
  state.st = Math.min(state.st, state.se);
  if (gatedOnly(state.act)) state.gated = 1;
}

// "#machine?x=1,0,-1,2&w=up.0.3.1:0.5": what is missing, unknown or out of range keeps its default.
function readAddress() {
  const query = location.hash.split("?")[1];
  if (query === undefined) return false;
  state = structuredClone(defaults);
  edits = {};
  for (const [key, text] of new URLSearchParams(query)) {
    if (key === "w") {
      for (const edit of text.split(";")) {
        const [place, number] = edit.split(":");
        const known = /^([a-z_]+)\.([0-7])\.(\d|1[0-5])\.([0-3])$/.exec(place);
        const value = finite(number ?? "");
        if (known && weightParts.includes(known[1]) && value !== null) edits[place] = value;
      }
    } else if (readers[key]) {
      const value = readers[key](text);
      if (value !== null) state[key] = value;
    }
  }
  keepInRange();
  return true;
}

let addressTimer = 0;
function writeAddress() {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => {
    const parts = [];
    for (const [key, value] of Object.entries(state)) {
      const text = written[key] ? written[key](value) : String(value);
      const plainText = written[key] ? written[key](defaults[key]) : String(defaults[key]);
      if (text !== plainText) parts.push(`${key}=${text}`);
    }
    const changed = Object.entries(edits).map(([place, value]) => `${place}:${value}`);
    if (changed.length > 0) parts.push(`w=${changed.join(";")}`);
    const place = location.hash.slice(1).split("?")[0];
    const hash = `#${place}${parts.length > 0 ? `?${parts.join("&")}` : ""}`;
    if (hash !== location.hash && !(hash === "#" && location.hash === ""))
      history.replaceState(null, "", hash === "#" ? location.pathname + location.search : hash);
  }, 150);
}

// Everything that shows the state; each view adds one function.
const views = [];
function show() {
  keepInRange();
  for (const view of views) view();
  writeAddress();
}

// A range or number field bound to one key of the state. `label(value)` fills its output.
function bind(id, key, label = null) {
  const field = byId(id);
  field.addEventListener("input", () => {
    const value = field.type === "checkbox" ? Number(field.checked) : readers[key](field.value);
    field.toggleAttribute("aria-invalid", value === null);
    if (value === null) return;
    state[key] = value;
    show();
  });
  views.push(() => {
    if (field.type === "checkbox") field.checked = state[key] === 1;
    else if (document.activeElement !== field || field.type === "range") field.value = state[key];
    if (label) byId(`${id}-text`).textContent = label(state[key]);
  });
}
