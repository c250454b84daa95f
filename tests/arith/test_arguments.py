"""Arguments of another kind are refused in words by every function of arith: never an error of Python's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tirlower import arith
from tirlower.arith import (
    Analyzer,
    IntervalSet,
    deduce_bound,
    detect_iter_map,
    eval_set,
    narrow_predicate_expression,
    union_sets,
)
from tirlower.diagnostics import TirError
from tirlower.ir import Range, Var

WRONG: tuple[object, ...] = (None, "x", 3.5, object(), [None], {}, {"i": 8}, b"q", 7)


def functions() -> Iterator[tuple[str, Callable[..., Any], int]]:
    """Each public function, and each method of an analyzer, with the number of arguments that it needs."""
    found: list[tuple[str, Callable[..., Any]]] = []
    for name in arith.__all__:
        value = getattr(arith, name)
        if inspect.isfunction(value):
            found.append((name, value))
    analyzer = Analyzer()
    for name in dir(analyzer):
        value = getattr(analyzer, name)
        if not name.startswith("_") and inspect.ismethod(value):
            found.append((f"Analyzer.{name}", value))
    for name, value in found:
        parameters = inspect.signature(value).parameters.values()
        yield name, value, sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)


ALL = list(functions())


def test_all_are_asked():
    assert len(ALL) > 35 and {"detect_iter_map", "Analyzer.simplify"} <= {name for name, _, _ in ALL}


@pytest.mark.parametrize(("name", "function", "count"), ALL, ids=[name for name, _, _ in ALL])
def test_wrong_kinds_are_told_in_words(name: str, function: Callable[..., Any], count: int):
    x = Var("x") + 1
    for wrong in WRONG:
        for given in ([wrong] * count, [x, *[wrong] * (count - 1)][:count], [*[wrong] * (count - 1), x][:count]):
            try:
                function(*given)
            except TirError as error:
                assert str(error).strip()


i, j = Var("i"), Var("j")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: detect_iter_map(i + j, {i: Range(0, 4)}), r"indices is .*no list(.|\n)*\[i \* 4 \+ j\]"),
        (lambda: detect_iter_map([i], {i: 4}), r"maps Var\(i\) to 4(.|\n)*Range\(0, 8\)"),
        (lambda: detect_iter_map([i], [i]), "which is no mapping"),
        (lambda: eval_set(i, {i: (0, 4)}), r"dom_map maps Var\(i\) to \(0, 4\)"),
        (lambda: deduce_bound(i + 1, i < 3, {}, {}), "var is .*which is no Var"),
        (lambda: narrow_predicate_expression(i < 3, {i: 4}), "free_parameters maps"),
        (lambda: union_sets(None, [IntervalSet(0, 1)]), "which is no Analyzer"),
        (lambda: union_sets(Analyzer(), [1]), "sets has 1 in it"),
        (lambda: Analyzer().can_prove_less(i, j), "upper is .*which is no int"),
        (lambda: Analyzer().leave_constraint(), "no condition was entered"),
    ],
)
def test_the_argument_its_value_and_the_remedy_are_named(call: Callable[[], object], said: str):
    with pytest.raises(TirError, match=said):
        call()
