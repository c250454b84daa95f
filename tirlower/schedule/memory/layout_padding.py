"""What a layout has beyond the elements of a buffer: written by the buffer's producer, after it, or given by the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument, NotApplicable, TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterKind, Range
from tirlower.ir.expr import BufferLoad, Call, Expr, Var, as_expr, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.index_map import IndexMap
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, BlockIter, BufferStore, Evaluate, For, ForKind, IfThenElse, Stmt
from tirlower.poly.dataflow import covers
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.compute.einsum import Nest, nest_of
from tirlower.schedule.draft import Draft, mapped
from tirlower.schedule.memory.caches import Row, has_blocks
from tirlower.schedule.places import allocation_of, blocks_at, statements_at, writing
from tirlower.schedule.producers import producer_of
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Site, Steps
from tirlower.schedule.stages import Stage
from tirlower.schedule.step import Step

__all__ = ["LayoutPadding"]


@dataclass
class LayoutPadding:
    """The padding of one step: the old buffer and the new one, the map and its inverse, where nothing of the old one is."""

    step: Step
    site: Site
    func: PrimFunc
    old: Buffer
    new: Buffer
    inverse: IndexMap
    predicate: Expr
    value: Expr
    """In terms of the variables of the inverse."""

    @classmethod
    def of(cls, step: Step, site: Site, old: Buffer, new: Buffer, index_map: IndexMap, given: object) -> LayoutPadding:
        """The padding that a value is asked for; :class:`NotApplicable` where it cannot be told where it is."""
        try:
            inverse, predicate = index_map.non_surjective_inverse(old.shape)
        except TirError as error:
            step.refuse(f"where the padding is cannot be told: {error.message}", help=error.help)
        known = _known(inverse.initial_indices, new.shape)
        back = IndexMap(inverse.initial_indices, tuple(known.simplify(one) for one in inverse.final_indices))
        made = cls(step, site, step.func(site), old, new, back, known.simplify(predicate), const(0, old.dtype))
        made.value = made._value(given)
        return made

    @property
    def empty(self) -> bool:
        """Whether there is none."""
        return is_const_int(self.predicate, 0)

    def _value(self, given: object) -> Expr:
        """The value at a place of the padding; loads in it are of the old buffer."""
        if isinstance(given, IndexMap):
            if len(given.final_indices) != 1 or len(given.initial_indices) != len(self.new.shape):
                raise BadArgument(f"pad_value= is one value for {len(self.new.shape)} indices, got {given}")
            names = dict(zip(given.initial_indices, self.inverse.initial_indices, strict=True))
            value = substitute(given.final_indices[0], names)
        else:
            assert isinstance(given, (int, float, Expr))
            value = as_expr(given)
        for load in each(BufferLoad, value):
            if load.buffer is not self.old and load.buffer.name != self.old.name:
                raise BadArgument(f"pad_value= loads {load.buffer.name}, and may load {self.old.name} alone")
            if len(load.indices) != len(self.old.shape):
                raise BadArgument(f"pad_value= loads {load}, and {self.old.name} has {len(self.old.shape)} dimensions")
        if any(isinstance(one, Call) for one in each(Call, value)):
            raise BadArgument(f"pad_value= calls something: {value}")
        own = mapped(value, lambda _, new: BufferLoad(self.old, new.indices))
        unknown = set(each(Var, own)) - {*self.inverse.initial_indices, self.old.data}
        if unknown - {*self.func.params}:
            raise BadArgument(f"pad_value= names {', '.join(var.name for var in unknown)}, which are not known there")
        return _known(self.inverse.initial_indices, self.new.shape).simplify(build.cast(self.old.dtype, own))

    # The program with the padding written, in which the old buffer is still to be laid out anew

    def drafted(self) -> tuple[Draft, Verdict]:
        """The edits that fill the padding, and whether all else is computed as before."""
        writers = writing(self.step.facts, self.func, self.old)
        loads = any(True for _ in each(BufferLoad, self.value))
        if not writers:
            if loads:
                self.step.refuse(f"{self.old.name} is an input: its padding is a value, not an element")
            return self._assumed(), PROVED
        nest = None if loads or len(writers) != 1 else self._covering(writers[0][0])
        if nest is not None:
            proof = self._produced(nest, guarded=True).verdict()
            if proof.proved:
                return self._produced(nest, guarded=False), PROVED
        return self._behind([way for way, _ in writers], loads)

    def _covering(self, path: Steps) -> Nest | None:
        """The nest that writes the whole buffer, element by element in their order, and does nothing else."""
        step, dims = self.step, len(self.old.shape)
        producer = producer_of(step, self.func, path)
        way, stmt = producer.path, producer.stmt
        if producer.block is None:
            chain = statements_at(self.func, way)
            if len(chain) <= dims or not all(isinstance(one, For) for _, one in chain[-1 - dims : -1]):
                return None
            way, stmt = chain[-1 - dims]
        try:
            nest = nest_of(step, Stage.of(Site(self.site.func, way), stmt, step.facts.uses))
        except NotApplicable:
            return None
        store, axes = nest.store, nest.axes
        plain = all(loop.kind is ForKind.SERIAL and not loop.annotations for loop in nest.loops)
        in_order = [axis.var for axis in axes] == [*store.indices] and [axis.loop for axis in axes] == [*nest.loops]
        whole = in_order and all(
            Analyzer().can_prove_equal(axis.extent, extent) for axis, extent in zip(axes, self.old.shape, strict=True)
        )
        reads = any(load.buffer is self.old for load in nest.loads)
        return nest if plain and whole and not reads and nest.init is None else None

    def _produced(self, nest: Nest, guarded: bool) -> Draft:
        """The producer over the new indices. ``guarded``: still with the old buffer, and without the padding, which is
        what is proved."""
        draft = Draft(self.step, self.site.func)
        loops, iters = self._variables(nest.block is not None)
        inside = build.logical_not(self._at(self.predicate, loops))
        by_loop = {
            axis.loop.loop_var: self._at(at, loops)
            for axis, at in zip(nest.axes, self.inverse.final_indices, strict=True)
        }
        names = {axis.var: self._at(at, iters) for axis, at in zip(nest.axes, self.inverse.final_indices, strict=True)}
        known = _known(iters, self.new.shape)

        def load(old: BufferLoad, new: BufferLoad) -> Expr:
            made = new.with_(indices=tuple(known.simplify(index) for index in new.indices))
            return draft.load(made, nest.store, old, by_loop)

        value = mapped(nest.store.value, load, names)
        if guarded:
            store = BufferStore(self.old, value, tuple(names[axis.var] for axis in nest.axes))
        else:
            filled = build.if_then_else(self._at(self.predicate, iters), self._at(self.value, iters), value)
            store = BufferStore(self.new, filled, tuple(iters))
        draft.stores(store, nest.store, by_loop)
        draft.forward.keep(nest.store, store)
        made: Stmt = store
        if nest.block is not None:
            made = self._block(nest.block.name, loops, iters, store, inside if guarded else const(1, "bool"))
            made = made.with_(annotations=nest.block.annotations)
            draft.forward.keep(nest.block, made)
        elif guarded:
            made = IfThenElse(inside, store)
        whole = self._nest(loops, made)
        for loop in nest.loops:
            draft.forward.end(loop, *(one for one in each(For, whole)))
        draft.replace(nest.path, whole)
        return draft

    def _behind(self, writers: Sequence[Steps], loads: bool) -> tuple[Draft, Verdict]:
        """The padding after the last writer."""
        draft = Draft(self.step, self.site.func)
        row = self._row()
        last = max(row.of(way) for way in writers)
        blocks = has_blocks(self.func)
        loops, iters = self._variables(blocks)
        store = BufferStore(self.new, self._at(self.value, iters), tuple(iters))
        made: Stmt = store
        where = self._at(self.predicate, loops)
        if blocks:
            name = [block.name for _, block in blocks_at(self.func, writers[-1]) if block.iters]
            made = self._block(f"{(name or [self.old.name])[-1]}_pad_{self.old.name}", loops, iters, store, where)
        else:
            made = IfThenElse(where, store)
        draft.after(row.place(last), self._nest(loops, made))
        if not loads or allocation_of(self.step.facts, self.func, self.old) is None:
            return draft, PROVED
        scop = self.step.facts.scop(draft.func())
        mine = [one for one in scop.accesses if one.data is self.old.data]
        reads = [one for one in mine if not one.is_write and one.statement.node is store]
        found = covers(scop, [one for one in mine if one.is_write], reads)
        if found.proved:
            return draft, found
        return draft, Verdict("unknown", f"pad_value= may load what nothing wrote: {found.reason}")

    def _assumed(self) -> Draft:
        """What the caller gives, stated at the head of the function."""
        draft = Draft(self.step, self.site.func)
        blocks = has_blocks(self.func)
        loops, iters = self._variables(blocks)
        load = BufferLoad(self.new, tuple(iters))
        holds = build.logical_or(
            build.logical_not(self._at(self.predicate, iters)), build.eq(load, self._at(self.value, iters))
        )
        made: Stmt = Evaluate(build.call("tir.assume", holds))
        if blocks:
            made = self._block(f"buffer_{self.old.name}_assumptions", loops, iters, made, const(1, "bool"))
        draft.head(("body", "body") if isinstance(self.func.body, Block) else ("body",), self._nest(loops, made))
        self.step.said = "trusted"
        self.step.notes.append(f"the padding of {self.old.name} is {self.value}")
        return draft

    def _row(self) -> Row:
        """The statements among which the buffer's writers are."""
        home = allocation_of(self.step.facts, self.func, self.old)
        if home is not None:
            return Row.around(self.func, home[0])
        return Row.at(self.func, ("body", "body") if isinstance(self.func.body, Block) else ("body",))

    # Parts

    def _at(self, expr: Expr, at: Sequence[Var]) -> Expr:
        names: Mapping[Var, Expr] = dict(zip(self.inverse.initial_indices, at, strict=True))
        return substitute(expr, names)

    def _variables(self, blocks: bool) -> tuple[list[Var], list[Var]]:
        """Loops over the new indices, and the iterators bound to them; the same ones without a block."""
        loops = [Var(f"axis{n}", var.dtype) for n, var in enumerate(self.inverse.initial_indices)]
        return loops, [Var(f"v_{loop.name}", loop.dtype) for loop in loops] if blocks else loops

    def _block(self, name: str, loops: Sequence[Var], iters: Sequence[Var], body: Stmt, where: Expr) -> Block:
        made = tuple(
            BlockIter(var, Range(const(0, var.dtype), build.cast(var.dtype, size)), IterKind.SPATIAL, loop)
            for var, loop, size in zip(iters, loops, self.new.shape, strict=True)
        )
        return with_regions(Block(name, made, where, (), (), None, (), {}, body))

    def _nest(self, loops: Sequence[Var], made: Stmt) -> Stmt:
        for loop, size in zip(reversed(loops), reversed(self.new.shape), strict=True):
            made = For(loop, const(0, loop.dtype), build.cast(loop.dtype, size), ForKind.SERIAL, None, {}, made)
        return made


def _known(variables: Sequence[Var], shape: Sequence[Expr]) -> Analyzer:
    analyzer = Analyzer()
    for var, extent in zip(variables, shape, strict=True):
        analyzer.bind(var, Range(const(0, var.dtype), build.cast(var.dtype, extent)))
    return analyzer
