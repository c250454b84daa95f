"""``bind_expr``: an expression of a statement is computed to a name in front of it."""

from __future__ import annotations

from collections.abc import Iterator

from tirlower.analysis.purity import side_effect
from tirlower.diagnostics import BadArgument
from tirlower.ir.expr import And, Call, Expr, IntImm, Or, Var
from tirlower.ir.op import Op, Purity
from tirlower.ir.path import Path
from tirlower.ir.stmt import Bind, BufferStore, Seq, Stmt
from tirlower.ir.structural import structural_equal
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.handles import Handle
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.lookups import function_of
from tirlower.schedule.patterns import ExprPattern
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["BIND_EXPR"]

_IF = Op.get("tir.if_then_else")


def _parts(root: Expr, always: bool = True) -> Iterator[tuple[Expr, bool]]:
    """An expression and what it is computed of, each with whether it is computed whenever the whole is."""
    yield root, always
    for at, child in enumerate(one for one in root.children() if isinstance(one, Expr)):
        chosen = isinstance(root, Call) and root.op is _IF and at > 0
        short = isinstance(root, (And, Or)) and at > 0
        yield from _parts(child, always and not chosen and not short)


def _found(step: Step) -> tuple[Site, BufferStore, Expr]:
    """The first statement with the expression, and the expression."""
    pattern, at = ExprPattern(str(step["pattern"])), step["at"]
    name = str(step["name"])
    if not name.isidentifier():
        raise BadArgument(f"name={name!r} is no name")
    site = step.site(at) if isinstance(at, Handle) else Site(function_of(step.state), ("body",))
    root = Path(site.steps).chain(step.func(site))[-1]
    assert isinstance(root, Stmt)
    for way, stmt in step.facts.inside(root):
        if not isinstance(stmt, BufferStore):
            continue
        seen: list[Expr] = []
        for expr in (stmt.value, *stmt.indices):
            for part, always in _parts(expr):
                if isinstance(part, (Var, IntImm)) or not part.dtype.is_scalar or not pattern.matches(part):
                    continue
                if side_effect(part) > Purity.READS:
                    step.refuse(f"{part} has effects, and would have them at another time", stmt)
                if always:
                    return Site(site.func, (*site.steps, *way)), stmt, part
                seen.append(part)
        if seen:
            step.refuse(f"{seen[0]} is only computed where a condition holds, and may fail elsewhere", stmt)
    step.refuse(
        f"no statement there computes {step['pattern']}",
        help="write it as the program is printed, with _ for what may be anything",
    )


def _check(step: Step) -> Verdict:
    """Always legal where it is computed in any case: nothing happens between the name and the statement."""
    _found(step)
    return PROVED


def _rewrite(step: Step) -> Change:
    site, store, expr = _found(step)
    var = Var(str(step["name"]), expr.dtype)

    def named(op: Expr) -> Expr:
        if structural_equal(op, expr):
            return var
        return op.map_children(lambda child: named(child) if isinstance(child, Expr) else child)

    made = store.with_(value=named(store.value), indices=tuple(named(index) for index in store.indices))
    bind, forward = Bind(var, expr), Forward()
    forward.keep(store, made)
    return Change(Edit(site, Seq((bind, made))), forward, (bind,))


BIND_EXPR = Kind(
    "BindExpr",
    "bind_expr",
    (
        Slot("pattern", Takes.STRING, attr=True),
        Slot("name", Takes.STRING, attr=True),
        Slot("at", Takes.PLACE, default=None),
    ),
    _rewrite,
    """Compute an expression to a name in front of the first statement that has it; where it has it several times, all are the name. Returns
    the binding.

    ``pattern``: the expression as the program is printed, with ``_`` for what may be anything. ``at``: in a loop or block alone. Refused
    where the statement computes it under a condition only, or it has effects.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         C[i] = (A[i] + T.float32(1)) * (A[i] + T.float32(1))
    ... '''))
    >>> sch.bind_expr("A[_] + _", "x")
    StmtRV('bind')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i in range(8):
            x: T.float32 = A[i] + T.float32(1)
            C[i] = x * x
    """,
    check=_check,
    returns="one",
    tvm=False,
)
