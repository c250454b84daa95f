"""Errors: their classes, what they show, and where."""

from __future__ import annotations

import sys

import pytest

from tirlower import diagnostics
from tirlower.diagnostics import Label, ScriptError, Source, Span, TirError, deep_recursion, nearest_name, render

TEXT = "def f(A):\n    for j in range(7):\n\tA[i] = 1\n"


def test_a_source_counts_lines_as_its_file():
    source = Source(TEXT, "stencil.py", first_line=10)
    assert source.line(11) == "    for j in range(7):" and source.line(9) == "" and source.line(99) == ""
    span = Span(source, 11, 8, 11, 9)
    assert span.text == "j" and str(span) == "stencil.py:11:9"
    assert Span(source, 11, 4, 12, 3).text == "for j in range(7):"


def test_render():
    source = Source(TEXT, "stencil.py")
    error = TirError(
        "cannot move `j`",
        origin="reorder",
        span=Span(source, 2, 8, 2, 9),
        labels=[Label(Span(source, 3, 1, 3, 5), "written here", primary=False), Label(None, "a fact")],
        notes=["a note"],
        help="skew first",
    )
    assert str(error) == render(error) == "\n".join(
        [
            "error[reorder]: cannot move `j`",
            " --> stencil.py:2:9",
            "2 |     for j in range(7):",
            "  |         ^",
            "3 | \tA[i] = 1",
            "  | \t~~~~ written here",
            "  = note: a fact",
            "  = note: a note",
            "  = help: skew first",
        ]
    )  # fmt: skip
    assert error.message == "cannot move `j`" and error.args == ("cannot move `j`",)


def test_two_marks_on_a_line_and_two_sources():
    a, b = Source("x + y\n", "a.py"), Source("z\n" * 12, "b.py")
    labels = [Label(Span(a, 1, 4, 1, 5), "right"), Label(Span(b, 11, 0, 11, 1)), Label(Span(a, 1, 0, 1, 1), "left")]
    assert render(TirError("m", labels=labels)).split("\n") == [
        "error: m",
        " --> a.py:1:5",
        "1 | x + y",
        "  | ^ left",
        "  |     ^ right",
        " --> b.py:11:1",
        "11 | z",
        "   | ^",
    ]


def test_a_span_over_several_lines_marks_its_first():
    source = Source("aaa(\n  b)\n", "m.py")
    lines = render(TirError("m", span=Span(source, 1, 1, 2, 4))).split("\n")
    assert lines[2:] == ["1 | aaa(", "  |  ^^^"]
    # A place at or beyond the end of its line still gets a mark.
    assert render(TirError("m", span=Span(source, 1, 4, 1, 4))).split("\n")[3] == "  |     ^"
    assert render(TirError("m", span=Span(source, 9, 2, 9, 3))).split("\n")[3] == "  |   ^"


def test_classes():
    pairs = {
        "ScriptError": SyntaxError, "WellFormedError": ValueError, "ArgumentTypeError": TypeError,
        "ArgumentValueError": ValueError, "DeviceError": RuntimeError, "InterpreterError": RuntimeError,
        "BoundsError": IndexError, "RuntimeAssertError": AssertionError, "LegalityError": diagnostics.TransformError,
        "UnboundError": diagnostics.InterpreterError, "ArgumentTypeError ": diagnostics.ArgumentError,
    }  # fmt: skip
    for name, base in pairs.items():
        cls = getattr(diagnostics, name.strip())
        assert issubclass(cls, TirError) and issubclass(cls, base)
        error = cls("wrong", help="do this")
        assert str(error) == "error: wrong\n  = help: do this"
        with pytest.raises(base):
            raise error


def test_a_script_error_is_placed_like_a_syntax_error():
    source = Source(TEXT, "stencil.py")
    error = ScriptError("unknown name", span=Span(source, 2, 8, 2, 9))
    assert (error.msg, error.filename, error.lineno, error.offset) == ("unknown name", "stencil.py", 2, 9)
    assert error.text == "    for j in range(7):"
    assert ScriptError("m").lineno is None


def test_nearest_name():
    assert nearest_name("vectorised", ["serial", "vectorized"]) == "vectorized"
    assert nearest_name("zzz", ["serial"]) is None and nearest_name("x", []) is None


def test_deep_recursion():
    def down(n: int) -> int:
        return 0 if n == 0 else 1 + down(n - 1)

    before = sys.getrecursionlimit()
    with deep_recursion():
        assert down(20_000) == 20_000
        with deep_recursion(100):
            assert sys.getrecursionlimit() >= 20_000
    assert sys.getrecursionlimit() == before
    with pytest.raises(KeyError), deep_recursion():
        raise KeyError
    assert sys.getrecursionlimit() == before
