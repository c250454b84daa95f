"""Tensor cores of four warps on sm_90a: products of tiles in shared memory (wgmma), in flight until they are waited for.

A tile is described by 64 bits (PTX ISA, "Matrix descriptor format"): its address, the distance of groups of eight rows,
and how its rows are swizzled.
"""

from __future__ import annotations

import re
from typing import Final

from tirlower.emit.emitter import Emitter
from tirlower.emit.llvm_text import I32, I64, VOID, Value
from tirlower.gpu.codegen.intrinsics.matrix import Fragment, fragment, ptx_type, register_of
from tirlower.gpu.codegen.rules import (
    asm,
    constant_int,
    device_state,
    gpu_rule,
    need_arch,
    pointer_at,
    shared_address,
    text_of,
    word,
)
from tirlower.ir.expr import Call, IntImm, Var

__all__: list[str] = []

_SWIZZLES: Final = {128: 1, 64: 2, 32: 3}
_DEPTH: Final = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
_ROWS: Final = 64
_BYTES: Final = {"f16": 2, "bf16": 2, "f32": 4, "s32": 4}
_MAY_TURN: Final = ("f16", "bf16")
#: the type of a tile -> those of its sums
_SUMS: Final = {
    "bf16": ("f32",), "tf32": ("f32",), "s8": ("s32",), "u8": ("s32",), **dict.fromkeys(("f16", "e4m3", "e5m2"), ("f32", "f16")),
}  # fmt: skip
_SUM_KINDS: Final = {"float32": "f32", "float16": "f16", "int32": "s32"}
_ALIKE: Final = ({"e4m3", "e5m2"}, {"s8", "u8"})


@gpu_rule("tir.ptx_wgmma_fence")
def _fence(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 90, "wgmma", exact="sm_90a")
    em.b.intrinsic("llvm.nvvm.wgmma.fence.sync.aligned", VOID, [])
    return em.b.i32(0)


@gpu_rule("tir.ptx_wgmma_commit_group")
def _commit(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 90, "wgmma", exact="sm_90a")
    em.b.intrinsic("llvm.nvvm.wgmma.commit_group.sync.aligned", VOID, [])
    return em.b.i32(0)


@gpu_rule("tir.ptx_wgmma_wait_group")
def _wait(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 90, "wgmma", exact="sm_90a")
    left = constant_int(em, op, 0, "the number of groups that may be left")
    em.b.intrinsic("llvm.nvvm.wgmma.wait_group.sync.aligned", VOID, [Value(I64, str(left))])
    if not left:
        _settle(em)
    return em.b.i32(0)


def _settle(em: Emitter) -> None:
    """Make the sums new values behind the wait: to LLVM, what a product gives is there at once, and may be used ahead."""
    for (data, offset), (kind, elements) in device_state(em.state, em.kernel.name).sums.items():
        binding = em.vars.get(data)
        if binding is None:
            continue
        t, letter = register_of(kind)
        size = _BYTES[kind]
        sums = Fragment(em.b.offset(binding.value, size * offset), elements * size // 4, t)
        constraints = ",".join([f"={letter}"] * sums.count + [str(i) for i in range(sums.count)])
        sums.store(em, asm(em, "", constraints, [t] * sums.count, sums.load(em)))


def _descriptor(em: Emitter, address: Value, swizzle: int) -> Value:
    b = em.b
    wide = b.zext(b.and_(b.lshr(address, b.i32(4)), b.i32(0x3FFF)), I64)
    fixed = 1 << 16 | (8 * swizzle // 16) << 32 | _SWIZZLES[swizzle] << 62
    signed = fixed - (1 << 64) if fixed >> 63 else fixed
    return b.or_(wide, b.i64(signed))


@gpu_rule("tir.ptx_wgmma")
def _wgmma(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 90, "wgmma", exact="sm_90a")
    shape = text_of(em, op, 0, "the shape")
    a_kind, b_kind = ptx_type(em, op, 1), ptx_type(em, op, 2)
    found = re.fullmatch(r"m64n(\d+)k(\d+)", shape)
    if found is None or a_kind not in _DEPTH or int(found[2]) != _DEPTH[a_kind] or not 8 <= int(found[1]) <= 256:
        raise em.error(
            f"T.ptx_wgmma of shape {shape!r} on {a_kind}",
            op,
            "use m64nNkK with N a multiple of 8 to 256, and K 16 for 16-bit types, 8 for tf32, 32 for 8-bit ones",
        )
    if b_kind != a_kind and not any({a_kind, b_kind} <= kinds for kinds in _ALIKE):
        raise em.error(f"T.ptx_wgmma of {a_kind} and {b_kind}", op, "give both tiles one type (8-bit ones may differ)")
    columns = int(found[1])
    swizzle = constant_int(em, op, 9, "the swizzle")
    if swizzle not in _SWIZZLES or columns % 8:
        raise em.error(f"T.ptx_wgmma with a swizzle of {swizzle} and {columns} columns", op, "use 32, 64 or 128 bytes")
    if a_kind in ("s8", "u8") and columns > 32 and columns % 16:
        raise em.error(f"T.ptx_wgmma of {a_kind} with {columns} columns", op, "above 32, use a multiple of 16")
    c_kind = _SUM_KINDS.get(str(op.dtype), "")
    if c_kind not in _SUMS[a_kind]:
        kinds = " or ".join(name for name, kind in _SUM_KINDS.items() if kind in _SUMS[a_kind])
        raise em.error(f"T.ptx_wgmma of {a_kind} with sums of {op.dtype!s}", op, f"sum in {kinds}")
    trans = [
        _transposed(em, op, position, kind, rows, swizzle)
        for position, kind, rows in ((11, a_kind, _ROWS), (12, b_kind, columns))
    ]
    b = em.b
    sums = fragment(em, op, args, 3, c_kind, columns // 2)
    if isinstance(op.args[3], Var) and isinstance(op.args[4], IntImm):
        device_state(em.state, em.kernel.name).sums[op.args[3], op.args[4].value] = c_kind, columns // 2
    tiles = [_descriptor(em, shared_address(em, pointer_at(em, op, args, at)), swizzle) for at in (5, 7)]
    scale = args[10]
    scale = word(em, scale) if scale.type.bits <= 32 else b.zext(b.icmp("ne", scale, b.i64(0)), I32)
    count = sums.count
    registers = ", ".join(f"${i}" for i in range(count))
    a, tile_b, keep = count * 2, count * 2 + 1, count * 2 + 2
    # Whether factors are negated, and whether tiles are transposed, where the instruction has the choice.
    signs = "" if c_kind == "s32" else ", 1, 1"
    turned = "".join(f", {int(each)}" for each in trans) if a_kind in _MAY_TURN else ""
    text = (
        f"{{ .reg .pred keep; setp.ne.b32 keep, ${keep}, 0; "
        f"wgmma.mma_async.sync.aligned.{shape}.{c_kind}.{a_kind}.{b_kind} "
        f"{{{registers}}}, ${a}, ${tile_b}, keep{signs}{turned}; }}"
    )
    t, letter = register_of(c_kind)
    constraints = ",".join([f"={letter}"] * count + [str(i) for i in range(count)] + ["l", "l", "r"])
    sums.store(em, asm(em, text, constraints, [t] * count, [*sums.load(em), *tiles, scale]))
    return b.i32(0)


def _transposed(em: Emitter, op: Call, position: int, kind: str, rows: int, swizzle: int) -> bool:
    """Whether a tile has its rows along k: then all ``rows`` columns of it stand in one span of the swizzle, whose groups of
    eight rows are as far from each other as those of a tile that is not transposed, so that the descriptor is the same."""
    name = "A" if position == 11 else "B"
    if not constant_int(em, op, position, f"whether {name} is transposed"):
        return False
    if kind not in _MAY_TURN:
        raise em.error(
            f"T.ptx_wgmma with {name} of {kind} transposed", op, "only tiles of 16-bit types may be; keep K innermost"
        )
    if rows * _BYTES[kind] > swizzle:
        raise em.error(
            f"T.ptx_wgmma with {name} transposed: its {rows} columns are {rows * _BYTES[kind]} bytes, the swizzle {swizzle}",
            op,
            "use a wider swizzle or a narrower product, or keep K innermost",
        )
    return True
