"""``parse(text)``: what a text may hold, that nothing but the dialect runs, and how large it may be."""

from __future__ import annotations

import sys

import pytest

from tirlower.diagnostics import ScriptError, WellFormedError
from tirlower.ir import IfThenElse, IRModule, PrimFunc, Var
from tirlower.script import parse


def test_a_text_written_for_another_namespace_parses():
    made = parse('''
# from tvm.script import ir as I
from __future__ import annotations
from tvm.script import ir as I
from tvm.script import tir as tir

"""A module."""

@I.ir_module
class Module:
    I.module_attrs({"k": 1})
    I.module_global_infos({})
    @tir.prim_func(private=True)
    def f(A: tir.Buffer((4,), "float32")):
        # a comment
        tir.func_attr({"tir.noalias": tir.bool(True)})
        for i in range(4):
            A[i] = tir.float32(0.0)
''')
    assert isinstance(made, IRModule) and made.attrs == {"k": 1}
    assert made["f"].attrs == {"tir.noalias": True}


def test_constants_variables_and_macros_may_come_first():
    func = parse("""
size, half = 8, 4
n = T.int64()

@T.macro
def fill(buf, value, start=0):
    for i in range(start, size):
        buf[i] = value

@T.prim_func(check_well_formed=False)
def f(A: T.Buffer((size,), "int32")):
    fill(A, half)
    fill(A, 1, start=2)
    T.evaluate(n)
""", check_well_formed=False)  # fmt: skip
    first, second, last = func.body.stmts
    assert first.extent.value == 8 and second.extent.value == 6 and first.body.value.value == 4
    assert isinstance(last.value, Var) and last.value.name == "n"


@pytest.mark.parametrize("where", ["@T.prim_func(check_well_formed={})", "@I.ir_module(check_well_formed={})"])
def test_a_text_says_itself_that_it_is_not_checked(where):
    body = [
        "i = T.int32()",
        "with T.LetStmt(n, var=i):",
        "    T.evaluate(i)",
        "with T.LetStmt(n, var=i):",
        "    T.evaluate(i)",
    ]
    lines = ["@T.prim_func", "def f(n: T.int32):", *[f"    {line}" for line in body]]
    text = "\n".join(
        ["{}", *lines[1:]] if "prim_func" in where else ["{}", "class M:", *[f"    {one}" for one in lines]]
    )
    made = parse(text.format(where.format(False)))
    func = made["f"] if isinstance(made, IRModule) else made
    first, second = func.body.stmts
    assert first.stmts[0].var is second.stmts[0].var
    with pytest.raises(WellFormedError, match="defined twice"):
        parse(text.format(where.format(True)))


def test_extra_names():
    func = parse("def f(A: T.Buffer((width,), dt)):\n    A[0] = 1\n", {"width": 12, "dt": "int8"})
    assert func.buffers[0].shape[0].value == 12 and func.buffers[0].dtype == "int8"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("A[0] = open('/etc/passwd')", "'open' is not defined"),
        ("A[0] = __import__('os').system('true')", "'__import__' is not defined"),
        ("A[0] = eval('1')", "'eval' is not defined"),
        ("A[0] = ().__class__.__mro__[1]", "names with a leading underscore"),
        ("A[0] = ''.format(1)", "reads no attribute of str"),
        ("A[0] = T.sys.exit(1)", "T has no 'sys'"),
        ("A[0] = T._ops", "T has no '_ops'"),
        ("A[0] = T.__dict__", "T has no '__dict__'"),
        ("A[0] = T.serial.__globals__", "leading underscore"),
        ("A[0] = T.int32.__call__(1)", "leading underscore"),
        ("A[0] = T.max.func(1)", "reads no attribute of function"),
        ("A[0] = [].append(1)", "reads no attribute of list"),
        ("A[0] = f'{A.__class__}'", "leading underscore"),
    ],
)
def test_nothing_but_the_dialect_runs(body, message):
    with pytest.raises(ScriptError, match=message):
        parse(f"def f(A: T.Buffer((4,), 'int32')):\n    {body}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "defines no function"),
        ("x = 3", "defines no function"),
        ("import os\ndef f(): pass", "imports nothing but the dialect"),
        ("from os import path\ndef f(): pass", "imports nothing but the dialect"),
        ("def f(): pass\ndef g(): pass", "defines one function or one module"),
        ("print(1)", "defines one prim_func or one ir_module"),
        ("def f(:\n    pass", "invalid syntax"),
        ("def f():\n\tpass\n        pass", "tab|indent"),
        ("@I.ir_module\nclass M:\n    @T.prim_func\n    def f(): pass\n    @T.prim_func\n    def f(): pass", "two functions 'f'"),
    ],
)  # fmt: skip
def test_what_a_text_is(text, message):
    with pytest.raises(ScriptError, match=message):
        parse(text)


def test_the_limits_of_python_are_named():
    nested = "(" * 250 + "1" + ")" * 250
    with pytest.raises(ScriptError, match="too many nested parentheses") as caught:
        parse(f"def f():\n    T.evaluate({nested})\n")
    assert "200 nested parentheses" in str(caught.value)
    loops = "".join(f"{'  ' * (k + 1)}for i{k} in range(2):\n" for k in range(120)) + "  " * 121 + "pass\n"
    with pytest.raises(ScriptError, match="indentation") as caught:
        parse("def f():\n" + loops)
    assert "100 levels" in str(caught.value)


def test_ninety_nested_loops_parse():
    loops = "".join(f"{' ' * (k + 1)}for i{k} in range(2):\n" for k in range(90)) + " " * 91 + "T.evaluate(i0 + i89)\n"
    stmt = parse("def f():\n" + loops).body
    depth = 0
    while hasattr(stmt, "body"):
        stmt, depth = stmt.body, depth + 1
    assert depth == 90


def test_ten_thousand_statements():
    limit = sys.getrecursionlimit()
    lines = "".join(f"    A[{k % 16}] = A[{(k + 1) % 16}] + {k}.0\n" for k in range(10_000))
    func = parse("def f(A: T.Buffer((16,), 'float32')):\n" + lines)
    assert len(func.body.stmts) == 10_000 and sys.getrecursionlimit() == limit
    bound = "".join(f"    x{k + 1} = x{k} + {k % 7}\n" for k in range(10_000))
    func = parse("def f(x0: T.int32):\n" + bound)
    assert len(func.body.stmts) == 10_000 and func.body.stmts[-1].var.name == "x10000"


def _chain(terms):
    return parse(
        "def f(A: T.Buffer((16,), 'float32')):\n    A[0] = " + " + ".join(f"A[{k % 16}]" for k in range(terms)) + "\n"
    )


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="CPython 3.12 bounds the depth of a syntax tree to less")
def test_a_chain_of_five_thousand_terms():
    expr = _chain(5000).body.value
    count = 1
    while hasattr(expr, "b"):
        expr, count = expr.a, count + 1
    assert count == 5000


def test_a_chain_of_two_thousand_terms():
    assert isinstance(_chain(2000), PrimFunc)


def test_wide_conjunctions_and_long_elif_chains():
    func = parse("def f(n: T.int32):\n    T.evaluate(" + " and ".join(f"n < {k}" for k in range(3000)) + ")\n")
    assert func.body.value.dtype == "bool"
    arms = "".join(f"    elif n == {k}:\n        T.evaluate({k})\n" for k in range(800))
    stmt = parse("def f(n: T.int32):\n    if n < 0:\n        pass\n" + arms).body
    count = 0
    while isinstance(stmt, IfThenElse):
        stmt, count = stmt.else_case, count + 1
    assert count == 801


@pytest.mark.parametrize(("called", "kind"), [("3", "int"), ("None", "NoneType"), ("D", "object"), ("(1, 2)", "tuple")])
def test_what_is_no_function_is_not_called(called: str, kind: str):
    with pytest.raises(ScriptError, match=f"{kind} is not called"):
        parse(f"def f(A: T.Buffer((4,), 'int32')):\n    A[0] = {called}(1)\n", {"D": object()})
