"""What comparing and hashing nodes share: in which order a node's fields are looked at, and what equal data is.

The order of a node's fields is their declared order (:mod:`tirlower.ir.node`), hints left out. It matters where a
node defines something: what is looked at before the definition belongs to the outer scope. The few nodes in which
that is not the declared order stand in :data:`ORDER`. Structural equality and structural hashing both read these
plans, so they cannot come to disagree about a field.
"""

from __future__ import annotations

import math

import numpy as np

from tirlower.ir.dtype import Array
from tirlower.ir.node import Node, Role

__all__ = ["DEFINES", "ORDER", "RENAMING", "data_key", "plan_of", "same_data"]

ORDER: dict[str, tuple[str, ...]] = {
    "Let": ("value", "var", "body"),
    "Bind": ("value", "var"),
    "For": ("min", "extent", "kind", "thread_tag", "loop_var", "annotations", "body"),
    "BlockIter": ("domain", "kind", "value", "var"),
    "MatchBufferRegion": ("source", "buffer"),
    # The predicate speaks of what is around the block. The body comes last: `Block` is handled by hand there, for the allocations that its init sees too.
    "Block": ("predicate", "iters", "annotations", "reads", "writes", "match_buffers", "init", "body"),
}
"""Nodes whose fields are looked at in another order than they are declared in."""

DEFINES: dict[str, frozenset[str]] = {
    "AllocBuffer": frozenset(("data", "strides", "elem_offset")),
    "AllocConst": frozenset(("data",)),
    "DeclBuffer": frozenset(),
    "MatchBufferRegion": frozenset(("data", "shape", "strides", "elem_offset")),
    "PrimFunc": frozenset(("data", "shape", "strides", "elem_offset")),
}
"""The fields of a defined buffer whose variables are defined with it, where nothing defined them before."""

RENAMING: frozenset[str] = frozenset(("IterVar", "Dim"))
"""Nodes whose variable is the one of that name around them, where there is one: they define it anywhere else."""

_PLANS: dict[type[Node], tuple[tuple[str, Role], ...]] = {}


def plan_of(cls: type[Node]) -> tuple[tuple[str, Role], ...]:
    """The compared fields of a node class with their roles, in the order in which they are looked at."""
    plan = _PLANS.get(cls)
    if plan is None:
        roles = {field.name: field.role for field in cls.fields if field.role is not Role.HINT}
        names = ORDER.get(cls.__name__, tuple(roles))
        if set(names) != set(roles):
            raise TypeError(f"the order of {cls.__name__} names {sorted(names)}, its fields are {sorted(roles)}")
        plan = _PLANS[cls] = tuple((name, roles[name]) for name in names)
    return plan


def _canonical_array(array: Array) -> bytes:
    flat = np.ascontiguousarray(array).reshape(-1)
    try:
        nans = np.isnan(flat)
    except TypeError:
        return flat.tobytes()
    if nans.any():
        flat = flat.copy()
        flat[nans] = float("nan")
    return flat.tobytes()


def data_key(value: object) -> object:
    """A hashable key of plain data: two values are the same data exactly when their keys are equal.

    A NaN equals itself, 0.0 differs from -0.0, True from 1 and 1 from 1.0; arrays go by dtype and elements.

    >>> data_key(0.0) == data_key(-0.0), data_key(float("nan")) == data_key(float("nan")), data_key(1) == data_key(True)
    (False, True, False)
    """
    kind = value.__class__
    if kind is float:
        return ("float", "nan" if value != value else value, math.copysign(1.0, value) if value == 0 else 0)
    if kind is bool or kind is int:
        return (kind.__name__, value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.name, value.size, _canonical_array(value))
    if isinstance(value, (tuple, list)):
        return ("tuple", *[data_key(v) for v in value])
    if isinstance(value, dict):
        return ("dict", *[(str(k), data_key(value[k])) for k in sorted(value, key=str)])
    return value


def same_data(a: object, b: object) -> bool:
    """Whether two values of plain data are the same (see :func:`data_key`)."""
    if a is b:
        return True
    if a.__class__ is not b.__class__ and not (isinstance(a, (str, tuple, list)) and isinstance(b, (str, tuple, list))):
        return False
    return bool(data_key(a) == data_key(b))
