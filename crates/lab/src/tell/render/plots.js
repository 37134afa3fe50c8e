// Plots of curves and points. A choice of another load, layer or subject redraws them.
const { choice, quantities, plots, subjects, all, choices } = JSON.parse(document.getElementById("plots-data").textContent);
const element = (id) => document.getElementById(id);
const colour = (at) => `light-dark(hsl(${(at * 137.5) % 360} 75% 36%), hsl(${(at * 137.5) % 360} 70% 66%))`;
// Neighbours in the list differ in more than their colour.
const DASHES = ["none", "7 3", "2 3"];
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 14, 10, 36];

const seconds = (value) => value >= 1 ? `${value} s` : value >= 1e-3 ? `${Math.round(value * 1e3)} ms` : `${Math.round(value * 1e6)} µs`;
const number = (value) => value >= 1e6 ? `${value / 1e6} M` : value >= 1e3 ? `${value / 1e3} k` : `${value}`;
const told = (quantity) => quantity.is_time ? seconds : number;

// The chosen values.
const select = element("choice");
for (const name of ["all together", ...choices.map(({ name }) => name)]) {
  select.append(new Option(name));
}
const shown = subjects.map(([name, checked], at) => {
  const label = document.createElement("label");
  const box = Object.assign(document.createElement("input"), { type: "checkbox", checked });
  const mark = document.createElement("i");
  mark.style.setProperty("--line", colour(at));
  label.append(box, mark, name);
  element("legend").append(label);
  return box;
});
const layers = Object.fromEntries([...document.querySelectorAll("[data-layer]")].map((box) => [box.dataset.layer, box]));

/** The scale of an axis: logarithmic, over whole powers of ten or parts of one. */
function scale(values, from, to) {
  const positive = values.filter((value) => value > 0 && Number.isFinite(value));
  if (positive.length === 0) return null;
  const low = Math.log10(positive.reduce((one, other) => Math.min(one, other)));
  const high = Math.max(Math.log10(positive.reduce((one, other) => Math.max(one, other))), low + 0.1);
  const ticks = [];
  const steps = high - low > 2 ? [1] : [1, 2, 5];
  for (let power = Math.floor(low); power <= high; power += 1) {
    for (const step of steps) {
      const value = step * 10 ** power;
      if (Math.log10(value) >= low - 1e-9 && Math.log10(value) <= high + 1e-9) ticks.push(Number(value.toPrecision(3)));
    }
  }
  return { at: (value) => from + (Math.log10(value) - low) / (high - low) * (to - from), ticks };
}

function svg(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function draw({ curves, points }, at) {
  const [across, up] = [plots[at].across, plots[at].up];
  const drawn = curves.map((of, subject) => ({
    subject, curve: of[at], points: (points?.[subject] ?? []).map((point) => [point[across], point[up]]),
  })).filter(({ subject }) => shown[subject].checked);
  const places = drawn.flatMap(({ curve, points }) => [
    ...(layers.points.checked ? points : []),
    ...(layers.means.checked ? curve.map(([x, mean]) => [x, mean]) : []),
    ...(layers.moving.checked ? curve.map(([x, , moving]) => [x, moving]) : []),
  ]);
  const into = element(`plot${at}`);
  // The unit is a pixel, so that text has its size on screens of every width.
  const WIDTH = Math.max(280, into.parentElement.clientWidth - 24);
  const HEIGHT = Math.round(Math.max(260, WIDTH * 0.48));
  into.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  into.replaceChildren();
  const x = scale(places.map(([x]) => x), LEFT, WIDTH - RIGHT);
  const y = scale(places.map(([, y]) => y), HEIGHT - BOTTOM, TOP);
  if (!x || !y) {
    into.append(svg("text", { x: WIDTH / 2, y: HEIGHT / 2, "text-anchor": "middle" }, "nothing is chosen, or nothing was measured"));
    return;
  }
  for (const tick of x.ticks) {
    const place = x.at(tick);
    into.append(svg("line", { class: "grid", x1: place, x2: place, y1: TOP, y2: HEIGHT - BOTTOM }));
    into.append(svg("text", { x: place, y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, told(quantities[across])(tick)));
  }
  for (const tick of y.ticks) {
    const place = y.at(tick);
    into.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: place, y2: place }));
    into.append(svg("text", { x: LEFT - 6, y: place + 4, "text-anchor": "end" }, told(quantities[up])(tick)));
  }
  into.append(svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, quantities[across].name));
  const positive = (where) => where.filter(([x, y]) => x > 0 && y > 0);
  const dots = (where, kind, r) => positive(where).map((at) => svg("circle", { class: kind, cx: x.at(at[0]).toFixed(1), cy: y.at(at[1]).toFixed(1), r }));
  for (const { subject, curve, points } of drawn) {
    const group = svg("g", { style: `--line: ${colour(subject)}` });
    group.append(svg("title", {}, subjects[subject][0]));
    if (layers.points.checked) group.append(...dots(points, "points", 2));
    if (layers.means.checked) group.append(...dots(curve, "means", 2.2));
    if (layers.moving.checked) {
      const line = positive(curve.map(([x, , moving]) => [x, moving])).map((at) => `${x.at(at[0]).toFixed(1)},${y.at(at[1]).toFixed(1)}`);
      if (line.length > 0) group.append(svg("path", { d: `M${line.join("L")}`, "stroke-dasharray": DASHES[subject % DASHES.length] }));
    }
    into.append(group);
  }
}

function redraw() {
  const chosen = select.selectedIndex - 1;
  // All loads together have no points: there would be too many, of unlike loads.
  layers.points.disabled = chosen < 0;
  plots.forEach((_, at) => draw(choices[chosen] ?? { curves: all }, at));
  document.querySelectorAll(".chosen").forEach((table, at) => { table.hidden = at !== chosen; });
}

function show(checked) {
  shown.forEach((box) => { box.checked = checked; });
  redraw();
}

// The choice is part of the address, so that a link can name it.
const key = `#${choice.toLowerCase()}=`;
function follow() {
  const wanted = location.hash.startsWith(key) && decodeURIComponent(location.hash.slice(key.length));
  const index = choices.findIndex(({ name }) => name === wanted);
  if (index >= 0) select.selectedIndex = index + 1;
  redraw();
}

element("all").addEventListener("click", () => show(true));
element("none").addEventListener("click", () => show(false));
select.addEventListener("change", () => {
  const chosen = choices[select.selectedIndex - 1];
  history.replaceState(null, "", chosen ? key + encodeURIComponent(chosen.name) : "#");
  redraw();
});
for (const control of [...shown, ...Object.values(layers)]) {
  control.addEventListener("change", redraw);
}
addEventListener("hashchange", follow);
addEventListener("resize", redraw);
follow();
