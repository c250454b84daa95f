"""What both forms of the host ABI share: which functions are exposed, their targets, and calls between functions."""

from __future__ import annotations

from collections.abc import Callable

from tirlower.ir.dtype import INT32
from tirlower.ir.expr import Call, Expr, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Mutator, Visitor, substitute
from tirlower.ir.op import GlobalVar
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.struct_field import CallingConvention
from tirlower.machine.target import Target

__all__ = [
    "CPU",
    "convert_exposed",
    "device_number",
    "exposed_name",
    "host_of",
    "needs_entry",
    "private_copy",
    "symbolic_variables",
    "target_of",
]

CPU = 1
_DEVICE_TYPES = {"cpu": CPU, "cuda": 2, "opencl": 4, "vulkan": 7, "metal": 8, "rocm": 10, "ext_dev": 12, "hexagon": 16,
                 "webgpu": 15}  # fmt: skip
"""DLPack's numbers of the devices."""


def device_number(target: Target) -> int:
    """DLPack's number of a target's device; a device that it does not know is taken for the processor."""
    return _DEVICE_TYPES.get(target.device, CPU)


def exposed_name(func: PrimFunc) -> str | None:
    """The symbol under which a function is exported, or None."""
    name = func.attrs.get("global_symbol")
    return None if name is None else str(name)


def needs_entry(func: PrimFunc) -> bool:
    """Whether a function is exposed and keeps the calling convention of the language still."""
    convention = func.attrs.get("calling_conv", int(CallingConvention.DEFAULT))
    if exposed_name(func) is None or convention != CallingConvention.DEFAULT:
        return False
    target = func.attrs.get("target")
    # A target without a host of its own is the host's: the function was lowered already.
    return target is None or Target(target).host is not None


def target_of(func: PrimFunc) -> Target:
    """The target that a function is for: its own, the current one, or the host."""
    found = func.attrs.get("target") or Target.current()
    return Target(found) if found is not None else Target("llvm", host="llvm")


def host_of(target: Target) -> Target:
    """The target that a host function is compiled for."""
    return target.host if target.host is not None else target.without_host()


class _Callees(Visitor):
    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_Call(self, op: Call) -> None:
        if isinstance(op.op, GlobalVar):
            self.found.add(op.op.name)


class _Redirect(Mutator):
    """Calls of exposed functions go to their internal copies, or have their new type."""

    def __init__(self, names: dict[str, str], direct: frozenset[str]) -> None:
        self.names = names
        self.direct = direct

    def visit_Call(self, op: Call) -> Expr:
        if not isinstance(op.op, GlobalVar):
            return op
        if op.op.name in self.names:
            return op.with_(op=GlobalVar(self.names[op.op.name]))
        return op.with_(dtype=INT32) if op.op.name in self.direct else op


def convert_exposed(
    mod: IRModule, convert: Callable[[PrimFunc], PrimFunc], direct: Callable[[PrimFunc], bool] = lambda func: False
) -> IRModule:
    """A module whose exposed functions are converted.

    A function of the module that calls a converted one calls a private copy of it instead, under the name
    ``<name>_internal``, whose parameters are those that the call was written for; or, where ``direct`` says that they
    still are, the converted one, which returns an int32.
    """
    exposed = [name for name, func in mod.items() if needs_entry(func)]
    if not exposed:
        return mod
    callees = _Callees()
    for _, func in mod.items():
        callees.visit(func.body)
    called = [name for name in exposed if name in callees.found]
    same = frozenset(name for name in called if direct(mod[name]))
    internal = {name: _fresh(f"{name}_internal", mod) for name in called if name not in same}
    redirect = _Redirect(internal, same)
    made: dict[str, PrimFunc] = {}
    for name, func in mod.items():
        body = func.with_body(redirect.visit(func.body)) if called else func
        made[name] = convert(body) if name in exposed else body
        if name in internal:
            made[internal[name]] = private_copy(body)
    return mod.with_functions(made)


def private_copy(func: PrimFunc) -> PrimFunc:
    """A copy of a function that is not exported, in which every variable and buffer is new."""
    vmap: dict[Var, Expr] = {}
    for var in (*func.params, *symbolic_variables(func), *[buffer.data for buffer in func.buffers]):
        vmap.setdefault(var, copy_var(var))
    buffers = {buffer: substitute(buffer, vmap) for buffer in func.buffers}
    body = substitute(refresh_binders(func.body), vmap, buffers)
    params = tuple(vmap[param] for param in func.params)
    buffer_map = {vmap[param]: buffers[buffer] for param, buffer in func.buffer_map.items()}
    attrs = {k: v for k, v in func.attrs.items() if k not in ("global_symbol", "tir.is_entry_func")}
    return func.with_(params=params, buffer_map=buffer_map, attrs=attrs, body=body)


def symbolic_variables(func: PrimFunc) -> list[Var]:
    """The variables that parameter buffers bind, in binding order: shape, strides and offset of each in turn."""
    found: dict[Var, None] = {}
    for buffer in func.buffers:
        for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(part, Var) and part not in func.params:
                found.setdefault(part)
    return list(found)


def _fresh(name: str, mod: IRModule) -> str:
    """A name that the module does not use yet."""
    made, count = name, 0
    while made in mod:
        count += 1
        made = f"{name}_{count}"
    return made
