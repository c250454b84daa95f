"""``PassContext(validate=True)``: the first guilty pass is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import TransformError
from tirlower.ir import BufferStore, For, Mutator, PrimFunc
from tirlower.ir.expr import IntImm, Var
from tirlower.ir.structural import assert_structural_equal, structural_equal
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import Sequential, Simplify, prim_func_pass
from tirlower.validate.passes import WORK_LIMIT, estimated_work, random_arguments


@T.prim_func
def scale(A: T.Buffer(("n", 4), "float32"), B: T.Buffer(("n", 4), "float32"), k: T.int32):
    for i, j in T.grid(n, 4):
        B[i, j] = A[i, j] * T.float32(2) + T.Cast("float32", k)


@prim_func_pass(opt_level=0, name="OffByOne")
def off_by_one(func: PrimFunc, mod, ctx) -> PrimFunc:
    class Worker(Mutator):
        def visit_For(self, op: For):
            op = self.generic(op)
            return op.with_(extent=IntImm(op.extent.dtype, 3)) if isinstance(op.extent, IntImm) else op

    return func.with_body(Worker().visit(func.body))


@prim_func_pass(opt_level=0, name="OutOfBounds")
def out_of_bounds(func: PrimFunc, mod, ctx) -> PrimFunc:
    class Worker(Mutator):
        def visit_BufferStore(self, op: BufferStore):
            return op.with_(indices=(op.indices[0] + 1, *op.indices[1:]))

    return func.with_body(Worker().visit(func.body))


@prim_func_pass(opt_level=0, name="Undefined")
def undefined(func: PrimFunc, mod, ctx) -> PrimFunc:
    class Worker(Mutator):
        def visit_BufferStore(self, op: BufferStore):
            return op.with_(indices=(Var("nowhere", "int32"), *op.indices[1:]))

    return func.with_body(Worker().visit(func.body))


def test_a_right_pipeline_passes():
    with tl.PassContext(validate=True):
        validated = tl.lower(scale)
    assert_structural_equal(validated, tl.lower(scale))


@pytest.mark.parametrize(
    ("guilty", "message"),
    [
        (off_by_one, "OffByOne changes"),
        (out_of_bounds, "OutOfBounds broke"),
        (undefined, "Undefined made an ill-formed"),
    ],
)
def test_the_guilty_pass_is_named(guilty, message):
    with tl.PassContext(validate=True), pytest.raises(TransformError, match=message):
        Sequential([Simplify(), guilty, Simplify()])(scale)


def test_without_validation_nothing_is_said():
    assert not structural_equal(Sequential([Simplify(), off_by_one])(scale), scale)


def test_large_programs_are_not_executed():
    @T.prim_func
    def large(A: T.Buffer((4096, 4096), "float32")):
        for i, j in T.grid(4096, 4096):
            A[i, j] = T.float32(0)

    assert estimated_work(large) > WORK_LIMIT
    assert estimated_work(scale) < WORK_LIMIT
    with tl.PassContext(validate=True):
        tl.lower(large)


def test_arguments_fit_the_parameters():
    arguments = random_arguments(scale)
    assert arguments is not None
    a, b, k = arguments
    assert a.shape == b.shape == (3, 4)
    assert a.dtype == np.float32
    tl.interpret(scale, a, b, k)
    np.testing.assert_allclose(b, a * 2 + k, rtol=1e-6)


_ALONE = """
import tirlower as tl
from tirlower.script import parse
from tirlower.transforms import CompactBufferAllocation, Sequential, Simplify, StorageRewrite, prim_func_pass
from tirlower.ir import For, IntImm, Mutator, IRModule

@prim_func_pass(opt_level=0, name="Shorter")
def shorter(func, mod, ctx):
    class Worker(Mutator):
        def visit_For(self, op):
            op = self.generic(op)
            return op.with_(extent=IntImm(op.extent.dtype, 3))
    return func.with_body(Worker().visit(func.body))

f = parse('''
@T.prim_func
def f(A: T.Buffer((4,), "int32")):
    for i in range(4):
        A[i] = i + 1
''')
caught = 0
for run in (lambda: shorter(f), lambda: Sequential([Simplify(), shorter])(f), lambda: tl.lower(f), lambda: tl.build(f)):
    with tl.PassContext(validate=True, config={"tir.add_lower_pass": [(2, shorter)]}):
        try:
            run()
        except tl.TransformError as error:
            assert "Shorter changes what 'f' computes" in error.message, error
            caught += 1
# The context that is given counts, not the one that is entered.
try:
    shorter(f, tl.PassContext(validate=True))
except tl.TransformError:
    caught += 1

class Wrong(StorageRewrite):
    name = ""
    def certify(self, before, after, ctx):
        raise tl.TransformError("asked")
for validate in (True, False):
    with tl.PassContext(validate=validate):
        try:
            Wrong()(parse('''
@T.prim_func
def g(A: T.Buffer((4,), "int32")):
    unused = T.alloc_buffer((4,), "int32")
    for i in range(4):
        A[i] = i
'''))
        except tl.TransformError as error:
            assert validate and error.message == "asked"
            caught += 1
print(caught)
"""


def test_validation_happens_in_a_process_that_imports_nothing_else():
    command = [sys.executable, "-c", _ALONE]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(tl.__file__).parent.parent)
    assert done.stdout == "6\n", done.stdout + done.stderr


def test_a_pass_certifies_its_own_results_and_a_list_those_of_its_passes():
    asked: list[str] = []

    class Asked(Simplify):
        name = ""

        def certify(self, before, after, ctx):
            super().certify(before, after, ctx)
            assert before is not after and ctx.validate and self.propagate_knowns_to_prove_conditional
            asked.append(type(self).__name__)

    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        for i in range(4):
            if i < 4:
                A[i] = i

    passes = Sequential([Asked(propagate_knowns_to_prove_conditional=True), Sequential([off_by_one])])
    with pytest.raises(TransformError, match="OffByOne"), tl.PassContext(validate=True):
        passes(f)
    passes(f)
    # Where nothing changed nothing is proved.
    with tl.PassContext(validate=True):
        Asked(propagate_knowns_to_prove_conditional=True)(scale)
    assert asked == ["Asked"]


def test_extents_that_no_number_is_known_of_have_no_arguments():
    head = 'def f(n: T.int32, x: T.float32, A: T.Buffer((4, {}), "float32")):\n    T.evaluate(0)\n'
    array = random_arguments(parse(head.format("n // 2")))[-1]
    assert isinstance(array, np.ndarray) and array.shape == (4, 2)
    for extent in ('T.Cast("int32", x)', "T.popcount(n)", "n // (n - 4)"):
        assert random_arguments(parse(head.format(extent))) is None
