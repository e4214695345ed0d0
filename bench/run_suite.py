#!/usr/bin/env python3
"""Runs the measurements of docs/performance.md with `fourfold bench`, one file per group.

    bench/run_suite.py --tool build/bin/fourfold --model models/all-MiniLM-L6-v2 [--only NAME...]

A file holds the machine, the commit, and every run: its arguments, and its report or its error.
"""

import argparse
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = "fourfold.bench-results/1"
GATED = "--kind gated --d-model 2048 --d-ff 5632"
MOE = "--kind moe --experts 8 --top-k 2 --d-model 1024 --d-ff 2816 --tokens 1024 --peers torch"
# Around the sizes that kernels like: odd ones, powers of two and their neighbours.
D_FF = (1021, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097)
D_MODEL = (509, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049)


@dataclass
class Run:
    arguments: str
    environment: dict[str, str] = field(default_factory=dict)


def gated() -> Iterator[Run]:
    for dtype in ("f32", "bf16"):
        for tokens in ("1,4,16,64", "256,512", "2048"):
            yield Run(f"{GATED} --dtype {dtype} --tokens {tokens}")


def training() -> Iterator[Run]:
    for dtype in ("f32", "bf16"):
        for tokens in (512, 2048):
            peers = "--peers onednn,torch"
            yield Run(f"{GATED} --backward --dtype {dtype} --tokens {tokens} {peers}")


def dense() -> Iterator[Run]:
    for dtype in ("f32", "bf16"):
        shape = "--kind dense --activation gelu --d-model 768 --d-ff 3072"
        yield Run(f"{shape} --dtype {dtype} --tokens 1,32,128,512")


def moe() -> Iterator[Run]:
    for dtype in ("f32", "bf16"):
        for routing in ("uniform", "zipf", "single"):
            for backward in ("", " --backward"):
                yield Run(f"{MOE} --dtype {dtype} --routing {routing}{backward}")


def moe_dense() -> Iterator[Run]:
    """As much work as the mixture does, in one layer."""
    for dtype in ("f32", "bf16"):
        shape = "--kind gated --d-model 1024 --d-ff 2816 --tokens 2048"
        yield Run(f"{shape} --dtype {dtype} --peers none")


def avx2() -> Iterator[Run]:
    for dtype in ("f32", "bf16"):
        for tokens in ("1,4,16,64", "512"):
            peers = "--peers onednn,torch"
            shape = f"{GATED} --dtype {dtype} --tokens {tokens} {peers}"
            yield Run(shape, {"FOURFOLD_ISA": "avx2"})


def sparsity() -> Iterator[Run]:
    for kind in ("dense", "gated"):
        shape = f"--kind {kind} --activation relu --d-model 2048 --d-ff 5632 --sparsity 0.9"
        for dtype in ("f32", "bf16"):
            yield Run(f"{shape} --dtype {dtype} --tokens 1")


def model() -> Iterator[Run]:
    for dtype in ("f32", "bf16"):
        for batch in (1, 32):
            yield Run(f"MODEL --batch {batch} --seq-len 128 --dtype {dtype}")


CURVE = "--kind gated --d-model 1024 --d-ff 2816"


def curve_tokens() -> Iterator[Run]:
    for dtype in ("f32", "bf16"):
        for tokens in ("1-35", "36-70"):
            yield Run(f"{CURVE} --dtype {dtype} --tokens {tokens} --peers onednn")


def curve_tokens_avx2() -> Iterator[Run]:
    for dtype in ("f32", "bf16"):
        shape = f"{CURVE} --dtype {dtype} --tokens 1-70 --peers none"
        yield Run(shape, {"FOURFOLD_ISA": "avx2"})


def curve_sizes() -> Iterator[Run]:
    for tokens in (1, 64):
        shape = f"--kind gated --dtype f32 --tokens {tokens} --peers onednn"
        for d_ff in D_FF:
            yield Run(f"{shape} --d-model 1024 --d-ff {d_ff}")
        for d_model in D_MODEL:
            yield Run(f"{shape} --d-model {d_model} --d-ff 2816")


GROUPS = {
    group.__name__: group
    for group in (
        gated, training, dense, moe, moe_dense, avx2, sparsity, model,
        curve_tokens, curve_tokens_avx2, curve_sizes,
    )
}  # fmt: skip


def text_of(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout.strip()
    except OSError:
        return ""


def commit() -> str:
    changed = text_of(
        "git", "status", "--porcelain", "--untracked-files=no", "--", "src", "include"
    )
    head = text_of("git", "rev-parse", "--short=12", "HEAD") or "unknown"
    return head + (" with changes" if changed else "")


def machine(tool: Path) -> dict[str, Any]:
    info = json.loads(text_of(str(tool), "info", "--json"))
    return {
        "cpu": info["cpu"],
        "caches": info["caches"],
        "isa": info["isa"]["chosen"],
        "threads": info["threads"]["count"],
        "system": f"{platform.system()} {platform.release()}",
        "compiler": (text_of("c++", "--version").splitlines() or ["unknown"])[0],
    }


def measure(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    words = run.arguments.replace("MODEL", str(options.model)).split() + options.extra.split()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [*shlex.split(options.prefix), str(options.tool), "bench", *words]
        done = subprocess.run(
            [*command, "--json-out", file.name],
            capture_output=True,
            text=True,
            env={**os.environ, **run.environment},
        )
        result: dict[str, Any] = {"arguments": run.arguments, "environment": run.environment}
        if done.returncode == 0:
            result["report"] = json.loads(Path(file.name).read_text(encoding="utf-8"))
            if result["report"]["model"] is not None:
                result["report"]["model"] = options.model.name
            print(done.stdout, flush=True)
        else:
            message = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            result["error"] = message[-1].removeprefix("fourfold: error: ")
            print(f"  not measured: {result['error']}", flush=True)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", type=Path, default=ROOT / "build/bin/fourfold")
    parser.add_argument("--model", type=Path, default=ROOT / "models/all-MiniLM-L6-v2")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results")
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--extra", default="", help="options added to every run")
    parser.add_argument("--prefix", default="", help="command put before every run, such as a lock")
    options = parser.parse_args()
    if not options.tool.is_file():
        sys.exit(f"{options.tool} is not there: run make build")
    options.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    begin = time.monotonic()
    for name in options.only:
        runs = []
        for run in GROUPS[name]():
            print(f"=== {name}: {run.arguments} ({time.monotonic() - begin:.0f} s)", flush=True)
            runs.append(measure(run, options))
        failed += sum("error" in run for run in runs)
        found = {
            "schema": SCHEMA,
            "name": name,
            "date": datetime.date.today().isoformat(),
            "commit": commit(),
            "machine": machine(options.tool),
            "runs": runs,
        }
        text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
        (options.out / f"{name}.json").write_text(text, encoding="utf-8")
    minutes = (time.monotonic() - begin) / 60
    print(f"{len(options.only)} groups in {minutes:.1f} min, {failed} runs without a result")
    return 0


if __name__ == "__main__":
    sys.exit(main())
