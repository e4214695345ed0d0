"""`fourfold learn`: every generated question is computed a second time from its parameters, cards
keep their schedule, wrong answers are explained, damaged files are left alone."""

import json
import math
import os
import pty
import re
import select
import signal
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

Json = dict[str, Any]
Run = Callable[..., subprocess.CompletedProcess[str]]
LESSON: Json = json.loads(
    (Path(__file__).resolve().parents[2] / "data/lesson.json").read_text(encoding="ascii")
)
BYTES = {"f32": 4, "f16": 2, "bf16": 2, "int8": 1}


# ---- the quiz, computed a second time ----------------------------------------------------------


def expert_weights(p: Json) -> int:
    gated = p["kind"] == "gated" or bool(p.get("gated_experts"))
    return (3 if gated else 2) * p["d_model"] * p["d_ff"]


def stored(p: Json) -> int:
    if p["kind"] == "moe":
        return p["n_experts"] * (expert_weights(p) + p["d_model"])
    matrices = 3 if p["kind"] == "gated" else 2
    biases = (matrices - 1) * p["d_ff"] + p["d_model"] if p.get("bias") else 0
    return expert_weights(p) + biases


def used(p: Json) -> int:
    if p["kind"] == "moe":
        return p["top_k"] * expert_weights(p) + p["n_experts"] * p["d_model"]
    return expert_weights(p)


def share(p: Json) -> float:
    queries = p["d_model"] * p["n_heads"] * p["head_dim"]
    keys = p["d_model"] * p["n_kv_heads"] * p["head_dim"]
    return float(Fraction(100 * stored(p), stored(p) + 2 * queries + 2 * keys))


def leverage(p: Json) -> float:
    part = Fraction(p["ffn_percent"], 100)
    return float(1 - part + part * (p["top_k"] if p["measure"] == "work" else p["n_experts"]))


def phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


ACTIVATIONS: dict[str, Callable[[float], float]] = {
    "identity": lambda x: x,
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * phi(x),
    "silu": lambda x: x / (1 + math.exp(-x)),
}


def unit(p: Json) -> float:
    pre = math.fsum([a * b for a, b in zip(p["x"], p["w"], strict=True)] + [p["bias"]])
    return ACTIVATIONS[p["activation"]](pre)


def tiny_ffn(p: Json) -> float:
    x = p["x"]
    d_ff, d_model = len(p["up_bias"]), len(x)
    hidden = [
        max(sum(p["up"][i * d_model + j] * x[j] for j in range(d_model)) + p["up_bias"][i], 0)
        for i in range(d_ff)
    ]
    row = p["down"][p["index"] * d_ff : (p["index"] + 1) * d_ff]
    return sum(w * h for w, h in zip(row, hidden, strict=True)) + p["down_bias"][p["index"]]


def normalised(p: Json) -> float:
    mean = Fraction(int(sum(p["x"])), len(p["x"]))
    variance = sum((Fraction(int(x)) - mean) ** 2 for x in p["x"]) / len(p["x"])
    return float(Fraction(int(p["x"][p["index"]])) - mean) / math.sqrt(float(variance) + p["eps"])


def routed(p: Json) -> float:
    powers = [math.exp(logit) for logit in p["logits"]]
    best = sorted(powers, reverse=True)[: p["top_k"]]
    return best[p["rank"]] / (sum(best) if p["renormalize"] else sum(powers))


def balance(p: Json) -> float:
    total = sum(p["load"])
    if p["measure"] == "max_over_mean":
        return max(p["load"]) * len(p["load"]) / total
    shares = [load / total for load in p["load"] if load > 0]
    return -sum(s * math.log(s) for s in shares) / math.log(len(p["load"]))


EXACT: dict[str, Callable[[Json], int]] = {
    "dense_parameters": stored,
    "gated_parameters": stored,
    "moe_parameters": stored,
    "moe_active_parameters": used,
    "forward_macs": used,
    "forward_flops": lambda p: 2 * p["tokens"] * used(p),
    "backward_flops": lambda p: 4 * p["tokens"] * used(p),
    "equal_size": lambda p: (
        math.ceil(Fraction(8 * p["d_model"], 3 * p["multiple"])) * p["multiple"]
    ),
    "weight_bytes": lambda p: p["n_layers"] * stored(p) * BYTES[p["dtype"]],
    "ffn_output": lambda p: int(tiny_ffn(p)),
}
REAL: dict[str, Callable[[Json], float]] = {
    "ffn_share": share,
    "moe_leverage": leverage,
    "hidden_unit": unit,
    "layer_norm": normalised,
    "router_weight": routed,
    "expert_balance": balance,
}


def check_question(question: Json) -> None:
    """The answer is what an independent computation gives."""
    kind, p, answer = question["kind"], question["parameters"], question["answer"]
    assert question["question"].endswith("?") or kind == "choice"
    assert question["working"] and question["sources"]
    if kind in EXACT:
        assert answer == EXACT[kind](p), question
        assert question["tolerance"] == 0
        assert f"{answer:,.0f}" in question["working"], question
    elif kind in REAL:
        assert abs(answer - REAL[kind](p)) < 2e-6 * max(1, abs(answer)), question
        assert 0 < question["tolerance"] < 0.1
        written = [
            float(n.replace(",", "")) for n in re.findall(r"-?[\d,]*\.\d+", question["working"])
        ]
        whole = [float(n) for n in re.findall(r"-?\d+(?![\d.])", question["working"])]
        near = [n for n in written + whole if abs(n - answer) <= 0.006]
        assert near, question
    elif kind == "which_activation":
        right = [
            name
            for name in question["options"]
            if all(
                abs(ACTIVATIONS[name](x) - y) <= 5.1e-5 for x, y in zip(p["x"], p["y"], strict=True)
            )
        ]
        assert right == [question["options"]["abcd".index(answer)]], question
    else:
        assert kind == "choice"
        [source] = [one for one in LESSON["choices"] if one["id"] == p["id"]]
        assert sorted(question["options"]) == sorted(source["options"])
        assert question["options"]["abcd".index(answer)] == source["options"][source["answer"]]
        assert question["working"] == source["explanation"]


def quiz(run_fourfold: Run, *arguments: str) -> Json:
    done = run_fourfold("learn", "quiz", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    result: Json = json.loads(done.stdout)
    assert result["schema"] == "fourfold.learn-quiz/1"
    return result


def test_ten_thousand_generated_questions(run_fourfold: Run) -> None:
    questions = quiz(run_fourfold, "--count", "10000", "--seed", "7", "--kind", "generated")
    questions = questions["questions"]
    assert len(questions) == 10000
    for question in questions:
        check_question(question)
    kinds = {question["kind"] for question in questions}
    assert kinds == {*EXACT, *REAL, "which_activation"}
    assert len({question["question"] for question in questions}) > 7500


def test_every_kind_of_a_mixed_quiz(run_fourfold: Run) -> None:
    questions = quiz(run_fourfold, "--count", "500", "--seed", "7")["questions"]
    for question in questions:
        check_question(question)
    assert {q["kind"] for q in questions} == {*EXACT, *REAL, "which_activation", "choice"}
    chosen = {q["parameters"]["id"] for q in questions if q["kind"] == "choice"}
    assert chosen == {one["id"] for one in LESSON["choices"]}


def test_right_answers_score_in_full(run_fourfold: Run) -> None:
    questions = quiz(run_fourfold, "--count", "40", "--seed", "5")["questions"]
    answers = [
        f"{q['answer']:,}" if isinstance(q["answer"], int) else str(q["answer"]) for q in questions
    ]
    done = run_fourfold("learn", "quiz", "--count", "40", "--seed", "5", stdin="\n".join(answers))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("Score: 40 of 40 right (100.00 %)\n")
    assert "Wrong" not in done.stdout
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


@pytest.mark.parametrize("answer", ["1", "banana", ""])
def test_a_wrong_answer_shows_the_arithmetic(run_fourfold: Run, answer: str) -> None:
    arguments = ("--count", "1", "--seed", "3", "--kind", "dense_parameters")
    [question] = quiz(run_fourfold, *arguments)["questions"]
    done = run_fourfold("learn", "quiz", *arguments, stdin=answer + "\n")
    assert done.returncode == 0
    shown = " ".join(done.stdout.split())
    assert f"it is {question['answer']:,} parameters." in shown
    assert " ".join(question["working"].split()) in shown
    assert "Score: 0 of 1 right" in shown


def test_answers_that_end_early(run_fourfold: Run) -> None:
    done = run_fourfold("learn", "quiz", "--count", "3", "--seed", "3")
    assert done.returncode == 0
    assert "The answers end after 0 of 3." in done.stdout
    assert done.stdout.endswith("Score: 0 of 0 right\n")


# ---- cards -------------------------------------------------------------------------------------


class Terminal:
    """A command whose standard streams are a terminal."""

    def __init__(self, command: list[str]) -> None:
        self.process, self.descriptor = pty.fork()
        if self.process == 0:
            # A job in the background inherits an ignored Ctrl-C.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.execve(command[0], command, {**os.environ, "TERM": "xterm"})
        self.text, self.read = "", 0

    def read_until(self, part: str) -> None:
        """Reads until `part` comes after what was asked for before."""
        while (at := self.text.find(part, self.read)) < 0:
            ready, _, _ = select.select([self.descriptor], [], [], 60)
            assert ready, f"{part!r} does not come after {self.text[: self.read]!r}"
            self.text += os.read(self.descriptor, 65536).decode()
        self.read = at + len(part)

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def end(self) -> int:
        try:
            while select.select([self.descriptor], [], [], 60)[0]:
                self.text += os.read(self.descriptor, 65536).decode()
            os.kill(self.process, signal.SIGKILL)  # it should have ended long ago
        except OSError:
            pass
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def cards_json(run_fourfold: Run, *arguments: str | Path) -> Json:
    done = run_fourfold("learn", "cards", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    result: Json = json.loads(done.stdout)
    return result


def test_cards_come_back_when_due(fourfold_bin: Path, run_fourfold: Run, tmp_path: Path) -> None:
    state = tmp_path / "new folder" / "cards.json"
    common = ["--state", str(state), "--date", "2026-03-01"]
    terminal = Terminal([str(fourfold_bin), "learn", "cards", "--count", "3", *common])
    for card, grade in zip(LESSON["cards"], ["easy", "3", "again"], strict=False):
        terminal.read_until(card["question"])
        terminal.type("\n")
        terminal.read_until("0 to 5)> ")
        terminal.type(f"{grade}\n")
        terminal.read_until("back on 2026-03-02, in 1 day")
    terminal.read_until("Once more")  # graded 3, below 4
    terminal.type("\n")
    terminal.read_until("0 to 5)> ")
    terminal.type("wat\n")
    terminal.read_until("0 to 5)> ")
    terminal.type("good\n")
    terminal.read_until("Once more")  # graded again
    terminal.type("q\n")
    assert terminal.end() == 0
    assert "3 cards graded" in terminal.text and "due on 2026-03-02" in terminal.text

    ids = [card["id"] for card in LESSON["cards"]]
    saved = json.loads(state.read_text(encoding="utf-8"))
    assert saved["schema"] == "fourfold.cards/1"
    assert list(saved["cards"]) == sorted(ids[:3])
    assert saved["cards"][ids[0]] == {
        "repetitions": 1, "interval_days": 1, "easiness": 2.6, "due": "2026-03-02",
    }  # fmt: skip
    assert saved["cards"][ids[1]]["easiness"] == pytest.approx(2.36)
    assert saved["cards"][ids[2]]["repetitions"] == 0

    same_day = cards_json(run_fourfold, *common)
    assert same_day["schema"] == "fourfold.learn-cards/1"
    assert [card["id"] for card in same_day["cards"]] == ids[3:]
    next_day = cards_json(run_fourfold, "--state", state, "--date", "2026-03-02")["cards"]
    assert [card["id"] for card in next_day] == ids
    assert len(cards_json(run_fourfold, *common, "--all")["cards"]) == len(ids)


def test_interrupted_cards_keep_what_was_graded(fourfold_bin: Path, tmp_path: Path) -> None:
    state = tmp_path / "cards.json"
    terminal = Terminal([str(fourfold_bin), "learn", "cards", "--state", str(state)])
    terminal.read_until("?")
    terminal.type("\n")
    terminal.read_until("0 to 5)> ")
    terminal.type("g\n")
    terminal.read_until("back on")
    terminal.type("\x03")
    assert terminal.end() == -signal.SIGINT  # 130 in a shell
    assert len(json.loads(state.read_text(encoding="utf-8"))["cards"]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["cards.json"]


def test_without_a_terminal_cards_are_listed(run_fourfold: Run, tmp_path: Path) -> None:
    for arguments in ([], ["--list"]):
        done = run_fourfold("learn", "cards", *arguments, env={"XDG_DATA_HOME": str(tmp_path)})
        assert done.returncode == 0, done.stderr
        assert all(card["id"] + "  (new)" in done.stdout for card in LESSON["cards"])
        assert all(len(line) <= 100 for line in done.stdout.splitlines())
    assert list(tmp_path.iterdir()) == []


def test_where_the_state_is(run_fourfold: Run, tmp_path: Path) -> None:
    card = LESSON["cards"][4]["id"]
    review = {"repetitions": 1, "interval_days": 1, "easiness": 2.5, "due": "2999-01-01"}
    text = json.dumps({"schema": "fourfold.cards/1", "cards": {card: review}})
    for env, place in [
        ({"XDG_DATA_HOME": str(tmp_path / "data")}, "data/fourfold"),
        ({"XDG_DATA_HOME": "relative", "HOME": str(tmp_path)}, ".local/share/fourfold"),
    ]:
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "cards.json").write_text(text, encoding="ascii")
        done = run_fourfold("learn", "cards", env=env)
        assert done.returncode == 0, done.stderr
        assert card + "  (" not in done.stdout


def test_a_damaged_state_is_refused_and_kept(run_fourfold: Run, tmp_path: Path) -> None:
    state = tmp_path / "cards.json"
    state.write_text('{"schema": "fourfold.cards/1", "cards": {', encoding="ascii")
    done = run_fourfold("learn", "cards", "--state", state)
    assert done.returncode == 3
    assert done.stdout == "" and done.stderr.count("\n") == 1
    for part in (str(state), "byte", "move it away"):
        assert part in done.stderr
    assert state.read_text(encoding="ascii").endswith('"cards": {')


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["cards", "--date", "2026-02-30"], "2026-02-30"),
        (["cards", "--date", "tomorrow"], "tomorrow"),
        (["quiz", "--kind", "riddle"], "layer_norm"),
        (["quiz", "--count", "0"], "--count"),
        (["map", "quark"], "mixture-of-experts"),
        (["explain", "--level", "pirate"], "hinglish"),
        (["sing"], "sing"),
    ],
)
def test_wrong_usage(run_fourfold: Run, arguments: list[str], part: str) -> None:
    done = run_fourfold("learn", *arguments)
    assert done.returncode == 2
    assert done.stdout == "" and part in done.stderr and done.stderr.count("\n") == 1


# ---- map, explanations, mistakes, help ---------------------------------------------------------


def test_map_links_lead_somewhere(run_fourfold: Run) -> None:
    done = run_fourfold("learn", "map", "--json")
    concepts = {one["id"]: one for one in json.loads(done.stdout)["concepts"]}
    assert set(concepts) == {one["id"] for one in LESSON["concepts"]}
    for one in concepts.values():
        assert all(one["id"] in concepts[link]["linked_from"] for link in one["links"])
        assert all(one["id"] in concepts[link]["links"] for link in one["linked_from"])
    tree = run_fourfold("learn", "map").stdout
    assert all(f"[{name}]" in tree for name in concepts)
    for name in ("moe", "router"):
        shown = run_fourfold("learn", "map", name)
        assert shown.returncode == 0 and "Leads to" in shown.stdout


@pytest.mark.parametrize("level", ["engineer", "twelve", "hinglish"])
def test_explanations(run_fourfold: Run, level: str) -> None:
    [content] = [one for one in LESSON["explanations"] if one["level"] == level]
    done = run_fourfold("learn", "explain", "--level", level)
    assert done.returncode == 0
    shown = " ".join(done.stdout.split())
    assert all(paragraph in shown for paragraph in [content["title"], *content["paragraphs"]])
    assert all(len(line) <= 100 for line in done.stdout.splitlines())
    as_json = json.loads(run_fourfold("learn", "explain", "--level", level, "--json").stdout)
    assert as_json["paragraphs"] == content["paragraphs"]


def test_mistakes_fail(run_fourfold: Run) -> None:
    done = run_fourfold("learn", "mistakes", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["schema"] == "fourfold.learn-mistakes/1"
    flattened, rows = result["flattened"], result["ratio"]["rows"]
    assert flattened["ffn"] == flattened["ffn_shuffled"]
    assert flattened["network"] != flattened["network_shuffled"]
    assert flattened["ffn_leak"] == 0 and flattened["network_leak"] > 0
    assert "expected [1, 12]" in flattened["one_token_more"]
    assert [row["ratio"] for row in rows] == [0.5, 1, 2, 4, 8, 16]
    assert rows[0]["output_dimensions"] == 4
    text = run_fourfold("learn", "mistakes").stdout
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize("part", [[], ["cards"], ["quiz"], ["map"], ["explain"], ["mistakes"]])
def test_help_starts_with_three_examples(run_fourfold: Run, part: list[str]) -> None:
    done = run_fourfold("learn", *part, "--help")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "Examples:"
    assert all(line.startswith("  fourfold learn") for line in lines[1:4]) and lines[4] == ""
    assert all(len(line) <= 100 for line in lines)
