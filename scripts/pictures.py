#!/usr/bin/env python3
"""Makes the pictures of a report for README and guide, light and dark.

    scripts/pictures.py RUN [--duality target/release/duality] [--out docs/pictures]

RUN is a directory that `duality compare` wrote. The script makes the report's page again, shows
parts of it in Chromium, and writes verdict-light.png, verdict-dark.png, chart-light.png and
chart-dark.png.
"""

import argparse
import os
import re
import shutil
import subprocess
import tempfile

# The parts of the page, with the widths at which they are shown.
PARTS = {
    "verdict": ("#recommendation", 1280),
    "chart": ("figure[aria-labelledby=cpu-title]", 620),
}
# The page shows the part alone. The title is the height of the part.
SCRIPT = """<style>.downloads { display: none !important; }</style>
<script>addEventListener("load", () => {
  const part = document.querySelector("%s");
  const main = document.querySelector("main");
  main.replaceChildren(part);
  main.style.padding = "1rem";
  part.style.marginTop = 0;
  document.title = Math.ceil(part.getBoundingClientRect().bottom) + 16;
});</script>"""


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

        def show(address, *arguments):
            done = subprocess.run(
                [chromium, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu",
                 f"--user-data-dir={folder}/profile", "--virtual-time-budget=3000", *arguments,
                 f"file://{address}"],
                check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60,
            )
            return done.stdout.decode()

        for name, (part, width) in PARTS.items():
            for theme in ("light", "dark"):
                shown = os.path.join(folder, f"{name}.html")
                themed = html.replace('<html lang="en">', f'<html lang="en" data-theme="{theme}">', 1)
                with open(shown, "w", encoding="utf-8") as file:
                    file.write(themed.replace("</head>", SCRIPT % part + "</head>", 1))
                drawn = show(shown, f"--window-size={width},2000", "--dump-dom")
                height = int(re.search(r"<title>(\d+)", drawn).group(1))
                target = os.path.abspath(os.path.join(options.out, f"{name}-{theme}.png"))
                show(shown, f"--window-size={width},{height}", f"--screenshot={target}")
                print(target)


if __name__ == "__main__":
    main()
