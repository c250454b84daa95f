"""The reference as a backend: each operation is computed by NumPy, called back from machine code. For bisecting.

Where a graph gives wrong results with the backend ``numpy`` too, what is wrong is not a kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import cast

import numpy as np

from tirlower.graph.backends.registry import Backend, register_backend
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.nodes import Graph, Value
from tirlower.graph.lower.callbacks import call_back, register_callback
from tirlower.graph.lower.printing import array_at
from tirlower.graph.ops.evaluate import extent_value
from tirlower.graph.ops.interpret import run_nodes
from tirlower.graph.patterns.build import wildcard
from tirlower.graph.patterns.fusion import FusionPattern
from tirlower.ir import Buffer, IRBuilder, PrimFunc, Var, structural_hash
from tirlower.ir.dtype import Array
from tirlower.ir.functor import substitute

__all__ = ["PREFIX", "backend", "codegen"]

PREFIX = "tirlower_graph_reference_"
"""How the names of the functions begin that call Python back: they are known in this process alone."""


def backend() -> Backend:
    """The backend, which takes every operation by itself."""
    return register_backend("numpy", [FusionPattern("numpy.op", wildcard()(None))], codegen)


def codegen(graph: Graph, attrs: Mapping[str, object]) -> PrimFunc | None:
    """The prim func of a composite: it calls Python back with the addresses of its tensors, and with its dims."""
    symbol = f"{PREFIX}{structural_hash(graph) & (2**64 - 1):016x}"
    values = (*graph.params, *graph.results)
    kinds = (*[ctypes.c_void_p] * len(values), *[ctypes.c_int64] * len(graph.dims))

    def run(*given: int | None) -> None:
        addresses, sizes = given[: len(values)], given[len(values) :]
        dims = {one.var: int(size or 0) for one, size in zip(graph.dims, sizes, strict=True)}
        arrays = [_array(v, address, dims) for v, address in zip(values, addresses, strict=True)]
        held = dict(zip(graph.params, arrays, strict=False))
        run_nodes(graph.nodes, held, DimEnv(graph.dims), dims, False, keep=graph.results)
        for array, result in zip(arrays[len(graph.params) :], graph.results, strict=True):
            np.copyto(array, held[result])

    register_callback(symbol, kinds, run)
    ib = IRBuilder()
    with ib.func(graph.name, attrs={"tir.noalias": True}):
        names = [v.name for v in graph.params] + [f"out{n}" for n in range(len(graph.results))]
        held = [ib.buffer_param(Buffer(n, v.extents, v.dtype)) for n, v in zip(names, values, strict=True)]
        count = len(graph.params)  # what is only read may be a constant
        pointers = [b.access_ptr("r" if n < count else "w") for n, b in enumerate(held)]
        call_back(ib, symbol, [*pointers, *(d.var for d in graph.dims)])
    own = {d.var: Var(d.var.name, d.var.type, d.var.nonneg) for d in graph.dims}
    renamed = cast(PrimFunc, substitute(ib.module()[graph.name], own))
    return renamed.with_(params=(*renamed.params, *own.values()))


def _array(value: Value, address: int | None, dims: Mapping[Var, int]) -> Array:
    return array_at(address, tuple(extent_value(e, dims) for e in value.extents), value.dtype)
