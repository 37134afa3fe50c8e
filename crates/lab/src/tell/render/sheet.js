// The page's behaviour: copying figures, sorting, raw lines. Without scripts, the whole page can
// still be read.
const { service, rows, origin } = JSON.parse(document.getElementById("data").textContent);

// Downloads.

function download(name, address) {
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
}

const asCsv = (text) => `data:text/csv;charset=utf-8,${encodeURIComponent(text)}`;

/** A part of a drawing. */
const make = (name, attributes, text = "") => {
  const part = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes).forEach(([key, value]) => part.setAttribute(key, value));
  part.textContent = text;
  return part;
};

/** A text in lines of so many letters. Longer words are broken. */
const folded = (text, letters) => text.match(new RegExp(`\\S.{0,${letters - 1}}(?=\\s|$)|\\S{1,${letters}}`, "gu")) ?? [];

/**
 * A chart as a file of its own, on the page's background and in its colours: the title and what is
 * drawn above it, the machine and the command below.
 */
function standalone(id) {
  const drawn = document.querySelector(`#${CSS.escape(id)} svg`);
  const figure = drawn.closest("figure");
  const copy = drawn.cloneNode(true);
  const styles = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family", "font-weight", "opacity"];
  const parts = [drawn, ...drawn.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((part, at) => {
    const style = getComputedStyle(parts[at]);
    part.setAttribute("style", styles.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
  });
  const { width, height } = drawn.viewBox.baseVal;
  const words = (selector, size, weight) => folded(figure.querySelector(selector).textContent, Math.floor(width / size / 0.62))
    .map((text) => ({ text, size, weight }));
  const above = [...words("h3", 15, 600), ...words("figcaption", 11, 400)];
  const below = origin.flatMap((line) => folded(line, Math.floor(width / 10 / 0.62))).map((text) => ({ text, size: 10, weight: 400 }));
  const margin = 10;
  const frame = make("svg", { xmlns: "http://www.w3.org/2000/svg" });
  let top = margin;
  const write = ({ text, size, weight }) => {
    top += 1.35 * size;
    frame.append(make("text", { x: margin, y: top, fill: getComputedStyle(figure).color, style: `font:${weight} ${size}px system-ui,sans-serif` }, text));
  };
  above.forEach(write);
  Object.entries({ x: margin, y: top + margin, width, height }).forEach(([name, value]) => copy.setAttribute(name, value));
  frame.append(copy);
  top += height + margin;
  below.forEach(write);
  const [wide, tall] = [width + 2 * margin, top + margin];
  Object.entries({ viewBox: `0 0 ${wide} ${tall}`, width: 1.5 * wide, height: 1.5 * tall }).forEach(([name, value]) => frame.setAttribute(name, value));
  frame.style.background = getComputedStyle(figure).backgroundColor;
  return `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(frame))}`;
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
    const text = () => button.parentElement.querySelector("template").content.textContent.replace(/\r?\n/g, "\r\n");
    download(name, format === "csv" ? asCsv(text()) : format === "svg" ? standalone(chart) : await asPng(chart));
  });
}

// Tables. Rows without a figure stay at the end, in either sort order.

for (const button of document.querySelectorAll("th button")) {
  const heading = button.closest("th");
  const [column, body] = [heading.cellIndex, heading.closest("table").tBodies[0]];
  button.addEventListener("click", () => {
    const ascending = heading.getAttribute("aria-sort") !== "ascending";
    heading.parentElement.querySelectorAll("[aria-sort]").forEach((other) => other.setAttribute("aria-sort", "none"));
    heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const value = (row) => row.cells[column]?.dataset.value;
    [...body.rows].sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      return (ascending ? 1 : -1) * (column === 0 ? a.localeCompare(b) : a - b);
    }).forEach((row) => body.append(row));
  });
}

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
