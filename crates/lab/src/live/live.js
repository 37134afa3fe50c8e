// Draws each state as it comes. The page without scripts has the same facts.
const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};
const percent = share => `${100 * share}%`;
const drawBar = ({ from, to, mark }) => {
  const span = make("i");
  span.style.left = percent(from);
  span.style.width = percent(to - from);
  const bar = make("span", { class: "bar" }, span);
  if (mark !== null) {
    const line = make("b");
    line.style.left = percent(mark);
    bar.append(line);
  }
  return bar;
};
const drawTable = ({ title, caption, columns, rows }) => {
  const head = make("tr", {}, ...columns.map(name => make("th", { scope: "col" }, name)));
  const cell = ({ text, tone, bar }) => make("td", { class: tone }, text, ...(bar ? [drawBar(bar)] : []));
  const body = rows.map(row => make("tr", {}, make("th", { scope: "row" }, row.name), ...row.cells.map(cell)));
  const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
  return [
    make("h2", {}, title),
    make("div", { class: "scroll narrow" }, table),
    ...(caption ? [make("p", { class: "caption" }, caption)] : []),
  ];
};
const drawSpark = ({ title, points }) => {
  const of = name => document.createElementNS("http://www.w3.org/2000/svg", name);
  const [svg, line] = [of("svg"), of("polyline")];
  svg.setAttribute("class", "spark");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", title);
  svg.setAttribute("viewBox", `0 0 ${points.length - 1} 1.1`);
  svg.setAttribute("preserveAspectRatio", "none");
  line.setAttribute("points", points.map((value, at) => `${at},${1.05 - value}`).join(" "));
  svg.append(line);
  return [svg, make("p", { class: "caption" }, title)];
};
const drawFigures = figures => {
  const each = ({ name, value }) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
  return figures.length ? [make("dl", { class: "figures" }, ...figures.map(each))] : [];
};
const show = state => {
  document.title = `${state.title} – Duality`;
  document.getElementById("title").textContent = state.title;
  document.getElementById("now").replaceChildren(
    ...(state.over ? [make("b", {}, "Over. ")] : []), state.now);
  document.getElementById("content").replaceChildren(
    ...drawFigures(state.figures), ...(state.spark ? drawSpark(state.spark) : []),
    ...state.tables.flatMap(drawTable));
};
// The program ends soon after the last state. So the page keeps the report.
const keepReport = async path => {
  const reply = await fetch("report").catch(() => null);
  if (!path) return;
  const where = document.getElementById("report");
  const name = make("code", {}, path);
  if (!reply?.ok) return where.replaceChildren("The report is in ", name, ".");
  const address = URL.createObjectURL(await reply.blob());
  where.replaceChildren(make("a", { href: address }, "The report"), " is in ", name, ".");
};
addEventListener("DOMContentLoaded", () => {
  const states = new EventSource("events");
  states.onmessage = event => {
    const state = JSON.parse(event.data);
    show(state);
    if (!state.over) return;
    states.close();
    keepReport(state.report);
  };
  states.onerror = () => {
    document.getElementById("now").textContent =
      "The program does not answer, and may have ended. This is what it said last.";
  };
});
