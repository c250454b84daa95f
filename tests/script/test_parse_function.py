"""Functions, parameters, attributes, closures, modules: the IR that they parse to."""

from __future__ import annotations

import numpy as np
import pytest

from tirlower.diagnostics import ScriptError, WellFormedError
from tirlower.interp import interpret
from tirlower.ir import Evaluate, GlobalVar, IRModule, PointerType, PrimFunc, Var, assert_structural_equal
from tirlower.script import ir as I
from tirlower.script import parse
from tirlower.script import tir as T

WIDTH = 16
KIND = "float16"


def test_the_decorator_returns_the_function_with_its_symbol():
    @T.prim_func
    def copy(A: T.Buffer((4,), "float32"), n: T.int64):
        A[0] = 1.0

    assert isinstance(copy, PrimFunc)
    assert copy.name == "copy" and copy.attrs == {"global_symbol": "copy"}
    handle, n = copy.params
    assert handle.name == "A_handle" and handle.dtype == "handle"
    assert n.name == "n" and n.dtype == "int64"
    assert copy.buffer_map[handle].name == "A" and copy.buffer_map[handle].data.name == "A"
    assert copy.ret_type == "void"


def test_a_private_function_has_no_symbol():
    @T.prim_func(private=True, s_tir=True, tirx=False, unknown_option=1)
    def helper(n: T.int32) -> T.int32:
        return n + 1

    assert "global_symbol" not in helper.attrs and helper.ret_type == "int32"
    assert helper.body.value.op.name == "tir.ret"


def test_function_attributes_are_normalised_and_may_name_the_symbol():
    func = parse("""
def f():
    T.func_attr({"global_symbol": "renamed", "tir.noalias": T.bool(True), "list": [1, T.int32(2)]})
    T.func_attr({"more": 1.5})
""")
    assert func.attrs == {"global_symbol": "renamed", "tir.noalias": True, "list": (1, 2), "more": 1.5}


def test_all_fields_of_a_parameter_buffer():
    func = parse("""
def f(A: T.Buffer((4, 8), "float32", strides=(8, 1), elem_offset=2, scope="shared", align=128, offset_factor=2,
                  axis_separators=[1])):
    A[0, 0] = 1.0
""")
    buffer = func.buffers[0]
    assert [s.value for s in buffer.strides] == [8, 1] and buffer.elem_offset.value == 2
    assert (buffer.scope, buffer.align, buffer.offset_factor, buffer.axis_separators) == ("shared", 128, 2, (1,))
    assert buffer.data.type == PointerType("float32", "shared")


def test_handles_are_typed_or_not():
    func = parse("""
def f(a: T.handle, p: T.handle("float32"), q: T.handle("int8", "shared")):
    A = T.Buffer((4,), "float32", data=p)
    A[0] = T.float32(1)
""")
    a, p, q = func.params
    assert a.type == "handle"
    assert p.type == PointerType("float32", "global") and q.type == PointerType("int8", "shared")


def test_match_buffer_takes_explicit_symbols():
    func = parse("""
def f(a: T.handle):
    m, n = T.int32(), T.int64(is_size_var=True)
    A = T.match_buffer(a, (m, n, m), "int8", offset_factor=4)
    A[0, 0, 0] = 1
""")
    buffer = func.buffers[0]
    m, n, again = buffer.shape
    assert m is again and (m.name, m.dtype, m.nonneg) == ("m", "int32", False)
    assert (n.name, n.dtype, n.nonneg) == ("n", "int64", True)
    assert isinstance(buffer.elem_offset, Var) and buffer.elem_offset.name == "A_elem_offset"


def test_strings_name_symbolic_dimensions_of_the_whole_function():
    func = parse("""
def f(A: T.Buffer(("m", "n"), "float32"), B: T.Buffer(("n + 1",), "float32"), m: T.int64):
    for i in range(n):
        B[i] = A[0, i]
""")
    a, b = func.buffers
    assert a.shape[0] is func.params[2], "a scalar parameter of that name is meant"
    n = a.shape[1]
    assert n.dtype == "int32" and b.shape[0].a is n and b.shape[0].b.value == 1
    assert func.body.extent is n


def test_a_shape_may_name_a_later_parameter():
    func = parse("def f(A: T.Buffer((n, n), 'float32'), n: T.int32):\n    A[0, 0] = 1.0\n")
    assert func.buffers[0].shape[0] is func.params[1]


def test_closures_give_numbers_types_and_tuples():
    local = 3
    shape = (WIDTH, 4)

    @T.prim_func
    def f(A: T.Buffer(shape, KIND), B: T.Buffer((local,), T.int8)):
        for i in range(WIDTH):
            A[i, local] = T.cast(2.0, KIND)

    assert [e.value for e in f.buffers[0].shape] == [16, 4]
    assert f.buffers[0].dtype == "float16" and f.buffers[1].dtype == "int8"
    assert f.body.extent.value == WIDTH and f.body.body.indices[1].value == 3


def test_annotation_names_of_enclosing_functions_are_found():
    def outer(size):
        def inner(dtype):
            @T.prim_func
            def f(A: T.Buffer((size,), dtype)):
                A[0] = T.cast(1, A.dtype)

            return f

        return inner("float64")

    func = outer(7)
    assert func.buffers[0].shape[0].value == 7 and func.buffers[0].dtype == "float64"


def test_numpy_values_and_modules_of_the_scope_are_read():
    table = np.array([2, 5])
    config = {"tile": 4}

    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        A[table[1]] = config["tile"] * np.int32(2)

    assert f.body.indices[0].value == 5 and f.body.value.value == 8


def test_one_annotation_object_serves_many_parameters():
    Mat = T.Buffer((4, 4), "float32")

    @T.prim_func
    def f(A: Mat, B: Mat):
        A[0, 0] = B[0, 0]

    a, b = f.buffers
    assert a is not b and (a.name, b.name) == ("A", "B") and a.data is not b.data


def test_a_class_of_tests_may_hold_functions():
    class Holder:
        @T.prim_func
        def f(A: T.Buffer((4,), "int32")):
            A[0] = 1

    assert isinstance(Holder.f, PrimFunc)


def test_a_module_of_functions():
    size = 4

    @I.ir_module
    class Mod:
        I.module_attrs({"version": 2})

        @T.prim_func(private=True)
        def callee(x: T.int32, p: T.handle("float32")) -> T.int64:
            return T.int64(x)

        @T.prim_func
        def caller(A: T.Buffer((size,), "float32"), B: T.Buffer((size,), "int64")):
            for i in range(size):
                B[i] = Mod.callee(i, A.data) + T.int64(1)
            Mod.callee(0, A)

    assert isinstance(Mod, IRModule) and list(Mod) == ["callee", "caller"] and Mod.attrs == {"version": 2}
    assert "global_symbol" not in Mod["callee"].attrs and Mod["caller"].attrs["global_symbol"] == "caller"
    loop, last = Mod["caller"].body.stmts
    call = loop.body.value.a
    assert call.op == GlobalVar("callee") and call.dtype == "int64"
    assert isinstance(last, Evaluate) and last.value.args[1] is Mod["caller"].buffers[0].data


def test_functions_may_call_later_and_decorated_functions():
    @T.prim_func
    def leaf(n: T.int32) -> T.int32:
        return n

    @T.prim_func(check_well_formed=False)
    def f(A: T.Buffer((1,), "int32")):
        A[0] = leaf(3)

    assert f.body.value.op == GlobalVar("leaf") and f.body.value.dtype == "int32"
    mod = parse("""
@I.ir_module
class M:
    @T.prim_func
    def a() -> T.int32:
        return M.b()
    @T.prim_func
    def b() -> T.int32:
        return 1
""")
    assert mod["a"].body.value.args[0].op == GlobalVar("b")


def test_call_tir_calls_a_function_of_the_module():
    text = """
@I.ir_module
class M:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        {}
        A[1] = {}
    @T.prim_func(private=True)
    def fill(p: T.handle("int32"), x: T.int32):
        A = T.decl_buffer((4,), "int32", data=p)
        A[0] = x
    @T.prim_func(private=True)
    def half(x: T.int64) -> T.int32:
        return T.Cast("int32", x // T.int64(2))
"""
    called = parse(text.format("T.call_tir(M.fill, A, 7)", "T.call_tir(M.half, T.int64(6))"))
    assert_structural_equal(called, parse(text.format("M.fill(A.data, 7)", "M.half(T.int64(6))")))
    a = np.zeros(4, "int32")
    interpret(called, a)
    assert list(a) == [7, 3, 0, 0]
    for wrong in ("T.call_tir(3)", "T.call_tir(A, 1)"):
        with pytest.raises(
            ScriptError, match=r"T.call_tir calls a function of the module[\s\S]*T.call_tir\(Module.f, …\)"
        ):
            parse(text.format(wrong, 0))


def test_call_tir_outside_a_script_takes_the_function_or_its_name():
    leaf = parse("def leaf(n: T.int32) -> T.int32:\n    return n")
    assert T.call_tir(leaf, 3).dtype == "int32" and T.call_tir(GlobalVar("leaf"), 3).op == GlobalVar("leaf")


def test_helpers_with_python_values_run_as_python():
    def triple(n):
        import math

        return math.prod([n, 3])

    @T.prim_func
    def f(A: T.Buffer((triple(4),), "int32")):
        A[triple(2)] = 1

    assert f.buffers[0].shape[0].value == 12 and f.body.indices[0].value == 6


def test_spans_point_into_the_file():
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = i + 1

    store = f.body.body
    assert store.span.source.name == __file__
    assert store.span.text == "A[i] = i + 1" and store.value.span.text == "i + 1"
    assert store.span.line == f.body.span.line + 1


def test_ill_formed_functions_are_refused_unless_asked():
    text = "def f(A: T.Buffer((4,), 'int32')):\n    x = T.int32()\n    A[0] = x\n"
    with pytest.raises(WellFormedError, match="x"):
        parse(text)
    assert isinstance(parse(text, check_well_formed=False), PrimFunc)


def test_a_parameter_needs_an_annotation():
    with pytest.raises(ScriptError, match="the parameter 'n' has no annotation"):
        parse("def f(n):\n    pass\n")
    with pytest.raises(ScriptError, match="plain parameters"):
        parse("def f(*, n: T.int32 = 3):\n    pass\n")
    with pytest.raises(ScriptError, match=r"annotation of the parameter 'n' is a T.Buffer"):
        parse("def f(n: 3):\n    pass\n")


def test_pointers_by_either_name():
    @T.prim_func
    def square(a: T.Ptr[T.float32], b: T.Ptr("int8", "shared")):
        A = T.decl_buffer((4,), "float32", data=a)
        A[0] = T.float32(1)
        T.evaluate(b)

    @T.prim_func
    def handle(a: T.handle("float32", "global"), b: T.handle("int8", "shared")):
        A = T.decl_buffer((4,), "float32", data=a)
        A[0] = T.float32(1)
        T.evaluate(b)

    assert_structural_equal(square.with_attr("global_symbol", "f"), handle.with_attr("global_symbol", "f"))


def test_a_symbol_named_by_a_string_may_be_declared_in_the_body():
    @T.prim_func
    def declared(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("m",), "float32")):
        n, m = T.int64(), T.int64()
        for i, j in T.grid(n, m):
            B[j] = A[i, j]

    (n, m) = declared.buffers[0].shape
    assert (n.name, str(n.dtype)) == ("n", "int64") and declared.buffers[1].shape[0] is m
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros(3, np.float32)
    interpret(declared, a, b)
    np.testing.assert_array_equal(b, a[1])
