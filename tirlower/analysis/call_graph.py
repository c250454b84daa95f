"""Which functions of a module call which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from tirlower.diagnostics import deep_recursion
from tirlower.ir.expr import Call
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.op import GlobalVar

__all__ = ["CallGraph", "calls_of"]


class _Calls(Visitor):
    """The calls of functions of the module, as a body makes them."""

    def __init__(self) -> None:
        self.found: list[Call] = []

    def visit_Call(self, op: Call) -> None:
        if isinstance(op.op, GlobalVar):
            self.found.append(op)


def calls_of(func: PrimFunc) -> list[Call]:
    """The calls of a function that name functions of its module."""
    calls = _Calls()
    with deep_recursion():
        calls.visit(func.body)
    return calls.found


class CallGraph:
    """The functions that each function of a module calls, once each, in the order in which it does.

    A call names a function by its key, or by its global symbol; one that names none is left out.

    >>> from tirlower.script import parse
    >>> graph = CallGraph(parse('''
    ... @I.ir_module
    ... class Module:
    ...     @T.prim_func
    ...     def main(A: T.Buffer((8,), "float32")):
    ...         Module.clear(A.data)
    ...     @T.prim_func(private=True)
    ...     def clear(p: T.handle("float32")):
    ...         P = T.decl_buffer((8,), "float32", data=p)
    ...         P[0] = T.float32(0)
    ... '''))
    >>> graph.callees["main"], graph.circles
    (('clear',), [('clear',), ('main',)])
    """

    def __init__(self, mod: IRModule) -> None:
        self._keys = {
            str(func.attrs["global_symbol"]): key for key, func in mod.items() if "global_symbol" in func.attrs
        }
        self._keys.update({key: key for key in mod})
        named = {key: self._named(func) for key, func in mod.items()}
        self.callees = {key: tuple(dict.fromkeys(several)) for key, several in named.items()}
        self.places = Counter(key for several in named.values() for key in several)
        """How often calls of each function stand in the text."""

    def key_of(self, call: Call) -> str | None:
        """The function that a call names."""
        return self._keys.get(call.op.name)

    def _named(self, func: PrimFunc) -> list[str]:
        return [key for call in calls_of(func) if (key := self.key_of(call)) is not None]

    @cached_property
    def callers(self) -> dict[str, tuple[str, ...]]:
        """The functions that call each function."""
        found: dict[str, list[str]] = {key: [] for key in self.callees}
        for key, callees in self.callees.items():
            for callee in callees:
                found[callee].append(key)
        return {key: tuple(callers) for key, callers in found.items()}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The functions with callees before callers; those that call each other in any order."""
        return tuple(key for circle in self.circles for key in circle)

    @cached_property
    def recursive(self) -> frozenset[str]:
        """The functions that call themselves, directly or in a circle."""
        return frozenset(
            key for circle in self.circles for key in circle if len(circle) > 1 or key in self.callees[key]
        )

    @cached_property
    def circles(self) -> list[tuple[str, ...]]:
        """The functions in groups, callees before callers: those that call each other in a circle, and every other alone."""
        return list(self._circles())

    def below(self, *keys: str) -> dict[str, None]:
        """The functions that calls of some lead to, and those themselves."""
        found: dict[str, None] = {}
        stack = list(reversed(keys))
        while stack:
            key = stack.pop()
            if key not in found:
                found[key] = None
                stack += reversed(self.callees[key])
        return found

    def _circles(self) -> Iterator[tuple[str, ...]]:
        """Tarjan's strongly connected components, without recursion."""
        number: dict[str, int] = {}
        low: dict[str, int] = {}
        open_: dict[str, None] = {}
        for root in self.callees:
            work = [] if root in number else [(root, 0)]
            while work:
                key, at = work.pop()
                callees = self.callees[key]
                if at == 0:
                    number[key] = low[key] = len(number)
                    open_[key] = None
                elif callees[at - 1] in open_:
                    low[key] = min(low[key], low[callees[at - 1]])
                if at < len(callees):
                    work.append((key, at + 1))
                    if callees[at] not in number:
                        work.append((callees[at], 0))
                elif low[key] == number[key]:
                    circle = []
                    while key in open_:
                        circle.append(open_.popitem()[0])
                    yield tuple(circle)
