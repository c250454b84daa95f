"""Intrinsics of x86 with the types that programs write: what they become, and what is refused. Compiled, not run."""

from __future__ import annotations

import platform
import re

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import CodegenError
from tirlower.ir.dtype import DataType
from tirlower.machine.cpu import host_cpu
from tirlower.script import parse

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names processors of x86")

#: processor, result (a buffer O), intrinsic, operands (buffers A, B, C, or text), and the instruction
CALLS: dict[str, tuple[str, str, str, tuple[str, ...], str]] = {
    "bfloat16": ("znver4", "float32x16", "avx512bf16.dpbf16ps.512", ("float32x16", "bfloat16x32", "bfloat16x32"), "vdpbf16ps"),
    "bfloat16 as bits": ("znver4", "float32x16", "avx512bf16.dpbf16ps.512", ("float32x16", "uint16x32", "int16x32"), "vdpbf16ps"),
    "bfloat16 in pairs": ("sapphirerapids", "float32x8", "avx512bf16.dpbf16ps.256", ("float32x8", "int32x8", "bfloat16x16"), "vdpbf16ps"),
    "to bfloat16": ("znver4", "bfloat16x32", "avx512bf16.cvtne2ps2bf16.512", ("float32x16", "float32x16"), "vcvtne2ps2bf16"),
    "bytes": ("icelake-server", "int32x16", "avx512.vpdpbusd.512", ("int32x16", "uint8x64", "int8x64"), "vpdpbusd"),
    "bytes in fours": ("znver4", "int32x16", "avx512.vpdpbusds.512", ("int32x16", "int32x16", "int8x64"), "vpdpbusds"),
    "bytes, AVX-VNNI": ("alderlake", "int32x8", "avx512.vpdpbusd.256", ("int32x8", "uint8x32", "int8x32"), "vpdpbusd"),
    "words": ("cascadelake", "int32x16", "avx512.vpdpwssd.512", ("int32x16", "int16x32", "int16x32"), "vpdpwssd"),
    "words in pairs": ("znver5", "int32x16", "avx512.vpdpwssds.512", ("int32x16", "int32x16", "int32x16"), "vpdpwssds"),
    "unsigned words": ("haswell", "int32x8", "avx2.pmadd.wd", ("uint16x16", "int16x16"), "vpmaddwd"),
    "bytes to words": ("haswell", "int16x16", "avx2.pmadd.ub.sw", ("uint8x32", "int8x32"), "vpmaddubsw"),
    "half": ("sapphirerapids", "float16x32", "avx512fp16.add.ph.512", ("float16x32", "float16x32", "4"), "vaddph"),
    "half from its bits": ("znver4", "float32x16", "avx512.mask.vcvtph2ps.512", ("float16x16", "float32x16", "T.int16(-1)", "4"), "vcvtph2ps"),
    "a mask": ("znver4", "float32x16", "avx512.mask.scalef.ps.512",
               ("float32x16", "float32x16", "float32x16", "A[0:16] > B[0:16]", "4"), r"vscalefps.*\{%k\d\}"),
    "a mask of four": ("znver4", "float32x4", "avx512.mask.scalef.ps.128",
                       ("float32x4", "float32x4", "float32x4", "A[0:4] > B[0:4]"), r"vscalefps.*%xmm.*\{%k\d\}"),
    "a flag of another width": ("znver4", "float32x16", "avx512.mask.scalef.ps.512",
                                ("float32x16", "float32x16", "float32x16", "T.int16(-1)", "T.int64(4)"), "vscalefps"),
}  # fmt: skip


def program(result: str, name: str, operands: tuple[str, ...]) -> str:
    """A function that computes ``O`` of whole vectors by one call."""
    params, args = [], []
    for letter, operand in zip("ABCDEF", operands, strict=False):
        kind = re.fullmatch(r"([a-z]+\d+)x(\d+)", operand)
        if kind:
            params.append(f'{letter}: T.Buffer(({kind[2]},), "{kind[1]}")')
            args.append(f"{letter}[0:{kind[2]}]")
        else:
            args.append(operand)
    element, lanes = result.split("x")
    params.append(f'O: T.Buffer(({lanes},), "{element}")')
    call = f'T.call_llvm_pure_intrin("{result}", "llvm.x86.{name}", {", ".join(args)})'
    return f"@T.prim_func\ndef f({', '.join(params)}):\n    O[0:{lanes}] = {call}\n"


@pytest.mark.parametrize("name", CALLS)
def test_the_types_that_programs_write_reach_the_instruction(name: str) -> None:
    cpu, result, intrinsic, operands, instruction = CALLS[name]
    assembly = tl.build(parse(program(result, intrinsic, operands)), f"llvm -mcpu={cpu}", schedule="none").source("asm")
    found = [line.strip() for line in assembly.splitlines() if re.search(rf"\b{instruction}(\s|$)", line)]
    assert len(found) == 1, assembly
    # Nothing is converted or taken apart on the way.
    others = [line for line in assembly.splitlines() if re.match(r"\s+(?:\{vex\}\s+)?v(?!mov|zeroupper|cmp)", line)]
    assert len(others) == 1, assembly


REFUSED = {
    "a short operand": ("int32x16", "avx512.vpdpbusd.512", ("int32x16", "int8x32", "int8x64"), r"three operands of 512 bits.*int8x32"),
    "an operand less": ("int32x16", "avx512.vpdpbusd.512", ("int32x16", "int8x64"), "three operands of 512 bits"),
    "another result": ("int32x16", "avx512bf16.dpbf16ps.512", ("float32x16", "bfloat16x32", "bfloat16x32"),
                       r"not \(float32x16, bfloat16x32, bfloat16x32\) -> int32x16"),
    "halves for words": ("int16x16", "avx2.pmadd.ub.sw", ("uint8x32", "int8x16"), r"avx2.pmadd.ub.sw' is not"),
    "a mask of another size": ("float32x16", "avx512.mask.scalef.ps.512",
                               ("float32x16", "float32x16", "float32x16", "A[0:8] > B[0:8]", "4"), "scalef.ps.512' is not"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_declaration_fits_is_refused_before_llvm_sees_it(name: str) -> None:
    result, intrinsic, operands, message = REFUSED[name]
    with pytest.raises(CodegenError, match=message) as info:
        tl.build(parse(program(result, intrinsic, operands)), "llvm -mcpu=znver4", schedule="none")
    assert info.value.help


def test_a_processor_without_the_instruction_is_told_so() -> None:
    text = program("int32x8", "avx512.vpdpbusd.256", ("int32x8", "uint8x32", "int8x32"))
    with pytest.raises(CodegenError, match=r"avx512vnni.*'haswell' does not have"):
        tl.build(parse(text), "llvm -mcpu=haswell", schedule="none")
    with pytest.raises(CodegenError, match=r"float32 and back|not computed on bfloat16"):
        fma = 'T.call_llvm_pure_intrin("bfloat16x8", "llvm.fma", A[0:8], A[0:8], A[0:8])'
        tl.build(
            parse(f'@T.prim_func\ndef f(A: T.Buffer((8,), "bfloat16")):\n    A[0:8] = {fma}\n'),
            "llvm -mcpu=znver4",
            schedule="none",
        )


@pytest.mark.skipif(not host_cpu().has("avx512bf16", "avx512vnni"), reason="runs dot products")
@pytest.mark.parametrize(
    "name", ["bfloat16", "bfloat16 in pairs", "bytes", "bytes in fours", "words", "words in pairs"]
)
def test_the_interpreter_computes_what_the_instruction_does(name: str) -> None:
    _, result, intrinsic, operands, _ = CALLS[name]
    func = parse(program(result, intrinsic, operands))
    rng = np.random.default_rng(5)
    kinds = [np.dtype(DataType(kind).element.numpy) for kind in (*operands, result)]
    lanes = [int(kind.split("x")[1]) for kind in (*operands, result)]
    for _ in range(20):
        args = [
            (rng.standard_normal(n) * 100).astype(k)
            if k.kind in "fV"
            else rng.integers(0, 256, n * k.itemsize, np.uint8).view(k)
            for k, n in zip(kinds, lanes, strict=True)
        ]
        native, wanted = [a.copy() for a in args], [a.copy() for a in args]
        tl.build(func, schedule="none")(*native)
        tl.interpret(func, *wanted)
        assert native[-1].tobytes() == wanted[-1].tobytes()
