"""From prim funcs to signatures, targets to machines, and what a generated module says of itself."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tirlower.call.parameters import call_signature
from tirlower.call.signature import BufferParam, Compound, ScalarParam, Sym
from tirlower.diagnostics import CodegenError, LoweringError
from tirlower.llvm.codegen import compile_options, generate, kernel_symbol, machine_of
from tirlower.machine import cpu as host
from tirlower.machine.target import Target
from tirlower.script import parse

from .conftest import build, build_module, llvm_text

PROGRAM = """
@T.prim_func
def kernel(a: T.handle, b: T.handle, k: T.int32, s: T.float32, V: T.Buffer((4,), "float32x4"), Q: T.Buffer((3,), "int5")):
    T.func_attr({"tir.noalias": True})
    n = T.int32()
    m = T.int64()
    st = T.int32()
    A = T.match_buffer(a, (n, k), "float16", align=16)
    B = T.match_buffer(b, (n * 2 + 1, m, 4), "bool", strides=(st, 8, 1))
    for i in range(n):
        B[i, 0, 0] = T.Cast("bool", A[i, 0] + T.float16(1))
"""


def test_the_signature_of_a_function() -> None:
    made = generate(parse(PROGRAM)).kernels["kernel"]
    a, b, k, s, v, q = made.signature.params
    assert a == BufferParam("A", "float16", (Sym("n", "int32"), Sym("k", "int32")), alignment=16, noalias=True)
    assert isinstance(b, BufferParam) and b.written and b.dtype == "bool" and b.strides == (Sym("st", "int32"), 8, 1)
    assert b.shape[1:] == (Sym("m", "int64"), 4) and isinstance(b.shape[0], Compound)
    assert b.shape[0].evaluate({"n": 5}) == 11 and b.shape[0].names == ("n",)
    assert (k, s) == (ScalarParam("k", "int32"), ScalarParam("s", "float32"))
    assert isinstance(v, BufferParam) and (v.dtype, v.shape, v.written) == ("float32", (4, 4), False)
    assert isinstance(q, BufferParam) and q.dtype == "int8"
    assert [symbol.name for symbol in made.signature.symbols] == ["n", "m", "st"]
    assert made.symbol == kernel_symbol("kernel")
    called = call_signature(parse(PROGRAM), ["B"], (), [(0, 4)])
    assert called.params[:2] == (a, replace(b, shape=called.buffers[1].shape)) and called.apart
    assert called.in_place == {("A", "V")} and not called.buffers[2].written
    assert not call_signature(parse(PROGRAM), [], (), ()).buffers[1].written


def test_compound_extents_in_machine_code_and_in_python() -> None:
    f = build("""
        @T.prim_func
        def kernel(a: T.handle, b: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), "int32")
            B = T.match_buffer(b, (T.max(T.floordiv(n - 20, 4), T.truncmod(n, 7)) + T.Select(n > 5, 3, 1) + T.min(n % 3, n // 2), ), "int32")
            for i in range(n):
                B[0] = A[i]
    """)

    def extent(n: int) -> int:
        return max((n - 20) // 4, int(np.fmod(n, 7))) + (3 if n > 5 else 1) + min(n % 3, n // 2)

    for n in range(1, 60):
        f(np.zeros(n, "int32"), np.zeros(extent(n), "int32"))
        with pytest.raises(ValueError):
            f(np.zeros(n, "int32"), np.zeros(extent(n) + 1, "int32"))


def test_bits_of_extents_in_machine_code_and_in_python() -> None:
    f = build("""
        @T.prim_func
        def kernel(a: T.handle, b: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), "int32")
            B = T.match_buffer(b, ((n | 4) + (n ^ 2) + (n & 3) + (n << 1) + (n >> 1),), "int32")
            for i in range(n):
                B[0] = A[i]
    """)
    for n in range(1, 20):
        extent = (n | 4) + (n ^ 2) + (n & 3) + (n << 1) + (n >> 1)
        f(np.zeros(n, "int32"), np.zeros(extent, "int32"))
        with pytest.raises(ValueError, match=rf"= {extent} \(`n` is {n} by"):
            f(np.zeros(n, "int32"), np.zeros(extent + 1, "int32"))


def test_outputs_are_allocated_and_returned() -> None:
    program = parse("""
from tirlower.script import tir as T
@T.prim_func
def kernel(A: T.Buffer(("n",), "int32"), C: T.Buffer(("n",), "int32")):
    for i in range(n):
        C[i] = A[i] + 1
""")
    f = build(program, outputs={"kernel": ("C",)})
    assert f(np.arange(5, dtype="int32")).tolist() == [1, 2, 3, 4, 5]
    g = build(program.with_attr("tir.outputs", ["C"]))
    assert g(np.arange(3, dtype="int32")).tolist() == [1, 2, 3]


def test_the_work_of_a_call_is_estimated() -> None:
    text = """
        @T.prim_func
        def kernel(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer((64,), "float32")):
            for i, j in T.grid(n, m):
                for k in range(3):
                    A[i, j] = A[i, j] + 1.0
            for i in range(8):
                B[i * 8:i * 8 + 8] = B[i * 8:i * 8 + 8] * T.Broadcast(T.float32(2), 8)
    """
    import textwrap

    info = generate(parse(textwrap.dedent(text))).kernels["kernel"]
    assert isinstance(info.work, Compound)
    assert info.work.evaluate({"n": 10, "m": 20}) == 10 * 20 * 3 + 64
    assert info.work.evaluate({"n": -1, "m": 20}) == 64
    fixed = generate(
        parse('@T.prim_func\ndef f(A: T.Buffer((8,), "int32")):\n    for i in range(8):\n        A[i] = i\n')
    )
    assert fixed.kernels["f"].work == 8


def test_functions_with_large_arrays_look_at_the_stack_first() -> None:
    functions = "".join(f"""
    @T.prim_func
    def f{size}(A: T.Buffer(({size},), "int32")):
        X = T.alloc_buffer(({size},), "int32")
        for i in range({size}):
            X[i] = A[{size} - 1 - i]
        for i in range({size}):
            A[i] = X[i] + 1
""" for size in (1000, 1030))  # fmt: skip
    calls, made = build_module(parse(f"@I.ir_module\nclass Module:{functions}"))
    guarded = [size for size in (1000, 1030) if re.search(rf"^define .*f{size}\.kernel\.body", made.text, re.M)]
    assert guarded == [1030]  # more than 4 KB
    for name, call in calls.items():
        a = np.arange(int(name[1:]), dtype="int32")
        expected = a[::-1] + 1
        call(a)
        np.testing.assert_array_equal(a, expected)


def test_machines_of_targets() -> None:
    here = machine_of(Target("llvm"))
    assert here.cpu and here.features and here.num_threads == 0
    old = machine_of(Target("llvm -mcpu=x86-64-v3 -mattr=+avx512f,-fma", num_threads=3))
    assert old.features >= {"avx2", "avx512f"} and "fma" not in old.features and old.num_threads == 3
    assert "+avx512f,-fma" in compile_options(Target("llvm -mcpu=x86-64-v3 -mattr=+avx512f,-fma")).features
    for bad in ("nvptx", "llvm -mcpu=pentium9", "llvm -mattr=+avx1024", "llvm -mtriple=aarch64-linux-gnu"):
        with pytest.raises(CodegenError):
            machine_of(Target(bad))


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_code_for_lesser_processors_runs_here(cpu: str, rng: np.random.Generator) -> None:
    missing = host.lacking(cpu, "")
    if missing:
        pytest.skip(f"this machine has no {', '.join(missing)}")
    f = build(
        """
        @T.prim_func
        def kernel(A: T.Buffer((32,), "float32"), H: T.Buffer((32,), "float16"), I: T.Buffer((16,), "int32"),
                   B: T.Buffer((32,), "float32")):
            B[0:16] = T.exp(A[0:16]) + T.Cast("float32x16", H[0:16])
            B[16:32] = T.sin(A[I[T.Ramp(0, 1, 16)]]) * T.sqrt(T.fabs(A[16:32]))
            for i in range(32):
                H[i] = T.Cast("float16", T.fma(B[i], A[i], T.float32(1)))
    """,
        f"llvm -mcpu={cpu}",
        opt_level=2,
    )
    a, h = rng.normal(size=32).astype("float32"), rng.normal(size=32).astype("float16")
    index, b, before = rng.integers(0, 32, 16).astype("int32"), np.zeros(32, "float32"), h.astype("float64")
    f(a, h, index, b)
    x = a.astype("float64")
    want = np.concatenate([np.exp(x[:16]) + before[:16], np.sin(x[index]) * np.sqrt(np.abs(x[16:]))])
    np.testing.assert_allclose(b, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(h, want * x + 1, rtol=2e-3, atol=2e-3)


def test_two_exported_functions_of_one_name_are_refused() -> None:
    from tirlower.ir.func import IRModule

    func = parse('@T.prim_func\ndef f(A: T.Buffer((8,), "int32")):\n    A[0] = 1\n')
    with pytest.raises(LoweringError, match="global symbol 'f'"):
        generate(IRModule({"a": func, "b": func}))
    calls, made = build_module(IRModule({"a": func, "b": func.with_attr("global_symbol", "g")}))
    assert set(calls) == {"f", "g"} and set(made.kernels) == {"f", "g"}


def test_what_has_no_place_on_the_host_is_refused() -> None:
    with pytest.raises(CodegenError, match="scalable"):
        llvm_text("""
            @T.prim_func
            def kernel(A: T.Buffer((64,), "float32")):
                A[T.Ramp(0, 1, 4 * T.vscale())] = T.Broadcast(T.float32(1), 4 * T.vscale())
        """)
    with pytest.raises((CodegenError, LoweringError), match=r"custom|handle"):
        llvm_text('@T.prim_func\ndef kernel(A: T.Buffer((64,), "handle")):\n    T.evaluate(0)\n')


def test_the_width_of_vectors_is_an_option() -> None:
    text = '@T.prim_func\ndef f(A: T.Buffer((8,), "int32")):\n    A[0] = 1\n'
    assert '"prefer-vector-width"="256"' in llvm_text(text, "llvm -vector-width=256")


def test_generation_is_near_linear() -> None:
    """Our own work for ten times the statements, counted in calls rather than in seconds."""
    import cProfile
    import pstats

    def calls(n: int) -> int:
        body = "".join(f"    A[{k}] = A[{k + 1}] * {k} + {k % 7}\n" for k in range(n))
        func = parse(f'@T.prim_func\ndef f(A: T.Buffer(({n + 1},), "int32")):\n{body}')
        profile = cProfile.Profile()
        profile.runcall(lambda: generate(func).text)
        return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]

    assert calls(2000) < 11 * calls(200)
