"""Results never replace what a command reads, and odd values are refused, not guessed."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from tiny_encoder import write_tiny_encoder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    return write_tiny_encoder(folder)


def run(fourfold_bin: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(fourfold_bin), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "vocab.txt"])
@pytest.mark.parametrize("through_link", [False, True])
def test_files_of_the_model_are_not_overwritten(
    fourfold_bin: Path, model: Path, name: str, through_link: bool
) -> None:
    target = model / name
    before = target.read_bytes()
    output = target
    if through_link:
        output = model.parent / "link"
        output.symlink_to(target)
    commands: list[tuple[str | Path, ...]] = [
        ("inspect", model, "--json-out", output),
        ("embed", model, "amber", "--out", output),
        ("profile", model, "--html", output),
        ("trace", model, "--json-out", output),
    ]
    for command in commands:
        done = run(fourfold_bin, *command)
        assert done.returncode == 2, done.stderr
        assert "file of the model" in done.stderr
    assert target.read_bytes() == before


def test_inputs_and_other_outputs_are_not_overwritten(fourfold_bin: Path, model: Path) -> None:
    text = model.parent / "text.txt"
    text.write_text("amber birch cedar", encoding="ascii")
    done = run(fourfold_bin, "profile", model, "--text", text, "--json-out", text)
    assert done.returncode == 2 and "also the input" in done.stderr
    assert text.read_text(encoding="ascii") == "amber birch cedar"
    both = model.parent / "both"
    done = run(fourfold_bin, "embed", model, "amber", "--out", both, "--json-out", both)
    assert done.returncode == 2 and "two results" in done.stderr
    assert not both.exists()


def test_reports_beside_the_model_are_overwritten(fourfold_bin: Path, model: Path) -> None:
    report = model / "profile.json"
    for _ in range(2):
        assert run(fourfold_bin, "inspect", model, "--json-out", report).returncode == 0
    assert list(model.glob("*partial*")) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--max-tokens", "-1"],
        ["--max-tokens", "18446744073709551616"],
        ["--seq-len", "010"],
        ["--batch", "0x10"],
        ["--batch", "1.5"],
        ["--html", ""],
        ["--text", ""],
        ["--json-out", ""],
        ["--json=false"],
    ],
)
def test_odd_values_are_refused(fourfold_bin: Path, model: Path, arguments: list[str]) -> None:
    done = run(fourfold_bin, "profile", model, *arguments)
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""


def test_options_that_would_do_nothing_are_refused(fourfold_bin: Path) -> None:
    done = run(fourfold_bin, "trace", "--layer", "1")
    assert done.returncode == 2 and "MODEL" in done.stderr


def test_every_text_can_be_embedded(fourfold_bin: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "vectors.npy"
    texts = ["++", "[a,b]", "{}", "%%", "", "info", "--", "amber"]
    done = run(fourfold_bin, "embed", model, "--out", out, "--", *texts)
    assert done.returncode == 0, done.stderr
    assert np.load(out).shape[0] == len(texts)


@pytest.mark.parametrize("stderr", ["closed", "/dev/full"])
def test_exit_code_without_a_usable_stderr(fourfold_bin: Path, stderr: str) -> None:
    redirect = "2>&-" if stderr == "closed" else "2>/dev/full"
    command = ["sh", "-c", f'"$0" inspect no_such_model {redirect}', str(fourfold_bin)]
    assert subprocess.run(command, check=False).returncode == 3


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_to_a_full_device_is_an_error(fourfold_bin: Path, option: str) -> None:
    command = ["sh", "-c", f'"$0" {option} >/dev/full', str(fourfold_bin)]
    assert subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 4


def test_a_pipe_without_a_reader_can_be_interrupted(fourfold_bin: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen([str(fourfold_bin), "trace", "--json-out", str(pipe)])
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == -signal.SIGTERM


def test_control_characters_of_a_path_are_not_printed(
    fourfold_bin: Path, model: Path, tmp_path: Path
) -> None:
    commands: dict[str, list[str | Path]] = {
        "--out": ["embed", model, "amber"],
        "--html": ["profile", model],
    }
    for option, command in commands.items():
        done = run(fourfold_bin, *command, option, tmp_path / "a\x1b[31mred")
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout


def test_an_output_that_cannot_be_written_is_known_before_the_work(
    fourfold_bin: Path, model: Path, tmp_path: Path
) -> None:
    for target in (tmp_path / "missing" / "x.html", tmp_path):
        done = run(fourfold_bin, "profile", model, "--html", target)
        assert done.returncode == 4
        assert done.stdout == "" and str(target) in done.stderr


def test_a_text_that_is_cut_says_so(fourfold_bin: Path, model: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("amber birch cedar amber birch cedar", encoding="ascii")
    whole = run(fourfold_bin, "profile", model, "--text", text, "--json")
    total = json.loads(whole.stdout)["text"]
    assert total["tokens"] == total["total_tokens"] > 3
    cut = run(fourfold_bin, "profile", model, "--text", text, "--max-tokens", "3")
    assert f"the text goes on to {total['total_tokens']} tokens" in cut.stdout
