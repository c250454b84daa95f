"""By how much rows of shared memory should be longer, so that the threads of a warp meet in fewer banks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.binding import names_in
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, Visitor, substitute
from tirlower.ir.op import Op
from tirlower.ir.stmt import AllocBuffer, Block, DeclBuffer, For
from tirlower.rewrite.auto_copy.form import ORIGIN, PADDING, Axis

__all__ = ["Conflicts", "padded"]

_WARP = 32
_BANKS = 32
_WORD = 4
"""The bytes of a bank; a warp reads one word of each at a time, words of 8 and 16 bytes in halves and quarters."""
_CHUNK = 16
"""The bytes of a row of a tile that one lane loads."""
_SIDE = 16
"""The rows of a tile."""
_PERMUTED = "permuted_layout"


class Conflicts:
    """The accesses of copies to shared memory, by thread, and the padding for which they take the fewest turns."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()  # it folds constants alone, and all that it decides is how long a row is
        self.accesses: dict[Buffer, list[tuple[list[tuple[int, ...]], int]]] = {}
        self.kept: set[Buffer] = set()
        self.given: dict[Buffer, int] = {}
        self.aligned: dict[Buffer, int] = {}

    def keep(self, buffer: Buffer) -> None:
        """Its rows follow each other without a gap for some copy."""
        self.kept.add(buffer)

    def align(self, buffer: Buffer, size: int) -> None:
        """Its rows begin at multiples of so many bytes."""
        self.aligned[buffer] = math.lcm(self.aligned.get(buffer, 1), size)

    def note(self, buffer: Buffer, indices: Sequence[Expr], lanes: int, axes: Sequence[Axis]) -> None:
        """An access: the first element of each of the first threads, the other variables being 0."""
        if not buffer.scope.startswith("shared") or buffer.dtype.bits % 8:
            return
        size = buffer.dtype.bits // 8 * buffer.dtype.lanes * lanes
        self.align(buffer, size)
        others: dict[Var, Expr] = {
            var: const(0, var.dtype) for index in indices for var in names_in(index) if isinstance(var, Var)
        }
        threads: list[tuple[int, ...]] = []
        for number in range(min(_WARP, math.prod(axis.extent for axis in axes))):
            rest, values = number, dict(others)
            for axis in reversed(axes):
                values[axis.loop.loop_var] = build.add(axis.loop.min, rest % axis.extent)
                rest //= axis.extent
            place = [self.analyzer.simplify(substitute(index, values)) for index in indices]
            known = [part.value for part in place if isinstance(part, IntImm)]
            if len(known) < len(place):
                return
            threads.append(tuple(known))
        self.accesses.setdefault(buffer, []).append((threads, size))

    def note_tile(
        self, buffer: Buffer, indices: Sequence[Expr], first: Mapping[Var, Expr], along: tuple[For, For]
    ) -> None:
        """A tile of 16 by 16 elements that a warp loads: a lane reads a chunk of 16 bytes of a row, neighbouring lanes
        those of neighbouring rows. ``along`` are the loops along a row and from row to row."""
        if not buffer.scope.startswith("shared") or buffer.dtype.bits % 8 or buffer.dtype.bits > 128:
            return
        chunk = _CHUNK // (buffer.dtype.bits // 8)
        column, row = (loop.loop_var for loop in along)
        places: list[tuple[int, ...]] = []
        for number in range(_WARP):
            values = dict(first)
            values[row] = build.add(first[row], number % _SIDE)
            values[column] = build.add(first[column], number // _SIDE * chunk)
            place = [substitute(index, values) for index in indices]
            others: dict[Var, Expr] = {
                var: const(0, var.dtype) for index in place for var in names_in(index) if isinstance(var, Var)
            }
            known = [self.analyzer.simplify(substitute(index, others)) for index in place]
            if not all(isinstance(part, IntImm) for part in known):
                return
            places.append(tuple(part.value for part in known if isinstance(part, IntImm)))
        self.accesses.setdefault(buffer, []).append((places, _CHUNK))

    def turns(self, buffer: Buffer, padding: int) -> int:
        """How often a warp must access its banks for all accesses noted."""
        shape = [extent.value if isinstance(extent, IntImm) else 1 for extent in buffer.shape]
        shape[-1] += padding
        element = buffer.dtype.bits // 8 * buffer.dtype.lanes
        total = 0
        for threads, size in self.accesses.get(buffer, ()):
            together = max(_WARP * _WORD // max(size, _WORD), 1)
            for start in range(0, len(threads), together):
                words: dict[int, set[int]] = {}
                for place in threads[start : start + together]:
                    offset = 0
                    for part, extent in zip(place, shape, strict=True):
                        offset = offset * extent + part
                    for byte in range(0, max(size, _WORD), _WORD):
                        word = (offset * element + byte) // _WORD
                        words.setdefault(word % _BANKS, set()).add(word)
                total += max(len(found) for found in words.values())
        return total

    def choose(self, func: PrimFunc) -> dict[Buffer, int]:
        """The elements by which rows become longer, for the buffers that gain by it or whose blocks ask for it."""
        rows = _Rows()
        rows.visit(func.body)
        found: dict[Buffer, int] = {}
        for buffer, padding in self.given.items():
            why = rows.why_not(buffer)
            if padding and why:
                raise TransformError(
                    f"the buffer {buffer.name!r} cannot be padded by {padding} elements: {why}",
                    origin=ORIGIN,
                    help=f"take {PADDING!r} off the block, or allocate longer rows",
                )
            found[buffer] = padding
        for buffer in self.accesses:
            if buffer in found or buffer in self.kept or rows.why_not(buffer):
                continue
            size = buffer.shape[-1]
            assert isinstance(size, IntImm)
            element = buffer.dtype.bits // 8 * buffer.dtype.lanes
            step = max(math.lcm(self.aligned.get(buffer, 1), element) // element, 1)
            # As TIR: a quarter of a row at most.
            choices = range(0, size.value // 4 + 1, step)
            found[buffer] = min(choices, key=lambda padding, b=buffer: (self.turns(b, padding), padding))  # type: ignore[misc]
        return {buffer: padding for buffer, padding in found.items() if padding}


class _Rows(Visitor):
    """Which shared buffers are allocated, and which of them are used other than by their indices."""

    def __init__(self) -> None:
        self.allocated: set[Buffer] = set()
        self.pointers: set[Var] = set()
        self.permuted: set[Var] = set()
        self._marks = 0

    def why_not(self, buffer: Buffer) -> str | None:
        """Why the rows of a buffer cannot become longer, or None."""
        if buffer not in self.allocated:
            return "it is not allocated in the kernel"
        if len(buffer.shape) < 2 or buffer.strides or not isinstance(buffer.shape[-1], IntImm):
            return "it has no rows of a constant length"
        if not is_const_int(buffer.elem_offset, 0) or buffer.axis_separators:
            return "it has an offset or axis separators"
        if buffer.data in self.pointers:
            return "it is used through a pointer or a view"
        return "its layout is permuted" if buffer.data in self.permuted else None

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self.allocated.add(op.buffer)
        self.generic(op)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        self.pointers.add(op.buffer.data)

    def visit_Block(self, op: Block) -> None:
        for match in op.match_buffers:
            self.pointers.add(match.source.buffer.data)
        marked = bool(op.annotations.get(_PERMUTED))
        self._marks += marked
        self.generic(op)
        self._marks -= marked

    def visit_buffer(self, buffer: Buffer) -> None:
        if self._marks:
            self.permuted.add(buffer.data)

    def visit_Var(self, op: Var) -> None:
        if op.dtype.is_handle:
            self.pointers.add(op)

    def visit_Call(self, op: Call) -> None:
        if op.op is Op.get("tir.address_of") and isinstance(op.args[0], BufferLoad):
            self.pointers.add(op.args[0].buffer.data)


class _Padder(Mutator):
    def __init__(self, buffers: Mapping[Buffer, Buffer]) -> None:
        self.buffers = buffers

    def map_buffer(self, buffer: Buffer) -> Buffer:
        return self.buffers.get(buffer, buffer)


def padded(func: PrimFunc, padding: Mapping[Buffer, int]) -> PrimFunc:
    """A function whose buffers have longer rows."""
    made = {}
    for buffer, more in padding.items():
        last = buffer.shape[-1]
        made[buffer] = buffer.with_(shape=(*buffer.shape[:-1], build.add(last, const(more, last.dtype))))
    return func.with_body(_Padder(made).visit(func.body))
