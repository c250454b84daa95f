"""``inline_bind``: a value that has a name takes the place of the name."""

from __future__ import annotations

from tirlower.analysis.purity import side_effect
from tirlower.ir.expr import BufferLoad, Call, Expr, FloatImm, Mul
from tirlower.ir.functor import substitute
from tirlower.ir.op import Purity
from tirlower.ir.query import each, has, may_divide_by_zero
from tirlower.ir.stmt import AttrStmt, Block, BufferStore, Evaluate, Seq, Stmt
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.materialize import binding
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["INLINE_BIND"]


def _check(step: Step) -> Verdict:
    """Legal where the value is the same at each place of the name."""
    _, seq, number, bind = binding(step)
    rest, value = seq.stmts[number + 1 :], bind.value
    if not value.dtype.is_float:
        step.refuse(
            f"{value} is an integer: beside data its type decides how it wraps, in a name or in its place", bind
        )
    if side_effect(value) > Purity.READS or any(map(may_divide_by_zero, each(Expr, value))):
        step.refuse(f"{value} acts or may fail, and would do so elsewhere, or several times", bind)
    if _is_product(value):
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
    if has((Block, AttrStmt), *rest):
        step.refuse("there are blocks behind it, whose regions say what they read", bind)
    return PROVED


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
    that it reads is written behind it. Of floats alone: an integer may wrap in one place and not in the other. A product of floats keeps its name, for in a sum it would be rounded with that.

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
