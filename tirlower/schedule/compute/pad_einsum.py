"""``pad_einsum``: the iterators of a nest rounded up, its operands in copies that are filled beyond what there was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterKind, Range
from tirlower.ir.expr import BufferLoad, Expr, Var, const, is_const_int
from tirlower.ir.stmt import Block, BlockIter, BufferStore, For, ForKind, IfThenElse, Stmt
from tirlower.poly.verdict import Verdict
from tirlower.schedule.compute.einsum import Axis, einsum_of, filler_of
from tirlower.schedule.draft import Draft, mapped
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.caches import Row, place_new
from tirlower.schedule.memory.staging import no_pointers
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Change
from tirlower.schedule.step import Step

__all__ = ["PAD_EINSUM"]


class _Padding:
    """One step: what the nest is, how far its iterators go, and the buffers that are copied."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.stage = step.stage("block")
        self.found = einsum_of(step, self.stage)
        self.known = Analyzer()
        self.extents = self._extents()
        padded = [axis for axis in self.found.axes if not self._same(axis)]
        self.filler, assumed = filler_of(step, self.found, padded, bool(step["finite"]))
        if assumed:
            step.said = "assumed"
            step.notes.append(assumed)
        self.pads = self._buffers(set(padded))

    def _extents(self) -> dict[Axis, Expr]:
        given, axes = self.step["padding"], self.found.axes
        assert isinstance(given, (list, tuple))
        if len(given) != len(axes):
            raise BadArgument(f"padding= has {len(given)} factors, and there are {len(axes)} iterators")
        made: dict[Axis, Expr] = {}
        for axis, factor in zip(axes, given, strict=True):
            if not isinstance(factor, int) or factor < 1:
                raise BadArgument(f"a factor of padding= is at least 1, got {factor!r}")
            size, unit = axis.extent, const(factor, axis.extent.dtype)
            blocks = build.floordiv(build.add(size, build.sub(unit, 1)), unit)
            made[axis] = self.known.simplify(build.mul(blocks, unit))
        return made

    def _same(self, axis: Axis) -> bool:
        return self.known.can_prove_equal(axis.extent, self.extents[axis])

    def _buffers(self, padded: set[Axis]) -> dict[Buffer, tuple[Buffer, tuple[Axis | None, ...]]]:
        """For each buffer that a padded iterator indexes: its copy, and for each dimension that iterator."""
        ways: dict[Buffer, list[tuple[Axis | None, ...]]] = {}
        mine = self.found.store.buffer
        accesses: list[BufferLoad | BufferStore] = [load for load in self.found.loads if load.buffer is not mine]
        for access in (*accesses, self.found.store):
            ways.setdefault(access.buffer, []).append(tuple(self.found.axis(index) for index in access.indices))
        made: dict[Buffer, tuple[Buffer, tuple[Axis | None, ...]]] = {}
        for buffer, used in ways.items():
            if not any(axis in padded for way in used for axis in way):
                continue
            no_pointers(self.step, self.step.func(self.stage.site), buffer, self.found.path)
            shape: list[Expr] = []
            axes: list[Axis | None] = []
            for dim, extent in enumerate(buffer.shape):
                here = {way[dim] for way in used if way[dim] in padded}
                if len(here) > 1 or (here and any(way[dim] not in here for way in used)):
                    self.step.refuse(
                        f"the dimension {dim} of {buffer.name} is indexed in several ways", self.found.store
                    )
                axis = next(iter(here), None)
                axes.append(axis)
                shape.append(extent if axis is None else self.extents[axis])
            made[buffer] = Buffer(f"{buffer.name}_pad", tuple(shape), buffer.dtype, scope=buffer.scope), tuple(axes)
        return made

    def draft(self, guarded: bool) -> Draft:
        """The edits; ``guarded``: with the iterations beyond the old extents left out, which is what is proved."""
        found, step = self.found, self.step
        draft = Draft(step, self.stage.site.func)
        loops = {loop: loop.with_(extent=self.extents[axis]) for axis in found.axes for loop in (axis.loop,)}
        store = self._store(draft, found.store)
        new = {axis.var: axis for axis in found.axes}
        inside = [
            build.lt(axis.var if found.block is None else axis.loop.loop_var, axis.extent)
            for axis in found.axes
            if guarded and not self._same(axis)
        ]
        condition = reduce(build.logical_and, inside) if inside else None
        made: Stmt = store
        if found.block is not None:
            init = None if found.init is None else self._store(draft, found.init)
            iters = tuple(it.with_(domain=Range(it.domain.min, self.extents[new[it.var]])) for it in found.block.iters)
            predicate = const(1, "bool") if condition is None else condition
            changed = found.block.with_(iters=iters, body=store, init=init, predicate=predicate)
            made = with_regions(changed, renamed={old: pad for old, (pad, _) in self.pads.items()})
            draft.forward.keep(found.block, made)
        elif condition is not None:
            made = IfThenElse(condition, store)
        for loop in reversed(found.loops):
            other = loops.get(loop, loop).with_(body=made)
            draft.forward.keep(loop, other)
            made = other
        draft.replace(found.path, made)
        row = Row.around(draft.old, found.path)
        for buffer in self.pads:
            if buffer is not found.store.buffer:
                draft.before(found.path, self._copy_in(draft, buffer, f"{buffer.name}_pad"))
            elif found.accumulates and found.init is None:
                draft.before(found.path, self._copy_in(draft, buffer, f"{buffer.name}_pad_in"))
        if found.store.buffer in self.pads:
            draft.after(found.path, self._copy_out(draft))
        for target, _ in reversed(self.pads.values()):
            place_new(draft, row, target)
        return draft

    def _store(self, draft: Draft, old: BufferStore) -> BufferStore:
        """A store of the nest on the copies."""

        def moved(before: BufferLoad, after: BufferLoad) -> Expr:
            target = self.pads.get(before.buffer)
            made = after if target is None else BufferLoad(target[0], after.indices, after.predicate, span=after.span)
            return draft.load(made, old, before)

        target = self.pads.get(old.buffer)
        made = old.with_(value=mapped(old.value, moved), buffer=old.buffer if target is None else target[0])
        if made is old:
            made = old.with_(span=old.span)
        draft.stores(made, old)
        draft.forward.keep(old, made)
        return made

    def _copy_in(self, draft: Draft, buffer: Buffer, name: str) -> Stmt:
        target, axes = self.pads[buffer]

        def value(at: Sequence[Var]) -> Expr:
            inside = [build.lt(var, axis.extent) for var, axis in zip(at, axes, strict=True) if axis is not None]
            load = BufferLoad(buffer, tuple(at))
            return build.if_then_else(reduce(build.logical_and, inside), load, const(self.filler, buffer.dtype))

        return self._copy(draft, target, value, target.shape, name)

    def _copy_out(self, draft: Draft) -> Stmt:
        buffer = self.found.store.buffer
        source, _ = self.pads[buffer]
        sizes: list[Expr] = []
        for index, extent in zip(self.found.store.indices, buffer.shape, strict=True):
            axis = self.found.axis(index)
            if axis is None and not is_const_int(extent, 1):
                self.step.refuse(f"{buffer.name} is written at the constant {index} only", self.found.store)
            sizes.append(extent if axis is None else axis.extent)
        return self._copy(draft, buffer, lambda at: BufferLoad(source, tuple(at)), sizes, f"{buffer.name}_pad")

    def _copy(
        self, draft: Draft, target: Buffer, value: Callable[[Sequence[Var]], Expr], sizes: Sequence[Expr], name: str
    ) -> Stmt:
        """A nest ``i0`` … that fills a buffer, in a block where the program has them."""
        loops = [Var(f"i{n}", size.dtype) for n, size in enumerate(sizes)]
        variables = (
            [Var(f"v{n}", size.dtype) for n, size in enumerate(sizes)] if self.found.block is not None else loops
        )
        store = draft.copy(BufferStore(target, value(variables), tuple(variables)))
        nest: Stmt = store
        if self.found.block is not None:
            iters = tuple(
                BlockIter(var, Range(const(0, var.dtype), size), IterKind.SPATIAL, loop)
                for var, loop, size in zip(variables, loops, sizes, strict=True)
            )
            nest = with_regions(Block(name, iters, const(1, "bool"), (), (), None, (), {}, store))
        for loop, size in zip(reversed(loops), reversed(sizes), strict=True):
            nest = For(loop, const(0, loop.dtype), size, ForKind.SERIAL, None, {}, nest)
        return nest


def _padding(step: Step) -> _Padding:
    if not isinstance(step.plan, _Padding):
        step.plan = _Padding(step)
    return step.plan


def _check(step: Step) -> Verdict:
    """The step as it is but for the new iterations; that these change nothing is what :func:`filler_of` asks."""
    return _padding(step).draft(guarded=True).verdict()


def _rewrite(step: Step) -> Change:
    return _padding(step).draft(guarded=False).change(())


PAD_EINSUM = Kind(
    "PadEinsum",
    "pad_einsum",
    (
        Slot("block", Takes.STAGE),
        Slot("padding", Takes.INTEGERS, attr=True),
        Slot("finite", Takes.FLAG, default=False, attr=True, extra=True),
    ),
    _rewrite,
    """Round the iterators of a block up to multiples of factors, one for each; what it reads and writes of the buffers that these
    index stands in copies ``A_pad``, filled beyond what there was.

    All accesses are indexed by iterators and constants. What is filled in is the value with which more updates change
    nothing: 0 for sums of products, an infinity for extrema. Where that holds of finite numbers alone (0 times an infinity is none), or needs
    that there is no -0.0 or NaN before, it is refused without ``finite=True``.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((7, 5), "float32"), C: T.Buffer((7,), "float32")):
    ...     for i, k in T.grid(7, 5):
    ...         with T.block("C"):
    ...             vi, vk = T.axis.remap("SR", [i, k])
    ...             with T.init():
    ...                 C[vi] = T.float32(0)
    ...             C[vi] += A[vi, vk]
    ... '''))
    >>> sch.pad_einsum("C", [4, 8])
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((7, 5), "float32"), C: T.Buffer((7,), "float32")):
        A_pad = T.alloc_buffer((8, 8))
        C_pad = T.alloc_buffer((8,))
        for i0, i1 in T.grid(8, 8):
            with T.block("A_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads(A[v0, v1])
                T.writes(A_pad[v0, v1])
                A_pad[v0, v1] = T.if_then_else(v0 < 7 and v1 < 5, A[v0, v1], T.float32(0))
        for i, k in T.grid(8, 8):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A_pad[vi, vk])
                T.writes(C_pad[vi])
                with T.init():
                    C_pad[vi] = T.float32(0)
                C_pad[vi] = C_pad[vi] + A_pad[vi, vk]
        for i0 in range(7):
            with T.block("C_pad"):
                v0 = T.axis.spatial(7, i0)
                T.reads(C_pad[v0])
                T.writes(C[v0])
                C[v0] = C_pad[v0]
    """,
    check=_check,
)
