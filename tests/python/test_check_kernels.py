"""The lint check that product kernels keep vectors off the stack, on disassembly as objdump
prints it."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools/check_kernels.py"
sys.path.append(str(TOOL.parent))
from check_kernels import faults  # noqa: E402

NAME = (
    "void fourfold::(anonymous namespace)::gemm_block<fourfold::(anonymous namespace)::VecF32, 6ul>"
    "(float const*, unsigned long)"
)
TILE = "void fourfold::(anonymous namespace)::attention_tile<6ul>(float const*, unsigned long)"
OTHER = "fourfold::(anonymous namespace)::softmax(float*, unsigned long)"


def listing(*bodies: tuple[str, list[str]]) -> str:
    text = "\navx2.cpp.o:     file format elf64-x86-64\n\n\nDisassembly of section .text:\n"
    for start, (name, instructions) in enumerate(bodies):
        text += f"\n{start * 4096:016x} <{name}>:\n"
        text += "".join(
            f"    {start * 4096 + i:4x}:\t{one}\n" for i, one in enumerate(instructions)
        )
    return text


@pytest.mark.parametrize(
    "instruction",
    [
        "vmovups %ymm3,0x20(%rsp)",
        "vmovaps (%rsp),%zmm0",
        "vfmadd231ps -0x40(%rsp),%zmm1,%zmm2",
        "vaddps 0x20(%rsp,%rax,4),%ymm1,%ymm2",
    ],
)
def test_a_vector_on_the_stack_is_found(instruction: str) -> None:
    body = ["push   %rbx", instruction, "ret"]
    bodies = (OTHER, ["ret"]), (NAME, body), (NAME, ["ret"]), (TILE, body)
    count, lines = faults(listing(*bodies))
    assert count == 3 and len(lines) == 2
    assert lines[0].startswith("gemm_block<VecF32, 6ul>: ") and instruction in lines[0]
    assert lines[1].startswith("attention_tile<6ul>: ") and instruction in lines[1]


def test_a_frame_pointer_makes_its_memory_stack() -> None:
    load = "vmovups -0x40(%rbp),%ymm0"
    assert faults(listing((NAME, ["push   %rbp", "mov    %rsp,%rbp", load])))[1]
    assert not faults(listing((NAME, ["push   %rbp", "mov    %rdi,%rbp", load])))[1]


def test_what_is_no_vector_on_the_stack_or_in_no_kernel_passes() -> None:
    spill = "vmovups %ymm3,0x20(%rsp)"
    body = ["mov    %rax,0x8(%rsp)", "vmovups (%rax),%zmm1", "vfmadd231ps %ymm2,%ymm1,%ymm0"]
    assert faults(listing((NAME, body), (OTHER, [spill]))) == (1, [])


def test_a_folder_without_kernels_fails(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, TOOL, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no product kernel found" in done.stdout and "0 product kernels, 3 faults" in done.stdout
