"""Which calls of a kernel machine code leaves to Python."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tirlower.gpu.launch import kernel
from tirlower.gpu.launch.native_layout import Block


class Counter:
    """What makes calls in Python, and counts them."""

    def __init__(self, slow: Any) -> None:
        self.slow = slow
        self.count = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return self.slow(*args, **kwargs)


@contextlib.contextmanager
def counted(made: Any) -> Iterator[Counter]:
    """Count the calls that a kernel, called before, makes in Python."""
    native = made._native
    counter = Counter(native._slow)
    native._block[Block.SLOW] = id(counter)
    try:
        yield counter
    finally:
        native._block[Block.SLOW] = id(native._slow)


@contextlib.contextmanager
def switched_off() -> Iterator[None]:
    """Kernels that are called for the first time here are called in Python."""
    before = kernel.takes_native_calls
    kernel.takes_native_calls = lambda *_: False
    try:
        yield
    finally:
        kernel.takes_native_calls = before
