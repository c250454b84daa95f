"""Programs in a form that pickle takes whatever their depth: a flat table, each node after those that it refers to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from tirlower.ir.func import IRModule
from tirlower.ir.node import Node

__all__ = ["Packed"]


Table = list[tuple[type, dict[str, object]]]
"""Nodes, each with its fields, behind those that it mentions."""


P = TypeVar("P")


class Packed(Generic[P]):
    """A program for pickling: ``Packed(module)`` there, ``Packed.unpacked()`` here. Places, docstrings and sharing stay.

    Pickle itself descends into nodes by recursion, and gives up at an expression of some hundred terms.
    """

    __slots__ = ("_root",)

    def __init__(self, program: P) -> None:
        self._root = program

    def __reduce__(self) -> tuple[Callable[[Table], Packed[object]], tuple[Table]]:
        return _read, (_written(self._root),)

    def unpacked(self) -> P:
        """The program."""
        return self._root


def _parts(value: Node | IRModule) -> dict[str, object]:
    if isinstance(value, IRModule):
        return {"functions": value.functions, "attrs": value.attrs}
    return {field.name: getattr(value, field.name) for field in value.fields}


def _written(root: object) -> Table:
    """The table of a program. In it a node is ``("n", place)``, a tuple ``("t", …)``, a mapping ``("d", key, value, …)``."""
    places: dict[int, int] = {}
    table: Table = []

    def coded(value: object) -> object:
        if isinstance(value, (Node, IRModule)):
            return ("n", places[id(value)])
        if value.__class__ is tuple:
            return ("t", *[coded(item) for item in value])
        if value.__class__ is dict:
            return ("d", *[coded(part) for pair in value.items() for part in pair])
        return value

    stack: list[tuple[object, bool]] = [(root, False)]
    while stack:
        value, ready = stack.pop()
        if value.__class__ is tuple:
            stack += [(item, False) for item in value]
        elif value.__class__ is dict:
            stack += [(part, False) for pair in value.items() for part in pair]
        elif not isinstance(value, (Node, IRModule)) or id(value) in places:
            continue
        elif ready:
            table.append((type(value), {name: coded(part) for name, part in _parts(value).items()}))
            places[id(value)] = len(table) - 1
        else:
            stack.append((value, True))
            stack += [(part, False) for part in _parts(value).values()]
    return table


def _read(table: Table) -> Packed[object]:
    """The program of a table: what unpickling calls."""
    made: list[object] = []

    def decoded(value: object) -> object:
        if value.__class__ is not tuple:
            return value
        kind, *parts = value
        if kind == "n":
            return made[parts[0]]
        items = [decoded(part) for part in parts]
        return tuple(items) if kind == "t" else dict(zip(items[::2], items[1::2], strict=True))

    for cls, parts in table:
        made.append(cls(**{name: decoded(part) for name, part in parts.items()}))
    return Packed(made[-1])
