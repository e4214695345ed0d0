#!/usr/bin/env python3
"""check_kernels.py BUILD: the product kernels keep their sums in registers.

A vector that a block of a product (gemm_block, attention_tile) puts on the stack costs half its
speed and changes no result, so no test would notice. Reads the disassembly of a build's kernel
objects.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ISAS = ("avx2", "avx512", "avx512_bf16")
KERNELS = ("gemm_block<", "attention_tile<")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
FRAME = re.compile(r"\tmov +%rsp,%rbp$")


def functions(listing: str) -> Iterator[tuple[str, list[str]]]:
    """Name and instructions of each function in the output of objdump -d -C."""
    name, lines = "", list[str]()
    for line in listing.splitlines():
        start = FUNCTION.match(line)
        if start:
            if name:
                yield name, lines
            name, lines = start.group(1), []
        elif "\t" in line:
            lines.append(line.rstrip())
    if name:
        yield name, lines


def stack_access(lines: list[str]) -> str | None:
    """The first instruction that moves a vector to or from the stack. %rbp is any register unless
    the function keeps its frame there."""
    frame = any(FRAME.search(line) for line in lines)
    base = r"\(%r[sb]p\b" if frame else r"\(%rsp\b"
    for line in lines:
        if re.search(base, line) and re.search(r"%[yz]mm", line):
            return line.strip()
    return None


def short_name(name: str) -> str:
    """Without namespaces and parameters."""
    name = re.sub(r"fourfold::|\(anonymous namespace\)::|^void ", "", name)
    return name.partition(">(")[0] + ">" if ">(" in name else name


def faults(listing: str) -> tuple[int, list[str]]:
    """How many kernels there are, and a line for each that uses the stack."""
    kernels = [
        (name, lines)
        for name, lines in functions(listing)
        if any(kernel in name for kernel in KERNELS)
    ]
    found = [(name, stack_access(lines)) for name, lines in kernels]
    return len(kernels), [f"{short_name(name)}: {line}" for name, line in found if line]


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: check_kernels.py BUILD", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1]) / "CMakeFiles/fourfold_kernels.dir/src/kernels"
    total, bad = 0, []
    for isa in ISAS:
        command = ["objdump", "-d", "-C", "--no-show-raw-insn", str(folder / isa / f"{isa}.cpp.o")]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            print(f"objdump: {error}; on Debian: apt-get install binutils")
            return 1
        count, lines = faults(done.stdout)
        if done.returncode != 0 or count == 0:
            bad.append(f"{isa}: no product kernel found; is {folder} built? {done.stderr.strip()}")
        bad += [f"{isa}: a vector goes through the stack in {line}" for line in lines]
        total += count
    print("\n".join([*bad, f"{total} product kernels, {len(bad)} faults"]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
