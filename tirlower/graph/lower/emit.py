"""An operation as a prim func: a perfect nest over its iterators, with operands, results and dims as parameters.

A reduction is a block with an init where its iterators surely run and the result has the dtype that is added up; else it
has an accumulator of its own in each element, which holds what nothing was added to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import cast

from tirlower.graph.core.dims import DimEnv, Extent, extent_expr
from tirlower.graph.core.nodes import TensorType
from tirlower.graph.ops.generic import Generic, Result
from tirlower.graph.ops.opaque import Opaque
from tirlower.ir import Buffer, BufferLoad, CommReducer, Expr, IRBuilder, PrimFunc, Var, build
from tirlower.ir.annotations import NOALIAS, UNIT
from tirlower.ir.block_builder import BlockBuilder
from tirlower.ir.buffer import IterKind
from tirlower.ir.constants import const
from tirlower.ir.functor import Mutator, substitute
from tirlower.ir.query import each

__all__ = ["dims_of", "emit", "emit_opaque", "with_numbers"]


class _Numbers(Mutator):
    """Puts numbers in the place of operands that are the same number everywhere."""

    def __init__(self, numbers: Mapping[Buffer, Expr]) -> None:
        super().__init__()
        self.numbers = numbers

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        """A load of such an operand is the number."""
        return self.numbers.get(op.buffer, op)


def with_numbers(value: Expr, numbers: Mapping[Buffer, Expr]) -> Expr:
    """An expression with numbers for the loads of some operands."""
    return _Numbers(numbers).visit(value) if numbers else value


def dims_of(extents: Sequence[Extent]) -> list[Var]:
    """The dims in extents, in the order in which they are first met."""
    return list(dict.fromkeys(each(Var, *(extent_expr(e) for e in extents))))


def emit(generic: Generic, name: str, env: DimEnv, numbers: Mapping[Buffer, Expr] | None = None) -> PrimFunc:
    """The private prim func of an operation: parameters are its operands, its results, and its dims as int64 scalars.

    ``numbers`` gives operands that are one number in every element; they are no parameters.
    """
    known = numbers or {}
    operands = [b for b in generic.operands if b not in known]
    results = [Result(r.shape, r.dtype, r.indices, with_numbers(r.value, known)) for r in generic.results]
    types = [TensorType(r.shape, r.dtype) for r in results]

    def write(ib: IRBuilder, written: Sequence[Buffer]) -> None:
        _Nest(ib, generic, results, list(written), env).write()

    return _function(name, operands, types, [it.extent for it in generic.iters], env, write)


def emit_opaque(opaque: Opaque, name: str, env: DimEnv) -> PrimFunc:
    """The private prim func of an opaque operation, with parameters as :func:`emit` gives them.

    >>> from tirlower.graph.ops.registry import definition
    >>> from tirlower.ir import DataType
    >>> found = definition("cumsum")
    >>> made = found.opaque([TensorType((4,), DataType("float32"))], (-1,), found.completed({"axis": 0}))
    >>> [p.name for p in emit_opaque(made, "sums", DimEnv()).params]
    ['x', 'out']
    """

    def write(ib: IRBuilder, written: Sequence[Buffer]) -> None:
        opaque.kernel(ib, opaque.operands, written, env)

    return _function(name, opaque.operands, opaque.results, [], env, write)


def _function(
    name: str,
    operands: Sequence[Buffer],
    results: Sequence[TensorType],
    more: Sequence[Extent],
    env: DimEnv,
    write: Callable[[IRBuilder, Sequence[Buffer]], None],
) -> PrimFunc:
    """A private prim func whose statements are written into buffers for the results."""
    ib = IRBuilder()
    with ib.func(name, private=True, attrs={NOALIAS: True, UNIT: True}):
        for buffer in operands:
            ib.buffer_param(buffer)
        taken = {b.name for b in operands}
        written = []
        for n, result in enumerate(results):
            base = "out" if len(results) == 1 else f"out{n}"
            shape = tuple(extent_expr(e) for e in result.shape)
            written.append(ib.buffer_param(Buffer(f"{base}_" if base in taken else base, shape, result.dtype)))
        known = {*dims_of([extent for buffer in (*operands, *written) for extent in buffer.shape])}
        for a, b in env.assumed:
            # What holds of few sizes of the same dims (C * 2 == C): at all others accesses would be outside, in every call.
            if {*dims_of([a])} == {*dims_of([b])} <= known:
                ib.emit(build.call("tir.assume", build.eq(a, b)))
        write(ib, written)
    func = ib.module()[name]
    assert isinstance(func, PrimFunc)
    stated = {one.var for one in env}
    extents = [e for b in operands for e in b.shape] + [e for r in results for e in r.shape]
    dims = dims_of([*extents, *more, *(var for var in each(Var, func.body) if var in stated)])
    # Each function of a module has variables of its own.
    own = {var: Var(var.name, var.type, var.nonneg) for var in dims}
    made = cast(PrimFunc, substitute(func, own))
    return made.with_(params=(*made.params, *own.values()))


class _Nest:
    """The loops of one operation."""

    def __init__(
        self, ib: IRBuilder, generic: Generic, results: list[Result], written: list[Buffer], env: DimEnv
    ) -> None:
        self.ib = ib
        self.generic = generic
        self.results = results
        self.written = written
        self.env = env

    def write(self) -> None:
        """The whole nest."""
        reducer = self.generic.reducer
        if reducer is None:
            self._pointwise()
        elif len(self.results) == 1 and self.results[0].value.dtype == self.results[0].dtype and self._surely_runs():
            self._block(reducer)
        else:
            self._accumulated(reducer)

    def _surely_runs(self) -> bool:
        return all(
            self.env.analyzer.can_prove_greater_equal(extent_expr(it.extent), 1) for it in self.generic.reduction
        )

    def _loops(self, stack: ExitStack, reduction: bool, at: dict[Var, Expr]) -> None:
        for it in self.generic.reduction if reduction else self.generic.parallel:
            extent = extent_expr(it.extent)
            at[it.var] = stack.enter_context(self.ib.for_range(const(0, extent.dtype), extent, name=it.var.name))

    def _stored(self, at: Mapping[Var, Expr], values: Sequence[Expr]) -> None:
        for result, buffer, value in zip(self.results, self.written, values, strict=True):
            indices = tuple(substitute(i, at) for i in result.indices)
            self.ib.store(buffer, build.cast(result.dtype, value), indices)

    def _pointwise(self) -> None:
        with ExitStack() as stack:
            at: dict[Var, Expr] = {}
            self._loops(stack, False, at)
            block = stack.enter_context(self.ib.block(self.generic.name))
            inside = self._axes(block, at)
            self._stored(inside, [substitute(r.value, inside) for r in self.results])

    def _axes(self, block: BlockBuilder, at: Mapping[Var, Expr]) -> dict[Var, Expr]:
        inside: dict[Var, Expr] = {}
        for it in self.generic.iters:
            kind = IterKind.REDUCE if it.reduction else IterKind.SPATIAL
            inside[it.var] = block.axis(kind, extent_expr(it.extent), at[it.var], f"v{it.var.name}")
        return inside

    def _block(self, reducer: CommReducer) -> None:
        with ExitStack() as stack:
            at: dict[Var, Expr] = {}
            self._loops(stack, False, at)
            self._loops(stack, True, at)
            block = stack.enter_context(self.ib.block(self.generic.name))
            inside = self._axes(block, at)
            with block.init():
                self._stored(inside, reducer.identity)
            result, buffer = self.results[0], self.written[0]
            before = BufferLoad(buffer, tuple(substitute(i, inside) for i in result.indices))
            combined = {reducer.lhs[0]: before, reducer.rhs[0]: substitute(result.value, inside)}
            self._stored(inside, [substitute(reducer.result[0], combined)])

    def _accumulated(self, reducer: CommReducer) -> None:
        with ExitStack() as stack:
            at: dict[Var, Expr] = {}
            self._loops(stack, False, at)
            sums = [
                self.ib.alloc((1,), r.value.dtype, scope="local", name=f"acc{n}" if n else "acc")
                for n, r in enumerate(self.results)
            ]
            for buffer, neutral in zip(sums, reducer.identity, strict=True):
                self.ib.store(buffer, neutral, [0])
            with ExitStack() as inner:
                here = dict(at)
                self._loops(inner, True, here)
                left = {v: BufferLoad(b, (const(0, "int32"),)) for v, b in zip(reducer.lhs, sums, strict=True)}
                right = {
                    v: self.ib.let(f"value{n}", substitute(r.value, here))
                    for n, (v, r) in enumerate(zip(reducer.rhs, self.results, strict=True))
                }
                new = [
                    self.ib.let(f"new{n}", substitute(value, {**left, **right}))
                    for n, value in enumerate(reducer.result)
                ]
                for buffer, value in zip(sums, new, strict=True):
                    self.ib.store(buffer, value, [0])
            self._stored(at, [BufferLoad(b, (const(0, "int32"),)) for b in sums])
