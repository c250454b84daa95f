"""Calls of the other functions of a module: what the call must match."""

from __future__ import annotations

from tirlower.diagnostics import nearest_name
from tirlower.emit.emitter import Emitter
from tirlower.ir.expr import Call
from tirlower.ir.func import PrimFunc

__all__ = ["callee_of"]


def callee_of(em: Emitter, op: Call, name: str) -> PrimFunc:
    """The function of the module that a call names.

    Raises:
        CodegenError: there is none of that name, or it takes other arguments.
    """
    func = em.state.functions.get(name)
    if func is None:
        known = list(em.state.functions)
        near = nearest_name(name, known)
        raise em.error(
            f"there is no function `{name}` in the module",
            op,
            f"did you mean `{near}`?" if near else f"it has: {', '.join(known)}",
        )
    if len(op.args) != len(func.params):
        raise em.error(f"`{name}` takes {len(func.params)} arguments, got {len(op.args)}", op)
    for param, arg in zip(func.params, op.args, strict=True):
        if param.dtype is not arg.dtype:
            raise em.error(f"argument `{param.name}` of `{name}` is {param.dtype!s}, got {arg.dtype!s}: {arg}", op)
    return func
