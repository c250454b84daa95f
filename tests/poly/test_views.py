"""Views and bound pointers: every verdict is what running the program shows, and every witness happens."""

from __future__ import annotations

import itertools
import textwrap
from typing import Any

import pytest

from tests.poly.brute import events, parallel_conflict, vector_conflict
from tests.poly.legality_base import replayed
from tests.poly.views_table import DISJOINT, MEETING, SIGNATURE
from tirlower.ir import PrimFunc, decl_buffer
from tirlower.poly import can_distribute, check_bounds, extract, is_parallel, is_vectorizable
from tirlower.poly.affine import Space
from tirlower.poly.expressions import Converter
from tirlower.poly.forms import constant
from tirlower.poly.layouts import layout_of
from tirlower.script import parse

PROGRAMS = [(name, body, True) for name, body in MEETING.items()] + [(n, b, False) for n, b in DISJOINT.items()]


def parsed(body: str) -> PrimFunc:
    func: Any = parse("@T.prim_func\n" + SIGNATURE + textwrap.indent(textwrap.dedent(body), "    "))
    return func


@pytest.mark.parametrize(("name", "body", "meets"), PROGRAMS, ids=[f"{name}-{meets}" for name, _, meets in PROGRAMS])
def test_verdicts_are_what_happens(name: str, body: str, meets: bool) -> None:
    func = parsed(body)
    scop, found = extract(func), events(func)
    answers = set()
    for loop in scop.loops:
        for ask, brute in ((is_parallel, parallel_conflict), (is_vectorizable, vector_conflict)):
            conflict = brute(found, loop.node)
            verdict = ask(scop, loop)
            answers.add(conflict is None)
            assert verdict.status == ("proved" if conflict is None else "refuted"), (loop.name, ask, verdict.reason)
            if conflict is not None:
                assert replayed(verdict.witness, found), str(verdict.witness)
    assert (False in answers) == meets


ANYWHERE = {
    "a number": 'q: T.handle("int32") = T.reinterpret("handle", T.reinterpret("int64", A.data))',
    "a choice": 'q: T.handle("int32") = T.if_then_else(B[0] > 0, A.data, B.data)',
    "a call": 'q: T.handle("int32") = T.call_extern("handle", "somewhere")',
}


@pytest.mark.parametrize("pointer", ANYWHERE.values(), ids=ANYWHERE)
def test_a_pointer_that_may_point_anywhere(pointer: str) -> None:
    def asked(loop: str, own: str = "") -> str:
        func = parsed(
            f'{own or "pass"}\n{pointer}\nV = T.Buffer((64,), "int32", data=q)\nfor i in range(8):\n    {loop}'
        )
        return is_parallel(func, "i").status

    assert asked("V[i + 1] = A[i]") == "unknown"
    assert asked("A[i + 1] = V[i]") == "unknown"
    assert asked("V[i] = V[i] + 1") == "proved"  # one pointer, wherever it points to
    assert asked("V[i + 1] = V[i]") == "refuted"
    assert asked("B[i] = A[i + 8]") == "proved"  # what is not seen through it is apart as ever
    fresh = 't = T.alloc_buffer((16,), "int32")'
    assert asked("V[i] = t[i + 1]", fresh) == "proved"  # whose pointer nobody has
    taken = fresh + '\np = T.bind(t.data)\nT.evaluate(T.call_extern("int32", "keep", p))'
    assert asked("V[i] = t[i + 1]", taken) == "unknown"


def test_a_pointer_that_is_another_in_each_iteration() -> None:
    func = parsed("""
    for i in range(8):
        q: T.handle("int32") = T.call_extern("handle", "somewhere", i)
        V = T.Buffer((64,), "int32", data=q)
        V[i] = 1
    """)
    assert is_parallel(func, "i").unknown


GUARDED = {
    "a name": "q = T.bind(X.data)",
    "a name of a name": "p = T.bind(X.data)\n    q = T.bind(p)",
    "an address": 'q: T.handle("int32") = T.address_of(X[0])',
    "a number": 'q: T.handle("int32") = T.reinterpret("handle", T.reinterpret("int64", X.data))',
}


@pytest.mark.parametrize("pointer", GUARDED.values(), ids=GUARDED)
def test_a_condition_on_a_value_ends_with_a_write_through_another_pointer(pointer: str) -> None:
    text = f"""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), X: T.Buffer((1,), "int32")):
    {pointer}
    V = T.Buffer((1,), "int32", data=q)
    if X[0] >= 0 and X[0] < 16:
        V[0] = 99
        A[X[0]] = 1
"""
    func: Any = parse(text)
    assert {b.access.text: b.verdict.status for b in check_bounds(func)}["A[X[0]]"] == "unknown"
    kept: Any = parse(text.replace("V[0] = 99", "A[0] = V[0]"))
    assert all(b.verdict.proved for b in check_bounds(kept) if b.access.text == "A[X[0]]")


def test_strides_that_are_numbers_are_compared_by_addresses_whatever_the_extents():
    """Rows of six elements four apart: (0, 1) is the element (4, 0) as soon as there are five rows."""
    rows = parse(
        """@T.prim_func
def main(C: T.Buffer(("n + 22", 6), "int32", strides=(1, 4)), n: T.int32):
    for i in range(n):
        C[i, 1] = C[4, 0]
"""
    )
    witness = is_parallel(rows, "i").witness
    assert witness is not None and {witness.source.indices, witness.sink.indices} == {(0, 1), (4, 0)}
    cut = parse(
        """@T.prim_func
def main(B: T.Buffer(("n + 13", 21), "int32", strides=(2, 4)), n: T.int32):
    for i in range(2):
        B[2, 0] = 0
        B[0, 1] = B[0, 1] - 1
"""
    )
    assert can_distribute(cut, "i", 1).status == "refuted"
    padded = """@T.prim_func
def main(C: T.Buffer(("n", "m"), "int32", strides=(1024, 1))):
    {}
    for i in range(n):
        for j in range(m):
            C[i, j] = C[i, j] + 1
"""
    assert is_parallel(parse(padded.format("T.evaluate(0)")), "i").status == "refuted"
    assert is_parallel(parse(padded.format("T.evaluate(T.assume(m <= 1024))")), "i").status == "proved"


def test_elements_of_nested_strides_have_addresses_of_their_own():
    conv = Converter(Space(), ())
    found = {True: 0, False: 0}
    shapes = list(itertools.product(range(4), repeat=3))
    for shape, strides in itertools.product(shapes, itertools.product((1, 4), repeat=3)):
        layout = layout_of(conv, decl_buffer(shape, "int8", strides=strides), constant(0))
        places = [
            sum(i * step for i, step in zip(at, strides, strict=True)) for at in itertools.product(*map(range, shape))
        ]
        found[layout.nested] += 1
        assert len(set(places)) == len(places) or not layout.nested
        assert places or layout.nested, "no element has no other's address"
    assert min(found.values()) > 20
