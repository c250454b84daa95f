"""One computation as steps see it: a block or a store, what it writes, and in which iteration it writes an element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tirlower.arith import Analyzer
from tirlower.diagnostics import NotApplicable, TirError
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.expr import Add, Expr, IntImm, Sub, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.index_map import IndexMap
from tirlower.ir.path import Path
from tirlower.ir.query import mentions
from tirlower.ir.stmt import Bind, Block, BufferStore, For, Stmt
from tirlower.schedule.handles import Handle
from tirlower.schedule.places import blocks_at, loops_at, statements_at
from tirlower.schedule.sites import Steps
from tirlower.schedule.step import Step

__all__ = ["Producer", "producer_at", "producer_of"]


@dataclass(frozen=True)
class Producer:
    """A computation of one store: where it stands (the block, or the store), and the store with its place."""

    name: str
    path: Steps
    stmt: Stmt
    store: BufferStore
    store_path: Steps
    loops: tuple[For, ...]
    """The loops around the store in the function, outermost first."""
    own: tuple[For, ...]
    """Those of them inside the block (none where there is no block)."""

    @property
    def block(self) -> Block | None:
        """The block, if it is one."""
        return self.stmt if isinstance(self.stmt, Block) else None

    @property
    def bindings(self) -> dict[Var, Expr]:
        """The iterators of the block with their values."""
        return {it.var: it.value for it in self.block.iters if it.value is not None} if self.block else {}

    @property
    def ranges(self) -> dict[Var, Range]:
        """The ranges of the loops around."""
        return {loop.loop_var: Range(loop.min, loop.extent) for loop in self.loops}

    def solve(self, indices: Sequence[Expr], common: Sequence[Var]) -> tuple[dict[Var, Expr], dict[Var, Expr]]:
        """In which iteration an element is written: values of the loops that are not ``common`` with the reader, and of
        the iterators of the block. Raises :class:`NotApplicable` where the indices do not tell.
        """
        names = [var for var in self.ranges if var not in common]
        iters: dict[Var, Expr] = {}
        for at, index in zip(self.store.indices, indices, strict=True):
            found = _lone(at)
            if found is not None and found[0] not in common and found[0] not in iters:
                iters[found[0]] = build.sub(index, found[1]) if found[1] is not None else index
        loops = {var: iters[var] for var in names if var in iters}
        # A loop that an iterator is bound to has its value.
        for var, value in self.bindings.items():
            if isinstance(value, Var) and value in names and var in iters:
                loops.setdefault(value, iters[var])
        missing = [var for var in names if var not in loops]
        for var in list(missing):
            if is_const_int(self.ranges[var].extent, 1):
                loops[var] = self.ranges[var].min
                missing.remove(var)
        if missing:
            loops = {**loops, **self._inverted(indices, names, common)}
        for var, value in self.bindings.items():
            if var not in iters:
                iters[var] = substitute(value, loops)
        return loops, iters

    def _inverted(self, indices: Sequence[Expr], names: Sequence[Var], common: Sequence[Var]) -> dict[Var, Expr]:
        """The loops by the inverse of what the indices are of them."""
        values = self.bindings
        starts = {var: build.add(self.ranges[var].min, var) for var in names}
        forms = [substitute(substitute(at, values), starts) for at in self.store.indices]
        used = [(form, index) for form, index in zip(forms, indices, strict=True)]
        extents = [self.ranges[var].extent for var in names]
        try:
            inverse, _ = IndexMap(tuple(names), tuple(form for form, _ in used)).non_surjective_inverse(extents)
        except TirError as error:
            raise NotApplicable(
                f"which iteration writes {self.store.buffer.name}[{', '.join(map(str, self.store.indices))}] "
                f"cannot be told from the indices: {error.message}",
            ) from error
        analyzer = Analyzer()
        found = inverse.map_indices([index for _, index in used])
        return {
            var: analyzer.simplify(build.add(self.ranges[var].min, value))
            for var, value in zip(names, found, strict=True)
        }


def _lone(index: Expr) -> tuple[Var, Expr | None] | None:
    """A variable, or one with a number added: the variable and the number."""
    if isinstance(index, Var):
        return index, None
    if isinstance(index, (Add, Sub)) and isinstance(index.a, Var) and isinstance(index.b, IntImm):
        return index.a, index.b if isinstance(index, Add) else build.sub(0, index.b)
    return None


def producer_at(step: Step, handle: Handle, *, one_store: bool = True) -> Producer:
    """The computation that a handle stands for. Raises :class:`NotApplicable` for one of several stores, or with an init."""
    site = step.site(handle)
    func, path = step.func(site), site.steps
    stmt = Path(path).chain(func)[-1]
    if not isinstance(stmt, Stmt):
        step.refuse("a block is meant, or what writes one buffer")
    found = [((*path, *way), one) for way, one in step.facts.inside(stmt) if isinstance(one, BufferStore)]
    if isinstance(stmt, Block) and one_store and stmt.init is not None:
        step.refuse(f"the block `{stmt.name}` is a reduction: what it computes is no single value", stmt)
    if len(found) != 1 and one_store:
        step.refuse(f"one store is meant, and {len(found)} stand there", stmt)
    if not found:
        step.refuse("nothing is written there", stmt)
    store_path, store = found[-1]
    assert isinstance(store, BufferStore)
    _, outermost = next(iter(loops_at(func, store_path)), (path, stmt))
    named = [one.var for _, one in step.facts.inside(outermost) if isinstance(one, Bind) and mentions(store, {one.var})]
    if named:  # they are nothing in another place
        step.refuse(
            f"what is stored has parts of the name `{named[0].name}`", store, "inline_bind() or materialize() it first"
        )
    name = stmt.name if isinstance(stmt, Block) else store.buffer.name
    return _made(func, path, stmt, store_path, store, name)


def producer_of(step: Step, func: PrimFunc, store_path: Steps) -> Producer:
    """The computation that a store belongs to: the block directly around it, or itself."""
    store = Path(store_path).chain(func)[-1]
    assert isinstance(store, BufferStore)
    blocks = blocks_at(func, store_path)
    if blocks and blocks[-1][1].iters:
        path, block = blocks[-1]
        count = sum(1 for _, one in step.facts.inside(block.body) if isinstance(one, BufferStore))
        if count == 1:
            return _made(func, path, block, store_path, store, block.name)
    return _made(func, store_path, store, store_path, store, store.buffer.name)


def _made(func: PrimFunc, path: Steps, stmt: Stmt, store_path: Steps, store: BufferStore, name: str) -> Producer:
    loops = tuple(loop for _, loop in loops_at(func, store_path))
    inside = tuple(one for way, one in statements_at(func, store_path) if isinstance(one, For) and len(way) > len(path))
    return Producer(name, path, stmt, store, store_path, loops, inside)
