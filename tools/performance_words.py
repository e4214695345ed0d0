"""The fixed words of docs/performance.md; its numbers come from bench/results/ alone."""

TITLES = {
    "gated": "SwiGLU layer, d_model 2048, d_ff 5632",
    "training": "SwiGLU layer, forward + backward",
    "dense": "GELU layer with biases, d_model 768, d_ff 3072 (BERT-base)",
    "moe": "Mixture of 8 experts, 2 per token, d_model 1024, d_ff 2816, 1,024 tokens",
    "avx2": "SwiGLU layer with AVX2 forced",
    "sparsity": "ReLU layers of 2048 x 5632 with 90 % of hidden values 0, one token",
    "model": "MiniLM, the whole encoder",
}

SHORT_TITLES = {
    "gated": "SwiGLU forward",
    "training": "SwiGLU forward + backward",
    "dense": "GELU forward",
    "moe": "Mixture of experts",
    "avx2": "SwiGLU forward, AVX2",
    "sparsity": "90 % zeros",
    "model": "MiniLM",
}

NOTES = {
    "training": """
Fourfold's time holds `set_weights`, which packs the new weights for all three passes; peers start
from plain weights. oneDNN ships no such layer: its row is composed by hand from nine products and
two elementwise passes.
""",
    "moe": """
torch is the loop that its users write: for every expert gather, compute, `index_add_`. Routing:
uniform; Zipf (expert i with probability 1 / i); single (all tokens to the same two experts).
""",
    "avx2": """
`FOURFOLD_ISA=avx2`; oneDNN and torch are held to AVX2, too. ONNX Runtime and OpenVINO cannot be.
""",
    "sparsity": """
Fourfold skips neurons whose hidden value is 0; "every neuron" is Fourfold without that, and the
ratio is theirs. The limit counts only what is computed.
""",
    "model": """
Last hidden state of random token ids with full masks, without tokenizer and pooling.
""",
}  # fmt: skip

HOW = """
- all implementations use the same pinned threads, inputs and weights, and take turns: in each of
  {rounds} rounds each is timed once, for 20 ms at least, while the others are stopped by a
  signal. Times are medians over the rounds, a ratio is the median of the rounds' ratios
- up to 16 tokens the weights rotate over copies worth 300 MB, so that they come from memory, as
  between the layers of a model; above, one copy is used
- the limit of a row is the larger of FLOPs / peak and bytes / read rate, both measured beside
  that row
- error: the largest |y - y64| / rms(y64) over a sample, against float64 arithmetic on the same
  inputs; with backward over outputs, input gradients and weight gradients
- bf16: Fourfold, oneDNN and torch take and give bf16 in forward passes; OpenVINO has float32 at
  its border. With backward Fourfold's activations and gradients are float32 outside the products
"""

# Of the committed measurements: to be looked at again when they change.
WHY = """
The goals were set on a CPU with twice the width for 512-bit operations. On this one (Zen 4) a core
does one 512-bit multiply-add a cycle, float32 or dot product of bf16, and the best peers already
run at 0.90 to 0.95 of that peak from 256 tokens on. Against them 1.04 means 0.95 to 0.98 of the
peak, 1.15 at 64 tokens more than the peak. 2.5 times torch's mixture and 2.3 times its training in
float32, 1.2 times its training in bf16 would be above the peak as well: torch reaches 0.75 to 0.85
of it here.

Samples of the running code (`perf record`, SwiGLU 2048/5632, 512 tokens, bf16): forward, the
product loop has 95 % of Fourfold's own time, activation and gating 2 %, rounding 1 %. The loop by
itself reaches 0.95 to 0.97 of the peak. Forward + backward: packing of the weights takes 11 of 260
ms (17 of 505 in float32), as long as the memory takes to read and write them; adding to float32
gradients 4 %, transposes and rounding 2 %, activations 2 %, the product loop the rest.

A mixture's step forward + backward moves more memory than a dense layer's: for 1,024 tokens all
eight experts are packed anew (0.4 GB in bf16) and their float32 gradients read and written
(0.55 GB), 40 of 310 ms. torch writes gradients of bf16, half as much, and packs nothing.

Up to 4 tokens the layer reads at the rate of the probe beside it, give or take what the rate moves
between the two: panels are shared out to threads as they get to them.

GELU's exact form costs 50 cycles for 16 values, 4 % of MiniLM in float32 and 6 % in bf16, for an
error of at most 1.3 units in the last place. Attention has 36 % of MiniLM's time at 128 tokens,
most of it in its own products with weights.

With AVX2 a row block of 6 x 16 reads its slice of the panel from the L2 cache each time: 0.85 to
0.93 of the peak, moving with the machine. Slices held in the L1 cache were slower: their lines
fall on a quarter of its sets.
"""

CURVES = """
Time per work should fall smoothly with more tokens, and not jump at sizes that are odd or beside
a power of two.
"""

CHECKS = """
Ratios of times: the least of each row's rounds. From row to row of a series the smaller of two
counts, the other made of the medians and of the limits measured beside them, as the machine's
speed changes by up to two times from one moment to the next. Of many pairs the one nearest to its
limit is shown. A single pair above it (of 69) was not found again when it was timed by itself;
with AVX2 and bf16, 7 tokens do take longer than 6: they are two blocks of rows, and each widens
the weights anew.
"""

# Peers that nobody timed here, and why.
NOT_MEASURED = """
- ggml (llama.cpp): has no package with headers that match its library; its strength is int8 and
  int4 weights, which Fourfold does not have yet
- ik_llama.cpp: must be built from source; the same weights are its strength
- oneDNN 3: Debian 12 has 2.6.3
- torch.compile: compiles every shape anew, for up to minutes; its f32 products are those of eager
  torch
- OpenBLAS, BLIS: products alone, and Debian 12's versions have no kernels for this CPU
- libxsmm: Debian 12 has a version of 2021 without these layers
- vLLM, SGLang, ktransformers: their mixtures want AMX or a server around them
"""
