"""Blocks marked as copies: their annotations, their nest of loops around one store, and what is known of its order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from tirlower.analysis.purity import side_effect
from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.binding import names_in
from tirlower.ir.expr import BufferLoad, Cast, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.functor import Mutator, substitute
from tirlower.ir.op import Purity
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, BufferStore, For, ForKind, IfThenElse, Stmt

__all__ = [
    "AUTO_COPY",
    "LOCAL_STAGE",
    "ORIGIN",
    "PADDING",
    "VECTOR_BYTES",
    "WARP_EXECUTION",
    "Axis",
    "Copy",
    "Order",
    "annotated_number",
    "conditional",
    "is_no",
    "linear",
    "refuse",
    "taken_apart",
]

ORIGIN = "tir.LowerAutoCopy"
AUTO_COPY = "auto_copy"
"""Block annotation: 1 for a copy to be lowered here."""
VECTOR_BYTES = "vector_bytes"
"""Block annotation: the bytes that one vector of the copy has (default 1: no vectors)."""
LOCAL_STAGE = "local_stage"
"""Block annotation: pass the data through registers first, which a CPU's copy does anyway."""
WARP_EXECUTION = "warp_execution"
"""Block annotation: the block is done by a warp, so that copies without a loop over threadIdx.x have one of 32 lanes."""
PADDING = "padding"
"""Block annotation: elements by which rows of the block's shared memory are longer; by default found by counting."""


@dataclass(eq=False)
class Copy:
    """A nest of loops around one store of a load, under conditions or not."""

    loops: list[For]
    conditions: list[Expr]
    store: BufferStore
    load: BufferLoad

    def operands(self) -> list[BufferLoad]:
        """What else its value reads, element by element."""
        return [load for load in each(BufferLoad, self.store.value) if load is not self.load]

    def with_source(self, source: BufferLoad) -> Expr:
        """The value with another element in the place of the one that is copied."""
        found: Expr = _Source(self.load, source).visit_expr(self.store.value)
        return found

    def variables(self) -> set[Var]:
        """The variables that a copy mentions, its own loops' included."""
        parts: list[Expr] = [*self.conditions, *self.store.indices, self.store.value]
        parts += [part for loop in self.loops for part in (loop.min, loop.extent)]
        return {var for part in parts for var in names_in(part) if isinstance(var, Var)}


class _Source(Mutator):
    """Another element in the place of one."""

    def __init__(self, old: BufferLoad, new: BufferLoad) -> None:
        self.old, self.new = old, new

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        return self.new if op is self.old else op


@dataclass(frozen=True)
class Axis:
    """A loop over threads around a copy, its constant extent, and by how much its next thread's number is higher."""

    loop: For
    extent: int
    stride: int

    @property
    def index(self) -> Expr:
        """The number of a thread along the axis."""
        return build.sub(self.loop.loop_var, self.loop.min)


def linear(axes: Sequence[Axis]) -> tuple[Expr, int]:
    """The number of a thread along some axes, the fastest last, and how many threads there are."""
    number: Expr = const(0)
    count = 1
    for axis in axes:
        number = build.add(build.mul(number, axis.extent), build.cast("int32", axis.index))
        count *= axis.extent
    return number, count


class Order:
    """What an analyzer proves about the order of a copy's elements."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def moved(self, var: Var, index: Expr) -> Expr:
        """By how much an index moves with a variable."""
        later = substitute(index, {var: build.add(var, const(1, var.dtype))})
        return self.analyzer.simplify(build.sub(later, index))

    def unit(self, var: Var, indices: Sequence[Expr]) -> bool:
        """Whether a variable moves an access to the neighbouring element."""
        steps = [self.moved(var, index) for index in indices]
        return bool(steps) and is_const_int(steps[-1], 1) and all(is_const_int(step, 0) for step in steps[:-1])

    def axes(self, loops: Sequence[For], indices: Sequence[Expr]) -> list[int] | None:
        """The dimension that each loop moves along, by constant steps, each another one; None where it is not so."""
        found: list[int] = []
        for loop in loops:
            steps = [self.moved(loop.loop_var, index) for index in indices]
            along = [axis for axis, step in enumerate(steps) if not is_const_int(step, 0)]
            if len(along) != 1 or along[0] in found or not isinstance(steps[along[0]], IntImm):
                return None
            found.append(along[0])
        return found

    def independent(self, loops: Sequence[For]) -> bool:
        """Whether the bounds of no loop mention another one's variable."""
        variables = {loop.loop_var for loop in loops}
        parts = [part for loop in loops for part in (loop.min, loop.extent)]
        return not any(var in variables for part in parts for var in names_in(part))


def is_no(value: object) -> bool:
    """Whether an annotation says no."""
    return getattr(value, "value", value) in (0, False)


def annotated_number(op: Block, key: str, default: int, least: int, help: str) -> int:
    """A number that a block is annotated with. Raises TransformError for anything else, or one below the least."""
    value = op.annotations.get(key, default)
    value = getattr(value, "value", value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        what = "a positive number" if least else "a number, not negative"
        refuse(op, f"{key} is {what}, got {value!r}", help)
    return value


def taken_apart(op: Block) -> Copy:
    """The parts of a copy. Raises TransformError for a block that is none."""
    loops: list[For] = []
    conditions: list[Expr] = []
    body: Stmt = op.body
    while True:
        if isinstance(body, For) and body.kind is not ForKind.THREAD_BINDING and not conditions:
            loops.append(body)
            body = body.body
        elif isinstance(body, IfThenElse) and body.else_case is None:
            conditions.append(body.condition)
            body = body.then_case
        elif isinstance(body, Block) and not body.iters and body.init is None and not body.match_buffers:
            if not is_const_int(body.predicate, 1):
                conditions.append(body.predicate)
            body = body.body
        else:
            break
    if not isinstance(body, BufferStore):
        refuse(
            op, f"its body is no nest of loops around one store, but a {type(body).__name__}", "mark plain copies only"
        )
    load = _source(op, body)
    if any(other.buffer.data is body.buffer.data for other in each(BufferLoad, body.value)):
        refuse(op, f"it copies within the buffer {body.buffer.name!r}", "copy from another buffer")
    return Copy(loops, conditions, body, load)


def _source(op: Block, store: BufferStore) -> BufferLoad:
    """The element that a store copies: the one that it stores, or the one of the first region that the block reads, where
    the value is computed from that and others, element by element."""
    value = store.value.value if isinstance(store.value, Cast) else store.value
    if isinstance(value, BufferLoad):
        return value
    first = op.reads[0].buffer
    found = [load for load in each(BufferLoad, value) if load.buffer is first]
    if len(found) != 1 or side_effect(value) > Purity.READS:
        refuse(
            op,
            f"it stores {store.value}, which is not computed from one element of {first.name!r}",
            "mark copies only, with elementwise operands at most",
        )
    return found[0]


def conditional(copy: Copy) -> Stmt:
    """The store under its conditions."""
    body: Stmt = copy.store
    for condition in reversed(copy.conditions):
        body = IfThenElse(condition, body)
    return body


def refuse(op: Block, why: str, help: str) -> NoReturn:
    """Raise TransformError for a marked block."""
    raise TransformError(
        f"the block {op.name!r} cannot be lowered as a copy: {why}", origin=ORIGIN, span=op.span, help=help
    )
