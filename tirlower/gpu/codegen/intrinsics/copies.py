"""Copies that go on while threads compute: cp.async with its groups, bulk copies, and tiles by tensor maps."""

from __future__ import annotations

from tirlower.emit.emitter import Emitter
from tirlower.emit.llvm_text import I1, VOID, Value
from tirlower.gpu.codegen.intrinsics.barriers import barrier_address
from tirlower.gpu.codegen.rules import (
    asm,
    constant_int,
    device_state,
    global_address,
    gpu_rule,
    need_arch,
    pointer_at,
    shared_address,
    word,
)
from tirlower.gpu.codegen.tensor_maps import TileCopy, same_map, tile_copy
from tirlower.ir.expr import Call, IntImm

__all__: list[str] = []


def _truth(em: Emitter, value: Value) -> Value:
    return value if value.type is I1 else em.b.icmp("ne", value, Value(value.type, "0"))


@gpu_rule("tir.ptx_cp_async", indices=(3,))
def _cp_async(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 80, "cp.async")
    size = constant_int(em, op, 4, "the number of bytes")
    if size not in (4, 8, 16):
        raise em.error(f"T.ptx_cp_async of {size} bytes", op, "copy 4, 8 or 16 bytes a thread")
    target = shared_address(em, pointer_at(em, op, args, 0))
    source = global_address(em, pointer_at(em, op, args, 2))
    # 16 bytes may bypass the first-level cache, which serves only other threads' use of the same line.
    head = f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global [$0], [$1], {size}"
    if len(args) > 5:
        # Of no bytes read, all are filled with zeros.
        count = em.b.select(_truth(em, args[5]), em.b.i32(size), em.b.i32(0))
        asm(em, f"{head}, $2;", "r,l,r", (), [target, source, count], convergent=False)
    else:
        asm(em, f"{head};", "r,l", (), [target, source], convergent=False)
    return em.b.i32(0)


@gpu_rule("tir.ptx_commit_group")
def _commit(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 80, "cp.async")
    em.b.intrinsic("llvm.nvvm.cp.async.commit.group", VOID, [])
    return em.b.i32(0)


@gpu_rule("tir.ptx_wait_group")
def _wait(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 80, "cp.async")
    left = constant_int(em, op, 0, "the number of groups that may be left")
    em.b.intrinsic("llvm.nvvm.cp.async.wait.group", VOID, [em.b.i32(left)])
    return em.b.i32(0)


@gpu_rule("tir.ptx_cp_async_bulk", indices=(3,))
def _bulk(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 90, "cp.async.bulk")
    size = op.args[4]
    if isinstance(size, IntImm) and (size.value <= 0 or size.value % 16):
        raise em.error(f"T.ptx_cp_async_bulk of {size.value} bytes", op, "copy a multiple of 16 bytes")
    operands = [
        shared_address(em, pointer_at(em, op, args, 0)),
        global_address(em, pointer_at(em, op, args, 2)),
        word(em, args[4]),
        barrier_address(em, op, args[5]),
    ]
    text = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"
    asm(em, text, "r,l,r,r", (), operands, convergent=False)
    return em.b.i32(0)


def _tensor_map(em: Emitter, op: Call) -> Value:
    """The generic address of the kernel's tensor map that a tile copy goes by."""
    device = device_state(em.state, em.kernel.name)
    number = same_map(device.maps, tile_copy(op, em.kernel.func.params))
    return em.b.ptrtoint(device.map_addresses[number])


def _coordinates(em: Emitter, args: list[Value], copy: TileCopy) -> list[Value]:
    """The tile's first element, innermost dimension first."""
    return [word(em, args[i]) for i in reversed(copy.coordinates)]


@gpu_rule("tir.ptx_cp_async_bulk_tensor")
def _tile_load(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 90, "a tile copy by tensor map")
    copy = TileCopy(op)
    coordinates = _coordinates(em, args, copy)
    operands = [
        shared_address(em, pointer_at(em, op, args, 0)),
        _tensor_map(em, op),
        barrier_address(em, op, args[copy.barrier]),
        *coordinates,
    ]
    places = ", ".join(f"${3 + i}" for i in range(copy.rank))
    text = (
        f"cp.async.bulk.tensor.{copy.rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        f"[$0], [$1, {{{places}}}], [$2];"
    )
    asm(em, text, "r,l,r" + ",r" * copy.rank, (), operands, convergent=False)
    return em.b.i32(0)


@gpu_rule("tir.ptx_cp_async_bulk_tensor_store")
def _tile_store(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 90, "a tile copy by tensor map")
    copy = TileCopy(op)
    operands = [
        shared_address(em, pointer_at(em, op, args, 1)),
        _tensor_map(em, op),
        *_coordinates(em, args, copy),
    ]
    places = ", ".join(f"${2 + i}" for i in range(copy.rank))
    text = f"cp.async.bulk.tensor.{copy.rank}d.global.shared::cta.tile.bulk_group [$1, {{{places}}}], [$0];"
    asm(em, text, "r,l" + ",r" * copy.rank, (), operands, convergent=False)
    return em.b.i32(0)


@gpu_rule("tir.ptx_bulk_commit_group")
def _bulk_commit(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 90, "cp.async.bulk")
    asm(em, "cp.async.bulk.commit_group;", "")
    return em.b.i32(0)


@gpu_rule("tir.ptx_bulk_wait_group")
def _bulk_wait(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 90, "cp.async.bulk")
    left = constant_int(em, op, 0, "the number of groups that may be left")
    asm(em, f"cp.async.bulk.wait_group {left};", "")
    return em.b.i32(0)
