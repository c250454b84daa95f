"""Assertions and prints in traced functions.

>>> import numpy as np, tirlower.graph as tg
>>> def root(x):
...     tg.assert_((x >= 0).all(), "x is not negative")
...     return np.sqrt(x)
>>> print(tg.trace(root, tg.spec((4,), "float32")))
@tg.graph
def root(x: tg.Tensor((4,), "float32")):
    greater_equal: tg.Tensor((4,), "bool") = tg.greater_equal(x, 0.0)
    all: tg.Tensor((), "bool") = tg.all(greater_equal)
    tg.assert_(all, "x is not negative")
    sqrt: tg.Tensor((4,), "float32") = tg.sqrt(x)
    return sqrt
"""

from __future__ import annotations

import numpy as np

from tirlower.diagnostics import RuntimeAssertError
from tirlower.graph.core.debug import tensor_text
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.control import recording_of, values_of
from tirlower.graph.frontend.recording import place

__all__ = ["assert_", "print_"]


def assert_(condition: object, text: str = "") -> None:
    """End a call of the graph with :class:`tirlower.RuntimeAssertError` unless a bool without axes is true.

    It keeps its order among assertions and prints. ``tg.compile`` drops both
    (:class:`tirlower.graph.passes.debug.StripDebug`), unless it is told not to: ``Options(optimize=False)``, or
    ``PassContext(config={"graph.StripDebug": {"asserts": False}})``. Given arrays alone it checks at once. Raises
    :class:`GraphError` for a condition that is no bool, or has axes.

    >>> assert_(np.all(np.ones(3) > 0), "all are positive")
    >>> assert_(np.all(np.zeros(3) > 0), "all are positive")
    Traceback (most recent call last):
    ...
    tirlower.diagnostics.RuntimeAssertError: error: all are positive
    """
    recording = recording_of([condition])
    if recording is not None:
        (value,) = values_of(recording, [condition])
        with recording.adding() as builder:
            builder.assert_(value, text)
        return
    array = np.asarray(condition)
    if array.shape or array.dtype != np.bool_:
        raise GraphError(
            f"what is asserted at {place()} is a bool without axes, got {array.dtype}{list(array.shape)}",
            help="compare: x > 0; (x > 0).any() and .all() are of all elements",
        )
    if not array.item():
        raise RuntimeAssertError(text or f"what is asserted at {place()} is not true")


def print_(value: object, text: str = "") -> None:
    """Write a tensor to ``sys.stdout`` when the graph runs, behind a text; as :func:`assert_` it keeps its order, and is
    dropped by ``tg.compile`` unless that is told not to.

    >>> print_(np.arange(3, dtype="int32"), "places")
    places: int32[3] [0, 1, 2]
    """
    recording = recording_of([value])
    if recording is None:
        print(tensor_text(np.asarray(value), text))
        return
    (given,) = values_of(recording, [value])
    with recording.adding() as builder:
        builder.print_(given, text)
