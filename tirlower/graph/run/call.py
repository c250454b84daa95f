"""A call of a compiled graph: inputs are checked, dims bound, results allocated, and ``main`` called once.

With static shapes nothing is left to do but to allocate: the entry of ``main`` checks the arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy import empty

from tirlower.call.bind import aligned_empty
from tirlower.diagnostics import ArgumentError, ArgumentTypeError, ArgumentValueError
from tirlower.graph.core.dims import Dim
from tirlower.graph.core.nodes import Value
from tirlower.graph.lower.driver import Lowered
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
        self.constants = [np.asarray(c.numpy(), order="C") for c in lowered.constants]  # keeps those without axes so
        self.static = not self.graph.dims
        self._free: list[Array] = []
        self.states = {one.name: one.initial.numpy().copy() for one in lowered.states}
        """What lives from call to call."""
        self._held = [*self.constants, *self.states.values()]
        self._turn = threading.Lock()
        # Calls of a graph that writes its states come one after the other; others need not wait, nor ask.
        self._enter = self._in_turn if self.graph.writes else main
        if self.static:
            self.made = [(_shape(v, {}), v.dtype.numpy) for v in self.graph.results]
            self.size = extent_value(lowered.storage.arena, {}) + ALLOC_ALIGNMENT

    def __call__(self, inputs: Sequence[object], out: Sequence[object] | None) -> list[object]:
        """The results for some inputs. Raises :class:`ArgumentValueError` and relatives that name tensor and dim."""
        if len(inputs) != len(self.graph.params):
            names = ", ".join(v.name for v in self.graph.params) or "none"
            raise ArgumentTypeError(
                f"{self.graph.name} takes {len(self.graph.params)} inputs ({names}), got {len(inputs)}"
            )
        try:
            return self._run(inputs, out)
        except ArgumentError:
            # Rather than to look at every input of every call: most are as they are wanted.
            given = [_plain(x) for x in inputs]
            if all(a is b for a, b in zip(given, inputs, strict=True)):
                raise
        return self._run(given, out)

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
        values = self._bound(given)
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

    def _in_turn(self, *given: object) -> object:
        with self._turn:
            return self.main(*given)

    def reset(self) -> None:
        """Let the states hold what they held at first."""
        with self._turn:
            for one in self.lowered.states:
                self.states[one.name][...] = one.initial.numpy()

    def _bound(self, given: Sequence[object]) -> dict[Var, int]:
        """The values of the dims, by the shapes of the inputs; what is stated of them, and was assumed, is checked."""
        values: dict[Var, int] = {}
        shapes = [getattr(x, "shape", None) for x in given]
        waiting = [(v, s) for v, s in zip(self.graph.params, shapes, strict=True) if s is not None]
        for value, shape in waiting:
            if len(shape) != len(value.extents):
                raise ArgumentValueError(
                    f"input {value.name!r} has {len(value.extents)} axes, got shape {tuple(shape)}"
                )
            for extent, got in zip(value.extents, shape, strict=True):
                if isinstance(extent, Var):
                    values.setdefault(extent, int(got))
        for value, shape in waiting:
            for axis, (extent, got) in enumerate(zip(value.extents, shape, strict=True)):
                wanted = extent_value(extent, values)
                if wanted != got:
                    raise ArgumentValueError(
                        f"input {value.name!r}: axis {axis} has extent {got}, expected {extent} = {wanted}",
                        help=_origin_of(values, self.graph.params, shapes),
                    )
        for one in self.graph.dims:
            self._check(one, values)
        for a, b in self.graph.assumed:
            if extent_value(a, values) != extent_value(b, values):
                raise ArgumentValueError(
                    f"{self.graph.name} needs {a} and {b} to be equal, got {extent_value(a, values)} and {extent_value(b, values)}",
                    help=_origin_of(values, self.graph.params, shapes),
                )
        return values

    def _check(self, one: Dim, values: Mapping[Var, int]) -> None:
        if one.var not in values:
            raise ArgumentValueError(
                f"no input says what the dim {one.name} is",
                help="give one input a shape with it as an extent of its own",
            )
        if not one.admits(values[one.var]):
            where = next(
                f"axis {n} of input {v.name!r}"
                for v in self.graph.params
                for n, e in enumerate(v.extents)
                if e is one.var
            )
            raise ArgumentValueError(f"dim {one.name} = {values[one.var]} ({where}): stated is {one.facts}")

    def _take(self, size: int) -> Array:
        """An arena of at least so many bytes that no other call has."""
        try:
            arena = self._free.pop()
        except IndexError:
            return aligned_empty((size,), "uint8", ALLOC_ALIGNMENT)
        return arena if arena.size >= size else aligned_empty((size,), "uint8", ALLOC_ALIGNMENT)


def _shape(value: Value, values: Mapping[Var, int]) -> tuple[int, ...]:
    return tuple(extent_value(e, values) for e in value.extents)


def _origin_of(values: Mapping[Var, int], params: Sequence[Value], shapes: Sequence[object]) -> str:
    """Which input gave each dim its value."""
    told = [
        f"{extent.name} = {values[extent]} from axis {n} of {value.name!r}"
        for extent in values
        for value, n in [next((v, n) for v in params for n, e in enumerate(v.extents) if e is extent)]
    ]
    return "; ".join(told)


def _plain(value: object) -> object:
    """An input as ``main`` takes it: without strides of its own, a number as an array."""
    if isinstance(value, np.ndarray):
        return value if value.flags.c_contiguous else np.ascontiguousarray(value)
    if isinstance(value, (bool, int, float, np.generic)):
        return np.asarray(value)
    return value
