"""Values that can be written as Python text and read back equal."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from enum import Enum

__all__ = ["literals"]


def literals(values: Mapping[str, object]) -> dict[str, object]:
    """The entries whose values can be written as Python text; members of an Enum as their values.

    >>> literals({"a": 1, "b": (2.5, "x"), "c": object()})
    {'a': 1, 'b': (2.5, 'x')}
    """
    found: dict[str, object] = {}
    for key, value in values.items():
        plain = value.value if isinstance(value, Enum) else value
        try:
            if ast.literal_eval(repr(plain)) == plain:
                found[key] = plain
        except (ValueError, SyntaxError):
            continue
    return found
