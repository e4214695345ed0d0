"""Broken safetensors files: `fourfold inspect` refuses each with exit code 3 and its rule."""

import os
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

COUNT = 200
RULE = re.compile(r"\brule ([SL]\d+)\b")
PLACE = re.compile(r'\b(byte \d+|tensor "[^"]*")')
Completed = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def refused(fourfold_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, str]]:
    """The broken files with the rule that each of them breaks."""
    folder = tmp_path_factory.mktemp("refused")
    beside = os.environ.get("FOURFOLD_BIN_DIR", str(fourfold_bin.parent))
    program = Path(beside) / "safetensors_mutations"
    subprocess.run([str(program), "--refused", str(folder), str(COUNT)], check=True, timeout=60)
    lines = (folder / "manifest.tsv").read_text(encoding="ascii").splitlines()
    return [(folder / name, rule) for name, rule in (line.split("\t") for line in lines)]


def fault_of(path: Path, rule: str, result: Completed) -> str | None:
    """What is wrong with the refusal of one file, or None."""
    text = result.stderr
    if result.returncode != 3:
        return f"exit code {result.returncode}"
    if path.name not in text:
        return "the file is not named"
    found = RULE.search(text)
    if found is None or found.group(1) != rule:
        return f"rule {rule} is not cited"
    if PLACE.search(text) is None:
        return "neither byte nor tensor is named"
    if any(ord(c) < 0x20 and c != "\n" or 0x7F <= ord(c) < 0xA0 for c in text):
        return "control characters in the message"
    return None


def test_there_are_enough_cases_for_every_rule(refused: list[tuple[Path, str]]) -> None:
    assert len(refused) == COUNT
    assert len({path.read_bytes() for path, _ in refused}) == COUNT
    assert {f"S{i}" for i in range(1, 16)} <= {rule for _, rule in refused}


def test_inspect_refuses_each_file(
    refused: list[tuple[Path, str]], run_fourfold: Callable[..., Completed]
) -> None:
    with ThreadPoolExecutor(max_workers=2) as pool:
        results = list(pool.map(lambda case: run_fourfold("inspect", case[0]), refused))
    faults = [
        f"{path.name} ({rule}): {fault}\n{result.stderr}"
        for (path, rule), result in zip(refused, results, strict=True)
        if (fault := fault_of(path, rule, result)) is not None
    ]
    assert not faults, "\n".join(faults)


def test_inspect_accepts_an_unbroken_file(
    tmp_path: Path, run_fourfold: Callable[..., Completed]
) -> None:
    header = b'{"only.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    path = tmp_path / "good.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    result = run_fourfold("inspect", path)
    assert result.returncode == 0, result.stderr
    assert "only.weight" in result.stdout
