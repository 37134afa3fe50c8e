"""The lab of `planted.py`: builds its programs, runs an experiment, and reads a verdict."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def program():
    """The program that is measured, and that measures."""
    given = os.environ.get("DUALITY_PLANTED")
    if given:
        return given
    build = ["cargo", "build", "--release", "-p", "duality-conformance", "--bin", "planted"]
    subprocess.run(build, cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    return str(Path(target) / "release" / "planted")


def tools():
    """The command `duality` and the server with faults. DUALITY_TOOLS names another folder of both."""
    given = os.environ.get("DUALITY_TOOLS")
    if given:
        return Path(given) / "duality", Path(given) / "faulty"
    build = ["cargo", "build", "--release", "-p", "duality", "--bin", "duality", "-p", "duality-conformance", "--bin", "faulty"]
    subprocess.run(build, cwd=ROOT, check=True)
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    return folder / "duality", folder / "faulty"


def uneven():
    """The service that is bad under some architectures. DUALITY_TOOLS names a folder with it."""
    given = os.environ.get("DUALITY_TOOLS")
    if given:
        return Path(given) / "uneven"
    subprocess.run(["cargo", "build", "--release", "-p", "duality-conformance", "--bin", "uneven"], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "uneven"


def measure(binary, text, budget, out):
    """Runs an experiment and returns its summary."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
        file.write(text)
    command = [binary, "compare", file.name, "--out", str(out)]
    if budget:
        command += ["--budget", budget]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    os.unlink(file.name)
    if done.returncode != 0 and not (out / "planted" / "summary.json").exists():
        sys.exit(f"planted: {' '.join(command)}: {done.stderr.strip().splitlines()[-1:]}")
    (out / "screen.txt").write_text(done.stdout)
    return json.loads((out / "planted" / "summary.json").read_text())


def is_withheld(verdict):
    return verdict["finding"]["finding"] == "withheld"
