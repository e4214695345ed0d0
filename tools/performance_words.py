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
    "sparsity": "90 % zeros, to every neuron",
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
  signal. Times are medians over the rounds (range: fastest and slowest). A ratio is the median of
  the rounds' ratios, and so can differ from the quotient of the medians where the machine changed
  its speed meanwhile; bold marks a missed goal
- up to 16 tokens the weights rotate over copies worth at least 300 MB, so that they come from
  memory, as between the layers of a model; above, one copy is used
- the limit of a row is the larger of FLOPs / peak and bytes / read rate, both measured beside
  that row; bytes, and GB/s, count weights, inputs and outputs once per call. Between rows compare
  the share of the limit, not ms: the machine changes its speed
- error: the largest |y - y64| / rms(y64) over a sample, against float64 arithmetic on the same
  inputs; with backward over outputs, input gradients and weight gradients
- bf16: Fourfold, oneDNN and torch take and give bf16 in forward passes; OpenVINO has float32 at
  its border. With backward Fourfold's activations and gradients are float32 outside the products
"""

# Of the committed measurements: to be looked at again when they change.
WHY = """
The goals were set on a CPU of the next generation (Zen 5), with twice the width for 512-bit
operations. On this one (Zen 4) a core does one 512-bit multiply-add a cycle, float32 or dot
product of bf16, and the best peer of SwiGLU forward already runs at 0.90 to 0.96 of that peak from
256 tokens on: 1.04 times that is 0.94 to 1.00 of it, 1.15 times at 64 tokens more than the peak.
2.5 times torch's mixture in float32 is above the peak in most runs (torch moved between 0.34 and
0.73 of it), and so are 2.3 times its training in float32 (0.73) and 1.2 times in bf16 (0.85).

Samples of the running code (`perf record`, SwiGLU 2048/5632, 512 tokens, bf16): forward, the
product loop has 95 % of Fourfold's own time, activation and gating 2 %, rounding 1 %. The loop by
itself reaches 0.95 to 0.97 of the peak; loading and storing its sums, and the L2 cache, take the
rest. Forward + backward: packing the weights takes 11 ms (17 in float32), as long as the memory
needs to read and write them; adding to float32 gradients 4 %, transposes and rounding 2 %,
activations 2 %, the product loop the rest.

A mixture's step forward + backward moves more memory than a layer's: for 1,024 tokens all eight
experts are packed anew (0.4 GB in bf16) and their float32 gradients read and written (0.55 GB),
40 ms. torch writes gradients of bf16, half as much, and packs nothing; with all tokens on the same
experts Fourfold still packs the other six. Forward in bf16 Fourfold runs at 0.85 to 0.92 of the
peak and torch at up to 0.78: 1.25 times that would be 0.98.

Up to 4 tokens a SwiGLU layer reads its weights as fast as the probe beside it reads memory. With
exact zeros in bf16 a fifth of the pairs of rows is read, 256 bytes here and there, which the memory
gives at two thirds of its rate.

GELU's exact form costs 50 cycles for 16 values, and promises 2 units in the last place (see
numerics.md): 6 % of the BERT-base layer in bf16, where oneDNN is ahead from 32 tokens on, and 3 %
in float32. In MiniLM it is 4 % in float32, and attention 37 %, most of it in products with its
weights.

With AVX2 a row block of 6 x 16 reads its slice of a packed weight from the L2 cache each time, and
sums are loaded and stored more often. Slices held in the L1 cache were slower: their lines fall on
a quarter of its sets.
"""

CURVES = """
Time per work should fall smoothly with more tokens, and not jump at sizes that are odd or beside
a power of two. Where Fourfold and oneDNN rise together, the machine was slower for that moment.
"""

CHECKS = """
Each line divides two times of Fourfold (the last four: Fourfold's by torch's, where 0.43 is 1 /
2.3 and 0.83 is 1 / 1.2); bold is above what is allowed. In a series of sizes neighbours are
compared, and the pair nearest to its limit, or farthest above, is shown with how many are above.
From n to n + 1 tokens 1.15 is allowed, or (n + 1) / n where that is more.

This machine halves its speed for moments, so neighbours are compared twice: by the fastest round
of each row, and by the medians after taking out the change of the limits measured beside them. The
smaller of the two counts; a pair for which they differ by a quarter is not judged. What is still
above with AVX-512 are moments of the machine: oneDNN's
times rise with them in the chart, and timed again the pair 42, 43 was below its limit. With AVX2,
steps at 7, 13 and 19 tokens are the library's: they begin a new block of 6 rows.
"""

ERRORS = """
The largest |y - y64| / rms(y64) of each group. Fourfold adds all terms of a product to one float32
accumulator in order, so that no result depends on batch or threads; peers add blocks, which rounds
less. Both are inside the bound of numerics.md. bf16 keeps 8 bits: 1e-2 is a few of its steps, and
through six layers of an encoder they add up.
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
