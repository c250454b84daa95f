"""``shift`` and ``skew``: a loop that counts from elsewhere; the iterations and their order stay."""

from __future__ import annotations

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.expr import Expr, IntImm, Var
from tirlower.ir.functor import substitute
from tirlower.ir.query import nodes
from tirlower.ir.stmt import For, ForKind
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["SHIFT", "SKEW"]


def _moved(step: Step, site: Site, loop: For, by: Expr) -> For:
    """A loop that counts from ``by`` further on. Refused where its numbers would leave their type."""
    if loop.kind is ForKind.THREAD_BINDING:
        step.refuse(f"the loop is bound to {loop.thread_tag}, whose numbers start at 0", loop, "bind it afterwards")
    analyzer, dtype = step.analyzer(site), loop.loop_var.dtype
    low, high = analyzer.const_int_bound(build.cast("int64", by)).ends
    start, count = (analyzer.const_int_bound(build.cast("int64", x)).ends for x in (loop.min, loop.extent))
    least, most = -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    # What depends on a symbol that may be anything its type holds is taken for a size, which leaves room; split does so too.
    vague = [x for x, (_, end) in ((loop.extent, count), (loop.min, start), (by, (low, high))) if end > most // 2]
    known = all(isinstance(x, IntImm) for x in vague)
    if known and (start[0] + low < least or start[1] + count[1] + high > most):
        raise BadArgument(
            f"the loop would count from {start[0] + low} to {start[1] + count[1] + high}, which does not fit {dtype}"
        )
    begin = analyzer.simplify(build.add(loop.min, by))
    number = build.sub(loop.loop_var, by)
    return loop.with_(min=begin, body=substitute(loop.body, {loop.loop_var: number}))


def _amount(step: Step, loop: For, site: Site) -> Expr:
    """How far a loop is moved, in the type of its variable."""
    value = step.number(step["by"])
    if isinstance(value, int):
        if value >> (loop.loop_var.dtype.bits - 1) not in (0, -1):
            raise BadArgument(f"{value} does not fit the loop's type {loop.loop_var.dtype}")
        return build.cast(loop.loop_var.dtype, value)
    assert isinstance(value, Expr)
    known = {*step.func(site).params, *(var for stmt in step.chain(site)[:-1] for var in _bound(stmt))}
    known |= {v for buffer in step.func(site).buffers for x in buffer.shape for v in nodes(x) if isinstance(v, Var)}
    for var in nodes(value):
        if isinstance(var, Var) and var not in known:
            raise BadArgument(f"`{var.name}` means nothing around the loop `{loop.loop_var.name}`")
    return build.cast(loop.loop_var.dtype, value)


def _bound(stmt: object) -> list[Var]:
    return [stmt.loop_var] if isinstance(stmt, For) else []


def _check_shift(step: Step) -> Verdict:
    _shifted(step)
    return PROVED


def _shifted(step: Step) -> tuple[Site, For, For]:
    handle = step.handle("loop")
    loop, site = step.loop(handle), step.site(handle)
    return site, loop, _moved(step, site, loop, _amount(step, loop, site))


def _rewrite_shift(step: Step) -> Change:
    site, loop, made = _shifted(step)
    forward = Forward()
    forward.like(loop, made)
    return Change(Edit(site, made), forward)


SHIFT = Kind(
    "Shift",
    "shift",
    (Slot("loop", Takes.LOOP), Slot("by", Takes.FACTOR)),
    _rewrite_shift,
    """Let a loop count from ``by`` further on (a number, or an expression of what is known around the loop); what it does
    is the same.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         A[i] = i
    ... '''))
    >>> sch.shift("i", 3)
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        for i in range(3, 11):
            A[i - 3] = i - 3
    """,
    check=_check_shift,
    tvm=False,
)


def _skewed(step: Step) -> tuple[Site, For, For]:
    outer, inner = step.handle("outer"), step.handle("inner")
    around, loop = step.loop(outer), step.loop(inner)
    site, out = step.site(inner), step.site(outer)
    if out == site or out.func != site.func or site.steps[: len(out.steps)] != out.steps:
        step.refuse(f"the loop `{inner.name}` does not stand inside `{outer.name}`", loop, "name the outer one first")
    value = step.number(step["f"])
    if not isinstance(value, int):
        raise BadArgument(f"the factor of a skew is an integer, got {value!r}")
    by = build.mul(build.cast(loop.loop_var.dtype, around.loop_var), value)
    return site, loop, _moved(step, site, loop, by)


def _check_skew(step: Step) -> Verdict:
    _skewed(step)
    return PROVED


def _rewrite_skew(step: Step) -> Change:
    site, loop, made = _skewed(step)
    forward = Forward()
    forward.like(loop, made)
    return Change(Edit(site, made), forward)


SKEW = Kind(
    "Skew",
    "skew",
    (Slot("outer", Takes.LOOP), Slot("inner", Takes.LOOP), Slot("f", Takes.INTEGER)),
    _rewrite_skew,
    """Let the inner loop count from ``f`` times the outer variable further on. What the loops do is the same, but a
    reordering that was not legal may be legal then: what depends on the iteration before and a neighbour lies ahead.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((9, 9), "int32")):
    ...     for i, j in T.grid(8, 8):
    ...         A[i + 1, j] = A[i, j + 1]
    ... '''))
    >>> sch.can("reorder", "j", "i").status
    'refuted'
    >>> sch.skew("i", "j", 1)
    >>> sch.reorder("j", "i")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((9, 9), "int32")):
        for j in range(15):
            for i in range(T.max(j - 7, 0), T.min(8, j + 1)):
                A[i + 1, j - i] = A[i, j - i + 1]
    """,
    check=_check_skew,
    tvm=False,
)
