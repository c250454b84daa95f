"""Bulk copies by the copy engine: runs of bytes, and tiles of tensors (TMA) with bounds and swizzle.

A copy into shared memory counts its bytes at a barrier object when it is done; a copy to global memory belongs to a
group of its thread. A tile is a box of a tensor: elements outside of the tensor are zeros when loaded, and are not
stored. In shared memory a box lies row-major, and its 16-byte chunks change places within each span of the swizzle
(:func:`swizzled`), so that a column of chunks meets all banks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from tirlower.diagnostics import InterpreterError
from tirlower.interp.asynchronous import Work, barrier_of, groups_of, start
from tirlower.interp.expressions import ExpressionCompiler, intrinsic
from tirlower.interp.intrinsics_async import barrier_key, group_calls
from tirlower.interp.mma_layouts import Indices
from tirlower.interp.operands import Operand, Run, constant_int
from tirlower.interp.scope import Frame, Place, Value
from tirlower.interp.values import Fault
from tirlower.ir.custom_datatype import element_numpy
from tirlower.ir.expr import Call

if TYPE_CHECKING:
    from tirlower.interp.interpreter import Program

__all__ = ["SWIZZLES", "swizzled"]

Address = TypeVar("Address", int, Indices)
SWIZZLES = (0, 32, 64, 128)
"""Bytes within which the chunks of a row change places; 0 for none."""

_STORES = "bulk"
_MAX_BOX = 256
_MAX_RANK = 5


def swizzled(address: Address, span: int) -> Address:
    """The byte of shared memory at which a byte of an unswizzled tile lies: an int, or an array of them.

    The number of the 16-byte chunk in its span changes by the number of the 128-byte line, as far as it fits.

    >>> [swizzled(16 * chunk, 128) // 16 for chunk in (8, 9, 10, 16, 17)]
    [9, 8, 11, 18, 19]
    """
    if span == 0:
        return address
    chunks = span // 16
    return address ^ (address // 128 % chunks * 16)


class _Tile(NamedTuple):
    """A box of a tensor in global memory, for one thread."""

    coordinates: tuple[int, ...]
    box: tuple[int, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]

    def rows(self) -> Iterator[tuple[int, int, int, int]]:
        """For each row that has elements inside: its first element in the box, there, in the tensor; and how many."""
        *outer, width = self.box
        low = max(0, -self.coordinates[-1])
        high = min(width, self.extents[-1] - self.coordinates[-1])
        if high <= low:
            return
        for number, row in enumerate(np.ndindex(*outer)):
            at = [c + i for c, i in zip(self.coordinates, row, strict=False)]
            if all(0 <= i < extent for i, extent in zip(at, self.extents, strict=False)):
                first = sum(i * stride for i, stride in zip(at, self.strides, strict=True))
                yield number * width + low, first + self.coordinates[-1] + low, high - low, number


class _TileCall:
    """The compiled tile operands of a call."""

    def __init__(self, compiler: ExpressionCompiler, call: Call, first: int) -> None:
        self.name = str(call.op.name).removeprefix("tir.")
        self.swizzle = constant_int(call, first, "the swizzle")
        self.rank = constant_int(call, first + 1 if "store" in self.name else first + 2, "the rank")
        start = first + 2 if "store" in self.name else first + 3
        rank = self.rank
        if self.swizzle not in SWIZZLES or not 1 <= rank <= _MAX_RANK or len(call.args) != start + 4 * rank - 1:
            raise InterpreterError(
                f"{self.name} takes a swizzle of 0, 32, 64 or 128 bytes, a rank of 1 to 5, and for it {4 * rank - 1} "
                f"coordinates, box extents, tensor extents and strides; got swizzle {self.swizzle}, rank {rank} and "
                f"{len(call.args) - start} of them",
                origin="interpret",
                span=call.span,
            )
        self.values = [compiler.expression(arg) for arg in call.args[start:]]
        self.kind = element_numpy(call.dtype)
        self.place = compiler.place(call.span)

    def refuse(self, message: str, frame: Frame, remedy: str) -> InterpreterError:
        return InterpreterError(
            f"{self.name}: {message}",
            origin="interpret",
            span=self.place.span,
            notes=self.place.notes(frame),
            help=remedy,
        )

    def tile(self, frame: Frame) -> _Tile:
        """The tile of a thread. Raises InterpreterError for what the copy engine does not take."""
        values = [int(value(frame)) for value in self.values]
        rank, size = self.rank, self.kind.itemsize
        parts = [tuple(values[i * rank : (i + 1) * rank]) for i in range(4)]
        made = _Tile(parts[0], parts[1], parts[2], parts[3])
        width = made.box[-1] * size
        if any(not 1 <= extent <= _MAX_BOX for extent in made.box):
            raise self.refuse(f"the box {made.box} is not of 1 to 256 elements each way", frame, "copy smaller boxes")
        if width % 16 or (self.swizzle and width > self.swizzle):
            limit = f" of at most the swizzle's {self.swizzle}" if self.swizzle else ""
            raise self.refuse(
                f"the innermost box extent is {width} bytes, not a multiple of 16{limit}",
                frame,
                "make the innermost box extent smaller, and copy several boxes",
            )
        if any(stride * size % 16 for stride in made.strides):
            raise self.refuse(
                f"the strides {made.strides} are not multiples of 16 bytes", frame, "pad the rows of the tensor"
            )
        return made

    def shared(self, operand: Operand, frame: Frame, tile: _Tile) -> tuple[Run, Indices]:
        """The bytes of shared memory that the box takes, and where in them each of its bytes lies."""
        size = int(np.prod(tile.box)) * self.kind.itemsize
        run = operand.aligned(frame, size, 128)
        offset = run.pointer.offset
        places = swizzled(offset + np.arange(size, dtype=np.int64), self.swizzle) - offset
        # Chunks stay within their span, which a box that is no multiple of it does not have to itself.
        if int(places.min()) < 0 or int(places.max()) >= size:
            raise self.refuse(
                f"the box at byte {offset} would reach outside its {size} bytes by the swizzle",
                frame,
                f"copy boxes of a multiple of {self.swizzle} bytes",
            )
        return run, places


@intrinsic("tir.ptx_cp_async_bulk", own_arguments=True)
def _bulk(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(shared memory, offset, global memory, offset, bytes, barrier): bytes in 16s, counted at the barrier."""
    target, source = Operand(compiler, call, 0), Operand(compiler, call, 2)
    size, number = (compiler.expression(call.args[position]) for position in (4, 5))
    place, program = compiler.place(call.span), compiler.program

    def run(frame: Frame) -> int:
        count = size(frame)
        if count <= 0 or count % 16:
            raise _not_in_16s(count, frame, place)
        into, out_of = target.aligned(frame, count, 16), source.aligned(frame, count, 16)
        arrives = _Arrival(program, frame, number(frame), count)
        into.touch(True, arrives.agent)
        out_of.touch(False, arrives.agent)
        into, out_of = into.unwatched(), out_of.unwatched()
        arrives.start(lambda: into.copy_from(out_of), place)
        return 0

    return run


def _not_in_16s(count: int, frame: Frame, place: Place) -> InterpreterError:
    return InterpreterError(
        f"ptx_cp_async_bulk copies a multiple of 16 bytes, got {count}",
        origin="interpret",
        span=place.span,
        notes=place.notes(frame),
    )


class _Unfinished:
    """The bulk copies of a thread: the shared memory that they use is gone when its block ends."""

    def __init__(self, frame: Frame, place: Place) -> None:
        self._frame, self._place = frame, place
        self._work: list[tuple[Work, str]] = []

    def add(self, work: Work, remedy: str) -> None:
        self._work = [pair for pair in self._work if not pair[0].done]
        self._work.append((work, remedy))

    def close(self) -> None:
        """The thread has ended. Raises InterpreterError while a copy is under way."""
        for work, remedy in self._work:
            if not work.done:
                raise self._place.error(
                    Fault(f"a thread ends while a bulk copy of it is under way: {remedy}"), self._frame
                )


def _hold(frame: Frame, place: Place, work: Work, remedy: str) -> None:
    frame[0].own.setdefault("bulk copies", _Unfinished(frame, place)).add(work, remedy)


class _Arrival:
    """A copy whose bytes are counted at a barrier."""

    def __init__(self, program: Program, frame: Frame, number: int, count: int) -> None:
        self.program, self.frame, self.count = program, frame, count
        self.barrier = barrier_of(frame, number)
        self.agent = None
        if program.detector is not None:
            stream = ("barrier", id(self.barrier))
            self.agent = program.detector.issue(frame, stream, "a bulk copy", of_block=True, engine=True)
            program.detector.finish_into(barrier_key(self.barrier, self.barrier.phase), self.agent)

    def start(self, copy: Callable[[], None], place: Place) -> None:
        """Let the copy go on, then its bytes count."""
        barrier, count = self.barrier, self.count

        def work() -> None:
            copy()
            barrier.complete(count)

        made = Work(work, self.agent)
        _hold(self.frame, place, made, f"let a thread of the block wait for barrier {barrier.number}")
        barrier.work.append(made)
        start(self.frame, made, self.program.interleaver.seed)


@intrinsic("tir.ptx_cp_async_bulk_tensor", own_arguments=True)
def _load_tile(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(shared memory, offset, global memory, swizzle, barrier, rank, coordinates …, box …, extents …, strides …)."""
    target, source = Operand(compiler, call, 0), Operand(compiler, call, 2, None)
    number, tiles = compiler.expression(call.args[4]), _TileCall(compiler, call, 3)
    program = compiler.program

    def run(frame: Frame) -> int:
        tile = tiles.tile(frame)
        into, places = tiles.shared(target, frame, tile)
        arrives = _Arrival(program, frame, number(frame), into.size)
        into.touch(True, arrives.agent)
        rows = _runs(tiles, source, frame, tile)
        for row, _ in rows:
            row.touch(False, arrives.agent)
        rows = [(row.unwatched(), at) for row, at in rows]
        plain = into.unwatched()

        def copy() -> None:
            values, known = np.zeros(plain.size, np.uint8), np.ones(plain.size, np.uint8)
            for row, at in rows:
                values[at : at + row.size] = row.read("uint8", known=False)
                flags = row.known()
                if flags is not None:
                    known[at : at + row.size] = np.frombuffer(bytes(flags), np.uint8)
            moved, marks = np.empty_like(values), np.empty_like(known)
            moved[places], marks[places] = values, known
            plain.write(moved, marks.tobytes())

        arrives.start(copy, tiles.place)
        return 0

    return run


def _runs(tiles: _TileCall, memory: Operand, frame: Frame, tile: _Tile) -> list[tuple[Run, int]]:
    """The rows of a tile inside the tensor as runs of global memory, each with its first byte in the box."""
    base, size = memory.pointer(frame), tiles.kind.itemsize
    if base.offset % 16:
        raise tiles.refuse(f"the tensor begins at byte {base.offset} of its memory", frame, "align it to 16 bytes")
    return [
        (Run(base + first * size, count * size, frame, tiles.place, memory.detector), at * size)
        for at, first, count, _ in tile.rows()
    ]


@intrinsic("tir.ptx_cp_async_bulk_tensor_store", own_arguments=True)
def _store_tile(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(global memory, shared memory, offset, swizzle, rank, coordinates …, box …, extents …, strides …)."""
    target, source, tiles = Operand(compiler, call, 0, None), Operand(compiler, call, 1), _TileCall(compiler, call, 3)
    program = compiler.program

    def run(frame: Frame) -> int:
        tile = tiles.tile(frame)
        out_of, places = tiles.shared(source, frame, tile)
        agent = None
        if program.detector is not None:
            agent = program.detector.issue(frame, _STORES, "a bulk store", engine=True)
        out_of.touch_by_engine(agent)
        rows = _runs(tiles, target, frame, tile)
        for row, _ in rows:
            row.touch(True, agent)
        rows = [(row.unwatched(), at) for row, at in rows]
        plain = out_of.unwatched()

        def copy() -> None:
            values, flags = plain.read("uint8", known=False), plain.known()
            known = np.ones(plain.size, np.uint8) if flags is None else np.frombuffer(bytes(flags), np.uint8)
            for row, at in rows:
                here = places[at : at + row.size]
                row.write(values[here], known[here].tobytes())

        work = Work(copy, agent)
        groups_of(frame, _STORES).add(work)
        _hold(frame, tiles.place, work, "commit its group, and wait with ptx_bulk_wait_group(0)")
        start(frame, work, program.interleaver.seed)
        return 0

    return run


group_calls(_STORES, "tir.ptx_bulk_commit_group", "tir.ptx_bulk_wait_group")
