"""What is equal where its parts are: ``x`` where ``x // d``, ``x % d`` and ``d`` are, whatever ``d`` is.

Tiles that are walked in groups of rows are such forms: ``bx % 32 % rows`` and ``bx % 32 // rows`` with
``rows = min(10 - bx // 32 * 8, 8)``. No bounds of ``rows`` say that two blocks have different tiles; that blocks of one
group have the same ``rows`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from tirlower.poly.conditions import Condition
from tirlower.poly.forms import Atom, Choice, Dim, Div, Form, Piecewise, Product, SymbolicDiv

__all__ = ["joined", "symbolic_divisions"]


def symbolic_divisions(pairs: Iterable[tuple[Form, Form]]) -> list[SymbolicDiv]:
    """The divisions by symbols that are terms of some forms, each once."""
    dims = chain.from_iterable(lin.terms for pair in pairs for lin in pair)
    return list(dict.fromkeys(dim for dim in dims if isinstance(dim, SymbolicDiv)))


def joined(divisions: Iterable[SymbolicDiv], same: Callable[[Dim], bool]) -> list[Form]:
    """The forms whose quotient and remainder by one divisor are among ``divisions``, all three the same in source and
    sink, so that the form is, too. ``same`` tells what is known of a dim.

    >>> from tirlower.ir import Var
    >>> from tirlower.poly.affine import Space
    >>> from tirlower.poly.forms import single
    >>> space, x, d = Space(), Var("x"), Var("d")
    >>> space.ranges[d] = (1, 8)
    >>> parts = [space.symbolic_div(single(x), single(d), remainder) for remainder in (False, True)]
    >>> divisions = symbolic_divisions(zip(parts, parts))
    >>> joined(divisions, lambda dim: dim is not x), joined(divisions, lambda dim: dim not in (x, d))
    ([x], [])
    """
    found: dict[object, tuple[SymbolicDiv, set[bool]]] = {}
    for dim in divisions:
        if same(dim):
            found.setdefault((dim.of.key, dim.divisor.key), (dim, set()))[1].add(dim.remainder)
    return [dim.of for dim, kinds in found.values() if len(kinds) == 2 and _is_same(dim.divisor, same)]


def _is_same(lin: Form, same: Callable[[Dim], bool]) -> bool:
    """Whether a form has one value in source and sink: what is computed of equal values is equal."""
    return all(same(dim) or (isinstance(dim, Atom) and _of_same(dim, same)) for dim in lin.terms)


def _of_same(atom: Atom, same: Callable[[Dim], bool]) -> bool:
    if isinstance(atom, Div):
        return _is_same(atom.of, same)
    if isinstance(atom, SymbolicDiv):
        return _is_same(atom.of, same) and _is_same(atom.divisor, same)
    if isinstance(atom, Product):
        return all(same(factor) or (isinstance(factor, Atom) and _of_same(factor, same)) for factor in atom.factors)
    if isinstance(atom, Choice) and not _is_decided(atom.condition, same):
        return False
    return isinstance(atom, Piecewise) and all(_is_same(option, same) for option in atom.options)


def _is_decided(condition: Condition, same: Callable[[Dim], bool]) -> bool:
    return not condition.unknown_deps() and all(_is_same(lin, same) for lin in condition.forms())
