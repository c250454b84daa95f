"""What is known of an array besides its address."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Facts"]


class Facts(NamedTuple):
    """Everything about an array but its address. Strides count bytes; None is compact.

    ``stream`` is that of the work that made the array, where the array says so; a call waits for it.
    """

    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    readonly: bool
    device: int | None
    stream: int | None = None
