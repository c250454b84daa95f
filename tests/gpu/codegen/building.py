"""Kernels from text to PTX, assembled where there is an assembler, and run thread by thread on the host."""

from __future__ import annotations

import ctypes
import dataclasses
import re
import textwrap
from collections.abc import Iterator

import numpy as np
import pytest

from tirlower.driver.pipelines import gpu_pipeline
from tirlower.emit.compile import CompileOptions, compile_object
from tirlower.gpu.artifact import REPORT_WORDS, DeviceModule, KernelImage
from tirlower.gpu.codegen import compile_module, generate
from tirlower.gpu.ptxas import Assembled, assemble, find_ptxas
from tirlower.ir import IRModule, PrimFunc
from tirlower.llvm.jit import engine
from tirlower.machine.target import Target
from tirlower.script import parse
from tirlower.transforms import PassContext

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120")

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas (the wheel nvidia-cuda-nvcc has one)")


def kernel(
    params: str, body: str, *, threads: int = 32, blocks: int = 1, attrs: str = '"tir.noalias": True'
) -> PrimFunc:
    """A function ``k`` whose body is run by each thread ``tx`` of each block ``bx``."""
    return parse(
        f"@T.prim_func\ndef k({params}):\n"
        f"    T.func_attr({{{attrs}}})\n"
        f'    for bx in T.thread_binding({blocks}, thread="blockIdx.x"):\n'
        f'        for tx in T.thread_binding({threads}, thread="threadIdx.x"):\n'
        + textwrap.indent(textwrap.dedent(body).strip(), " " * 12)
        + "\n"
    )


def lowered(func: PrimFunc | IRModule, target: Target) -> IRModule:
    """The module after the passes of GPU targets."""
    module = func if isinstance(func, IRModule) else IRModule({func.name: func.with_attr("global_symbol", func.name)})
    return gpu_pipeline(target).run(module, PassContext.current())


def build(func: PrimFunc | IRModule, arch: str = "sm_80", options: str = "", noalias: bool = True) -> DeviceModule:
    """PTX of a function's kernels."""
    target = Target(f"nvptx -arch={arch} {options}")
    return compile_module(lowered(func, target), target, noalias=noalias)


def check(module: DeviceModule) -> dict[str, Assembled]:
    """What ptxas says of a module; nothing where there is no ptxas (the test goes on with the text)."""
    return assemble(module.ptx, module.arch) if find_ptxas() is not None else {}


def instructions(module: DeviceModule) -> list[str]:
    """The lines of the PTX that are instructions, without the predicates before them."""
    lines = (re.sub(r"^\s*(@!?%?\w+\s+)?", "", line) for line in module.ptx.splitlines())
    return [line for line in lines if line.endswith(";") and not line.startswith((".", "//"))]


def has(module: DeviceModule, *starts: str) -> bool:
    """Whether there is an instruction that starts so, for each of the texts."""
    return all(re.search(rf"(?:^|[\s{{]){re.escape(start)}", module.ptx, re.MULTILINE) for start in starts)


# -- kernels on the host ---------------------------------------------------------------------------------------------

_SREG = re.compile(r"@llvm\.nvvm\.read\.ptx\.sreg\.(tid|ctaid)\.([xyz])")
_AXES = [f"{name}.{axis}" for name in ("ctaid", "tid") for axis in "xyz"]


# What LLVM calls to round to bfloat16 where the processor has no instruction for it: ties to even, and a NaN stays one.
_TO_BFLOAT = """
define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %half = add i32 %odd, 32767
  %sum = add i32 %bits, %half
  %rounded = lshr i32 %sum, 16
  %quiet = or i32 %high, 64
  %nan = fcmp uno float %x, %x
  %chosen = select i1 %nan, i32 %quiet, i32 %rounded
  %short = trunc i32 %chosen to i16
  %result = bitcast i16 %short to bfloat
  ret bfloat %result
}"""


def retargeted(text: str) -> str:
    """LLVM IR of kernels as IR of plain functions on the host: no address spaces, and axes that ``set_place`` sets."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(("target ", "declare")) and ("target " in line[:7] or "llvm.nvvm." in line):
            continue
        if "@llvm.nvvm.exit" in line:
            lines.append("  ret void")
            continue
        if line.strip() == "unreachable" and lines[-1] == "  ret void":
            continue
        line = _SREG.sub(r"@axis.\1.\2", line.replace("define ptx_kernel", "define"))
        line = re.sub(r" addrspace\(\d\)", "", line).replace("addrspacecast ptr", "bitcast ptr")
        lines.append(re.sub(r' syncscope\("\w+"\)', "", line))
    for axis in _AXES:
        lines.append(f"@place.{axis} = internal global i32 0")
        lines.append(f"define internal i32 @axis.{axis}() {{\n  %v = load i32, ptr @place.{axis}\n  ret i32 %v\n}}")
    stores = "\n".join(f"  store i32 %a{i}, ptr @place.{axis}" for i, axis in enumerate(_AXES))
    lines.append(f"define void @set_place({', '.join(f'i32 %a{i}' for i in range(6))}) {{\n{stores}\n  ret void\n}}")
    if "bfloat" in text:
        lines.append(_TO_BFLOAT)
    assert "nvvm.read" not in "\n".join(lines)
    return "\n".join(lines)


def threads_of(grid: tuple[int, ...], block: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Block and thread indices in order, x fastest, as (bx, by, bz, tx, ty, tz)."""
    for place in np.ndindex(*grid[::-1], *block[::-1]):
        yield (*place[2::-1], *place[:2:-1])


class OnHost:
    """The only kernel of a function, compiled for this machine and run thread by thread."""

    def __init__(self, func: PrimFunc, arch: str = "sm_80", options: str = "") -> None:
        target = Target(f"nvptx -arch={arch} {options}")
        made = generate(lowered(func, target), target)
        ((symbol, image),) = made.kernels.items()
        self.image: KernelImage = image
        self.text = retargeted(made.text)
        options = CompileOptions.for_host(opt_level=1)
        # The host's instruction that rounds to bfloat16 makes zeros of subnormals, a GPU's does not.
        options = dataclasses.replace(options, features=",".join(filter(None, [options.features, "-avx512bf16"])))
        done = compile_object(self.text, options)
        self._linked = engine().link(done.object, [symbol, "set_place"])
        kinds = [self._kind(param) for param in image.params]
        if image.reports:
            kinds.append(ctypes.c_void_p)
        self._run = ctypes.CFUNCTYPE(None, *kinds)(self._linked[symbol])
        self._place = ctypes.CFUNCTYPE(None, *[ctypes.c_int32] * 6)(self._linked["set_place"])
        self.report = np.zeros(REPORT_WORDS, np.int32)

    @staticmethod
    def _kind(param):
        if param.pointer:
            return ctypes.c_void_p
        return np.ctypeslib.as_ctypes_type(param.dtype.numpy)

    def __call__(self, grid: int | tuple[int, ...], block: int | tuple[int, ...], **arguments) -> None:
        """Run all threads; ``arguments`` by the names of the kernel's parameters."""
        shape = [(*((size,) if isinstance(size, int) else size), 1, 1)[:3] for size in (grid, block)]
        given = []
        for param in self.image.params:
            value = arguments[param.name]
            given.append(value.ctypes.data if param.pointer else value)
        if self.image.reports:
            given.append(self.report.ctypes.data)
        for place in threads_of(*shape):
            self._place(*place)
            self._run(*given)


def empty(shape, dtype) -> np.ndarray:
    """An array that starts at a multiple of 64 bytes, as a launch checks."""
    kind = np.dtype(dtype)
    count = int(np.prod(shape))
    room = np.zeros(count * kind.itemsize + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + count * kind.itemsize].view(kind).reshape(shape)


def array(values, dtype=None) -> np.ndarray:
    """A copy that starts at a multiple of 64 bytes."""
    values = np.asarray(values, dtype)
    made = empty(values.shape, values.dtype)
    made[...] = values
    return made
