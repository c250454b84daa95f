"""A call of a compiled graph: inputs are checked, dims bound, results allocated, and ``main`` called once.

With static shapes nothing is left to do but to allocate: the entry of ``main`` checks the arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Protocol

import numpy as np
from numpy import empty

from tirlower.call.bind import aligned_empty
from tirlower.diagnostics import ArgumentError, ArgumentTypeError, ArgumentValueError, RuntimeAssertError
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.lower.callbacks import raised
from tirlower.graph.lower.driver import Lowered
from tirlower.graph.ops.binding import bound_dims, check_extents, maybe_negative
from tirlower.graph.ops.evaluate import extent_value
from tirlower.ir import ALLOC_ALIGNMENT, Var
from tirlower.ir.dtype import Array

__all__ = ["Call", "Main"]


class Main(Protocol):
    """``main``, compiled, or what watches its calls."""

    def __call__(self, *given: object) -> object:
        """Called with the inputs, the results, the constants, the arena, the dims."""


class Call:
    """What a call needs: the native ``main``, the constants, and arenas, one for each call under way."""

    def __init__(self, lowered: Lowered, main: Main) -> None:
        self.lowered = lowered
        self.graph = lowered.graph
        self.main = main
        nothing = np.empty(0, "uint8")
        self.constants = [nothing if c.is_abstract else _dense(c) for c in lowered.constants]
        self.unbound = {
            n: node.results[0].name for n, node in enumerate(lowered.storage.constants) if node.data.is_abstract
        }
        """The names of the constants that have no contents yet, by their places."""
        self.static = not self.graph.dims
        self.checked = [] if self.static else maybe_negative(self.graph)
        """The extents that each call looks at: with a negative one nothing would be where it was planned."""
        self._free: list[Array] = []
        self.states = {one.name: one.initial.numpy().copy() for one in lowered.states}
        """What lives from call to call."""
        self._held = [*self.constants, *self.states.values()]
        self._turn = threading.Lock()
        self._enter = self._way()
        if self.static:
            self.made = [(_shape(v, {}), v.dtype.numpy) for v in self.graph.results]
            self.size = extent_value(lowered.storage.arena, {}) + ALLOC_ALIGNMENT
        self.single = self.static and self.graph.structure == "one"
        """Whether :meth:`one` is the whole call."""

    def one(self, inputs: Sequence[object]) -> object:
        """The only result of a graph of static shapes: what :meth:`__call__` does when nothing is wrong, and no more."""
        ((shape, dtype),) = self.made
        result = empty(shape, dtype)
        try:
            arena = self._free.pop()
        except IndexError:
            arena = self._take(self.size)
        error: BaseException | None = None
        try:
            self._enter(*inputs, result, *self._held, arena)
            return result
        except ArgumentError:
            pass  # nothing ran: the way that looks at each input says what is wrong, or mends it
        except RuntimeAssertError as failed:
            error = raised(failed)
            if error is failed:
                raise
        finally:
            self._free.append(arena)
        if error is not None:
            raise error
        return self(inputs, None)[0]

    def __call__(self, inputs: Sequence[object], out: Sequence[object] | None) -> list[object]:
        """The results for some inputs. Raises :class:`ArgumentValueError` and relatives that name tensor and dim."""
        if len(inputs) != len(self.graph.params):
            names = ", ".join(v.name for v in self.graph.params) or "none"
            raise ArgumentTypeError(
                f"{self.graph.name} takes {len(self.graph.params)} inputs ({names}), got {len(inputs)}",
                help="give an array for each, in this order or by name",
            )
        if out is not None and len(out) != len(self.graph.results):
            raise ArgumentTypeError(
                f"{self.graph.name} gives {len(self.graph.results)} results, got out= of {len(out)} arrays",
                help="give one array for each result: out=(a, b)",
            )
        try:
            try:
                return self._run(inputs, out)
            except ArgumentError:
                # Rather than to look at every input of every call: most are as they are wanted.
                given = [_plain(x, v) for x, v in zip(inputs, self.graph.params, strict=True)]
                if all(a is b for a, b in zip(given, inputs, strict=True)):
                    raise
            return self._run(given, out)
        except RuntimeAssertError as failed:
            error = raised(failed)
            if error is failed:
                raise
        raise error

    def _run(self, given: Sequence[object], out: Sequence[object] | None) -> list[object]:
        if not self.static:
            return self._dynamic(given, out)
        results: list[object] = [empty(s, k) for s, k in self.made] if out is None else list(out)
        arena = self._take(self.size)
        try:
            self._enter(*given, *results, *self._held, arena)
        finally:
            self._free.append(arena)
        return results

    def _dynamic(self, given: Sequence[object], out: Sequence[object] | None) -> list[object]:
        shapes = [getattr(x, "shape", None) for x in given]
        values = bound_dims(self.graph, shapes, ArgumentValueError, whole=True)
        check_extents(self.checked, values, ArgumentValueError)
        results: list[object] = (
            [np.empty(_shape(v, values), v.dtype.numpy) for v in self.graph.results] if out is None else list(out)
        )
        size = extent_value(self.lowered.storage.arena, values) + ALLOC_ALIGNMENT
        arena = self._take(size)
        try:
            self._enter(*given, *results, *self._held, arena[:size], *[values[v] for v in self.lowered.dims])
        finally:
            self._free.append(arena)
        return results

    def with_states_of(self, other: Call) -> Call:
        """The same object, whose states, and the lock around them, are those of another."""
        self.states, self._turn = other.states, other._turn
        self._held[len(self.constants) :] = [self.states[one.name] for one in self.lowered.states]
        return self

    def through(self, main: Main) -> Call:
        """The same call, with the same constants, states and arenas, through another ``main``."""
        other = copy(self)
        other.main = main
        other._enter = other._way()
        return other

    def bind(self, place: int, data: ConstantData) -> None:
        """Give the constant at a place its contents."""
        self._held[place] = self.constants[place] = _dense(data)
        self.unbound.pop(place, None)
        self._enter = self._way()

    def _waiting(self, *given: object) -> object:
        """A call while constants are not bound, or through what was made then."""
        if self.unbound:
            names = ", ".join(map(repr, dict.fromkeys(self.unbound.values())))
            raise GraphError(
                f"{self.graph.name} has constants that are not bound: {names}",
                help="exe.set_constant(name, array) gives a constant its contents",
            )
        self._enter = self._way()
        return self._enter(*given)

    def _way(self) -> Main:
        if self.unbound:
            return self._waiting
        # Calls of a graph that writes its states come one after the other; others need not wait, nor ask.
        return self._in_turn if self.graph.writes else self.main

    def _in_turn(self, *given: object) -> object:
        with self._turn:
            return self.main(*given)

    def reset(self) -> None:
        """Let the states hold what they held at first."""
        with self._turn:
            for one in self.lowered.states:
                self.states[one.name][...] = one.initial.numpy()

    def _take(self, size: int) -> Array:
        """An arena of at least so many bytes that no other call has."""
        try:
            arena = self._free.pop()
        except IndexError:
            return aligned_empty((size,), "uint8", ALLOC_ALIGNMENT)
        return arena if arena.size >= size else aligned_empty((size,), "uint8", ALLOC_ALIGNMENT)


def _shape(value: Value, values: Mapping[Var, int]) -> tuple[int, ...]:
    shape = tuple(extent_value(e, values) for e in value.extents)
    if min(shape, default=0) < 0:  # of what is stated none is: int64 does not hold it
        check_extents([(value, e) for e in value.extents], values, ArgumentValueError)
    return shape


def _dense(data: ConstantData) -> Array:
    return np.asarray(data.numpy(), order="C")  # keeps those without axes so


def _plain(given: object, value: Value) -> object:
    """An input as ``main`` takes it: in order and aligned; a number as an array, one of Python's of the dtype that is wanted."""
    if isinstance(given, np.ndarray):
        return given if given.flags.c_contiguous and given.flags.aligned else np.array(given, order="C")
    if isinstance(given, np.generic):
        return np.asarray(given)
    if isinstance(given, (bool, int, float)):
        weak = np.asarray(given)
        fits = np.can_cast(weak.dtype, value.dtype.numpy, "same_kind") if not value.dtype.is_float else True
        try:
            return np.asarray(given, value.dtype.numpy) if fits else weak
        except OverflowError:  # an integer that the dtype does not hold
            return weak
    return given
