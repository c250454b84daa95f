"""The file that shows a wrong pass alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import TransformError
from tirlower.ir import Add, BufferStore, For, IfThenElse, IRModule, Mutator, PrimFunc, Sub
from tirlower.ir.expr import IntImm, Var
from tirlower.script import parse
from tirlower.transforms import UnrollLoop, prim_func_pass
from tirlower.validate.reproducer import directory, write_reproducer
from tirlower.validate.shrink import Case

ROOT = Path(tl.__file__).parent.parent

PROGRAM = """
@T.prim_func
def main(A: T.Buffer(("n", 4), "float32"), B: T.Buffer(("n", 4), "float32"), k: T.int32):
    for i, j in T.grid(n, 4):
        if j != k - 3:
            B[i, j] = A[i, j] * T.float32(2) + T.Cast("float32", k)
    for i in range(n):
        A[i, 0] = A[i, 1] + B[i, 2]
"""


def rewriting(name: str, **handlers: object) -> object:
    worker = type("Worker", (Mutator,), handlers)

    @prim_func_pass(opt_level=0, name=name)
    def made(func: PrimFunc, mod: object, ctx: object) -> PrimFunc:
        return func.with_body(worker().visit(func.body))

    return made


def _shorter(self: Mutator, op: For) -> For:
    op = self.generic(op)
    return op.with_(extent=IntImm(op.extent.dtype, 3)) if isinstance(op.extent, IntImm) else op


def _unguarded(self: Mutator, op: IfThenElse) -> object:
    return self.generic(op).then_case


def _swapped(self: Mutator, op: Add) -> object:
    return Sub(op.a, op.b)


def _outside(self: Mutator, op: BufferStore) -> object:
    return op.with_(indices=(op.indices[0] + 1, *op.indices[1:]))


def _undefined(self: Mutator, op: BufferStore) -> object:
    return op.with_(indices=(Var("nowhere", "int32"), *op.indices[1:]))


BROKEN = {
    "Shorter": {"visit_For": _shorter},
    "Unguarded": {"visit_IfThenElse": _unguarded},
    "Swapped": {"visit_Add": _swapped},
    "Outside": {"visit_BufferStore": _outside},
    "Undefined": {"visit_BufferStore": _undefined},
}


def run(path: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TIRLOWER_CACHE": "off"}
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=env, cwd=path.parent)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_pass_leaves_a_file_that_shows_it(name: str, tmp_path: Path) -> None:
    broken = rewriting(name, **BROKEN[name])
    config = {"tir.validate.reproducer_dir": str(tmp_path)}
    with tl.PassContext(validate=True, config=config), pytest.raises(TransformError) as caught:
        broken(parse(PROGRAM))
    message = str(caught.value)
    (path,) = tmp_path.glob("*.py")
    assert name in message and str(path) in message and "smallest program" in message
    shown = run(path)
    assert shown.returncode == 1, shown.stdout + shown.stderr
    if name == "Undefined":
        assert "nowhere" in shown.stdout + shown.stderr
    elif name == "Outside":
        assert "out of bounds" in shown.stderr
    else:
        assert "mismatch" in shown.stdout
    before = shown.stdout.partition("becomes")[0]
    assert len(re.findall(r"\[.*\] = ", before)) <= 1, "one store is left"
    assert len(before.splitlines()) <= 9, before


def test_a_pass_of_the_package_is_run_by_the_file(tmp_path: Path) -> None:
    mod = IRModule(parse(PROGRAM))
    arguments = (np.ones((2, 4), "float32"), np.zeros((2, 4), "float32"), 1)
    ctx = tl.PassContext(opt_level=1, config={"tir.validate.reproducer_dir": str(tmp_path)})
    one = UnrollLoop(auto_max_step=16)
    path = write_reproducer(Case(mod, "main", arguments), one, one(mod), 'a "headline"', ctx)
    assert "find_pass('tir.UnrollLoop')(auto_max_step=16)(BEFORE)" in path.read_text(encoding="utf-8")
    shown = run(path)
    assert shown.returncode == 0 and "no difference any more" in shown.stdout, shown.stdout + shown.stderr


def test_arguments_of_every_kind(tmp_path: Path) -> None:
    mod = IRModule(
        parse("""
@T.prim_func
def main(A: T.Buffer((2,), "bfloat16"), B: T.Buffer((0, 3), "int8"), C: T.Buffer((2,), "bool"), D: T.Buffer((3,), "float64"), x: T.float32):
    A[0] = A[1]
    D[0] = D[1]
""")
    )
    arguments = (
        np.array([1.5, -0.1], ml_dtypes.bfloat16),
        np.zeros((0, 3), "int8"),
        np.array([True, False]),
        np.array([np.nan, -np.inf, 0.1]),
        1.25,
    )
    ctx = tl.PassContext(config={"tir.validate.reproducer_dir": str(tmp_path)})
    other = mod.map_functions(lambda f: f.with_body(f.body.with_(stmts=f.body.stmts[1:])))
    path = write_reproducer(Case(mod, "main", arguments), rewriting("Dropped"), other, "dropped", ctx)
    shown = run(path)
    assert shown.returncode == 1 and "argument 0 was" in shown.stdout, shown.stdout + shown.stderr
    assert "argument 3" not in shown.stdout, "NaN is the same as NaN"


def test_the_directory(tmp_path: Path) -> None:
    assert directory(tl.PassContext(config={"tir.validate.reproducer_dir": str(tmp_path / "new")})) == tmp_path / "new"
    assert directory(tl.PassContext()).is_dir()
