"""FuseMultiplyAdd: products that are written as operands of sums become fused multiply-adds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from tirlower.analysis.purity import is_pure_function, side_effect
from tirlower.diagnostics import Span
from tirlower.ir import build
from tirlower.ir.annotations import REDUCTION, SUMS_APART
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Add, Broadcast, Call, Expr, FloatImm, Let, Mul, Sub, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Mutator
from tirlower.ir.op import GlobalVar, Op, Purity
from tirlower.ir.query import each, may_divide_by_zero, statements
from tirlower.ir.stmt import BufferStore, For, ForKind, Stmt
from tirlower.rewrite.base import ModulePass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.reductions.chains import reassociable, sums_of_updates
from tirlower.rewrite.reductions.recurrences import sums_apart
from tirlower.rewrite.registry import home
from tirlower.transforms.cleanup.lower_intrin import constant_power

__all__ = ["FuseMultiplyAdd"]

_FMA: Final = Op.get("tir.fma")
_POW: Final = Op.get("tir.pow")


class _Product(NamedTuple):
    """A product, or the negation of one."""

    a: Expr
    b: Expr
    negative: bool

    def plus(self, c: Expr, span: Span | None) -> Expr:
        """It and ``c``, rounded once."""
        return Call(_FMA, (build.neg(self.a) if self.negative else self.a, self.b, c), c.dtype, span=span)


def _product(expr: Expr, negative: bool = False) -> _Product | None:
    """The product that is written there, or its negation; ``-x`` is none, though a node of that class."""
    while isinstance(expr, Mul) and _is_minus_one(expr.b):
        expr, negative = expr.a, not negative
    if isinstance(expr, Call) and expr.op is _POW:
        power = constant_power(expr)
        return _Product(power.a, power.b, negative) if isinstance(power, Mul) else None
    return _Product(expr.a, expr.b, negative) if isinstance(expr, Mul) else None


def _may_fail_twice(expr: Expr) -> bool:
    return sum(map(may_divide_by_zero, each(Expr, expr))) > 1


def _is_minus_one(expr: Expr) -> bool:
    value = expr.value if isinstance(expr, Broadcast) else expr
    return isinstance(value, FloatImm) and value.value == -1.0


class _Fuser(Mutator):
    """Rewrites the sums of a function, operands first."""

    def __init__(self, types: Collection[DataType], is_pure: Callable[[GlobalVar], bool]) -> None:
        self.types, self.is_pure = types, is_pure
        #: the expression at hand, and whether the order counts in which its operands are evaluated
        self.root: Expr | None = None
        self.ordered: bool | None = None
        #: the operations (by id) of sums that may be added in another order, or that all loops wait for
        self.free: set[int] = set()

    def rewritten(self, func: PrimFunc) -> PrimFunc:
        """A function."""
        said = func.attrs.get(SUMS_APART)
        if isinstance(said, Mapping):
            self._by_memory(func, said)
        else:
            apart = sums_apart(func.body) if said is None else sums_of_updates(func.body) if said else []
            self.free.update(map(id, apart))
        return func.with_body(self.visit(func.body))

    def _by_memory(self, func: PrimFunc, said: Mapping[str, object]) -> None:
        """Note which sums stay apart, where the function says it of the memory that they go to."""
        self.free.update(map(id, sums_apart(func.body)))
        for store in statements(func.body):
            if isinstance(store, BufferStore) and (apart := said.get(store.buffer.data.name)) is not None:
                (self.free.update if apart else self.free.difference_update)(map(id, sums_of_updates(store)))

    def visit_expr(self, root: Expr) -> Expr:
        if root.is_leaf:
            return root
        outer = self.root, self.ordered
        self.root, self.ordered = root, None
        made = super().visit_expr(root)
        self.root, self.ordered = outer
        return made

    def visit_Add(self, op: Add) -> Expr:
        if op.dtype.element not in self.types:
            return op
        found = _product(op.b)
        if found is not None:
            return self._behind(op.a, found, op.span)
        found = _product(op.a)
        return op if found is None else found.plus(op.b, op.span)

    def visit_Sub(self, op: Sub) -> Expr:
        if op.dtype.element not in self.types:
            return op
        found = _product(op.b, negative=True)
        if found is not None:
            return self._behind(op.a, found, op.span)
        found = _product(op.a)
        return op if found is None else found.plus(build.neg(op.b), op.span)

    def _behind(self, first: Expr, product: _Product, span: Span | None) -> Expr:
        """A sum with a product on the right; a fused multiply-add would evaluate that before what stands on the left."""
        if self.ordered is None:
            assert self.root is not None
            self.ordered = side_effect(self.root, self.is_pure) > Purity.READS or _may_fail_twice(self.root)
        if not self.ordered or first.is_leaf:
            return product.plus(first, span)
        addend = Var("addend", first.dtype)
        return Let(addend, first, product.plus(addend, span), span=span)

    def visit_For(self, op: For) -> Stmt:
        if op.kind is ForKind.SERIAL and op.annotations.get(REDUCTION):
            self.free.update(map(id, reassociable(op)))
        return self.generic(op)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        if id(op.value) not in self.free:
            return self.generic(op)
        value, indices = self._around(op.value), tuple(map(self.visit, op.indices))
        same = value is op.value and all(a is b for a, b in zip(indices, op.indices, strict=True))
        return op if same else op.with_(value=value, indices=indices)

    def _around(self, expr: Expr) -> Expr:
        """A sum that may be added in another order stays one (code generation fuses what is made of it), and so does one that
        all loops wait for."""
        if id(expr) not in self.free or not isinstance(expr, (Add, Sub, Mul)):
            return self.visit(expr)
        a, b = self._around(expr.a), self._around(expr.b)
        return expr if a is expr.a and b is expr.b else expr.with_(a=a, b=b)


class _Apart(Mutator):
    """Writes fused multiply-adds as products and sums."""

    def visit_Call(self, op: Call) -> Expr:
        if op.op is not _FMA:
            return op
        a, b, c = op.args
        return Add(Mul(a, b), c)


class FuseMultiplyAdd(ModulePass):
    """A product that is written as an operand of a sum or difference becomes one ``T.fma`` with it, which rounds once.

    In ``a * b + c``, ``c + a * b``, ``a * b - c`` and ``c - a * b`` of float32 or float64 (with ``half`` of float16 too); of
    two products the one on the right. A product is one that stands there in the expression: ``a * b``, ``x ** 2`` and
    ``x ** 3`` (as :class:`LowerIntrin` has them), or the negation of one; not the value of a name, nor what is converted or
    chosen there. In serial loops annotated ``tir.reduction``, whose sums may be added in any order, those sums stay, and code
    generation fuses what it has made of them. One or two sums that a nest carries in elements which no loop changes or begins anew (a dot product) stay apart, and
    so do sums whose products read the array that they go to (a triangular solve): their additions wait for each other,
    whatever the order of the loops, and take a cycle or two less than fused ones do; the
    attribute ``tir.sums_apart`` of a function says it of all of its updates, or of those of some memory, by name. Where operands act, or more than one may fail, they keep their order.

    So it is decided by the expression alone what is fused: loops over it may be split, exchanged, unrolled and vectorized
    without another bit in the results. Runs first, before any pass could rewrite expressions, but for
    PrivatizeReductions, which permits another order. The pass is ours, not TIR's.

    >>> from tirlower.script import parse
    >>> print(FuseMultiplyAdd()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    ...     for i, k in T.grid(8, 8):
    ...         C[i] = C[i] + A[i, k] * B[k]
    ...     for i in range(8):
    ...         C[i] = C[i] - C[i] ** 2
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 8):
            C[i] = T.fma(A[i, k], B[k], C[i])
        for i in range(8):
            C[i] = T.fma(C[i] * T.float32(-1), C[i], C[i])
    """

    name = "tir.FuseMultiplyAdd"
    half: bool = False

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite the sums of every function."""
        types = {DataType(name) for name in ("float32", "float64", *(["float16"] if self.half else []))}

        @functools.cache
        def is_pure(callee: GlobalVar) -> bool:
            return callee.name in mod and is_pure_function(mod[callee.name])

        return mod.map_functions(lambda func: _Fuser(types, is_pure).rewritten(func))

    def certify(self, before: IRModule, after: IRModule, ctx: PassContext) -> None:
        """With all fused multiply-adds taken apart, both must compute the same: fused, they are to differ in their last bits."""
        before, after = (mod.map_functions(lambda f: f.with_body(_Apart().visit(f.body))) for mod in (before, after))
        home("validate_pass").validate_pass(self, before, after, ctx)
