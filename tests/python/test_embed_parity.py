"""`embed` against transformers on the 200 test sentences, on every instruction set of this CPU.

The golden values come from the same reference but need only NumPy, so they hold where torch is not
installed.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sentences import sentences

if TYPE_CHECKING:
    from reference_encoder import ReferenceEncoder

Array = NDArray[Any]
Run = Callable[..., CompletedProcess[str]]
GOLDEN = Path(__file__).resolve().parents[1] / "golden/minilm_embeddings.npz"
ISAS = ["scalar", "avx2", "avx512", "avx512_bf16"]
MAX_LENGTH = 512
# Vectors have length 1. Float32 sums in another order moved an element by 4e-7 at most.
TOLERANCE = 2e-5


class Embedder:
    """Runs `embed` and reads the vectors back; texts are arguments, in chunks."""

    def __init__(self, run: Run, model: Path, folder: Path) -> None:
        self.run, self.model, self.folder = run, model, folder

    def __call__(self, texts: list[str], *options: str, isa: str = "", chunk: int = 67) -> Array:
        parts = []
        env = {"FOURFOLD_ISA": isa} if isa else None
        for first in range(0, len(texts), chunk):
            out = self.folder / "vectors.npy"
            some = texts[first : first + chunk]
            done = self.run("embed", self.model, *options, "--out", out, "--", *some, env=env)
            assert done.returncode == 0, done.stderr
            parts.append(np.load(out))
            out.unlink()
            assert parts[-1].dtype == np.float32 and len(parts[-1]) == len(some)
        return np.vstack(parts)


@pytest.fixture(scope="module")
def embedder(
    run_fourfold: Run, model_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Embedder:
    return Embedder(run_fourfold, model_dir, tmp_path_factory.mktemp("embed"))


@pytest.fixture(scope="module")
def reference(model_dir: Path) -> "ReferenceEncoder":
    from reference_encoder import ReferenceEncoder

    return ReferenceEncoder(model_dir)


@pytest.fixture(scope="module")
def reference_tokens(reference: "ReferenceEncoder") -> list[Array]:
    """The last layer of every sentence, cut at 512 tokens: one pass for all tests."""
    return [reference.last_hidden(reference.token_ids(text, MAX_LENGTH)) for text in sentences()]


@pytest.fixture(scope="module")
def detected(run_fourfold: Run) -> list[str]:
    return list(json.loads(run_fourfold("info", "--json").stdout)["isa"]["detected"])


def few_sentences() -> list[str]:
    """Ten that differ in script and length; one is longer than 256 tokens, one than 512."""
    texts = sentences()
    return [texts[i] for i in (0, 9, 10, 24, 35, 57, 99, 112, 122, 199)]


def largest_difference(a: Array, b: Array) -> float:
    return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())


def test_token_ids_are_the_reference_ids(reference: "ReferenceEncoder", model_dir: Path) -> None:
    """With [CLS] and [SEP], cut at 512; the ids in front of the cut are compared uncut, too."""
    program = Path(os.environ["FOURFOLD_BIN_DIR"]) / "tokenize_lines"
    texts = sentences()
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run(
        [str(program), str(model_dir)], input=lines, capture_output=True, text=True, check=True
    )
    cls, sep = reference.tokenizer.cls_token_id, reference.tokenizer.sep_token_id
    longer = 0
    for text, line in zip(texts, done.stdout.splitlines(), strict=True):
        ids = json.loads(line)
        longer += len(ids) > MAX_LENGTH - 2
        whole = reference.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        assert ids == whole, f"{text!a}"
        cut = [cls, *ids[: MAX_LENGTH - 2], sep]
        assert cut == reference.token_ids(text, MAX_LENGTH), f"{text!a}"
    assert longer >= 3


@pytest.mark.parametrize("isa", ISAS)
def test_embeddings_agree_with_transformers(
    embedder: Embedder,
    reference_tokens: list[Array],
    detected: list[str],
    isa: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from reference_encoder import pool

    if isa not in detected:
        pytest.skip(f"this CPU has no {isa} (found: {', '.join(detected)})")
    ours = embedder(sentences(), "--max-length", str(MAX_LENGTH), isa=isa)
    expected = np.array([pool(tokens) for tokens in reference_tokens])
    difference = largest_difference(ours, expected)
    with capsys.disabled():
        print(f"\nembed, {isa}: max |difference| to transformers {difference:.2e}")
    assert difference <= TOLERANCE


def test_embeddings_agree_with_golden_values(embedder: Embedder, model_dir: Path) -> None:
    golden = np.load(GOLDEN)
    digest = hashlib.sha256((model_dir / "model.safetensors").read_bytes()).hexdigest()
    assert digest == str(golden["model_sha256"]), "golden values belong to other weights"
    texts = sentences()
    chosen = [texts[i] for i in golden["indices"]]
    text_digest = hashlib.sha256("\0".join(chosen).encode()).hexdigest()
    assert text_digest == str(golden["sentences_sha256"]), "golden values belong to other sentences"
    ours = embedder(chosen, "--max-length", str(golden["max_length"]))
    assert golden["embeddings"].shape == ours.shape == (40, 384)
    assert largest_difference(ours, golden["embeddings"]) <= TOLERANCE


def test_bf16_embeddings_agree_with_transformers(
    embedder: Embedder,
    reference_tokens: list[Array],
    detected: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Against the model in float32, with all its weights as stored.

    Six layers of four products each round two operands, at most 2^-9 of a value each. Roundings are
    independent, so errors add up to sqrt(6 * 4 * 2) 2^-9 of a vector; attention between its
    products rounds four operands more: sqrt(6 * 6 * 2) 2^-9 = 1.7e-2 in all.
    """
    from reference_encoder import pool

    expected = np.array([pool(tokens) for tokens in reference_tokens], dtype=np.float64)
    for isa in detected:
        options = ("--max-length", str(MAX_LENGTH), "--dtype", "bf16")
        ours = embedder(sentences(), *options, isa=isa).astype(np.float64)
        errors = np.linalg.norm(ours - expected, axis=1)  # the expected vectors have length 1
        cosines = (ours * expected).sum(axis=1)
        with capsys.disabled():
            print(
                f"\nembed in bf16, {isa}: relative error {errors.max():.1e} (mean "
                f"{errors.mean():.1e}), least cosine {cosines.min():.6f}"
            )
        assert 1e-4 < errors.max() <= 1.7e-2
        assert cosines.min() > 0.999


def test_the_type_that_was_asked_for_is_the_one_that_runs(
    run_fourfold: Run, model_dir: Path
) -> None:
    """And that is printed; the model is stored in float32."""
    vectors = {}
    for dtype, used in (("auto", "f32"), ("f32", "f32"), ("bf16", "bf16")):
        done = run_fourfold("embed", model_dir, "--dtype", dtype, "--json", "--", "a text")
        result = json.loads(done.stdout)
        assert result["dtype"] == used
        vectors[dtype] = result["embeddings"][0]
        done = run_fourfold("profile", model_dir, "--dtype", dtype, "--max-tokens", "17", "--json")
        profile = json.loads(done.stdout)
        assert profile["model"]["dtype"].split()[0] == used
        assert set(profile["machine"]["peak_gflops"]) == {"f32", used}
    assert profile["model"]["dtype"] == "bf16 (stored as F32, rounded at load)"
    assert vectors["auto"] == vectors["f32"] != vectors["bf16"]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_batch_and_threads_change_no_bit(embedder: Embedder, dtype: str) -> None:
    # Without the longest ones, which only cost time here.
    texts = [text for text in sentences() if len(text) < 400][:96]
    expected = embedder(texts, "--dtype", dtype, "--batch", "1", "--threads", "1")
    for batch in ("1", "7", "64"):
        for threads in ("1", "2"):
            options = ("--dtype", dtype, "--batch", batch, "--threads", threads)
            found = embedder(texts, *options, chunk=len(texts))
            assert found.tobytes() == expected.tobytes(), f"batch {batch}, threads {threads}"


@pytest.mark.parametrize("pooling", ["cls", "max", "mean"])
@pytest.mark.parametrize("normalize", [True, False])
def test_pooling_and_length(
    embedder: Embedder, reference: "ReferenceEncoder", pooling: str, normalize: bool
) -> None:
    from reference_encoder import pool

    texts = few_sentences()
    option = "--normalize" if normalize else "--no-normalize"
    ours = embedder(texts, "--pooling", pooling, option, "--max-length", "31")
    hidden = [reference.last_hidden(reference.token_ids(text, 31)) for text in texts]
    expected = np.array([pool(tokens, pooling, normalize) for tokens in hidden])
    # Vectors that are not normalised have elements up to about 2: the same error, relative to that.
    assert largest_difference(ours, expected) <= TOLERANCE * max(1.0, float(np.abs(expected).max()))


def test_defaults_come_from_the_model_folder(
    embedder: Embedder, reference: "ReferenceEncoder"
) -> None:
    """modules.json: mean, then length 1. sentence_bert_config.json: at most 256 tokens."""
    from reference_encoder import pool

    texts = few_sentences()
    ids = [reference.token_ids(text, 256) for text in texts]
    assert max(map(len, ids)) == 256
    expected = np.array([pool(reference.last_hidden(one)) for one in ids])
    ours = embedder(texts)
    assert largest_difference(ours, expected) <= TOLERANCE
    np.testing.assert_allclose(np.linalg.norm(ours.astype(np.float64), axis=1), 1, atol=1e-6)
    assert embedder(texts, "--max-length", "256").tobytes() == ours.tobytes()
    assert embedder(texts, "--max-length", "255").tobytes() != ours.tobytes()
