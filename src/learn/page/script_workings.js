// The arithmetic behind one number of the machine: its terms, and the panel in which the weights
// among them can be changed.

// {title, terms: [{name, key, input, weight: [part, expert, row, column], factor, product}], result}
function workingOf(key) {
  const [row, text] = key.split(".");
  const i = Number(text);
  const expert = viewed();
  const e = expert.index;
  const sums = (part, own, name) => state.x.map((value, j) => {
    const place = part === "router" ? ["router", e, j, 0] : [part, e, i, j];
    if (part === "router") place[1] = i;
    const factor = weightOf(...place);
    return { name: ["x", j + 1], key: `x.${j}`, input: value, weight: place, factor, product: value * factor };
  });
  const bias = (part, place) => ({
    name: ["bias", ""], input: 1, weight: [part, e, place, 0], factor: weightOf(part, e, place, 0),
    product: weightOf(part, e, place, 0),
  });
  const written = () => expert.hidden.map((value, unit) => {
    const factor = weightOf("down", e, unit, i);
    return { name: ["h", unit + 1], key: `hidden.${unit}`, input: value, weight: ["down", e, unit, i], factor, product: value * factor };
  });
  const parts = {
    x: () => ({ text: "An input: change it above.", terms: [], result: state.x[i] }),
    logit: () => ({ text: `Expert ${i + 1}’s score.`, terms: sums("router"), result: run.logits[i] }),
    share: () => ({
      text: `exp(${plain(run.logits[i])}) divided by the sum of exp over all scores.`,
      terms: [{ key: `logit.${i}`, product: run.shares[i] }], result: run.shares[i],
    }),
    pre: () => ({
      text: `Row ${i + 1} of ${state.gated ? "Wg" : "W1"} times x${state.gated ? "" : ", plus the bias"}.`,
      terms: state.gated ? sums("gate") : [...sums("up"), bias("up_bias", i)], result: expert.pre[i],
    }),
    up: () => ({
      text: `Row ${i + 1} of W1 times x, plus the bias.`, terms: [...sums("up"), bias("up_bias", i)], result: expert.up[i],
    }),
    hidden: () => ({
      text: hiddenText(expert, i),
      terms: [{ key: `pre.${i}`, product: expert.hidden[i] },
        ...(state.gated ? [{ key: `up.${i}`, product: expert.hidden[i] }] : [])],
      result: expert.hidden[i],
    }),
    out: () => ({ text: `Row ${i + 1} of W2 times h, plus the bias.`, terms: [...written(), bias("down_bias", i)], result: expert.out[i] }),
    y: () => (state.experts > 1
      ? {
        text: "Each chosen expert’s result, times its weight.",
        terms: run.experts.map((one, n) => ({
          name: ["expert", one.index + 1], key: one === expert ? `out.${i}` : `share.${one.index}`,
          input: one.out[i], factor: run.weights[n], product: one.out[i] * run.weights[n],
        })),
        result: run.y[i],
      }
      : parts.out()),
    sum: () => ({
      text: `${plain(state.x[i])} + ${plain(run.y[i])}`,
      terms: [{ key: `x.${i}`, product: state.x[i] }, { key: `y.${i}`, product: run.y[i] }], result: run.sum[i],
    }),
    normal: () => ({
      text: `mean = ${plain(run.norm.mean)}, variance = ${plain(run.norm.variance)}; (${plain(run.sum[i])} − ${plain(run.norm.mean)}) / ${plain(run.norm.root)}`,
      terms: run.sum.map((value, j) => ({ key: `sum.${j}`, product: value })), result: run.normal[i],
    }),
  };
  return parts[row]();
}

function hiddenText(expert, i) {
  const act = state.act;
  if (act === "swiglu_oai")
    return `(up + 1) · gate · sigmoid(1.702 gate) with gate = ${plain(expert.pre[i])} and up = ${plain(expert.up[i])}, clamped at 7.`;
  const bent = plain(activations[act](expert.pre[i]));
  return state.gated
    ? `${act}(${plain(expert.pre[i])}) · ${plain(expert.up[i])} = ${bent} · ${plain(expert.up[i])}`
    : `${act}(${plain(expert.pre[i])}) = ${bent}${expert.hidden[i] === 0 ? ": this unit is silent" : ""}`;
}

// A row a term: input, weight (a field when it can be changed), product; then the sum. fillWorking
// puts the numbers in, again and again.
function workingPanel(row) {
  const i = Number(state.pick.split(".")[1]);
  const result = element("strong");
  const text = element("span");
  const panel = element("div", { class: "working", role: "region", "aria-label": "The arithmetic of the chosen number" },
    element("p", { "aria-live": "polite" }, result, " ", text));
  const terms = workingOf(state.pick).terms.filter((term) => term.name);
  const lines = terms.map((term) => ({
    input: element("td"),
    weight: term.weight ? weightField(term) : element("span"),
    product: element("td", { class: "product" }),
  }));
  const total = element("td", { class: "product" });
  if (terms.length > 0) {
    const body = element("tbody", {}, ...terms.map((term, n) => element("tr", {},
      element("th", { scope: "row" }, term.name[0] === "bias" ? "bias" : letter(...term.name)),
      lines[n].input, element("td", {}, lines[n].weight), lines[n].product)),
    element("tr", { class: "total" }, element("th", { scope: "row" }, "sum"), element("td"), element("td"), total));
    const heads = ["from", "value", "× weight", "= product"];
    panel.append(element("table", {}, element("thead", {}, element("tr", {},
      ...heads.map((head) => element("th", { scope: "col" }, head)))), body));
  }
  fillWorking = () => {
    const working = workingOf(state.pick);
    result.replaceChildren(letter(row.name, i + 1), ` = ${plain(working.result, 4)}`);
    text.textContent = working.text;
    total.textContent = plain(working.result, 4);
    working.terms.filter((term) => term.name).forEach((term, n) => {
      lines[n].input.textContent = term.name[0] === "bias" ? "" : plain(term.input);
      lines[n].product.textContent = plain(term.product, 4);
      lines[n].product.dataset.sign = signOf(term.product);
      if (!term.weight) lines[n].weight.textContent = plain(term.factor);
      else if (document.activeElement !== lines[n].weight) lines[n].weight.value = Number(term.factor.toFixed(6));
    });
  };
  return panel;
}

function weightField(term) {
  const place = term.weight.join(".");
  const field = element("input", {
    type: "number", step: "0.1", min: "-100", max: "100", "data-weight": place,
    "aria-label": `weight for ${term.name.join(" ").trim()}`,
  });
  field.addEventListener("input", () => {
    const value = finite(field.value);
    field.toggleAttribute("aria-invalid", value === null);
    if (value === null) return;
    edits[place] = value;
    show();
  });
  field.addEventListener("blur", () => {
    field.removeAttribute("aria-invalid");
    fillWorking();
  });
  return field;
}
