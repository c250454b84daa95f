"""A schedule's moment as TVM shows it: statements with their parents, the edges between the blocks of a scope, flags of blocks.

Read-only, made when asked for; none of our own checks uses them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.diagnostics import BadArgument
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.path import Path, places
from tirlower.ir.stmt import Block, For, Stmt
from tirlower.schedule.edits import Steps
from tirlower.schedule.scopes import DepKind, Placed, Scope, is_affine, scope_of

__all__ = ["BlockScope", "CachedFlags", "DepKind", "Dependency", "ScheduleState", "StmtSRef"]


@dataclass(frozen=True)
class StmtSRef:
    """A block or loop where it stands: ``parent`` is the one around it, ``seq_index`` its number among statements (-1: it is alone)."""

    func: str
    way: Steps
    stmt: Block | For
    parent: StmtSRef | None
    seq_index: int


@dataclass(frozen=True)
class Dependency:
    """The block ``dst`` depends on ``src``."""

    src: StmtSRef
    dst: StmtSRef
    kind: DepKind


@dataclass(frozen=True)
class CachedFlags:
    """What TVM keeps of a block: whether its bindings are affine, whether it reads only what is written before it, and whether
    its own scope is a pipeline of stages.
    """

    affine_binding: bool
    region_cover: bool
    stage_pipeline: bool


class BlockScope:
    """The blocks directly inside a block, with the edges between them."""

    def __init__(self, edges: list[Dependency]) -> None:
        self._edges = edges

    def get_deps_by_src(self, block: StmtSRef) -> list[Dependency]:
        """The edges from a block."""
        return [edge for edge in self._edges if edge.src.stmt is block.stmt]

    def get_deps_by_dst(self, block: StmtSRef) -> list[Dependency]:
        """The edges to a block."""
        return [edge for edge in self._edges if edge.dst.stmt is block.stmt]


class ScheduleState:
    """A module as TVM's schedules see it.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... def f(A: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         with T.block("A"):
    ...             vi = T.axis.spatial(4, i)
    ...             A[vi] = 1
    ... ''')
    >>> state = ScheduleState(func)
    >>> block = state.get_sref(func.body.body.body)
    >>> block.parent.stmt.loop_var.name, state._get_cached_flags(block).affine_binding
    ('i', True)
    """

    def __init__(self, mod: PrimFunc | IRModule, *, debug_mask: str | int = "none", enable_check: bool = True) -> None:
        self.mod = IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod
        self.debug_mask = debug_mask
        self.enable_check = enable_check

    def get_sref(self, stmt: Block | For) -> StmtSRef:
        """Where a block or loop of the module stands. Raises :class:`BadArgument` for one that is not in it."""
        for name, func in self.mod.items():
            for path, node in places(func, lambda op: isinstance(op, (Stmt, PrimFunc))):
                if node is stmt:
                    return self._sref(name, func, path.steps)
        raise BadArgument(
            "the statement is not in the module", help="steps make new statements: get it anew from sch.mod"
        )

    def _sref(self, name: str, func: PrimFunc, way: Steps) -> StmtSRef:
        values = Path(way).chain(func)
        stmt = values[-1]
        if not isinstance(stmt, (Block, For)):
            raise BadArgument(f"a {type(stmt).__name__} has no place of its own: name a block or a loop")
        around = [at for at, value in enumerate(values[:-1]) if isinstance(value, (Block, For))]
        parent = self._sref(name, func, way[: around[-1]]) if around else None
        last = way[-1] if way else ""
        return StmtSRef(name, way, stmt, parent, last if isinstance(last, int) else -1)

    def _scope(self, sref: StmtSRef) -> Scope:
        if not isinstance(sref.stmt, Block):
            raise BadArgument("a loop is no scope: name a block")
        return Scope(self.mod[sref.func], sref.way)

    def get_block_scope(self, block_sref: StmtSRef) -> BlockScope:
        """The edges between the blocks directly inside a block."""
        scope, func = self._scope(block_sref), self.mod[block_sref.func]
        made = {one.way: self._sref(block_sref.func, func, one.way) for one in scope.children}
        return BlockScope([Dependency(made[e.src.way], made[e.dst.way], e.kind) for e in scope.edges()])

    def _get_cached_flags(self, block_sref: StmtSRef) -> CachedFlags:
        """The flags of a block."""
        own, func = self._scope(block_sref), self.mod[block_sref.func]
        assert isinstance(block_sref.stmt, Block)
        placed = Placed(block_sref.way, block_sref.stmt)
        around = scope_of(func, block_sref.way)
        inside = [one for one in around.children if one.way == block_sref.way]
        return CachedFlags(
            is_affine(func, placed),
            around.region_cover(inside[0]) if inside else True,
            own.stage_pipeline() == "",
        )
