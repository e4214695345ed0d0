#!/usr/bin/env python3
"""Writes docs/performance.md and its pictures from the measurements in bench/results/, and from
nothing else: draw_performance.py [--check]. With --check it only says whether they are up to date.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from performance_charts import Bar, Series, bar_chart, curve_chart, ratio_chart
from performance_checks import checks_table
from performance_words import (
    CHECKS,
    CURVES,
    ERRORS,
    HOW,
    NOT_MEASURED,
    NOTES,
    SHORT_TITLES,
    TITLES,
    WHY,
)

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
GOALS = ROOT / "bench/goals.json"
PEERS = ("onednn", "torch", "onnxruntime", "openvino")
EVERY_NEURON = "fourfold, every neuron"


@dataclass
class Case:
    """One row of a table: what all implementations did in the same turns."""

    group: str
    rows: dict[str, dict[str, Any]]
    machine: dict[str, Any]
    absent: dict[str, str]

    @property
    def ours(self) -> dict[str, Any]:
        return self.rows["fourfold"]

    @property
    def ratio(self) -> float | None:
        if self.group == "sparsity":
            found: float | None = self.rows[EVERY_NEURON]["ratio_to_fourfold"]
            return found
        best: float | None = self.ours["ratio_to_best_peer"]
        return best

    @property
    def label(self) -> str:
        ours = self.ours
        if self.group == "model":
            parts = [f"{ours['batch']} x {ours['seq_len']}"]
        elif self.group == "sparsity":
            parts = [ours["kind"]]
        elif self.group == "moe":
            parts = [ours["routing"], "forward + backward" if ours["backward"] else "forward"]
        else:
            parts = [counted(ours["tokens"], "token")]
        return ", ".join([ours["dtype"], *parts])


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def cases_of(result: dict[str, Any]) -> Iterator[Case]:
    for run in result["runs"]:
        if "report" not in run:
            continue
        report = run["report"]
        for tokens in dict.fromkeys(row["tokens"] for row in report["rows"]):
            rows = {r["implementation"]: r for r in report["rows"] if r["tokens"] == tokens}
            absent = {
                one["implementation"]: one["reason"]
                for one in report["not_measured"]
                if one["tokens"] in (None, tokens)
            }
            if "fourfold" in rows:
                yield Case(result["name"], rows, report["machine"], absent)


def load() -> dict[str, dict[str, Any]]:
    found = {}
    for path in sorted(RESULTS.glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        found[result["name"]] = result
    return found


@dataclass
class Goal:
    ratio: float = 1.0  # to the best peer
    share: float | None = None  # of the limit
    peer: str | None = None
    peer_ratio: float = 1.0  # to that peer

    def found(self, case: Case) -> float | None:
        """The ratio to the peer that the goal names."""
        ratio: float | None = case.rows.get(self.peer or "", {}).get("ratio_to_fourfold")
        return ratio


def goal_of(case: Case, goals: list[dict[str, Any]]) -> Goal:
    known = {**case.ours, "group": case.group}
    for goal in goals:
        wanted = {k: v for k, v in goal.items() if k not in ("ratio", "share", "peer")}
        if all(known.get(name) == value for name, value in wanted.items()):
            if "peer" in goal:
                return Goal(1.0, goal.get("share"), goal["peer"], goal["ratio"])
            return Goal(goal["ratio"], goal.get("share"))
    return Goal()


def marked(text: str, reached: bool) -> str:
    return text if reached else f"**{text}**"


def ms(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def table(cases: list[Case], goals: list[dict[str, Any]]) -> list[str]:
    """Times of all, and the ratio to the best peer."""
    names = [n for n in (EVERY_NEURON, *PEERS) if any(n in case.rows for case in cases)]
    titles = ["case", "fourfold ms", "range", "GFLOP/s", "GB/s", "% of limit (goal)"]
    titles += [f"{n.removeprefix('fourfold, ')} ms" for n in names] + ["ratio", "goal", "error"]
    lines = [
        "| " + " | ".join(titles) + " |",
        "|---|" + "---:|" * (len(titles) - 1),
    ]
    for case in cases:
        ours = case.ours
        span = f"{ms(ours['ms']['min'])} - {ms(ours['ms']['max'])}"
        cells = [case.label, ms(ours["ms"]["median"]), span, f"{ours['gflops']:.0f}"]
        goal = goal_of(case, goals)
        share = ours["share_of_limit"]
        percent = f"{share * 100:.0f}"
        if goal.share is not None:
            percent = marked(percent, share >= goal.share) + f" ({goal.share * 100:.0f})"
        cells += [f"{ours['gbs']:.1f}", percent]
        cells += [ms(case.rows[n]["ms"]["median"]) if n in case.rows else "-" for n in names]
        if case.ratio is None:
            cells += ["-", f"{goal.ratio:.2f}"]
        else:
            cells += [marked(f"{case.ratio:.2f}", case.ratio >= goal.ratio), f"{goal.ratio:.2f}"]
        if (found := goal.found(case)) is not None:
            reached = marked(f"{found:.2f}", found >= goal.peer_ratio)
            cells[-1] += f"; {goal.peer} {reached} ({goal.peer_ratio:.2f})"
        error = ours["max_relative_error"]
        cells.append("-" if error is None else f"{error:.0e}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def errors_table(cases: list[Case]) -> list[str]:
    """The largest error of each implementation in each group and number type."""
    worst: dict[tuple[str, str], dict[str, float]] = {}
    for case in cases:
        for name, row in case.rows.items():
            if row["max_relative_error"] is not None and name != EVERY_NEURON:
                place = worst.setdefault((case.group, row["dtype"]), {})
                place[name] = max(place.get(name, 0.0), row["max_relative_error"])
    names = ["fourfold", *PEERS]
    lines = ["| rows | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for (group, dtype), found in worst.items():
        cells = [f"{found[name]:.1e}" if name in found else "-" for name in names]
        lines.append(f"| {group}, {dtype} | " + " | ".join(cells) + " |")
    return lines


def curve(result: dict[str, Any], x_of: Any, dtype: str) -> list[Series]:
    """Microseconds per MFLOP, of Fourfold and oneDNN."""
    found: dict[str, list[tuple[float, float]]] = {}
    for case in cases_of(result):
        if case.ours["dtype"] != dtype:
            continue
        for name in ("fourfold", "onednn"):
            if name in case.rows:
                time = 1e3 / case.rows[name]["gflops"]
                found.setdefault(name, []).append((x_of(case), time))
    return [Series(name, sorted(values)) for name, values in found.items()]


def draw_curves(results: dict[str, dict[str, Any]]) -> dict[str, str]:
    pictures = {}
    for group, picture, what in (
        ("curve_tokens", "tokens", ""),
        ("curve_tokens_avx2", "tokens_avx2", " with AVX2"),
    ):
        if group not in results:
            continue
        found = results[group]
        panels = [
            (dtype, curve(found, lambda c: c.ours["tokens"], dtype)) for dtype in ("f32", "bf16")
        ]
        pictures[picture] = curve_chart(
            f"Time per work, 1 to 70 tokens{what}",
            "SwiGLU layer, d_model 1024, d_ff 2816: microseconds per MFLOP by tokens.",
            [panel for panel in panels if panel[1]],
            "tokens",
            "µs per MFLOP",
        )
    if "curve_sizes" in results:
        for tokens in (1, 64):
            cases = [c for c in cases_of(results["curve_sizes"]) if c.ours["tokens"] == tokens]
            sizes = sorted({(c.ours["d_model"], c.ours["d_ff"]) for c in cases},
                           key=lambda size: (size[1] == 2816, size))  # fmt: skip
            result = {"name": "curve_sizes", "runs": [
                run for run in results["curve_sizes"]["runs"]
                if "report" in run and run["report"]["rows"][0]["tokens"] == tokens
            ]}  # fmt: skip
            if not cases:
                continue
            series = curve(
                result,
                lambda c, sizes=sizes: sizes.index((c.ours["d_model"], c.ours["d_ff"])),
                "f32",
            )
            pictures[f"sizes_{tokens}"] = curve_chart(
                f"Time per work at odd sizes and beside powers of two, {counted(tokens, 'token')}",
                "SwiGLU layer, f32: microseconds per MFLOP for neighbouring d_ff and d_model.",
                [("f32", series)],
                "d_model x d_ff",
                "µs per MFLOP",
                [f"{d} x {f}" for d, f in sizes],
            )
    return pictures


def draw_limits(cases: list[Case]) -> str:
    bars = []
    for case in cases:
        if case.group not in ("gated", "dense"):
            continue
        group = f"{SHORT_TITLES[case.group]}, {case.ours['dtype']}"
        share = case.ours["share_of_limit"] * 100
        bars.append(Bar(counted(case.ours["tokens"], "token"), group, share, 0, f"{share:.0f} %"))
    return bar_chart(
        "How near Fourfold comes to the machine's limit",
        "Share of the time that reading the weights and multiplying would take at least, per row.",
        bars,
        100,
        "% of limit",
    )


def draw_model(cases: list[Case]) -> str:
    bars = []
    for case in cases:
        if case.group != "model":
            continue
        group = f"{case.ours['batch']} x {case.ours['seq_len']} tokens, {case.ours['dtype']}"
        for color, name in enumerate(("fourfold", *PEERS)):
            if name in case.rows:
                per_sequence = case.rows[name]["ms"]["median"] / case.ours["batch"]
                bars.append(Bar(name, group, per_sequence, color, f"{per_sequence:.2f} ms"))
    title = "MiniLM: milliseconds per sequence of 128 tokens"
    return bar_chart(title, "Shorter is better.", bars, 0, "ms")


def stages_table(cases: list[Case]) -> list[str]:
    lines = ["| case | expand | contract | attention | norm | other |", "|---|" + "---:|" * 5]
    for case in cases:
        stages = case.ours["stages_ms"]
        if stages:
            total = sum(stages.values())
            cells = [f"{value:.2f} ms ({value / total * 100:.0f} %)" for value in stages.values()]
            lines.append(f"| {case.label} | " + " | ".join(cells) + " |")
    return lines


def summary(cases: list[Case], goals: list[dict[str, Any]]) -> list[str]:
    missed = []
    judged = 0
    for case in cases:
        goal = goal_of(case, goals)
        best = case.ours["best_peer"] if case.group != "sparsity" else "every neuron"
        checks = [
            (case.ratio, goal.ratio, f"ratio to {best}"),
            (goal.found(case), goal.peer_ratio, f"ratio to {goal.peer}"),
        ]
        if goal.share is not None:
            checks.append((case.ours["share_of_limit"], goal.share, "share of the limit"))
        for found, wanted, what in checks:
            if found is None:
                continue
            judged += 1
            if found < wanted:
                missed.append((case, found, wanted, what))
    raced = [case.ours["ratio_to_best_peer"] for case in cases]
    raced = [ratio for ratio in raced if ratio is not None]
    faster = sum(ratio >= 1 for ratio in raced)
    lines = [
        f"In {faster} of {len(raced)} rows Fourfold is as fast as the best peer or faster. "
        f"{judged - len(missed)} of {judged} goals are reached: ratios (time of the best peer, or "
        "of the one named, / Fourfold's) and shares of the machine's limit.",
    ]
    if missed:
        lines += ["", "Missed:", "", "| row | found | goal | what |", "|---|---:|---:|---|"]
        for case, found, wanted, what in missed:
            lines.append(f"| {case.group}, {case.label} | {found:.2f} | {wanted:.2f} | {what} |")
    return lines


def versions(cases: list[Case]) -> str:
    found: dict[str, str] = {}
    for case in cases:
        for name, row in case.rows.items():
            if name in PEERS and case.group != "model":
                found.setdefault(name, row["version"])
    return ", ".join(found.values())


def absences(results: dict[str, dict[str, Any]], cases: list[Case]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for case in cases:
        for name, reason in case.absent.items():
            groups = reasons.setdefault(f"{name}: {reason}", [])
            if case.group not in groups:
                groups.append(case.group)
    lines = [f"- {what} ({', '.join(groups)})" for what, groups in sorted(reasons.items())]
    for name, result in results.items():
        for run in result["runs"]:
            if "error" in run:
                lines.append(f"- {name}, `{run['arguments']}`: {run['error']}")
    return lines


def machine_lines(results: dict[str, dict[str, Any]], cases: list[Case]) -> list[str]:
    first = next(iter(results.values()))
    machine = first["machine"]
    caches = ", ".join(
        f"L{c['level']} {c['bytes'] // 1024:,} KiB" for c in machine["caches"] if c["level"] > 1
    )
    reads = sorted(case.ours["read_gbs"] for case in cases if case.ours["copies"] > 1)
    commits = sorted({result["commit"] for result in results.values()})
    dates = sorted({result["date"] for result in results.values()})
    peaks: dict[str, list[float]] = {}
    for case in cases:
        peaks.setdefault(case.ours["dtype"], []).append(case.ours["peak_gflops"])
    peak = ", ".join(f"{max(values):.0f} GFLOP/s in {dtype}" for dtype, values in peaks.items())
    lines = [
        f"- {machine['cpu']}, {machine['threads']} threads, {caches}, {machine['isa']}; "
        f"{machine['system']}; {machine['compiler']}",
        f"- multiply-adds: {peak}",
    ]
    if reads:
        lines.append(
            f"- reading memory: {reads[0]:.0f} to {reads[-1]:.0f} GB/s, moving during the run"
        )
    lines.append(f"- Fourfold at commit {', '.join(commits)}; measured {dates[-1]}")
    return lines


def document(results: dict[str, dict[str, Any]], pictures: dict[str, str]) -> str:
    goals = json.loads(GOALS.read_text(encoding="utf-8"))["goals"]
    cases = [case for name in TITLES if name in results for case in cases_of(results[name])]
    lines = [
        "# Performance",
        "",
        "Written by `tools/draw_performance.py` from the measurements in `bench/results/`; "
        "`make bench` repeats both.",
        "",
        *summary(cases, goals),
        "",
    ]

    def show(name: str, alt: str) -> None:
        if name in pictures:
            lines.extend([f"![{alt}](pictures/performance_{name}.svg)", ""])

    show("ratios", "Ratio to the best peer in every row, and the goals")
    lines += ["## Why goals are missed", "", WHY.strip(), ""]
    lines += ["## How it was measured", "", *machine_lines(results, cases)]
    lines += [
        f"- peers: {versions(cases)}",
        HOW.strip().format(rounds=max(case.ours["rounds"] for case in cases)),
        "",
    ]
    show("limits", "Share of the machine's limit per row")
    for name, title in TITLES.items():
        own = [case for case in cases if case.group == name]
        if not own:
            continue
        lines += [f"## {title}", ""]
        if name in NOTES:
            lines += [NOTES[name].strip(), ""]
        lines += [*table(own, goals), ""]
        if name == "model":
            lines += ["Where Fourfold's time goes:", "", *stages_table(own), ""]
            show("model", "MiniLM, milliseconds per sequence")
    if "tokens" in pictures or "sizes_1" in pictures:
        lines += ["## Without cliffs", "", CURVES.strip(), ""]
        show("tokens", "Time per work from 1 to 70 tokens")
        show("tokens_avx2", "Time per work from 1 to 70 tokens with AVX2")
        show("sizes_1", "Time per work at neighbouring sizes, one token")
        show("sizes_64", "Time per work at neighbouring sizes, 64 tokens")
    checks = checks_table(results)
    if checks:
        lines += ["## Checks across rows", "", CHECKS.strip(), "", *checks, ""]
    lines += ["## Errors", "", ERRORS.strip(), "", *errors_table(cases), ""]
    lines += ["## Not measured", ""]
    lines += absences(results, cases)
    lines.append(NOT_MEASURED.strip())
    return "\n".join(lines) + "\n"


def outputs() -> dict[Path, str]:
    results = load()
    goals = json.loads(GOALS.read_text(encoding="utf-8"))["goals"]
    cases = [case for name in TITLES if name in results for case in cases_of(results[name])]
    pictures = draw_curves(results)
    rows = [
        (SHORT_TITLES[c.group], c.label, c.ratio, goal_of(c, goals).ratio)
        for c in cases
        if c.ratio is not None
    ]
    if rows:
        pictures["ratios"] = ratio_chart(
            "Time of the best peer / Fourfold's",
            "Above 1 Fourfold is faster. One mark per row, its goal as a dashed line.",
            rows,
        )
    if any(case.group in ("gated", "dense") for case in cases):
        pictures["limits"] = draw_limits(cases)
    if any(case.group == "model" for case in cases):
        pictures["model"] = draw_model(cases)
    found = {ROOT / f"docs/pictures/performance_{name}.svg": svg for name, svg in pictures.items()}
    found[ROOT / "docs/performance.md"] = document(results, pictures)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    wanted = outputs()
    for path in sorted((ROOT / "docs/pictures").glob("performance_*.svg")):
        if path not in wanted:
            stale.append(path)
            if not check:
                path.unlink()
    for path, content in wanted.items():
        if path.is_file() and path.read_text(encoding="utf-8") == content:
            continue
        stale.append(path)
        if not check:
            path.write_text(content, encoding="utf-8")
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'is not up to date' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
