"""MakeUnpackedAPI: exposed functions take raw pointers and scalars, and return a status."""

from __future__ import annotations

from tirlower.analysis.host_abi import (
    CPU,
    convert_exposed,
    device_number,
    exposed_name,
    host_of,
    symbolic_variables,
)
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.expr import Call, StringImm, Var, const
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import StmtMutator, post_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.stmt import AttrStmt, DeclBuffer, Evaluate, Seq, Stmt
from tirlower.machine.target import Target
from tirlower.rewrite.base import ModulePass, Stage
from tirlower.rewrite.context import PassContext

__all__ = ["MakeUnpackedAPI"]

_RET = Op.get("tir.ret")


class _Returns(StmtMutator):
    """A return without a value returns the status 0; one with an int32 is a status already."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        call = op.value
        if not isinstance(call, Call) or call.op is not _RET:
            return op
        if not call.args:
            return op.with_(value=build.call("tir.ret", const(0, "int32")))
        if call.args[0].dtype != "int32":
            raise TransformError(
                f"{self.name} returns {call.args[0].dtype!s}; a function with raw arguments returns its int32 status",
                span=op.span or call.span,
                help="store the result in a buffer, or use MakePackedAPI",
            )
        return op


def make_unpacked_api(func: PrimFunc) -> PrimFunc:
    """The raw form of an exposed function (see :class:`MakeUnpackedAPI`)."""
    name = exposed_name(func) or func.name
    symbols = symbolic_variables(func)
    known = {*func.params, *symbols, *[buffer.data for buffer in func.buffers]}
    for buffer in func.buffers:
        post_order_visit(buffer, lambda op: _need_known(op, known, name))
    params: list[Var] = []
    for param in func.params:
        mapped = func.buffer_map.get(param)
        data = param if mapped is None else mapped.data
        if data in params:
            raise TransformError(f"two parameters of {name} share the data variable {data.name!r}", span=func.span)
        params.append(data)
    body: Stmt = _Returns(name).visit(func.body)
    target = _target(func, name)
    device_type = device_number(target)
    head: list[Stmt] = []
    if device_type != CPU:
        chosen = build.call("tir.tvm_call_packed", StringImm("__tvm_set_device"), device_type, 0)
        head.append(Evaluate(chosen))
    head += [DeclBuffer(buffer) for buffer in func.buffers]
    body = Seq((*head, body, Evaluate(build.call("tir.ret", const(0, "int32")))))
    body = AttrStmt("default", "device_type", const(device_type, "int32"), body)
    return func.with_(
        params=(*params, *symbols),
        buffer_map={},
        ret_type="int32",
        attrs={**func.attrs, "target": host_of(target)},
        body=AttrStmt("default", "device_id", const(0, "int32"), body),
    )


def _target(func: PrimFunc, name: str) -> Target:
    """The target of a function, or the current one. Raises TransformError where there is none."""
    found = func.attrs.get("target") or Target.current()
    if found is None:
        raise TransformError(
            f"{name} has no target, so its device is not known",
            span=func.span,
            help="run BindTarget first, or `with Target(…):` around the pass",
        )
    return Target(found)


def _need_known(op: Node, known: set[Var], name: str) -> None:
    if isinstance(op, Var) and op not in known:
        raise TransformError(
            f"the variable {op.name!r} in the declaration of a buffer of {name} is bound by no argument",
            help="make it a scalar parameter, or a dimension of its own",
        )


class MakeUnpackedAPI(ModulePass):
    """Exposed functions take a pointer for each array and a value for each scalar, and return a status: 0 for success.

    Symbolic extents, strides and offsets that are no parameters follow as parameters, in the order in which arrays
    would bind them. Nothing is checked: the caller (or the compiled entry) did that. Functions without
    ``global_symbol``, and those whose target has no host, stay as they are; the target of the others becomes their
    target's host. The body stands in attributes that name the device, the first one of the target's kind; another
    device than the processor is chosen first.

    A function of the module that calls an exposed one goes on to call it, with the same pointers, and gets its status
    (TIR calls it as an external function, by its symbol). One with symbolic sizes that are no parameters is called as
    a private copy, ``<name>_internal``: such a call does not pass them.

    Needs a target, the function's or the current one. Raises :class:`TransformError` without one, for a returned
    value that is no int32, and for a variable that no argument binds.

    >>> from tirlower.script import parse
    >>> print(MakeUnpackedAPI()(parse('''
    ... @T.prim_func
    ... def clear(A: T.Buffer(("n",), "float32")):
    ...     T.func_attr({"target": T.target("llvm", host="llvm")})
    ...     for i in range(n):
    ...         A[i] = T.float32(0)
    ... ''')).script())
    @T.prim_func
    def clear(A: T.handle("float32"), n: T.int32) -> T.int32:
        T.func_attr({"target": T.target({"kind": "llvm"})})
        with T.attr("default", "device_id", 0):
            with T.attr("default", "device_type", 1):
                A_1 = T.decl_buffer((n,), data=A)
                for i in range(n):
                    A_1[i] = T.float32(0)
                T.ret(0)
    """

    name = "tir.MakeUnpackedAPI"
    stage = Stage.ANY

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Convert the exposed functions of a module."""
        return convert_exposed(mod, make_unpacked_api, direct=lambda func: not symbolic_variables(func))
