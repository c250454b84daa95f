from __future__ import annotations

import gc

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import CodegenError
from tirlower.emit.compile import SIMPLIFY_AGAIN, CompileOptions, compile_object, emit_assembly, optimized_ir
from tirlower.machine import cpu as host
from tirlower.script import parse

pytestmark = pytest.mark.by_day

_SUM = """
define void @scale(ptr noalias %a, ptr noalias %b, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr inbounds float, ptr %a, i64 %i
  %x = load float, ptr %p
  %y = fmul float %x, 3.0
  %q = getelementptr inbounds float, ptr %b, i64 %i
  store float %y, ptr %q
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def test_object_ir_and_assembly():
    done = compile_object(_SUM, CompileOptions.for_host(), want_ir=True)
    assert len(done.object) > 100
    assert done.ir is not None and "x float>" in done.ir
    assert done.optimized_ir == done.ir
    assert "scale:" in done.assembly or "_scale:" in done.assembly
    assert set(done.timings) == {"parse", "optimize", "emit"} and min(done.timings.values()) >= 0
    lazily = compile_object(_SUM, CompileOptions.for_host())
    assert lazily.ir is None and "x float>" in lazily.optimized_ir
    assert lazily.object == done.object


def test_vectorization_can_be_turned_off():
    text = optimized_ir(_SUM, CompileOptions.for_host().with_(loop_vectorize=False))
    assert "x float>" not in text and "fmul float" in text


@pytest.mark.skipif(not host.triple().startswith("x86_64"), reason="looks at x86 registers")
def test_processor_and_features_count():
    plain = CompileOptions(triple=host.triple())
    assert "zmm" not in emit_assembly(_SUM, plain) and "ymm" not in emit_assembly(_SUM, plain)
    assert "ymm" in emit_assembly(_SUM, plain.with_(cpu="haswell"))
    assert "ymm" in emit_assembly(_SUM, plain.with_(features="+avx"))
    assert "ymm" not in emit_assembly(_SUM, plain.with_(cpu="haswell", features="-avx"))


def test_pipelines():
    text = (
        "define internal i32 @g(i32 %x) alwaysinline {\n  ret i32 %x\n}\n"
        "define i32 @f(i32 %x) {\n  %s = alloca i32\n  store i32 %x, ptr %s\n  %y = load i32, ptr %s\n"
        "  %z = call i32 @g(i32 %y)\n  ret i32 %z\n}\n"
    )
    options = CompileOptions.for_host()
    none = optimized_ir(text, options.with_(pipeline="none"))
    assert "alloca" in none and "call i32 @g" in none
    for pipeline in ("minimal", "default"):
        done = optimized_ir(text, options.with_(pipeline=pipeline))
        assert "alloca" not in done and "@g" not in done
        assert "ret i32 %x" in done
    # The minimal pipeline leaves loops alone.
    assert "x float>" not in optimized_ir(_SUM, options.with_(pipeline="minimal"))


def test_other_targets_give_assembly():
    text = 'target triple = "nvptx64-nvidia-cuda"\ndefine ptx_kernel void @k(ptr addrspace(1) %p) {\n'
    text += "  %x = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n  store i32 %x, ptr addrspace(1) %p\n  ret void\n}\n"
    ptx = emit_assembly(text, CompileOptions(cpu="sm_80", triple="nvptx64-nvidia-cuda"))
    assert ".entry k" in ptx and ".target sm_80" in ptx


def test_a_syntax_error_points_at_its_line():
    text = "define i32 @f() {\n  %x = add i32 1, %missing\n  ret i32 %x\n}\n"
    with pytest.raises(CodegenError, match="use of undefined value '%missing'") as caught:
        compile_object(text, CompileOptions())
    span = caught.value.labels[0].span
    assert span is not None and (span.line, span.col) == (2, 18)
    assert "2 |   %x = add i32 1, %missing" in str(caught.value)


def test_a_verifier_error_points_at_the_instruction():
    text = (
        "define i32 @f(i32 %a) {\nentry:\n  br label %b\nb:\n  %x = add i32 1, %y\n  ret i32 %x\n"
        "c:\n  %y = add i32 %a, 1\n  br label %b\n}\n"
    )
    with pytest.raises(CodegenError, match="does not dominate") as caught:
        compile_object(text, CompileOptions())
    span = caught.value.labels[0].span
    assert span is not None and span.line == 5


def test_wrong_options_are_refused():
    with pytest.raises(CodegenError, match="opt_level is 4"):
        CompileOptions(opt_level=4)
    with pytest.raises(CodegenError, match="unknown pipeline"):
        CompileOptions(pipeline="fast")  # type: ignore[arg-type]
    with pytest.raises(CodegenError, match="no target for the triple 'pdp11-dec-unix'"):
        compile_object(_SUM, CompileOptions(triple="pdp11-dec-unix"))


def test_the_key_holds_every_option():
    a = CompileOptions.for_host()
    for change in (
        {"cpu": "x"},
        {"features": "+x"},
        {"triple": "x"},
        {"opt_level": 1},
        {"pipeline": "none"},
        {"loop_vectorize": False},
        {"loop_interleave": False},
        {"loop_unroll": False},
        {"slp_vectorize": True},
        {"inline_threshold": 1},
    ):
        differing = {name for name, text in a.with_(**change).key().items() if a.key()[name] != text}
        assert differing == {f"option {next(iter(change))}"}


def test_errors_in_cycles_of_garbage_do_not_crash():
    # Each failure's traceback holds the frames, which held a module and its context.
    bad = "define i32 @f(i32 %a) {\nentry:\n  %x = add i32 1, %y\n  %y = add i32 %a, 1\n  ret i32 %x\n}\n"
    failed = 0
    for _ in range(50):
        try:
            compile_object(bad, CompileOptions())
        except CodegenError as error:
            cycle: list[object] = [error]
            cycle.append(cycle)
            failed += 1
    gc.collect()
    assert failed == 50


SORT = """
@T.prim_func
def sort(x: T.Buffer(("N",), "float64")):
    for i in range(1, x.shape[0]):
        j = i
        while j > 0 and x[j - 1] > x[j]:
            x[j - 1], x[j] = x[j], x[j - 1]
            j -= 1
"""


def test_guards_in_a_while_loop_leave_its_elements_in_registers():
    kernel = tl.build(parse(SORT), schedule="none")
    # One element is loaded ahead of the inner loop, and one in it: the other is what was stored last.
    assert kernel.source("llvm-opt").count("load double") == 2
    x = np.random.default_rng(5).random(300)
    expected = np.sort(x)
    kernel(x)
    assert (x == expected).all()


@pytest.mark.parametrize(("body", "marked"), [
    ("k = n\n    while k < 9:\n        A[k] = 1\n        k += 1", True),
    ("k = 0\n    while k < 9:\n        A[k % 4] = 1\n        k += 1", False),
    ("for k in range(9): A[n] = 1", False),
    ("A[n] = 1", False),
])  # fmt: skip
def test_functions_with_guards_in_while_loops_are_simplified_again(body, marked):
    text = f"@T.prim_func\ndef f(A: T.Buffer((64,), 'int32'), n: T.int32):\n    {body}\n"
    assert (SIMPLIFY_AGAIN in tl.build(parse(text), schedule="none").source("llvm")) is marked
