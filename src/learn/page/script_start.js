// Levels of the explanation, the check against the library, and the first showing.
const levelNames = {
  engineer: "For an engineer", twelve: "For a twelve-year-old", hinglish: "Hinglish mein",
};
const explanations = [...document.querySelectorAll(".explanation")];
for (const explanation of explanations) {
  const level = explanation.dataset.level;
  const button = element("button", { type: "button", "data-level": level }, levelNames[level] ?? level);
  button.addEventListener("click", () => {
    state.level = level;
    show();
  });
  byId("levels").append(button);
}
views.push(() => {
  if (!explanations.some((one) => one.dataset.level === state.level)) state.level = explanations[0].dataset.level;
  for (const one of explanations) one.hidden = one.dataset.level !== state.level;
  for (const button of byId("levels").children)
    button.setAttribute("aria-pressed", String(button.dataset.level === state.level));
});

// The largest difference between this script and the library, over all settings that the page
// brings along, as a share of the number's size where that is above 1.
function differences() {
  let worst = 0;
  let count = 0;
  const compare = (ours, theirs) => {
    if (ours.length !== theirs.length) worst = Infinity;
    theirs.forEach((value, i) => {
      const gap = Math.abs(ours[i] - value) / Math.max(1, Math.abs(value));
      worst = Math.max(worst, Number.isNaN(gap) ? Infinity : gap);
      count += 1;
    });
  };
  for (const check of library.checks) {
    const own = runMachine({ ...check, gated: Number(check.gated) }, firstWeightOf);
    compare(own.logits, check.logits);
    compare(own.weights, check.weights);
    check.chosen.forEach((expert, i) => {
      if (own.experts[i].index !== expert.index) worst = Infinity;
      for (const key of ["pre", "up", "hidden", "out"]) compare(own.experts[i][key], expert[key]);
    });
    for (const key of ["y", "sum", "normal"]) compare(own[key], check[key]);
  }
  for (const [name, values] of Object.entries(library.curves))
    compare(library.curve_x.map((x) => hiddenOf(name, x, gatedOnly(name) ? 1 - x / 2 : null)), values);
  const rows = library.sentence.x;
  compare(attend(rows).out.flat(), library.sentence.attention.flat());
  compare(rows.flatMap((x) => runFfn(x, firstSetting, firstWeightOf).y), library.sentence.ffn.flat());
  compare(runFlattened(rows).flat(), library.sentence.flattened.flat());
  compare(runFlattened([...rows].reverse()).flat(), library.sentence.reversed_flattened.flat());
  for (const { n, t, y } of library.joined) compare(t.map((one) => joinLines(n, one)), y);
  for (const one of library.sizes) {
    const size = sizeOf(one.d, one.ratio, one.gated, one.experts, one.top);
    compare([size.total, size.active, 2 * size.active], [one.total, one.active, one.flops]);
  }
  return { worst, count };
}

// Names in links to settings: the part before "?" is a section.
function goToSection() {
  const section = byId(location.hash.slice(1).split("?")[0]);
  if (section) section.scrollIntoView();
}
addEventListener("hashchange", () => {
  if (readAddress()) goToSection();
  show();
});

document.documentElement.classList.add("scripted");
const menu = document.querySelector(".menu");
const narrow = matchMedia("(max-width: 1099px)");
const fitMenu = () => {
  menu.open = !narrow.matches;
};
narrow.addEventListener("change", fitMenu);
fitMenu();
menu.addEventListener("click", (event) => {
  if (event.target.closest("a")) fitMenu();
});

const { worst, count } = differences();
byId("agreement").dataset.worst = String(worst);
byId("agreement").textContent =
  `Your browser computes these numbers. Compared with the library on ${grouped(count)} numbers of ${library.checks.length} settings and all curves, the largest difference is ${worst.toExponential(1).replace("-", "−")}.`;
const found = readAddress();
show();
if (found) goToSection();
