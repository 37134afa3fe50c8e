// The plots of a run of regimes. A choice of another regime, layer or subject redraws them.
const { subjects, first, all, regimes } = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);
const colour = (at) => `light-dark(hsl(${(at * 137.5) % 360} 75% 36%), hsl(${(at * 137.5) % 360} 70% 66%))`;
// Neighbours in the list differ in more than their colour.
const DASHES = ["none", "7 3", "2 3"];
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 14, 10, 36];

// The three plots: the place of a point with T, #B and #CP, and the labels of axes.
const seconds = (value) => value >= 1 ? `${value} s` : value >= 1e-3 ? `${Math.round(value * 1e3)} ms` : `${Math.round(value * 1e6)} µs`;
const number = (value) => value >= 1e6 ? `${value / 1e6} M` : value >= 1e3 ? `${value / 1e3} k` : `${value}`;
const plots = [
  { place: ([time, blocks]) => [blocks, time], x: "#B", y: seconds },
  { place: ([time, , clients]) => [clients, time], x: "#CP", y: seconds },
  { place: ([time, blocks, clients]) => [clients, blocks / time], x: "#CP", y: number },
];

// The chosen values.
const select = element("regime");
for (const name of ["all together", ...regimes.map(({ name }) => name)]) {
  select.append(new Option(name));
}
const shown = subjects.map((name, at) => {
  const label = document.createElement("label");
  const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: first[at] });
  const mark = document.createElement("i");
  mark.style.setProperty("--line", colour(at));
  label.append(box, mark, name);
  element("legend").append(label);
  return box;
});

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

function draw(chosen, at) {
  const { place, x: named, y: label } = plots[at];
  const layers = { raw: element("raw").checked, mean: element("mean").checked, moving: element("moving").checked };
  const drawn = chosen.map(({ curves, points }, subject) => ({ subject, curve: curves[at], points: points.map(place) }))
    .filter(({ subject }) => shown[subject].checked);
  const places = drawn.flatMap(({ curve, points }) => [
    ...(layers.raw ? points : []),
    ...(layers.mean ? curve.map(([x, mean]) => [x, mean]) : []),
    ...(layers.moving ? curve.map(([x, , moving]) => [x, moving]) : []),
  ]);
  const into = element(`plot${at}`);
  // The unit is a pixel, so that text has its size on screens of every width.
  const WIDTH = Math.max(280, into.parentElement.clientWidth - 24);
  const HEIGHT = Math.round(Math.max(260, WIDTH * 0.48));
  into.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  into.replaceChildren();
  const across = scale(places.map(([x]) => x), LEFT, WIDTH - RIGHT);
  const up = scale(places.map(([, y]) => y), HEIGHT - BOTTOM, TOP);
  if (!across || !up) {
    into.append(svg("text", { x: WIDTH / 2, y: HEIGHT / 2, "text-anchor": "middle" }, "nothing is chosen, or nothing was measured"));
    return;
  }
  for (const tick of across.ticks) {
    const x = across.at(tick);
    into.append(svg("line", { class: "grid", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }));
    into.append(svg("text", { x, y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, number(tick)));
  }
  for (const tick of up.ticks) {
    const y = up.at(tick);
    into.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y }));
    into.append(svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, label(tick)));
  }
  into.append(svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, named));
  const dots = (where, kind, radius) => where.filter(([x, y]) => x > 0 && y > 0)
    .map(([x, y]) => svg("circle", { class: kind, cx: across.at(x).toFixed(1), cy: up.at(y).toFixed(1), r: radius }));
  for (const { subject, curve, points } of drawn) {
    const group = svg("g", { style: `--line: ${colour(subject)}` });
    group.append(svg("title", {}, subjects[subject]));
    if (layers.raw) group.append(...dots(points, "raw", 2));
    if (layers.mean) group.append(...dots(curve, "mean", 2.2));
    if (layers.moving) {
      const line = curve.filter(([x, , y]) => x > 0 && y > 0).map(([x, , y]) => `${across.at(x).toFixed(1)},${up.at(y).toFixed(1)}`);
      if (line.length > 0) group.append(svg("path", { d: `M${line.join("L")}`, "stroke-dasharray": DASHES[subject % DASHES.length] }));
    }
    into.append(group);
  }
}

function tell(regime) {
  element("of-regime").hidden = !regime;
  if (!regime) return;
  element("which").textContent = `${regime.name}: ${regime.offered} clients a second on average`;
  const rows = regime.subjects.map(({ figures }, at) => {
    const row = document.createElement("tr");
    const cells = figures ? [figures.rate, figures.cpu ?? "–", figures.p50, figures.p99, figures.peak] : ["–", "–", "–", "–", "–"];
    const name = Object.assign(document.createElement("th"), { scope: "row", textContent: subjects[at] });
    row.append(name, ...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
    return row;
  });
  element("figures").tBodies[0].replaceChildren(...rows);
}

function redraw() {
  const regime = regimes[select.selectedIndex - 1];
  // The overview of all regimes has no points: there would be too many, of unlike loads.
  element("raw").disabled = !regime;
  plots.forEach((_, at) => draw(regime ? regime.subjects : all, at));
  tell(regime);
}

function choose(checked) {
  shown.forEach((box) => { box.checked = checked; });
  redraw();
}

// The regime is part of the address, so that a link can name a regime.
function follow() {
  const wanted = decodeURIComponent(location.hash.replace("#regime=", ""));
  const index = regimes.findIndex(({ name }) => name === wanted);
  if (index >= 0) select.selectedIndex = index + 1;
  redraw();
}

element("everyone").addEventListener("click", () => choose(true));
element("nobody").addEventListener("click", () => choose(false));
select.addEventListener("change", () => {
  const regime = regimes[select.selectedIndex - 1];
  history.replaceState(null, "", regime ? `#regime=${encodeURIComponent(regime.name)}` : "#");
  redraw();
});
for (const control of [...shown, element("raw"), element("mean"), element("moving")]) {
  control.addEventListener("change", redraw);
}
addEventListener("hashchange", follow);
addEventListener("resize", redraw);
follow();
