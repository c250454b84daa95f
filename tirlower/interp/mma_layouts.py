"""Which element of a matrix each register of a thread holds in a tensor-core product, as the PTX manual states it.

``mma`` spreads A (m x k), B (k x n) and C (m x n) over the 32 lanes of a warp. Lanes count in groups of four: with
``g = lane // 4`` and ``t = lane % 4``, a 32-bit register holds ``e`` neighbours along k (two of 16 bits, four of 8),

* A: register r holds row ``g + 8 * (r % 2)`` (of 16 rows; ``g`` of 8), columns ``4 * e * (r // 2) + e * t`` on,
* B: register r holds column ``g``, rows ``4 * e * r + e * t`` on,
* C: elements ``i`` stand in row ``g + 8 * (i // 2)``, column ``2 * t + i % 2``.

``wgmma`` gives each of four warps 16 rows of the product; each block of 8 columns is held as C above.
"""

from __future__ import annotations

import functools
from typing import NamedTuple, TypeAlias

import numpy as np

__all__ = ["PTX_TYPES", "Fragment", "MmaShape", "mma_shape", "wgmma_accumulator"]

Indices: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

PTX_TYPES = {
    "fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "fp32": "float32", "fp64": "float64",
    "int8": "int8", "uint8": "uint8", "int32": "int32", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "f16": "float16", "f32": "float32", "f64": "float64", "s8": "int8", "u8": "uint8", "s32": "int32",
    "float16": "float16", "bfloat16": "bfloat16", "float32": "float32", "float64": "float64",
    "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2", "e4m3_float8": "float8_e4m3fn",
    "e5m2_float8": "float8_e5m2",
}  # fmt: skip
"""The data type that a type name of an operation stands for; ``tf32`` is float32 with 13 bits ignored."""

_SHAPES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "m16n8k8": (("float16", "bfloat16", "tf32"), ("float16", "float32")),
    "m16n8k16": (("float16", "bfloat16", "int8", "uint8"), ("float16", "float32", "int32")),
    "m16n8k4": (("tf32",), ("float32",)),
    "m8n8k4": (("float64",), ("float64",)),
    "m16n8k32": (("int8", "uint8", "float8_e4m3fn", "float8_e5m2"), ("int32", "float32", "float16")),
    "m8n8k16": (("int8", "uint8"), ("int32",)),
}
"""The element types of A and B, and of C and D, that a shape has."""

_BITS = {"float64": 32, "tf32": 32, "float16": 16, "bfloat16": 16}  # of a register's element; float64 counts as one


class Fragment(NamedTuple):
    """Rows and columns of the elements that each lane holds, in order: arrays of 32 x (elements a lane)."""

    rows: Indices
    columns: Indices


class MmaShape(NamedTuple):
    """The extents of a product and its fragments."""

    m: int
    n: int
    k: int
    a: Fragment
    b: Fragment
    c: Fragment


def _fragment(lanes: Indices, count: int, per_register: int, rows: int) -> tuple[Indices, Indices]:
    """For the elements of a register file: the position across k (row of A, column of B) and along k."""
    index = np.arange(count, dtype=np.int64)
    register, inside = index // per_register, index % per_register
    group, thread = lanes[:, None] // 4, lanes[:, None] % 4
    across = group + 8 * (register % 2) * (rows == 16)
    block = register // 2 if rows == 16 else register
    along = 4 * per_register * block + per_register * thread + inside
    return np.broadcast_to(across, along.shape), along


@functools.cache
def mma_shape(shape: str, a_type: str, b_type: str, c_type: str) -> MmaShape | None:
    """The layout of a product by its PTX name and the names of its types; None where there is none.

    >>> made = mma_shape("m16n8k8", "fp16", "fp16", "fp32")
    >>> made.a.rows[5].tolist(), made.a.columns[5].tolist()
    ([1, 1, 9, 9], [2, 3, 2, 3])
    """
    known = _SHAPES.get(shape)
    names = [name if name == "tf32" else PTX_TYPES.get(name, "") for name in (a_type, b_type)]
    if known is None or any(name not in known[0] for name in names) or PTX_TYPES.get(c_type) not in known[1]:
        return None
    eights = [name in ("int8", "uint8") for name in names]
    floats8 = [name.startswith("float8") for name in names]
    mixes = all(eights) or all(floats8)
    integral = PTX_TYPES[c_type] == "int32"
    if (names[0] != names[1] and not mixes) or any(eights) != integral:
        return None
    if names[0] in ("bfloat16", "tf32") and PTX_TYPES[c_type] != "float32":
        return None
    m, n, k = (int(part) for part in shape[1:].replace("n", " ").replace("k", " ").split())
    per_register = 32 // _BITS.get(names[0], 8)
    lanes = np.arange(32, dtype=np.int64)
    rows, columns = _fragment(lanes, m * k // 32, per_register, m)
    b_columns, b_rows = _fragment(lanes, k * n // 32, per_register, 8)
    return MmaShape(m, n, k, Fragment(rows, columns), Fragment(b_rows, b_columns), _accumulator(lanes, m * n // 32))


def _accumulator(lanes: Indices, count: int) -> Fragment:
    index = np.arange(count, dtype=np.int64)
    rows = lanes[:, None] // 4 + 8 * (index // 2 % 2)
    columns = 8 * (index // 4) + 2 * (lanes[:, None] % 4) + index % 2
    return Fragment(rows, np.broadcast_to(columns, rows.shape))


@functools.cache
def wgmma_accumulator(n: int) -> Fragment:
    """Where the ``n / 2`` accumulators of each of 128 threads stand in the 64 x n product.

    >>> made = wgmma_accumulator(8)
    >>> made.rows[37].tolist(), made.columns[37].tolist()
    ([17, 17, 25, 25], [2, 3, 2, 3])
    """
    lanes = np.arange(128, dtype=np.int64)
    inside = _accumulator(lanes % 32, n // 2)
    return Fragment(inside.rows + 16 * (lanes[:, None] // 32), inside.columns)
