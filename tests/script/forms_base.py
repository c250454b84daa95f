"""The shape of the corpus: a form of the dialect as a small prim_func, with its meaning in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tirlower.ir import IRModule, PrimFunc
from tirlower.ir.expr import IntImm, Var


@dataclass
class Form:
    """A form of the dialect.

    ``func`` uses it; ``expected`` says in NumPy what the function does: it takes the same arguments and changes the
    arrays in place (None where the form has no meaning on a CPU). ``values`` gives scalar parameters and symbolic
    dimensions by name; ``limits`` the exclusive upper bound of random integers for a parameter.
    """

    name: str
    func: PrimFunc | IRModule
    expected: Callable[..., Any] | None = None
    values: Mapping[str, int | float] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def entry(self) -> PrimFunc:
        """The function to run: the module's ``main``."""
        return self.func["main"] if isinstance(self.func, IRModule) else self.func

    def arguments(self, seed: int = 0) -> list[Any]:
        """Random arguments: arrays for buffers, numbers for scalars."""
        rng = np.random.default_rng(seed)
        found: list[Any] = []
        for param in self.entry.params:
            buffer = self.entry.buffer_map.get(param)
            if buffer is None:
                found.append(self.values[param.name])
                continue
            shape = tuple(self._extent(e) for e in buffer.shape)
            dtype = buffer.dtype.element.numpy
            lanes = buffer.dtype.lanes
            if lanes > 1:
                shape = (*shape, lanes)
            if buffer.dtype.is_bool:
                found.append(rng.integers(0, 2, shape).astype(dtype))
            elif buffer.dtype.is_integral:
                found.append(rng.integers(0, self.limits.get(buffer.name, 8), shape).astype(dtype))
            else:
                found.append(rng.uniform(0.25, 1.75, shape).astype(dtype))
        return found

    def _extent(self, extent: Any) -> int:
        if isinstance(extent, IntImm):
            return extent.value
        assert isinstance(extent, Var), extent
        return int(self.values[extent.name])


FORMS: dict[str, Form] = {}


def form(
    expected: Callable[..., Any] | None = None, limits: Mapping[str, int] | None = None, **values: int | float
) -> Callable[[Any], Any]:
    """Decorator: add a prim_func or module to the corpus under its name."""

    def add(func: Any) -> Any:
        name = func.name if isinstance(func, PrimFunc) else func["main"].attrs["form"]
        assert name not in FORMS, name
        FORMS[name] = Form(name, func, expected, values, limits or {})
        return func

    return add
