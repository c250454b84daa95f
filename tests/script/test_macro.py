"""``@T.macro``: hygiene, arguments, what its statements become."""

from __future__ import annotations

import pytest

from tirlower.diagnostics import ScriptError, TirError
from tirlower.ir import AttrStmt, Seq, structural_equal
from tirlower.script import tir as T

FACTOR = 3


@T.macro
def scaled(buf, index, value=1, *more, **named):
    tmp = value * FACTOR
    buf[index] = tmp
    for extra in T.serial(2):
        buf[extra] = tmp + len(more) + len(named)


def test_arguments_defaults_and_statements():
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), n: T.int32):
        scaled(A, n, n + 1, 1, 2, k=3)
        scaled(A, 2)

    stmts = f.body.stmts
    assert [type(s).__name__ for s in stmts] == ["Bind", "BufferStore", "For"] * 2
    assert stmts[0].value.b.value == FACTOR and stmts[2].body.value.b.value == 1
    assert stmts[3].value.value == FACTOR and stmts[4].value is stmts[3].var


def test_hygiene():
    FACTOR = 100  # not the macro's

    @T.macro
    def hygienic(buf):
        buf[0] = local

    @T.macro(hygienic=False)
    def unhygienic(buf):
        buf[0] = local
        other = local + FACTOR
        buf[1] = other

    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), local: T.int32):
        scaled(A, 0)
        unhygienic(A)

    assert f.body.stmts[0].value.value == 3
    assert f.body.stmts[3].value is f.params[1]
    assert f.body.stmts[4].value.b.value == FACTOR
    with pytest.raises(ScriptError, match="'local' is not defined"):

        @T.prim_func
        def g(A: T.Buffer((8,), "int32"), local: T.int32):
            hygienic(A)

    with pytest.raises(ScriptError, match="'other' is not defined"):

        @T.prim_func
        def h(A: T.Buffer((8,), "int32"), local: T.int32):
            unhygienic(A)
            A[2] = other


def test_a_hygienic_macro_reads_its_scope_when_it_is_called():
    size = 2

    @T.macro
    def store(buf):
        buf[size] = 1

    size = 5

    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        store(A)

    assert f.body.indices[0].value == 5


def test_blocks_allocations_and_values_in_macros():
    @T.macro
    def tile(buf, i):
        with T.block("tile"):
            vi = T.axis.spatial(8, i)
            square(buf, vi)

    @T.macro
    def square(buf, index):
        scratch = T.alloc_buffer((1,), "int32")
        scratch[0] = buf[index]
        buf[index] = scratch[0] * scratch[0]

    @T.macro
    def double(x):
        twice = T.meta_var(x * 2)
        return twice

    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        for i in range(8):
            tile(A, i)
        A[0] = double(A[1]) + 1

    block = f.body.body.stmts[0].body
    assert block.name == "tile" and [b.name for b in block.alloc_buffers] == ["scratch"]
    assert f.body.body.stmts[1].value.a.b.value == 2


def test_a_region_without_with_takes_the_rest_of_the_caller():
    @T.macro
    def mark(value):
        T.attr(None, "pragma_mark", value)

    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        A[0] = 1
        mark(7)
        A[1] = 2

    _, attr = f.body.stmts
    assert isinstance(f.body, Seq) and isinstance(attr, AttrStmt)
    assert attr.value.value == 7 and attr.body.value.value == 2


def test_macros_expand_each_time_into_new_variables():
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), n: T.int32):
        scaled(A, n, n)
        scaled(A, n, n)

    first, second = f.body.stmts[0], f.body.stmts[3]
    assert first.var is not second.var and f.body.stmts[2].loop_var is not f.body.stmts[5].loop_var


def test_recursion_ends_at_parse_time():
    @T.macro
    def count_down(buf, k):
        if k > 0:
            buf[k] = k
            count_down(buf, k - 1)

    @T.macro
    def forever(buf):
        forever(buf)

    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        count_down(A, 3)

    assert len(f.body.stmts) == 3
    with pytest.raises(ScriptError, match="expands itself without an end"):

        @T.prim_func
        def g(A: T.Buffer((8,), "int32")):
            forever(A)


def test_wrong_calls():
    with pytest.raises(TirError, match="called inside a prim_func only"):
        scaled(1, 2)
    with pytest.raises(ScriptError, match="missing a required argument"):

        @T.prim_func
        def f(A: T.Buffer((8,), "int32")):
            scaled(A)


class Filler:
    """Macros as methods: they read the object that they are called on."""

    def __init__(self, value: int) -> None:
        self.value = value

    @T.macro
    def fill(self, A, i, times=1):
        A[i] = self.value * times

    @T.macro(hygienic=False)
    def fill_both(self, A):
        self.fill(A, i)
        A[i + 1] = self.value

    @staticmethod
    @T.macro
    def clear(A, i):
        A[i] = 0


def test_macros_are_methods():
    three, four = Filler(3), Filler(4)

    @T.prim_func
    def filled(A: T.Buffer((8,), "int32")):
        three.fill(A, 0)
        four.fill(A, 1, times=2)
        Filler.fill(four, A, 2)
        for i in range(3, 4):
            three.fill_both(A)
        Filler.clear(A, 5)

    @T.prim_func
    def plain(A: T.Buffer((8,), "int32")):
        A[0] = 3
        A[1] = 8
        A[2] = 4
        for i in range(3, 4):
            A[i] = 3
            A[i + 1] = 3
        A[5] = 0

    assert structural_equal(filled.body, plain.body, map_free_vars=True)
    with pytest.raises(TirError, match="called inside a prim_func only"):
        three.fill(None, 0)
