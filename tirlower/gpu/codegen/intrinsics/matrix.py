"""Tensor cores of a warp: products of fragments (mma.sync), and moves of fragments from and to shared memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tirlower.emit.casts import convert
from tirlower.emit.emitter import Emitter, constant
from tirlower.emit.llvm_text import DOUBLE, FLOAT, I32, I64, Type, Value
from tirlower.emit.memory import to_memory
from tirlower.emit.types import memory_bytes, memory_type
from tirlower.gpu.codegen.rules import (
    asm,
    constant_int,
    element_of,
    gpu_rule,
    need_arch,
    pointer_at,
    shared_address,
    text_of,
)
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Call

__all__ = ["Fragment", "fragment", "ptx_type", "register_of"]

_NAMES: Final = {
    "fp16": "f16", "float16": "f16", "f16": "f16", "bf16": "bf16", "bfloat16": "bf16", "tf32": "tf32",
    "fp32": "f32", "float32": "f32", "f32": "f32", "fp64": "f64", "float64": "f64", "f64": "f64",
    "int8": "s8", "uint8": "u8", "int4": "s4", "uint4": "u4", "int1": "b1", "uint1": "b1", "int32": "s32",
    "e4m3": "e4m3", "float8_e4m3fn": "e4m3", "e5m2": "e5m2", "float8_e5m2": "e5m2",
}  # fmt: skip
_BITS: Final = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32,
    "e4m3": 8, "e5m2": 8,
}  # fmt: skip
#: operand type -> the shapes with the first architecture that has them
_SHAPES: Final[dict[str, dict[str, int]]] = {
    "f16": {"m16n8k8": 75, "m16n8k16": 80},
    "bf16": {"m16n8k8": 80, "m16n8k16": 80},
    "tf32": {"m16n8k4": 80, "m16n8k8": 80},
    "f64": {"m8n8k4": 80},
    "s8": {"m8n8k16": 75, "m16n8k16": 80, "m16n8k32": 80},
    "s4": {"m8n8k32": 75, "m16n8k32": 80, "m16n8k64": 80},
    "b1": {"m8n8k128": 75, "m16n8k128": 80, "m16n8k256": 80},
    "e4m3": {"m16n8k32": 89},
}
#: operand type -> the types of the other operand, and of sums
_ALONGSIDE: Final = {kind: (kind,) for kind in _BITS} | {
    kind: pair for pair in (("s8", "u8"), ("s4", "u4"), ("e4m3", "e5m2")) for kind in pair
}
_SUMS: Final = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",), "e4m3": ("f32",), "e5m2": ("f32",),
    **dict.fromkeys(("s8", "u8", "s4", "u4", "b1"), ("s32",)),
}  # fmt: skip
_SHAPES["u8"], _SHAPES["u4"], _SHAPES["e5m2"] = _SHAPES["s8"], _SHAPES["s4"], _SHAPES["e4m3"]


def ptx_type(em: Emitter, op: Call, position: int) -> str:
    """PTX's name of a type that a call names."""
    text = text_of(em, op, position, "a type")
    found = _NAMES.get(text)
    if found is None:
        raise em.error(f"{op.op.name} of type {text!r}", op, f"use one of {', '.join(_NAMES)}")
    return found


@dataclass(frozen=True)
class Fragment:
    """A thread's part of a matrix in local memory: how many registers, and the type of each."""

    pointer: Value
    count: int
    type: Type

    def load(self, em: Emitter) -> list[Value]:
        """The registers."""
        size = self.type.bits // 8
        return [
            em.b.load(self.type, em.b.offset(self.pointer, i * size) if i else self.pointer, min(size, 4))
            for i in range(self.count)
        ]

    def store(self, em: Emitter, values: Sequence[Value]) -> None:
        """Set the registers."""
        size = self.type.bits // 8
        for i, value in enumerate(values):
            em.b.store(value, em.b.offset(self.pointer, i * size) if i else self.pointer, min(size, 4))


def register_of(kind: str) -> tuple[Type, str]:
    """The type of a 32-bit (64-bit for f64) register of a fragment, and its letter in constraints."""
    return {"f32": (FLOAT, "f"), "f64": (DOUBLE, "d")}.get(kind, (I32, "r"))


def fragment(em: Emitter, op: Call, args: list[Value], position: int, kind: str, elements: int) -> Fragment:
    """The fragment of ``elements`` of a PTX type, in local memory given at ``position``."""
    t, _ = register_of(kind)
    stored = element_of(em, op, position)
    # Four bits and one are packed by whoever fills a buffer of words: one of such elements has a byte for each.
    bits = stored.bits if stored.bits == memory_bytes(stored) * 8 and not stored.is_bool else 0
    if bits != _BITS[kind] and not (bits == 32 and _BITS[kind] < 32):
        raise em.error(
            f"a fragment of {kind} in a buffer of {stored!s}",
            op,
            f"use a buffer whose elements have {_BITS[kind] if _BITS[kind] >= 8 else 32} bits",
        )
    return Fragment(pointer_at(em, op, args, position), max(elements * _BITS[kind] // t.bits, 1), t)


@gpu_rule("tir.ptx_mma")
def _mma(em: Emitter, op: Call, args: list[Value]) -> Value:
    shape = text_of(em, op, 0, "the shape")
    layouts = [text_of(em, op, i, "the layout") for i in (1, 2)]
    a_kind, b_kind, c_kind = (ptx_type(em, op, i) for i in (3, 4, 5))
    found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape)
    least = _SHAPES.get(a_kind, {}).get(shape)
    if found is None or least is None:
        raise em.error(
            f"T.ptx_mma of shape {shape!r} on {a_kind}",
            op,
            f"use one of {', '.join(_SHAPES.get(a_kind, {})) or 'no shapes'}",
        )
    if layouts != ["row", "col"]:
        raise em.error(f"T.ptx_mma with layouts {layouts}", op, 'A is "row", B is "col" in every shape of this kind')
    if a_kind not in _ALONGSIDE[b_kind] or c_kind not in _SUMS[a_kind]:
        raise em.error(
            f"T.ptx_mma of {a_kind} and {b_kind} with sums of {c_kind}",
            op,
            f"multiply {a_kind} by {' or '.join(_ALONGSIDE[a_kind])}, and sum in {' or '.join(_SUMS[a_kind])}",
        )
    need_arch(em, op, least, f"mma.{shape} on {a_kind}")
    m, n, k = (int(found[i]) for i in (1, 2, 3))
    a = fragment(em, op, args, 6, a_kind, m * k // 32)
    b = fragment(em, op, args, 8, b_kind, n * k // 32)
    c = fragment(em, op, args, 10, c_kind, m * n // 32)
    letter_c, letter_ab = register_of(c_kind)[1], register_of(a_kind)[1]
    total = c.count + a.count + b.count
    places = [f"${i}" for i in range(2 * c.count + a.count + b.count)]
    groups = [
        places[: c.count],
        places[c.count : c.count + a.count],
        places[c.count + a.count : total],
        places[total:],
    ]
    saturate = constant_int(em, op, 12, "whether to saturate")
    words = [f"mma.sync.aligned.{shape}.row.col"]
    if saturate and c_kind == "s32":
        words.append("satfinite")
    words += [c_kind, a_kind, b_kind, c_kind]
    if a_kind == "b1":
        words.append(f"{text_of(em, op, 13, 'the bit operation') if len(op.args) > 13 else 'xor'}.popc")
    text = f"{'.'.join(words)} {', '.join('{' + ', '.join(group) + '}' for group in groups)};"
    constraints = ",".join([f"={letter_c}"] * c.count + [letter_ab] * (a.count + b.count) + [letter_c] * c.count)
    operands = [*a.load(em), *b.load(em), *c.load(em)]
    c.store(em, asm(em, text, constraints, [c.type] * c.count, operands, memory=False))
    return em.b.i32(0)


@gpu_rule("tir.ptx_mma_sp")
def _mma_sparse(em: Emitter, op: Call, args: list[Value]) -> Value:
    raise em.error("products of sparse matrices have no code yet", op, "use T.ptx_mma on the dense matrix")


def _matrices(em: Emitter, op: Call) -> tuple[str, int]:
    """``.trans`` or nothing, and the number of 8x8 matrices, of a call of ldmatrix or stmatrix."""
    count = constant_int(em, op, 1, "the number of matrices")
    kind = text_of(em, op, 2, "the type")
    if count not in (1, 2, 4) or kind != ".b16":
        raise em.error(f"{op.op.name} of {count} matrices of {kind!r}", op, 'move 1, 2 or 4 matrices of ".b16"')
    return ".trans" if constant_int(em, op, 0, "whether to transpose") else "", count


@gpu_rule("tir.ptx_ldmatrix")
def _ldmatrix(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 75, "ldmatrix")
    trans, count = _matrices(em, op)
    target = Fragment(pointer_at(em, op, args, 3), count, I32)
    row = shared_address(em, pointer_at(em, op, args, 5))
    places = ", ".join(f"${i}" for i in range(count))
    text = f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{places}}}, [${count}];"
    target.store(em, asm(em, text, ",".join(["=r"] * count + ["r"]), [I32] * count, [row]))
    return em.b.i32(0)


@gpu_rule("tir.ptx_stmatrix")
def _stmatrix(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 90, "stmatrix")
    trans, count = _matrices(em, op)
    row = shared_address(em, pointer_at(em, op, args, 3))
    source = Fragment(pointer_at(em, op, args, 5), count, I32)
    places = ", ".join(f"${i + 1}" for i in range(count))
    text = f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [$0], {{{places}}};"
    asm(em, text, ",".join(["r"] * (count + 1)), (), [row, *source.load(em)])
    return em.b.i32(0)


@gpu_rule("tir.mma_fill")
def _fill(em: Emitter, op: Call, args: list[Value]) -> Value:
    """Zeros into a thread's fragment."""
    count = constant_int(em, op, 0, "the number of elements")
    dtype = element_of(em, op, 1)
    unit, size = memory_type(dtype), memory_bytes(dtype)
    pointer = pointer_at(em, op, args, 1)
    nothing = Value(unit, "0.0") if unit.is_float else constant(unit, 0)
    for i in range(count * dtype.lanes):
        em.b.store(nothing, em.b.offset(pointer, i * size) if i else pointer, size)
    return em.b.i32(0)


@gpu_rule("tir.mma_store")
def _store(em: Emitter, op: Call, args: list[Value]) -> Value:
    """A warp's 16x16 result to memory: the eight elements of each thread, two 16x8 accumulators side by side."""
    rows, columns = constant_int(em, op, 0, "the number of rows"), constant_int(em, op, 1, "the number of columns")
    if (rows, columns) != (16, 16):
        raise em.error(f"T.mma_store of a {rows}x{columns} tile", op, "tiles are 16x16")
    b = em.b
    target_kind = DataType(op.dtype)
    source_kind = element_of(em, op, 3)
    target, source, stride = args[2], pointer_at(em, op, args, 3), args[5]
    stride = stride if stride.type.bits == 64 else b.sext(stride, I64)
    lane = b.intrinsic("llvm.nvvm.read.ptx.sreg.laneid", I32, [])
    group, pair = b.lshr(lane, b.i32(2)), b.shl(b.and_(lane, b.i32(3)), b.i32(1))
    unit, size = memory_type(target_kind), memory_bytes(target_kind)
    loaded, width = memory_type(source_kind), memory_bytes(source_kind)
    for i in range(8):
        row = b.add(group, b.i32(8 * (i // 2 % 2)))
        column = b.add(pair, b.i32(8 * (i // 4) + i % 2))
        at = b.add(b.mul(b.zext(row, I64), stride), b.zext(column, I64))
        place = b.gep(unit, target, at, inbounds=False)
        value = b.load(loaded, b.offset(source, i * width) if i else source, width)
        if source_kind != target_kind:
            value = convert(em, value, source_kind, target_kind)
        b.store(to_memory(em, value, target_kind), place, size)
    return em.b.i32(0)
