"""Barriers in shared memory that count arrivals and bytes (mbarrier objects), numbered within a kernel."""

from __future__ import annotations

from tirlower.emit.emitter import Emitter
from tirlower.emit.llvm_text import I32, I64, Value, array, poison
from tirlower.gpu.codegen.rules import SHARED, asm, constant_int, device_state, gpu_rule, need_arch, word
from tirlower.ir.expr import Call

__all__ = ["barrier_address"]

_BYTES = 8


@gpu_rule("tir.create_barriers")
def _create(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 80, "a barrier in shared memory")
    count = constant_int(em, op, 0, "the number of barriers")
    device = device_state(em.state, em.kernel.name)
    if device.barriers is not None:
        raise em.error("a kernel creates its barriers twice", op, "create them all at once")
    room = array(max(count, 1), I64)
    name = em.module.unique_name(f"{em.kernel.name}_barriers")
    memory = em.module.global_variable(name, room, poison(room), addrspace=3, align=_BYTES, linkage="internal")
    # A constant expression: barriers are used where the block that made them does not lead.
    device.barriers = Value(I32, f"ptrtoint ({SHARED.text} {memory.text} to i32)")
    device.shared += count * _BYTES
    return em.b.i32(0)


def barrier_address(em: Emitter, op: Call, number: Value) -> Value:
    """The 32-bit address in shared memory of a barrier."""
    first = device_state(em.state, em.kernel.name).barriers
    if first is None:
        raise em.error(f"{op.op.name} before the kernel's barriers are there", op, "run T.create_barriers(count) first")
    return em.b.add(first, em.b.mul(word(em, number), em.b.i32(_BYTES)))


@gpu_rule("tir.ptx_init_barrier_thread_count")
def _init(em: Emitter, op: Call, args: list[Value]) -> Value:
    asm(em, "mbarrier.init.shared.b64 [$0], $1;", "r,r", (), [barrier_address(em, op, args[0]), word(em, args[1])])
    return em.b.i32(0)


@gpu_rule("tir.ptx_arrive_barrier")
def _arrive(em: Emitter, op: Call, args: list[Value]) -> Value:
    text = "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [$0]; }"
    asm(em, text, "r", (), [barrier_address(em, op, args[0])])
    return em.b.i32(0)


@gpu_rule("tir.ptx_arrive_barrier_expect_tx")
def _arrive_expecting(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 90, "a barrier that counts bytes")
    text = "{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [$0], $1; }"
    asm(em, text, "r,r", (), [barrier_address(em, op, args[0]), word(em, args[1])])
    return em.b.i32(0)


@gpu_rule("tir.ptx_wait_barrier")
def _wait(em: Emitter, op: Call, args: list[Value]) -> Value:
    # Before sm_90 a thread asks again and again; from then on the hardware lets it sleep for a while.
    test = "test_wait" if em.machine.cpu in ("sm_80", "sm_86", "sm_87", "sm_89") else "try_wait"
    ask = f"mbarrier.{test}.parity.shared.b64 done, [$0], $1;"
    text = f"{{ .reg .pred done; again: {ask} @done bra leave; bra again; leave: }}"
    parity = word(em, args[1]) if len(args) > 1 else em.b.i32(0)
    asm(em, text, "r,r", (), [barrier_address(em, op, args[0]), parity])
    return em.b.i32(0)


@gpu_rule("tir.ptx_cp_async_barrier")
def _copies_arrive(em: Emitter, op: Call, args: list[Value]) -> Value:
    asm(em, "cp.async.mbarrier.arrive.shared.b64 [$0];", "r", (), [barrier_address(em, op, args[0])])
    return em.b.i32(0)


@gpu_rule("tir.ptx_fence_barrier_init")
def _fence_init(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 90, "fence.mbarrier_init")
    asm(em, "fence.mbarrier_init.release.cluster;", "")
    return em.b.i32(0)


@gpu_rule("tir.ptx_fence_proxy_async")
def _fence_proxy(em: Emitter, op: Call, args: list[Value]) -> Value:
    need_arch(em, op, 90, "fence.proxy.async")
    asm(em, "fence.proxy.async.shared::cta;", "")
    return em.b.i32(0)
