"""Runs the test programs that CMake registered, in turn, and counts their doctest cases."""

import json
import os
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite_report import SuiteReport

# What an instruction set needs of the CPU, in the words of /proc/cpuinfo.
AVX512_FLAGS = {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"}
CPU_FLAGS = {
    "scalar": set[str](),
    "avx2": {"avx2", "fma", "f16c"},
    "avx512": AVX512_FLAGS,
    "avx512_bf16": {*AVX512_FLAGS, "avx512_bf16"},
}
WHOLE_OUTPUT = "100000000"


@dataclass
class Entry:
    number: int
    name: str
    isa: str | None  # the instruction set it asks for in FOURFOLD_ISA


def isas_of_cpu() -> list[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ["scalar"]
    for line in text.splitlines():
        if line.startswith("flags"):
            flags = set(line.partition(":")[2].split())
            return [isa for isa, needed in CPU_FLAGS.items() if needed <= flags]
    return ["scalar"]


def detected_isas(fourfold: Path) -> list[str]:
    """The instruction sets that can run here, as the command line tool says, else the kernel."""
    if fourfold.is_file():
        done = subprocess.run([fourfold, "info", "--json"], capture_output=True, text=True)
        try:
            return [str(isa) for isa in json.loads(done.stdout)["isa"]["detected"]]
        except (ValueError, KeyError, TypeError):
            pass
    return isas_of_cpu()


def list_entries(build: Path) -> list[Entry]:
    done = subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1"],
        capture_output=True,
        text=True,
        check=True,
    )
    entries = []
    for number, test in enumerate(json.loads(done.stdout)["tests"], 1):
        isa = None
        for prop in test.get("properties", []):
            if prop["name"] == "ENVIRONMENT":
                for setting in prop["value"]:
                    if setting.startswith("FOURFOLD_ISA="):
                        isa = setting.partition("=")[2]
        entries.append(Entry(number, test["name"], isa))
    return entries


def run_entry(
    build: Path, entry: Entry, env: dict[str, str], timeout: int, prefix: Sequence[str]
) -> tuple[bool, str, float]:
    """(ran and exited with 0, its output, seconds)."""
    junit = build / "ctest_entry.xml"
    junit.unlink(missing_ok=True)
    command = [*prefix, "ctest", "--test-dir", str(build), "-I", f"{entry.number},{entry.number}"]
    command += ["--output-junit", str(junit.resolve()), "--timeout", str(timeout)]
    command += ["--test-output-size-passed", WHOLE_OUTPUT, "--test-output-size-failed"]
    command += [WHOLE_OUTPUT]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=env)
    try:
        case = ET.parse(junit).getroot().find("testcase")
    except (OSError, ET.ParseError):
        case = None
    if case is None:
        return False, done.stdout + done.stderr, 0.0
    output = case.findtext("system-out") or ""
    failure = case.find("failure")
    if failure is not None and failure.get("message"):
        output += f"\nctest: {failure.get('message')}"
    return case.get("status") == "run", output, float(case.get("time") or 0)


def run_suites(
    report: SuiteReport,
    build: Path,
    isas: Sequence[str],
    *,
    label: str = "",
    env: dict[str, str] | None = None,
    timeout: int = 600,
    prefix: Sequence[str] = (),
    wanted: Callable[[str], bool] = lambda name: True,
) -> None:
    """Runs every registered test that `wanted` accepts; those for an instruction set that this CPU
    lacks are reported as not run."""
    environment = {**os.environ, **(env or {})}
    try:
        entries = [entry for entry in list_entries(build) if wanted(entry.name)]
    except (subprocess.CalledProcessError, OSError, ValueError) as error:
        report.add(label + "unit tests", 0, 1, 0.0, note=f"ctest cannot list them: {error}")
        return
    if not entries:
        report.add(label + "unit tests", 0, 1, 0.0, note="ctest knows none")
    for entry in entries:
        name = label + entry.name
        if entry.isa is not None and entry.isa not in isas:
            report.not_run(name, f"this CPU has no {entry.isa}")
            continue
        good, output, seconds = run_entry(build, entry, environment, timeout, prefix)
        if entry.name.startswith("example."):  # one program, one case
            report.add(name, int(good), int(not good), seconds, output=output)
        else:
            report.add_doctest(name, good, output, seconds)
