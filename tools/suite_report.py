"""Counts test cases over several suites, prints a line per suite and the closing line."""

import json
import re
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

DOCTEST_SUMMARY = re.compile(
    r"^\[doctest\] test cases:\s*(\d+) *\| *(\d+) passed *\| *(\d+) failed *\| *(\d+) skipped",
    re.MULTILINE,
)
TAIL_LINES = 80


@dataclass
class Suite:
    name: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    note: str


def doctest_counts(output: str) -> tuple[int, int, int] | None:
    """(passed, failed, skipped) over all doctest summaries in the output; None without one."""
    found = DOCTEST_SUMMARY.findall(output)
    if not found:
        return None
    sums = [sum(int(row[column]) for row in found) for column in (1, 2, 3)]
    return sums[0], sums[1], sums[2]


class SuiteReport:
    """Collects suites. A suite that could not run counts as one failure, never as nothing."""

    def __init__(self, counts_file: Path) -> None:
        self.counts_file = counts_file
        self.suites: list[Suite] = []
        self.started = time.monotonic()
        counts_file.unlink(missing_ok=True)

    def add(
        self,
        name: str,
        passed: int,
        failed: int,
        seconds: float,
        *,
        skipped: int = 0,
        note: str = "",
        output: str = "",
    ) -> None:
        self.suites.append(Suite(name, passed, failed, skipped, seconds, note))
        state = "FAILED" if failed else "ok"
        counts = f"{passed} passed" + (f", {failed} failed" if failed else "")
        counts += f", {skipped} skipped" if skipped else ""
        print(f"{state:<8}{name:<34}{counts:<26}{seconds:7.1f} s  {note}".rstrip(), flush=True)
        if failed and output:
            lines = output.strip().splitlines()
            if len(lines) > TAIL_LINES:
                print(f"    ... ({len(lines) - TAIL_LINES} lines more)")
            for line in lines[-TAIL_LINES:]:
                print("    " + line)
            sys.stdout.flush()

    def add_doctest(self, name: str, exit_ok: bool, output: str, seconds: float) -> None:
        """One run of a doctest program. A crash, or a run of no test at all, is a failure."""
        counts = doctest_counts(output)
        if counts is None:
            self.add(name, 0, 1, seconds, note="ended without a summary", output=output)
            return
        passed, failed, skipped = counts
        note = ""
        if passed + failed == 0:
            failed, note = 1, "ran no test"
        elif not exit_ok and failed == 0:
            failed, note = 1, "all cases passed, but the program failed"
        self.add(name, passed, failed, seconds, skipped=skipped, note=note, output=output)

    def not_run(self, name: str, reason: str) -> None:
        self.suites.append(Suite(name, 0, 0, 0, 0.0, f"not run: {reason}"))
        print(f"{'not run':<8}{name:<34}{reason}", flush=True)

    def finish(self) -> int:
        """Writes the counts, prints the closing lines; returns the exit code."""
        passed = sum(suite.passed for suite in self.suites)
        failed = sum(suite.failed for suite in self.suites)
        if passed + failed == 0:
            print("no suite ran: that is a failure too")
            failed = 1
        counts = {"passed": passed, "failed": failed, "suites": [asdict(s) for s in self.suites]}
        self.counts_file.write_text(json.dumps(counts, indent=1) + "\n")
        ran = [s.name for s in self.suites if not s.note.startswith("not run")]
        print(f"\n{len(ran)} suites in {time.monotonic() - self.started:.0f} s: {', '.join(ran)}")
        for suite in self.suites:
            if suite.note.startswith("not run"):
                print(f"{suite.name} {suite.note}")
        print(f"{passed} passed, {failed} failed", flush=True)
        return 1 if failed else 0
