"""PrimFunc.specialize: what binds, what must be equal, what folds."""

from __future__ import annotations

import pytest

import tirlower.script  # noqa: F401  (messages show printed expressions)
from tirlower import ir
from tirlower.diagnostics import TirError
from tirlower.ir import PrimFunc, assert_structural_equal, decl_buffer, verify_well_formed


def copy_kernel() -> tuple[PrimFunc, dict[str, ir.Var]]:
    """``B[i, j] = A[i, j] + alpha`` over (m, n), A with symbolic strides and offset, and a scalar alpha."""
    v = {name: ir.Var(name) for name in ("m", "n", "s", "o", "alpha", "i", "j")}
    v["a"], v["b"] = ir.Var("a", "handle"), ir.Var("b", "handle")
    A = ir.Buffer("A", (v["m"], v["n"]), "int32", strides=(v["s"], 1), elem_offset=v["o"])
    B = ir.Buffer("B", (v["m"], ir.Mul(v["n"], 2)), "int32")
    v["A"], v["B"] = A, B  # type: ignore[assignment]
    store = ir.BufferStore(B, ir.Add(ir.BufferLoad(A, (v["i"], v["j"])), v["alpha"]), (v["i"], v["j"]))
    rows = ir.For(
        v["i"], 0, v["m"], "serial", None, {}, ir.For(v["j"], 0, ir.Mul(v["n"], 1), "serial", None, {}, store)
    )
    func = PrimFunc((v["a"], v["b"], v["alpha"]), {v["a"]: A, v["b"]: B}, "void", {"size": v["m"]}, rows)
    verify_well_formed(func)
    return func, v


def extents(buffer: ir.Buffer) -> list[object]:
    return [e.value if isinstance(e, ir.IntImm) else e for e in (*buffer.shape, *buffer.strides, buffer.elem_offset)]


def test_a_scalar_parameter_is_removed():
    func, v = copy_kernel()
    made = func.specialize({v["alpha"]: 7})
    assert made.params == func.params[:2]
    assert made.body.body.body.value.b.value == 7
    assert verify_well_formed(made)
    assert func.params[2] is v["alpha"]
    folded = func.specialize({v["alpha"]: 0}).body.body.body.value
    assert isinstance(folded, ir.BufferLoad)


def test_a_symbolic_dimension_is_replaced_everywhere():
    func, v = copy_kernel()
    made = func.specialize({v["n"]: 16, v["m"]: 8})
    A, B = made.buffers
    assert extents(A)[:2] == [8, 16] and extents(B)[:2] == [8, 32]
    assert made.body.extent.value == 8 and made.body.body.extent.value == 16
    assert made.attrs["size"] == 8
    assert made.params == func.params
    assert made.body.body.body.buffer is B and made.body.body.body.value.a.buffer is A
    assert verify_well_formed(made)


def test_a_buffer_binds_what_stands_bare():
    func, v = copy_kernel()
    given = decl_buffer((4, 6), "int32", "X", strides=(10, 1), elem_offset=3)
    made = func.specialize({v["a"]: given})
    assert extents(made.buffers[0]) == [4, 6, 10, 1, 3]
    assert extents(made.buffers[1])[:2] == [4, 12]
    assert made.params == func.params and verify_well_formed(made)
    # Two buffers that agree; compound extents are checked.
    both = func.specialize({v["a"]: given, v["b"]: decl_buffer((4, 12), "int32")})
    assert_structural_equal(both, made)
    with pytest.raises(TirError, match="12"):
        func.specialize({v["a"]: given, v["b"]: decl_buffer((4, 13), "int32")})
    with pytest.raises(TirError, match="both 4 and 5"):
        func.specialize({v["a"]: given, v["b"]: decl_buffer((5, 12), "int32")})
    with pytest.raises(TirError, match="both"):
        func.specialize({v["m"]: 5, v["a"]: given})


def test_symbolic_values():
    func, v = copy_kernel()
    k = ir.Var("k")
    made = func.specialize({v["m"]: k + 1, v["alpha"]: k})
    assert made.body.extent.a is k
    assert made.body.body.body.value.b is k


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((4, 6, 1), "dimensions"),
        ({"shape": (4, 6), "strides": ()}, "strides"),
        ({"shape": (4, 6), "dtype": "float32"}, "dtype"),
        ({"shape": (4, 6), "scope": "shared"}, "scope"),
        ({"shape": (4, 6), "data_alignment": 128}, "alignment"),
        ({"shape": (4, 6), "strides": (6, 2)}, "2"),
    ],
)
def test_buffers_that_do_not_fit(given, words):
    func, v = copy_kernel()
    options = given if isinstance(given, dict) else {"shape": given}
    options = {"dtype": "int32", "strides": [1] * len(options["shape"]), "elem_offset": 0, **options}
    with pytest.raises(TirError, match=words):
        func.specialize({v["a"]: decl_buffer(**options)})


def test_wrong_keys_and_values():
    func, v = copy_kernel()
    with pytest.raises(TirError, match="neither a parameter"):
        func.specialize({ir.Var("m"): 3})
    with pytest.raises(TirError, match="is the buffer 'A'"):
        func.specialize({v["a"]: 3})
    with pytest.raises(TirError, match="no buffer"):
        func.specialize({v["alpha"]: v["A"]})
    with pytest.raises(TirError, match="float"):
        func.specialize({v["alpha"]: 1.5})
    with pytest.raises(TirError, match="does not fit"):
        func.specialize({v["alpha"]: 2**40})
    with pytest.raises(TirError, match="int64"):
        func.specialize({v["alpha"]: ir.Var("k", "int64")})
    assert func.specialize({v["alpha"]: ir.IntImm("int64", 3)}).body.body.body.value.b.dtype == "int32"


def test_nothing_to_do_is_the_same_function():
    func, _ = copy_kernel()
    assert func.specialize({}) is func


def test_a_handle_by_itself():
    p = ir.Var("p", ir.PointerType("float32"))
    a = ir.Var("a", "handle")
    A = ir.Buffer("A", (4,))
    view = ir.Buffer("V", (4,), data=p)
    func = PrimFunc((a, p), {a: A}, "void", {}, ir.BufferStore(view, 1.0, (0,)))
    same = func.specialize({p: A.data})
    assert same.params == (a,) and same.body.buffer.data is A.data
    address = ir.Call(ir.Op.get("tir.address_of"), (ir.BufferLoad(A, (1,)),), "handle")
    bound = func.specialize({p: address})
    assert isinstance(bound.body.stmts[0], ir.Bind) and bound.body.stmts[1].buffer.data is bound.body.stmts[0].var
    assert verify_well_formed(same) and verify_well_formed(bound)
