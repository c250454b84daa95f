"""A GPU as a platform: thread axes are special registers, memory has scopes, a failure is a report and an exit.

Pointers are generic in the code that is emitted; LLVM finds their address spaces again, as it does for CUDA C++.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from tirlower.emit.emitter import Emitter
from tirlower.emit.expressions import Run
from tirlower.emit.llvm_text import I8, I32, I64, PTR, VOID, Value, array, const_bytes, poison, zero
from tirlower.emit.platform import EmitBody, Platform
from tirlower.emit.types import memory_bytes, memory_type
from tirlower.gpu.codegen.device_function import call_device_function
from tirlower.gpu.codegen.rules import GPU_CALLS, GPU_CONTROLS, device_state, report_of
from tirlower.ir.buffer import ALLOC_ALIGNMENT, Buffer
from tirlower.ir.expr import Call, IntImm, is_const_int
from tirlower.ir.op import GlobalVar
from tirlower.ir.stmt import AllocBuffer, AllocConst, For, ForKind

__all__ = ["DYNAMIC_SHARED", "GPU", "GpuPlatform", "thread_index"]

DYNAMIC_SHARED: Final = "tirlower_dynamic_shared"
"""The symbol of a module's dynamic shared memory."""
_SHARED_ALIGN: Final = 128
_DYNAMIC_ALIGN: Final = 1024
"""Tiles that the copy engine swizzles start at multiples of 1,024 bytes."""

_REGISTERS: Final = {
    "threadIdx": ("tid", 1024), "blockIdx": ("ctaid", 0x7FFFFFFF),
    "clusterCtaIdx": ("cluster.ctaid", 16), "clusterIdx": ("clusterid", 0x7FFFFFFF),
}  # fmt: skip


def thread_index(em: Emitter, tag: str, extent: int | None = None) -> Value:
    """The i32 index of this thread on an axis such as ``threadIdx.x``."""
    name, _, axis = tag.partition(".")
    register, most = _REGISTERS[name]
    if extent is not None:
        most = min(most, extent)
    elif axis != "x" and name == "threadIdx":
        most = 64 if axis == "z" else 1024
    read = f"llvm.nvvm.read.ptx.sreg.{register}.{axis}"
    indices, key = device_state(em.state, em.kernel.name).indices, (id(em.function), tag)
    known = indices.get(key)
    if known is not None and known[1] is em.b.block:
        return known[0]
    made = em.b.intrinsic(f"{read}", I32, [])
    em.b.assume(em.b.icmp("ult", made, em.b.i32(most)))
    indices[key] = (made, em.b.block)
    return made


class GpuPlatform(Platform):
    """Code for the threads of an NVIDIA GPU."""

    calls = GPU_CALLS
    controls = GPU_CONTROLS

    def other_call(self, run: Run, op: Call) -> None:
        """A call of a function of the module; nothing else can be called from a kernel."""
        callee = op.op
        if isinstance(callee, GlobalVar):
            call_device_function(run, op, callee.name)
            return
        raise run.em.error(
            f"{callee.name} has no meaning on a GPU", op, "use an operation of the dialect that threads have"
        )

    def loop(self, em: Emitter, op: For, body: EmitBody) -> bool:
        """A thread axis gives its variable this thread's index; a parallel loop runs in order in each thread."""
        if op.kind is not ForKind.THREAD_BINDING:
            return False
        tag = str(op.thread_tag)
        if tag.partition(".")[0] not in _REGISTERS or tag.partition(".")[2] not in ("x", "y", "z"):
            raise em.error(
                f"the loop `{op.loop_var.name}` is bound to {tag!r}, which is no axis of a launch",
                op,
                "run InjectVirtualThread for virtual threads, or bind to threadIdx, blockIdx or clusterCtaIdx",
            )
        index = thread_index(em, tag, op.extent.value if isinstance(op.extent, IntImm) else None)
        wide = em.b.zext(index, I64)
        if not is_const_int(op.min, 0):
            wide = em.b.binary("add nsw", wide, em.index(op.min))
        kind = em.type_of(op.loop_var.dtype)
        em.define(op.loop_var, wide if kind.bits == 64 else em.b.trunc(wide, kind), wide)
        body(em, op.body)
        return True

    def allocate(self, em: Emitter, op: AllocBuffer) -> None:
        """Registers (or thread-local memory) and shared memory."""
        buffer = op.buffer
        root = em.root(buffer.data)
        root.offset = False
        if buffer.scope == "shared.dyn":
            found = em.module.symbol(DYNAMIC_SHARED)
            if found is None:
                found = em.module.global_variable(DYNAMIC_SHARED, array(0, I8), addrspace=3, align=_DYNAMIC_ALIGN)
            root.align = max(root.align, _DYNAMIC_ALIGN)
            extents = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]
            if len(extents) == len(buffer.shape):  # what the launch alone knows, it checks
                device = device_state(em.state, em.kernel.name)
                size = math.prod(extents) * memory_bytes(buffer.dtype) * buffer.dtype.lanes
                device.dynamic = max(device.dynamic, size)
            em.define(buffer.data, em.b.addrspacecast(found, PTR))
            return
        count = _constant_elements(em, buffer, op)
        unit = memory_type(buffer.dtype)
        size = count * memory_bytes(buffer.dtype) * buffer.dtype.lanes
        room = array(max(count * buffer.dtype.lanes, 1), unit)
        name = "".join(ch if ch.isalnum() or ch == "_" else "_" for ch in buffer.name) or "buffer"
        if buffer.scope == "shared":
            align = max(_SHARED_ALIGN, _power_of_two(buffer.align or ALLOC_ALIGNMENT))
            symbol = em.module.unique_name(f"{em.kernel.name}.{name}".replace(".", "_"))
            memory = em.module.global_variable(symbol, room, poison(room), addrspace=3, align=align, linkage="internal")
            device_state(em.state, em.kernel.name).shared += -(-size // align) * align
            root.align = max(root.align, align)
            em.define(buffer.data, em.b.addrspacecast(memory, PTR))
            return
        if buffer.scope in ("local", ""):
            align = 16
            root.align = max(root.align, align)
            em.define(buffer.data, em.b.alloca(room, align=align, name=name))
            return
        raise em.error(
            f"a kernel cannot allocate buffer `{buffer.name}` in scope {buffer.scope!r}", op, _remedy(buffer.scope)
        )

    def constant(self, em: Emitter, op: AllocConst) -> None:
        """A constant array in global memory."""
        buffer = op.buffer
        data = op.data.astype(buffer.dtype.element.numpy).tobytes()
        root = em.root(buffer.data)
        root.constant, root.align = True, 64
        name = em.module.unique_name(f"{em.kernel.name}_{buffer.name}".replace(".", "_"))
        initial = const_bytes(data) if data else zero(array(1, I8))
        memory = em.module.global_variable(
            name, initial.type, initial, addrspace=1, align=64, linkage="internal", constant=True
        )
        em.define(buffer.data, em.b.addrspacecast(memory, PTR))

    def fail(self, em: Emitter, code: int, values: Sequence[Value]) -> None:
        """The first thread that fails claims the kernel's report and writes its place; then this thread exits.

        Where others would wait for it at a barrier object for ever, the first one ends the launch, and the context with it.
        """
        b, report = em.b, report_of(em)
        swapped = b.cmpxchg(report, b.i32(0), b.i32(code + 1), "monotonic", "monotonic", align=4)
        with b.if_then(b.extract_value(swapped, 1), name="claimed"):
            tags = [f"{axis}.{part}" for axis in ("blockIdx", "threadIdx") for part in "xyz"]
            for position, tag in enumerate(tags):
                name, _, part = tag.partition(".")
                value = b.intrinsic(f"llvm.nvvm.read.ptx.sreg.{_REGISTERS[name][0]}.{part}", I32, [])
                b.store(value, b.offset(report, 4 * (position + 1)), 4)
            if device_state(em.state, em.kernel.name).traps:
                b.fence("seq_cst")  # the host sees the report of a launch that has ended
                b.intrinsic("llvm.trap", VOID, [])
        b.intrinsic("llvm.nvvm.exit", VOID, [])
        b.unreachable()

    def leave(self, em: Emitter, status: Value) -> None:
        """A kernel returns nothing, a device function its result."""
        kind = em.kernel.ret_type
        em.b.ret(None if em.ret_slot is None or kind is None else em.b.load(memory_type(kind), em.ret_slot, 8))


def _constant_elements(em: Emitter, buffer: Buffer, op: AllocBuffer) -> int:
    extents = buffer.shape
    if buffer.strides or not all(isinstance(extent, IntImm) for extent in extents):
        raise em.error(
            f"buffer `{buffer.name}` of scope {buffer.scope!r} has shape ({', '.join(map(str, extents))})"
            f"{' and strides' if buffer.strides else ''}, and a kernel's memory has a constant size",
            op,
            'give it constant extents, or scope "shared.dyn"',
        )
    return math.prod(max(extent.value, 0) for extent in extents if isinstance(extent, IntImm))


def _power_of_two(value: int) -> int:
    return 1 << (max(value, 1) - 1).bit_length()


def _remedy(scope: str) -> str:
    if scope == "warp":
        return "run LowerWarpMemory, which spreads it over the registers of a warp"
    if scope.startswith(("m16n8k8", "wmma")):
        return "run TransformMmaBufferLayout, or use the ptx_* operations on local buffers"
    return "allocate global memory outside of the thread loops: the host does it"


GPU = GpuPlatform()
