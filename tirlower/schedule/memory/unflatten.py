"""``unflatten``: an array that a program flattened by itself, ``A[i * n + j]``, seen in its dimensions again."""

from __future__ import annotations

import itertools

from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Expr, FloorDiv, FloorMod, IntImm, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, AllocConst, Block, BufferStore, DeclBuffer, Seq, Stmt, seq
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.rewrite.fact_mutator import FactMutator
from tirlower.schedule.expressions import expressions
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.lookups import function_of
from tirlower.schedule.memory.staging import buffer_named
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["UNFLATTEN"]


class _Apart(FactMutator):
    """Takes the subscripts of a buffer apart, under the facts where they stand."""

    def __init__(self, step: Step, func: PrimFunc, old: Buffer, new: Buffer) -> None:
        super().__init__(func)
        self.step, self.old, self.new = step, old, new

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        """A read in all dimensions."""
        return op.with_(buffer=self.new, indices=self.digits(op)) if op.buffer is self.old else op

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        """A write in all dimensions."""
        indices = self.digits(op) if op.buffer is self.old else None
        made = self.generic(op)
        assert isinstance(made, BufferStore)
        return made if indices is None else made.with_(buffer=self.new, indices=indices)

    def visit_Block(self, op: Block) -> Stmt:
        """Its regions say what it touches in one dimension."""
        parts = [region.buffer for region in (*op.reads, *op.writes, *(match.source for match in op.match_buffers))]
        if self.old in parts:
            self.step.refuse(f"the block {op.name} states what it touches of {self.old.name}", op, "as_loops() first")
        return super().visit_Block(op)

    def digits(self, op: BufferLoad | BufferStore) -> tuple[Expr, ...]:
        """The subscripts in all dimensions. Refused where they are not certainly one of each, within the shape."""
        [index] = op.indices
        text = f"{self.old.name}[{index}]"
        if op.predicate is not None or not index.dtype.is_scalar:
            self.step.refuse(f"{text} is of several lanes", op)
        simplify, prove = self.analyzer.simplify, self.analyzer.can_prove
        left, found = index, list[Expr]()
        for extent in reversed(self.new.shape[1:]):
            found.append(simplify(build.floormod(left, extent)))
            left = simplify(build.floordiv(left, extent))
        found = [left, *reversed(found)]
        again = found[0]
        for digit, extent in zip(found[1:], self.new.shape[1:], strict=True):
            again = build.add(build.mul(again, extent), digit)
        whole = not any(not isinstance(one.b, IntImm) for digit in found for one in each((FloorDiv, FloorMod), digit))
        inside = whole and all(
            prove(build.ge(digit, 0)) and prove(build.lt(digit, extent))
            for digit, extent in zip(found, self.new.shape, strict=True)
        )
        if not (inside and prove(build.eq(again, index))):
            shape = ", ".join(map(str, self.new.shape))
            self.step.refuse(f"{text} is not known to be one element of ({shape})", op)
        return tuple(found)


def _shape(step: Step, func: PrimFunc, buffer: Buffer) -> tuple[Expr, ...]:
    """The shape that is asked for, whose elements are those of the buffer."""
    names = {param.name: param for param in func.params if param.dtype.is_integral}
    names |= {var.name: var for one in func.buffers for extent in one.shape for var in each(Var, extent)}
    shape = tuple(expressions(str(step["shape"]), names))
    if len(shape) < 2:
        raise BadArgument(f"{step['shape']!r} is one dimension, which {buffer.name} has", help='write "m, n"')
    size = shape[0]
    for extent in shape[1:]:
        size = build.mul(size, extent)
    [have] = buffer.shape
    if not Analyzer().can_prove(build.eq(size, have)):
        step.refuse(f"({step['shape']}) is not known to be the {have} elements of {buffer.name}")
    return shape


def _check(step: Step) -> Verdict:
    func = step.state.mod[function_of(step.state)]
    buffer = buffer_named(step, func, step["buffer"])
    if buffer not in func.buffers:
        step.refuse(f"{buffer.name} is no parameter", help="transform_layout() gives what is allocated another shape")
    if len(buffer.shape) != 1 or buffer.strides or not is_const_int(buffer.elem_offset, 0):
        step.refuse(f"{buffer.name} has several dimensions, strides or an offset of its own")
    uses, stated = step.facts.uses(func.body), step.facts.declaring(func.body)
    made = [one.buffer for one in stated if isinstance(one, (AllocBuffer, AllocConst, DeclBuffer))]
    others = [one for one in (*func.buffers, *made) if one is not buffer and one.data is buffer.data]
    if buffer.data in uses.pointers or others:
        step.refuse(f"the memory of {buffer.name} is used by a pointer or another view")
    taken = {one.name for one in (*func.buffers, *made)}
    name = next(one for n in itertools.count() if (one := f"{buffer.name}_nd{n or ''}") not in taken)
    new = buffer.with_(name=name, shape=_shape(step, func, buffer))
    body = _Apart(step, func, buffer, new).visit(func.body)
    step.plan = func.with_(body=_declaring(new, body)), body, new, buffer
    return PROVED


def _declaring(buffer: Buffer, body: Stmt) -> Stmt:
    """What follows a view, the view in front: in the root block, where a function has one."""
    if isinstance(body, Block):
        return body.with_(body=_declaring(buffer, body.body))
    return seq(DeclBuffer(buffer), *(body.stmts if isinstance(body, Seq) else (body,)))


def _rewrite(step: Step) -> Change:
    if step.plan is None:
        _check(step)
    assert isinstance(step.plan, tuple)
    made, body, new, buffer = step.plan
    name = function_of(step.state)
    forward = Forward()
    forward.like(step.state.mod[name].body, body)
    forward.keep(step.state.mod[name].body, made.body)
    return Change(Edit(Site(name), made), forward, buffers={buffer: new})


UNFLATTEN = Kind(
    "Unflatten",
    "unflatten",
    (Slot("buffer", Takes.MEMORY, attr=True), Slot("shape", Takes.STRING, attr=True)),
    _rewrite,
    """See a parameter of one dimension, whose subscripts the program computes, in several: ``A[i * n + j]`` becomes ``A_nd[i, j]``,
    of a view of the same memory. ``shape`` is written in the sizes of the function, ``"m, n"``.

    Legal where the shape has as many elements, and each subscript is known to be that of one element of it: ``0 <= j < n``. What
    else sees the memory would still see it flat.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(m: T.int32, n: T.int32, A: T.Buffer((m * n,), "int32"), B: T.Buffer((m,), "int32")):
    ...     for i, j in T.grid(m, n):
    ...         B[i] = B[i] + A[i * n + j]
    ... '''))
    >>> sch.unflatten("A", "m, n")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(m: T.int32, n: T.int32, A: T.Buffer((m * n,), "int32"), B: T.Buffer((m,), "int32")):
        A_nd = T.decl_buffer((m, n), "int32", data=A.data)
        for i, j in T.grid(m, n):
            B[i] = B[i] + A_nd[i, j]
    """,
    check=_check,
)
