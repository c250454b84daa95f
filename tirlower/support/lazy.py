"""Packages whose names are imported at their first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping

__all__ = ["imported_when_asked"]


def imported_when_asked(package: str, where: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package: of each name, the module in the package that defines it.

    A name is looked up once: it is the package's own from then on. Raises AttributeError for other names.

    >>> imported_when_asked("json", {"JSONDecoder": "decoder"})("JSONDecoder").__name__
    'JSONDecoder'
    """

    def find(name: str) -> object:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(f"{package}.{where[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
