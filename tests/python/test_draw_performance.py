"""Goals in the page of results that name a peer, on made-up cases."""

import sys
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.append(str(TOOLS))
from draw_performance import Case, goal_of, summary, table  # noqa: E402

GOALS = [{"group": "dense", "tokens": 512, "ratio": 1.05, "peer": "openvino"}]


def row(ms: float, **fields: Any) -> dict[str, Any]:
    common: dict[str, Any] = {"ms": {"median": ms, "min": ms, "max": ms}, "gflops": 1.0, "gbs": 1.0}
    common |= {"dtype": "f32", "tokens": 512, "share_of_limit": 0.9, "max_relative_error": 1e-6}
    return common | fields


def case(best: float, openvino: float | None) -> Case:
    """Ratios to the best peer, oneDNN, and to OpenVINO if it was timed."""
    rows = {
        "fourfold": row(1.0, ratio_to_best_peer=best, best_peer="onednn"),
        "onednn": row(best, ratio_to_fourfold=best),
    }
    if openvino is not None:
        rows["openvino"] = row(openvino, ratio_to_fourfold=openvino)
    return Case("dense", rows, {}, {})


def last_cells(one: Case) -> list[str]:
    return [cell.strip() for cell in table([one], GOALS)[-1].split("|")][-4:-2]


def test_both_the_best_and_the_named_peer_count() -> None:
    slower = case(0.95, 1.2)
    assert goal_of(slower, GOALS).found(slower) == 1.2
    assert last_cells(slower) == ["**0.95**", "1.00; openvino 1.20 (1.05)"]
    lines = summary([slower], GOALS)
    assert lines[0].startswith("In 0 of 1 rows") and "1 of 2 goals are reached" in lines[0]
    assert lines[-1].endswith("| 0.95 | 1.00 | ratio to onednn |")


def test_a_named_peer_that_is_missed() -> None:
    missed = case(1.01, 1.01)
    assert last_cells(missed) == ["1.01", "1.00; openvino **1.01** (1.05)"]
    assert summary([missed], GOALS)[-1].endswith("| 1.01 | 1.05 | ratio to openvino |")


def test_a_named_peer_that_was_not_timed_is_no_goal() -> None:
    alone = case(1.1, None)
    assert last_cells(alone) == ["1.10", "1.00"]
    assert "1 of 1 goals are reached" in summary([alone], GOALS)[0]
