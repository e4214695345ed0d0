"""The statistics of `profile` against their definitions, computed here by other means.

Tiny encoder: everything is a whole number, so every field must agree exactly. MiniLM: the values
come from transformers, and each bound says how many of them rounding could move.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_encoder import (
    CLS,
    D_FF,
    DEAD,
    LOUD,
    MAX_POSITIONS,
    N_LAYERS,
    ONCE,
    SEP,
    TWINS,
    VOCAB,
    integer_layers,
    random_words,
    signs,
    tensors,
    write_tiny_encoder,
)

Json = dict[str, Any]
Array = NDArray[Any]
Run = Callable[..., CompletedProcess[str]]
SAMPLE = Path(__file__).resolve().parents[2] / "data/sample_text.txt"
WORD_COUNT = 211


def profile(run: Run, model: Path, *arguments: str | Path, **settings: Any) -> Json:
    done = run("profile", model, "--json", *arguments, **settings)
    assert done.returncode == 0, done.stderr
    report: Json = json.loads(done.stdout)
    assert report["schema"] == "fourfold.profile/1"
    return report


def detected_isas(run: Run) -> list[str]:
    return list(json.loads(run("info", "--json").stdout)["isa"]["detected"])


# ---- tiny encoder: exact ------------------------------------------------------------------------


class Counted:
    """The counted tokens of a text in order: ids, positions (None: added), rows of signs."""

    def __init__(self, ids: list[int], seq_len: int, special: bool, max_tokens: int) -> None:
        self.ids: list[int] = []
        self.positions: list[int | None] = []
        self.windows = 0
        rows = []
        first = 0
        while first < len(ids) and len(self.ids) < max_tokens:
            room = max_tokens - len(self.ids) - (2 if special else 0)
            part = ids[first : first + min(seq_len - 2, room)]
            window = [CLS, *part, SEP]
            places = [None, *range(first, first + len(part)), None]
            inside = slice(None) if special else slice(1, -1)
            self.ids += window[inside]
            self.positions += places[inside]
            rows.append(signs(window)[inside])
            first += len(part)
            self.windows += 1
        self.rows = np.vstack(rows)


def truncated(value: float) -> float:
    """The float of the upper 16 bits."""
    bits = np.array([value], dtype=np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return float(bits.view(np.float32)[0])


def strongest(hidden: Array, count: int) -> list[int]:
    """Indices of the largest |h|, ties to the earlier."""
    return sorted(range(len(hidden)), key=lambda t: (-abs(hidden[t]), t))[:count]


def energy_99(energy: Array) -> float | None:
    shares = []
    for row in energy.tolist():
        total = sum(row)
        if total == 0:
            continue
        reached = 0
        for count, part in enumerate(sorted(row, reverse=True), start=1):
            reached += part
            if 100 * reached >= 99 * total:
                shares.append(count)
                break
    return sum(shares) / (len(shares) * D_FF) if shares else None


def expected_layer(layer: int, counted: Counted) -> Json:
    weights = integer_layers()[layer]
    pre = weights.pre(counted.rows)
    hidden = np.maximum(pre, 0)
    tokens = len(hidden)
    fires = (pre > 0).sum(axis=0)
    histogram = [0] * 21
    for count in fires.tolist():
        # 0, or the smallest k with rate <= k / 20.
        histogram[next(k for k in range(21) if 20 * count <= k * tokens)] += 1
    energy = hidden**2 * (weights.down**2).sum(axis=0)
    sums = energy.sum(axis=0)
    top = sorted(range(D_FF), key=lambda i: (-sums[i], i))[:10]
    dead = np.flatnonzero(fires == 0).tolist()
    return {
        "sparsity": {
            "exact_zero": int((hidden == 0).sum()) / hidden.size,
            "below_1e-3_of_max": int((1000 * hidden <= hidden.max(axis=1)[:, None]).sum())
            / hidden.size,
            "energy_99": energy_99(energy),
        },
        "dead_neurons": {"count": len(dead), "tokens_seen": tokens, "indices": dead},
        "firing_rate_histogram": histogram,
        "top_neurons": [
            {
                "neuron": i,
                "mean_energy": int(sums[i]) / tokens,
                "tokens": [
                    {
                        "token": counted.ids[t],
                        "position": counted.positions[t],
                        "value": int(hidden[t, i]),
                    }
                    for t in strongest(hidden[:, i], 5)
                ],
            }
            for i in top
        ],
        "outliers": {
            "max_abs": int(hidden.max()),
            "median_abs": truncated(float(np.sort(hidden, axis=None)[(hidden.size - 1) // 2])),
        },
    }


def statistics(layer: Json) -> Json:
    """The fields of a reported layer that a text alone decides."""
    fields = ["sparsity", "dead_neurons", "firing_rate_histogram", "outliers", "top_neurons"]
    return {name: layer[name] for name in fields}


def assert_exact(report: Json, counted: Counted) -> None:
    assert report["text"]["tokens"] == len(counted.ids)
    assert report["text"]["windows"] == counted.windows
    assert len(report["layers"]) == N_LAYERS
    for index, layer in enumerate(report["layers"]):
        expected = expected_layer(index, counted)
        found = statistics(layer)
        for name in ("exact_zero", "below_1e-3_of_max", "energy_99"):
            assert found["sparsity"][name] == pytest.approx(
                expected["sparsity"][name], rel=1e-15
            ), f"layer {index}: {name}"
        for name in ("dead_neurons", "firing_rate_histogram", "outliers"):
            assert found[name] == expected[name], f"layer {index}: {name}"
        for ours, wanted in zip(found["top_neurons"], expected["top_neurons"], strict=True):
            assert ours["neuron"] == wanted["neuron"], f"layer {index}"
            assert ours["mean_energy"] == pytest.approx(wanted["mean_energy"], rel=1e-15)
            tokens = [{key: t[key] for key in wanted["tokens"][0]} for t in ours["tokens"]]
            assert tokens == wanted["tokens"], f"layer {index}, neuron {ours['neuron']}"


@pytest.fixture(scope="module")
def words() -> list[str]:
    return random_words(1949, WORD_COUNT)


@pytest.fixture(scope="module")
def word_ids(words: list[str]) -> list[int]:
    return [VOCAB.index(word) for word in words]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> Path:
    """The tiny encoder with words.txt beside it."""
    folder = write_tiny_encoder(tmp_path_factory.mktemp("tiny"))
    (folder / "words.txt").write_text(" ".join(words), encoding="ascii")
    return folder


@pytest.fixture(scope="module")
def profile_words(run_fourfold: Run, tiny: Path) -> Callable[..., Json]:
    return partial(profile, run_fourfold, tiny, "--text", tiny / "words.txt")


@pytest.mark.parametrize(
    ("options", "seq_len", "special", "max_tokens"),
    [
        ([], MAX_POSITIONS, False, 4096),
        (["--seq-len", "19"], 19, False, 4096),
        (["--seq-len", "19", "--batch", "3"], 19, False, 4096),
        (["--seq-len", "19", "--count-special"], 19, True, 4096),
        (["--seq-len", "19", "--count-special", "--batch", "5"], 19, True, 4096),
        (["--seq-len", "19", "--max-tokens", "103"], 19, False, 103),
        (["--seq-len", "3", "--max-tokens", "7", "--threads", "3"], 3, False, 7),
    ],
    ids=lambda value: " ".join(value) or "default" if isinstance(value, list) else None,
)
def test_every_statistic_is_exact(
    profile_words: Callable[..., Json],
    word_ids: list[int],
    options: list[str],
    seq_len: int,
    special: bool,
    max_tokens: int,
) -> None:
    assert_exact(profile_words(*options), Counted(word_ids, seq_len, special, max_tokens))


def test_the_tiny_text_is_not_trivial(word_ids: list[int]) -> None:
    """The exact comparison would prove little if no neuron were dead, equal or loud."""
    counted = Counted(word_ids, 19, False, 4096)
    first, second = (expected_layer(i, counted) for i in range(N_LAYERS))
    assert counted.windows == 13 and len(counted.ids) == WORD_COUNT
    assert DEAD in first["dead_neurons"]["indices"]
    assert ONCE not in first["dead_neurons"]["indices"]
    assert (integer_layers()[0].pre(counted.rows)[:, ONCE] > 0).sum() == 1
    assert set(TWINS) <= {top["neuron"] for top in second["top_neurons"]}
    assert LOUD not in {top["neuron"] for top in second["top_neurons"]}
    hidden = np.maximum(integer_layers()[1].pre(counted.rows), 0)
    assert ((1000 * hidden == hidden.max(axis=1)[:, None]) & (hidden > 0)).any()
    assert second["sparsity"]["below_1e-3_of_max"] > second["sparsity"]["exact_zero"] > 0.2
    assert sum(count > 0 for count in first["firing_rate_histogram"]) >= 6


def test_dead_and_fired_once(profile_words: Callable[..., Json], words: list[str]) -> None:
    layer = profile_words("--layers")["layers"][0]
    dead = layer["dead_neurons"]
    assert DEAD in dead["indices"]
    assert ONCE not in dead["indices"]
    assert dead["count"] == len(dead["indices"]) == layer["firing_rate_histogram"][0]
    assert dead["tokens_seen"] == len(words)


def test_instruction_sets_and_threads_give_the_same_statistics(
    run_fourfold: Run, tiny: Path
) -> None:
    found = [
        [
            statistics(layer)
            for layer in profile(
                run_fourfold, tiny, "--text", tiny / "words.txt", "--threads", threads,
                env={"FOURFOLD_ISA": isa},
            )["layers"]
        ]
        for isa in detected_isas(run_fourfold)
        for threads in ("1", "2")
    ]  # fmt: skip
    assert len(found) >= 2
    assert all(one == found[0] for one in found)


def test_token_ids_count_like_their_text(
    run_fourfold: Run, tiny: Path, word_ids: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "ids.txt"
    path.write_text(", ".join(map(str, word_ids[:50])) + "\n" + " ".join(map(str, word_ids[50:])))
    report = profile(run_fourfold, tiny, "--ids", path, "--seq-len", "19")
    assert_exact(report, Counted(word_ids, 19, False, 4096))


def test_threshold_for_activations_that_never_rest(
    run_fourfold: Run, tiny: Path, tmp_path: Path, words: list[str], word_ids: list[int]
) -> None:
    """With GELU no neuron is dead by itself; with a threshold those at or under it always are."""
    model = write_tiny_encoder(tmp_path, {"hidden_act": "gelu"})
    text = tiny / "words.txt"
    assert [one["dead_neurons"] for one in profile(run_fourfold, model, "--text", text)["layers"]] \
        == [None] * N_LAYERS  # fmt: skip
    report = profile(run_fourfold, model, "--text", text, "--dead-threshold", "0.2")
    assert report["dead_threshold"] == 0.2
    # GELU stays within 0.17 of 0 below 0, and gives at least 0.84 from 1 on.
    pre = integer_layers()[0].pre(Counted(word_ids, MAX_POSITIONS, False, 4096).rows)
    quiet = np.flatnonzero((pre <= 0).all(axis=0)).tolist()
    assert DEAD in quiet
    assert report["layers"][0]["dead_neurons"] == {
        "count": len(quiet),
        "tokens_seen": len(words),
        "indices": quiet,
    }


# ---- report ------------------------------------------------------------------------------------


def assert_times(report: Json) -> None:
    stages = [
        value
        for layer in report["layers"]
        for value in layer["time_ms"].values()
        if value is not None
    ]
    totals = report["totals"]
    assert all(value >= 0 for value in stages)
    # The promise is 3 %.
    assert sum(stages) + totals["outside_layers_ms"] == pytest.approx(
        totals["forward_ms"], rel=0.03
    )
    ffn = sum(one["time_ms"]["expand"] + one["time_ms"]["contract"] for one in report["layers"])
    assert totals["ffn_time_share"] == pytest.approx(ffn / totals["forward_ms"], rel=1e-6)


def test_fields_of_the_report(profile_words: Callable[..., Json]) -> None:
    report = profile_words("--threads", "2", "--seq-len", "19")
    assert_times(report)
    busy = report["machine"]["threads_busy_wait"]
    assert report["machine"]["threads"] == 2 == len(busy)
    assert all(one["busy_s"] >= 0 and one["wait_s"] >= 0 for one in busy)
    assert report["machine"]["peak_gflops"]["f32"] > 0 < report["machine"]["read_gbs"]
    assert report["pass_seconds"]["timing"] > 0 < report["pass_seconds"]["statistics"]
    assert report["totals"]["tokens_per_s"] > 0
    for index, layer in enumerate(report["layers"]):
        assert layer["index"] == index
        assert layer["kind"] == "dense" and layer["activation"] == "relu"
        assert layer["share_of_limit"] > 0
        assert layer["experts"] is None
        assert [layer["time_ms"][stage] for stage in ("router", "gather", "combine")] == [None] * 3
        assert sum(layer["firing_rate_histogram"]) == D_FF


def test_an_output_with_nan_is_a_finding(run_fourfold: Run, tiny: Path, tmp_path: Path) -> None:
    weights = tensors()
    weights["encoder.layer.1.output.dense.weight"][4, 11] = np.nan
    model = write_tiny_encoder(tmp_path, weights=weights)
    done = run_fourfold("profile", model, "--text", tiny / "words.txt", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["finite"] is False


# ---- MiniLM against transformers ----------------------------------------------------------------

# Rounding of float32 in two orders of summation stays below this in pre and hidden values.
NEAR = 1e-5


class MiniLM:
    """Our report and the reference's pre and hidden values of the same counted tokens."""

    def __init__(self, run: Run, model_dir: Path) -> None:
        from reference_encoder import ReferenceEncoder

        self.report = profile(run, model_dir, "--text", SAMPLE)
        reference = ReferenceEncoder(model_dir)
        text = SAMPLE.read_text(encoding="utf-8")
        cls, sep = reference.tokenizer.cls_token_id, reference.tokenizer.sep_token_id
        ids = reference.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"][:4096]
        self.tokens = len(ids)
        self.windows = [ids[first : first + 510] for first in range(0, len(ids), 510)]
        with reference.watch_ffns() as seen:
            for window in self.windows:
                reference.last_hidden([cls, *window, sep])
        self.pre = [np.vstack([part[1:-1] for part in values.pre]) for values in seen]
        self.hidden = [np.vstack([part[1:-1] for part in values.hidden]) for values in seen]
        self.down = [
            layer.output.dense.weight.detach().numpy().astype(np.float64)
            for layer in reference.model.encoder.layer
        ]
        self.ids = ids


@pytest.fixture(scope="module")
def minilm(run_fourfold: Run, model_dir: Path) -> MiniLM:
    return MiniLM(run_fourfold, model_dir)


def rate_bins(fires: Array, tokens: int) -> Array:
    return -(-20 * fires // tokens)


def check_firings(layer: Json, pre: Array, hidden: Array) -> str:
    tokens = len(pre)
    fires, near = (pre > 0).sum(axis=0), (np.abs(pre) <= NEAR).sum(axis=0)
    # Only values within NEAR of 0 may fire on one side and not on the other.
    ours = layer["mean_firing_rate"] * pre.size
    off = abs(round(ours) - int(fires.sum()))
    assert off <= near.sum()
    # A neuron may stand in any bin that its rate reaches when those values turn.
    above, below = (
        ((pre > 0) & (pre <= NEAR)).sum(axis=0),
        ((pre <= 0) & (pre >= -NEAR)).sum(axis=0),
    )
    low, high = rate_bins(fires - above, tokens), rate_bins(fires + below, tokens)
    for index, count in enumerate(layer["firing_rate_histogram"]):
        certain = int(((low == index) & (high == index)).sum())
        possible = int(((low <= index) & (index <= high)).sum())
        assert certain <= count <= possible, f"bin {index}"
    return f"fires {fires.sum()} off by {off} of {near.sum()} near, {(low < high).sum()} may move"


def check_small_values(layer: Json, pre: Array, hidden: Array) -> str:
    # The reference's GELU is 0 already from -5.4 on, where 1 + erf rounds to 0 (a result of 1e-7),
    # so its zeros are no oracle. The function itself stays above the smallest normal float down to
    # -13, and below half the smallest float of all from -14.5 on.
    zeros = round(layer["sparsity"]["exact_zero"] * pre.size)
    tiny_results = int(((pre < -13) | (np.abs(pre) < 1e-37)).sum())
    assert int((pre < -14.5).sum()) <= zeros <= tiny_results
    largest = np.abs(hidden).max(axis=1, keepdims=True).astype(np.float64)
    size = np.abs(hidden.astype(np.float64))
    below = int((size <= 0.001 * largest).sum())
    near = int((np.abs(size - 0.001 * largest) <= NEAR).sum())
    ours = round(layer["sparsity"]["below_1e-3_of_max"] * pre.size)
    assert abs(ours - below) <= near
    return (
        f"zeros {zeros} of {tiny_results}, below {ours} off by {abs(ours - below)} of {near} near"
    )


def check_energy(layer: Json, energy: Array) -> str:
    ordered = -np.sort(-energy, axis=1)
    reached = np.cumsum(ordered, axis=1)
    counts = (reached < 0.99 * reached[:, -1:]).sum(axis=1) + 1
    expected = counts.mean() / energy.shape[1]
    # Where a sum is within rounding of 0.99 one neuron more or less counts: 1 / d_ff of one token.
    assert layer["sparsity"]["energy_99"] == pytest.approx(expected, abs=1e-4)
    return f"energy_99 off by {abs(layer['sparsity']['energy_99'] - expected):.1e}"


def check_top_neurons(layer: Json, energy: Array, hidden: Array, ids: list[int]) -> None:
    means = energy.mean(axis=0)
    tenth = np.sort(means)[-10]
    # Equal to 1e-4, so a neuron may change places only with one as strong to 1e-4.
    for top in layer["top_neurons"]:
        column = hidden[:, top["neuron"]]
        assert top["mean_energy"] == pytest.approx(means[top["neuron"]], rel=1e-4)
        assert top["mean_energy"] >= tenth * (1 - 1e-4)
        sizes = -np.sort(-np.abs(column))
        for rank, token in enumerate(top["tokens"]):
            assert token["token"] == ids[token["position"]]
            assert token["value"] == pytest.approx(float(column[token["position"]]), rel=1e-4)
            assert abs(token["value"]) == pytest.approx(float(sizes[rank]), rel=1e-4)
    assert len({top["neuron"] for top in layer["top_neurons"]}) == 10


def check_outliers(layer: Json, hidden: Array) -> None:
    size = np.abs(hidden)
    middle = float(np.partition(size, (size.size - 1) // 2, axis=None)[(size.size - 1) // 2])
    assert layer["outliers"]["max_abs"] == pytest.approx(float(size.max()), rel=1e-4)
    # The median is known to 1e-4; cut to 16 bits it may fall to either side of a step.
    assert float(np.float32(layer["outliers"]["median_abs"])) in {
        truncated(middle * (1 - 1e-4)),
        truncated(middle * (1 + 1e-4)),
    }


@pytest.mark.parametrize("index", range(6))
def test_minilm_statistics(minilm: MiniLM, index: int, capsys: pytest.CaptureFixture[str]) -> None:
    layer, pre, hidden = minilm.report["layers"][index], minilm.pre[index], minilm.hidden[index]
    assert layer["index"] == index and layer["activation"] == "gelu"
    assert layer["dead_neurons"] is None
    notes = [check_firings(layer, pre, hidden), check_small_values(layer, pre, hidden)]
    energy = hidden.astype(np.float64) ** 2 * (minilm.down[index] ** 2).sum(axis=0)
    notes.append(check_energy(layer, energy))
    check_top_neurons(layer, energy, hidden, minilm.ids)
    check_outliers(layer, hidden)
    with capsys.disabled():
        print(f"\nlayer {index}: " + "; ".join(notes))


def test_minilm_text_and_times(minilm: MiniLM) -> None:
    assert minilm.report["text"]["tokens"] == minilm.tokens
    assert minilm.report["text"]["windows"] == len(minilm.windows)
    assert minilm.report["text"]["seq_len"] == 512
    assert len(minilm.report["layers"]) == 6
    assert_times(minilm.report)
