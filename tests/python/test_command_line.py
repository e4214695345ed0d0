"""The command line tool as its users meet it: exit codes, messages, output, options and numbers."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from tiny_encoder import (
    D_FF,
    D_MODEL,
    MAX_POSITIONS,
    VOCAB,
    integer_layers,
    random_words,
    signs,
    tensors,
    write_tiny_encoder,
)

Json = dict[str, Any]
Done = CompletedProcess[str]
Run = Callable[..., Done]
COMMANDS = ["info", "inspect", "profile", "trace", "embed"]
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny encoder, words.txt beside it."""
    folder = write_tiny_encoder(tmp_path_factory.mktemp("cli"))
    (folder / "words.txt").write_text(" ".join(random_words(1973, 83)), encoding="ascii")
    return folder


def usual_arguments(command: str, model: Path) -> list[str]:
    """A run of each command that succeeds."""
    return {
        "info": ["info"],
        "inspect": ["inspect", str(model)],
        "profile": ["profile", str(model), "--text", str(model / "words.txt")],
        "trace": ["trace"],
        "embed": ["embed", str(model), "amber birch", "cedar"],
    }[command]


def assert_refused(done: Done, code: int, *parts: str) -> None:
    """Nothing on stdout, one line of plain text on stderr that holds all `parts`."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("fourfold: error: ")
    assert done.stderr.count("\n") == 1 and done.stderr.endswith("\n")
    assert not CONTROL.search(done.stderr), repr(done.stderr)
    for part in parts:
        assert part in done.stderr, f"{part!r} is not in {done.stderr!r}"


def parsed(done: Done, command: str) -> Json:
    assert done.returncode == 0, done.stderr
    result: Json = json.loads(done.stdout)
    assert result["schema"] == f"fourfold.{command}/1"
    return result


# ---- exit code 2: wrong usage, or not supported ------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["inspct"], ['unknown command "inspct"', 'did you mean "inspect"?']),
        (["xylophone"], ['unknown command "xylophone"', *COMMANDS]),
        (["info", "--colour"], ["--colour"]),
        (["info", "--threads", "0"], ["--threads", "1", "1024"]),
        (["info", "--threads", "two"], ["--threads", "two"]),
        (["inspect"], ["MODEL"]),
        (["trace", "--example", "huge"], ["huge", "tiny", "bert-base"]),
        (["profile", "{model}", "--decode"], ["--decode", "bert"]),
        (["profile", "{model}", "--seq-len", "2"], ["seq-len", "3", str(MAX_POSITIONS)]),
        (["profile", "{model}", "--dtype", "f16"], ["f16", "auto", "f32", "bf16"]),
        (["embed", "{model}", "--dtype", "int8", "--", "amber"], ["int8", "auto", "f32", "bf16"]),
        (["profile", "{model}", "--dead-threshold", "-1"], ["--dead-threshold"]),
        (["embed", "{model}"], ["--text"]),
        (["embed", "{model}", "--pooling", "median", "--", "amber"], ["median", "mean"]),
        (["embed", "{model}", "--max-length", "68", "--", "amber"], ["68", str(MAX_POSITIONS)]),
        (["trace", "{model}", "--layer", "2"], ["layer", "2", "0 to 1"]),
        (["--"], ["command"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_usage(run_fourfold: Run, tiny: Path, arguments: list[str], parts: list[str]) -> None:
    done = run_fourfold(*(one.replace("{model}", str(tiny)) for one in arguments))
    assert_refused(done, 2, *parts)


@pytest.mark.parametrize(
    ("env", "parts"),
    [
        ({"FOURFOLD_ISA": "bogus"}, ["bogus", "unknown instruction set", "scalar"]),
        ({"FOURFOLD_ISA": "avx512_vnni"}, ["avx512_vnni", "this build", "scalar"]),
        ({"FOURFOLD_NUM_THREADS": "many"}, ["FOURFOLD_NUM_THREADS", "many"]),
        ({"FOURFOLD_NUM_THREADS": "0"}, ["FOURFOLD_NUM_THREADS", "1024"]),
        ({"FOURFOLD_NUM_THREADS": "2x"}, ["FOURFOLD_NUM_THREADS", "2x"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("command", ["info", "trace"])
def test_wrong_environment(
    run_fourfold: Run, command: str, env: dict[str, str], parts: list[str]
) -> None:
    assert_refused(run_fourfold(command, env=env), 2, *parts)


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        ({"hidden_act": "softsign"}, ["config.json", "hidden_act", "softsign", "relu"]),
        ({"model_type": "xlnet"}, ["config.json", "model_type", "xlnet", "bert"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("command", ["inspect", "profile", "embed"])
def test_unsupported_model(
    run_fourfold: Run, tmp_path: Path, command: str, config: Json, parts: list[str]
) -> None:
    model = write_tiny_encoder(tmp_path, config)
    (model / "words.txt").write_text("amber", encoding="ascii")
    assert_refused(run_fourfold(*usual_arguments(command, model)), 2, *parts)


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_profile_of_an_empty_text(run_fourfold: Run, tiny: Path, tmp_path: Path, text: str) -> None:
    path = tmp_path / "nothing.txt"
    path.write_text(text, encoding="ascii")
    assert_refused(run_fourfold("profile", tiny, "--text", path), 2, str(path), "no tokens")


# ---- exit code 3: bad input file ----------------------------------------------------------------


def test_missing_files(run_fourfold: Run, tiny: Path, tmp_path: Path) -> None:
    missing = tmp_path / "absent"
    for command in ("inspect", "profile", "embed"):
        arguments = usual_arguments(command, tiny)
        arguments[1] = str(missing)
        assert_refused(run_fourfold(*arguments), 3, str(missing))
    assert_refused(run_fourfold("profile", tiny, "--text", missing), 3, str(missing))


@pytest.mark.parametrize("command", ["inspect", "profile", "embed"])
def test_truncated_weights(run_fourfold: Run, tmp_path: Path, command: str) -> None:
    model = write_tiny_encoder(tmp_path)
    (model / "words.txt").write_text("amber", encoding="ascii")
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-41])
    assert_refused(run_fourfold(*usual_arguments(command, model)), 3, str(weights), "rule S")


def test_tensor_of_another_shape(run_fourfold: Run, tmp_path: Path) -> None:
    weights = tensors()
    name = "encoder.layer.1.intermediate.dense.weight"
    weights[name] = np.ascontiguousarray(weights[name].T)
    model = write_tiny_encoder(tmp_path, weights=weights)
    found, expected = f"[{D_MODEL}, {D_FF}]", f"[{D_FF}, {D_MODEL}]"
    assert_refused(run_fourfold("embed", model, "amber"), 3, name, found, f"expected {expected}")


@pytest.mark.parametrize("command", ["inspect", "profile", "embed"])
def test_missing_tensor(run_fourfold: Run, tmp_path: Path, command: str) -> None:
    weights = tensors()
    name = "encoder.layer.1.intermediate.dense.weight"
    del weights[name]
    model = write_tiny_encoder(tmp_path, weights=weights)
    (model / "words.txt").write_text("amber", encoding="ascii")
    assert_refused(run_fourfold(*usual_arguments(command, model)), 3, name, "missing")


def lone_tensor(name: str, shape: list[int]) -> bytes:
    """A safetensors file of one float of data, whatever the shape says."""
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}
    header = json.dumps({name: entry}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4)


def test_messages_hold_no_control_characters(run_fourfold: Run, tmp_path: Path) -> None:
    evil = "\x1b[31mred\x07\x9b\u202e"
    assert_refused(run_fourfold("inspect", tmp_path / evil), 3, "red")
    assert_refused(run_fourfold(evil), 2, "red")
    assert_refused(run_fourfold("info", "--" + evil), 2, "red")
    path = tmp_path / f"{evil}.safetensors"
    path.write_bytes(lone_tensor(evil, [3]))
    assert_refused(run_fourfold("inspect", path), 3, "red")
    path.write_bytes(lone_tensor(evil, [1]))
    done = run_fourfold("inspect", path, "--tensors")
    assert done.returncode == 0 and "red" in done.stdout
    assert not CONTROL.search(done.stdout) and "\u202e" not in done.stdout
    listed = parsed(run_fourfold("inspect", path, "--tensors", "--json"), "inspect")["tensors"]
    assert [one["name"] for one in listed] == [evil]


# ---- exit codes 1 and 4 -------------------------------------------------------------------------


def test_nan_in_the_output(run_fourfold: Run, tmp_path: Path) -> None:
    weights = tensors()
    weights["encoder.layer.0.output.dense.weight"][3, 7] = np.nan
    model = write_tiny_encoder(tmp_path, weights=weights)
    (model / "words.txt").write_text("amber birch", encoding="ascii")
    for command in ("embed", "profile"):
        done = run_fourfold(*usual_arguments(command, model))
        assert done.returncode == 1, done.stderr
        assert done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_results_that_cannot_be_written(
    run_fourfold: Run, fourfold_bin: Path, tiny: Path, tmp_path: Path, command: str
) -> None:
    arguments = usual_arguments(command, tiny)
    nowhere = tmp_path / "absent" / "x"
    assert_refused(run_fourfold(*arguments, "--json-out", nowhere), 4, str(nowhere))
    assert not nowhere.parent.exists()
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [fourfold_bin, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 4
    assert done.stderr.startswith("fourfold: error: ") and done.stderr.count("\n") == 1
    if command == "profile":
        assert_refused(run_fourfold(*arguments, "--html", "/dev/full"), 4, "/dev/full")
    if command == "embed":
        assert_refused(run_fourfold(*arguments, "--out", nowhere), 4, str(nowhere))


# ---- what is printed ----------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_starts_with_examples(run_fourfold: Run, command: str) -> None:
    done = run_fourfold(*filter(None, [command]), "--help")
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "Examples:"
    assert sum("fourfold " + command in line for line in lines[1 : lines.index("")]) >= 3
    if not command:
        assert run_fourfold().stdout == done.stdout
        assert all(any(line.startswith(f"  {one} ") for line in lines) for one in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_one_object(run_fourfold: Run, tiny: Path, tmp_path: Path, command: str) -> None:
    arguments = usual_arguments(command, tiny)
    out = tmp_path / "out.json"
    result = parsed(run_fourfold(*arguments, "--json"), command)
    done = run_fourfold(*arguments, "--json-out", out)
    assert done.returncode == 0 and done.stderr == ""
    assert not done.stdout.startswith("{")
    assert json.loads(out.read_text(encoding="utf-8")).keys() == result.keys()
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def columns(line: str) -> int:
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in line)
    return len(line) + wide - sum(unicodedata.combining(c) > 0 for c in line)


def test_lines_fit_100_columns(run_fourfold: Run, tiny: Path, model_dir: Path) -> None:
    """Every line but the vectors of `embed`, which are data: one line each."""
    profile = usual_arguments("profile", tiny)
    runs: list[Sequence[str | Path]] = [
        ["--help"],
        *[[command, "--help"] for command in COMMANDS],
        ["info"],
        ["inspect", model_dir],
        ["inspect", model_dir, "--tensors", "--seq-len", "512"],
        ["inspect", tiny / "model.safetensors"],
        [*profile, "--layers"],
        ["profile", model_dir, "--max-tokens", "300", "--layers"],
        ["trace"],
        ["trace", "--example", "bert-base"],
        ["trace", model_dir, "--layer", "3"],
        ["trace", tiny, "--text", tiny / "words.txt"],
        ["embed", tiny, "amber", "--out", "/dev/null"],
    ]
    wide = []
    for arguments in runs:
        done = run_fourfold(*arguments)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert not CONTROL.search(done.stdout), arguments
        # The paths of this test's own folders are not the tool's to shorten.
        lines = [line for line in done.stdout.splitlines() if str(tiny.parent) not in line]
        wide += [line for line in lines if columns(line) > 100]
    assert wide == []


def on_a_terminal(program: Path, arguments: list[str], env: dict[str, str]) -> str:
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        [program, *arguments], stdout=terminal, stdin=terminal, env=env, stderr=subprocess.PIPE
    ) as running:
        os.close(terminal)
        output = b""
        try:
            while part := os.read(controller, 1 << 16):
                output += part
        except OSError:  # the terminal's other side is closed
            pass
        assert running.wait(timeout=60) == 0
    os.close(controller)
    return output.decode()


@pytest.mark.parametrize("command", ["inspect", "profile"])
def test_colours_only_on_a_terminal(fourfold_bin: Path, tiny: Path, command: str) -> None:
    arguments = usual_arguments(command, tiny)
    plain = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    plain["TERM"] = "xterm"
    assert "\x1b[" in on_a_terminal(fourfold_bin, arguments, plain)
    assert "\x1b" not in on_a_terminal(fourfold_bin, arguments, {**plain, "NO_COLOR": "1"})
    assert "\x1b" not in on_a_terminal(fourfold_bin, arguments, {**plain, "TERM": "dumb"})


@pytest.fixture(scope="module")
def german(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a locale with a decimal comma, built here where the system can."""
    folder = tmp_path_factory.mktemp("locale")
    env = {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}
    program = shutil.which("localedef")
    if program and Path("/usr/share/i18n/locales/de_DE").exists():
        place = folder / "de_DE.UTF-8"
        subprocess.run(
            [program, "-i", "de_DE", "-f", "UTF-8", place], capture_output=True, timeout=60
        )
        env["LOCPATH"] = str(folder)
    return env


def test_numbers_keep_their_point(run_fourfold: Run, tiny: Path, german: dict[str, str]) -> None:
    runs: list[list[str]] = [
        ["inspect", str(tiny)],
        ["inspect", str(tiny), "--json"],
        ["trace"],
        ["trace", "--json"],
        [*usual_arguments("embed", tiny), "--json"],
    ]
    for arguments in runs:
        done = run_fourfold(*arguments, env=german)
        assert done.returncode == 0, done.stderr
        assert done.stdout == run_fourfold(*arguments, env={"LC_ALL": "C"}).stdout
        assert re.search(r"\d\.\d", done.stdout)
    report = parsed(
        run_fourfold(*usual_arguments("profile", tiny), "--json", env=german), "profile"
    )
    assert isinstance(report["layers"][0]["time_ms"]["expand"], float)
    done = run_fourfold(*usual_arguments("profile", tiny), "--dead-threshold", "0.5", env=german)
    assert done.returncode == 0, done.stderr


def test_a_reader_that_stops_early(fourfold_bin: Path, tiny: Path, tmp_path: Path) -> None:
    """`| head -c 10`: more output than a pipe holds, no complaint."""
    lines = tmp_path / "lines.txt"
    lines.write_text("amber birch\n" * 4001, encoding="ascii")
    with subprocess.Popen(
        [fourfold_bin, "embed", tiny, "--text", lines],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        assert len(running.stdout.read(10)) == 10
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(timeout=60) in (0, -signal.SIGPIPE)


# ---- texts, ids, threads ------------------------------------------------------------------------


def vectors(done: Done) -> Any:
    return parsed(done, "embed")["embeddings"]


def test_embed_takes_texts_as_they_are(run_fourfold: Run, tiny: Path, tmp_path: Path) -> None:
    texts = ["amber birch", "", "cedar delta rare", "[amber, birch]", "info", "--", "[UNK]"]
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(texts) + "\n", encoding="ascii")
    expected = vectors(run_fourfold("embed", tiny, "--json", "--text", lines))
    assert len(expected) == len(texts) and len(expected[0]) == D_MODEL
    assert vectors(run_fourfold("embed", tiny, "--json", "--", *texts)) == expected
    piped = run_fourfold("embed", tiny, "--json", "--text", "-", stdin="\n".join(texts))
    assert vectors(piped) == expected
    crlf = run_fourfold("embed", tiny, "--json", "--text", "-", stdin="\r\n".join(texts))
    assert vectors(crlf) == expected
    # Without "--": brackets and names of commands are text, too.
    assert vectors(run_fourfold("embed", tiny, "[amber, birch]", "info", "--json")) == expected[3:5]
    assert vectors(run_fourfold("embed", tiny, "--json", "--text", "-", stdin="")) == []


def test_profile_and_trace_read_stdin_and_ids(
    run_fourfold: Run, tiny: Path, tmp_path: Path
) -> None:
    words = random_words(1979, 29)
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join(str(VOCAB.index(word)) for word in words), encoding="ascii")
    text = parsed(
        run_fourfold("profile", tiny, "--json", "--text", "-", stdin=" ".join(words)), "profile"
    )
    by_id = parsed(run_fourfold("profile", tiny, "--json", "--ids", ids), "profile")
    assert text["text"]["tokens"] == by_id["text"]["tokens"] == len(words)
    for field in ("sparsity", "firing_rate_histogram", "top_neurons"):
        assert [one[field] for one in text["layers"]] == [one[field] for one in by_id["layers"]]
    done = run_fourfold(
        "trace", tiny, "--text", "-", "--token", "7", "--json", stdin=" ".join(words)
    )
    rows = signs([0, *(VOCAB.index(word) for word in words)])
    assert parsed(done, "trace")["x"] == integer_layers()[0].x(rows)[8].tolist()


def test_ids_that_are_none(run_fourfold: Run, tiny: Path) -> None:
    for ids, part in (("7 amber", "amber"), ("7 -1", "-1"), ("7 31", "31"), ("99999999999", "999")):
        assert_refused(run_fourfold("profile", tiny, "--ids", "-", stdin=ids), 2, part)


def thread_count(done: Done) -> tuple[int, str]:
    threads = parsed(done, "info")["threads"]
    return threads["count"], threads["reason"]


def test_threads_and_why(run_fourfold: Run, fourfold_bin: Path) -> None:
    env = {key: value for key, value in os.environ.items() if key != "FOURFOLD_NUM_THREADS"}
    cpu = min(os.sched_getaffinity(0))
    pinned = subprocess.run(
        ["taskset", "-c", str(cpu), fourfold_bin, "info", "--json"],
        capture_output=True, text=True, env=env, timeout=60,
    )  # fmt: skip
    count, reason = thread_count(pinned)
    assert count == 1 and "affinity" in reason
    count, reason = thread_count(run_fourfold("info", "--json", env={"FOURFOLD_NUM_THREADS": "3"}))
    assert count == 3 and "FOURFOLD_NUM_THREADS" in reason
    both = run_fourfold("info", "--json", "--threads", "5", env={"FOURFOLD_NUM_THREADS": "3"})
    count, reason = thread_count(both)
    assert count == 5 and "asked for" in reason
    assert "5 (asked for)" in run_fourfold("info", "--threads", "5").stdout
