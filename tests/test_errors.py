"""Bad input of every kind: its own error class, and a message with the place, the values, and what to do."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError
from tirlower.ir import Buffer, BufferStore, PrimFunc, Var, const
from tirlower.script import ir as I
from tirlower.script import parse
from tirlower.script import tir as T


def failing(kind, call, *parts: str) -> BaseException:
    """The error of a call, whose message has all the parts, in order."""
    with pytest.raises(kind) as caught:
        call()
    text, at = str(caught.value), 0
    for part in parts:
        found = text.find(part, at)
        assert found >= 0, f"{part!r} is missing (or not in this order) in:\n{text}"
        at = found + len(part)
    return caught.value


def script(*lines: str, params: str = 'A: T.Buffer((4, 4), "float32")') -> str:
    return "\n".join([f"@T.prim_func\ndef f({params}):", *[f"    {line}" for line in lines]])


def f32(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


@T.prim_func
def add_one(A: T.Buffer((4,), "float32")):
    for i in range(4):
        A[i] = A[i] + T.float32(1)


# ---------------------------------------------------------------- the script


SCRIPTS = {
    "a misspelt name": (
        ["for i in T.vectorised(4):", "    A[i, 0] = 1.0"],
        ["T has no 'vectorised'", "<script>:3:14", "T.vectorised", "^^^^", "did you mean `T.vectorized`?"],
    ),
    "an unknown intrinsic": (
        ["A[0, 0] = T.expp(A[1, 1])"],
        ["T has no 'expp'", "<script>:3:15", "did you mean `T.exp`?"],
    ),
    "an unknown operation by name": (
        ['A[0, 0] = T.call_intrin("float32", "tir.expx", A[1, 1])'],
        ["unknown operation 'tir.expx'", ":3:", "did you mean 'tir.exp'?"],
    ),
    "an undefined name": (
        ["A[0, 0] = alpha"],
        ["the name 'alpha' is not defined here", ":3:15", "^^^^^", "help: define it"],
    ),
    "a name out of its scope": (
        ["for i in range(4):", "    t = T.alloc_buffer((4,))", "    t[i] = 1.0", "A[0, 0] = t[0]"],
        ["the name 't' is not defined here", ":6:15"],
    ),
    "too few indices": (["A[0] = 1.0"], ["buffer 'A' has 2 dimensions", "1 ind", ":3:5"]),
    "broken syntax": (["for i in range(4)", "    A[i, 0] = 1.0"], ["expected ':'", ":3:22"]),
    "a statement outside the dialect": (
        ["try:", "    A[0, 0] = 1.0", "except ValueError:", "    pass"],
        ["`try` is not part of the dialect", ":3:5", "help: a script has"],
    ),
    "an unknown dtype": (
        ['t = T.alloc_buffer((4,), "float33")'],
        ["no data type 'float33'", "16, 32, 64", ":3:"],
    ),
    "true division of integers": (
        ["i: T.int32 = 4", "A[0, 0] = T.Cast('float32', i / 2)"],
        ["/ on integers is ambiguous", ":4:", "T.floordiv (//) or T.truncdiv"],
    ),
    "a wrong number of arguments": (["A[0, 0] = T.exp(A[0, 0], A[1, 1])"], ["T.exp takes 1 argument", "got 2", ":3:"]),
}


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_a_mistake_in_a_script_is_underlined(name):
    lines, parts = SCRIPTS[name]
    error = failing(tl.ScriptError, lambda: parse(script(*lines)), *parts)
    assert isinstance(error, tl.TirError) and isinstance(error, SyntaxError)
    assert f"<script>:{error.lineno}:{error.offset}" in str(error)


def test_the_underline_stands_under_the_wrong_part():
    error = failing(tl.ScriptError, lambda: parse(script("A[0, 0] = T.expp(A[1, 1])")))
    lines = str(error).split("\n")
    at = next(i for i, line in enumerate(lines) if "T.expp(" in line)
    assert lines[at].index("T.expp") == lines[at + 1].index("^")
    assert lines[at + 1].strip("| ") == "^" * len("T.expp")


def test_a_mistake_in_a_decorated_function_names_its_file():
    def make():
        @T.prim_func
        def wrong(A: T.Buffer((4,), "float32")):
            A[0] = T.float32(1) + unknown_name

    error = failing(tl.ScriptError, make, "unknown_name", "test_errors.py:", "+ unknown_name", "^^^")
    assert error.filename.endswith("test_errors.py")


# ---------------------------------------------------------------- ill-formed functions


def test_an_undefined_variable():
    handle, buffer, v = Var("a", "handle"), Buffer("A", (4,), "int32"), Var("v", "int32")
    func = PrimFunc((handle,), {handle: buffer}, "void", {"global_symbol": "f"}, BufferStore(buffer, const(1), (v,)))
    for run in (tl.build, tl.lower):
        failing(
            tl.WellFormedError, lambda run=run: run(func), "variable 'v'", "nothing defines it", "'f'", "A[v]", "help"
        )


def test_an_undefined_buffer():
    buffer = Buffer("A", (4,), "int32")
    func = PrimFunc((), {}, "void", {"global_symbol": "f"}, BufferStore(buffer, const(1), (const(0),)))
    error = failing(tl.WellFormedError, lambda: tl.build(func), "'A'", "nothing defines it")
    assert isinstance(error, ValueError)


def test_a_block_that_uses_a_loop_variable():
    text = script(
        "for i in range(4):", "    with T.block('b'):", "        vi = T.axis.spatial(4, i)", "        A[vi, i] = 1.0"
    )
    parts = ("block 'b' uses the loop variable 'i'", "<script>:4:9", "^^^", "bind the value to an iterator")
    failing(tl.WellFormedError, lambda: parse(text), *parts)


# ---------------------------------------------------------------- build and lower


def test_what_is_no_program():
    for run in (tl.build, tl.lower):
        failing(tl.TirError, lambda run=run: run(3), "a PrimFunc or an IRModule", "int", "@T.prim_func")


def test_a_module_that_exports_nothing():
    @I.ir_module
    class Mod:
        @T.prim_func(private=True)
        def hidden(A: T.Buffer((4,), "float32")):
            A[0] = T.float32(1)

    failing(tl.LoweringError, lambda: tl.build(Mod), "exports no function", "global_symbol")


def test_an_unknown_function_of_a_module():
    @I.ir_module
    class Mod:
        @T.prim_func
        def alpha(A: T.Buffer((4,), "float32")):
            A[0] = T.float32(1)

    exe = tl.build(Mod)
    failing(tl.TirError, lambda: exe["alpa"], "no function 'alpa'", "did you mean 'alpha'?")
    failing(AttributeError, lambda: exe.alpa, "no function 'alpa'", "did you mean 'alpha'?")


def test_an_unknown_pass():
    failing(tl.TransformError, lambda: tl.lower(add_one, until="FlatenBuffer"), "'FlatenBuffer'", "'FlattenBuffer'?")
    failing(
        tl.TransformError, lambda: tl.lower(add_one, until="xyz"), "no pass 'xyz'", "LowerInitBlock", "FlattenBuffer"
    )


def test_an_unknown_configuration():
    def unknown_key():
        tl.PassContext(config={"tir.UnrolLoop": {}})

    def unknown_option():
        with tl.PassContext(config={"tir.UnrollLoop": {"auto_max_stp": 16}}):
            tl.lower(add_one)

    failing(tl.TransformError, unknown_key, "'tir.UnrolLoop'", "did you mean 'tir.UnrollLoop'?")
    failing(tl.TransformError, unknown_option, "tir.UnrollLoop", "'auto_max_stp'", "did you mean 'auto_max_step'?")


@pytest.mark.parametrize(
    ("target", "kind", "parts"),
    [
        ("lvm", tl.TirError, ["unknown target 'lvm'", "did you mean 'llvm'?"]),
        ("llvm -mcpuu=x", tl.TirError, ["'llvm' has no option 'mcpuu'", "did you mean 'mcpu'?"]),
        ("llvm -mcpu=nonesuch", tl.CodegenError, ["unknown processor 'nonesuch'", "help"]),
        ("llvm -mattr=+avx1024", tl.CodegenError, ["avx1024", "help"]),
        ("llvm -mtriple=riscv64-unknown-elf", tl.CodegenError, ["riscv64-unknown-elf", "help"]),
        ("hexagon", tl.TirError, ["hexagon", "help"]),
    ],
)
def test_an_unsupported_target(target, kind, parts):
    failing(kind, lambda: tl.build(add_one, target), *parts)


def test_an_unknown_llvm_intrinsic():
    func = parse(script('A[0, 0] = T.call_llvm_pure_intrin("float32", "llvm.squrt", A[1, 1])'))
    failing(tl.CodegenError, lambda: tl.build(func), "'llvm.squrt'", "<script>:3:15", "^^^", "help")
    failing(tl.InterpreterError, lambda: tl.interpret(func, f32(4, 4)), "'llvm.squrt'", ":3:15", "register_extern")


def test_an_undefined_external_function():
    func = parse(script('A[0, 0] = T.call_extern("float32", "no_such_function", A[1, 1])'))
    failing(tl.CodegenError, lambda: tl.build(func), "'no_such_function'", "register_symbol")
    failing(
        tl.InterpreterError, lambda: tl.interpret(func, f32(4, 4)), "'no_such_function'", ":3:15", "register_extern"
    )


@pytest.mark.parametrize(
    ("lines", "kind", "parts"),
    [
        (
            ["for i in T.unroll(n):", "    A[i] = 1.0"],
            tl.TransformError,
            ["cannot unroll loop 'i'", "extent n", ":3:5", "help"],
        ),
        (
            ['for i in T.thread_binding(4, thread="threadIdx.x"):', "    A[i] = 1.0"],
            tl.LoweringError,
            ["'threadIdx.x'", ":3:5", "GPU target"],
        ),
        (['T.tvm_storage_sync("shared")'], tl.CodegenError, ["tvm_storage_sync", ":3:5", "GPU"]),
        (
            ["A[T.ramp(0, 1, 4 * T.vscale())] = A[T.ramp(4, 1, 4 * T.vscale())]"],
            tl.CodegenError,
            ["scalable", "fixed number of lanes"],
        ),
    ],
    ids=["unroll", "threads", "barrier", "scalable"],
)
def test_what_a_cpu_cannot_do(lines, kind, parts):
    func = parse(script(*lines, params='A: T.Buffer(("n",), "float32"), n: T.int32'))
    failing(kind, lambda: tl.build(func), *parts)


def test_outputs_that_are_no_parameters():
    failing(tl.LoweringError, lambda: tl.build(add_one, outputs=["Q"]), "`Q`", "not a buffer parameter", "'A'")


def test_an_unknown_source_kind():
    kernel = tl.build(add_one)
    failing(tl.TirError, lambda: kernel.source("ams"), "'ams'", "did you mean 'asm'?")
    failing(tl.TirError, lambda: kernel.source("ptx"), "'ptx'", "nvptx")


# ---------------------------------------------------------------- arguments


@T.prim_func
def scale(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n", 2), "int32"), k: T.int8, x: T.float32):
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(n, 2):
        B[i, j] = A[i] * T.Cast("int32", k) + T.Cast("int32", x)


@pytest.fixture(scope="module")
def kernel():
    return tl.build(scale)


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


_WHOLE = np.zeros(24, np.int32)

ARGUMENTS = {
    "dtype": ((i32(1, 2).astype("int64"), np.zeros((2, 2), "int32"), 1, 1.0), ArgumentTypeError, ["`A`", "int32", "int64"]),
    "rank": ((np.ones((2, 2), "int32"), np.zeros((2, 2), "int32"), 1, 1.0), ArgumentValueError, ["`A`", "1 dim", "2"]),
    "extent": ((i32(1, 2), np.zeros((2, 3), "int32"), 1, 1.0), ArgumentValueError, ["`B`", "shape[1] to be 2", "got 3"]),
    "symbolic extent": (
        (i32(1, 2), np.zeros((3, 2), "int32"), 1, 1.0), ArgumentValueError, ["`B`", "shape[0]", "n = 2", "`A`", "got 3"],
    ),
    "stride": (
        (i32(1, 2, 3, 4)[::2], np.zeros((2, 2), "int32"), 1, 1.0), ArgumentValueError,
        ["`A`", "C-contiguous", "strides (8,)", "ascontiguousarray"],
    ),
    "read-only output": (
        (i32(1, 2), _read_only(np.zeros((2, 2), "int32")), 1, 1.0), ArgumentValueError, ["`B`", "writeable", "read-only"],
    ),
    "missing": ((i32(1, 2), np.zeros((2, 2), "int32"), 1), ArgumentTypeError, ["missing argument `x`", "4", "got 3"]),
    "too many": ((i32(1), np.zeros((1, 2), "int32"), 1, 1.0, 5), ArgumentTypeError, ["expected 4 arguments", "got 5"]),
    "overlap": (
        (_WHOLE[:6], _WHOLE[4:16].reshape(6, 2), 1, 1.0), ArgumentValueError,
        ["`B`", "does not overlap `A`", "overlap", "copy"],
    ),
    "range of a scalar": (
        (i32(1), np.zeros((1, 2), "int32"), 128, 1.0), ArgumentValueError, ["`k`", "int8 from -128 to 127", "128"],
    ),
    "type of a scalar": ((i32(1), np.zeros((1, 2), "int32"), 1.5, 1.0), ArgumentTypeError, ["`k`", "int8", "float 1.5"]),
    "no array": ((None, np.zeros((1, 2), "int32"), 1, 1.0), ArgumentTypeError, ["`A`", "int32", "None"]),
    "a string": ((i32(1), np.zeros((1, 2), "int32"), 1, "x"), ArgumentTypeError, ["`x`", "float32", "str"]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_a_wrong_argument_is_refused_before_anything_runs(kernel, name):
    args, kind, parts = ARGUMENTS[name]
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    error = failing(kind, lambda: kernel(*args), *parts)
    assert isinstance(error, tl.ArgumentError)
    for now, then in zip(args, before, strict=True):
        np.testing.assert_array_equal(now, then)
    # The interpreter refuses the same.
    with pytest.raises(tl.ArgumentError):
        tl.interpret(scale, *args)


def test_an_unknown_keyword(kernel):
    args = {"A": i32(1), "B": np.zeros((1, 2), "int32"), "k": 1, "y": 1.0}
    failing(ArgumentTypeError, lambda: kernel(**args), "`y`", "A, B, k, x")


# ---------------------------------------------------------------- at run time


@T.prim_func
def temporary(A: T.Buffer((4,), "int32"), n: T.int64):
    kept = T.alloc_buffer((n,), "int32")
    for i in range(4):
        kept[A[i]] = A[i]
    for i in range(4):
        A[i] = kept[A[3 - i]]


def test_an_allocation_that_is_too_large():
    run = tl.build(temporary)
    a = i32(0, 1, 2, 3)
    run(a, 4)
    assert a.tolist() == [3, 2, 2, 3]
    failing(MemoryError, lambda: run(i32(0, 1, 2, 3), 1 << 46), str(4 << 46), "`kept`", "`temporary`")
    failing(MemoryError, lambda: run(i32(0, 1, 2, 3), (1 << 62) + 1), "`kept`", str((1 << 62) + 1))
    failing(MemoryError, lambda: run(i32(0, 1, 2, 3), -3), "`kept`", "-3")
    failing(tl.InterpreterError, lambda: tl.interpret(temporary, i32(0, 1, 2, 3), 1 << 46), "'kept'", "help")


def test_a_constant_allocation_beyond_any_address():
    # Both ends are used: it cannot shrink.
    text = script("t = T.alloc_buffer((1 << 62, 4))", "t[0, 0] = A[0, 0]", f"A[1, 1] = t[{(1 << 62) - 1}, 3]")
    func = parse(text)
    failing(tl.TransformError, lambda: tl.build(func), "'t'", f"{1 << 62} * 4", "help: use smaller extents")


@T.prim_func
def divide(A: T.Buffer((8,), "int32"), d: T.int32):
    for i in range(8):
        A[i] = A[i] // (d - i)


def test_a_division_by_zero():
    run = tl.build(divide)
    failing(ZeroDivisionError, lambda: run(np.arange(8, dtype="int32"), 3), "3", "0", "`divide`")
    failing(
        tl.InterpreterError,
        lambda: tl.interpret(divide, np.arange(8, dtype="int32"), 3),
        "division by zero: 3 divided by 0", "test_errors.py", "at i = 3",
    )  # fmt: skip
    a = np.arange(8, dtype="int32")
    run(a, 8)  # the kernel works after an error
    np.testing.assert_array_equal(a, np.arange(8) // (8 - np.arange(8)))


def test_a_division_by_zero_in_a_parallel_loop():
    @T.prim_func
    def parallel(A: T.Buffer((4096,), "int32"), d: T.int32):
        for i in T.parallel(4096):
            A[i] = 100000 // (A[i] - d)

    run = tl.build(parallel)
    for d in (0, 4095):
        failing(ZeroDivisionError, lambda d=d: run(np.arange(4096, dtype="int32"), d), "100000", "0", "`parallel`")
    a = np.arange(4096, dtype="int32")
    run(a, -1)
    np.testing.assert_array_equal(a, 100000 // np.arange(1, 4097))


def test_a_failed_assertion():
    @T.prim_func
    def checked(n: T.int32):
        T.Assert(n < 10, "n is too large")
        assert n % 2 == 0, "n is odd"

    run = tl.build(checked)
    run(4)
    for call in (run, lambda n: tl.interpret(checked, n)):
        error = failing(tl.RuntimeAssertError, lambda call=call: call(12), "n is too large", "test_errors.py:")
        assert isinstance(error, AssertionError)
        failing(tl.RuntimeAssertError, lambda call=call: call(5), "n is odd", "test_errors.py:")


def test_a_failed_assertion_in_a_parallel_loop():
    @T.prim_func
    def checked(A: T.Buffer((4096,), "int32"), worst: T.int32):
        for i in T.parallel(4096):
            T.Assert(A[i] != worst, "the worst element")
            A[i] = A[i] + 1

    run = tl.build(checked)
    for worst in (0, 17, 4095):
        failing(
            tl.RuntimeAssertError,
            lambda worst=worst: run(np.arange(4096, dtype="int32"), worst),
            "the worst element", "test_errors.py:",
        )  # fmt: skip
    a = np.arange(4096, dtype="int32")
    run(a, -1)  # the pool works after an error
    np.testing.assert_array_equal(a, np.arange(4096) + 1)


def test_a_failed_assertion_in_a_nested_parallel_loop():
    @T.prim_func
    def nested(A: T.Buffer((64, 64), "int32")):
        for i in T.parallel(64):
            for j in T.parallel(64):
                T.Assert(A[i, j] < 4000, "too large")
                A[i, j] = 0

    failing(
        tl.RuntimeAssertError, lambda: tl.build(nested)(np.arange(4096, dtype="int32").reshape(64, 64)), "too large"
    )


def test_a_call_between_functions_passes_the_error_on():
    @I.ir_module
    class Mod:
        @T.prim_func(private=True)
        def checked(x: T.int32) -> T.int32:
            T.Assert(x >= 0, "x is negative")
            T.ret(x + 1)

        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for i in range(4):
                A[i] = Mod.checked(A[i])

    exe = tl.build(Mod)
    a = i32(0, 1, 2, 3)
    exe.main(a)
    assert a.tolist() == [1, 2, 3, 4]
    failing(tl.RuntimeAssertError, lambda: exe.main(i32(1, -1, 2, 3)), "x is negative")


def test_an_access_out_of_bounds_is_found_by_the_interpreter():
    @T.prim_func
    def scatter(A: T.Buffer((4,), "int32"), P: T.Buffer((4,), "int32")):
        for i in range(4):
            A[P[i]] = i

    failing(
        tl.BoundsError, lambda: tl.interpret(scatter, i32(0, 0, 0, 0), i32(0, 3, 9, 1)),
        "A[9] is out of bounds", "test_errors.py:", "^^^", "(4,)", "at i = 2", "help",
    )  # fmt: skip


def test_memory_never_written_is_found_by_the_interpreter():
    @T.prim_func
    def unwritten(A: T.Buffer((4,), "int32")):
        t = T.alloc_buffer((4,), "int32")
        for i in range(3):
            t[i] = 1
        for i in range(4):
            A[i] = t[i]

    failing(
        tl.UnboundError, lambda: tl.interpret(unwritten, i32(0, 0, 0, 0)), "t[3]", "before it is written", "at i = 3"
    )


def test_more_elements_than_int32_counts_have_positions_of_int64():
    @T.prim_func
    def large(A: T.Buffer((1 << 17, 1 << 16), "int8"), B: T.Buffer((4,), "int8")):
        for i in range(4):
            B[i] = A[131068 + i, 5]

    text = tl.lower(large, until="FlattenBuffer").script()
    assert f"T.int64({1 << 33})" in text and f"T.int64({131068 * 65536 + 5})" in text
