"""``assume``: a fact that the user states, as ``T.assume`` in the program, for every later proof."""

from __future__ import annotations

from tirlower.diagnostics import BadArgument, TirError
from tirlower.ir.expr import Call, Expr, Var
from tirlower.ir.functor import substitute
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, Evaluate, For, Stmt
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.lookups import function_of
from tirlower.schedule.sites import Change, Insert, Site
from tirlower.schedule.step import Step
from tirlower.script import parse

__all__ = ["ASSUME"]


def _place(step: Step) -> Site:
    """In front of what is it stated: of a loop or block, or of the whole body."""
    if step["at"] is not None:
        site = step.site(step.handle("at"))
        return site if site.steps else site / ("body",)
    where = function_of(step.state)
    func = step.state.mod[where]
    inside = isinstance(func.body, Block)  # the root block is all that a function of blocks has
    return Site(where, ("body", "body") if inside else ("body",))


def _names(step: Step, site: Site) -> dict[str, Var]:
    """What a condition may name there: scalars, sizes, and the loops and iterators around."""
    func = step.func(site)
    found = {var.name: var for buffer in func.buffers for part in buffer.shape for var in each(Var, part)}
    found |= {var.name: var for var in func.params if var.dtype.is_integral or var.dtype.is_float}
    for stmt in step.chain(site)[:-1]:
        if isinstance(stmt, For):
            found[stmt.loop_var.name] = stmt.loop_var
        elif isinstance(stmt, Block):
            found |= {it.var.name: it.var for it in stmt.iters}
    return found


def _condition(step: Step, site: Site) -> Expr:
    text, names = str(step["condition"]), _names(step, site)
    params = ", ".join(f"{name}: T.{var.dtype}" for name, var in names.items())
    try:
        func = parse(f"@T.prim_func\ndef stated({params}):\n    T.evaluate(T.assume({text}))\n")
    except (TirError, SyntaxError) as error:
        message = error.message if isinstance(error, TirError) else str(error)
        raise BadArgument(
            f"{text!r} is no condition there: {message}", help=f"it may name: {', '.join(names) or 'nothing'}"
        ) from error
    body: Stmt = func.body  # type: ignore[union-attr]
    if not isinstance(body, Evaluate) or not isinstance(body.value, Call):
        raise BadArgument(f"{text!r} is not one condition")
    return substitute(body.value, dict(zip(func.params, names.values(), strict=True)))  # type: ignore[union-attr]


def _rewrite(step: Step) -> Change:
    site = _place(step)
    step.said = "assumed"
    return Change(Insert(site, (Evaluate(_condition(step, site)),)))


ASSUME = Kind(
    "Assume",
    "assume",
    (Slot("condition", Takes.STRING, attr=True), Slot("at", Takes.LOOP_OR_BLOCK, default=None)),
    _rewrite,
    """State a fact in front of a loop or block (without one, at the head of the function), which later steps use: ``T.assume``.

    It may name scalar parameters, sizes, and the loops around. The report says "assumed" of it; the interpreter checks it.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(n: T.int32, A: T.Buffer((n * 8,), "int32")):
    ...     for i in range(n):
    ...         A[i] = i
    ... '''))
    >>> sch.assume("n % 4 == 0")
    >>> _ = sch.split("i", [None, 4], disable_predication=True)
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(n: T.int32, A: T.Buffer((n * 8,), "int32")):
        T.assume(n % 4 == 0)
        for i_0, i_1 in T.grid(n // 4, 4):
            A[i_0 * 4 + i_1] = i_0 * 4 + i_1
    """,
    tvm=False,
)
