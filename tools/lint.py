#!/usr/bin/env python3
"""Every check of `make lint`: format, floors, file sizes, object files, clang-tidy, Python.

clang-tidy looks at what changed since the main branch, and at everything when CI is set. Ends with
the line `N passed, N failed` over the checks; the counts also go to <build>/lint_counts.json.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from suite_report import SuiteReport

ROOT = Path(__file__).resolve().parent.parent
CPP = (".cpp", ".h")
TIDY_FOLDERS = ("src/", "apps/", "python/")


def run(command: list[str | Path]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        return 1, str(error)
    return done.returncode, done.stdout


def git_lines(*arguments: str) -> list[str] | None:
    code, output = run(["git", *arguments])
    return output.splitlines() if code == 0 else None


def files_of_project() -> list[str]:
    """Tracked files and new ones that are not ignored."""
    names = git_lines("ls-files", "--cached", "--others", "--exclude-standard") or []
    return [name for name in names if (ROOT / name).is_file()]


def changed_files(files: list[str]) -> list[str]:
    """Files that differ from the main branch, or from the last commit but one when on it."""
    if os.environ.get("CI"):
        return files
    head = git_lines("rev-parse", "HEAD")
    base = git_lines("merge-base", "HEAD", "origin/main")
    if base is None or base == head:
        base = git_lines("rev-parse", "HEAD~1")
    if base is None:
        return files
    changed = set(git_lines("diff", "--name-only", base[0]) or [])
    changed |= set(git_lines("ls-files", "--others", "--exclude-standard") or [])
    return [name for name in files if name in changed]


def sources_to_tidy(files: list[str]) -> list[str]:
    """Changed sources, and the sources that include a changed header themselves."""
    changed = changed_files(files)
    wanted = {name for name in changed if name.endswith(".cpp")}
    headers = {re.sub(r"^(src|include)/", "", name) for name in changed if name.endswith(".h")}
    for name in files:
        if headers and name.endswith(".cpp"):
            text = (ROOT / name).read_text(encoding="utf-8")
            if headers & set(re.findall(r'#\s*include\s*["<]([^">]+)[">]', text)):
                wanted.add(name)
    return sorted(name for name in wanted if name.startswith(TIDY_FOLDERS))


def tidy(files: list[str], build: Path) -> tuple[int, str]:
    database = build / "compile_commands.json"
    try:
        compiled = {entry["file"] for entry in json.loads(database.read_text())}
    except (OSError, ValueError) as error:
        return 1, f"cannot read {database}: {error}"
    sources = [name for name in sources_to_tidy(files) if str(ROOT / name) in compiled]

    def check(name: str) -> tuple[int, str]:
        command: list[str | Path] = ["clang-tidy-14", "--quiet", "-p", build]
        # The commands in the database are g++'s.
        for option in ("unknown-warning-option", "ignored-optimization-argument"):
            command.append(f"--extra-arg=-Wno-{option}")
        # clang 14 takes -ftrivial-auto-var-init=zero only together with this.
        switch = "-enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang"
        command += [f"--extra-arg={switch}", name]
        return run(command)

    with ThreadPoolExecutor(int(os.environ.get("JOBS") or 2)) as pool:
        results = list(pool.map(check, sources))
    bad = [
        "\n".join(line for line in output.splitlines() if "warnings generated" not in line)
        for code, output in results
        if code != 0
    ]
    return (1, "\n".join(bad)) if bad else (0, f"{len(sources)} files")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    build = parser.parse_args().build.resolve()
    files = files_of_project()
    cpp = [name for name in files if name.endswith(CPP)]
    python = [name for name in files if name.endswith((".py", ".pyi"))]
    # Where there is a stub, it is what users' tools see.
    shown = [name for name in python if name + "i" not in python]
    folders = ("bench/", "tools/", "tests/python/", "tests/mutation/", "tests/browser/", "python/")
    typed = [name for name in shown if name.startswith(folders)]
    tool: list[str | Path] = [sys.executable, "-m"]
    checks: list[tuple[str, list[str | Path]]] = [
        ("clang-format", ["clang-format-14", "--dry-run", "-Werror", *cpp]),
        ("floors", [sys.executable, ROOT / "tools/check_floors.py"]),
        ("file size", [ROOT / "tools/check_file_size.sh"]),
        ("kernel objects", [ROOT / "tools/check_isa_objects.sh", build]),
        ("product kernels", [sys.executable, ROOT / "tools/check_kernels.py", build]),
        ("ruff check", [*tool, "ruff", "check", f"--cache-dir={build}/.ruff", "-q", *python]),
        (
            "ruff format",
            [*tool, "ruff", "format", f"--cache-dir={build}/.ruff", "--check", *python],
        ),
        ("mypy", [*tool, "mypy", f"--cache-dir={build}/.mypy", "--config-file=mypy.ini", *typed]),
    ]
    report = SuiteReport(build / "lint_counts.json")
    for name, command in checks:
        start = time.monotonic()
        code, output = run(command)
        failed = 1 if code != 0 else 0
        report.add(name, 1 - failed, failed, time.monotonic() - start, output=output)
    start = time.monotonic()
    code, output = tidy(files, build)
    note = "" if code else output
    seconds = time.monotonic() - start
    report.add("clang-tidy", 0 if code else 1, 1 if code else 0, seconds, note=note, output=output)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
