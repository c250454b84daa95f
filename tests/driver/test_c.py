"""The target c through the public surface: build, jit, calls, sources, errors, overlapping arrays."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest

import tirlower as tl
from tests.c.batch import needs_compiler
from tirlower.__main__ import main
from tirlower.driver.pipelines import pipeline_for
from tirlower.script import parse
from tirlower.script import tir as T

pytestmark = needs_compiler


@T.prim_func
def scale(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), k: T.float32):
    for i in T.parallel(n):
        B[i] = A[i] * k


@T.prim_func
def pick(A: T.Buffer((8,), "int32"), at: T.int32) -> T.int32:
    return A[at]


def test_a_kernel_is_called_as_any_other():
    kernel = tl.build(scale, "c")
    a, b = np.arange(5, dtype="float32"), np.zeros(5, "float32")
    assert kernel(a, b, 2.0) is None and b.tolist() == [0, 2, 4, 6, 8]
    kernel(A=a, k=3, B=b)
    assert (
        b[4] == 12 and kernel.__doc__ == "scale(A, B, k)" and repr(kernel) == "<tirlower.Kernel scale(A, B, k) for c>"
    )
    assert kernel.func.name == "scale" and "A[i]" in kernel.func.script()
    assert tl.build(scale, "c", outputs=["B"])(a, 0.5).tolist() == [0, 0.5, 1, 1.5, 2]


def test_errors_are_those_of_the_target_llvm():
    kernels = [tl.build(pick, target) for target in ("c", "llvm")]
    a = np.arange(8, dtype="int32")
    for args in ((a, 8), (a, -1), (a, "x"), (a[:7], 0), (a.astype("int64"), 0), (a,)):
        told = []
        for kernel in kernels:
            with pytest.raises(Exception) as caught:
                kernel(*args)
            told.append((type(caught.value), str(caught.value)))
        assert told[0] == told[1]
    assert [kernel(a, 3) for kernel in kernels] == [3, 3]


def test_sources():
    kernel = tl.build(scale, "c")
    assert "static int32_t scale_kernel(float *A, float *B, float k, int32_t n, tir_error *err)" in kernel.source("c")
    assert "    B[i] = A[i] * k;" in kernel.source("c")
    assert kernel.source("tir").startswith("@T.prim_func") and "FlattenBuffer" in "".join(kernel.ir_after)
    with pytest.raises(tl.TirError, match="no source of kind 'llvm'"):
        kernel.source("llvm")
    with pytest.raises(tl.TirError, match="no source of kind 'c' for the target llvm"):
        tl.build(scale, "llvm").source("c")
    assert "2 accesses proved" in str(kernel.report())
    assert kernel.explain_miss()


def test_arrays_that_overlap_get_a_version_of_their_own():
    shift = parse(
        '@T.prim_func\ndef f(A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32")):\n'
        "    for l in T.vectorized(6):\n        B[l] = A[l] + 1\n"
    )
    kernel = tl.build(shift, "c")
    memory = np.zeros(8, "int32")
    kernel(memory[:6], memory[1:7])
    meant = np.zeros(8, "int32")
    tl.interpret(shift, meant[:6], meant[1:7])
    assert memory.tolist() == meant.tolist() == [0, 1, 1, 1, 1, 1, 1, 0]
    assert set(kernel.artifact.overlap) == {"f"}


def test_arrays_of_two_types_that_overlap():
    both = parse(
        '@T.prim_func\ndef f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "float32")):\n'
        "    for i in range(64):\n        B[i] = T.Cast('float32', A[i] + A[0])\n"
    )
    memory = np.arange(64, dtype="int32")
    meant = memory.copy()
    tl.build(both, "c")(memory, memory.view("float32"))
    tl.interpret(both, meant, meant.view("float32"))
    assert (memory == meant).all()


def test_a_module_and_its_functions():
    module = tl.build(
        parse("""
@I.ir_module
class M:
    @T.prim_func(private=True)
    def twice(x: T.int32) -> T.int32:
        return x * 2

    @T.prim_func
    def down(n: T.int64) -> T.int64:
        if n <= 0:
            return T.int64(0)
        return M.down(n - T.int64(1)) + T.int64(1)

    @T.prim_func
    def run(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = M.twice(A[i])
"""),
        "c",
    )
    a = np.arange(4, dtype="int32")
    module.run(a)
    assert a.tolist() == [0, 2, 4, 6] and sorted(module) == ["down", "run"]
    assert module["down"](900) == 900
    with pytest.raises(RecursionError, match="`down` nest deeper than 1000"):
        module["down"](1 << 40)
    assert module["down"](5) == 5


def test_jit_compiles_at_the_first_call():
    made = tl.jit(target="c")(scale)
    b = np.zeros(3, "float32")
    made(np.ones(3, "float32"), b, 4.0)
    assert b.tolist() == [4, 4, 4] and "scale_kernel" in made.source("c")
    with tl.Target("c"):
        current = tl.jit(scale)
        current(np.ones(3, "float32"), b, 5.0)
        assert b.tolist() == [5, 5, 5] and current.report().target == "c" and "scale_kernel" in current.source("c")
        assert "scale_kernel" in tl.build(scale).source("c")


def test_kernels_are_pickled_as_what_made_them():
    b = np.zeros(2, "float32")
    pickle.loads(pickle.dumps(tl.build(scale, "c")))(np.ones(2, "float32"), b, 5.0)
    assert b.tolist() == [5, 5]


def test_a_loop_without_end_is_not_taken_to_end():
    text = tl.build(
        parse('@T.prim_func\ndef f(A: T.Buffer((1,), "int32")):\n    while A[0] == 0:\n        A[0] = A[0] * 2\n'), "c"
    ).source("c")
    assert "while (1) {" in text  # whose condition is a constant: C may not take it to end


def test_what_has_no_form_in_c_is_told_with_place_and_remedy():
    for text, said, remedy in (
        (
            '@T.prim_func\ndef f(A: T.Buffer((8,), "float32")):\n    for i in T.thread_binding(8, thread="threadIdx.x"):\n        A[i] = 1.0\n',
            "threadIdx.x",
            "GPU",
        ),
        (
            '@T.prim_func\ndef f(A: T.Buffer((1,), "float64")):\n    A[0] = T.call_llvm_pure_intrin("float64", "llvm.sqrt", A[0])\n',
            "call_llvm_pure_intrin",
            "call_extern",
        ),
        (
            '@T.prim_func\ndef f(h: T.float16, A: T.Buffer((1,), "float16")):\n    A[0] = T.call_extern("float16", "fabsf", h)\n',
            "no type for the float16",
            "float32",
        ),
    ):
        with pytest.raises(tl.LoweringError, match=said) as caught:
            tl.build(parse(text), "c")
        assert remedy in str(caught.value.help) and "--> <script>" in str(caught.value)


def test_the_target_llvm_does_not_import_the_room():
    import subprocess

    code = "import tirlower as tl; tl.build; import tirlower.driver.api, sys; print(any(f'{n}.'.startswith('tirlower.c.') for n in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_pipeline_makes_scalar_loops_and_no_more():
    names = pipeline_for(tl.Target("c")).names()
    assert "ExpandLanes" in names and not {"VectorizeLoop", "UnrollLoop", "LoopPartition", "StorageRewrite"} & set(
        names
    )
    assert all(step.why for step in pipeline_for(tl.Target("c")))


def test_the_command_line_shows_the_text(tmp_path, capsys):
    program = tmp_path / "program.py"
    program.write_text(
        "from tirlower.script import tir as T\n\n@T.prim_func\n"
        'def twice(A: T.Buffer((4,), "int32")):\n    for i in range(4):\n        A[i] = A[i] * 2\n'
    )
    assert main(["source", f"{program}:twice", "--target", "c", "--kind", "c"]) == 0
    assert "A[i] = (int32_t)((uint32_t)A[i] * 2u);" in capsys.readouterr().out
