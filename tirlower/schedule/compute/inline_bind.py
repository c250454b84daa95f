"""``inline_bind``: a value that has a name takes the place of the name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tirlower.analysis.overflow import Wrapping, leaves
from tirlower.analysis.purity import side_effect
from tirlower.arith.bounds import is_index_type
from tirlower.ir.data import data_parameters
from tirlower.ir.expr import BufferLoad, Call, Expr, FloatImm, IntImm, Mul, Var
from tirlower.ir.functor import substitute
from tirlower.ir.op import Purity
from tirlower.ir.query import each, has, may_divide_by_zero, statements
from tirlower.ir.stmt import AttrStmt, Bind, Block, BufferStore, Evaluate, Seq, Stmt
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.materialize import binding
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["INLINE_BIND"]


def _check(step: Step) -> Verdict:
    """Legal where the value is the same at each place of the name."""
    site, seq, number, bind = binding(step)
    rest, value = seq.stmts[number + 1 :], bind.value
    if not value.dtype.is_float and not _is_the_same_anywhere(step, site, bind, rest):
        step.refuse(
            f"{value} is an integer: beside data its type decides how it wraps, in a name or in its place", bind
        )
    if side_effect(value) > Purity.READS or any(map(may_divide_by_zero, each(Expr, value))):
        step.refuse(f"{value} acts or may fail, and would do so elsewhere, or several times", bind)
    if value.dtype.is_float and _is_product(value):
        step.refuse(
            f"a product such as {value} is rounded before it goes into a sum, and in its place it would not be",
            bind,
            "a name keeps a product apart: write the sum with the product itself",
        )
    read = {load.buffer.data for load in each(BufferLoad, value)}
    if any(store.buffer.data in read for store in each(BufferStore, *rest)):
        step.refuse(f"what {value} reads is written behind it", bind)
    if read and any(side_effect(one.value) > Purity.READS for one in each(Evaluate, *rest)):
        step.refuse(f"a call behind it may write what {value} reads", bind)
    if value.dtype.is_float and has((Block, AttrStmt), *rest):
        step.refuse("there are blocks behind it, whose regions say what they read", bind)
    return PROVED


def _is_the_same_anywhere(step: Step, site: Site, bind: Bind, rest: Sequence[Stmt]) -> bool:
    """Whether an integer is a number, a variable, or computed from loops and sizes alone, and fits its type where it stands beside
    data: as an index it is exact."""
    value = bind.value
    if isinstance(value, (Var, IntImm)):
        return True
    if not is_index_type(value.dtype) or has((BufferLoad, Call), value):
        return False
    func = step.func(site)
    analyzer = step.analyzer(site)
    known = Wrapping(analyzer, data_parameters(func))
    for one in each(Bind, func.body):
        if not one.var.dtype.is_handle:
            known.note(one.var, one.value)
    if known.is_data(value):
        return False
    if not any(leaves(analyzer.const_int_bound(op), op.dtype) for op in each(Expr, value)):
        return True
    return not any(known.is_data(root) for root in _computed_with(bind.var, rest))


def _computed_with(var: Var, stmts: Sequence[Stmt]) -> Iterator[Expr]:
    """The expressions that compute with a variable: subscripts of what they load are others."""
    for stmt in statements(*stmts):
        roots = [one for one in stmt.children() if isinstance(one, Expr)]
        roots += [index for load in each(BufferLoad, *roots) for index in load.indices]
        for root in roots:
            left = [root]
            while left:
                op = left.pop()
                if op is var:
                    yield root
                    break
                if not isinstance(op, BufferLoad):
                    left += [one for one in op.children() if isinstance(one, Expr)]


def _is_product(value: Expr) -> bool:
    """Whether a value is, or may become, a product of floats (``x ** 2``), or the negation of one."""
    while isinstance(value, Mul) and isinstance(value.b, FloatImm) and value.b.value == -1.0:
        value = value.a
    return isinstance(value, (Mul, Call))


def _rewrite(step: Step) -> Change:
    site, seq, number, bind = binding(step)
    forward = Forward()
    forward.end(bind)
    made: list[Stmt] = []
    for one in seq.stmts[number + 1 :]:
        new = substitute(one, {bind.var: bind.value})
        forward.like(one, new)
        made.append(new)
    kept = (*seq.stmts[:number], *made)
    new_body = kept[0] if len(kept) == 1 else Seq(kept)
    if isinstance(new_body, Seq):
        forward.keep(seq, new_body)
    return Change(Edit(site, new_body), forward, relabel={})


INLINE_BIND = Kind(
    "InlineBind",
    "inline_bind",
    (Slot("name", Takes.STRING, attr=True), Slot("at", Takes.PLACE, default=None)),
    _rewrite,
    """Put a value that has a name in the place of the name. The opposite of ``bind_expr``.

    ``at``: in a loop or block, where there are several of the name. Legal where the value is the same at each of its places: nothing
    that it reads is written behind it. An integer is a number, a variable, or computed
    from loops and sizes alone: of data, it may wrap in one place and not in the other. A product of floats keeps its name, for in a sum it would be rounded with that.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((1,), "float32")):
    ...     for i in range(8):
    ...         d = A[i] - B[i]
    ...         C[0] += d * d
    ... '''))
    >>> sch.inline_bind("d")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((1,), "float32")):
        for i in range(8):
            C[0] = C[0] + (A[i] - B[i]) * (A[i] - B[i])
    """,
    check=_check,
    tvm=False,
)
