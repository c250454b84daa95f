"""Functions of the module that a kernel calls: code of the device, inlined into the kernel.

Each kernel has its own: a failure inside counts among the kernel's sites, and shared memory among its bytes. A function
takes scalars and pointers (a parameter that is a buffer takes its address), and gives its result back in a register.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tirlower.call.parameters import return_type
from tirlower.emit.body import param_align
from tirlower.emit.callees import callee_of
from tirlower.emit.emitter import Emitter, FunctionState, Root
from tirlower.emit.expressions import Run
from tirlower.emit.facts import DATA
from tirlower.emit.llvm_text import FALSE, PTR, VOID, Function, Param, zero
from tirlower.emit.memory import from_memory
from tirlower.emit.statements import emit_statement
from tirlower.emit.types import memory_bytes, memory_type, register_type
from tirlower.gpu.codegen.rules import device_state, report_of
from tirlower.ir.data import data_parameters
from tirlower.ir.dtype import DataType, PointerType
from tirlower.ir.expr import Call, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.stmt import AllocBuffer, For, ForKind

__all__ = ["call_device_function"]

_ATTRIBUTES: Final = ["nounwind", "convergent", "alwaysinline"]


@dataclass
class _DeviceFunction:
    """A function as its callers see it. ``reports``: it takes the kernel's report behind its arguments."""

    function: Function
    returns: DataType | None
    reports: bool


def call_device_function(run: Run, op: Call, name: str) -> None:
    """Schedule a call of a function of the module."""
    em = run.em
    func = callee_of(em, op, name)
    known: dict[str, _DeviceFunction | None] = em.state.helper("device functions", dict)
    if name in known and known[name] is None:
        raise em.error(f"`{name}` calls itself, and a device function is inlined", op, "write a loop")
    made = known.get(name)
    if made is None:
        known[name] = None
        made = known[name] = _define(em, name, func, op)

    def finish(_: object) -> None:
        values = [run.get(arg) for arg in op.args]
        if made.reports:
            values.append(report_of(em))
        result = em.b.call(made.function.ref, values)
        run.set(op, FALSE if made.returns is None else from_memory(em, result, made.returns))

    run.then(finish)
    for arg in reversed(op.args):
        run.evaluate(arg)


def _define(caller: Emitter, name: str, func: PrimFunc, op: Call) -> _DeviceFunction:
    state = caller.state
    _refuse(caller, name, func, op)
    found = return_type(func)
    symbol = state.module.unique_name("".join(c if c.isalnum() or c == "_" else "_" for c in name))
    params: list[Param] = []
    for param in func.params:
        pointer = param in func.buffer_map or isinstance(param.type, PointerType)
        params.append((PTR if pointer else register_type(param.dtype), param.name))
    params.append((PTR, "report"))
    result = VOID if found is None else memory_type(found)
    function = state.module.function(symbol, result, params, attrs=_ATTRIBUTES, linkage="internal")
    em = Emitter(state, FunctionState(symbol, func), function)
    em.kernel.allocates = False
    device_state(state, symbol).traps = device_state(state, caller.kernel.name).traps
    em.kernel.ret_type = found
    em.b.position_at_end(function.block("entry"))
    _parameters(em, func, function, device_state(state, caller.kernel.name).extents)
    if found is not None:
        em.ret_slot = em.b.alloca(result, align=8, name="result")
        em.b.store(zero(result), em.ret_slot, 8)
    emit_statement(em, func.body)
    if not em.b.terminated:
        em.leave(em.b.i32(0))
    own = device_state(state, symbol)
    if not own.reported:
        function.drop_last_parameter()
    # It is inlined into the kernel.
    kernel = device_state(state, caller.kernel.name)
    kernel.shared += own.shared
    kernel.dynamic = max(kernel.dynamic, own.dynamic)
    return _DeviceFunction(function, found, own.reported)


def _refuse(caller: Emitter, name: str, func: PrimFunc, op: Call) -> None:
    """Raise CodegenError for what a call cannot pass, or only a launch sets up."""
    for buffer in func.buffer_map.values():
        open_sizes = [e for e in (*buffer.shape, *buffer.strides) if isinstance(e, Var) and e not in func.params]
        if open_sizes or not is_const_int(buffer.elem_offset, 0):
            raise caller.error(
                f"`{name}` finds sizes or an offset in its buffer `{buffer.name}`, and a call passes a bare pointer",
                op,
                f"make the sizes scalar parameters of `{name}`",
            )

    launch = device_state(caller.state, caller.kernel.name).extents

    def look(node: Node) -> None:
        if node.__class__ is For and node.kind is ForKind.THREAD_BINDING:
            wanted = launch.get(str(node.thread_tag))
            if wanted is None or not is_const_int(node.extent, wanted):
                raise caller.error(
                    f"`{name}` runs over {node.extent} values of {node.thread_tag}, and the kernel that calls it over "
                    f"{'none' if wanted is None else wanted}",
                    op,
                    "let it run over as many as the kernel states, or pass the index",
                )
        if node.__class__ is AllocBuffer and node.buffer.scope == "shared.dyn":
            raise caller.error(
                f"`{name}` allocates dynamic shared memory, whose size a launch must know",
                op,
                "allocate it in the kernel, and pass a pointer",
            )

    pre_order_visit(func.body, look)


def _parameters(em: Emitter, func: PrimFunc, function: Function, launch: dict[str, int | None]) -> None:
    data = data_parameters(func)
    for param, argument in zip(func.params, function.args, strict=False):
        em.define(param, argument)
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            em.define(buffer.data, argument)
            em.kernel.roots[param] = em.kernel.roots[buffer.data] = Root(
                buffer.name, align=min(param_align(buffer), memory_bytes(buffer.dtype))
            )
        elif isinstance(param.type, PointerType):
            em.kernel.roots[param] = Root(param.name, align=memory_bytes(param.type.element))
        elif not param.dtype.is_handle:
            em.kernel.facts.define(param, None, None, flags=DATA if param in data else 0)
    device = device_state(em.state, em.kernel.name)
    device.report, device.extents = function.args[-1], launch
