"""Products of a warpgroup (``wgmma``): four warps together, A and B in shared memory, the sums in registers.

A is 64 x k and B, transposed, n x k: each row of ``swizzle`` bytes, in the places to which a tile load with that
swizzle brings them; the offset names the first element of the k elements of each row that one product takes. With
``trans`` the rows run along k instead, which has to fit the span of the swizzle the other way. The products of a
warpgroup go on by themselves, one after another: shared memory is read and the registers are written between the issue
and the wait for their group.
"""

from __future__ import annotations

import re

import numpy as np

from tirlower.diagnostics import InterpreterError
from tirlower.interp.asynchronous import Work, groups_of, start
from tirlower.interp.expressions import ExpressionCompiler, intrinsic
from tirlower.interp.intrinsics_async import group_calls
from tirlower.interp.intrinsics_bulk import swizzled
from tirlower.interp.intrinsics_mma import Matrix, exact_product, matrix_values
from tirlower.interp.mma_layouts import PTX_TYPES, Indices, wgmma_accumulator
from tirlower.interp.operands import Operand, Run, constant_int, constant_text
from tirlower.interp.scope import Frame, Place, Value
from tirlower.interp.threads import together
from tirlower.ir.custom_datatype import element_numpy
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Call, IntImm

__all__: list[str] = []

_PRODUCTS = "wgmma"
_FENCED = "wgmma fence"
_THREADS = 128
_ROWS = 64
_BYTES_OF_K = 32
_SUMS = {
    "float16": ("float32", "float16"), "bfloat16": ("float32",), "float32": ("float32",),
    "float8_e4m3fn": ("float32", "float16"), "float8_e5m2": ("float32", "float16"),
    "int8": ("int32",), "uint8": ("int32",),
}  # fmt: skip
"""The types of sums that products of a type have."""


class _Tile:
    """An operand in shared memory: ``rows`` x ``k`` elements."""

    def __init__(
        self, compiler: ExpressionCompiler, call: Call, position: int, name: str, rows: int, k: int, swizzle: int,
        trans: bool,
    ) -> None:  # fmt: skip
        self.operand = Operand(compiler, call, position)
        self.name, self.kind = name, PTX_TYPES[name]
        self.size = element_numpy(DataType(self.kind)).itemsize
        if trans and (self.size != 2 or rows * self.size > swizzle):
            raise InterpreterError(
                f"a transposed operand has 16-bit elements and its {rows} columns in one span of the swizzle, "
                f"{swizzle} bytes",
                origin="interpret",
                span=call.span,
                help="give the operand with its rows along k, or use smaller products",
            )
        row, step = np.arange(rows, dtype=np.int64)[:, None], np.arange(k, dtype=np.int64)[None, :]
        self.offsets = swizzle * step + self.size * row if trans else swizzle * row + self.size * step
        self.swizzle = swizzle

    def run(self, frame: Frame) -> tuple[Run, Indices]:
        """The bytes of memory that hold the tile, and the first byte of each element in them."""
        first = self.operand.pointer(frame)
        places = swizzled(first.offset + self.offsets, self.swizzle)
        low, high = int(places.min()), int(places.max()) + self.size
        return Run(
            first + (low - first.offset), high - low, frame, self.operand.place, self.operand.detector
        ), places - low

    def read(self, run: Run, places: Indices) -> Matrix:
        """The elements, as float64 or int64."""
        parts = run.read("uint8", known=False)[places[..., None] + np.arange(self.size)]
        flags = run.known()
        if flags is not None:
            known = np.frombuffer(bytes(flags), np.uint8)[places]
            if not known.all():
                at = int(places[known == 0].min())
                # A read of that element, for its message.
                Run(run.pointer + at, self.size, run.frame, run.place).read("uint8")
        return matrix_values(np.ascontiguousarray(parts).view(element_numpy(DataType(self.kind)))[..., 0], self.name)


def _shape(call: Call, result: DataType, names: tuple[str, str]) -> tuple[int, int]:
    """The n and k of a call. Raises InterpreterError where there is no such product."""
    text = constant_text(call, 0, "the shape")
    found = re.fullmatch(r"m64n(\d+)k(\d+)", text)
    kinds = [PTX_TYPES.get(name, "") for name in names]
    if "tf32" not in names and "float32" in kinds:
        kinds = [""]  # no product takes all of a float32's bits
    if found is not None and all(kind in _SUMS for kind in kinds):
        n, k = int(found[1]), int(found[2])
        size = element_numpy(DataType(kinds[0])).itemsize
        alike = kinds[0] == kinds[1] or (size == 1 and all(kind.startswith("float8") for kind in kinds))
        alike = alike or (size == 1 and not any(kind.startswith("float8") for kind in kinds))
        alike = alike and n % (16 if kinds[0] in ("int8", "uint8") and n > 32 else 8) == 0
        if alike and 8 <= n <= 256 and k * size == _BYTES_OF_K and str(result) in _SUMS[kinds[0]]:
            return n, k
    raise InterpreterError(
        f"there is no product {text} of {names[0]} and {names[1]} with sums of {result!s}",
        origin="interpret",
        span=call.span,
        help="m is 64, n a multiple of 8 (16 above 32 for integers) up to 256, k 32 bytes: 16 of fp16 and bf16, 8 of tf32, 32 of 8 bits",
    )


@intrinsic("tir.ptx_wgmma", own_arguments=True)
def _wgmma(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(shape, A type, B type, sums, at, A, at, B, at, swizzle, add D, A transposed, B transposed)."""
    names = (constant_text(call, 1, "the type of A"), constant_text(call, 2, "the type of B"))
    n, k = _shape(call, call.dtype, names)
    swizzle = constant_int(call, 9, "the swizzle")
    if swizzle not in (32, 64, 128):
        raise InterpreterError(
            f"ptx_wgmma takes operands with a swizzle of 32, 64 or 128 bytes, got {swizzle}",
            origin="interpret",
            span=call.span,
        )
    trans = [_flag(call, position) for position in (11, 12)]
    sums = Operand(compiler, call, 3)
    a = _Tile(compiler, call, 5, names[0], _ROWS, k, swizzle, trans[0])
    b = _Tile(compiler, call, 7, names[1], n, k, swizzle, trans[1])
    scale, layout, program = compiler.expression(call.args[10]), wgmma_accumulator(n), compiler.program
    kind, place = element_numpy(call.dtype), compiler.place(call.span)

    def work(frames: list[Frame]) -> None:
        first = frames[0]
        _fenced(frames, place)
        left, right = a.run(first), b.run(first)
        _uniform(a.operand, b.operand, frames, place)
        adds = bool(scale(first))
        held = [sums.run(frame, n // 2 * kind.itemsize) for frame in frames]
        agent = None
        if program.detector is not None:
            agent = program.detector.issue(first, _PRODUCTS, "a product of a warpgroup", engine=True)
            left[0].touch_by_engine(agent)
            right[0].touch_by_engine(agent)
        left, right = (left[0].unwatched(), left[1]), (right[0].unwatched(), right[1])

        def product() -> None:
            matrices = a.read(*left), b.read(*right)
            total = np.zeros((_ROWS, n), matrices[0].dtype)
            if adds:
                total[layout.rows, layout.columns] = np.stack([run.read(call.dtype) for run in held])
            made = exact_product(matrices[0], matrices[1].T, total, call.dtype)[layout.rows, layout.columns]
            for run, own in zip(held, made, strict=True):
                run.write(own)

        earlier = groups_of(first, _PRODUCTS).under_way()
        made = Work(product, agent, follows=earlier)
        for frame in frames:
            groups_of(frame, _PRODUCTS).add(made)
        start(first, made, program.interleaver.seed)

    return together(compiler, call, work, _THREADS)


def _flag(call: Call, position: int) -> bool:
    arg = call.args[position]
    if not isinstance(arg, IntImm):
        raise InterpreterError(f"whether an operand is transposed is a constant, got {arg}", span=call.span)
    return bool(arg.value)


def _fenced(frames: list[Frame], place: Place) -> None:
    """Raise InterpreterError where a thread has executed no fence before its first product."""
    for frame in frames:
        if _FENCED not in frame[0].own:
            raise InterpreterError(
                "a product of a warpgroup, with no ptx_wgmma_fence before it: the registers that its threads have "
                "written may not be seen",
                origin="interpret",
                span=place.span,
                notes=place.notes(frame),
                help="call ptx_wgmma_fence() in front of the first product, and behind every write of its registers",
            )


def _uniform(a: Operand, b: Operand, frames: list[Frame], place: Place) -> None:
    """Raise InterpreterError where threads of a warpgroup name different operands."""
    for operand in (a, b):
        if len({operand.pointer(frame).offset for frame in frames}) > 1:
            raise InterpreterError(
                "the threads of a warpgroup name different operands of ptx_wgmma",
                origin="interpret",
                span=place.span,
                notes=place.notes(frames[0]),
                help="let the offsets of A and B depend on no thread of the warpgroup",
            )


@intrinsic("tir.ptx_wgmma_fence")
def _fence(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """Registers written by the threads are seen by the products that follow."""

    def run(frame: Frame) -> int:
        frame[0].own[_FENCED] = True
        return 0

    return run


group_calls(_PRODUCTS, "tir.ptx_wgmma_commit_group", "tir.ptx_wgmma_wait_group")
