"""LegalizePackedCalls: pointers reach packed functions as array descriptors."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.dtype import HANDLE
from tirlower.ir.expr import Call, Expr, StringImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.op import Op
from tirlower.ir.stmt import Bind, Evaluate, Seq, Stmt
from tirlower.ir.struct_field import StructField
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext

__all__ = ["LegalizePackedCalls"]

_CALL = Op.get("tir.tvm_call_cpacked")
_ALLOCA = Op.get("tir.tvm_stack_alloca")
_DESCRIPTORS = frozenset(Op.get(f"tir.{name}") for name in ("tvm_stack_make_array", "tvm_struct_get"))


class _Legalizer(StmtMutator):
    def __init__(self, func: PrimFunc) -> None:
        self.described: set[Var] = set(func.params)
        self.count = 0

    def visit_Bind(self, op: Bind) -> Stmt:
        if isinstance(op.value, Call) and op.value.op is _ALLOCA:
            self.described.add(op.var)
        return op

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        call = op.value
        if not isinstance(call, Call) or call.op is not _CALL:
            return op
        head: list[Stmt] = []
        args = [self._described(arg, head) for arg in call.args]
        if not head:
            return op
        return Seq((*head, op.with_(value=call.with_(args=tuple(args)))), span=op.span)

    def _described(self, arg: Expr, head: list[Stmt]) -> Expr:
        """An argument as a packed function takes it; ``head`` gets what makes its descriptor."""
        if not arg.dtype.is_handle or isinstance(arg, StringImm) or arg in self.described:
            return arg
        if isinstance(arg, Call) and arg.op in _DESCRIPTORS:
            return arg
        var = Var(f"tvm_value_{self.count}", HANDLE)
        self.count += 1
        self.described.add(var)
        store = build.call("tir.tvm_struct_set", var, 0, int(StructField.DATA), arg)
        head += [Bind(var, build.call("tir.tvm_stack_alloca", "array", 1)), Evaluate(store)]
        return var


class LegalizePackedCalls(FuncPass):
    """The bare pointers that statements hand to packed functions of C (``tvm_call_cpacked``) become array descriptors.

    A packed function takes an array as a descriptor (a DLTensor). Parameters of the function are such descriptors already; for
    any other pointer a descriptor is allocated on the stack in front of the call, its field ``data`` set to the pointer, and
    passed in its place. Numbers, strings and arguments that are descriptors stay: LowerTVMBuiltin packs them.

    As TIR's (for its ahead-of-time executor), which wraps numbers too. Calls by ``tvm_call_packed`` stay as they are. Needs
    nothing, raises nothing; stands before LowerTVMBuiltin.

    >>> from tirlower.script import parse
    >>> print(LegalizePackedCalls()(parse('''
    ... @T.prim_func
    ... def f(a: T.handle, b: T.handle):
    ...     c: T.handle = T.call_extern("handle", "malloc", 8)
    ...     T.evaluate(T.tvm_call_cpacked("add", a, b, c))
    ... ''')).script())
    @T.prim_func
    def f(a: T.handle, b: T.handle):
        c: T.handle = T.call_extern("handle", "malloc", 8)
        with T.LetStmt(T.tvm_stack_alloca("array", 1), T.handle) as tvm_value_0:
            T.tvm_struct_set(tvm_value_0, 0, 1, c)
            T.tvm_call_cpacked("add", a, b, tvm_value_0)
    """

    name = "tir.LegalizePackedCalls"
    stage = Stage.FLAT

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Legalize the calls of a function."""
        return func.with_body(_Legalizer(func).visit(func.body))
