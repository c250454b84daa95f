"""Calls: external functions, LLVM's intrinsics, functions of the module."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.llvm.codegen.conftest import build, build_module, elementwise, llvm_text
from tirlower.diagnostics import ArgumentTypeError, CodegenError, RuntimeAssertError
from tirlower.llvm.codegen import generate, register_symbol, resolve_imports, unregister_symbol
from tirlower.machine import cpu as host
from tirlower.script import parse


@pytest.fixture
def registered():  # type: ignore[no-untyped-def]
    names: list[str] = []

    def register(name: str, fn: object) -> None:
        names.append(name)
        register_symbol(name, fn)

    yield register
    for name in names:
        unregister_symbol(name)


def test_registered_functions_of_every_scalar_type(registered) -> None:  # type: ignore[no-untyped-def]
    c = ctypes
    for dtype, kind in (("int8", c.c_int8), ("uint8", c.c_uint8), ("int16", c.c_int16), ("uint16", c.c_uint16),
                        ("int32", c.c_int32), ("uint32", c.c_uint32), ("int64", c.c_int64), ("uint64", c.c_uint64),
                        ("float32", c.c_float), ("float64", c.c_double), ("bool", c.c_bool)):  # fmt: skip
        seen: list[tuple[object, object]] = []

        def double(x, y, seen=seen, dtype=dtype):  # type: ignore[no-untyped-def]
            seen.append((x, y))
            return x if dtype == "bool" else x + x

        registered("test_double", c.CFUNCTYPE(kind, kind, c.c_int64)(double))
        a = np.array([0, 1, 5, 100]).astype(dtype)
        out = np.zeros(4, dtype)
        f = build(elementwise(f'T.call_extern("{dtype}", "test_double", a, T.int64(-7))', [("a", dtype)], dtype, 4))
        f(a, out)
        assert (out == (a if dtype == "bool" else a + a)).all(), dtype
        assert seen == [(v, -7) for v in a.tolist()]


def test_negative_narrow_arguments_and_results_are_extended(registered) -> None:  # type: ignore[no-untyped-def]
    wide = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int32)(lambda x: x)  # reads all 32 bits of the register
    registered("test_widen", wide)
    a, out = np.array([-128, -1, 127, 0], "int8"), np.zeros(4, "int64")
    build(elementwise('T.call_extern("int64", "test_widen", a)', [("a", "int8")], "int64", 4))(a, out)
    assert out.tolist() == a.tolist()


def test_pointers_strings_and_addresses(registered) -> None:  # type: ignore[no-untyped-def]
    got: list[bytes] = []

    def take(name: bytes, data: int, n: int) -> None:
        got.append(name)
        array = np.ctypeslib.as_array((ctypes.c_float * n).from_address(data))
        array *= 2

    fn = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int32)(take)
    registered("test_take", ctypes.cast(fn, ctypes.c_void_p).value)
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((8,), "float32")):
            T.evaluate(T.call_extern("void", "test_take", "hello", T.address_of(A[2]), 3))
            T.evaluate(T.call_extern("void", "test_take", "again", A.data, 8))
    """)
    a = np.ones(8, "float32")
    f(a)
    assert got == [b"hello", b"again"] and a.tolist() == [2, 2, 4, 4, 4, 2, 2, 2]


def test_symbols_of_the_process_need_no_registration() -> None:
    a, out = np.linspace(0.1, 2, 8), np.zeros(8)
    build(elementwise('T.call_pure_extern("float64", "lgamma", a)', [("a", "float64")], "float64", 8))(a, out)
    import math

    np.testing.assert_allclose(out, [math.lgamma(v) for v in a])


def test_unknown_functions_are_refused_with_a_remedy(registered) -> None:  # type: ignore[no-untyped-def]
    registered("test_known_name", 12345)
    with pytest.raises(CodegenError, match="test_known_nam") as error:
        llvm_text(elementwise('T.call_extern("int32", "test_known_nam", a)', [("a", "int32")], "int32"))
    assert "register_symbol" in str(error.value) and "did you mean 'test_known_name'" in str(error.value)
    with pytest.raises(ArgumentTypeError, match="test_x"):
        register_symbol("test_x", "not a function")


def test_a_registered_symbol_is_an_import(registered) -> None:  # type: ignore[no-untyped-def]
    registered("test_import", 4096)
    made = generate(parse(elementwise('T.call_extern("int32", "test_import", a)', [("a", "int32")], "int32")))
    assert made.imports == ("test_import",) and resolve_imports(made.imports) == {"test_import": 4096}
    unregister_symbol("test_import")
    with pytest.raises(CodegenError, match="test_import"):
        resolve_imports(made.imports)


# -- LLVM's intrinsics ---------------------------------------------------------------------------------------------------


def test_intrinsics_with_and_without_their_suffixes() -> None:
    a = np.linspace(0, 4, 16).astype("float32")
    for text in ('T.call_llvm_pure_intrin("float32", "llvm.sqrt.f32", a)', 'T.call_llvm_intrin("float32", "llvm.sqrt", a)',
                 'T.call_llvm_pure_intrin("float32", "llvm.sqrt", T.uint32(1), a)'):  # fmt: skip
        out = np.zeros(16, "float32")
        build(elementwise(text, [("a", "float32")], "float32", 16))(a, out)
        assert (out == np.sqrt(a)).all(), text
    out = np.zeros(16, "float32")
    build(
        elementwise('T.call_llvm_pure_intrin("float32x8", "llvm.fma", a, a, a)', [("a", "float32")], "float32", 16, 8)
    )(a, out)
    np.testing.assert_allclose(out, a * a + a, rtol=1e-6)
    x, y = np.arange(16, dtype="int32"), np.zeros(16, "int32")
    build(
        elementwise('T.call_llvm_pure_intrin("int32", "llvm.cttz", a, T.bool(False))', [("a", "int32")], "int32", 16)
    )(x, y)
    assert y.tolist() == [32 if v == 0 else (v & -v).bit_length() - 1 for v in range(16)]


def test_reductions() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"), R: T.Buffer((2,), "float32"), S: T.Buffer((1,), "int32")):
            R[0] = T.call_llvm_pure_intrin("float32", "llvm.vector.reduce.fadd", T.float32(0), A[0:8])
            R[1] = T.call_llvm_pure_intrin("float32", "llvm.vector.reduce.fmax", A[0:8])
            S[0] = T.call_llvm_pure_intrin("int32", "llvm.vector.reduce.add", I[0:8])
    """)
    r, s = np.zeros(2, "float32"), np.zeros(1, "int32")
    f(np.arange(8, dtype="float32"), np.arange(8, dtype="int32"), r, s)
    assert r.tolist() == [28, 7] and s[0] == 28


@pytest.mark.skipif(not host.host_cpu().has("avx512f", "avx512bw", "avx512dq", "avx512vl"), reason="needs AVX-512")
def test_intrinsics_of_the_processor_are_gated_by_its_features() -> None:
    text = elementwise(
        'T.call_llvm_pure_intrin("float32x16", "llvm.x86.avx512.mask.scalef.ps.512", a, a, a, T.int16(-1), T.int32(4))',
        [("a", "float32")], "float32", 16, 16,
    )  # fmt: skip
    a, out = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    build(text)(a, out)
    assert (out == a * 2.0**a).all()
    with pytest.raises(CodegenError, match="avx512f"):
        llvm_text(text, "llvm -mcpu=x86-64-v3")


def test_unknown_intrinsics_never_reach_llvm() -> None:
    for name in ("llvm.nonsense", "llvm.nvvm.barrier0", "llvm.x86.unknown.thing", "llvm.aarch64.neon.abs"):
        with pytest.raises(CodegenError, match="intrinsic"):
            llvm_text(elementwise(f'T.call_llvm_pure_intrin("float32", "{name}", a)', [("a", "float32")], "float32"))


# -- functions of the module ---------------------------------------------------------------------------------------------

MODULE = """
from tirlower.script import ir as I, tir as T
@I.ir_module
class M:
    @T.prim_func(private=True)
    def scale(A: T.handle("float32"), n: T.int32, s: T.float32) -> T.float32:
        B = T.Buffer((64,), "float32", data=A)
        assert n <= 64, "too many"
        total = T.alloc_buffer((1,), "float32")
        total[0] = 0.0
        for i in range(n):
            B[i] = B[i] * s
            total[0] = total[0] + B[i]
        T.ret(total[0])
    @T.prim_func(private=True)
    def fact(n: T.int64) -> T.int64:
        if n < T.int64(2):
            T.ret(T.int64(1))
        T.ret(n * M.fact(n - T.int64(1)))
    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), R: T.Buffer((1,), "float32"), n: T.int32):
        big = T.alloc_buffer((100000,), "float32")
        big[0] = 2.0
        R[0] = M.scale(A.data, n, big[0])
    @T.prim_func
    def factorial(R: T.Buffer((8,), "int64")):
        for i in range(8):
            R[i] = M.fact(T.Cast("int64", i))
"""


def test_functions_call_one_another() -> None:
    calls, made = build_module(parse(MODULE))
    assert set(calls) == {"main", "factorial"}
    a, r = np.arange(64, dtype="float32"), np.zeros(1, "float32")
    calls["main"](a, r, 10)
    assert a[:10].tolist() == [2 * i for i in range(10)] and a[10] == 10 and r[0] == 90
    with pytest.raises(RuntimeAssertError, match=r"too many \(n = 65\)"):
        calls["main"](a, r, 65)
    out = np.zeros(8, "int64")
    calls["factorial"](out)
    assert out.tolist() == [1, 1, 2, 6, 24, 120, 720, 5040]
    assert "define internal" in made.text


def test_wrong_calls_of_functions_are_refused() -> None:
    from tirlower.ir import Call, Evaluate, GlobalVar, IntImm, PrimFunc
    from tirlower.ir.func import IRModule

    callee = parse("@T.prim_func(private=True)\ndef g(n: T.int32):\n    T.evaluate(n)\n")

    def caller(name: str, *args: object) -> IRModule:
        body = Evaluate(Call(GlobalVar(name), args, "int32"))
        return IRModule({"f": PrimFunc((), {}, None, {"global_symbol": "f"}, body), "gamma": callee})

    with pytest.raises(CodegenError, match="gama"):
        generate(caller("gama", IntImm("int32", 1)))
    with pytest.raises(CodegenError, match="takes 1 arguments, got 0"):
        generate(caller("gamma"))
    with pytest.raises(CodegenError, match="int32, got int64"):
        generate(caller("gamma", IntImm("int64", 1)))


def test_functions_of_the_c_library_are_found_in_a_fresh_process(tmp_path) -> None:
    """Nothing has loaded the mathematical library for all to see there."""
    path = tmp_path / "fresh.py"
    path.write_text(
        "import numpy as np, tirlower as tl\n"
        "from tirlower.script import tir as T\n"
        "@T.prim_func\n"
        'def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float64")):\n'
        "    for i in range(4):\n"
        '        A[i] = T.call_extern("float32", "truncf", A[i])\n'
        '        B[i] = T.call_extern("float64", "nextafter", B[i], T.float64(9))\n'
        "a, b = np.array([1.5, -1.5, 0.25, 7], 'float32'), np.ones(4)\n"
        "tl.build(f)(a, b)\n"
        "assert a.tolist() == [1, -1, 0, 7] and (b == np.nextafter(1, 9)).all()\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TIRLOWER_CACHE": "off"}
    subprocess.run([sys.executable, str(path)], check=True, env=env)
