"""What is known of an array besides its address."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

__all__ = ["Facts"]

_known: weakref.WeakValueDictionary[tuple[object, ...], Facts] = weakref.WeakValueDictionary()


@dataclass(frozen=True, eq=False)
class Facts:
    """Everything about an array but its address. Strides count bytes; None is compact.

    ``stream`` is that of the work that made the array, where the array says so; a call waits for it. Equal facts are the
    same object when made by :meth:`of`, so that calls find what they know of them by identity.
    """

    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    readonly: bool
    device: int | None
    stream: int | None = None

    @classmethod
    def of(
        cls,
        dtype: str,
        itemsize: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        readonly: bool,
        device: int | None,
        stream: int | None = None,
    ) -> Facts:
        """The facts of these values; one object for each.

        >>> Facts.of("int8", 1, (3,), None, False, 0) is Facts.of("int8", 1, (3,), None, False, 0)
        True
        """
        key = (dtype, itemsize, shape, strides, readonly, device, stream)
        found = _known.get(key)
        if found is None:
            found = _known[key] = cls(*key)
        return found
