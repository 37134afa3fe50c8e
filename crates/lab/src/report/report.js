// The page's behaviour: plots in the colours of its theme, what is shown on them, downloads, sorting, raw lines.
const { service, looks, charts, rows, csv } = JSON.parse(document.getElementById("data").textContent);
const latency = document.getElementById("latency-concurrency");
const hidden = new Set();

// Plots.

const isShown = ({ name, meta }) =>
  !hidden.has(name) && (meta?.concurrency === undefined || String(meta.concurrency) === latency.value);

const draw = () => charts.forEach((chart) => plot(document.getElementById(chart.id), chart, looks, isShown));

addEventListener("theme", draw);
latency.addEventListener("change", draw);
for (const { id } of charts) {
  const graph = document.getElementById(id);
  addEventListener("DOMContentLoaded", () => graph.on("plotly_click", ({ points: [{ data, pointNumber }] }) => {
    const { rows: ofPoints } = data.meta ?? {};
    if (ofPoints) showLines(data.name, ofPoints[pointNumber]);
  }));
}
toggles(document.querySelectorAll(".legend button"), hidden, draw);

// Downloads.

function download(name, address) {
  const link = Object.assign(document.createElement("a"), { href: address, download: name });
  link.click();
}

const asCsv = (text) => `data:text/csv;charset=utf-8,${encodeURIComponent(text)}`;
const field = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value ?? "");

/** What a plot shows: a line for each point; at how many connections, and the ends of its interval where it has one. */
function plotted({ traces }) {
  const points = traces.filter(({ meta }) => meta).flatMap(({ name, x, y, meta, error_y: error }) => y.map((value, at) =>
    [name, meta.rows[at], x[at], value, error && value - error.arrayminus[at], error && value + error.array[at]]));
  const lines = [["architecture", "connections", "x", "y", "low", "high"], ...points];
  return lines.map((line) => line.map(field).join(",") + "\r\n").join("");
}

for (const button of document.querySelectorAll("button[data-format]")) {
  button.addEventListener("click", async () => {
    const { chart: id, format } = button.dataset;
    const name = `${service}-${id ?? "cells"}.${format}`;
    if (format === "csv") {
      download(name, asCsv(id ? plotted(charts.find((chart) => chart.id === id)) : csv));
      return;
    }
    // On paper of the theme, for what is on a transparent one is lost on most slides.
    const graph = document.getElementById(id);
    const paper = getComputedStyle(graph.closest("figure")).backgroundColor;
    const { data, layout } = graph;
    const whole = { data, layout: { ...layout, paper_bgcolor: paper } };
    download(name, await Plotly.toImage(whole, { format, width: 900, height: 560, scale: format === "png" ? 2 : 1 }));
  });
}

// The table. Rows without a figure stay at the end, whichever way the others are sorted.

const table = document.querySelector("#cells");
const body = table.tBodies[0];
const headings = [...table.querySelectorAll("thead th")];
headings.forEach((heading, column) => heading.querySelector("button")?.addEventListener("click", () => {
  const ascending = heading.getAttribute("aria-sort") !== "ascending";
  headings.forEach((other) => other.hasAttribute("aria-sort") && other.setAttribute("aria-sort", "none"));
  heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const value = (row) => row.cells[column]?.dataset.value;
  [...body.rows].sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
    return (ascending ? 1 : -1) * (column === 0 ? a.localeCompare(b) : a - b);
  }).forEach((row) => body.append(row));
}));

// Raw lines.

const dialog = document.getElementById("raw");

function showLines(name, concurrency) {
  const row = rows.find((known) => known.name === name && known.concurrency === concurrency);
  dialog.querySelector("h2").textContent = `${name} at ${concurrency}: what was written down`;
  const parts = row.lines.flatMap(({ file, number, text }) => {
    const place = document.createElement("h3");
    place.textContent = `${file}, line ${number}`;
    const raw = document.createElement("pre");
    raw.textContent = text || "There are too many lines for a page: look there.";
    raw.tabIndex = 0;
    return [place, raw];
  });
  dialog.querySelector("div").replaceChildren(...parts);
  dialog.showModal();
}

for (const button of document.querySelectorAll("button[data-concurrency]")) {
  button.addEventListener("click", () => showLines(button.dataset.name, Number(button.dataset.concurrency)));
}
