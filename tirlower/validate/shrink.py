"""The reducer: the smallest program, found by trying, on which something still goes wrong.

Delta debugging (Zeller and Hildebrandt, 2002) on the tree: statements are dropped in halves, quarters and one by one,
loops become one iteration or fewer of them, branches replace their condition, expressions shrink to an operand or a
constant, unused parameters go and dimensions get smaller, until nothing more can go or the time is up. The caller says
with a predicate what "still goes wrong" means; every candidate it sees is well-formed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar, cast

import numpy as np

from tirlower.diagnostics import TirError, deep_recursion
from tirlower.ir.buffer import Buffer, BufferRegion, MatchBufferRegion
from tirlower.ir.dtype import Array
from tirlower.ir.expr import Expr, FloatImm, IntImm, Let, StringImm, Var, const
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import post_order_visit, substitute
from tirlower.ir.path import places, replace_at
from tirlower.ir.stmt import (
    AllocBuffer,
    AttrStmt,
    Bind,
    Block,
    BlockIter,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Seq,
    Stmt,
    While,
)
from tirlower.ir.verify import verify_well_formed

__all__ = ["Case", "reduce_case", "shrink"]

C = TypeVar("C")
"""What is shrunk."""


class Case(NamedTuple):
    """A module, the function of it that is run, and the arguments of the run."""

    mod: IRModule
    name: str
    arguments: tuple[object, ...]

    @property
    def func(self) -> PrimFunc:
        """The function that is run."""
        return self.mod[self.name]

    def with_func(self, func: PrimFunc, arguments: Sequence[object] | None = None) -> Case:
        """The case with another function in its place."""
        return Case(
            self.mod.with_func(self.name, func), self.name, self.arguments if arguments is None else tuple(arguments)
        )


_Try = Callable[[], Case | None]
"""Makes a candidate when it is wanted; None where there is none after all."""


def reduce_case(case: Case, fails: Callable[[Case], bool], seconds: float = 10.0) -> Case:
    """The smallest case found on which ``fails`` is still true, within a time.

    ``fails`` is asked about well-formed candidates only, and should be false for one that goes wrong in another way
    than the original; what it raises is passed on. ``case`` itself comes back when nothing smaller fails.

    >>> from tirlower.script import parse
    >>> mod = IRModule(parse('''
    ... @T.prim_func
    ... def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         A[i] = B[i] + 1
    ...         B[i] = A[i] * 7
    ... '''))
    >>> case = Case(mod, "main", (np.zeros(8, "int32"), np.zeros(8, "int32")))
    >>> print(reduce_case(case, lambda c: "* 7" in c.mod["main"].script()).func.script())
    @T.prim_func
    def main(A: T.Buffer((1,), "int32"), B: T.Buffer((1,), "int32")):
        B[0] = A[0] * 7
    """
    families = (_functions, _statements, _shapes, _expressions, _parameters, _values)
    with deep_recursion():
        return shrink(case, families, _candidate, fails, seconds)


def shrink(
    case: C,
    families: Sequence[Callable[[C], Iterator[Callable[[], C | None]]]],
    candidate: Callable[[Callable[[], C | None]], C | None],
    fails: Callable[[C], bool],
    seconds: float = 10.0,
) -> C:
    """The smallest case found on which ``fails`` is still true, whatever a case is.

    ``families`` are the kinds of steps: of a case, functions that make smaller ones (None: there is none). ``candidate``
    takes a step; it gives None where what comes out is not well-formed.

    >>> halves = lambda n: iter([lambda: n // 2, lambda: n - 1])
    >>> shrink(100, [halves], lambda step: step(), lambda n: n > 16)
    17
    """
    end = time.monotonic() + seconds
    improved = True
    while improved and time.monotonic() < end:
        improved = False
        for family in families:
            case, changed = _exhaust(case, family, candidate, fails, end)
            improved = improved or changed
    return case


def _exhaust(
    case: C,
    family: Callable[[C], Iterator[Callable[[], C | None]]],
    candidate: Callable[[Callable[[], C | None]], C | None],
    fails: Callable[[C], bool],
    end: float,
) -> tuple[C, bool]:
    """Take every step of one kind that works; a step that worked is tried again at the same place."""
    position, changed = 0, False
    while time.monotonic() < end:
        attempt = next(islice(family(case), position, None), None)
        if attempt is None:
            break
        smaller = candidate(attempt)
        if smaller is not None and fails(smaller):
            case, changed = smaller, True
        else:
            position += 1
    return case, changed


def _candidate(attempt: _Try) -> Case | None:
    """A candidate, None when the step does not fit here: the program would not be well-formed."""
    try:
        made = attempt()
        if made is not None:
            verify_well_formed(made.mod)
    except TirError:
        return None
    return made


# -- the module and its parameters ---------------------------------------------------------------------------------------


def _functions(case: Case) -> Iterator[_Try]:
    """Drop the other functions."""
    for name in case.mod:
        if name != case.name:
            left = {key: func for key, func in case.mod.items() if key != name}
            yield lambda left=left: case._replace(mod=case.mod.with_functions(left))  # type: ignore[misc]


def _parameters(case: Case) -> Iterator[_Try]:
    """Drop parameters that nothing uses."""
    func = case.func
    for at, param in enumerate(func.params):

        def drop(at: int = at, param: Var = param) -> Case:
            params = func.params[:at] + func.params[at + 1 :]
            buffers = {var: buffer for var, buffer in func.buffer_map.items() if var is not param}
            return case.with_func(
                func.with_(params=params, buffer_map=buffers), case.arguments[:at] + case.arguments[at + 1 :]
            )

        yield drop


def _smaller(extent: int) -> list[int]:
    return [n for n in dict.fromkeys((1, extent // 2, extent - 1)) if 0 < n < extent]


def _shapes(case: Case) -> Iterator[_Try]:
    """Make dimensions of buffers smaller, symbolic ones by smaller arguments."""
    func = case.func
    defined: list[Buffer] = list(func.buffers)
    post_order_visit(
        func.body, lambda op: defined.append(op.buffer) if isinstance(op, (AllocBuffer, DeclBuffer)) else None
    )
    for buffer in defined:
        for axis, extent in enumerate(buffer.shape):
            if isinstance(extent, IntImm) and not buffer.strides:
                for size in _smaller(extent.value):
                    yield lambda b=buffer, a=axis, s=size: _reshaped(case, b, a, s)  # type: ignore[misc]
    symbols = {
        part: None for b in func.buffers for part in b.shape if isinstance(part, Var) and part not in func.params
    }
    for symbol in symbols:
        sizes = [
            array.shape[axis]
            for array, buffer in _arrays(case)
            for axis, part in enumerate(buffer.shape)
            if part is symbol
        ]
        for size in _smaller(sizes[0]):
            yield lambda v=symbol, s=size: _cut(case, v, s)  # type: ignore[misc]


def _arrays(case: Case) -> Iterator[tuple[Array, Buffer]]:
    for param, value in zip(case.func.params, case.arguments, strict=True):
        buffer = case.func.buffer_map.get(param)
        if buffer is not None and isinstance(value, np.ndarray):
            yield value, buffer


def _sliced(array: object, axis: int, size: int) -> object:
    return np.ascontiguousarray(np.asarray(array)[(slice(None),) * axis + (slice(0, size),)])


def _reshaped(case: Case, buffer: Buffer, axis: int, size: int) -> Case:
    """A buffer with another extent of one dimension."""
    extent = buffer.shape[axis]
    shape = (*buffer.shape[:axis], const(size, extent.dtype), *buffer.shape[axis + 1 :])
    new = buffer.with_(shape=shape)
    func = case.func
    arguments = list(case.arguments)
    for at, param in enumerate(func.params):
        if func.buffer_map.get(param) is buffer:
            arguments[at] = _sliced(arguments[at], axis, size)
    buffers = {var: new if old is buffer else old for var, old in func.buffer_map.items()}
    body = substitute(func.body, {}, {buffer: new})
    return case.with_func(func.with_(buffer_map=buffers, body=body), arguments)


def _cut(case: Case, symbol: Var, size: int) -> Case:
    """Arguments with a symbolic dimension of another size."""
    arguments = list(case.arguments)
    for at, param in enumerate(case.func.params):
        buffer = case.func.buffer_map.get(param)
        for axis, part in enumerate(buffer.shape if buffer is not None else ()):
            if part is symbol:
                arguments[at] = _sliced(arguments[at], axis, size)
    return case._replace(arguments=tuple(arguments))


def _values(case: Case) -> Iterator[_Try]:
    """Simpler arguments: zeros, ones, counts."""
    for at, value in enumerate(case.arguments):
        if isinstance(value, np.ndarray):
            simple: list[object] = [
                np.zeros_like(value),
                np.ones_like(value),
                np.arange(value.size).reshape(value.shape).astype(value.dtype),
            ]
        else:
            kind = cast("Callable[[int], object]", type(value))
            simple = [kind(0), kind(1)]
        same = (n for n, one in enumerate(simple) if np.array_equal(np.asarray(one), np.asarray(value)))
        rank = next(same, len(simple))
        for one in simple[:rank]:
            yield (
                lambda at=at, one=one: case._replace(  # type: ignore[misc]
                    arguments=(*case.arguments[:at], one, *case.arguments[at + 1 :])
                )
            )


# -- statements ----------------------------------------------------------------------------------------------------------

_Edits = Iterator[Callable[[], Stmt]]


def _statements(case: Case) -> Iterator[_Try]:
    """Fewer statements, shorter and plainer loops."""
    func = case.func
    for path, stmt in places(func, lambda op: not isinstance(op, Expr)):
        for make in _edits(stmt) if isinstance(stmt, Stmt) else ():
            yield lambda path=path, make=make: case.with_func(replace_at(func, path, make()))  # type: ignore[misc]


def _edits(stmt: Stmt) -> _Edits:
    """What a statement may become, the smallest first."""
    nothing = isinstance(stmt, Evaluate) and isinstance(stmt.value, IntImm)
    if not nothing:
        yield lambda: Evaluate(const(0))
    edits = _EDITS.get(stmt.__class__)
    if edits is not None:
        yield from edits(stmt)


def _branches(stmt: IfThenElse) -> _Edits:
    yield lambda: stmt.then_case
    other = stmt.else_case
    if other is not None:
        yield lambda: other
        yield lambda: stmt.with_(else_case=None)


def _regions(stmt: AttrStmt | While) -> _Edits:
    yield lambda: stmt.body


def _sequences(stmt: Seq) -> _Edits:
    stmts = stmt.stmts
    if len(stmts) == 1:
        yield lambda: stmts[0]
    size = len(stmts) // 2
    while size:
        for at in range(0, len(stmts), size):
            yield lambda at=at, size=size: stmt.with_(stmts=stmts[:at] + stmts[at + size :])  # type: ignore[misc]
        size //= 2
    for at, one in enumerate(stmts):
        if isinstance(one, Bind):
            # Its value in its place.
            yield (
                lambda at=at, one=one: stmt.with_(  # type: ignore[misc]
                    stmts=(*stmts[:at], *(substitute(later, {one.var: one.value}) for later in stmts[at + 1 :]))
                )
            )


def _loops(stmt: For) -> _Edits:
    yield lambda: substitute(stmt.body, {stmt.loop_var: stmt.min})
    if isinstance(stmt.extent, IntImm):
        for extent in _smaller(stmt.extent.value):
            yield lambda extent=extent: stmt.with_(extent=const(extent, stmt.extent.dtype))  # type: ignore[misc]
    if stmt.kind is not ForKind.SERIAL and stmt.kind is not ForKind.THREAD_BINDING:
        yield lambda: stmt.with_(kind=ForKind.SERIAL)
    if not (isinstance(stmt.min, IntImm) and stmt.min.value == 0):
        yield lambda: stmt.with_(min=const(0, stmt.loop_var.dtype))
    if stmt.annotations:
        yield lambda: stmt.with_(annotations={})


def _blocks(stmt: Block) -> _Edits:
    if all(it.value is not None for it in stmt.iters) and not stmt.match_buffers:
        yield lambda: substitute(stmt.body, {it.var: it.value for it in stmt.iters if it.value is not None})
    if stmt.init is not None:
        yield lambda: stmt.with_(init=None)
    if not isinstance(stmt.predicate, IntImm):
        yield lambda: stmt.with_(predicate=const(True, "bool"))
    if stmt.annotations:
        yield lambda: stmt.with_(annotations={})


_EDITS = cast(
    "dict[type[Stmt], Callable[[Stmt], _Edits]]",
    {
        Seq: _sequences,
        For: _loops,
        IfThenElse: _branches,
        AttrStmt: _regions,
        While: _regions,
        Block: _blocks,
    },
)


# -- expressions ---------------------------------------------------------------------------------------------------------


_KEPT = (AllocBuffer, BlockIter, BufferRegion, MatchBufferRegion)
"""Where expressions say how much memory there is and what a block touches: they stay."""


def _expressions(case: Case) -> Iterator[_Try]:
    """Expressions become an operand, or a constant."""
    func = case.func
    for path, op in places(func, lambda op: not isinstance(op, _KEPT)):
        for new in _shrunk(op) if isinstance(op, Expr) else ():
            yield lambda path=path, new=new: case.with_func(replace_at(func, path, new))  # type: ignore[misc]


def _shrunk(op: Expr) -> Iterator[Expr]:
    """What may stand in place of an expression."""
    dtype = op.dtype
    if isinstance(op, (StringImm,)) or dtype.is_handle or dtype.is_custom:
        return
    if dtype.is_vector:
        yield from (c for c in op.children() if isinstance(c, Expr) and c.dtype is dtype)
        return
    simple = [const(n, dtype) for n in (0, 1)]
    if isinstance(op, (IntImm, FloatImm)):
        values = [float(one.value) for one in simple]  # type: ignore[attr-defined]
        yield from simple[: values.index(float(op.value))] if float(op.value) in values else simple
        return
    yield from simple
    for child in op.children():
        if isinstance(child, Expr) and child.dtype is dtype and not isinstance(op, Let):
            yield child
    if isinstance(op, Let):
        yield substitute(op.body, {op.var: op.value})
