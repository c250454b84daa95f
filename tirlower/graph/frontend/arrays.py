"""Operations on arrays: a graph of the one operation, computed by the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tirlower.graph.core.constants import tensor_dtype
from tirlower.graph.frontend.recording import place
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.interpret import interpret
from tirlower.graph.ops.registry import Definition
from tirlower.ir.dtype import Array

__all__ = ["computed"]


def computed(found: Definition, operands: Sequence[object], attrs: Mapping[str, object]) -> Array | tuple[Array, ...]:
    """The result (or the tuple of several) of an operation on arrays, lists and numbers."""
    given = [np.asarray(o) if isinstance(o, (list, tuple, np.generic)) else o for o in operands]
    if not any(isinstance(o, np.ndarray) for o in given):
        given = [o if o is None else np.asarray(o) for o in given]
    builder = GraphBuilder(found.name)
    builder.origin = place()
    arrays: list[Array] = []
    inputs: list[object] = []
    for operand in given:
        if isinstance(operand, np.ndarray):
            arrays.append(operand)
            inputs.append(builder.param("x", operand.shape, tensor_dtype(operand)))
        else:
            inputs.append(operand)
    made = builder.ops(found.name, *inputs, **attrs)
    results = interpret(builder.finish(made[0] if len(made) == 1 else made), *arrays)
    assert not isinstance(results, dict)
    return results
