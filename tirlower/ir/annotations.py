"""Annotations of loops, and attributes of functions, that several parts agree on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import overload

from tirlower.diagnostics import TirError
from tirlower.ir.expr import IntImm

__all__ = [
    "ASYNC_COMMIT",
    "ASYNC_SCOPE",
    "ASYNC_WAIT",
    "ASYNC_WAIT_COUNT",
    "BUFFER_DIM_ALIGN",
    "ELSEWHERE",
    "EXPLICIT_READ",
    "EXPLICIT_WRITE",
    "IN_PLACE",
    "LINKED",
    "MIN_BLOCKS",
    "NOALIAS",
    "NONTEMPORAL",
    "NO_UNROLL",
    "REDUCTION",
    "STRIDES_APART",
    "TILE_PRODUCT",
    "UNCHECKED",
    "UNIT",
    "entries_of",
    "mapping_of",
    "number_of",
    "numbers_of",
]

ASYNC_SCOPE = "async_scope"
"""Around statements whose copies may go on by themselves."""

ASYNC_COMMIT = "async_commit_queue_scope"
"""Around statements that are one group of copies; the value is the queue."""

ASYNC_WAIT, ASYNC_WAIT_COUNT = "async_wait_queue_scope", "async_wait_inflight_count"
"""Around each other, the second inside: before their body, all but so many of a queue's groups are done."""

ELSEWHERE = "tir.defined_elsewhere"
"""On a function that another object defines: its body only says what it writes and returns. The value says how deep its calls
nest, itself counted."""

BUFFER_DIM_ALIGN = "buffer_dim_align"
"""On a block: tuples (index of the written buffer, axis, factor, offset) that pad strides."""

EXPLICIT_READ, EXPLICIT_WRITE = "explicit_read_region", "explicit_write_region"
"""On a block: the places among its declared reads, and writes, of the regions that stay as they are."""

LINKED = "tir.called_from_elsewhere"
"""On a function that other objects call: where it has no symbol it gets one, and its arrays are not checked at each call."""

MIN_BLOCKS = "tir.min_blocks_per_sm"
"""On a function: how many blocks of its kernels a multiprocessor must be able to hold, which limits their registers."""

NOALIAS = "tir.noalias"
"""On a function: whether its parameter buffers share no memory where one of them is written.

True is a promise, which calls are checked against. Without it a build makes two versions, and a call runs the one that
its arrays fit: in the first the attribute is True, in the second False.
"""

IN_PLACE = "tir.in_place"
"""On a function that says ``tir.noalias``: pairs of parameters, by position, that may be one array all the same where the function works
in place on them. A schedule leaves open those on which the program that it began with does."""

NONTEMPORAL = "tir.nontemporal"
"""On a loop, when true: what it stores to arrays of the caller, and does not read, goes to memory past the caches where the
processor can do that; on a region, once the loop may have become something else."""

NO_UNROLL = "tir.no_unroll"
"""On a loop, when true: the machine code does one iteration at a time, as the loop says."""

REDUCTION = "tir.reduction"
"""On a parallel or vectorized loop, when true: the reductions that it carries are computed with partial results.

The loop means what the serial loop computes, up to the rounding of float sums and products in another order. On a serial
loop it is the permission for that alone: LLVM makes lanes of the sums and products that the loop carries, as it sees fit.
"""

UNCHECKED = "tir.unchecked"
"""On a loop whose kind is taken on the user's word; the value is the reason, for the report."""

STRIDES_APART = "tir.strides_apart"
"""On a function, when true: its loops run in another order than they were written in, which was proved of subscripts. Of arrays
whose strides come with the call, it is checked that no two subscripts name one element."""

SUMS_APART = "tir.sums_apart"
"""On a function: whether the sums of its updates stay apart from their products, all (True) or none (False), or those that go to
some memory, by its name (``{"A": False, "x": True}``). Without it, and of other memory, FuseMultiplyAdd decides by the nests that
they are in, which a function whose loops were changed may have no more."""

TILE_PRODUCT = "tir.tile_product"
"""On a loop, when true: with the loops in it, it is a product of two small matrices that is added to a third one, of a size that
tile registers hold. A processor without them runs the loops."""

UNIT = "tir.compiled_alone"
"""On a private function, when true: its machine code is made and kept apart from its callers', unless it is brief."""


@overload
def number_of(annotations: Mapping[str, object], key: str) -> int | None: ...
@overload
def number_of(annotations: Mapping[str, object], key: str, default: int) -> int: ...
def number_of(annotations: Mapping[str, object], key: str, default: int | None = None) -> int | None:
    """The number that an annotation states; the default where there is none."""
    value = annotations.get(key, default)
    if value is None or isinstance(value, (int, float, str)):
        return default if value is None else int(value)
    raise TirError(f"the annotation {key!r} is a number, got {value!r}")


def numbers_of(annotations: Mapping[str, object], key: str) -> list[list[int]]:
    """The rows of numbers that an annotation states; none where there is no such annotation."""
    rows = annotations.get(key, ())
    if not isinstance(rows, tuple):
        raise TirError(f"the annotation {key!r} is a list of lists of numbers, got {rows!r}")
    return [[int(x.value if isinstance(x, IntImm) else x) for x in row] for row in rows]


def entries_of(attributes: Mapping[str, object], key: str) -> tuple[object, ...]:
    """What an attribute lists, a single string alone too; nothing where there is no such attribute."""
    found = attributes.get(key, ())
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def mapping_of(attributes: Mapping[str, object], key: str) -> Mapping[str, object]:
    """The mapping that an attribute is; an empty one where there is no such attribute."""
    found = attributes.get(key)
    return found if isinstance(found, Mapping) else {}
