"""What docs/performance.md checks across rows: growth with tokens, jumps between neighbouring
sizes, and routings of a mixture against each other.
"""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Rows = list[dict[str, Any]]


@dataclass
class Check:
    what: str
    found: float | None  # None: not judged
    limit: float
    note: str = ""

    @property
    def share(self) -> float:
        return 0.0 if self.found is None else self.found / self.limit

    @property
    def reached(self) -> bool:
        return self.share <= 1


def ours(result: dict[str, Any] | None, name: str = "fourfold", **wanted: Any) -> Rows:
    """The rows of an implementation whose fields have the wanted values."""
    if result is None:
        return []
    rows = [row for run in result["runs"] if "report" in run for row in run["report"]["rows"]]
    return [
        row
        for row in rows
        if row["implementation"] == name and all(row[k] == v for k, v in wanted.items())
    ]


def least(row: dict[str, Any]) -> float:
    """The time of the fastest round, which other programs of the machine disturb least."""
    found: float = row["ms"]["min"]
    return found


def flops(row: dict[str, Any]) -> float:
    """In millions."""
    found: float = row["gflops"] * row["ms"]["median"]
    return found


def worst(pairs: Iterator[Check]) -> Iterator[Check]:
    """The pair nearest to its limit or farthest above, and how many are above."""
    found = list(pairs)
    judged = [check for check in found if check.found is not None]
    if judged:
        top = max(judged, key=lambda check: check.share)
        above = sum(not check.reached for check in judged)
        top.note = f"{above} of {len(judged)} above" if above else f"worst of {len(judged)}"
        if len(judged) < len(found):
            top.note += f", {len(found) - len(judged)} not judged"
        yield top


class Steps:
    """From row to row of a series. The machine's speed changes between rows, so a step is judged
    twice: by the least times, and by the medians as the limits measured beside them say they would
    be at the usual limits. A step of the library's own is in both. Where the two are far apart the
    machine changed within a row, and nothing can be said.
    """

    FAR = 1.25

    def __init__(self, rows: Rows) -> None:
        self.peak = statistics.median(row["peak_gflops"] for row in rows)
        self.reads = statistics.median(row["read_gbs"] for row in rows)

    def at_usual_limits(self, row: dict[str, Any]) -> float:
        limit = max(row["gflops"] / self.peak, row["gbs"] / self.reads) * row["ms"]["median"]
        found: float = limit / row["share_of_limit"]
        return found

    def growth(self, one: dict[str, Any], more: dict[str, Any]) -> float | None:
        usual = self.at_usual_limits(more) / self.at_usual_limits(one)
        plain = least(more) / least(one)
        if max(usual, plain) > self.FAR * min(usual, plain):
            return None
        return min(usual, plain)


def token_steps(rows: Rows, what: str) -> Iterator[Check]:
    rows = sorted(rows, key=lambda row: row["tokens"])
    for one, more in zip(rows, rows[1:], strict=False):
        if more["tokens"] == one["tokens"] + 1:
            yield Check(
                f"{what}: time of {more['tokens']} tokens / of {one['tokens']}",
                Steps(rows).growth(one, more),
                max(1.15, more["tokens"] / one["tokens"]),
            )


def size_steps(rows: Rows, key: str, what: str) -> Iterator[Check]:
    rows = sorted(rows, key=lambda row: row[key])
    for one, more in zip(rows, rows[1:], strict=False):
        if more[key] - one[key] <= 2:
            steps, work = Steps(rows), flops(more) / flops(one)
            up, down = steps.growth(one, more), steps.growth(more, one)
            found = None if up is None or down is None else max(up / work, down * work)
            yield Check(f"{what}: time per work at {key} {more[key]} and {one[key]}", found, 1.15)


def ratio(what: str, top: Rows, bottom: Rows, limit: float) -> Iterator[Check]:
    if top and bottom:
        yield Check(what, least(top[0]) / least(bottom[0]), limit)


def all_checks(results: dict[str, dict[str, Any]]) -> Iterator[Check]:
    get = results.get
    for dtype in ("f32", "bf16"):
        one, four = (ours(get("gated"), dtype=dtype, tokens=tokens) for tokens in (1, 4))
        if one and four:
            steps = Steps(one + four)
            found = steps.at_usual_limits(four[0]) / steps.at_usual_limits(one[0])
            yield Check(f"{dtype}: SwiGLU, time of 4 tokens / of 1", found, 1.1)
    for dtype in ("f32", "bf16"):
        moe = {
            routing: ours(get("moe"), dtype=dtype, routing=routing, backward=False)
            for routing in ("uniform", "zipf", "single")
        }
        dense = ours(get("moe_dense"), dtype=dtype)
        yield from ratio(f"{dtype}: mixture, Zipf / uniform", moe["zipf"], moe["uniform"], 1.1)
        what = f"{dtype}: mixture with all tokens on the same experts / a layer of equal FLOPs"
        yield from ratio(what, moe["single"], dense, 1.15)
    for tokens in (64, 512):
        f32, bf16 = (ours(get("avx2"), dtype=dtype, tokens=tokens) for dtype in ("f32", "bf16"))
        yield from ratio(f"AVX2, {tokens} tokens: bf16 / f32", bf16, f32, 1.3)
    for dtype in ("f32", "bf16"):
        for group, what in (("curve_tokens", dtype), ("curve_tokens_avx2", f"AVX2, {dtype}")):
            yield from worst(token_steps(ours(get(group), dtype=dtype), what))
    for tokens in (1, 64):
        rows = ours(get("curve_sizes"), tokens=tokens)
        for key, other, value in (("d_ff", "d_model", 1024), ("d_model", "d_ff", 2816)):
            series = [row for row in rows if row[other] == value]
            noun = "token" if tokens == 1 else "tokens"
            yield from worst(size_steps(series, key, f"f32, {tokens} {noun}"))
    for dtype, times in (("f32", 2.3), ("bf16", 1.2)):
        for tokens in (512, 2048):
            what = f"{dtype}, {tokens} tokens forward + backward: time / torch's"
            mine = ours(get("training"), dtype=dtype, tokens=tokens)
            torch = ours(get("training"), "torch", dtype=dtype, tokens=tokens)
            yield from ratio(what, mine, torch, 1 / times)


def checks_table(results: dict[str, dict[str, Any]]) -> list[str]:
    """A sentence and a table; nothing without measurements."""
    checks = list(all_checks(results))
    if not checks:
        return []
    held = sum(check.reached for check in checks)
    lines = [f"{held} of {len(checks)} checks hold.", ""]
    lines += ["| check | found | at most | pairs |", "|---|---:|---:|---|"]
    for check in checks:
        found = f"{check.share * check.limit:.2f}"
        found = found if check.reached else f"**{found}**"
        lines.append(f"| {check.what} | {found} | {check.limit:.2f} | {check.note} |")
    return lines
