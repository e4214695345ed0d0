#!/usr/bin/env python3
"""Drives the lesson page in a browser; builds the tests under clang's sanitizers and runs them,
mutated files and fuzz targets.

<build>/asan: address and undefined behaviour, all suites. <build>/tsan: data races, platform and
layers. <build> itself: wrong gradients are planted, and the gradient tests must notice. Ends with
the line `N passed, N failed`; the counts also go to <build>/deep_counts.json.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ctest_suites import detected_isas, run_suites
from suite_report import SuiteReport, doctest_counts

ROOT = Path(__file__).resolve().parent.parent
FUZZ = ROOT / "tests/fuzz"
MUTANTS = ROOT / "tests/mutation/gradient_mutants.py"
BROWSER = ROOT / "tests/browser"
FUZZ_SECONDS = 60
TSAN_SUITES = ("platform", "layers")
SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
    "ASAN_SYMBOLIZER_PATH": "/usr/bin/llvm-symbolizer-14",
    "TSAN_SYMBOLIZER_PATH": "/usr/bin/llvm-symbolizer-14",
}


def run(
    command: list[str | Path], timeout: int, env: dict[str, str] | None = None
) -> tuple[int, str, float]:
    """(exit code, output, seconds); a run over its time ends with code -1."""
    start = time.monotonic()
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            env={**os.environ, **SANITIZER_ENV, **(env or {})},
        )
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        code, output = -1, (error.stdout or b"").decode(errors="replace")
        output += f"\nstopped after {timeout} s"
    except OSError as error:
        code, output = -1, str(error)
    return code, output, time.monotonic() - start


def build_with(report: SuiteReport, folder: Path, sanitize: str, targets: tuple[str, ...]) -> bool:
    """Light optimisation keeps the run short; NDEBUG stays off, so debug checks run too. False when
    nothing can run; what alone does not compile is one failure and does not stop the rest."""
    configure: list[str | Path] = ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja"]
    configure += ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1"]
    configure += ["-DCMAKE_CXX_COMPILER=clang++-14", f"-DFOURFOLD_SANITIZE={sanitize}"]
    configure += ["-DFOURFOLD_BUILD_CLI=OFF", "-DFOURFOLD_BUILD_TESTS=ON"]
    compile_: list[str | Path] = ["cmake", "--build", folder]
    if os.environ.get("JOBS"):
        compile_ += ["--parallel", os.environ["JOBS"]]
    if targets:
        compile_ += ["--target", *targets]
    compile_ += ["--", "-k", "0"]
    code, output, total = run(configure, 300)
    if code != 0:
        report.add(f"{folder.name} configure", 0, 1, total, output=output)
        return False
    code, output, seconds = run(compile_, 1500)
    if code != 0:
        report.add(f"{folder.name} build", 0, 1, seconds, output=output)
    else:
        print(f"{'built':<8}{folder.name:<60}{seconds:7.1f} s", flush=True)
    return True


def run_mutations(report: SuiteReport, folder: Path, model: Path) -> None:
    """Damages copies of a real model file and expects a clear error or the right answer."""
    program = folder / "bin/safetensors_mutations"
    name = "asan safetensors_mutations"
    if not (FUZZ / "safetensors_mutations.cpp").is_file():
        report.not_run(name, "there is no such program yet")
        return
    with tempfile.TemporaryDirectory(prefix="fourfold-mutations-") as scratch:
        code, output, seconds = run([program, model / "model.safetensors", scratch], 600)
    if doctest_counts(output) is not None:
        report.add_doctest(name, code == 0, output, seconds)
        return
    failed = 1 if code != 0 else 0
    totals = [line for line in output.splitlines() if " tried, " in line]
    report.add(name, 1 - failed, failed, seconds, note="; ".join(totals), output=output)


def run_fuzz_targets(report: SuiteReport, folder: Path) -> None:
    """Every fuzz_* program of the build, for a minute and all at once, starting from
    tests/fuzz/corpus/<name>."""
    programs = sorted(p for p in (folder / "bin").glob("fuzz_*") if os.access(p, os.X_OK))
    if not programs:
        report.not_run("asan fuzz targets", "there are none yet")
        return

    def fuzz(program: Path) -> tuple[int, str, float]:
        found = folder / "found" / program.name
        shutil.rmtree(found, ignore_errors=True)
        (found / "corpus").mkdir(parents=True)
        command: list[str | Path] = [program, found / "corpus"]
        seeds = FUZZ / "corpus" / program.name
        if seeds.is_dir():
            command.append(seeds)
        command += [f"-max_total_time={FUZZ_SECONDS}", f"-artifact_prefix={found}/"]
        command += ["-print_final_stats=1", "-timeout=20", "-rss_limit_mb=2048"]
        return run(command, FUZZ_SECONDS + 120)

    with concurrent.futures.ThreadPoolExecutor(len(programs)) as pool:
        results = list(pool.map(fuzz, programs))
    for program, (code, output, seconds) in zip(programs, results, strict=True):
        failed = 1 if code != 0 else 0
        note = f"inputs that fail are in {folder / 'found' / program.name}" if failed else ""
        report.add(f"asan {program.name}", 1 - failed, failed, seconds, note=note, output=output)


def run_gradient_mutants(report: SuiteReport, build: Path) -> None:
    """In the optimised build: its objects are linked with one changed one at a time."""
    name = "gradient mutants"
    configure: list[str | Path] = ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja"]
    configure += ["-DCMAKE_BUILD_TYPE=Release", "-DFOURFOLD_BUILD_PYTHON=ON"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}"]
    compile_: list[str | Path] = ["cmake", "--build", build, "--target", "fourfold_python"]
    if os.environ.get("JOBS"):
        compile_ += ["--parallel", os.environ["JOBS"]]
    for command in (configure, compile_):
        code, output, seconds = run(command, 1500)
        if code != 0:
            report.add(f"{name} build", 0, 1, seconds, output=output)
            return
    code, output, seconds = run([sys.executable, MUTANTS, "--build", build], 1500)
    counts = re.search(r"^(\d+) passed, (\d+) failed$", output, re.MULTILINE)
    passed, failed = (int(counts[1]), int(counts[2])) if counts else (0, 1)
    if code != 0 and failed == 0:
        failed = 1
    report.add(name, passed, failed, seconds, output=output)


def run_browser(report: SuiteReport, build: Path) -> None:
    """The lesson page in Chromium: tests/browser, by the standard library's unittest."""
    command: list[str | Path] = [sys.executable, "-m", "unittest", "discover", "-p", "*_test.py"]
    command += ["-s", BROWSER]
    env = {"FOURFOLD_BIN": str(build / "bin/fourfold")}
    code, output, seconds = run(command, 600, env)
    ran = re.search(r"^Ran (\d+) tests? in", output, re.MULTILINE)
    if ran is None:
        report.add("browser", 0, 1, seconds, note="the tests did not run", output=output)
        return
    failed = len(re.findall(r"^(?:FAIL|ERROR): ", output, re.MULTILINE))
    failed = max(failed, 1 if code != 0 else 0)
    report.add("browser", int(ran[1]) - min(failed, int(ran[1])), failed, seconds, output=output)


def fixed_addresses() -> list[str]:
    """clang 14's thread sanitizer cannot start under some kernels' address randomisation."""
    prefix = ["setarch", os.uname().machine, "-R"]
    return prefix if shutil.which("setarch") and run([*prefix, "true"], 10)[0] == 0 else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--model", type=Path, default=ROOT / "models/all-MiniLM-L6-v2")
    options = parser.parse_args()
    build, model = options.build.resolve(), options.model.resolve()
    build.mkdir(parents=True, exist_ok=True)
    report = SuiteReport(build / "deep_counts.json")
    isas = detected_isas(build / "bin/fourfold")

    run_browser(report, build)

    asan = build / "asan"
    if build_with(report, asan, "address,undefined,fuzzer-no-link", ()):
        run_suites(report, asan, isas, label="asan ", env=SANITIZER_ENV)
        run_mutations(report, asan, model)
        run_fuzz_targets(report, asan)

    tsan = build / "tsan"
    if build_with(report, tsan, "thread", tuple(f"test_{suite}" for suite in TSAN_SUITES)):
        run_suites(
            report,
            tsan,
            isas,
            label="tsan ",
            env=SANITIZER_ENV,
            prefix=fixed_addresses(),
            wanted=lambda name: name.split(".")[0] in TSAN_SUITES,
        )
    run_gradient_mutants(report, build)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
