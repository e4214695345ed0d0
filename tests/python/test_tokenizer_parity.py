"""Token ids equal those of the reference package `tokenizers`, for every Unicode character.

No code point is left out: src/models/bert_characters.cpp carries the reference's own classes of
characters, so the Unicode version of the installed utf8proc does not matter.
"""

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sentences import COUNT, OUTSIZED, SCRIPTS, SPECIAL, SYMBOLS, sentences
from tokenizers import Tokenizer

RANDOM_STRINGS = 24_000
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def our_ids(folder: Path, texts: list[str]) -> list[list[int]]:
    program = Path(os.environ.get("FOURFOLD_BIN_DIR", "build/bin")) / "tokenize_lines"
    if not program.is_file():
        pytest.fail(f"{program} is not there: run make build")
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run(
        [str(program), str(folder)], input=lines, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    ids = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ids) == len(texts)
    return ids


def reference_ids(folder: Path, texts: list[str]) -> list[list[int]]:
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    reference.no_truncation()
    reference.no_padding()
    return [list(reference.encode(text, add_special_tokens=False).ids) for text in texts]


def assert_same_ids(folder: Path, texts: list[str]) -> list[list[int]]:
    ours = our_ids(folder, texts)
    expected = reference_ids(folder, texts)
    for text, got, want in zip(texts, ours, expected, strict=True):
        assert got == want, f"text {text!a}"
    return expected


def test_sentences(model_dir: Path) -> None:
    texts = sentences()
    assert len(texts) == COUNT == len(set(texts))
    ids = assert_same_ids(model_dir, texts)
    assert sum(len(row) > 512 for row in ids) >= 3
    assert sum(not row for row in ids) >= 4


def test_every_code_point(model_dir: Path) -> None:
    """Each character alone, between letters, and before an accent: 68 characters a line."""
    lines = []
    for start in range(0, len(CODE_POINTS), 68):
        characters = [chr(c) for c in CODE_POINTS[start : start + 68]]
        lines.append(" ".join(f"{c} a{c}b {c}\u0301c" for c in characters))
    assert_same_ids(model_dir, lines)


PIECES = SCRIPTS + SYMBOLS + SPECIAL + OUTSIZED[:3]
WORDS = [
    "the",
    "and",
    "of",
    "ing",
    "run",
    "running",
    "quick",
    "ness",
    "under",
    "over",
    "tion",
    "water",
    "42",
    "x1",
    "co-op",
    "I'm",
]
MARKS = [chr(c) for c in (*range(0x300, 0x370), 0x20D0, 0x20DD, 0x302E, 0x1D165, 0x1D16D, 0x94D)]
CONTROLS = [
    chr(c) for c in (*range(0x20), *range(0x7F, 0xA1), 0xAD, 0x200B, 0x200D, 0xFEFF, 0xFFFD)
]
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u2003", "\u2028", "\u3000"]
TOKENS = ["[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]", "[mask]", "[", "]", "##"]
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["\u2014", "\u3001", "\u00bf", "\u055d"]
BLOCKS = [
    (0x20, 0x7F), (0xA0, 0x250), (0x370, 0x530), (0x530, 0x700), (0x900, 0xE00), (0xE00, 0x1100),
    (0x1100, 0x1200), (0x1E00, 0x2000), (0x2000, 0x2C00), (0x2C00, 0x3400), (0x3400, 0xA000),
    (0xA000, 0xAC00), (0xAC00, 0xD7A4), (0xF900, 0x10000), (0x10000, 0x11000), (0x1D000, 0x1D800),
    (0x1F000, 0x1FB00), (0x20000, 0x30000),
]  # fmt: skip


def random_part(rng: random.Random) -> str:
    kind = rng.randrange(12)
    if kind < 3:
        return rng.choice(WORDS)
    if kind == 3:
        return rng.choice(MARKS)
    if kind == 4:
        return rng.choice(CONTROLS)
    if kind == 5:
        return rng.choice(SPACES)
    if kind == 6:
        return rng.choice(TOKENS)
    if kind == 7:
        return rng.choice(PUNCTUATION) * rng.choice((1, 1, 1, 3))
    if kind == 8:
        text = rng.choice(PIECES)
        start = rng.randrange(len(text))
        return text[start : start + rng.randint(1, 9)]
    if kind == 9:
        return chr(rng.choice(CODE_POINTS))
    first, last = rng.choice(BLOCKS)
    return "".join(chr(rng.randrange(first, last)) for _ in range(rng.randint(1, 6)))


def random_strings(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    return ["".join(random_part(rng) for _ in range(rng.randint(1, 24))) for _ in range(count)]


def test_random_strings(model_dir: Path) -> None:
    assert_same_ids(model_dir, random_strings(1789, RANDOM_STRINGS))


def added(content: str, token_id: int, **flags: bool) -> dict[str, Any]:
    token: dict[str, Any] = {"id": token_id, "content": content}
    for flag in ("single_word", "lstrip", "rstrip", "normalized", "special"):
        token[flag] = flags.get(flag, False)
    return token


def write_variant(model_dir: Path, folder: Path, normalizer: Any, tokens: list[Any]) -> None:
    tokenizer = json.loads((model_dir / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["normalizer"] = normalizer
    tokenizer["added_tokens"] += tokens
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")


def bert(clean: bool, cjk: bool, strip: bool | None, lower: bool) -> dict[str, Any]:
    return {
        "type": "BertNormalizer",
        "clean_text": clean,
        "handle_chinese_chars": cjk,
        "strip_accents": strip,
        "lowercase": lower,
    }


NORMALIZERS: list[Any] = [
    bert(True, True, None, False),
    bert(True, True, False, True),
    bert(False, False, True, True),
    bert(True, False, True, False),
    {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"}]},
    {"type": "Lowercase"},
    None,
]


@pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
def test_other_normalizers(model_dir: Path, tmp_path: Path, normalizer: Any) -> None:
    write_variant(model_dir, tmp_path, normalizer, [])
    assert_same_ids(tmp_path, sentences() + random_strings(1801, 2_000))


def test_added_tokens_with_flags(model_dir: Path, tmp_path: Path) -> None:
    first = 30_522
    tokens = [
        added("<left>", first, lstrip=True),
        added("<right>", first + 1, rstrip=True),
        added("<both>", first + 2, lstrip=True, rstrip=True, special=True),
        added("solo", 3948, single_word=True),  # a piece of the vocabulary, with its id
        added("H\u00e9RON", first + 3, normalized=True),
        added("<left><right>", first + 4),
        added("bigword", first + 5, single_word=True, normalized=True, lstrip=True, rstrip=True),
        added("\u4e2d\u6587", first + 6),
    ]
    write_variant(model_dir, tmp_path, bert(True, True, None, True), tokens)
    rng = random.Random(1847)
    parts = [token["content"] for token in tokens] + ["heron", "Heron", "HE\u0301RON", "BigWord"]
    parts += [" ", "  ", "\t", "\u00a0", "a", "_", "7", "\u0301", "\u24b6", "-", "[MASK]", "\u4e2d"]
    texts = ["".join(rng.choice(parts) for _ in range(rng.randint(1, 12))) for _ in range(4_000)]
    ids = assert_same_ids(tmp_path, texts)
    assert {3948, *range(first, first + 7)} <= {i for row in ids for i in row}


def test_vocabulary_file_alone(model_dir: Path, tmp_path: Path) -> None:
    """vocab.txt with tokenizer_config.json gives the ids of tokenizer.json."""
    pieces = Tokenizer.from_file(str(model_dir / "tokenizer.json")).get_vocab()
    lines = sorted(pieces, key=lambda piece: pieces[piece])
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}', encoding="utf-8")
    texts = sentences()
    assert our_ids(tmp_path, texts) == reference_ids(model_dir, texts)
