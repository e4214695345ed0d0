// The arithmetic of the page in float64: activations, softmax, LayerNorm, and one pass through the
// machine. The library's float32 numbers stand in #numbers and check it.
const library = JSON.parse(document.getElementById("numbers").textContent);
const width = 4;

const sigmoid = (x) => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)));
const softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

// Taylor series near 0, continued fraction in the tail: right to about 13 digits.
function erfc(x) {
  if (x < 0) return 2 - erfc(-x);
  if (x < 2) {
    let term = x;
    let sum = x;
    for (let n = 1; n < 60; n += 1) {
      term *= -x * x / n;
      sum += term / (2 * n + 1);
    }
    return 1 - 2 / Math.sqrt(Math.PI) * sum;
  }
  let fraction = 0;
  for (let n = 60; n > 0; n -= 1) fraction = n / 2 / (x + fraction);
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + fraction);
}

const activations = {
  relu: (x) => Math.max(x, 0),
  relu2: (x) => Math.max(x, 0) ** 2,
  leaky_relu: (x) => (x > 0 ? x : 0.01 * x),
  relu6: (x) => Math.min(Math.max(x, 0), 6),
  sigmoid,
  tanh: Math.tanh,
  silu: (x) => x * sigmoid(x),
  gelu: (x) => 0.5 * x * erfc(-x / Math.SQRT2),
  gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  quick_gelu: (x) => x * sigmoid(1.702 * x),
  mish: (x) => x * Math.tanh(softplus(x)),
  identity: (x) => x,
};
const gatedOnly = (name) => library.gated_only.includes(name);

// What a unit sends on: act(gate), times up when there is a second projection.
function hiddenOf(name, gate, up) {
  if (name !== "swiglu_oai") return activations[name](gate) * (up === null ? 1 : up);
  const low = Math.min(gate, 7);
  return (Math.min(Math.max(up, -7), 7) + 1) * low * sigmoid(1.702 * low);
}

const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const largestOf = (values) => values.reduce((top, value) => Math.max(top, Math.abs(value)), 0);

function softmax(logits) {
  const top = Math.max(...logits);
  const powers = logits.map((value) => Math.exp(value - top));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((value) => value / sum);
}

function layerNorm(values) {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  const root = Math.sqrt(variance + library.eps);
  return { mean, variance, root, values: values.map((value) => (value - mean) / root) };
}

// One expert on x: [4]. `weight(part, expert, row, column)` is a weight as the reader left it.
function runExpert(index, x, setting, weight) {
  const units = setting.ratio * width;
  const row = (part, unit) => x.map((_, column) => weight(part, index, unit, column));
  const project = (part, unit) => dot(row(part, unit), x);
  const pre = [];
  const up = [];
  const hidden = [];
  for (let unit = 0; unit < units; unit += 1) {
    const wide = project("up", unit) + weight("up_bias", index, unit, 0);
    pre.push(setting.gated ? project("gate", unit) : wide);
    if (setting.gated) up.push(wide);
    hidden.push(hiddenOf(setting.act, pre[unit], setting.gated ? wide : null));
  }
  const out = x.map((_, j) => hidden.reduce(
    (sum, value, unit) => sum + value * weight("down", index, unit, j),
    weight("down_bias", index, j, 0),
  ));
  return { index, pre, up, hidden, out };
}

// The FFN alone: y and what led to it. Experts come by falling share, as the router chose them.
function runFfn(x, setting, weight) {
  const run = { logits: [], shares: [], weights: [1], experts: [] };
  let chosen = [0];
  if (setting.experts > 1) {
    for (let e = 0; e < setting.experts; e += 1)
      run.logits.push(x.reduce((sum, value, j) => sum + value * weight("router", e, j, 0), 0));
    run.shares = softmax(run.logits);
    chosen = run.shares.map((_, e) => e)
      .sort((a, b) => run.shares[b] - run.shares[a] || a - b).slice(0, setting.top);
    const sum = chosen.reduce((total, e) => total + run.shares[e], 0);
    run.weights = chosen.map((e) => run.shares[e] / sum);
  }
  run.experts = chosen.map((e) => runExpert(e, x, setting, weight));
  run.y = x.map((_, j) => run.experts.reduce((s, expert, i) => s + run.weights[i] * expert.out[j], 0));
  return run;
}

// The whole sublayer: FFN, residual, norm.
function runMachine(setting, weight) {
  const run = runFfn(setting.x, setting, weight);
  run.sum = setting.x.map((value, j) => value + run.y[j]);
  run.norm = layerNorm(run.sum);
  run.normal = run.norm.values;
  return run;
}
