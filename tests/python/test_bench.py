"""`fourfold bench`: the protocol with fake peers, errors against float64, options, JSON. No test
here looks at how long anything took."""

import json
import math
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
Json = dict[str, Any]
Run = Callable[..., CompletedProcess[str]]
TINY = ["bench", "--d-model", "23", "--d-ff", "37", "--repeat", "3"]
FAKES = ("good", "steady", "wrong", "short", "cannot", "dies", "hangs", "odd")


class Fakes:
    """A folder of fake peers, their log, and a folder for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.peers, self.temporary = folder / "peers", folder / "temporary"
        self.log = folder / "log"
        self.peers.mkdir()
        self.temporary.mkdir()
        source = Path(__file__).with_name("fake_peer.py").read_text(encoding="utf-8")
        for name in FAKES:
            path = self.peers / name
            path.write_text(f"#!{sys.executable}\n{source}", encoding="utf-8")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.env = {"FAKE_PEER_LOG": str(self.log), "TMPDIR": str(self.temporary)}

    def arguments(self, *names: str) -> list[str]:
        return ["--peers-dir", str(self.peers), "--peers", ",".join(names)]

    def processes(self) -> Iterator[Path]:
        for file in self.log.parent.glob("*.pid"):
            yield Path("/proc") / file.read_text()


@pytest.fixture
def fakes(tmp_path: Path) -> Fakes:
    return Fakes(tmp_path)


def parsed(done: CompletedProcess[str]) -> Json:
    assert done.returncode == 0, done.stderr
    report: Json = json.loads(done.stdout)
    assert report["schema"] == "fourfold.bench/1"
    return report


def rows_by_name(report: Json) -> dict[str, Json]:
    return {row["implementation"]: row for row in report["rows"]}


# ---- without peers ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "gated", "moe"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_rows_have_every_field_of_the_schema(run_fourfold: Run, kind: str, dtype: str) -> None:
    arguments = [*TINY, "--kind", kind, "--dtype", dtype, "--tokens", "17,19", "--peers", "none"]
    report = parsed(run_fourfold(*arguments, "--json", "--threads", "1"))
    assert set(report) == {
        "schema", "machine", "model", "repeat", "major_faults", "rows", "not_measured", "warnings"
    }  # fmt: skip
    assert report["major_faults"] == 0
    assert report["machine"]["peak_gflops"]["f32"] > 0
    assert report["machine"]["threads"] == 1
    assert report["repeat"] == 3
    assert [row["tokens"] for row in report["rows"]] == [17, 19]
    for row in report["rows"]:
        assert (row["kind"], row["dtype"], row["d_model"], row["d_ff"]) == (kind, dtype, 23, 37)
        assert row["implementation"] == "fourfold"
        assert row["backward"] is False
        assert 0 < row["ms"]["min"] <= row["ms"]["median"] <= row["ms"]["max"]
        for name in ("gflops", "gbs", "share_of_limit", "peak_gflops", "read_gbs"):
            assert row[name] > 0, name
        assert row["ratio_to_best_peer"] is None
        assert row["max_relative_error"] < (1e-5 if dtype == "f32" else 0.05)
        assert row["error_samples"] == 8 * 23
        assert row["n_experts"] == (8 if kind == "moe" else None)
        if kind == "moe":
            assert 2 <= row["experts_hit"] <= 8 and 1 <= row["largest_load"] <= 4
        else:
            assert row["experts_hit"] is None and row["largest_load"] is None


def test_json_out_and_text(run_fourfold: Run, tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    done = run_fourfold(*TINY, "--tokens", "17-21+2", "--peers", "none", "--json-out", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("case ")
    header = next(line for line in done.stdout.splitlines() if "tokens" in line and "ratio" in line)
    assert header.split()[0] == "ratio"
    assert [row["tokens"] for row in json.loads(out.read_text())["rows"]] == [17, 19, 21]


def test_sparsity_gives_a_row_with_and_without_skipping(run_fourfold: Run) -> None:
    shape = ["--d-model", "53", "--d-ff", "2003", "--sparsity", "0.75", "--tokens", "2"]
    report = parsed(run_fourfold("bench", *shape, "--repeat", "1", "--peers", "none", "--json"))
    assert [row["implementation"] for row in report["rows"]] == [
        "fourfold",
        "fourfold, every neuron",
    ]
    assert report["rows"][0]["activation"] == "relu"
    # 4,006 draws: a standard deviation of 0.007.
    assert abs(report["rows"][0]["exact_zero"] - 0.75) < 0.04


def test_routing_from_a_file(run_fourfold: Run, tmp_path: Path) -> None:
    routing = tmp_path / "routing"
    routing.write_text("0 3\n2 1\n")
    moe = [*TINY, "--kind", "moe", "--experts", "5", "--peers", "none", "--tokens", "18"]
    report = parsed(run_fourfold(*moe, "--routing", str(routing), "--json"))
    (row,) = report["rows"]
    assert row["routing"] == "listed"
    # 9 tokens each go to experts 0 and 3, and 2 and 1, of five: 9 against 36 / 5.
    assert (row["experts_hit"], row["largest_load"]) == (4, 1.25)
    assert report["rows"][0]["max_relative_error"] < 1e-5


def test_a_model_is_timed_with_its_stages(run_fourfold: Run, model_dir: Path) -> None:
    sizes = ["--batch", "2", "--seq-len", "11", "--repeat", "1", "--peers", "none"]
    report = parsed(run_fourfold("bench", str(model_dir), *sizes, "--json"))
    (row,) = report["rows"]
    assert (row["kind"], row["tokens"], row["batch"], row["seq_len"]) == ("model", 22, 2, 11)
    assert row["max_relative_error"] < 1e-4
    assert row["error_samples"] == 11 * 384
    assert set(row["stages_ms"]) == {"expand", "contract", "attention", "norm", "other"}
    assert all(value > 0 for value in row["stages_ms"].values())


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["--kind", "dens"], 2, "dense, gated, moe"),
        (["--dtype", "f16"], 2, "f32 and bf16"),
        (["--activation", "glu"], 2, "silu"),
        (["--tokens", "4-"], 2, "--tokens 4-"),
        (["--tokens", "9-4"], 2, "backwards; write 4-9"),
        (["--tokens", "0"], 2, "expected numbers from 1"),
        (["--tokens", "1,,2"], 2, 'found ""'),
        (["--tokens", "1-999999"], 2, "more than"),
        (["--repeat", "0"], 2, "repeat is 0"),
        (["--d-model", "-5"], 2, "whole number"),
        (
            ["--kind", "moe", "--top-k", "9"],
            2,
            "top_k is 9, expected 1 to the number of experts, 8",
        ),
        (["--kind", "moe", "--routing", "zipff"], 2, "--routing zipff: expected uniform, zipf"),
        (["--kind", "moe", "--routing", "/nowhere/at/all"], 3, "/nowhere/at/all"),
        (["--sparsity", "0.9", "--activation", "silu"], 2, "exact zeros"),
        (["--sparsity", "90"], 2, "sparsity is 90, expected a share above 0 and below 1"),
        (["--peers", "onednm"], 2, "onednn, torch, onnxruntime, openvino"),
        (["--peers", "torch", "--peers-dir", "/nowhere"], 2, "no such folder"),
        (["--group", "32"], 2, "--group"),
        (["--json-out", "/nowhere/bench.json"], 4, "/nowhere/bench.json"),
        (["--seq-len", "7"], 2, "MODEL"),
        (["/nowhere/model"], 3, "/nowhere/model"),
    ],
)
def test_refused_options(run_fourfold: Run, arguments: list[str], code: int, part: str) -> None:
    done = run_fourfold("bench", *arguments)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("fourfold: error: ")
    assert done.stderr.count("\n") == 1
    assert part in done.stderr


def test_a_models_options_are_its_own(run_fourfold: Run, model_dir: Path) -> None:
    done = run_fourfold("bench", str(model_dir), "--tokens", "4")
    assert done.returncode == 2 and "--tokens" in done.stderr
    done = run_fourfold("bench", str(model_dir), "--seq-len", "100000", "--peers", "none")
    assert done.returncode == 2 and "seq_len" in done.stderr


def test_a_routing_file_with_mistakes(run_fourfold: Run, tmp_path: Path) -> None:
    routing = tmp_path / "routing"
    for text, part in (("0 x\n", "line 1"), ("0 1\n2\n", "line 2"), ("0 9\n", "expert 9")):
        routing.write_text(text)
        done = run_fourfold(*TINY, "--kind", "moe", "--routing", str(routing), "--peers", "none")
        assert done.returncode == 2, text
        assert part in done.stderr


# ---- with peers ---------------------------------------------------------------------------------


def test_peers_take_turns_and_are_stopped_in_between(run_fourfold: Run, fakes: Fakes) -> None:
    arguments = [*TINY, "--tokens", "17,19", *fakes.arguments("good", "steady"), "--json"]
    report = parsed(run_fourfold(*arguments, env=fakes.env))
    assert report["not_measured"] == [] and report["warnings"] == []
    for tokens in (17, 19):
        log = [line.split() for line in fakes.log.read_text().splitlines()]
        asked = [words[1:] for words in log if words[0] == str(tokens)]
        # 5 ms a pass and 20 ms at least: five passes, after one without a clock.
        rounds = [words[0] for words in asked if words[1:3] == ["5", "1"]]
        assert rounds == ["good", "steady"] * 3
        # Whoever is asked, the other is stopped, once both have started.
        if tokens == 19:
            assert all(words[3] == "T" for words in asked)
        else:
            assert all(words[3] == "T" for words in asked if words[1:3] == ["5", "1"])


def test_ratios_and_names(run_fourfold: Run, fakes: Fakes) -> None:
    arguments = [*TINY, "--tokens", "17", *fakes.arguments("good"), "--json"]
    report = parsed(run_fourfold(*arguments, env=fakes.env))
    rows = rows_by_name(report)
    assert rows["good"]["version"] == "good 3.17"
    assert rows["good"]["ms"] == {"median": 5, "min": 5, "max": 5}
    assert rows["fourfold"]["best_peer"] == "good"
    ratio = rows["fourfold"]["ratio_to_best_peer"]
    assert ratio == rows["good"]["ratio_to_fourfold"]
    # Three rounds, and a peer that always takes as long: the median of ratios has the median time.
    assert ratio == pytest.approx(5 / rows["fourfold"]["ms"]["median"], rel=1e-12)


@pytest.mark.parametrize("kind", ["gated", "moe"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("backward", [False, True])
def test_the_float64_answer_is_numpys(
    run_fourfold: Run, fakes: Fakes, kind: str, dtype: str, backward: bool
) -> None:
    shape = ["--kind", kind, "--dtype", dtype, "--tokens", "19", "--experts", "5"]
    shape += ["--backward"] if backward else []
    arguments = [*TINY, *shape, *fakes.arguments("good", "wrong"), "--json"]
    rows = rows_by_name(parsed(run_fourfold(*arguments, env=fakes.env)))
    # The fake computes in float64 and rounds once to float32; no value is 16 times the RMS.
    assert rows["good"]["max_relative_error"] < 16 * 2**-24
    assert rows["wrong"]["max_relative_error"] > 0.5
    assert rows["fourfold"]["error_samples"] == rows["good"]["error_samples"]
    assert rows["fourfold"]["backward"] is backward


@pytest.mark.parametrize(
    ("name", "part", "dropped", "options"),
    [
        ("cannot", "make tea", False, []),
        ("short", "bytes", False, []),
        ("dies", "code 7: out of tea", True, []),
        ("hangs", "no answer for 4 s", True, ["--peer-timeout", "4"]),
        ("odd", "soon", True, []),
    ],
)
def test_a_peer_that_fails_is_named_and_the_run_goes_on(
    run_fourfold: Run, fakes: Fakes, name: str, part: str, dropped: bool, options: list[str]
) -> None:
    arguments = [*TINY, "--tokens", "17,19", *fakes.arguments(name, "good"), "--json"]
    report = parsed(run_fourfold(*arguments, *options, env=fakes.env))
    assert [row["implementation"] for row in report["rows"]] == ["fourfold", "good"] * 2
    found = report["not_measured"]
    assert all(one["implementation"] == name and part in one["reason"] for one in found), found
    assert [one["tokens"] for one in found] == ([None] if dropped else [17, 19])
    assert list(fakes.temporary.iterdir()) == []
    assert not any(process.exists() for process in fakes.processes())


def test_peers_that_are_not_here_are_named(run_fourfold: Run, fakes: Fakes) -> None:
    report = parsed(
        run_fourfold(*TINY, "--tokens", "17", *fakes.arguments("torch", "good"), "--json",
                     env=fakes.env)
    )  # fmt: skip
    assert report["not_measured"] == [
        {
            "implementation": "torch",
            "tokens": None,
            "reason": "it is not built or not installed here",
        }
    ]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_leaves_nothing_behind(
    fourfold_bin: Path, fakes: Fakes, stop: signal.Signals
) -> None:
    arguments = [*TINY, "--tokens", "17", *fakes.arguments("hangs")]
    process = subprocess.Popen(
        [str(fourfold_bin), *arguments],
        env={**os.environ, **fakes.env},
        stdout=subprocess.PIPE,
        # A job in the background may inherit an ignored interrupt.
        preexec_fn=lambda: signal.signal(stop, signal.SIG_DFL),
    )
    while not fakes.log.exists():
        assert process.poll() is None
        time.sleep(0.02)
    assert any(fakes.temporary.iterdir())
    process.send_signal(stop)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == -stop
    assert output == b""
    assert list(fakes.temporary.iterdir()) == []
    assert not any(path.exists() for path in fakes.processes())


def test_torch_is_a_peer_of_every_kind(run_fourfold: Run, fakes: Fakes) -> None:
    for name in ("peer.py", "torch_ffn.py"):
        shutil.copy(ROOT / "bench/peers" / name, fakes.peers)
    env = {**fakes.env, "FOURFOLD_PEERS_PYTHON": sys.executable}
    for kind in ("dense", "gated", "moe"):
        for more in ([], ["--backward"]):
            shape = ["--kind", kind, "--tokens", "19", *more]
            arguments = [*TINY, *shape, *fakes.arguments("torch"), "--json"]
            rows = rows_by_name(parsed(run_fourfold(*arguments, env=env)))
            assert rows["torch"]["max_relative_error"] < 1e-5
            assert rows["torch"]["version"].startswith("torch ")


# ---- the page of results ------------------------------------------------------------------------


def test_the_performance_page_is_what_its_measurements_say() -> None:
    script = ROOT / "tools/draw_performance.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_results_name_machine_and_commit() -> None:
    files = sorted((ROOT / "bench/results").glob("*.json"))
    assert files
    for path in files:
        result = json.loads(path.read_text(encoding="utf-8"))
        assert result["schema"] == "fourfold.bench-results/1"
        assert result["name"] == path.stem
        assert result["commit"] and result["machine"]["cpu"] and result["date"]
        for run in result["runs"]:
            assert ("report" in run) != ("error" in run)
            for row in run.get("report", {}).get("rows", []):
                assert row["rounds"] >= 1 and math.isfinite(row["ms"]["median"])
