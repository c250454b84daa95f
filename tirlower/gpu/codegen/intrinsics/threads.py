"""What the threads of a block and of a warp do together: barriers, shuffles, votes."""

from __future__ import annotations

from tirlower.emit.emitter import Emitter
from tirlower.emit.llvm_text import I1, I32, VOID, Type, Value, int_type
from tirlower.gpu.codegen.rules import asm, gpu_rule, text_of, word
from tirlower.ir.expr import Call

__all__: list[str] = []


@gpu_rule("tir.tvm_storage_sync")
def _sync(em: Emitter, op: Call, args: list[Value]) -> Value:
    scope = text_of(em, op, 0, "the storage scope")
    if scope in ("shared", "shared.dyn"):
        em.b.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", VOID, [em.b.i32(0)])
    elif scope == "warp":
        em.b.intrinsic("llvm.nvvm.bar.warp.sync", VOID, [em.b.i32(-1)])
    else:
        raise em.error(
            f"a barrier of {scope!r} memory orders all blocks of a grid, which one launch does not",
            op,
            "make two kernels of it: the second starts when the first is done",
        )
    return em.b.i32(0)


@gpu_rule("tir.ptx_syncwarp")
def _sync_warp(em: Emitter, op: Call, args: list[Value]) -> Value:
    em.b.intrinsic("llvm.nvvm.bar.warp.sync", VOID, [word(em, args[0])])
    return em.b.i32(0)


_MODES = {"": "idx", "_up": "up", "_down": "down", "_xor": "bfly"}


@gpu_rule("tir.tvm_warp_shuffle", "tir.tvm_warp_shuffle_up", "tir.tvm_warp_shuffle_down", "tir.tvm_warp_shuffle_xor")
def _shuffle(em: Emitter, op: Call, args: list[Value]) -> Value:
    """A value of any type, 32 bits at a time."""
    b = em.b
    mode = _MODES[op.op.name.removeprefix("tir.tvm_warp_shuffle")]
    mask, value, lane, width = word(em, args[0]), args[1], word(em, args[2]), word(em, args[3])
    # The segment's mask stands in bits 8 to 12, and the bound of lanes below: 31, but 0 where lanes go up.
    segment = b.shl(b.sub(b.i32(32), width), b.i32(8))
    clamp = segment if mode == "up" else b.or_(segment, b.i32(31))
    t = value.type
    if t.is_ptr:
        raise em.error("a pointer cannot be shuffled", op, "shuffle an offset")
    bits = t.scalar.bits * t.lanes
    whole = int_type(max(bits, 32) if bits % 32 == 0 or bits < 32 else -(-bits // 32) * 32)
    exact = int_type(bits)
    raw = value if t.is_int and not t.is_vector else b.bitcast(value, exact)
    if whole.bits != bits:
        raw = b.zext(raw, whole)
    made: Value | None = None
    for at in range(0, whole.bits, 32):
        part = raw if whole.bits == 32 else b.trunc(b.lshr(raw, Value(whole, str(at))) if at else raw, I32)
        moved = b.intrinsic(f"llvm.nvvm.shfl.sync.{mode}.i32", I32, [mask, part, lane, clamp])
        if whole.bits == 32:
            made = moved
            break
        wide = b.zext(moved, whole)
        wide = b.shl(wide, Value(whole, str(at))) if at else wide
        made = wide if made is None else b.or_(made, wide)
    assert made is not None
    if whole.bits != bits:
        made = b.trunc(made, exact)
    return made if t.is_int and not t.is_vector else b.bitcast(made, t)


@gpu_rule("tir.tvm_warp_activemask")
def _active_mask(em: Emitter, op: Call, args: list[Value]) -> Value:
    return asm(em, "activemask.b32 $0;", "=r", [I32])[0]


@gpu_rule("tir.ptx_vote_ballot", "tir.ptx_vote_any", "tir.ptx_vote_all")
def _vote(em: Emitter, op: Call, args: list[Value]) -> Value:
    kind = op.op.name.removeprefix("tir.ptx_vote_")
    result: Type = I32 if kind == "ballot" else I1
    condition = args[1]
    if condition.type is not I1:
        condition = em.b.icmp("ne", condition, Value(condition.type, "0"))
    return em.b.intrinsic(f"llvm.nvvm.vote.{kind}.sync", result, [word(em, args[0]), condition])


@gpu_rule("tir.tvm_global_barrier_kinit")
def _grid_barrier(em: Emitter, op: Call, args: list[Value]) -> Value:
    raise em.error(
        "a barrier of the whole grid", op, "make two kernels of it: the second starts when the first is done"
    )


@gpu_rule("tir.ptx_ldg32")
def _guarded_load(em: Emitter, op: Call, args: list[Value]) -> Value:
    """A 32-bit load through the read-only path where the guard holds; the register keeps 0 elsewhere."""
    raise em.error("T.ptx_ldg32 was not lowered", op, "build without tir.ptx_ldg32: LLVM selects ld.global.nc itself")
