"""A prim func as an LLVM function: its signature, its prologue, and its body."""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.call.parameters import return_type, signature_with_symbols
from tirlower.call.signature import Signature
from tirlower.diagnostics import deep_recursion
from tirlower.emit.body import Body, give_alias_scopes, param_align
from tirlower.emit.emitter import Emitter, FunctionState, ModuleState, Root
from tirlower.emit.facts import DATA
from tirlower.emit.llvm_text import I32, PTR, Function, FunctionRef, Param, Type, struct, zero
from tirlower.emit.memory import fence_streams
from tirlower.emit.statements import emit_scope
from tirlower.emit.types import memory_bytes, memory_type, register_type
from tirlower.ir.buffer import Buffer
from tirlower.ir.data import data_parameters
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import IntImm, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.llvm.codegen.invariant_loads import lift_loads
from tirlower.llvm.codegen.merged_loops import merge_loops
from tirlower.llvm.codegen.stack import enter_deep, guard_stack

__all__ = ["Prototype", "declare_deep", "declare_elsewhere", "declare_kernel", "emit_kernel", "prototype_of"]


@dataclass
class Prototype:
    """A prim func's outside: the entry's signature, and the variable behind each LLVM parameter.

    ``checked``: all calls come through the entry, which looks whether arrays are aligned as their buffers say.
    """

    name: str
    func: PrimFunc
    signature: Signature
    symbols: tuple[Var, ...]
    body: Body
    checked: bool

    @property
    def returns(self) -> DataType | None:
        """The type of its return value, if it has one."""
        return None if self.signature.returns is None else DataType(self.signature.returns)

    def align(self, buffer: Buffer) -> int:
        """What is known of the alignment of a parameter's data pointer."""
        return param_align(buffer) if self.checked else memory_bytes(buffer.dtype)

    def parameters(self) -> list[tuple[Type, Var | None]]:
        """The LLVM parameters with their variables (none for the error record and the slot of the result)."""
        out: list[tuple[Type, Var | None]] = []
        for param in self.func.params:
            out.append((PTR if param in self.func.buffer_map else register_type(param.dtype), param))
        out += [(register_type(var.dtype), var) for var in self.symbols]
        out.append((PTR, None))
        if self.signature.returns is not None:
            out.append((PTR, None))
        return out


def prototype_of(
    name: str, func: PrimFunc, body: Body, outputs: tuple[str, ...] = (), checked: bool = False
) -> Prototype:
    """The outside of a prim func.

    Raises:
        LoweringError: a parameter cannot be passed by the entry.
    """
    returns = return_type(func)
    signature, symbols = signature_with_symbols(name, func, body.written, outputs, returns)
    return Prototype(name, func, signature, symbols, body, checked)


def declare_kernel(state: ModuleState, prototype: Prototype, symbol: str, internal: bool) -> Function:
    """The LLVM function of a prim func, without its body."""
    return state.module.function(
        symbol,
        I32,
        _parameters(prototype),
        attrs=state.attrs,
        linkage="internal" if internal else "",
        unnamed_addr=internal,
    )


def declare_elsewhere(state: ModuleState, prototype: Prototype, symbol: str) -> FunctionRef:
    """A prim func that another object defines."""
    parameters = _parameters(prototype)
    return state.module.declare(
        symbol,
        I32,
        [kind for kind, *_ in parameters],
        param_attrs={at: marks[0] for at, (_, _, *marks) in enumerate(parameters) if marks},
        attrs=("nounwind",),
    )


def declare_deep(state: ModuleState, prototype: Prototype, symbol: str) -> Function:
    """The LLVM function that such kernels call of each other whose calls may nest deep, without its body.

    It takes a descent (see ``stack.py``) in the place of the error record, and gives its result beside the status.
    """
    parameters = _parameters(prototype)
    result: Type = I32
    if prototype.returns is not None:
        parameters.pop()
        result = struct(I32, memory_type(prototype.returns))
    parameters[-1] = (PTR, "descent", ["noalias", "nonnull", "readonly", "dereferenceable(16)"])
    made = state.module.function(symbol, result, parameters, attrs=state.attrs, linkage="internal", unnamed_addr=True)
    made.separable = True
    return made


def _parameters(prototype: Prototype) -> list[Param]:
    """The parameters of a kernel, with their attributes."""
    func, body = prototype.func, prototype.body
    noalias = bool(func.attrs.get("tir.noalias"))
    params: list[Param] = []
    parameters = prototype.parameters()
    for position, (kind, var) in enumerate(parameters):
        if var is None:
            last = prototype.signature.returns is not None and position == len(parameters) - 1
            params.append((PTR, "ret" if last else "err", ["noalias", "nonnull"]))
            continue
        buffer = func.buffer_map.get(var)
        if buffer is None:
            params.append((kind, var.name))
            continue
        marks = ["noalias"] if noalias else []
        if buffer.data not in body.written:
            marks.append("readonly")
        if not is_const_int(buffer.elem_offset, 0):
            marks = []  # it may point outside of its memory
        else:
            marks.append(f"align {prototype.align(buffer)}")
            size = _constant_bytes(buffer)
            if size:
                marks.append(f"dereferenceable({size})")
        params.append((PTR, buffer.name, marks))
    return params


def _constant_bytes(buffer: Buffer) -> int:
    if buffer.strides or not all(isinstance(extent, IntImm) for extent in buffer.shape):
        return 0
    total = memory_bytes(buffer.dtype) * buffer.dtype.lanes
    for extent in buffer.shape:
        total *= extent.value if isinstance(extent, IntImm) else 1
    return total


def emit_kernel(
    state: ModuleState, prototype: Prototype, function: Function, deep: bool = False, large: bool = False
) -> int:
    """Emit the body of a declared kernel; gives the bytes of its arrays on the stack.

    ``deep`` says that the function is one of :func:`declare_deep`, ``large`` that its arrays, or its tasks', may not fit.
    """
    func = prototype.func
    kernel = FunctionState(prototype.name, func)
    kernel.ret_type = prototype.returns
    kernel.checks_stack = large
    kernel.apart = bool(func.attrs.get("tir.noalias")) and not prototype.body.calls_out
    kernel.allocates = any(prototype.body.allocated.values())
    em = Emitter(state, kernel, function)
    em.b.position_at_end(function.block("entry"))
    facts = kernel.facts
    data = data_parameters(func)
    sizes = {extent for buffer in func.buffers for extent in (*buffer.shape,) if isinstance(extent, Var)}
    # A deep function has no slot for its result.
    for argument, (_, var) in zip(function.args, prototype.parameters(), strict=not deep):
        if var is None:
            continue
        em.define(var, argument)
        if not var.dtype.is_handle:
            # The entry checked that a size is one.
            facts.define(var, 0 if var in sizes else None, None, flags=DATA if var in data else 0)
    for param, buffer in func.buffer_map.items():
        em.define(buffer.data, em.vars[param].value)
        kernel.roots[buffer.data] = Root(
            buffer.name, align=prototype.align(buffer), offset=not is_const_int(buffer.elem_offset, 0)
        )
        if param is not buffer.data:
            kernel.roots[param] = kernel.roots[buffer.data]
    give_alias_scopes(state, kernel, func, prototype.body.allocated)
    extras = function.args[len(func.params) + len(prototype.symbols) :]
    em.err = enter_deep(em, extras[0]) if deep else extras[0]
    if kernel.ret_type is not None:
        unit = memory_type(kernel.ret_type)
        em.ret_slot = em.b.alloca(unit, align=8, name="result") if deep else extras[1]
        em.b.store(zero(unit), em.ret_slot, 8)
    if deep:
        guard_stack(em)
    fence_streams(em, func.body)
    with deep_recursion():
        emit_scope(em, lift_loads(func, merge_loops(func)))
    if not em.b.terminated:
        em.leave(em.b.i32(0))
    return em.stack_used
