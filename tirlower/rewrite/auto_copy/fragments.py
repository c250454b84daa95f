"""Copies between shared memory and the fragments of tensor cores, a matrix of 16 by 16 at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.query import each
from tirlower.ir.refresh import copy_var
from tirlower.ir.stmt import AllocBuffer, Block, BufferStore, Evaluate, For, ForKind, Seq, Stmt
from tirlower.rewrite.auto_copy.form import Axis, Copy, Order, linear, refuse
from tirlower.rewrite.auto_copy.padding import Conflicts
from tirlower.rewrite.loop_nests import nest

__all__ = ["FragmentCopies", "is_fragment"]

_SIDE = 16
_WARP = 32
_HELP = "copy tiles of 16 by 16 elements, one loop along the rows and one along the columns"


def is_fragment(buffer: Buffer) -> bool:
    """Whether a buffer holds fragments of wmma."""
    return buffer.scope.startswith("wmma.")


class FragmentCopies:
    """Lowers copies with fragments on one side; ``share`` lowers a copy that the threads of a warp share."""

    def __init__(
        self, order: Order, conflicts: Conflicts, share: Callable[[Block, Copy, Sequence[Axis]], Stmt]
    ) -> None:
        self.order = order
        self.analyzer = order.analyzer
        self.conflicts = conflicts
        self.share = share

    def lower(self, op: Block, copy: Copy, axes: Sequence[Axis]) -> Stmt:
        """Matrix loads or stores in place of a copy. Raises TransformError for a copy that is not made of matrices."""
        self._check(op, copy, axes)
        into, out_of = copy.store.buffer, copy.load.buffer
        if is_fragment(into):
            rows, columns = self._tiles(op, copy, into, copy.store.indices)
            return self._transfers(op, copy, (rows, columns), into, copy.store.indices, out_of, copy.load.indices)
        rows, columns = self._tiles(op, copy, out_of, copy.load.indices)
        if into.scope.startswith("shared"):
            return self._transfers(op, copy, (rows, columns), out_of, copy.load.indices, into, copy.store.indices)
        return self._through_shared(op, copy, rows, columns, axes)

    def _check(self, op: Block, copy: Copy, axes: Sequence[Axis]) -> None:
        into, out_of = copy.store.buffer, copy.load.buffer
        other = out_of if is_fragment(into) else into
        fused = not isinstance(copy.store.value, BufferLoad)
        if fused and not (other is into and other.scope == "global" and copy.store.value.dtype is out_of.dtype):
            refuse(
                op, "it computes with the elements of a fragment", "do that where an accumulator goes to global memory"
            )
        if copy.conditions or copy.store.predicate is not None or copy.load.predicate is not None:
            refuse(op, "its elements are copied under conditions", "copy whole tiles of 16 by 16 elements")
        if into.dtype is not out_of.dtype:
            refuse(op, "it converts the elements of a fragment", "convert them in shared memory")
        if not (other.scope.startswith("shared") or (other is into and other.scope == "global")):
            refuse(
                op,
                f"a fragment is copied {'from' if other is out_of else 'to'} {other.scope!r} memory",
                "go through shared memory",
            )
        variables = copy.variables()
        for axis in axes:
            if axis.stride < _WARP and axis.extent > 1 and axis.loop.loop_var in variables:
                name = axis.loop.loop_var.name
                refuse(op, f"it depends on {name!r}, by which the threads of a warp differ", "copy a tile per warp")

    def _tiles(self, op: Block, copy: Copy, buffer: Buffer, indices: Sequence[Expr]) -> tuple[For, For]:
        """The loops along the rows and columns of a buffer of fragments."""
        if len(indices) < 2 or not self.order.independent(copy.loops):
            refuse(op, f"the fragments in {buffer.name!r} have no rows and columns", _HELP)
        found = []
        for axis in (len(indices) - 2, len(indices) - 1):
            along = [
                loop for loop in copy.loops if is_const_int(self.order.moved(loop.loop_var, indices[axis]), 1)
                and all(is_const_int(self.order.moved(loop.loop_var, i), 0) for n, i in enumerate(indices) if n != axis)
            ]  # fmt: skip
            if len(along) != 1 or not isinstance(along[0].extent, IntImm) or along[0].extent.value % _SIDE:
                refuse(op, f"no loop of a multiple of 16 runs along dimension {axis} of {buffer.name!r}", _HELP)
            start = substitute(indices[axis], {along[0].loop_var: along[0].min})
            known = self.analyzer.modular_set(start)
            size = buffer.shape[axis]
            if known.coeff % _SIDE or known.base % _SIDE or not isinstance(size, IntImm) or size.value % _SIDE:
                refuse(op, f"a tile of {buffer.name!r} does not begin at a multiple of 16: {start}", _HELP)
            found.append(along[0])
        return found[0], found[1]

    def _transfers(
        self,
        op: Block,
        copy: Copy,
        tiles: tuple[For, For],
        fragments: Buffer,
        at: Sequence[Expr],
        memory: Buffer,
        place: Sequence[Expr],
    ) -> Stmt:
        """Loops over the tiles, with a load or store of a matrix in them."""
        load = copy.store.buffer is fragments
        offset = memory.offset_of(place)
        steps = [self.order.moved(loop.loop_var, offset) for loop in tiles]
        by_rows = is_const_int(steps[1], 1)
        if not by_rows and not is_const_int(steps[0], 1):
            refuse(op, f"neither rows nor columns of a tile lie side by side in {memory.name!r}", _HELP)
        if not load and not by_rows:
            refuse(op, f"the columns of an accumulator lie side by side in {memory.name!r}", "store it by rows")
        stride = steps[0] if by_rows else steps[1]
        layout = "row_major" if by_rows else "col_major"
        loops, values = self._tile_loops(copy, tiles)
        index = self._number(fragments, [substitute(i, values) for i in at])
        start = substitute(offset, values)
        self.conflicts.align(memory, 16)
        if load:
            self.conflicts.note_tile(
                memory, place, {loop.loop_var: loop.min for loop in copy.loops}, tiles[::-1] if by_rows else tiles
            )
        reach = build.add(build.mul(stride, _SIDE - 1), _SIDE)
        start = self.analyzer.simplify(build.sub(start, build.cast(start.dtype, memory.elem_offset)))
        pointer = memory.access_ptr("r" if load else "w", offset=start, extent=reach)
        name = "tir.tvm_load_matrix_sync" if load else "tir.tvm_store_matrix_sync"
        sides = [const(_SIDE)] * 3
        call = build.call(name, fragments.data, *sides, index, pointer, build.cast("int32", stride), layout)
        return nest(loops, Evaluate(call, span=op.span))

    def _tile_loops(self, copy: Copy, tiles: tuple[For, For]) -> tuple[list[For], dict[Var, Expr]]:
        """The loops with those along a tile's sides 16 times shorter, and the first element of each tile."""
        loops: list[For] = []
        values: dict[Var, Expr] = {}
        for loop in copy.loops:
            if loop not in tiles:
                loops.append(loop)
                continue
            assert isinstance(loop.extent, IntImm)
            var = copy_var(loop.loop_var, f"{loop.loop_var.name}_tile")
            count = const(loop.extent.value // _SIDE, var.dtype)
            zero = const(0, var.dtype)
            self.analyzer.bind(var, Range(zero, count))
            one = is_const_int(count, 1)
            values[loop.loop_var] = loop.min if one else build.add(loop.min, build.mul(var, _SIDE))
            if not one:
                loops.append(For(var, zero, count, ForKind.SERIAL, None, {}, loop.body, span=loop.span))
        return loops, values

    def _number(self, fragments: Buffer, at: Sequence[Expr]) -> Expr:
        """The number of the fragment that begins at an element: tiles are numbered by rows."""
        number: Expr = const(0)
        for axis, index in enumerate(at):
            tiled = axis >= len(at) - 2
            extent, index = fragments.shape[axis], build.cast("int32", index)
            extent = build.cast("int32", extent)
            if tiled:
                extent, index = build.floordiv(extent, _SIDE), build.floordiv(index, _SIDE)
            number = build.add(build.mul(number, extent), index)
        return self.analyzer.simplify(number)

    def _through_shared(self, op: Block, copy: Copy, row: For, column: For, axes: Sequence[Axis]) -> Stmt:
        """From an accumulator to global memory: strips of 16 rows are stored in shared memory, which a warp copies."""
        lanes, warps = self._warps(op, axes)
        number, count = linear(warps)
        out_of, into = copy.load.buffer, copy.store.buffer
        stage = Buffer(
            f"{out_of.name}_shared", (const(count), const(_SIDE), column.extent), out_of.dtype, scope="shared.dyn"
        )
        outer = [loop for loop in copy.loops if loop is not row and loop is not column]
        assert isinstance(row.extent, IntImm)
        strip = copy_var(row.loop_var, f"{row.loop_var.name}_tile")
        strips = const(row.extent.value // _SIDE, strip.dtype)
        zero = const(0, strip.dtype)
        self.analyzer.bind(strip, Range(zero, strips))
        first = build.add(row.min, build.mul(strip, _SIDE))
        within = copy_var(row.loop_var)
        down = For(within, zero, const(_SIDE, within.dtype), ForKind.SERIAL, None, {}, row.body)
        across = column.with_(loop_var=copy_var(column.loop_var))
        values = {row.loop_var: build.add(first, within), column.loop_var: across.loop_var}
        here = (number, within, build.sub(across.loop_var, across.min))
        load = BufferLoad(out_of, tuple(substitute(i, values) for i in copy.load.indices))
        store = BufferStore(stage, load, here, span=op.span)
        filled = self._transfers(
            op, Copy([down, across], [], store, load), (down, across), out_of, load.indices, stage, here
        )
        staged = BufferLoad(stage, here)
        value = substitute(copy.with_source(staged), values)
        target = BufferStore(into, value, tuple(substitute(i, values) for i in copy.store.indices), span=op.span)
        source = next(load for load in each(BufferLoad, value) if load.buffer is stage)
        written = self.share(op, Copy([down, across], [], target, source), lanes)
        body: Stmt = Seq((filled, written))
        if not is_const_int(strips, 1):
            body = For(strip, zero, strips, ForKind.SERIAL, None, {}, body, span=row.span)
        else:
            body = substitute(body, {strip: zero})
        return Seq((AllocBuffer(stage), nest(outer, body)))

    def _warps(self, op: Block, axes: Sequence[Axis]) -> tuple[list[Axis], list[Axis]]:
        """The axes within a warp, and those that count warps."""
        lanes = [axis for axis in axes if axis.stride < _WARP]
        if linear(lanes)[1] != _WARP:
            self._no_warps(op, linear(axes)[1])
        return lanes, [axis for axis in axes if axis.stride >= _WARP]

    def _no_warps(self, op: Block, threads: int) -> NoReturn:
        refuse(op, f"its {threads} threads are no whole warps along their axes", "let threadIdx.x have 32 threads")
