"""A schedule's moment as TVM shows it: statements with their parents, the edges between the blocks of a scope, flags of blocks.

Made when asked for; none of our own checks uses them, and what is changed in one is not changed in a schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tirlower.diagnostics import BadArgument
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.path import Path, replace_at
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, For, Stmt
from tirlower.ir.verify import verify_well_formed
from tirlower.schedule.edits import Steps
from tirlower.schedule.policy import Policy
from tirlower.schedule.scopes import DepKind, Placed, Scope, is_affine, scope_of

__all__ = ["BlockScope", "CachedFlags", "DepKind", "Dependency", "ScheduleState", "StmtSRef"]


class StmtSRef:
    """A block or loop where it stands: ``parent`` is the one around it, ``seq_index`` its number among statements (-1: it is alone).

    One of a state goes along when the state is changed (:meth:`ScheduleState.replace`); ``stmt`` is None for one that is no more.
    Equal are those of the same statement.
    """

    __slots__ = ("func", "parent", "seq_index", "stmt", "way")

    def __init__(self, func: str, way: Steps, stmt: Block | For, parent: StmtSRef | None) -> None:
        self.func = func
        self.stmt: Block | For | None = stmt
        self.parent: StmtSRef | None
        self.stand(way, parent)

    def stand(self, way: Steps, parent: StmtSRef | None) -> None:
        """Stand elsewhere."""
        last = way[-1] if way else ""
        self.way, self.parent, self.seq_index = way, parent, last if isinstance(last, int) else -1

    def end(self) -> None:
        """Stand nowhere any more."""
        self.stmt, self.parent, self.way, self.seq_index = None, None, (), -1

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, StmtSRef)
            and self.stmt is not None
            and self.stmt is other.stmt
            and self.func == other.func
        )

    def __hash__(self) -> int:
        return hash(self.func)  # what it points at may change

    def __repr__(self) -> str:
        what = (
            "nothing" if self.stmt is None else self.stmt.name if isinstance(self.stmt, Block) else self.stmt.loop_var
        )
        return f"StmtSRef({what})"


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
        self.debug_mask = Policy(debug_mask=debug_mask).debug_mask
        self.enable_check = enable_check
        self._known: dict[str, dict[Stmt, StmtSRef]] = {}

    def _table(self, name: str) -> dict[Stmt, StmtSRef]:
        """The places of the blocks and loops of a function."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._placed(name, {})
        return found

    def _placed(self, name: str, known: Mapping[Stmt, StmtSRef]) -> dict[Stmt, StmtSRef]:
        """The blocks and loops of a function, each with where it stands; those that are known go on."""
        made: dict[Stmt, StmtSRef] = {}
        stack: list[tuple[Steps, Stmt, StmtSRef | None]] = [(("body",), self.mod[name].body, None)]
        while stack:
            way, stmt, parent = stack.pop()
            if isinstance(stmt, (Block, For)):
                found = known.get(stmt)
                if found is None:
                    found = StmtSRef(name, way, stmt, parent)
                else:
                    found.stmt = stmt
                    found.stand(way, parent)
                made[stmt] = parent = found
            for field in stmt.child_names:
                value = getattr(stmt, field)
                if isinstance(value, Stmt):
                    stack.append(((*way, field), value, parent))
                elif isinstance(value, tuple):
                    stack += [((*way, field, at), one, parent) for at, one in enumerate(value) if isinstance(one, Stmt)]
        return made

    def get_sref(self, stmt: Block | For) -> StmtSRef:
        """Where a block or loop of the module stands. Raises :class:`BadArgument` for one that is not in it."""
        if not isinstance(stmt, (Block, For)):
            raise BadArgument(f"a {type(stmt).__name__} has no place of its own: name a block or a loop")
        for name in self.mod.functions:
            found = self._table(name).get(stmt)
            if found is not None:
                return found
        raise BadArgument(
            "the statement is not in the module", help="steps make new statements: get it anew from sch.mod"
        )

    def replace(
        self, src_sref: StmtSRef, tgt_stmt: Block | For, block_sref_reuse: Mapping[Block, Block] | None = None
    ) -> None:
        """Put a statement in the place of another one: a block or loop for a loop, a block for a block.

        A place goes on where its statement does: those around, statements that are the same objects, loops of the same
        variable, and blocks of which ``block_sref_reuse`` says so (old to new). Others are then of no statement. Nothing is
        proved; a schedule's own module does not change. Raises :class:`BadArgument`, and what ``debug_mask`` finds.

        >>> from tirlower.script import parse
        >>> func = parse('''
        ... def f(A: T.Buffer((4,), "int32")):
        ...     for i in range(4):
        ...         A[i] = 1
        ... ''')
        >>> state = ScheduleState(func)
        >>> loop = state.get_sref(func.body)
        >>> state.replace(loop, func.body.with_(kind="parallel"))
        >>> state.mod["main"].body is loop.stmt, loop.stmt.kind.value
        (True, 'parallel')
        """
        old = src_sref.stmt
        if old is None or self._table(src_sref.func).get(old) is not src_sref:
            raise BadArgument("what is to be replaced does not stand in this state")
        if not isinstance(tgt_stmt, (Block, For)) or (isinstance(old, Block) and not isinstance(tgt_stmt, Block)):
            raise BadArgument(
                f"a {type(old).__name__} is not replaced by a {type(tgt_stmt).__name__}",
                help="a block takes the place of a block, a block or a loop that of a loop",
            )
        name, table, before = src_sref.func, self._table(src_sref.func), self.mod
        path = Path(src_sref.way)
        func = replace_at(self.mod[name], path, tgt_stmt)
        if Policy(debug_mask=self.debug_mask).verifies:
            verify_well_formed(func)
        known = dict(table)
        for one, new in list(zip(path.chain(before[name]), path.chain(func), strict=True))[:-1]:
            if isinstance(one, (Block, For)) and isinstance(new, Stmt):
                known[new] = table[one]
        gone = {stmt: table[stmt] for stmt in each((Block, For), old) if isinstance(stmt, (Block, For))}
        loops = {stmt.loop_var: sref for stmt, sref in gone.items() if isinstance(stmt, For)}
        reuse = {new: table[one] for one, new in (block_sref_reuse or {}).items() if one in table}
        for stmt in each((Block, For), tgt_stmt):
            if stmt not in known:
                sref = loops.get(stmt.loop_var) if isinstance(stmt, For) else reuse.get(stmt)
                if sref is not None:
                    known[stmt] = sref
        self.mod = self.mod.with_func(name, func)
        self._known[name] = made = self._placed(name, known)
        alive = {id(sref) for sref in made.values()}
        for sref in table.values():
            if id(sref) not in alive:
                sref.end()

    def _scope(self, sref: StmtSRef) -> Scope:
        if not isinstance(sref.stmt, Block):
            raise BadArgument("a loop is no scope: name a block")
        return Scope(self.mod[sref.func], sref.way)

    def get_block_scope(self, block_sref: StmtSRef) -> BlockScope:
        """The edges between the blocks directly inside a block."""
        scope = self._scope(block_sref)
        made = {one.way: self.get_sref(one.block) for one in scope.children}
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
