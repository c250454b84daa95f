from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.diagnostics import CodegenError, InterpreterError, TransformError
from tirlower.interp import interpret
from tirlower.ir import (
    Add,
    AllocConst,
    Buffer,
    BufferLoad,
    BufferStore,
    IRModule,
    Mul,
    PrimFunc,
    Ramp,
    Seq,
    Var,
    const,
    pre_order_visit,
    verify_well_formed,
)
from tirlower.ir import custom_datatype as datatype
from tirlower.ir.posit import Posit, register_posit
from tirlower.script import ir as I
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import (
    CommonSubexprElimTIR,
    FlattenBuffer,
    LowerCustomDatatypes,
    LowerOpaqueBlock,
    Simplify,
    VectorizeLoop,
)

P8 = Posit(8, 2)


@pytest.fixture(autouse=True)
def posit() -> Iterator[None]:
    register_posit("posit8", 8, 2)
    yield
    datatype.unregister("posit8")


def bits(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape).astype(np.uint8)


def no_custom_left(program: PrimFunc) -> None:
    """Nothing in a function has a custom type any more."""

    def look(node: Any) -> None:
        for part in (node, getattr(node, "buffer", None), getattr(node, "var", None)):
            kind = getattr(part, "dtype", None)
            assert kind is None or not kind.is_custom, node
        data = getattr(getattr(node, "buffer", None), "data", None)
        assert data is None or "custom[" not in str(data.type)

    pre_order_visit(program.body, look)
    for param in (*program.params, *program.buffers):
        assert not param.dtype.is_custom


def sequence(*stmts: Any) -> Any:
    return Seq(stmts)


def lowered(program: Any, inputs: list[list[Any]]) -> Any:
    """Lower, with the meaning compared before and after on ``inputs``."""
    after = check(LowerCustomDatatypes(), program, inputs=inputs)
    for func in [after] if isinstance(after, PrimFunc) else after.functions.values():
        no_custom_left(func)
    return after


def test_before_and_after() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "custom[posit8]8"), B: T.Buffer((8,), "custom[posit8]8"), C: T.Buffer((8,), "bool")):
        for i in range(8):
            C[i] = A[i] < B[i] + T.FloatImm("custom[posit8]8", 1.0)

    @T.prim_func
    def expected(A: T.Buffer((8,), "uint8"), B: T.Buffer((8,), "uint8"), C: T.Buffer((8,), "bool")):
        for i in range(8):
            C[i] = T.call_pure_extern(
                "bool", "custom.posit8.LT.llvm.bool.uint8.uint8", A[i],
                T.call_pure_extern("uint8", "custom.posit8.Add.llvm.uint8.uint8.uint8", B[i], T.uint8(64)),
            )  # fmt: skip

    rng = np.random.default_rng(0)
    check(LowerCustomDatatypes(), before, expected, inputs=[[bits(rng, 8), bits(rng, 8), np.zeros(8, bool)]])


@pytest.mark.parametrize("name", ["add", pytest.param("mul", marks=pytest.mark.nightly)])
def test_all_pairs_natively(name: str) -> None:
    """The compiled program, the interpreter and exact arithmetic agree on all 65,536 pairs."""
    sign = {"add": "+", "mul": "*"}[name]
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((256,), "custom[posit8]8"), B: T.Buffer((256,), "custom[posit8]8"),
      C: T.Buffer((256, 256), "custom[posit8]8")):
    for i, j in T.grid(256, 256):
        C[i, j] = A[i] {sign} B[j]
""")
    every = np.arange(256, dtype=np.uint8)
    after = LowerCustomDatatypes()(func)
    native, meant = np.zeros((256, 256), np.uint8), np.zeros((256, 256), np.uint8)
    tl.build(after, schedule="none")(every, every, native)
    interpret(func, every, every, meant)
    numbers = [P8.decode(p) for p in range(256)]
    exact = {"add": lambda x, y: x + y, "mul": lambda x, y: x * y}[name]
    want = np.array([
        [P8.encode(None if x is None or y is None else exact(x, y)) for y in numbers] for x in numbers
    ], np.uint8)  # fmt: skip
    np.testing.assert_array_equal(native, want)
    np.testing.assert_array_equal(meant, want)


@pytest.mark.parametrize("op", ["sub", "div", "mod", "floordiv", "floormod", "min", "max"])
def test_other_arithmetic(op: str) -> None:
    text = {"sub": "A[i] - B[i]", "div": "T.Div(A[i], B[i])", "mod": "T.Mod(A[i], B[i])", "min": "T.min(A[i], B[i])",
            "floordiv": "T.FloorDiv(A[i], B[i])", "floormod": "T.FloorMod(A[i], B[i])", "max": "T.max(A[i], B[i])"}[op]  # fmt: skip
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((500,), "custom[posit8]8"), B: T.Buffer((500,), "custom[posit8]8"),
      C: T.Buffer((500,), "custom[posit8]8")):
    for i in range(500):
        C[i] = {text}
""")
    rng = np.random.default_rng(1)
    a, b, c = bits(rng, 500), bits(rng, 500), np.zeros(500, np.uint8)
    after = lowered(func, [[a, b, c]])
    tl.build(after, schedule="none")(a, b, c)
    run = {"max": P8.maximum_of, "min": P8.minimum}.get(op) or getattr(P8, op)
    assert c.tolist() == [run(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_comparisons_and_selection() -> None:
    @T.prim_func
    def func(A: T.Buffer(("n",), "custom[posit8]8"), B: T.Buffer(("n",), "custom[posit8]8"), C: T.Buffer((6, "n"), "bool"),
             D: T.Buffer(("n",), "custom[posit8]8")):  # fmt: skip
        for i in range(n):
            C[0, i] = A[i] == B[i]
            C[1, i] = A[i] != B[i]
            C[2, i] = A[i] < B[i]
            C[3, i] = A[i] <= B[i]
            C[4, i] = A[i] > B[i]
            C[5, i] = A[i] >= B[i]
            D[i] = T.if_then_else(A[i] < B[i], T.Select(A[i] > A[i], A[i], B[i]), A[i])

    rng = np.random.default_rng(2)
    a, b = bits(rng, 300), bits(rng, 300)
    b[::7] = a[::7]
    c, d = np.zeros((6, 300), bool), np.zeros(300, np.uint8)
    after = lowered(func, [[a, b, c, d]])
    tl.build(after, schedule="none")(a, b, c, d)
    x, y = a.view(np.int8), b.view(np.int8)
    np.testing.assert_array_equal(c, [x == y, x != y, x < y, x <= y, x > y, x >= y])
    np.testing.assert_array_equal(d, np.maximum(x, y).view(np.uint8))


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "bfloat16", "int8", "uint8", "int64", "int5"])
def test_conversions_from_and_to_every_kind(kind: str) -> None:
    func = parse(f'''
@T.prim_func
def f(A: T.Buffer((256,), "{kind}"), B: T.Buffer((256,), "custom[posit8]8"), C: T.Buffer((256,), "{kind}")):
    for i in range(256):
        B[i] = T.Cast("custom[posit8]8", A[i])
        C[i] = T.Cast("{kind}", B[i])
''')
    rng = np.random.default_rng(3)
    numpy = func.buffers[0].dtype.numpy
    if "float" in kind:
        a = (rng.standard_normal(256) * np.exp(rng.uniform(-9, 9, 256))).astype(numpy)
    else:
        low, high = (-16, 16) if kind == "int5" else (0, 120) if kind == "uint8" else (-100, 100)
        a = rng.integers(low, high, 256).astype(numpy)
    b, c = np.zeros(256, np.uint8), np.zeros(256, numpy)
    after = lowered(func, [[a, b, c]])
    tl.build(after, schedule="none")(a, b, c)
    assert b.tolist() == [P8.encode(Fraction(float(v))) for v in a]
    back = np.array([float(P8.decode(p)) for p in b.tolist()])
    want = back.astype(ml_dtypes.bfloat16 if kind == "bfloat16" else numpy) if "float" in kind else np.trunc(back)
    if kind == "int5":
        want = (want + 16) % 32 - 16
    np.testing.assert_array_equal(c.astype(np.float64), want.astype(np.float64))


def test_constants_are_the_bits_of_the_nearest_posit() -> None:
    @T.prim_func
    def func(A: T.Buffer((5,), "custom[posit8]8")):
        A[0] = T.FloatImm("custom[posit8]8", 0.1)
        A[1] = T.FloatImm("custom[posit8]8", -1e30)
        A[2] = T.FloatImm("custom[posit8]8", 0.0)
        A[3] = T.FloatImm("custom[posit8]8", float("nan"))
        A[4] = T.FloatImm("custom[posit8]8", 1e-30)

    a = np.zeros(5, np.uint8)
    after = lowered(func, [[a]])
    assert "call" not in after.script()
    interpret(after, a)
    assert a.tolist() == [P8.encode(Fraction(0.1)), 0x81, 0, 0x80, 1]
    datatype.register_op(lambda value: 7, "FloatImm", "llvm", "posit8")
    interpret(lowered(func, [[a]]), a)
    assert a.tolist() == [7] * 5


def test_mathematical_functions() -> None:
    @T.prim_func
    def func(
        A: T.Buffer((256,), "custom[posit8]8"), B: T.Buffer((4, 256), "custom[posit8]8"), C: T.Buffer((256,), "bool")
    ):
        for i in range(256):
            B[0, i] = T.sqrt(A[i])
            B[1, i] = T.exp(A[i])
            B[2, i] = T.fabs(A[i])
            B[3, i] = T.fma(A[i], A[255 - i], A[i])
            C[i] = T.isnan(A[i])

    a, b, c = np.arange(256, dtype=np.uint8), np.zeros((4, 256), np.uint8), np.zeros(256, bool)
    tl.build(lowered(func, [[a, b, c]]), schedule="none")(a, b, c)
    values = a.tolist()
    assert b[0].tolist() == [P8.sqrt(v) for v in values] and b[1].tolist() == [P8.exp(v) for v in values]
    assert b[2].tolist() == [P8.fabs(v) for v in values]
    assert b[3].tolist() == [P8.fma(v, 255 - v, v) for v in values]
    assert np.flatnonzero(c).tolist() == [128]


def test_a_dot_product_with_bindings_lets_and_scalars() -> None:
    @T.prim_func
    def func(
        A: T.Buffer(("n",), "custom[posit8]8"), B: T.Buffer(("n",), "custom[posit8]8"),
        C: T.Buffer((1,), "custom[posit8]8"), bias: T.Var("bias", "custom[posit8]8"),
    ):  # fmt: skip
        total = T.alloc_buffer((1,), "custom[posit8]8", scope="local")
        total[0] = bias
        for i in range(n):
            product: T.Var("product", "custom[posit8]8") = A[i] * B[n - 1 - i]
            total[0] = total[0] + product
        C[0] = total[0] - bias

    rng = np.random.default_rng(5)
    for size in (0, 1, 2, 13):
        a, b, c = bits(rng, size), bits(rng, size), np.zeros(1, np.uint8)
        after = lowered(func, [[a, b, c, 0x40]])
        want = 0x40
        for x, y in zip(a.tolist(), b[::-1].tolist(), strict=True):
            want = P8.add(want, P8.mul(x, y))
        interpret(after, a, b, c, 0x40)
        assert c[0] == P8.sub(want, 0x40)
        d = np.zeros(1, np.uint8)
        tl.build(after, schedule="none")(a, b, d, 0x40)
        assert d[0] == c[0]


def test_vectors_are_taken_apart() -> None:
    @T.prim_func
    def func(
        A: T.Buffer((16,), "custom[posit8]8"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "custom[posit8]8")
    ):
        for o in range(4):
            for i in T.vectorized(4):
                C[o * 4 + i] = T.max(A[o * 4 + i] * A[15 - o * 4 - i], T.Cast("custom[posit8]8", B[o * 4 + i]) + A[o])

    vector = VectorizeLoop()(func)
    assert "x4" in vector.script() or "o * 4:o * 4 + 4" in vector.script()
    rng = np.random.default_rng(6)
    a, b, c = bits(rng, 16), rng.standard_normal(16).astype("float32"), np.zeros(16, np.uint8)
    after = lowered(vector, [[a, b, c]])
    d, e = np.zeros(16, np.uint8), np.zeros(16, np.uint8)
    interpret(func, a, b, d)
    tl.build(after, schedule="none")(a, b, e)
    np.testing.assert_array_equal(d, e)
    tl.build(LowerCustomDatatypes()(func), schedule="none")(a, b, e)
    np.testing.assert_array_equal(d, e)


def test_views_pointers_and_opaque_calls() -> None:
    @T.prim_func
    def func(
        A: T.Buffer((4, 6), "custom[posit8]8"), B: T.Buffer((24,), "uint8"), C: T.Buffer((12,), "custom[posit8]8")
    ):
        flat = T.decl_buffer((24,), "custom[posit8]8", data=A.data)
        raw = T.decl_buffer((24,), "uint8", data=A.data)
        half = T.decl_buffer((12,), "custom[posit8]8", data=A.data, elem_offset=12)
        for i in range(24):
            flat[i] = flat[i] + flat[23 - i]
            B[i] = raw[i] ^ T.reinterpret("uint8", flat[i] * flat[i])
        T.evaluate(T.call_extern("handle", "memcpy", T.address_of(C[0]), T.address_of(half[0]), 12))
        C[0] = T.reinterpret("custom[posit8]8", T.uint8(3))
        T.evaluate(T.call_extern(
            "handle", "memcpy", T.tvm_access_ptr(T.type_annotation("custom[posit8]8"), C.data, 2, 3, 2),
            T.tvm_access_ptr(T.type_annotation("custom[posit8]8"), A.data, 0, 3, 1), 3,
        ))  # fmt: skip

    rng = np.random.default_rng(7)
    a, b, c = bits(rng, 4, 6), np.zeros(24, np.uint8), np.zeros(12, np.uint8)
    after = lowered(func, [[a, b, c]])
    first, second = [a.copy(), b.copy(), c.copy()], [a.copy(), b.copy(), c.copy()]
    interpret(func, *first)
    tl.build(after, schedule="none")(*second)
    for x, y in zip(first, second, strict=True):
        np.testing.assert_array_equal(x, y)


def test_blocks_with_init_predicates_and_matched_regions() -> None:
    @T.prim_func
    def func(A: T.Buffer((7, 5), "custom[posit8]8"), B: T.Buffer((7,), "custom[posit8]8")):
        for i, k in T.grid(8, 5):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where(i < 7)
                T.reads(A[vi, vk])
                T.writes(B[vi])
                row = T.match_buffer(A[vi, 0:5], (5,), "custom[posit8]8")
                with T.init():
                    B[vi] = T.FloatImm("custom[posit8]8", 0.0)
                B[vi] = B[vi] + row[vk]

    rng = np.random.default_rng(8)
    a, b = bits(rng, 7, 5), np.zeros(7, np.uint8)
    after = lowered(func, [[a, b]])
    interpret(after, a, b)
    for i in range(7):
        want = 0
        for value in a[i].tolist():
            want = P8.add(want, value)
        assert b[i] == want


def test_while_loops_strides_and_other_minimums() -> None:
    @T.prim_func
    def func(a: T.handle, B: T.Buffer((6,), "custom[posit8]8"), n: T.int32):
        s = T.int32()
        A = T.match_buffer(a, (6,), "custom[posit8]8", strides=(s,))
        k = T.alloc_buffer((1,), "int32")
        k[0] = 2
        for i in range(1, n):
            B[i] = A[i] * A[0]
        while k[0] < 6:
            B[k[0]] = B[k[0]] - A[k[0]]
            k[0] = k[0] + 1

    rng = np.random.default_rng(9)
    base = bits(rng, 18)
    for array in (base[::-3], base[:6], base[5::2][:6]):
        for n in (0, 2, 6):
            lowered(func, [[array, bits(rng, 6), n]])


def test_several_types_and_casts_between_them() -> None:
    wide = Posit(16, 2)
    register_posit("posit16", 16, 2)
    try:
        datatype.register_op(lambda p: wide.encode(P8.decode(p)), "Cast", "llvm", "posit8", "posit16")
        datatype.register_op(lambda p: P8.encode(wide.decode(p)), "Cast", "llvm", "posit16", "posit8")

        @T.prim_func
        def func(A: T.Buffer((64,), "custom[posit8]8"), B: T.Buffer((64,), "custom[posit8]8")):
            for i in range(64):
                B[i] = T.Cast(
                    "custom[posit8]8", T.Cast("custom[posit16]16", A[i]) * T.Cast("custom[posit16]16", A[63 - i])
                )

        rng = np.random.default_rng(10)
        a, b = bits(rng, 64), np.zeros(64, np.uint8)
        tl.build(lowered(func, [[a, b]]), schedule="none")(a, b)
        for i, (x, y) in enumerate(zip(a.tolist(), a[::-1].tolist(), strict=True)):
            product = wide.mul(wide.encode(P8.decode(x)), wide.encode(P8.decode(y)))
            assert b[i] == P8.encode(wide.decode(product))
    finally:
        datatype.unregister("posit16")


def test_llvm_functions() -> None:
    """Fixed point with four bits of fraction: sums and conversions in LLVM, with a Python meaning for the interpreter."""
    datatype.register("fixed")
    try:
        text = """
define i8 @fixed_add(i8 %a, i8 %b) {
  %sum = add i8 %a, %b
  ret i8 %sum
}
define i8 @fixed_of(float %x) {
  %scaled = fmul float %x, 16.0
  %number = fptosi float %scaled to i8
  ret i8 %number
}
define float @fixed_to(i8 %a) {
  %number = sitofp i8 %a to float
  %result = fdiv float %number, 16.0
  ret float %result
}
"""

        def extern(symbols: Any, python: Any) -> datatype.ExternFunction:
            return datatype.ExternFunction(symbols, python, text)

        datatype.register_op(extern("fixed_add", lambda a, b: (a + b) & 255), "Add", "llvm", "fixed")
        datatype.register_op(
            extern({(32, 8): "fixed_of"}, lambda x: int(x * 16) & 255), "Cast", "llvm", "float", "fixed"
        )
        datatype.register_op(
            extern({(8, 32): "fixed_to"}, lambda a: (a - 2 * (a & 128)) / 16), "Cast", "llvm", "fixed", "float"
        )

        @T.prim_func
        def func(A: T.Buffer((50,), "float32"), B: T.Buffer((50,), "float32")):
            for i in T.parallel(50):
                B[i] = T.Cast("float32", T.Cast("custom[fixed]8", A[i]) + T.FloatImm("custom[fixed]8", 0.25))

        a = np.random.default_rng(11).uniform(-7, 7, 50).astype("float32")
        b = np.zeros(50, "float32")
        after = lowered(func, [[a, b]])
        assert '"fixed_add"' in after.script()
        tl.build(after, schedule="none")(a, b)
        np.testing.assert_array_equal(b, np.trunc(a * 16) / 16 + np.float32(0.25))
        wider = parse(func.script().replace("float32", "float64"))
        with pytest.raises(TransformError, match=r"no cast from 'float' to 'fixed' .64 bits to 8."):
            LowerCustomDatatypes()(wider)
    finally:
        datatype.unregister("fixed")


def test_a_registered_symbol_without_a_python_meaning() -> None:
    datatype.register("opaque")
    try:
        datatype.register_op(datatype.ExternFunction("opaque_add"), "Add", "llvm", "opaque")

        @T.prim_func
        def func(A: T.Buffer((4,), "custom[opaque]32")):
            for i in range(4):
                A[i] = A[i] + A[i]

        after = LowerCustomDatatypes()(func)
        with pytest.raises(InterpreterError, match="no meaning on opaque"):
            interpret(func, np.zeros(4, np.uint32))
        with pytest.raises(CodegenError, match="opaque_add"):
            tl.build(after, schedule="none")
    finally:
        datatype.unregister("opaque")


def test_what_is_not_registered_is_named() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "custom[posit8]8")):
        for i in range(4):
            A[i] = T.tan(A[i])

    with pytest.raises(TransformError, match=r"no tir.tan of 'posit8' .8 bits.") as error:
        LowerCustomDatatypes()(func)
    assert "intrinsic_name='tir.tan'" in str(error.value.help)
    with pytest.raises(InterpreterError, match=r"tir.tan has no meaning on posit8"):
        interpret(func, np.zeros(4, np.uint8))
    other = parse(func.script().replace("posit8", "unknown").replace("T.tan(A[i])", "A[i] + A[i]"))
    with pytest.raises(TransformError, match="'unknown' is not registered"):
        LowerCustomDatatypes()(other)
    plain = parse(func.script().replace("T.tan(A[i])", "T.atomic_add(T.address_of(A[i]), A[i])"))
    with pytest.raises(TransformError, match="atomic_add has no meaning"):
        LowerCustomDatatypes()(plain)


def test_functions_without_custom_types_stay() -> None:
    @T.prim_func
    def func(A: T.Buffer(("n",), "float32"), m: T.int32):
        B = T.alloc_buffer((4,), "float32")
        for i in T.vectorized(4):
            B[i] = T.exp(A[i]) + T.float32(m)

    assert LowerCustomDatatypes()(func) is func
    mod = IRModule({"f": func})
    assert LowerCustomDatatypes()(mod) is mod


def test_calls_between_functions_of_a_module() -> None:
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def add_to(x: T.Var("x", "custom[posit8]8"), data: T.handle("custom[posit8]8"), at: T.int32):
            view = T.decl_buffer((5,), "custom[posit8]8", data=data)
            view[at] = view[at] + x

        @T.prim_func
        def main(A: T.Buffer((5,), "custom[posit8]8")):
            for i in range(5):
                Module.add_to(A[4 - i], A.data, i)

    rng = np.random.default_rng(13)
    a = bits(rng, 5)
    after = lowered(Module, [[a]])
    got, want = a.copy(), a.tolist()
    tl.build(after, schedule="none")["main"](got)
    for i in range(5):
        want[i] = P8.add(want[i], want[4 - i])
    assert got.tolist() == want


def test_a_shared_vector_operand_is_bound_once() -> None:
    A, B = Buffer("A", (4,), "custom[posit8]8"), Buffer("B", (4,), "custom[posit8]8")
    lanes = Ramp(const(0), const(1), 4)
    term = Add(BufferLoad(A, (lanes,)), BufferLoad(B, (lanes,)))
    body = BufferStore(A, Mul(term, Add(term, term)), (lanes,))
    a, b = Var("a", "handle"), Var("b", "handle")
    func = PrimFunc((a, b), {a: A, b: B}, None, {}, body)
    rng = np.random.default_rng(14)
    x, y = bits(rng, 4), bits(rng, 4)
    after = LowerCustomDatatypes()(func)
    verify_well_formed(after)
    first, second = x.copy(), x.copy()
    interpret(func, first, y)
    interpret(after, second, y)
    sums = [P8.add(p, q) for p, q in zip(x.tolist(), y.tolist(), strict=True)]
    assert first.tolist() == second.tolist() == [P8.mul(s, P8.add(s, s)) for s in sums]


def test_other_passes_leave_custom_arithmetic_alone() -> None:
    @T.prim_func
    def func(A: T.Buffer((4, 4), "custom[posit8]8"), B: T.Buffer((4, 4), "custom[posit8]8")):
        for i, j in T.grid(4, 4):
            B[i, j] = (A[i, j] + A[j, i]) * (A[i, j] + A[j, i]) - (A[i, j] - A[i, j])

    rng = np.random.default_rng(12)
    a, b = bits(rng, 4, 4), np.zeros((4, 4), np.uint8)
    a[0, 0] = 0x80  # x - x is not zero of NaR
    want = np.zeros((4, 4), np.uint8)
    interpret(func, a, want)
    assert want[0, 0] == 0x80
    made: Any = func
    for one in (
        Simplify(),
        LowerOpaqueBlock(),
        FlattenBuffer(),
        CommonSubexprElimTIR(),
        LowerCustomDatatypes(),
        Simplify(),
    ):
        made = one(made)
    interpret(made, a, b)
    np.testing.assert_array_equal(b, want)


def test_constants_in_memory_are_bits() -> None:
    data = Var("table", T.handle("custom[posit8]8").type)
    table = Buffer("table", (3,), "custom[posit8]8", data)

    @T.prim_func
    def shell(A: T.Buffer((3,), "custom[posit8]8")):
        for i in range(3):
            A[i] = A[i] + A[i]

    from_bits = AllocConst(table, np.array([64, 128, 3], np.int64), {})
    after = LowerCustomDatatypes()(shell.with_body(sequence(from_bits, shell.body)))
    no_custom_left(after)
    with pytest.raises(TransformError, match="not its bits"):
        LowerCustomDatatypes()(shell.with_body(sequence(AllocConst(table, np.zeros(3), {}), shell.body)))


def test_a_large_function_in_linear_time() -> None:
    lines = "\n".join(f"    A[{i % 64}] = A[{(i * 7) % 64}] * A[{(i + 1) % 64}]" for i in range(2000))
    func = parse(f'@T.prim_func\ndef f(A: T.Buffer((64,), "custom[posit8]8")):\n{lines}\n')
    after = LowerCustomDatatypes()(func)
    no_custom_left(after)
    assert after.script().count("custom.posit8.Mul") == 2000
