#!/usr/bin/env python3
"""Runs the test suites of tokio's ecosystem against patch/tokio, under each world.

    scripts/tokio_suites.py FOLDER [SUITE …] [--worlds epoll,uthreads,threads,uring] [--files RE]

FOLDER holds the sources and all builds: some 3 GB. The world `tokio` is the genuine tokio. Sources
come from crates.io. The script changes no test. It cuts an item that does not compile out of its
file, and counts the tests of the item as missing.

Each failure must stand in scripts/tokio_suites.txt with its reason. The script exits with 1 if
another test fails. At the end of each world, it prints the numbers of tests that passed, failed for
a known reason, failed for another one, and are missing.
"""
import argparse
import collections
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
PATCH = HERE.parent / "patch"
WORLDS = ["epoll", "uthreads", "threads", "uring"]

# Per suite: the version, and cargo's arguments.
Suite = collections.namedtuple("Suite", "version arguments")
SUITES = {
    "tokio": Suite("1.54.1", ["--tests"]),
    "tokio-util": Suite("0.7.20", ["--tests", "--features", "full"]),
    "tokio-stream": Suite("0.1.19", ["--tests", "--features", "full"]),
    "hyper-util": Suite("0.1.21", ["--tests", "--features", "full"]),
    "tower-http": Suite("0.6.11", ["--tests", "--features", "full"]),
    "tokio-tungstenite": Suite("0.29.0", ["--tests"]),
}

# Suites with many small files, which take the world's name from the environment alone.
MERGED = ("tokio", "tokio-util", "tokio-stream")

# Files of tokio's that test what the patch re-exports, other platforms, or `tokio_unstable`. The
# first one is a single list of all types, which compiles only as a whole.
LEFT_OUT = re.compile(
    r"async_send_sync|io_(?!async_fd|copy_bi|driver|panic|split)|macros_(?!select|test)|sync_(?!mpsc|notify|semaphore)|fs_uring"
    r"|tracing_|task_trace|task_builder|task_hooks|time_alt|rt_unstable|.*emscripten|.*wasm|.*windows|.*_named_|dump"
)

# Tests that take minutes on a busy machine, and not the 8 s of other tests that run alone.
SLOW = ("rt_threaded::blocking", "rt_threaded::many_multishot_futures")

# Under `threads`, no clock can be paused. A test that pauses one fails with these words.
CANNOT_PAUSE = "a clock can only be paused on a loop"

PATCHES = """
[workspace]
[profile.dev]
opt-level = 0
debug = 0
incremental = false
"""

ITEM = re.compile(r"\s*(pub(\(.*?\))? )?((async |unsafe |const )*fn|use|impl|struct|enum|mod|const|static|type|trait|macro_rules!)\b")
TEST = re.compile(r"^\s*#\[((tokio|\w+)::)?test\b", re.M)


def prepare(folder, name, genuine):
    """Gets the sources of a suite, with a manifest that has the patch."""
    suite = SUITES[name]
    home = folder / ("genuine" if genuine else "patched") / f"{name}-{suite.version}"
    if home.exists():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    address = f"https://static.crates.io/crates/{name}/{name}-{suite.version}.crate"
    archive, _ = urllib.request.urlretrieve(address)
    with tarfile.open(archive) as tar:
        tar.extractall(home.parent, filter="data")
    (home / "Cargo.lock").unlink(missing_ok=True)
    manifest = home / "Cargo.toml"
    if name == "tokio":
        for test in (home / "tests").glob("*.rs"):
            if LEFT_OUT.match(test.name):
                test.unlink()
        outside(home, tomllib.loads(manifest.read_text()))
    text = manifest.read_text() + PATCHES
    if name in MERGED:
        text = merge(home, text)
    if not genuine:
        text += f'[patch.crates-io]\ntokio = {{ path = "{PATCH / "tokio"}" }}\n'
        lock = tomllib.loads((PATCH / "tokio" / "Cargo.lock").read_text())
        bytes_ = next(package["version"] for package in lock["package"] if package["name"] == "bytes")
        text += '[patch."sparse+https://index.crates.io/"]\n'
        text += f'bytes = {{ version = "={bytes_}", registry = "crates-io" }}\n'
    manifest.write_text(text)
    return home


def merge(home, manifest):
    """Makes one program of all tests, which is quicker to build. Each file is a module of it."""
    files = sorted(file.stem for file in (home / "tests").glob("*.rs"))
    modules = (f'#[path = "{file}.rs"]\nmod {file};\n' for file in files)
    (home / "tests" / "all.rs").write_text("".join(modules))
    manifest = re.sub(r"\[\[test\]\]\n(.+\n)+", "", manifest)
    manifest = re.sub(r"^autotests = .*\n", "", manifest, flags=re.M)
    manifest = manifest.replace("[package]\n", "[package]\nautotests = false\n", 1)
    return manifest + '[[test]]\nname = "all"\npath = "tests/all.rs"\n'


def outside(home, manifest):
    """Makes tokio's tests a crate of their own, so that they depend on the patch."""
    shutil.rmtree(home / "src")
    (home / "src").mkdir()
    (home / "src" / "lib.rs").write_text("")
    lines = ['[package]\nname = "tokio-tests"\nversion = "0.0.0"\nedition = "2021"\nhomepage = "https://tokio.rs"\n[features]']
    lines += ['default = ["full", "test-util"]\nfull = []\ntest-util = []\n[dependencies]']
    lines += ['tokio = { version = "1.54", features = ["full", "test-util"] }\n[dev-dependencies]']
    lines += ['bytes = "1"\npin-project-lite = "0.2"']
    unix = [target for target in manifest["target"] if "unix" in target or "not(" in target]
    tables = [manifest["dev-dependencies"]] + [manifest["target"][target].get("dev-dependencies", {}) for target in unix]
    needed = {name: table[name] for table in tables for name in table}
    for name, need in needed.items():
        if name not in ("mockall", "wasm-bindgen-test", "mio-aio", "windows-sys", "loom", "tracing-mock"):
            features = json.dumps(need.get("features", []))
            lines.append(f'{name} = {{ version = "{need["version"]}", features = {features} }}')
    (home / "Cargo.toml").write_text("\n".join(lines) + "\n")


def cargo(folder, home, genuine, arguments):
    """Cargo's messages."""
    target = folder / ("target-genuine" if genuine else "target")
    environment = dict(os.environ, CARGO_TARGET_DIR=str(target), RUSTFLAGS="--cap-lints allow")
    command = ["cargo", *arguments, "--message-format", "json"]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done.returncode, messages, done.stderr


def place(span):
    """The outermost place of a span, which is in the test and not in a macro of a crate."""
    while span.get("expansion"):
        span = span["expansion"]["span"]
    return span


def item(lines, number):
    """The lines of the innermost item around a line, by the indentation that rustfmt gives."""
    start = number
    while lines[start].lstrip().startswith("#["):
        start += 1
    indent = len(lines[start]) - len(lines[start].lstrip())
    while not ITEM.match(lines[start]) or (start != number and len(lines[start]) - len(lines[start].lstrip()) > indent):
        if lines[start].strip():
            indent = min(indent, len(lines[start]) - len(lines[start].lstrip()))
        start -= 1
        if start < 0:
            return None
    prefix = re.match(r"\s*", lines[start]).group()
    end = start
    while not re.search(r"[;}]\s*$", lines[end]) or (end > start and not re.match(prefix + r"[})]", lines[end])):
        end += 1
    while start > 0 and re.match(r"\s*(#\[|//)", lines[start - 1]):
        start -= 1
    return start, end


def cut(path, spans):
    """Blanks the items around the spans. Says how many tests they had, and whether any was cut."""
    lines = path.read_text().split("\n")
    missing, changed = 0, False
    for span in spans:
        number, columns = span["line_start"] - 1, slice(span["column_start"] - 1, span["column_end"] - 1)
        whole = lines[number]
        if not whole.strip():
            continue
        around = item(lines, number)
        if around is None:
            continue
        start, end = around
        text = "\n".join(lines[start : end + 1])
        name = whole[columns]
        if re.search(r"^\s*(pub )?use\b", text, re.M) and "{" in text and re.fullmatch(r"\w+", name):
            lines[number] = whole[: columns.start] + re.sub(r"^\s*,\s*", "", whole[columns.stop :])
        else:
            missing += len(TEST.findall(text))
            lines[start : end + 1] = [""] * (end + 1 - start)
        changed = True
    path.write_text("\n".join(lines))
    return missing, changed


def build(folder, home, genuine, suite):
    """Builds the tests. Returns the programs by name, and the missing tests of each file."""
    record = home / "missing.json"
    missing = collections.Counter(json.loads(record.read_text()) if record.exists() else {})
    step = "check"
    for _ in range(20):
        status, messages, _ = cargo(folder, home, genuine, [step, "--keep-going", *suite.arguments])
        if status == 0 and step == "build":
            break
        if status == 0:
            step = "build"
            continue
        spans = collections.defaultdict(list)
        for message in messages:
            diagnostic = message.get("message", {})
            if message["reason"] != "compiler-message" or diagnostic["level"] != "error":
                continue
            for span in diagnostic["spans"]:
                found = place(span)
                if span["is_primary"] and (home / found["file_name"]).exists() and not found["file_name"].startswith("/"):
                    spans[found["file_name"]].append(found)
        progress = False
        for file, found in spans.items():
            tests, changed = cut(home / file, found)
            missing[file] += tests
            progress |= changed
        record.write_text(json.dumps(missing))
        if not progress:
            words = [message["message"]["rendered"] for message in messages if message["reason"] == "compiler-message"]
            sys.exit(f"{home}: does not compile, and no test is the reason:\n{''.join(words)[-4000:]}")
    else:
        sys.exit(f"{home}: does not compile after 20 rounds of cutting")
    programs = {}
    for message in messages:
        if message["reason"] == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
            programs[pathlib.Path(message["target"]["src_path"]).stem] = message["executable"]
    return programs, missing


def execute(program, home, world, arguments, limit):
    """The output of a program of tests, and whether it ended in time."""
    environment = dict(os.environ, DUALITY_WORLD=world, RUST_BACKTRACE="0")
    command = [program, "--test-threads", "4", *arguments]
    with subprocess.Popen(
        command, cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit)
            return output, process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return process.communicate()[0], None


def files(programs, home):
    """The tests of each file, its program, and the filter that has the program run these alone."""
    for name, program in sorted(programs.items()):
        listed, _ = execute(program, home, "epoll", ["--list"], 60)
        tests = re.findall(r"^(.+): test$", listed, re.M)
        if name != "all":
            yield name, tests, program, []
            continue
        for file in sorted({test.split("::")[0] for test in tests}):
            yield file, [test for test in tests if test.startswith(f"{file}::")], program, [f"{file}::"]


def outcomes(names, program, chosen, home, world, limit):
    """The outcome of each test: ok, FAILED, ignored, hangs or dies. And the words of failures."""
    output, _ = execute(program, home, world, chosen, limit)
    pattern = r"^test (.+?)(?: - should panic)? \.\.\. .*?(ok|FAILED|ignored)\b"
    found = dict(re.findall(pattern, output, re.M))
    words = dict(re.findall(r"^---- (.+) stdout ----\n((?:.*\n)*?)(?=\n----|\nfailures:)", output, re.M))
    # Of the others, the program has not told, or a panic's words stand within their line.
    for name in [name for name in names if name not in found]:
        patience = 400 if name in SLOW else 8
        alone, ended = execute(program, home, world, ["--exact", name], patience)
        outcome = re.search(pattern, alone, re.M)
        told = outcome[2] if outcome else "ok" if ended == 0 else "dies"
        found[name] = "hangs" if ended is None else told
        words[name] = alone
    return {name: found[name] for name in names}, words


def expectations():
    """The failures that have a reason: patterns of suite and test, and the worlds."""
    for line in (HERE / "tokio_suites.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            suite, test, worlds, _reason = line.split(None, 3)
            yield suite, test, WORLDS if worlds == "all" else worlds.split(",")


def is_expected(expected, suite, test, world):
    """Whether a failure has a reason."""
    return any(
        suite == known and fnmatch.fnmatchcase(test, pattern) and world in worlds
        for known, pattern, worlds in expected
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--files", default="", metavar="RE", help="run the matching files only")
    parser.add_argument("--limit", type=float, default=40, help="seconds for each file")
    parser.add_argument("--quiet", action="store_true", help="leave out the words of failures")
    arguments = parser.parse_args()
    folder, expected, unexpected = arguments.folder.resolve(), list(expectations()), []
    for name in arguments.suites or SUITES:
        total = collections.defaultdict(collections.Counter)
        for genuine in (False, True):
            worlds = [world for world in arguments.worlds.split(",") if (world == "tokio") == genuine]
            if not worlds:
                continue
            home = prepare(folder, name, genuine)
            programs, missing = build(folder, home, genuine, SUITES[name])
            for world in worlds:
                for file, tests, program, chosen in files(programs, home):
                    if not re.search(arguments.files, file):
                        continue
                    found, words = outcomes(tests, program, chosen, home, world, arguments.limit)
                    failed = [test for test in found if found[test] not in ("ok", "ignored")]
                    new = [
                        test
                        for test in failed
                        if not is_expected(expected, name, test, world) and CANNOT_PAUSE not in words.get(test, "")
                    ]
                    unexpected += new
                    passed = sum(outcome == "ok" for outcome in found.values())
                    known = len(failed) - len(new)
                    total[world].update(passed=passed, known=known, unexpected=len(new))
                    if found:
                        print(f"{name} {world} {file}: {passed} passed, {len(failed)} failed", flush=True)
                    for test in failed:
                        print(f"  {found[test]}: {test}{' (unexpected)' if test in new else ''}")
                        if test in new and not arguments.quiet:
                            lines = words.get(test, "").strip().split("\n")[-6:]
                            print("".join(f"    {line[:200]}\n" for line in lines), end="")
                total[world]["missing"] = sum(missing.values())
                counts = [str(total[world][kind]) for kind in ("passed", "known", "unexpected", "missing")]
                print(f"| {name} | {world} | {' | '.join(counts)} |", flush=True)
    sys.exit(1 if unexpected else 0)


if __name__ == "__main__":
    main()
