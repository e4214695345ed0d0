#!/usr/bin/env python3
"""Plants wrong gradients in the C++ sources; the gradient tests must notice each one.

For every mutant of mutants.py: checks that its text occurs exactly once, compiles the changed
source in a scratch folder with the flags of <build>/compile_commands.json, links the Python
extension with that object in place of the original, and runs the gradient tests on it in a fresh
process. Needs a Ninja build with the Python package. Ends with the line `N passed, N failed`.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutants import MUTANTS, SCALAR, Mutant

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests/python/test_gradients.py"


class MutationError(Exception):
    """A mutant could not be made: its text is gone, or the result does not compile."""


def run(command: list[str], cwd: Path, timeout: int, env: dict[str, str] | None = None) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
    )
    if done.returncode != 0:
        raise MutationError(
            f"{shlex.join(command)[:200]} ended with {done.returncode}\n{done.stdout}"
        )
    return done.stdout


class Build:
    """How a finished build compiles a source and links the extension."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.compile: dict[str, list[str]] = {}
        for entry in json.loads((folder / "compile_commands.json").read_text()):
            source = Path(entry["file"])
            if source.is_relative_to(ROOT / "src"):
                name = str(source.relative_to(ROOT / "src"))
                self.compile[name] = shlex.split(entry["command"])
        extensions = list((folder / "python/fourfold").glob("_core*.so"))
        if len(extensions) != 1:
            raise MutationError(f"{folder}/python/fourfold holds {len(extensions)} extensions")
        self.extension = extensions[0]
        target = str(self.extension.relative_to(folder))
        last = run(["ninja", "-t", "commands", "-s", target], folder, 60).strip().splitlines()[-1]
        words = shlex.split(last)
        begin = words.index("&&") + 1
        self.link = words[begin : words.index("&&", begin)]

    def make_package(self, scratch: Path, mutant: Mutant | None) -> Path:
        """A folder for PYTHONPATH whose fourfold holds the mutant, or the original."""
        package = scratch / "python/fourfold"
        package.mkdir(parents=True)
        for path in (self.folder / "python/fourfold").iterdir():
            if path != self.extension and path.name != "__pycache__":
                (package / path.name).symlink_to(path.resolve())
        if mutant is None:
            (package / self.extension.name).symlink_to(self.extension)
            return package.parent
        changed = scratch / "src" / mutant.file
        changed.parent.mkdir(parents=True)
        text = (ROOT / "src" / mutant.file).read_text()
        count = text.count(mutant.text)
        if count != 1:
            raise MutationError(f"src/{mutant.file} holds {count} times: {mutant.text}")
        changed.write_text(text.replace(mutant.text, mutant.replacement))
        source = scratch / "src" / mutant.source
        if source != changed:
            # Quoted includes look beside the source first, then in scratch/src.
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text((ROOT / "src" / mutant.source).read_text())
        object_file = scratch / "mutant.o"
        command = list(self.compile[mutant.source])
        command[command.index("-o") + 1] = str(object_file)
        command[command.index("-c") + 1] = str(source)
        command = [word for word in command if word not in ("-O3", "-O2", "-Werror")]
        command[1:1] = [f"-I{scratch / 'src'}", "-O1", "-w"]
        command = [w for w in command if not w.startswith("-D_FORTIFY_SOURCE")]
        run(command, self.folder, 240)
        link = list(self.link)
        link[link.index("-o") + 1] = str(package / self.extension.name)
        # Its symbols are there before the archive is searched, so the original stays out.
        link.insert(link.index("-o"), str(object_file))
        run(link, self.folder, 120)
        return package.parent


def run_tests(package: Path, scratch: Path) -> tuple[bool, str]:
    """(the gradient tests passed, their output)."""
    env = {
        **os.environ,
        "PYTHONPATH": str(package),
        "FOURFOLD_PYTHON": str(package),
        "FOURFOLD_TEST_ISAS": "scalar",
        "PYTHONDONTWRITEBYTECODE": "1",
        "FOURFOLD_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--color=no", "-k", "library"]
    command += ["-p", "no:cacheprovider", f"--basetemp={scratch / 'pytest'}", str(TESTS)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=240,
    )
    if done.returncode not in (0, 1):  # 1: tests ran and some failed
        raise MutationError(f"pytest ended with {done.returncode}\n{done.stdout}")
    return done.returncode == 0, done.stdout


def failed_test(output: str) -> str:
    for line in output.splitlines():
        if line.startswith(("FAILED", "ERROR")):
            return line.partition("::")[2].partition(" - ")[0]
    return "a test"


def try_mutant(build: Build, mutant: Mutant | None) -> tuple[bool, str]:
    """(as it should be, a line about it)."""
    name = f"{mutant.file}: {mutant.what}" if mutant is not None else "the sources as they are"
    start = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="fourfold-mutant-") as folder:
            scratch = Path(folder)
            package = build.make_package(scratch, mutant)
            passed, output = run_tests(package, scratch)
    except (MutationError, OSError, subprocess.TimeoutExpired, KeyError, ValueError) as error:
        return False, f"broken    {name}\n{error}"
    seconds = f"{time.monotonic() - start:5.1f} s"
    if mutant is None:
        return passed, f"{'passed' if passed else 'failed':<10}{name:<90}{seconds}" + (
            "" if passed else "\n" + output
        )
    # A process that cannot even start the library proves nothing.
    if not passed and "AssertionError" not in output and "assert" not in output:
        return False, f"broken    {name}\n{output}"
    if passed:
        return False, f"{'SURVIVED':<10}{name:<90}{seconds}"
    return True, f"{'caught':<10}{name:<90}{seconds}  by {failed_test(output)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="mutants whose description holds this text")
    options = parser.parse_args()
    try:
        build = Build(options.build.resolve())
    except (MutationError, OSError, ValueError, IndexError) as error:
        print(error)
        print("0 passed, 1 failed")
        return 1
    assert any(mutant.source == SCALAR for mutant in MUTANTS)
    chosen = [m for m in MUTANTS if options.only in f"{m.file}: {m.what}"]
    passed = failed = 0
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        for good, line in pool.map(lambda m: try_mutant(build, m), [None, *chosen]):
            print(line, flush=True)
            passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
