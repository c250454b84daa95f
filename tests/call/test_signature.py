from __future__ import annotations

import pytest

from tests.call.compounds import compound_of
from tirlower.call.signature import BufferParam, ScalarParam, Signature, Sym
from tirlower.diagnostics import LoweringError

N, M = Sym("n", "int32"), Sym("m")
DOUBLE = compound_of(lambda n: n * 2, n="int32")


def test_symbols_bind_in_parameter_order_shape_then_strides_then_offset():
    s0, s1, off = Sym("s0"), Sym("s1"), Sym("off", "int32")
    sig = Signature(
        "f",
        (
            BufferParam("A", "float32", (DOUBLE, M), (s0, s1), off),
            BufferParam("B", "float32", (N, M), (s0, 1)),
        ),
    )
    assert [s.name for s in sig.symbols] == ["m", "s0", "s1", "off", "n"]
    assert [site.text for site in sig.sites] == [
        "shape[1] of `A`",
        "strides[0] of `A`",
        "strides[1] of `A`",
        "elem_offset of `A`",
        "shape[0] of `B`",
    ]


def test_a_scalar_parameter_is_no_symbol_of_its_own():
    sig = Signature("f", (BufferParam("A", "float32", (N,)), ScalarParam("n", "int32")))
    assert sig.symbols == () and sig.sites == ()


def test_the_order_of_symbols_does_not_depend_on_outputs():
    params = (
        BufferParam("C", "float32", (M, N), written=True),
        BufferParam("A", "float32", (N,)),
        BufferParam("B", "float32", (M,)),
    )
    plain, allocating = Signature("f", params), Signature("f", params, outputs=("C",))
    assert [s.name for s in plain.symbols] == [s.name for s in allocating.symbols] == ["m", "n"]
    assert {s.param for s in plain.sites} == {"C"}
    assert [(s.symbol.name, s.param) for s in allocating.sites] == [("n", "A"), ("m", "B")]
    assert [p.name for p in allocating.inputs] == ["A", "B"]


def test_alias_pairs_need_a_write_and_a_promise():
    def pairs(**flags: tuple[bool, bool]) -> list[tuple[str, str]]:
        params = tuple(BufferParam(k, "float32", (4,), written=w, noalias=n) for k, (w, n) in flags.items())
        return [(a.name, b.name) for a, b in Signature("f", params).alias_pairs()]

    assert pairs(A=(False, True), B=(False, True)) == []
    assert pairs(A=(True, False), B=(False, False)) == []
    assert pairs(A=(False, True), B=(True, False), C=(False, False)) == [("A", "B")]
    assert pairs(A=(False, True), B=(False, True), C=(True, True)) == [("A", "C"), ("B", "C")]


@pytest.mark.parametrize(
    ("params", "outputs", "words"),
    [
        ((BufferParam("A", "float32", (4,)), ScalarParam("A", "int32")), (), "two parameters are named `A`"),
        ((BufferParam("A", "float32", (4,)),), ("A",), "output `A`"),
        ((BufferParam("A", "float32", (4,), written=True),), ("B",), "output `B`"),
        ((BufferParam("A", "float32", (4,), (1,), written=True),), ("A",), "declared strides"),
        ((BufferParam("A", "float32", (4, 4), (1,)),), (), "2 dimensions and 1 strides"),
        ((BufferParam("A", "float32", (4,), alignment=24),), (), "24 bytes"),
        ((BufferParam("A", "handle", (4,)),), (), "no arrays of dtype `handle`"),
        ((BufferParam("A", "int7", (4,)),), (), "no arrays of dtype `int7`"),
        ((ScalarParam("x", "float128"),), (), "float128"),
        ((BufferParam("A", "float32", (DOUBLE,)),), (), "`n` cannot be found"),
        ((BufferParam("A", "float32", (N,), written=True),), ("A",), "`n` cannot be found: no passed array"),
        ((BufferParam("A", "float32", (Sym("n", "uint8"),)),), (), "uint8"),
        ((BufferParam("A", "float32", (N, Sym("n", "int64"))),), (), "int32 in one place and int64"),
        ((BufferParam("A", "float32", (N,)), ScalarParam("n", "float32")), (), "integer parameter"),
    ],
)
def test_descriptions_that_no_call_could_meet_are_refused(params, outputs, words):
    with pytest.raises(LoweringError) as caught:
        Signature("f", params, outputs)
    assert words in str(caught.value) and caught.value.help
