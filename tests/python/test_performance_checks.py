"""The checks across rows of docs/performance.md, on measurements made up for them."""

import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.append(str(TOOLS))
from performance_checks import all_checks, checks_table  # noqa: E402


def row(ms: float, work: float = 1.0, peak: float = 10.0, **fields: Any) -> dict[str, Any]:
    """A row of so many MFLOP whose rounds took ms at least and twice that in the middle."""
    common: dict[str, Any] = {"implementation": "fourfold", "dtype": "f32", "tokens": 1}
    common |= {"d_model": 1024, "d_ff": 2816, "routing": None, "backward": False}
    common |= {"ms": {"min": ms, "median": 2 * ms}, "gflops": work / (2 * ms), "gbs": 0.0}
    common |= {"peak_gflops": peak, "read_gbs": 1.0, "share_of_limit": work / (2 * ms) / peak}
    return common | fields


def results(group: str, *rows: dict[str, Any]) -> dict[str, dict[str, Any]]:
    runs = [{"report": {"rows": [one]}} for one in rows]
    return {group: {"runs": [*runs, {"error": "not measured"}]}}


def test_the_worst_step_in_tokens_is_named() -> None:
    rows = [row(ms, tokens=tokens) for tokens, ms in ((3, 2.9), (1, 1.0), (2, 2.0), (4, 4.5))]
    (check,) = all_checks(results("curve_tokens", *rows))
    assert "4 tokens / of 3" in check.what and check.note == "1 of 3 above"
    assert check.found == pytest.approx(4.5 / 2.9) and check.limit == pytest.approx(4 / 3)
    assert not check.reached


def test_steps_below_their_limits() -> None:
    rows = [row(1 + 0.1 * tokens, tokens=tokens, dtype="bf16") for tokens in range(40, 46)]
    (check,) = all_checks(results("curve_tokens_avx2", *rows))
    assert check.reached and check.limit == 1.15 and check.note == "worst of 5"
    assert check.what.startswith("AVX2, bf16")


def test_sizes_are_compared_by_work_and_only_with_neighbours() -> None:
    sizes = ((1023, 1.0, 2.0), (1024, 1.2, 1.2), (2047, 9.0, 1.0), (2048, 9.9, 1.0))
    rows = [row(ms, work, d_ff=d_ff) for d_ff, ms, work in sizes]
    (check,) = all_checks(results("curve_sizes", *rows))
    assert "d_ff 1024 and 1023" in check.what and check.note == "1 of 2 above"
    assert check.found == pytest.approx(2.0)


def test_a_step_of_the_machine_is_none() -> None:
    """From 42 tokens on everything took twice as long, and half the peak was measured."""
    rows = [row(1.0, tokens=40), row(1.1, tokens=41), row(2.2, tokens=42, peak=5.0)]
    (check,) = all_checks(results("curve_tokens", *rows))
    assert check.reached and check.found == pytest.approx(1.1)


def test_what_two_ways_of_timing_tell_apart_is_not_judged() -> None:
    """The fastest round of 42 tokens had a machine of twice the speed; half of it was measured."""
    rows = [row(1.0, tokens=40), row(1.1, tokens=41), row(1.2, tokens=42, peak=5.0)]
    (check,) = all_checks(results("curve_tokens", *rows))
    assert "41 tokens / of 40" in check.what and check.note == "worst of 1, 1 not judged"


def test_routings_are_compared_with_each_other_and_with_a_layer() -> None:
    moe = [row(ms, routing=name) for name, ms in (("uniform", 10), ("zipf", 11.5), ("single", 12))]
    other = row(99.0, routing="uniform", backward=True)
    found = results("moe", *moe, other) | results("moe_dense", row(11.0))
    zipf, single = all_checks(found)
    assert zipf.found == pytest.approx(1.15) and not zipf.reached
    assert single.found == pytest.approx(12 / 11) and single.reached


def test_training_is_compared_with_torch() -> None:
    rows = [row(10.0, tokens=512), row(22.0, tokens=512, implementation="torch")]
    (check,) = all_checks(results("training", *rows))
    assert check.found == pytest.approx(10 / 22) and not check.reached


def test_the_table_marks_what_is_above() -> None:
    rows = [row(1.0, tokens=1), row(1.2, tokens=4)]
    lines = checks_table(results("gated", *rows))
    assert lines[0] == "0 of 1 checks hold."
    assert lines[4:] == ["| f32: SwiGLU, time of 4 tokens / of 1 | **1.20** | 1.10 |  |"]
    assert checks_table({}) == []
