#!/usr/bin/env python3
"""Writes minilm_embeddings.npz: sentence vectors of all-MiniLM-L6-v2 as transformers computes them.

    make_golden.py models/all-MiniLM-L6-v2

Every fifth test sentence, cut at 512 tokens; mean over tokens, then length 1. The file also names
the model's hash and the versions that made it. It needs torch and transformers; its readers do not.
"""

import hashlib
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "python"))

from reference_encoder import ReferenceEncoder, pool  # noqa: E402
from sentences import sentences  # noqa: E402

STEP, MAX_LENGTH = 5, 512


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: make_golden.py MODEL_FOLDER")
    model = Path(sys.argv[1])
    reference = ReferenceEncoder(model)
    texts = sentences()
    indices = np.arange(0, len(texts), STEP)
    vectors = [
        pool(reference.last_hidden(reference.token_ids(texts[i], MAX_LENGTH))) for i in indices
    ]
    text_hash = hashlib.sha256("\0".join(texts[i] for i in indices).encode()).hexdigest()
    np.savez_compressed(
        FOLDER / "minilm_embeddings.npz",
        embeddings=np.array(vectors, dtype=np.float32),
        indices=indices,
        max_length=np.array(MAX_LENGTH),
        sentences_sha256=np.array(text_hash),
        model_sha256=np.array(
            hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
        ),
        torch=np.array(torch.__version__),
        transformers=np.array(transformers.__version__),
    )


if __name__ == "__main__":
    main()
