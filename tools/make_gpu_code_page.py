"""Write docs/gpu_code.md: what NVIDIA's assembler makes of each example of a GPU kernel.

``python tools/make_gpu_code_page.py`` writes the page, ``--check`` says which lines of it are no longer so. That needs the
assembler and the disassembler (the wheels nvidia-cuda-nvcc and nvidia-cuda-nvdisasm), of the versions of which the page is.
"""

from __future__ import annotations

import argparse
import functools
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "gpu_code.md"
sys.path.insert(0, str(ROOT))

ARCH = "sm_90a"

HEAD = """\
# The machine code of the GPU examples

What `ptxas` {ptxas} makes of the PTX that LLVM {llvm} writes of each kernel in [examples/gpu](../examples/gpu), in the sizes of
`tests/gpu/codegen/test_examples_ptx.py`, for `{arch}`. This page is written by `python tools/make_gpu_code_page.py`, and the tests compare it
where the same assembler and disassembler are installed: a change that costs registers, spills, or instructions of a main loop shows here.

**Registers** are those of a thread, **spilled** the bytes that it stores to and loads from its stack, **shared** the bytes of a block, static and dynamic. The **main
loop** is the one that works: the innermost one with the most instructions of tensor cores, else of floating point, else of memory. Its instructions are counted by kind (`KINDS` in
`tirlower/gpu/sass.py`); `-` where all is unrolled.

| kernel | registers | spilled | shared | instructions | main loop | of which |
| --- | --- | --- | --- | --- | --- | --- |
"""


@functools.cache
def versions() -> tuple[str, str]:
    """Those of the assembler and of LLVM."""
    import llvmlite.binding

    from tirlower.gpu.ptxas import find_ptxas

    said = subprocess.run([str(find_ptxas()), "--version"], capture_output=True, text=True, check=True).stdout
    found = next(word for word in said.split() if word.startswith("V") and word[1:2].isdigit())
    return found[1:], ".".join(map(str, llvmlite.binding.llvm_version_info))


def head() -> str:
    """The page above its rows."""
    ptxas, llvm = versions()
    return HEAD.format(ptxas=ptxas, llvm=llvm, arch=ARCH)


def rows(name: str) -> list[str]:
    """The lines of an example, one for each of its kernels."""
    from tests.gpu.codegen.test_examples_ptx import after_passes, built
    from tirlower.gpu.ptxas import assemble
    from tirlower.gpu.sass import disassemble
    from tirlower.ir import AllocBuffer
    from tirlower.ir.query import each

    module = built(name, ARCH)
    code, needs, lowered = disassemble(module.ptx, ARCH), assemble(module.ptx, ARCH), after_passes(name, ARCH)
    made = []
    for symbol in sorted(module.kernels):
        dynamic = sum(
            op.buffer.dtype.bits * op.buffer.dtype.lanes // 8 * int(op.buffer.shape[0])
            for op in each(AllocBuffer, lowered[symbol].body)
            if op.buffer.scope == "shared.dyn"
        )
        need, kernel = needs[symbol], code[symbol]
        loop = kernel.main_loop()
        mix = ", ".join(
            f"{kind} {count}" for kind, count in sorted(kernel.mix(loop).items(), key=lambda kc: (-kc[1], kc[0]))
        )
        label = name if len(module.kernels) == 1 else f"{name}: {symbol}"
        total = sum(count for kind, count in kernel.mix().items() if kind != "nothing")
        made.append(
            f"| {label} | {need.registers} | {need.spill_stores + need.spill_loads} | {need.shared + dynamic} | {total} | "
            f"{len(loop) or '-'} | {mix if loop else '-'} |"
        )
    return made


def names() -> list[str]:
    """The examples."""
    from tests.gpu.codegen.test_examples_ptx import SIMT, TENSOR

    return [*SIMT, *TENSOR]


def page() -> str:
    """The page."""
    return head() + "\n".join(line for name in names() for line in rows(name)) + "\n"


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the page is not up to date")
    args = parser.parse_args()
    if not args.check:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    kept = PAGE.read_text(encoding="utf-8")
    if not kept.startswith(head()):
        print(f"{PAGE.name} is of another assembler or LLVM than {' and '.join(versions())}: nothing was compared")
        return 0
    made = page()
    for line in made.splitlines():
        if line not in kept.splitlines():
            print(f"{PAGE.name} does not have\n{line}", file=sys.stderr)
    if made != kept:
        print(f"{PAGE.name} is not up to date: run python tools/make_gpu_code_page.py", file=sys.stderr)
    return int(made != kept)


if __name__ == "__main__":
    sys.exit(main())
