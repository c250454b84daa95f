"""What a mistake looks like: file, line, the underlined part, what was expected, the nearest name."""

from __future__ import annotations

import inspect

import pytest

from tirlower.diagnostics import ScriptError
from tirlower.script import ir as I
from tirlower.script import parse
from tirlower.script import tir as T

HEAD = "def f(A: T.Buffer((8,), 'float32'), count: T.int32):\n"


def report(body):
    """The rendered error of a body, and its parts."""
    with pytest.raises(ScriptError) as caught:
        parse(HEAD + "\n".join("    " + line for line in body.split("\n")) + "\n", name="kernel.py")
    return str(caught.value).split("\n"), caught.value


@pytest.mark.parametrize(
    ("body", "line", "underlined", "hint"),
    [
        ("for i in T.vectorised(8):\n    A[i] = 0.0", 2, "T.vectorised", "did you mean `T.vectorized`?"),
        ("A[0] = T.exq(A[1])", 2, "T.exq", "did you mean `T.exp`?"),
        ("A[0] = 1.0\nA[1] = T.flot32(2)", 3, "T.flot32", "did you mean `T.float32`?"),
        ("A[0] = cuont", 2, "cuont", "did you mean 'count'?"),
        ("for i in range(8):\n    A[i] = A[i + j]", 3, "j", "define it before its use"),
        ("A[0] = A[1] + count / 2", 2, "count / 2", "use T.floordiv"),
        ("A[0] = T.exp(A[1]) + T.sqrt(count)", 2, "T.sqrt(count)", "convert it"),
        ("for i in T.serial(8, anotations={}):\n    A[i] = 0.0", 2, "anotations={}", "did you mean 'annotations'?"),
        ("A[0, 1] = 2.0", 2, "A[0, 1]", None),
        ("A[0] = A[1, 2]", 2, "A[1, 2]", None),
        ("A[0] = 'text'", 2, "'text'", "convert the value"),
        ("x: T.int8 = A[0]", 2, "A[0]", None),
        ("try:\n    pass\nexcept ValueError:\n    pass", 2, "try:", "a script has assignments"),
        ("import os", 2, "import os", "a script has assignments"),
        ("A[0] = {1}", 2, "{1}", None),
        ("def g(): pass", 2, "def g(): pass", "define it outside"),
        ("A.dat[0] = 1.0", 2, "A.dat", "did you mean 'data'?"),
        ("with T.blok('b'):\n    pass", 2, "T.blok", "did you mean `T.block`?"),
        ("A[0] = T.int32(2) + T", 2, "T.int32(2) + T", None),
        ("A[0] = count(3)", 2, "count", None),
        ("A[0] = (1.0", 2, "(", None),
    ],
)
def test_the_wrong_part_is_underlined(body, line, underlined, hint):
    lines, error = report(body)
    assert lines[0].startswith("error: ")
    at = next(i for i, text in enumerate(lines) if text.startswith(" --> "))
    source = (HEAD + "\n".join("    " + text for text in body.split("\n"))).split("\n")[line - 1]
    column = source.index(underlined) if underlined != "(" else source.index("(")
    if underlined == "j":
        column = source.rindex("j")
    assert lines[at] == f" --> kernel.py:{line}:{column + 1}"
    assert lines[at + 1] == f"{line} | {source}"
    assert lines[at + 2] == "  | " + " " * column + "^" * len(underlined)
    if hint is not None:
        assert any(text.startswith("  = help: ") and hint in text for text in lines), lines
    assert isinstance(error, SyntaxError)
    assert (error.filename, error.lineno, error.offset) == ("kernel.py", line, column + 1)


def test_a_decorated_function_is_reported_in_its_own_file():
    first = inspect.currentframe().f_lineno
    with pytest.raises(ScriptError) as caught:

        @T.prim_func
        def f(A: T.Buffer((8,), "float32")):
            for i in T.grid(8):
                A[i] = T.expp(A[i])

    text = str(caught.value)
    assert f" --> {__file__}:{first + 6}:24" in text
    assert f"{first + 6} |                 A[i] = T.expp(A[i])" in text
    assert "did you mean `T.exp`?" in text


def test_tabs_and_letters_beyond_ascii_keep_the_mark_in_place():
    lines, _ = report("wert = T.meta_var('ä')\nA[0] = 1.0; größe = T.foo(1)")
    source, mark = lines[-2:] if "help" not in lines[-1] else lines[-3:-1]
    assert source[mark.index("^") :].startswith("T.foo")


def test_mistakes_in_modules_macros_and_helpers():
    with pytest.raises(ScriptError, match="has no function 'calee'") as caught:

        @I.ir_module
        class Mod:
            @T.prim_func
            def callee():
                T.evaluate(0)

            @T.prim_func
            def main():
                Mod.calee()

    assert "did you mean 'callee'?" in str(caught.value) and "^^^^^^^^^" in str(caught.value)

    @T.macro
    def broken(buf):
        buf[0] = T.sine(buf[1])

    def helper(x):
        return x + T.cosine(x)

    with pytest.raises(ScriptError, match="T has no 'sine'") as caught:

        @T.prim_func
        def f(A: T.Buffer((8,), "float32")):
            broken(A)

    assert caught.value.labels[0].span.text == "T.sine"
    with pytest.raises(ScriptError, match="T has no 'cosine'") as caught:

        @T.prim_func
        def g(A: T.Buffer((8,), "float32")):
            A[0] = helper(A[1])

    assert caught.value.labels[0].span.text == "T.cosine"


def test_errors_of_python_helpers_name_the_call():
    def fail(value):
        with open("/nonexistent/file"):
            return value

    with pytest.raises(ScriptError, match="FileNotFoundError") as caught:

        @T.prim_func
        def f(A: T.Buffer((8,), "float32")):
            A[0] = fail(A[1])

    assert caught.value.labels[0].span.text == "fail(A[1])"
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_what_is_decorated():
    with pytest.raises(Exception, match="decorates a function"):
        T.prim_func(3)
    with pytest.raises(Exception, match="decorates a class"):
        I.ir_module(3)
    with pytest.raises(Exception, match="decorates a function"):
        T.macro(3)


def test_a_function_without_source_says_so():
    scope = {"T": T}
    exec("def f(A: T.Buffer((8,), 'float32')):\n    A[0] = 1.0\n", scope)
    with pytest.raises(ScriptError, match="the source of 'f' cannot be read"):
        T.prim_func(scope["f"])


def test_a_class_holds_prim_funcs_only():
    with pytest.raises(ScriptError, match=r"is decorated with @T\.prim_func"):

        @I.ir_module
        class Mod:
            def plain():
                pass

    text = "@I.ir_module\nclass M:\n    x = 1\n    for i in range(3):\n        pass\n"
    with pytest.raises(ScriptError, match="a module holds functions"):
        parse(text)
