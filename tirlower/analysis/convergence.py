"""Whether calls that threads make together stand where all of them come: barriers, shuffles, votes, products of warps.

A device hangs, or computes something, where only a part of the threads comes to such a call. The threads of a block come
to a statement together where the conditions and loops around it are the same for all of them
(:mod:`tirlower.analysis.uniformity`), those of a warp where they are for each warp. Inside an expression the arms of a
choice, and what stands behind ``and`` and ``or``, are places that only some may come to. Threads that have returned count
as having come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tirlower.analysis.uniformity import Uniformity
from tirlower.ir.expr import And, BufferLoad, Call, Cast, Expr, IntImm, Or, StringImm, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.stmt import Bind, BufferStore, For, ForKind, IfThenElse, Stmt, While

__all__ = ["Astray", "calls_astray", "team_of_call"]

WARP, WARPGROUP = 32, 128
_BLOCK = 0
_EVERY_LANE = 0xFFFFFFFF

_SYNC = Op.get("tir.tvm_storage_sync")
_ITE = Op.get("tir.if_then_else")
_ACTIVE = Op.get("tir.tvm_warp_activemask")
_MASKED = frozenset(
    Op.get(f"tir.{name}")
    for name in (
        "tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down", "tvm_warp_shuffle_xor", "ptx_syncwarp",
        "ptx_vote_ballot", "ptx_vote_any", "ptx_vote_all",
    )
)  # fmt: skip
"""Calls of the lanes that their first argument names."""
_IN_SEGMENTS = frozenset(
    Op.get(f"tir.{name}") for name in ("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down")
)
_OF_WARPS = frozenset(
    Op.get(f"tir.{name}")
    for name in ("ptx_mma", "ptx_mma_sp", "ptx_ldmatrix", "ptx_stmatrix", "mma_store", "mma_fill", "tvm_mma_sync",
                 "tvm_bmma_sync", "tvm_load_matrix_sync", "tvm_store_matrix_sync", "tvm_fill_fragment")
)  # fmt: skip
_OF_WARPGROUPS = frozenset(
    Op.get(f"tir.{name}") for name in ("ptx_wgmma", "ptx_wgmma_fence", "ptx_wgmma_commit_group", "ptx_wgmma_wait_group")
)


def team_of_call(call: Call, active: Collection[Var] = ()) -> int | None:
    """How many threads with consecutive numbers make a call together: 0 for all of a block, None for a call that a thread
    makes by itself, or that names a part of its warp (which is left to who named it).

    ``active`` are variables, and memories, that hold the mask of the active lanes, which names no part.

    >>> from tirlower.ir import build
    >>> team_of_call(build.call("tir.tvm_storage_sync", StringImm("shared")))
    0
    """
    if call.op is _SYNC:
        scope = call.args[0]
        return WARP if isinstance(scope, StringImm) and scope.value == "warp" else _BLOCK
    if call.op in _MASKED:
        mask = call.args[0]
        if is_const_int(mask, _EVERY_LANE) or is_const_int(mask, -1):
            return WARP
        if not _is_active(mask, active):
            return None
        # Of the active lanes those of a segment have to be there, beyond which none is read (but by xor).
        width = call.args[3] if call.op in _IN_SEGMENTS else None
        return width.value if isinstance(width, IntImm) and 0 < width.value < WARP else WARP
    if call.op in _OF_WARPS:
        return WARP
    return WARPGROUP if call.op in _OF_WARPGROUPS else None


def _is_active(mask: Expr, active: Collection[Var]) -> bool:
    """Whether a mask is that of the active lanes, or a copy of it."""
    if isinstance(mask, BufferLoad):
        return mask.buffer.data in active
    while isinstance(mask, Cast):
        mask = mask.value
    return mask in active or (isinstance(mask, Call) and mask.op is _ACTIVE)


def _active_masks(body: Stmt) -> set[Var]:
    """The variables and memories that get the mask of the active lanes."""
    found: set[Var] = set()
    for op in each((Bind, BufferStore), body):
        if _is_active(op.value, found):
            found.add(op.var if isinstance(op, Bind) else op.buffer.data)
    return found


@dataclass(frozen=True)
class Astray:
    """A call of ``team`` threads (0: of a block) in a place ``where`` only some of them may come."""

    call: Call
    team: int
    where: Node

    @property
    def place(self) -> str:
        """The place, in words."""
        where = self.where
        if isinstance(where, IfThenElse):
            return f"a condition: if {where.condition}"
        if isinstance(where, While):
            return f"a loop: while {where.condition}"
        if isinstance(where, For):
            return f"a loop: for {where.loop_var.name} in {where.extent}"
        return f"a part of an expression: {where}"


def calls_astray(func: PrimFunc) -> Iterator[Astray]:
    """The calls of a function's kernels to which threads may not come together, in the order of the text."""
    active = _active_masks(func.body)
    if not any(team_of_call(call, active) is not None for call in each(Call, func.body)):
        return
    kernels = _Kernels()
    kernels.visit(func.body)
    for kernel in kernels.found:
        finder = _Finder(kernel, active)
        finder.visit(kernel.body)
        yield from finder.found


class _Kernels(Visitor):
    """The outermost loops over thread axes."""

    def __init__(self) -> None:
        self.found: list[For] = []

    def visit_expr(self, root: Expr) -> None:
        """Expressions hold no loops."""

    def visit_For(self, op: For) -> None:
        if op.kind is ForKind.THREAD_BINDING:
            self.found.append(op)
        else:
            self.generic(op)


class _Finder(Visitor):
    def __init__(self, kernel: For, active: Collection[Var]) -> None:
        self.kernel = kernel
        self.active = active
        self.found: list[Astray] = []
        self.control: list[IfThenElse | For | While] = []
        self.known: dict[int, Uniformity] = {}

    def facts(self, team: int) -> Uniformity:
        """What varies among the threads of a team."""
        found = self.known.get(team)
        if found is None:
            found = self.known[team] = Uniformity(self.kernel, together=team or None)
        return found

    def visit_expr(self, root: Expr) -> None:
        """The calls of an expression, with the parts of it that only some threads may come to around them."""
        stack: list[tuple[Expr, tuple[tuple[Expr, Expr], ...]]] = [(root, ())]
        seen: set[tuple[int, tuple[tuple[Expr, Expr], ...]]] = set()
        while stack:
            op, arms = stack.pop()
            if (id(op), arms) in seen:
                continue
            seen.add((id(op), arms))
            if isinstance(op, Call):
                team = team_of_call(op, self.active)
                if team is not None:
                    self.judge(op, team, arms)
            if isinstance(op, (And, Or)):
                stack += [(op.b, (*arms, (op, op.a))), (op.a, arms)]
            elif isinstance(op, Call) and op.op is _ITE:
                condition, then, other = op.args
                inside = (*arms, (op, condition))
                stack += [(other, inside), (then, inside), (condition, arms)]
            else:
                stack += [(child, arms) for child in reversed(tuple(op.children()))]

    def judge(self, call: Call, team: int, arms: tuple[tuple[Expr, Expr], ...]) -> None:
        """Note a call where some threads may stay away."""
        facts = self.facts(team)
        for stmt in self.control:
            if facts.varies(stmt.condition) if isinstance(stmt, IfThenElse) else facts.diverges(stmt):
                self.found.append(Astray(call, team, stmt))
                return
        for choice, condition in arms:
            if facts.varies(condition):
                self.found.append(Astray(call, team, choice))
                return

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        self.visit_expr(op.condition)
        self.inside(op, op.then_case, op.else_case)

    def visit_For(self, op: For) -> None:
        if op.kind is ForKind.THREAD_BINDING:
            self.generic(op)
            return
        self.visit_expr(op.min)
        self.visit_expr(op.extent)
        self.inside(op, op.body)

    def visit_While(self, op: While) -> None:
        # The condition is evaluated again and again: where the loop diverges, by some threads only.
        self.control.append(op)
        self.visit_expr(op.condition)
        self.control.pop()
        self.inside(op, op.body)

    def inside(self, op: IfThenElse | For | While, *bodies: Stmt | None) -> None:
        """What stands in a condition or loop."""
        self.control.append(op)
        for body in bodies:
            if body is not None:
                self.visit(body)
        self.control.pop()
