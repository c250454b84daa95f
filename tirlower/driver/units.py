"""A module as units, each compiled to an object of its own: changing a function compiles its unit anew, and no other.

A unit is an exported function with the functions of the module that it alone calls. What several call, exported
functions that others call, and private ones that say so (:data:`~tirlower.ir.annotations.UNIT`) are units too: calls of them are linked by symbol. In the module of the caller's unit such a
function is a declaration (:data:`~tirlower.ir.annotations.ELSEWHERE`), which says what the caller's proofs and code may
depend on and no more: its parameters, which arrays it may write, whether it is pure, what it returns.

A brief function, whose call costs about what it computes, is copied into each unit that calls it, where LLVM inlines it,
unless it is called at so many places that the copies would be long.
So is one called with arrays that may overlap, for which there is no version by its symbol. Functions that call each
other in a circle stay together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tirlower.analysis.call_graph import CallGraph
from tirlower.call.parameters import return_type
from tirlower.diagnostics import deep_recursion
from tirlower.ir import build
from tirlower.ir.annotations import ELSEWHERE, LINKED, UNIT
from tirlower.ir.expr import Expr, IntImm, StringImm
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.op import GlobalVar
from tirlower.ir.stmt import Evaluate, For, ForKind, Stmt, While
from tirlower.legality.versions import what_calls_need
from tirlower.llvm.codegen.cut import expression_size
from tirlower.llvm.codegen.stack import call_depth
from tirlower.poly import PureFunctions

__all__ = ["Unit", "units_of"]

BRIEF: Final = 256
"""The operations up to which a call's function is copied to its callers: in the time of so many, half of it vectorized, a call
and what it keeps LLVM from seeing are felt."""

COPIES: Final = 4096
"""The operations that the copies of a brief function may have together: a thousand calls of 16 exponentials, of 70 operations,
took LLVM 9 s as copies, and half a second as calls."""


@dataclass(frozen=True)
class Unit:
    """Functions that are compiled together.

    ``module`` has them, copies, and declarations of what they call elsewhere; ``home`` names those of which this unit is
    the place: every function of the module that was split has one.
    """

    module: IRModule
    home: tuple[str, ...]


def units_of(mod: IRModule) -> list[Unit]:
    """The units of a well-formed module, callees before callers.

    >>> from tirlower.script import parse
    >>> units = units_of(parse('''
    ... @I.ir_module
    ... class Module:
    ...     @T.prim_func
    ...     def main(A: T.Buffer((8, 512), "float32")):
    ...         for i in range(8):
    ...             Module.clear(T.address_of(A[i, 0]))
    ...             Module.one(T.address_of(A[i, 0]))
    ...     @T.prim_func
    ...     def clear(p: T.handle("float32")):
    ...         P = T.decl_buffer((512,), "float32", data=p)
    ...         for i in range(512):
    ...             P[i] = T.float32(0)
    ...     @T.prim_func(private=True)
    ...     def one(p: T.handle("float32")):
    ...         P = T.decl_buffer((1,), "float32", data=p)
    ...         P[0] = T.float32(1)
    ... '''))
    >>> [unit.home for unit in units]
    [('clear',), ('main', 'one')]
    >>> print(units[1].module["clear"].script())
    @T.prim_func
    def clear(p: T.handle("float32")):
        T.func_attr({"tir.called_from_elsewhere": True, "tir.defined_elsewhere": 1})
        T.call_extern("void", "clear", p)
    """
    split = _Split(mod)
    return [split.unit(number) for number in sorted(split.members)]


class _Split:
    """Where each function of a module goes. A unit has the number of the circle (see :class:`CallGraph`) that it is of."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.graph = CallGraph(mod)
        self.writes, self.any_arrays = what_calls_need(mod) if any(self.graph.callees.values()) else ({}, {})
        self.pure = PureFunctions(mod)
        #: the functions of each unit, and those of each that are its own
        self.members: dict[int, set[str]] = {}
        self.own: dict[int, tuple[str, ...]] = {}
        self.home: dict[str, int] = {}
        #: the functions that units call and do not have
        self.linked: set[str] = set()
        self._place()

    def _place(self) -> None:
        graph = self.graph
        operations = self._operations()
        places: dict[str, set[int]] = {}
        for number, circle in reversed(list(enumerate(graph.circles))):
            callers = {caller for key in circle for caller in graph.callers[key]} - set(circle)
            around = {place for caller in callers for place in places[caller]}
            size = operations.get(circle[0], math.inf)
            is_brief = size <= BRIEF and size * graph.places[circle[0]] <= COPIES
            is_exported = any("global_symbol" in self.mod[key].attrs for key in circle)
            is_alone = is_exported or any(self.mod[key].attrs.get(UNIT) for key in circle)
            found = around if is_brief or (len(around) == 1 and not is_alone) else set()
            if is_exported or not found:
                self.own[number] = circle
                found = found | {number}
            for key in circle:
                places[key] = found
                self.home[key] = number if number in found else min(found)
            for place in found:
                self.members.setdefault(place, set()).update(circle)
        for functions in self.members.values():
            for key in list(functions):
                functions.update(graph.below(*self.any_arrays.get(key, ())))
            self.linked.update(callee for key in functions for callee in graph.callees[key] if callee not in functions)

    def _operations(self) -> dict[str, float]:
        """What a call of each function computes, about, of those that others call and that call nothing in a circle."""
        found: dict[str, float] = {}
        with deep_recursion():
            for key in self.graph.order:
                if self.graph.callers[key]:
                    calls = sum(found.get(callee, math.inf) for callee in self.graph.callees[key])
                    found[key] = _operations(self.mod[key].body) * (1 + calls)
        return found

    def unit(self, number: int) -> Unit:
        """A unit, its functions in the order of the module."""
        members = self.members[number]
        called = {callee for key in members for callee in self.graph.callees[key]}
        functions = {}
        for key, func in self.mod.items():
            if key in members:
                functions[key] = self._linkable(key) if key in self.own[number] else func.without_attr("global_symbol")
            elif key in called:
                functions[key] = self._declaration(key)
        home = tuple(key for key in self.mod if self.home[key] == number)
        return Unit(IRModule(functions, dict(self.mod.attrs)), home)

    def _linkable(self, key: str) -> PrimFunc:
        """A function as other units call it: by its symbol, or by one that it gets."""
        func = self.mod[key]
        return func.with_attr(LINKED, True) if key in self.linked else func

    def _declaration(self, key: str) -> PrimFunc:
        """A function without its body: one that touches as much, of which nothing else is known."""
        func = self._linkable(key)
        pointers = [param for param in func.params if param.dtype.is_handle]
        changed: list[Expr] = [
            func.buffer_map[param].data if param in func.buffer_map else param
            for param, is_written in zip(pointers, self.writes[key], strict=True)
            if is_written
        ]
        pure = self.pure.has(GlobalVar(key))
        result = return_type(func)
        call = build.call(
            "tir.call_pure_extern" if pure else "tir.call_extern",
            StringImm(func.name),
            *(func.params if pure else changed),
            dtype=str(result or "void"),
        )
        body = Evaluate(call if result is None else build.call("tir.ret", call))
        return func.with_body(body).with_attr(ELSEWHERE, call_depth(key, self.graph.callees))


def _operations(stmt: Stmt) -> float:
    """The operations of a statement, about: its nodes, as often as loops run; infinite where that is not constant."""
    total: float = math.inf if isinstance(stmt, While) else 1
    for child in stmt.children():
        total += _operations(child) if isinstance(child, Stmt) else expression_size(child)
    if isinstance(stmt, For):
        runs = stmt.extent.value if isinstance(stmt.extent, IntImm) and stmt.kind is not ForKind.PARALLEL else math.inf
        total *= max(runs, 1)
    return total
