"""Updates that instructions for dot products compute: each pair of types, each place of the sum, and what is another update."""

from __future__ import annotations

import pytest

from tirlower.analysis.short_factors import short_factors
from tirlower.ir.query import each
from tirlower.ir.stmt import BufferStore
from tirlower.script import parse
from tirlower.transforms import FuseMultiplyAdd

UPDATE = """
def f(A: T.Buffer((8,), "{a}"), B: T.Buffer((8,), "{b}"), C: T.Buffer((8,), "{c}"), D: T.Buffer((8,), "{c}")):
    for i in range(8):
        C[i] = {value}
"""
SUM = "C[i] + T.Cast('{c}', A[i]) * T.Cast('{c}', B[7 - i])"


def found(a: str, b: str, c: str, value: str, *, fused: bool = False) -> list[str] | None:
    """The names of the factors that are found."""
    func = parse(UPDATE.format(a=a, b=b, c=c, value=value.format(c=c)))
    if fused:
        func = FuseMultiplyAdd()(func)
        assert "T.fma" in func.script()
    loads = short_factors(next(each(BufferStore, func.body)))
    return None if loads is None else [load.buffer.name for load in loads]


@pytest.mark.parametrize("a", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("b", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("value", [SUM, "T.Cast('{c}', A[i]) * T.Cast('{c}', B[7 - i]) + C[i]"])
def test_integers(a: str, b: str, value: str):
    assert found(a, b, "int32", value) == ["A", "B"]


@pytest.mark.parametrize("fused", [False, True])
def test_bfloat16(fused: bool):
    assert found("bfloat16", "bfloat16", "float32", SUM, fused=fused) == ["A", "B"]


@pytest.mark.parametrize(
    ("a", "b", "c", "value"),
    [
        ("uint16", "int8", "int32", SUM),
        ("int8", "int8", "int64", SUM),
        ("float16", "float16", "float32", SUM),
        ("bfloat16", "float16", "float32", SUM),
        ("int8", "int8", "int32", SUM.replace("+", "-")),
        ("int8", "int8", "int32", SUM.replace("C[i]", "C[7 - i]")),
        ("int8", "int8", "int32", SUM.replace("C[i]", "D[i]")),
        ("int8", "int8", "int32", SUM + " * 2"),
        ("int8", "int8", "int32", "C[i] + T.Cast('{c}', A[i] * B[i])"),
        ("int8", "int8", "int32", "T.max(C[i], T.Cast('{c}', A[i]) * T.Cast('{c}', B[i]))"),
        ("int8", "int8", "int32", "C[i] + T.Cast('{c}', A[i])"),
    ],
)
def test_other_updates(a: str, b: str, c: str, value: str):
    assert found(a, b, c, value) is None
