// Cards one by one, questions with their answers, and questions whose numbers are drawn.
const score = { right: 0, answered: 0 };
function countAnswer(right) {
  score.answered += 1;
  if (right) score.right += 1;
  byId("score").textContent = `${score.right} right of ${score.answered} answered`;
}

// One of a list at a time; state[key] says which.
function oneByOne(list, key, place, back, next, showAll = () => false) {
  const move = (way) => {
    state[key] = (state[key] + way + list.length) % list.length;
    show();
  };
  byId(back).addEventListener("click", () => move(-1));
  byId(next).addEventListener("click", () => move(1));
  views.push(() => {
    state[key] %= list.length;
    list.forEach((item, i) => {
      item.hidden = !showAll() && i !== state[key];
    });
    byId(place).textContent = `${state[key] + 1} of ${list.length}`;
  });
}

let allCards = false;
oneByOne([...document.querySelectorAll("#deck .card")], "card", "card-place", "card-back", "card-next", () => allCards);
byId("card-all").addEventListener("click", () => {
  allCards = !allCards;
  byId("card-all").setAttribute("aria-pressed", String(allCards));
  byId("card-all").textContent = allCards ? "Show one card" : "Show all cards";
  show();
});

const choices = [...document.querySelectorAll("#choices .choice")];
oneByOne(choices, "question", "quiz-place", "quiz-back", "quiz-next");
for (const choice of choices) {
  const verdict = choice.querySelector(".verdict");
  const answer = choice.querySelector(".answer");
  answer.hidden = true;
  choice.addEventListener("submit", (event) => {
    event.preventDefault();
    const picked = choice.querySelector("input:checked");
    if (!picked) {
      verdict.textContent = "Choose an answer first.";
      return;
    }
    const right = picked.value === choice.dataset.answer;
    if (!choice.dataset.done) countAnswer(right);
    choice.dataset.done = "yes";
    verdict.dataset.right = String(right);
    verdict.textContent = right ? "Right." : "Not quite.";
    answer.hidden = false;
    answer.open = true;
  });
}

// mulberry32: the same seed gives the same question
function drawsFrom(seed) {
  let a = seed * 2654435761;
  return (list) => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return list[Math.floor(((t ^ (t >>> 14)) >>> 0) / 4294967296 * list.length)];
  };
}

const widths = [64, 128, 256, 384, 512, 768, 1024, 2048, 4096];
const tenths = Array.from({ length: 19 }, (_, i) => (i - 9) / 10);
const signed = (value) => (value < 0 ? `(${plain(value)})` : plain(value));

// Each kind: {values, question, answer, working}; values say what was drawn.
const kinds = {
  dense_parameters: (pick) => {
    const d = pick(widths);
    const f = d * pick([1, 2, 3, 4, 8]);
    return {
      values: { d, f }, answer: 2 * d * f + f + d,
      question: `How many parameters does a dense FFN with biases have at d_model ${grouped(d)}, d_ff ${grouped(f)}?`,
      working: `2 × ${grouped(d)} × ${grouped(f)} + ${grouped(f)} + ${grouped(d)} = ${grouped(2 * d * f + f + d)}`,
    };
  },
  gated_parameters: (pick) => {
    const d = pick(widths);
    const f = d * pick([2, 3, 4]);
    return {
      values: { d, f }, answer: 3 * d * f,
      question: `How many parameters does a gated FFN without biases have at d_model ${grouped(d)}, d_ff ${grouped(f)}?`,
      working: `3 × ${grouped(d)} × ${grouped(f)} = ${grouped(3 * d * f)}: gate, up and down`,
    };
  },
  flops: (pick) => {
    const d = pick(widths);
    const f = d * pick([2, 3, 4]);
    return {
      values: { d, f }, answer: 4 * d * f,
      question: `How many FLOPs do the two matrices of a dense FFN cost a token at d_model ${grouped(d)}, d_ff ${grouped(f)}? (a multiply-add is 2)`,
      working: `2 × 2 × ${grouped(d)} × ${grouped(f)} = ${grouped(4 * d * f)}`,
    };
  },
  active_parameters: (pick) => {
    const d = pick([128, 256, 512, 1024]);
    const f = d * pick([1, 2, 4]);
    const experts = pick([4, 8, 16, 32]);
    const top = pick([1, 2, 4]);
    const answer = top * 3 * d * f + experts * d;
    return {
      values: { d, f, experts, top }, answer,
      question: `A mixture of ${experts} gated experts runs ${top} a token, at d_model ${grouped(d)}, d_ff ${grouped(f)} an expert, no biases. How many parameters does a token use, router included?`,
      working: `${top} × 3 × ${grouped(d)} × ${grouped(f)} + ${experts} × ${grouped(d)} = ${grouped(answer)}`,
    };
  },
  hidden_unit: (pick) => {
    const x = [0, 1, 2].map(() => pick([-2, -1, 0, 1, 2, 3]));
    const w = [0, 1, 2].map(() => pick(tenths));
    const b = pick(tenths);
    const pre = dot(x, w) + b;
    const answer = Math.max(0, pre);
    return {
      values: { x, w, b }, answer,
      question: `x = [${x.map((value) => plain(value)).join(", ")}], a unit’s weights [${w.map((value) => plain(value)).join(", ")}], its bias ${plain(b)}. What does the unit give after ReLU?`,
      working: `${x.map((value, i) => `${signed(value)} × ${signed(w[i])}`).join(" + ")} + ${signed(b)} = ${plain(pre)}; ReLU gives ${plain(answer)}`,
    };
  },
  layer_norm: (pick) => {
    const middle = pick([-1, 0, 1, 2]);
    const step = pick([1, 2, 3]);
    const x = [middle - step, middle, middle + step];
    const root = Math.sqrt(2 * step * step / 3);
    return {
      values: { x }, answer: step / root,
      question: `LayerNorm of [${x.map((value) => plain(value)).join(", ")}] without eps, gamma 1, beta 0: what is the last number? (two decimals)`,
      working: `mean ${plain(middle)}, variance ${plain(2 * step * step / 3)}; ${step} / ${plain(root)} = ${plain(step / root)}`,
    };
  },
};

function numericQuestion() {
  const pick = drawsFrom(state.seed);
  const kind = pick(Object.keys(kinds));
  return { kind, ...kinds[kind](pick) };
}

// "4,722,432", "1.2e3", "−0.5"; NaN when it is no number
const readAnswer = (text) => Number(text.trim().replace(/,(?=\d{3})/g, "").replace("−", "-") || "NaN");

let asked = null;
views.push(() => {
  if (asked && asked.seed === state.seed) return;
  asked = { seed: state.seed, ...numericQuestion() };
  const place = byId("numeric-question");
  place.textContent = asked.question;
  place.dataset.kind = asked.kind;
  place.dataset.values = JSON.stringify(asked.values);
  byId("numeric-answer").value = "";
  byId("numeric-verdict").textContent = "";
  delete byId("numeric-verdict").dataset.right;
});
byId("numeric-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = readAnswer(byId("numeric-answer").value);
  const verdict = byId("numeric-verdict");
  if (Number.isNaN(given)) {
    verdict.textContent = "Give a number, for example 4,722,432 or 1.2e3.";
    return;
  }
  const right = Math.abs(given - asked.answer) <= (asked.answer > 100 ? 0.5 : 0.0051);
  if (!asked.done) countAnswer(right);
  asked.done = true;
  verdict.dataset.right = String(right);
  verdict.textContent = `${right ? "Right" : "Not quite"}: ${asked.working}.`;
});
byId("numeric-new").addEventListener("click", () => {
  state.seed = (state.seed + 1) % 1000000;
  show();
});
