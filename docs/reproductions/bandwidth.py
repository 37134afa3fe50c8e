#!/usr/bin/env python3
"""Draws knot.md's rates as figure 3 of the paper has them, and fills its table: Mbit/s against
connections, on a logarithmic axis.

    python3 docs/reproductions/bandwidth.py [--check]

The rates are those of the page's own tables, which fill.py fills from the kept runs. So run fill.py
first. --check writes nothing, and fails where the page or a picture is stale.
"""

import math
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE / "knot.md"
PICTURES = HERE.parent / "pictures"

# A reply of the runs: 305 bytes of the page, and its head.
REPLY_BYTES = 533

# A picture: the run, the title, and the paper's level, which is a dashed line. The name of the level
# stands below or above it, from a number of connections on, where no line passes.
CHARTS = {
    "knot-bandwidth": ("knot-c", "Serve first", (700, "Knot-C, 2003", 64, 15)),
    "haboob-bandwidth": ("haboob", "staged in Haboob's place", (500, "Haboob, 2003", 1, -6)),
}

COLOURS = {"threads": 0, "uthreads": 1, "poll": 2, "epoll": 3, "staged": 4}
STYLE = """
svg{background:#fff}text{font:13px system-ui,sans-serif;fill:#24292f}.grid{stroke:#d0d7de}
.paper{stroke:#57606a;stroke-dasharray:3 4}.line{fill:none;stroke-width:2.5}.title{font-weight:600}
.c0{stroke:#b35900}.c1{stroke:#0969da}.c2{stroke:#8250df}.c3{stroke:#1a7f37}.c4{stroke:#bf3989}
@media(prefers-color-scheme:dark){svg{background:#14181f}text{fill:#d8dee9}.grid{stroke:#333c4a}
.paper{stroke:#9aa7b8}.c0{stroke:#ffa657}.c1{stroke:#6cb6ff}
.c2{stroke:#d2a8ff}.c3{stroke:#6bc46d}.c4{stroke:#ff8ac6}}
"""
# The same for every picture: the size, the plot's edges, and the ends of its axes.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 340, 46, 342, 52, 262
LARGEST, CLIENTS = 1200, 16384


def rates(page, run):
    """The columns, and the rates of each architecture, of the table that fill.py took from `run`."""
    comment = re.search(rf"<!-- duality report runs/\S+/knot/{run} --markdown rate[^>]*-->", page)
    table = page[comment.end():].split("\n\n", 3)[2].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    number = lambda cell: int(cell.split(" ")[0].replace(",", ""))
    columns = [number(cell) for cell in cells[0][1:]]
    return columns, {name: [number(cell) for cell in row] for name, *row in cells[2:]}


def megabits(rate):
    return rate * REPLY_BYTES * 8 / 1e6


def table(page):
    columns, rows = rates(page, "knot-c")
    lines = ["| | " + " | ".join(f"{column:,}" for column in columns) + " |"]
    lines.append("| --- |" + " ---: |" * len(columns))
    for name, row in rows.items():
        lines.append(f"| {name} | " + " | ".join(f"{megabits(rate):,.0f}" for rate in row) + " |")
    return "\n".join(lines)


def x(connections):
    return LEFT + (RIGHT - LEFT) * math.log2(connections) / math.log2(CLIENTS)


def y(value):
    return BOTTOM - (BOTTOM - TOP) * value / LARGEST


def axes(title):
    """The title, the grid, and what stands beside the axes."""
    parts = [f'<text class="title" x="8" y="20">{title}</text>']
    parts.append('<text x="8" y="40">Mbit/s by number of connections, log scale</text>')
    for value in range(0, LARGEST + 1, 400):
        parts.append(f'<path class="grid" d="M{LEFT} {y(value):.0f}H{RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(value) + 5:.0f}" text-anchor="end">{value:,}</text>')
    for connections in (1, 16, 256, CLIENTS):
        anchor = "end" if connections == CLIENTS else "middle"
        place = f'x="{x(connections):.0f}" y="{BOTTOM + 20}" text-anchor="{anchor}"'
        parts.append(f"<text {place}>{connections:,}</text>")
    return parts


def legend(names):
    """The lines' names, two in a row."""
    parts = []
    for index, name in enumerate(names):
        left, top = LEFT + index % 2 * 150, BOTTOM + 46 + index // 2 * 22
        parts.append(f'<path class="line c{COLOURS[name]}" d="M{left} {top - 5}h22"/>')
        parts.append(f'<text x="{left + 28}" y="{top}">{name}</text>')
    return parts


def chart(page, run, title, paper):
    columns, rows = rates(page, run)
    parts = axes(title)
    level, words, first, below = paper
    parts.append(f'<path class="paper" d="M{LEFT} {y(level):.0f}H{RIGHT}"/>')
    for name, row in rows.items():
        points = [f"{x(n):.1f} {y(megabits(rate)):.1f}" for n, rate in zip(columns, row)]
        parts.append(f'<path class="line c{COLOURS[name]}" d="M{"L".join(points)}"/>')
    parts.append(f'<text x="{x(first) + 6:.0f}" y="{y(level) + below:.0f}">{words}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
    head += f' width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{title}: Mbit/s by connections">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, *legend(rows), "</svg>", ""])


def main():
    page = PAGE.read_text()
    place = re.compile(r"(<!-- docs/reproductions/bandwidth.py -->\n).*?(<!-- end -->)", re.DOTALL)
    filled = place.sub(lambda found: f"{found[1]}\n{table(page)}\n\n{found[2]}", page)
    made = {PAGE: filled}
    made |= {PICTURES / f"{name}.svg": chart(page, *about) for name, about in CHARTS.items()}
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:] and stale:
        sys.exit("stale: " + ", ".join(path.name for path in stale))
    for path in stale:
        path.write_text(made[path])
        print(f"made {path}")


main()
