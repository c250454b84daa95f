"""InstrumentProfileIntrinsics: marks around functions and loops, at which a profile takes the time."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tirlower.ir.expr import Call, Expr, IntImm, const
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.stmt import Evaluate, For, ForKind, Seq, Stmt
from tirlower.rewrite.base import Fact, ModulePass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.options import option

__all__ = ["InstrumentProfileIntrinsics", "ProfileSite", "profile_sites"]

_START, _END = Op.get("tir.start_profile_intrinsic"), Op.get("tir.end_profile_intrinsic")
_RETURNS = frozenset((Op.get("tir.ret"), Op.get("tir.thread_return")))

_COUNTERS: WeakKeyDictionary[PassContext, int] = WeakKeyDictionary()
"""The next free id under each context that is alive: modules made under one context have ids of their own."""


@dataclass(frozen=True)
class ProfileSite:
    """What a pair of marks encloses: the loop of a variable in a function, or (``loop`` empty) the function itself."""

    id: int
    function: str
    loop: str
    depth: int

    def __str__(self) -> str:
        return f"{self.function}: loop {self.loop}" if self.loop else self.function


@dataclass
class _Loop:
    """A loop's id, the loops around it, the levels of loops inside it, and where it stands."""

    id: int
    depth: int
    height: int = 0
    siblings: bool = False
    in_parallel: bool = False


class _Analysis:
    """Numbers the loops of a function, outer before inner."""

    def __init__(self, first: int) -> None:
        self.next = first
        self.loops: dict[int, _Loop] = {}

    def visit(self, stmt: Node, depth: int, in_parallel: bool) -> int:
        """The levels of loops in a statement, itself included."""
        if isinstance(stmt, For):
            loop = self.loops[id(stmt)] = _Loop(self.next, depth, in_parallel=in_parallel)
            self.next += 1
            loop.height = self.visit(stmt.body, depth + 1, in_parallel or stmt.kind is ForKind.PARALLEL)
            return loop.height + 1
        inner = [c for c in stmt.children() if not isinstance(c, Expr)]
        levels = [self.visit(c, depth, in_parallel) for c in inner]
        if isinstance(stmt, Seq):
            loops = [self.loops[id(c)] for c in inner if isinstance(c, For)]
            for loop in loops:
                loop.siblings = len(loops) > 1
        return max(levels, default=0)


def _mark(op: Op, number: int) -> Stmt:
    return Evaluate(Call(op, (const(number, "int32"),)))


class _Instrumenter(StmtMutator):
    """Puts marks around the chosen loops; a return ends what is open."""

    def __init__(self, chosen: dict[int, int], open_: list[int]) -> None:
        self.chosen = chosen
        self.open = open_

    def visit_Seq(self, op: Seq) -> Stmt:
        done: list[Stmt] = []
        for stmt in op.stmts:
            made = self.visit(stmt)
            done += made.stmts if made is not stmt and isinstance(made, Seq) and not isinstance(stmt, Seq) else (made,)
        same = len(done) == len(op.stmts) and all(a is b for a, b in zip(done, op.stmts, strict=True))
        return op if same else op.with_(stmts=tuple(done))

    def visit_For(self, op: For) -> Stmt:
        number = self.chosen.get(id(op))
        if number is None:
            return self.generic(op)
        self.open.append(number)
        made = self.generic(op)
        self.open.pop()
        return Seq((_mark(_START, number), made, _mark(_END, number)))

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        if self.open and isinstance(op.value, Call) and op.value.op in _RETURNS:
            return Seq((*[_mark(_END, number) for number in reversed(self.open)], op))
        return op


def profile_sites(mod: IRModule) -> list[ProfileSite]:
    """What the marks of a module enclose, by id, read off the module as the pass left it."""
    found: dict[int, ProfileSite] = {}

    def look(stmt: Node, name: str, depth: int) -> None:
        started: int | None = None
        for child in stmt.stmts if isinstance(stmt, Seq) else (stmt,):
            if isinstance(child, For):
                if started is not None:
                    found.setdefault(started, ProfileSite(started, name, child.loop_var.name, depth))
                look(child.body, name, depth + 1)
            elif not isinstance(child, Evaluate):
                for inner in child.children():
                    if not isinstance(inner, Expr):
                        look(inner, name, depth)
            started = _started(child)

    for name, func in mod.items():
        whole = _enclosing(func.body)
        if whole is not None:
            found[whole] = ProfileSite(whole, name, "", 0)
        look(func.body, name, 0)
    return [found[number] for number in sorted(found)]


def _enclosing(body: Stmt) -> int | None:
    """The id of the marks around a whole body: the function's, or those of a loop that is all it has."""
    if not isinstance(body, Seq):
        return None
    number = _started(body.stmts[0])
    return number if number is not None and _marked(body.stmts[-1], _END) == number else None


def _started(stmt: Node) -> int | None:
    """The id of a start mark."""
    return _marked(stmt, _START)


def _marked(stmt: Node, op: Op) -> int | None:
    call = stmt.value if isinstance(stmt, Evaluate) else None
    if isinstance(call, Call) and call.op is op and isinstance(call.args[0], IntImm):
        return call.args[0].value
    return None


def _is_marked(func: PrimFunc) -> bool:
    """Whether a function has marks already."""
    stack: list[Stmt] = [func.body]
    while stack:
        stmt = stack.pop()
        if _started(stmt) is not None:
            return True
        stack += [child for child in stmt.children() if isinstance(child, Stmt)]
    return False


class InstrumentProfileIntrinsics(ModulePass):
    """Functions and loops are enclosed by marks with an id: ``T.start_profile_intrinsic(id)`` and ``T.end_…(id)``.

    Every function is marked (unless ``disable_func_prof``) and gets the next id, then its loops, outer before inner.
    Marked are loops with siblings (``instr_siblings``, the default); without it, loops with at most ``max_depth``
    loops around them (0: the outermost). In both cases a loop has at least ``min_height`` levels of loops inside it
    (1: innermost loops are left alone). What runs inside a parallel loop has no marks. Before a return, what is open
    ends. A function that has marks already stays as it is. Ids go on from module to module under one PassContext, or from 0 (``reset_start_id``).

    The options are keywords, or the configuration keys ``tir.lwp_max_depth``, ``tir.lwp_min_height``,
    ``tir.instr_siblings``, ``tir.lwp_disable_func_prof`` and ``tir.reset_start_id``. :func:`profile_sites` says what each
    id encloses, :class:`tirlower.llvm.profile.Profile` reads the times back as a table. Needs nothing, raises nothing.

    >>> from tirlower.script import parse
    >>> print(InstrumentProfileIntrinsics(disable_func_prof=True)(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((4, 4), "float32")):
    ...     for i, j in T.grid(4, 4):
    ...         A[i, j] = T.float32(0)
    ...     for i, j in T.grid(4, 4):
    ...         A[i, j] = A[j, i] + T.float32(1)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((4, 4), "float32")):
        T.start_profile_intrinsic(1)
        for i, j in T.grid(4, 4):
            A[i, j] = T.float32(0)
        T.end_profile_intrinsic(1)
        T.start_profile_intrinsic(3)
        for i, j in T.grid(4, 4):
            A[i, j] = A[j, i] + T.float32(1)
        T.end_profile_intrinsic(3)
    """

    name = "tir.InstrumentProfileIntrinsics"
    breaks = (Fact.UNMARKED,)
    max_depth: int = option(default=0, key="tir.lwp_max_depth")
    min_height: int = option(default=1, key="tir.lwp_min_height")
    instr_siblings: bool = option(default=True, key="tir.instr_siblings")
    disable_func_prof: bool = option(default=False, key="tir.lwp_disable_func_prof")
    reset_start_id: bool = option(default=False, key="tir.reset_start_id")

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Mark the functions and loops of a module."""
        first = 0 if self.reset_start_id else _COUNTERS.get(ctx, 0)
        made: dict[str, PrimFunc] = {}
        for name, func in mod.items():
            if _is_marked(func):
                made[name] = func
                continue
            analysis = _Analysis(first + 1)
            analysis.visit(func.body, 0, False)
            made[name] = self._mark_function(func, first, analysis)
            first = analysis.next
        _COUNTERS[ctx] = first
        return mod.with_functions(made)

    def _mark_function(self, func: PrimFunc, number: int, analysis: _Analysis) -> PrimFunc:
        chosen = {
            key: loop.id
            for key, loop in analysis.loops.items()
            if not loop.in_parallel
            and loop.height >= self.min_height
            and (loop.siblings if self.instr_siblings else loop.depth <= self.max_depth)
        }
        whole = not self.disable_func_prof
        if not chosen and not whole:
            return func
        body = _Instrumenter(chosen, [number] if whole else []).visit(func.body)
        return func.with_body(Seq((_mark(_START, number), body, _mark(_END, number))) if whole else body)
