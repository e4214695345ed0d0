"""`inspect`: counts of parameters and work, from the shapes alone."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from tiny_encoder import D_MODEL, N_LAYERS, tensors, write_tiny_encoder

Json = dict[str, Any]
Run = Callable[..., CompletedProcess[str]]


def inspect(run: Run, model: Path, *options: str) -> Json:
    done = run("inspect", model, "--json", *options)
    assert done.returncode == 0, done.stderr
    report: Json = json.loads(done.stdout)
    assert report["schema"] == "fourfold.inspect/1"
    return report


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_encoder(tmp_path_factory.mktemp("inspect"))


def test_inspect_minilm(run_fourfold: Run, model_dir: Path) -> None:
    report = inspect(run_fourfold, model_dir)
    parameters = report["parameters"]
    assert report["architecture"] == "bert"
    assert parameters["total"] == parameters["active"] == 22_713_216
    assert parameters["ffn"] == 7_089_408
    assert parameters["other"] == 384 * 384 + 384 == 147_840
    assert parameters["embedding"] == (30522 + 512 + 2) * 384
    assert parameters["norm"] == (2 * 6 + 1) * 2 * 384
    assert parameters["attention"] == 6 * 4 * (384 * 384 + 384)
    parts = ("ffn", "attention", "norm", "embedding", "other")
    assert sum(parameters[part] for part in parts) == parameters["total"]
    assert [layer["index"] for layer in report["layers"]] == list(range(6))
    for layer in report["layers"]:
        assert (layer["kind"], layer["activation"], layer["dtype"]) == ("dense", "gelu", "F32")
        assert (layer["d_model"], layer["d_ff"]) == (384, 1536)
        assert layer["ffn_parameters"] == layer["ffn_active_parameters"] == 1_181_568
        assert layer["ffn_macs_per_token"] == 2 * 384 * 1536 == 1_179_648
        assert layer["attention_macs_per_token"] == 4 * 384 * 384
        # Bias of up, activation, bias of down.
        assert layer["elementwise_flops_per_token"] == 1536 + 1536 + 384
        assert layer["ffn_share"] == pytest.approx(0.6659, abs=1e-4)
    text = run_fourfold("inspect", model_dir).stdout
    for number in ("22,713,216", "7,089,408", "1,181,568", "147,840", "1,179,648"):
        assert number in text


@pytest.mark.parametrize("seq_len", [1, 509])
def test_inspect_score_work(run_fourfold: Run, model_dir: Path, tiny: Path, seq_len: int) -> None:
    for model, d_model in ((model_dir, 384), (tiny, D_MODEL)):
        plain = inspect(run_fourfold, model)
        scores = inspect(run_fourfold, model, "--seq-len", str(seq_len))
        for before, after in zip(plain["layers"], scores["layers"], strict=True):
            added = after.pop("attention_macs_per_token") - before.pop("attention_macs_per_token")
            assert added == 2 * d_model * seq_len
            assert after == before


def test_inspect_lists_tensors(run_fourfold: Run, tiny: Path) -> None:
    weights = tensors()
    report = inspect(run_fourfold, tiny, "--tensors")
    listed = {one["name"]: one for one in report["tensors"]}
    assert listed.keys() == weights.keys()
    for name, array in weights.items():
        assert listed[name]["shape"] == list(array.shape)
        assert listed[name]["parameters"] == array.size
        assert listed[name]["bytes"] == 4 * array.size
    assert report["parameters"]["total"] == sum(array.size for array in weights.values())
    assert len(report["layers"]) == N_LAYERS


def test_a_lone_file_has_tensors_and_a_total(run_fourfold: Run, tiny: Path, tmp_path: Path) -> None:
    """Without config.json nothing says which tensor is an FFN."""
    path = tmp_path / "weights.safetensors"
    path.write_bytes((tiny / "model.safetensors").read_bytes())
    report = inspect(run_fourfold, path)
    weights = tensors()
    assert report["parameters"]["total"] == sum(array.size for array in weights.values())
    assert {one["name"] for one in report["tensors"]} == weights.keys()
    assert report["layers"] == []
