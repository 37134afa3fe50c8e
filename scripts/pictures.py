#!/usr/bin/env python3
"""Makes pictures of a report for the README: its verdict and one of its charts, light and dark.

    scripts/pictures.py RUN [--duality target/release/duality] [--out docs/pictures]

RUN is a directory that `duality compare` wrote. The script makes the report's page again, shows
parts of the page in Chromium, and writes verdict-light.png, verdict-dark.png, chart-light.png and
chart-dark.png.
"""

import argparse
import os
import re
import shutil
import subprocess
import tempfile

# The parts of the page, with their widths and heights.
PARTS = {
    "verdict": ("#recommendation", 1000, 600),
    "chart": ("figure[aria-labelledby=behind-{busiest}-title]", 620, 560),
}
HIDE = """<style>
main > *:not(:has({part})):not({part}), .charts > *:not({part}) {{ display: none !important; }}
main {{ padding: 1rem !important; }} details, #recommendation > p:not(.headline) {{ display: none; }} .charts {{ margin: 0; grid-template-columns: 1fr; }}
</style>"""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run")
    parser.add_argument("--duality", default="target/release/duality")
    parser.add_argument("--out", default="docs/pictures")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        parser.error("Chromium is not installed: apt-get install chromium")
    os.makedirs(options.out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = os.path.join(folder, "report.html")
        subprocess.run(
            [options.duality, "report", options.run, "--out", page],
            check=True, stdout=subprocess.DEVNULL,
        )
        with open(page, encoding="utf-8") as file:
            html = file.read()
        busiest = max(map(int, re.findall(r'id="behind-(\d+)"', html)))
        for name, (part, width, height) in PARTS.items():
            style = HIDE.format(part=part.format(busiest=busiest))
            for theme in ("light", "dark"):
                shown = os.path.join(folder, f"{name}.html")
                with open(shown, "w", encoding="utf-8") as file:
                    themed = html.replace("<html lang=\"en\">", f"<html lang=\"en\" data-theme=\"{theme}\">", 1)
                    file.write(themed.replace("</head>", style + "</head>", 1))
                target = os.path.join(options.out, f"{name}-{theme}.png")
                subprocess.run(
                    [chromium, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu",
                     f"--user-data-dir={folder}/profile", f"--window-size={width},{height}",
                     f"--screenshot={os.path.abspath(target)}", f"file://{shown}"],
                    check=True, stderr=subprocess.DEVNULL, timeout=60,
                )
                print(target)


if __name__ == "__main__":
    main()
