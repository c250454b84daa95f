"""States, and kernels that are written already, as nodes."""

from __future__ import annotations

import numpy as np
import pytest

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.effects import OUTSIDE, Extern, Global, KernelCall
from tirlower.graph.core.nodes import TensorType, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.ir import DataType

FOUR = TensorType((4,), DataType("float32"))
ZEROS = ConstantData.splat(0.0, (4,), "float32")


def test_a_state_fits_its_contents() -> None:
    assert repr(Global("s", (4,), "float32", ZEROS)) == "<Global s: float32[4]>"
    with pytest.raises(GraphError, match=r"'s' is float32\[5\], and its initial contents are float32\[4\]"):
        Global("s", (5,), "float32", ZEROS)
    with pytest.raises(GraphError, match=r"'s' is int8\[4\]"):
        Global("s", (4,), "int8", ZEROS)
    with pytest.raises(GraphError, match="identifier, got 'a b'"):
        Global("a b", (4,), "float32", ZEROS)


def test_stores_fit_their_state() -> None:
    s = Global("s", (4,), "float32", ZEROS)
    fixed = Global("f", (4,), "float32", ZEROS, mutable=False)
    b = GraphBuilder()
    b.store(s, np.ones(4, "float32"))
    b.store(s, 2)
    assert b.nodes[-1].operands[0].type == FOUR
    with pytest.raises(GraphError, match=r"the state 's' is float32\[4\], got float32\[2\] for it"):
        b.store(s, np.ones(2, "float32"))
    with pytest.raises(GraphError, match=r"got float64\[4\] for it"):
        b.store(s, np.ones(4))
    with pytest.raises(GraphError, match="'f' is never changed"):
        b.store(fixed, 0.0)
    assert b.load(fixed).node is b.nodes[-1] and b.nodes[-1].effects == ()


def test_a_kernel_with_an_effect_writes_what_is_outside() -> None:
    b = GraphBuilder()
    x = b.param("x", (4,), "float32")
    (y,) = b.kernel(Extern("f", (4,)), [FOUR], x)
    b.kernel(Extern("g"), [FOUR], y, effect=True)
    pure, loud = b.nodes
    assert (pure.effects, loud.effects, loud.writes) == ((), (OUTSIDE,), (OUTSIDE,))
    assert isinstance(pure, KernelCall) and pure.name == "f" and repr(pure) == "<KernelCall f -> float32[4]>"
    made = loud.with_operands([Value.of(FOUR)], [x])
    assert made.operands == (x,) and made.writes == (OUTSIDE,)
