"""``tg.xp`` (NumPy's functions, by the array API's and NumPy's names) and ``tg.nn`` (what NumPy lacks)."""

from __future__ import annotations

import numpy as np

from tirlower.diagnostics import nearest_name
from tirlower.graph.frontend.arguments import Function
from tirlower.graph.frontend.numpy_protocol import OTHER_NAMES, WRITTEN_OUT, derived, function_named
from tirlower.graph.ops.registry import definition, names

__all__ = ["Namespace", "nn", "operation", "xp"]

_VALUES = ("pi", "e", "inf", "nan", "newaxis", "finfo", "iinfo", "dtype")
_DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)


def operation(name: str) -> Function | None:
    """The function of a registered operation, or of NumPy's that is made of them; None where there is neither.

    A registered name means that operation with its own signature, as the text of a graph has it.
    """
    return derived(definition(name)) if name in names() else function_named(name)


class Namespace:
    """Functions by name: they trace when they are called with tensors, and compute when they are called with arrays.

    >>> xp.add.__doc__.splitlines()[0], "relu" in dir(xp)
    ('add(a, b)', False)
    """

    def __init__(self, name: str, of_numpy: bool) -> None:
        self.__name__ = name
        self._of_numpy = of_numpy

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._of_numpy and name in _VALUES:
            return getattr(np, name)
        if self._of_numpy and name in _DTYPES:
            return np.dtype(name)
        found = function_named(name) if self._of_numpy else operation(name)
        if found is None:
            near = nearest_name(name, dir(self))
            raise AttributeError(f"{self.__name__} has no {name!r}" + (f": did you mean {near!r}?" if near else ""))
        return found

    def __dir__(self) -> list[str]:
        if not self._of_numpy:
            return sorted(n for n in names() if not hasattr(np, n))
        others = {n for n in OTHER_NAMES if function_named(n) is not None and hasattr(np, n)}
        return sorted({*others, *_VALUES, *_DTYPES, *WRITTEN_OUT, *(n for n in names() if hasattr(np, n))})

    def __repr__(self) -> str:
        return f"<{self.__name__}: {', '.join(dir(self))}>"


xp = Namespace("tirlower.graph.xp", True)
nn = Namespace("tirlower.graph.nn", False)
