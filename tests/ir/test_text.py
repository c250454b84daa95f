"""Nodes have texts whatever was imported: each piece of code runs in a process that imports what it says alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FIRST = """
from tirlower.ir import *
from tirlower.ir.buffer import Buffer, Range, decl_buffer
from tirlower.ir.stmt import BlockIter
i = Var("i")
A = decl_buffer((8,), "float32", "A")
store = BufferStore(A, const(1.0, "float32"), (i + 1,))
f = PrimFunc((), {}, "void", {"global_symbol": "f"}, store)
"""

TEXTS = {
    "print(i + 1, repr(i * 2))": "i + 1 Mul(i * 2)\n",
    "print(Range(0, i + 2))": "0:i + 2\n",
    "print(A[i + 1])": "A[i + 1]\n",
    "print(f.body)": "A[i + 1] = T.float32(1)\n",
    "print('A[i + 1] = T.float32(1)' in str(f), 'A[i + 1]' in f.script(), f)": None,
    "f.show(color=False)": None,
    "print(IRModule({}).script())": "@I.ir_module\nclass Module:\n    pass\n",
    "IRModule({}).show(color=False)": "@I.ir_module\nclass Module:\n    pass\n",
    "print(str(Evaluate(i)))": "T.evaluate(i)\n",
    "print(f.with_(params=(i,), body=Evaluate(i)).specialize({i: 3}).body)": "T.evaluate(3)\n",
}


def alone(code: str) -> str:
    assert "script" not in FIRST
    command = [sys.executable, "-c", FIRST + code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("code", TEXTS)
def test_a_node_has_its_text(code: str) -> None:
    shown = alone(code)
    assert shown == TEXTS[code] if TEXTS[code] is not None else "A[i + 1] = T.float32(1)" in shown or "True" in shown


def test_a_difference_is_underlined() -> None:
    code = """
g = f.with_body(store.with_(indices=(i + 2,)))
try:
    assert_structural_equal(f, g)
except AssertionError as error:
    print(error)
else:
    raise SystemExit("the two differ")
"""
    shown = alone(code)
    assert "A[i + 1] = T.float32(1)" in shown and "^" in shown and "<left>:" in shown


def test_messages_show_expressions() -> None:
    code = """
from tirlower.diagnostics import TirError
try:
    bool(A[i + 1] + i)
except TirError as error:
    print(error)
"""
    shown = alone(code)
    assert "A[i + 1]" in shown and "<" not in shown


def test_what_the_builder_made_is_lowered_and_shown() -> None:
    code = """
import tirlower as tl
from tirlower.diagnostics import TirError
body = For(i, IntImm("int32", 0), IntImm("int32", 7), ForKind.SERIAL, None, {}, store)
a = Var("a", "handle")
f = f.with_(params=(a,), buffer_map={a: A}, body=body)
print(tl.lower(f).script())
kernel = tl.build(f)
print(kernel.source("tir"))
try:
    kernel(3)
except TirError as error:
    print(error)
"""
    shown = alone(code)
    assert shown.count("A[i + 1] = T.float32(1)") == 2, shown
    assert "<Add>" not in shown
