#!/usr/bin/env python3
"""Runs unit, Python and installed-package tests of a finished build and counts the cases.

Ends with the line `N passed, N failed`; the counts also go to <build>/test_counts.json.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

from ctest_suites import detected_isas, run_suites
from suite_report import SuiteReport

ROOT = Path(__file__).resolve().parent.parent
PYTHON_TESTS = ROOT / "tests/python"
CONSUMER = ROOT / "tests/consumer"
# What a user of the installed Python package does first; argv[1] is the folder it was installed to.
PACKAGE_USE = """
import sys, pathlib, numpy, fourfold as ff
folder = pathlib.Path(ff.__file__).parent
assert folder == pathlib.Path(sys.argv[1]) / "fourfold", folder
assert (folder / "py.typed").is_file() and (folder / "functional.pyi").is_file()
x, one = numpy.ones((2, 3), numpy.float32), numpy.eye(3, dtype=numpy.float32)
assert numpy.array_equal(ff.DenseFFN(one, one)(x), ff.functional.gelu(x))
"""


def run_pytest(report: SuiteReport, build: Path, model: Path) -> None:
    if not list(PYTHON_TESTS.glob("test_*.py")):
        report.not_run("python", "there are no Python tests")
        return
    env = {
        **os.environ,
        "FOURFOLD_BIN": str(build / "bin/fourfold"),
        "FOURFOLD_BIN_DIR": str(build / "bin"),
        "FOURFOLD_MODEL": str(model),
        "FOURFOLD_PYTHON": str(build / "python"),
        # Tests never fetch anything.
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    junit = build / "pytest.xml"
    junit.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "--color=no", str(PYTHON_TESTS)]
    command += [f"--junitxml={junit}", "-o", f"cache_dir={build / '.pytest_cache'}"]
    start = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=1200,
        )
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace") + "\nstopped after 20 minutes"
        code = -1
    seconds = time.monotonic() - start
    try:
        totals = ET.parse(junit).getroot().find("testsuite")
    except (OSError, ET.ParseError):
        totals = None
    if totals is None:
        report.add("python", 0, 1, seconds, note="pytest died", output=output)
        return
    count = {key: int(totals.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    passed = count["tests"] - failed - count["skipped"]
    note = ""
    if code != 0 and failed == 0:
        failed, note = 1, f"pytest ended with {code}"
    report.add(
        "python", passed, failed, seconds, skipped=count["skipped"], note=note, output=output
    )
    if count["skipped"]:
        for line in output.splitlines():
            if line.startswith("SKIPPED"):
                print("        " + line)


def run_commands(
    report: SuiteReport, name: str, commands: list[list[str | Path]], cwd: Path = ROOT
) -> None:
    """One test: each command must end with 0. The first that does not ends it."""
    start = time.monotonic()
    output, code = "", 0
    for command in commands:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        output += f"$ {' '.join(map(str, command))}\n{done.stdout}"
        code = done.returncode
        if code != 0:
            output += f"ended with {code}\n"
            break
    failed = 1 if code != 0 else 0
    report.add(name, 1 - failed, failed, time.monotonic() - start, output=output)


def run_consumer(report: SuiteReport, build: Path) -> None:
    """Installs to a folder, moves it, and lets an outside project find and use the package."""
    with tempfile.TemporaryDirectory(prefix="fourfold-install-") as name:
        scratch = Path(name)
        installed, moved = scratch / "first", scratch / "moved"
        commands: list[list[str | Path]] = [
            ["cmake", "--install", build, "--prefix", installed],
            ["mv", installed, moved],
            ["cmake", "-S", CONSUMER, "-B", scratch / "build", f"-DCMAKE_PREFIX_PATH={moved}"],
            ["cmake", "--build", scratch / "build"],
            [scratch / "build/consumer"],
        ]
        run_commands(report, "installed package", commands)


def run_pip_install(report: SuiteReport, build: Path) -> None:
    """`pip install .` into a folder of its own, and a use of it from there.

    Compiles in <build>/wheel, so that a second run has little to do, with the build packages that
    this Python has.
    """
    with tempfile.TemporaryDirectory(prefix="fourfold-pip-") as name:
        target = Path(name).resolve() / "site"
        pip: list[str | Path] = [sys.executable, "-m", "pip", "install", "--no-build-isolation"]
        pip += ["--no-deps", "--no-index", "--disable-pip-version-check", "--target", target]
        pip += [f"--config-settings=build-dir={build / 'wheel'}", ROOT]
        use = f"import sys; sys.path.insert(0, sys.argv[1])\n{PACKAGE_USE}"
        run_commands(
            report, "pip install", [pip, [sys.executable, "-c", use, target]], cwd=Path(name)
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--model", type=Path, default=ROOT / "models/all-MiniLM-L6-v2")
    options = parser.parse_args()
    build, model = options.build.resolve(), options.model.resolve()
    report = SuiteReport(build / "test_counts.json")
    isas = detected_isas(build / "bin/fourfold")
    print(f"instruction sets of this CPU: {', '.join(isas)}", flush=True)
    run_suites(report, build, isas)
    run_pytest(report, build, model)
    run_consumer(report, build)
    run_pip_install(report, build)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
