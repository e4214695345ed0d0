"""A peer for tests: answers the protocol of `fourfold bench` with the standard library and numpy.

What it does stands in its name: `good`, `steady` (the same), `wrong` (a result 1.5 times as large),
`short` (a result with bytes missing), `cannot`, `dies` (at the first go), `hangs` (at the first
go), `odd` (answers no number). It notes every `go` in FAKE_PEER_LOG, with the state of all others.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np

NAME = Path(sys.argv[0]).name
LOG = Path(os.environ["FAKE_PEER_LOG"])


def states() -> str:
    """State letters of the other fake peers: T is stopped."""
    found = []
    for file in sorted(LOG.parent.glob("*.pid")):
        if file.stem != NAME:
            status = Path(f"/proc/{file.read_text()}/stat")
            found.append(
                status.read_text().rsplit(")", 1)[1].split()[0] if status.exists() else "-"
            )
    return "".join(found)


def load(name: str, kind: str, *shape: int) -> np.ndarray:
    values = np.fromfile(name + ".bin", np.uint16 if kind == "bf16" else np.float32)
    if kind == "bf16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float64).reshape(shape)


def silu(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    s = 1 / (1 + np.exp(-x))
    return x * s, s * (1 + x * (1 - s))


def outputs(case: dict[str, str]) -> dict[str, np.ndarray]:
    """A silu layer in float64, gated or a mixture of gated experts, with all gradients."""
    n, d, f = (int(case[name]) for name in ("tokens", "d_model", "d_ff"))
    experts, top_k, dtype = int(case["n_experts"]), int(case["top_k"]), case["dtype"]
    x = load("x", dtype, n, d)
    gates, ups = load("gate", dtype, experts, f, d), load("up", dtype, experts, f, d)
    downs = load("down", dtype, experts, d, f)
    weights = np.ones((n, 1))
    if case["kind"] == "moe":
        router = load("router", "f32", experts, d)
        logits = x @ router.T
        chosen = np.argsort(-logits, axis=1)[:, :top_k]
        weights = np.zeros((n, experts))
        for token in range(n):
            power = np.exp(logits[token, chosen[token]])
            weights[token, chosen[token]] = power / power.sum()
    found = {"y": np.zeros((n, d))}
    backward = case["backward"] == "1"
    if backward:
        dy = load("dy", dtype, n, d)
        found |= {"dx": np.zeros((n, d)), "dgate": 0 * gates, "dup": 0 * ups, "ddown": 0 * downs}
        slopes = np.zeros((n, experts))
    for e in range(experts):
        gate, up = x @ gates[e].T, x @ ups[e].T
        act, slope = silu(gate)
        weight = weights[:, e, None]
        y = (act * up) @ downs[e].T
        found["y"] += weight * y
        if backward:
            dhidden = weight * (dy @ downs[e])
            dgate, dup = dhidden * up * slope, dhidden * act
            found["dx"] += dgate @ gates[e] + dup @ ups[e]
            found["dgate"][e], found["dup"][e] = dgate.T @ x, dup.T @ x
            found["ddown"][e] = (weight * dy).T @ (act * up)
            slopes[:, e] = (dy * y).sum(1)
    if backward and case["kind"] == "moe":
        centred = weights * (slopes - (weights * slopes).sum(1, keepdims=True))
        found["dx"] += centred @ router
    return found


def main() -> None:
    LOG.with_name(NAME + ".pid").write_text(str(os.getpid()))
    case: dict[str, str] = {}
    print("a library says hello", flush=True)
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "case":
            case = dict(word.split("=") for word in words)
            answer = "cannot make tea" if NAME == "cannot" else f"ok {NAME} 3.17"
        elif verb == "go":
            with LOG.open("a") as log:
                log.write(f"{case['tokens']} {NAME} {' '.join(words)} {states()}\n")
            if NAME == "dies":
                print("out of tea", file=sys.stderr)
                sys.exit(7)
            if NAME == "hangs":
                signal.pause()
            answer = "ok soon" if NAME == "odd" else f"ok {5.0 * int(words[0])}"
        else:
            for name, values in outputs(case).items():
                scaled = values * 1.5 if NAME == "wrong" else values
                raw = scaled.astype(np.float32).tobytes()
                Path(name + ".out").write_bytes(raw[:-4] if NAME == "short" else raw)
            answer = "ok"
        print(answer, flush=True)


main()
