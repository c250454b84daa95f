"""Tensor cores of four warps on sm_90a: products of tiles in shared memory (wgmma), in flight until they are waited for.

A tile is described by 64 bits (PTX ISA, "Matrix descriptor format"): its address, the distance of groups of eight rows,
and how its rows are swizzled.
"""

from __future__ import annotations

import re
from typing import Final

from tirlower.emit.emitter import Emitter
from tirlower.emit.llvm_text import FLOAT, I32, I64, VOID, Value
from tirlower.gpu.codegen.intrinsics.matrix import ptx_type
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
_DEPTH: Final = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32}


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
    for (data, offset), count in device_state(em.state, em.kernel.name).sums.items():
        binding = em.vars.get(data)
        if binding is None:
            continue
        places = [em.b.offset(binding.value, 4 * (offset + i)) for i in range(count)]
        values = [em.b.load(FLOAT, place, 4) for place in places]
        constraints = ",".join(["=f"] * count + [str(i) for i in range(count)])
        for place, value in zip(places, asm(em, "", constraints, [FLOAT] * count, values), strict=True):
            em.b.store(value, place, 4)


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
    if b_kind != a_kind and not {a_kind, b_kind} <= {"e4m3", "e5m2"}:
        raise em.error(f"T.ptx_wgmma of {a_kind} and {b_kind}", op, "give both tiles one type (8-bit ones may differ)")
    columns = int(found[1])
    swizzle = constant_int(em, op, 9, "the swizzle")
    if swizzle not in _SWIZZLES or columns % 8:
        raise em.error(f"T.ptx_wgmma with a swizzle of {swizzle} and {columns} columns", op, "use 32, 64 or 128 bytes")
    if constant_int(em, op, 11, "whether A is transposed") or constant_int(em, op, 12, "whether B is transposed"):
        raise em.error("T.ptx_wgmma with a transposed tile", op, "keep K innermost in both tiles")
    if str(op.dtype) != "float32":
        raise em.error(f"T.ptx_wgmma with accumulators of {op.dtype!s}", op, "accumulate in float32")
    b = em.b
    accumulators = pointer_at(em, op, args, 3)
    count = columns // 2
    if isinstance(op.args[3], Var) and isinstance(op.args[4], IntImm):
        device_state(em.state, em.kernel.name).sums[op.args[3], op.args[4].value] = count
    tiles = [_descriptor(em, shared_address(em, pointer_at(em, op, args, at)), swizzle) for at in (5, 7)]
    scale = args[10]
    scale = word(em, scale) if scale.type.bits <= 32 else b.zext(b.icmp("ne", scale, b.i64(0)), I32)
    places = [b.offset(accumulators, 4 * i) if i else accumulators for i in range(count)]
    values = [b.load(FLOAT, place, 4) for place in places]
    registers = ", ".join(f"${i}" for i in range(count))
    a, tile_b, keep = count * 2, count * 2 + 1, count * 2 + 2
    transposed = ", 0, 0" if a_kind in ("f16", "bf16") else ""
    text = (
        f"{{ .reg .pred keep; setp.ne.b32 keep, ${keep}, 0; "
        f"wgmma.mma_async.sync.aligned.{shape}.f32.{a_kind}.{b_kind} "
        f"{{{registers}}}, ${a}, ${tile_b}, keep, 1, 1{transposed}; }}"
    )
    constraints = ",".join(["=f"] * count + [str(i) for i in range(count)] + ["l", "l", "r"])
    made = asm(em, text, constraints, [FLOAT] * count, [*values, *tiles, scale])
    for place, value in zip(places, made, strict=True):
        b.store(value, place, 4)
    return b.i32(0)
