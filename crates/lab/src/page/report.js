// The page's behaviour: copying figures, sorting, raw lines. Without scripts, the whole page can
// still be read.
const { service, rows, csv } = JSON.parse(document.getElementById("data").textContent);

// Downloads.

function download(name, address) {
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
}

const asCsv = (text) => `data:text/csv;charset=utf-8,${encodeURIComponent(text)}`;

/** A chart as a file of its own, with the colours of the page's style, on the page's background. */
function standalone(id) {
  const drawn = document.querySelector(`#${CSS.escape(id)} svg`);
  const copy = drawn.cloneNode(true);
  const styles = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family", "font-weight", "opacity"];
  const parts = [drawn, ...drawn.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((part, at) => {
    const style = getComputedStyle(parts[at]);
    part.setAttribute("style", styles.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
  });
  const { width, height } = drawn.viewBox.baseVal;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", 1.5 * width);
  copy.setAttribute("height", 1.5 * height);
  copy.style.background = getComputedStyle(drawn.closest("figure")).backgroundColor;
  return `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
}

async function asPng(id) {
  const image = new Image();
  image.src = standalone(id);
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png");
}

for (const button of document.querySelectorAll("button[data-format]")) {
  button.addEventListener("click", async () => {
    const { chart, format } = button.dataset;
    const name = `${service}-${chart ?? "cells"}.${format}`;
    const text = () => chart ? button.parentElement.querySelector("template").content.textContent.replace(/\r?\n/g, "\r\n") : csv;
    download(name, format === "csv" ? asCsv(text()) : format === "svg" ? standalone(chart) : await asPng(chart));
  });
}

// The table. Rows without a figure stay at the end, in either sort order.

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
