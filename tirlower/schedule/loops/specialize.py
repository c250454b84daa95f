"""``specialize``: statements are written once more for where a condition holds."""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.analysis.purity import side_effect
from tirlower.analysis.undefined import undefined_vars
from tirlower.diagnostics import BadArgument, TirError
from tirlower.ir.expr import BufferLoad, Expr, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.op import Purity
from tirlower.ir.query import has, may_divide_by_zero, nodes
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import (
    DECLARATIONS,
    AllocBuffer,
    AllocConst,
    Bind,
    Block,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    Seq,
    Stmt,
)
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.copies import copy_of, names_of_blocks, twinned
from tirlower.schedule.loops.statements import placed
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step
from tirlower.script import parse

__all__ = ["SPECIALIZE"]

_OF_BUFFERS = (AllocBuffer, AllocConst, DeclBuffer)


def _names(step: Step) -> dict[str, Var]:
    """What the names mean around what is written once more: scalars and sizes of the function, loops and iterators."""
    part = _part(step)
    func = step.func(part.site)
    found = {param.name: param for param in func.params if not param.dtype.is_handle}
    for buffer in func.buffers:
        found |= {var.name: var for part in buffer.shape for var in nodes(part) if isinstance(var, Var)}
    for stmt in step.chain(part.site)[:-1]:
        if isinstance(stmt, For):
            found[stmt.loop_var.name] = stmt.loop_var
        elif isinstance(stmt, Block):
            found |= {it.var.name: it.var for it in stmt.iters}
    return found


def _parsed(text: str, names: dict[str, Var]) -> Expr:
    """An expression of the script, by what its names mean."""
    params = ", ".join(f"{name}: T.{var.dtype}" for name, var in names.items())
    func = parse(f"@T.prim_func\ndef condition({params}):\n    T.evaluate({text})\n")
    assert isinstance(func, PrimFunc)
    if not isinstance(func.body, Evaluate):
        raise BadArgument(f"{text!r} is no expression")
    return substitute(func.body.value, dict(zip(func.params, names.values(), strict=True)))


def _conditions(step: Step) -> list[Expr]:
    given = step["conditions"]
    assert isinstance(given, (list, tuple))
    if not given:
        raise BadArgument("a statement is specialized for a condition", help='write it as a string: "n % 8 == 0"')
    names, found = _names(step), list[Expr]()
    for text in given:
        try:
            condition = _parsed(str(text), names)
        except (SyntaxError, TirError) as error:
            raise BadArgument(
                f"{text!r} is no condition here: {error}", help=f"the names are: {', '.join(names) or 'none'}"
            ) from error
        if not condition.dtype.is_bool:
            raise BadArgument(f"{text!r} is no condition but {condition.dtype}")
        if has(BufferLoad, condition) or side_effect(condition) is not Purity.PURE:
            raise BadArgument(f"the condition {text!r} reads memory, or does something")
        if any(may_divide_by_zero(op) for op in nodes(condition)):
            raise BadArgument(f"the condition {text!r} may divide by zero", help="divide by numbers")
        found.append(condition)
    return found


@dataclass
class _Part:
    """What is written once more: a statement, or some of a sequence. ``whole`` is what a statement with them in one place,
    ``made``, takes the place of."""

    site: Site
    whole: Stmt
    stmt: Stmt
    begin: int = -1
    end: int = -1

    def with_(self, made: Stmt) -> Stmt:
        """The whole with another statement in the place of the part."""
        if not isinstance(self.whole, Seq) or self.begin < 0:
            return made
        stmts = self.whole.stmts
        return self.whole.with_(stmts=(*stmts[: self.begin], made, *stmts[self.end :]))


def _part(step: Step) -> _Part:
    handle = step.handle("where")
    stmt, site = step.stage("where").stmt, step.site(handle)
    if step["upto"] is None:
        return _Part(site, stmt, stmt)
    first, last = placed(step, handle), placed(step, step.handle("upto"))
    if first.site != last.site or first.number > last.number:
        raise BadArgument("`upto` is no statement behind `where` in the same sequence")
    inside, behind = first.node.stmts[first.number : last.number + 1], first.node.stmts[last.number + 1 :]
    used = {*undefined_vars(Seq(behind))}
    for one in inside:
        declared = one.var if isinstance(one, Bind) else one.buffer.data if isinstance(one, _OF_BUFFERS) else None
        if declared is not None and declared in used:
            step.refuse(f"`{declared.name}` is declared there, and used behind", one)
    return _Part(first.site, first.node, Seq(inside), first.number, last.number + 1)


def _check(step: Step) -> Verdict:
    stmt = step.stage("where").stmt
    if isinstance(stmt, DECLARATIONS):
        step.refuse("a declaration is made once", stmt)
    _part(step)
    _conditions(step)
    return PROVED


def _rewrite(step: Step) -> Change:
    part = _part(step)
    stmt = part.stmt
    taken = names_of_blocks(step, part.site.func)
    conditions = _conditions(step)
    copies = [
        copy_of(stmt, "other" if at == len(conditions) - 1 else f"case{at + 1}", taken) for at in range(len(conditions))
    ]
    made: Stmt = copies[-1]
    for condition, case in zip(conditions[::-1], [*copies[:-1][::-1], stmt], strict=True):
        made = IfThenElse(condition, as_scope(case), as_scope(made))
    forward = Forward()
    twinned(forward, stmt, stmt, copies)
    whole = part.with_(made)
    if whole is not made:
        forward.keep(part.whole, whole)
    return Change(Edit(part.site, whole), forward)


SPECIALIZE = Kind(
    "Specialize",
    "specialize",
    (
        Slot("where", Takes.STAGE),
        Slot("conditions", Takes.STRING, rest=True),
        Slot("upto", Takes.STAGE, default=None, extra=True),
    ),
    _rewrite,
    """Write a statement (a loop, a block, what writes a buffer) once more for where a condition holds, and for further ones;
    always legal. With ``upto``, another statement of the same sequence, all from the one to the other.

    Conditions are of the script's language, about sizes, scalars, and the loops around. The first case keeps the handles;
    the others are their twins, and blocks there have names that end in ``_case1`` … and ``_other``.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((64,), "int32"), n: T.int32):
    ...     for i in range(n):
    ...         A[i] = i
    ... '''))
    >>> i = sch.loop("i")
    >>> sch.specialize(i, "n == 64")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((64,), "int32"), n: T.int32):
        if n == 64:
            for i in range(n):
                A[i] = i
        else:
            for i in range(n):
                A[i] = i
    """,
    check=_check,
    tvm=False,
)
