"""Names, spilled values and what must be freed, of one function's text."""

from __future__ import annotations

import pytest

from tirlower.c.codegen.state import FunctionState, ModuleState, c_name
from tirlower.c.codegen.values import Kind, Value
from tirlower.diagnostics import LoweringError
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Var
from tirlower.script import parse


@pytest.fixture
def state() -> FunctionState:
    func = parse("@T.prim_func\ndef f(A: T.Buffer((4,), 'int32')):\n    A[0] = 1\n")
    return FunctionState(ModuleState(), "f", func)


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        ("i", "i"),
        ("for", "for_"),
        ("exp", "exp_"),
        ("expf", "expf_"),
        ("größe", "gr__e"),
        ("2x", "v2x"),
        ("_x", "v_x"),
        ("tir_sx", "v_tir_sx"),
        ("INT32_MAX", "v_INT32_MAX"),
        ("", "x"),
    ],
)
def test_names_are_not_those_of_c(hint, name):
    assert c_name(hint) == name


def test_each_name_is_given_once(state):
    assert [state.fresh(hint) for hint in ("t", "t", "t_1", "t", "exp", "exp")] == [
        "t",
        "t_1",
        "t_1_1",
        "t_2",
        "exp_",
        "exp__1",
    ]


def test_a_spilled_value_is_a_constant_of_its_type(state):
    value = Value("a + b", Kind.I32, low=0, high=9, depth=1)
    kept = state.spill(value, DataType("int8"))
    assert state.lines == ["    const int8_t t = a + b;"] and (kept.text, kept.high, kept.depth) == ("t", 9, 0)
    assert state.spill(kept) is kept


def test_a_failure_frees_what_was_allocated(state):
    state.cleanups += ["a", "b"]
    state.fail_if(
        "x",
        ValueError,
        "{0} and {1}",
        [(Value("u", Kind.U64), DataType("uint64")), (Value("v", Kind.F32), DataType("float32"))],
    )
    assert [line.strip() for line in state.lines] == [
        "if (x) {",
        "err->code = 0;",
        "err->nvals = 2;",
        "err->vals[0] = (int64_t)u;",
        "err->vals[1] = (int64_t)tir_bits_f64(v);",
        "free(b);",
        "free(a);",
        "return 1;",
        "}",
    ]
    assert state.module.errors.sites[0].types == ("uint64", "float64")
    assert "tir_bits_f64" in state.module.helpers


def test_a_variable_out_of_scope_is_an_error(state):
    with pytest.raises(LoweringError, match="`n` is used where it is not defined"):
        state.lookup(Var("n", "int32"))


def test_a_variable_defined_again_forgets_what_was_computed_with_it(state):
    var = Var("n", "int32")
    state.define(var, Value("n", Kind.I32))
    state.memo[1] = Value("n + 1", Kind.I32)
    state.define(var, Value("m", Kind.I32))
    assert not state.memo
