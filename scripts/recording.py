#!/usr/bin/env python3
"""A recording of a command in a terminal, as a picture that moves, for the guide.

    scripts/recording.py [--out docs/pictures/compare.svg] [--columns 100] [--rows 32] \\
        [--duality target/release/duality] [-- compare echo --architectures epoll,threads ...]

The command runs in a pseudo-terminal. The SVG shows what the terminal showed, and plays it six
times as fast, or in 24 s. The results go to a temporary folder, and are deleted. With the setting
for less motion, a browser shows the last screen. Without a command, the script records `compare`,
which takes about three minutes.
"""

import argparse
import fcntl
import html
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios
import time

FIRST_ANSWER = ["compare"]
CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]")
SPEED, LONGEST, FRAMES, LAST = 6.0, 24.0, 90, 5.0
WIDE, HIGH, MARGIN = 8.4, 18, 14


class Screen:
    """The part of a terminal that progress bars and tables use: lines, the cursor, erasing."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines, self.row, self.column, self.rest = [[]], 0, 0, ""

    def feed(self, text):
        text, self.rest = self.rest + text, ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = CONTROL.match(text, at)
                if not found:
                    # The end of a sequence may come with the next piece.
                    if len(text) - at < 24:
                        self.rest = text[at:]
                        return
                    at += 1
                    continue
                if found.group(2):
                    self.control(found.group(1), found.group(2))
                at = found.end()
                continue
            self.write(text[at])
            at += 1

    def control(self, numbers, name):
        count = int(numbers) if numbers.isdigit() else 1
        line = self.lines[self.row]
        if name == "A":
            self.row = max(0, self.row - count)
        elif name == "B":
            self.down(count)
        elif name == "C":
            self.column += count
        elif name == "D":
            self.column = max(0, self.column - count)
        elif name == "G":
            self.column = count - 1
        elif name == "K":
            del line[0 if numbers == "2" else self.column :]
        elif name == "J":
            del line[self.column :]
            del self.lines[self.row + 1 :]

    def down(self, count):
        self.row += count
        while len(self.lines) <= self.row:
            self.lines.append([])

    def write(self, letter):
        if letter == "\n":
            self.down(1)
        elif letter == "\r":
            self.column = 0
        elif letter >= " ":
            if self.column >= self.columns:
                self.down(1)
                self.column = 0
            line = self.lines[self.row]
            line.extend(" " * (self.column + 1 - len(line)))
            line[self.column] = letter
            self.column += 1

    def shown(self):
        """The rows that a terminal of this height shows."""
        text = ["".join(line).rstrip() for line in self.lines]
        return tuple(text[-self.rows :])


def record(command, folder, columns, rows):
    """Runs a command in a pseudo-terminal: its screens with their times, and its exit code."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = dict(os.environ, TERM="xterm-256color", COLUMNS=str(columns))
    child = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment
    )
    os.close(slave)
    screen, screens, start = Screen(columns, rows), [], time.monotonic()
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # The command has closed the terminal.
            break
        if not piece:
            break
        screen.feed(piece.decode("utf-8", "replace"))
        if not screens or screens[-1][1] != screen.shown():
            screens.append((time.monotonic() - start, screen.shown()))
    return screens, child.wait()


def thinned(screens):
    """So many screens that the picture stays small: evenly in time, and the last one."""
    span = screens[-1][0] or 1.0
    kept, due = [], 0.0
    for moment, screen in screens[:-1]:
        if moment >= due:
            kept.append((moment, screen))
            due = moment + span / FRAMES
    return kept + [screens[-1]]


def picture(command, screens, columns, rows):
    typed = "$ " + " ".join(command)
    span = screens[-1][0]
    speed = max(SPEED, span / LONGEST)
    total = span / speed + LAST
    height = max(len(screen) for _, screen in screens) + 1
    wide, high = round(columns * WIDE + 2 * MARGIN), (height + 1) * HIGH + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img" '
        f'aria-label="{html.escape(typed, quote=True)} in a terminal">',
        "<style>rect{fill:#14181f}text{fill:#d8dee9;font:14px ui-monospace,monospace;white-space:pre}"
        ".typed{fill:#8fd18f}g{visibility:hidden}",
    ]
    moments = [moment / speed for moment, _ in screens] + [total]
    for at in range(len(screens)):
        begin, end = (100 * moments[at + more] / total for more in (0, 1))
        last = at == len(screens) - 1
        parts.append(
            f"@keyframes f{at}{{0%,{begin:.2f}%{{visibility:hidden}}"
            f"{begin + 0.01:.2f}%,{end:.2f}%{{visibility:visible}}"
            + ("" if last else f"{end + 0.01:.2f}%,100%{{visibility:hidden}}")
            + f"}}.f{at}{{animation:f{at} {total:.1f}s step-end infinite}}"
        )
    last = len(screens) - 1
    parts.append(
        f"@media(prefers-reduced-motion:reduce){{g{{animation:none!important}}"
        f".f{last}{{visibility:visible}}}}</style>"
    )
    parts.append(f'<rect width="{wide}" height="{high}" rx="8"/>')
    parts.append(f'<text class="typed" x="{MARGIN}" y="{HIGH + 4}">{html.escape(typed)}</text>')
    for at, (_, screen) in enumerate(screens):
        lines = "".join(
            f'<text x="{MARGIN}" y="{(row + 2) * HIGH + 4}">{html.escape(line)}</text>'
            for row, line in enumerate(screen)
            if line
        )
        parts.append(f'<g class="f{at}">{lines}</g>')
    return "\n".join(parts + ["</svg>\n"])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", default="docs/pictures/compare.svg")
    parser.add_argument("--duality", default="target/release/duality")
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("arguments", nargs="*", default=FIRST_ANSWER)
    options = parser.parse_args()
    arguments = options.arguments or FIRST_ANSWER
    program = os.path.abspath(options.duality)
    with tempfile.TemporaryDirectory() as folder:
        screens, code = record([program, *arguments], folder, options.columns, options.rows)
    if code or not screens:
        parser.exit(1, f"recording: {options.duality} ended with {code}: see what it said:\n"
                    + "\n".join(screens[-1][1] if screens else []) + "\n")
    kept = thinned(screens)
    os.makedirs(os.path.dirname(options.out) or ".", exist_ok=True)
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(picture(["duality", *arguments], kept, options.columns, options.rows))
    print(f"{options.out}: {len(kept)} screens of {screens[-1][0]:.0f} s")


if __name__ == "__main__":
    main()
