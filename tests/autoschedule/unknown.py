"""Programs of sizes that the caller alone knows, scheduled and called with many: the bits of the loops as written each time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

import tirlower as tl
from tests.autoschedule.scheduled import planned, replays
from tests.checking import roundtrips
from tests.hostile.memory import Fenced
from tirlower.autoschedule.choose import ScheduledFunction
from tirlower.ir import IntImm, PrimFunc, Var

__all__ = ["of_any_size"]


def of_any_size(
    program: str | PrimFunc,
    sizes: Iterable[Mapping[str, int]],
    target: str = "llvm -num_threads=2",
    tolerance: float = 0.0,
) -> ScheduledFunction:
    """Plan, replay, and call with sizes by name: each array that is written has the bytes that the loops as written give
    it, or is near to them. Behind each array, or in front of it, is memory that nothing may touch."""
    found = planned(program, target)
    replays(found)
    roundtrips(found.function)
    plain, made = tl.build(found.written, target, schedule="none"), tl.build(found.function, target, schedule="none")
    rng = np.random.default_rng(0)
    for turn, values in enumerate(sizes):
        arguments = [_array(rng, found.written, number, values) for number in range(len(found.written.buffers))]
        fenced = [Fenced(one.ravel(), at_end=turn % 4 != 3) for one in arguments]
        others = [fence.array.reshape(one.shape) for fence, one in zip(fenced, arguments, strict=True)]
        plain(*arguments)
        made(*others)
        assert all(fence.intact() for fence in fenced), values
        others = [one.copy() for one in others]
        for fence in fenced:
            fence.free()
        for one, other in zip(arguments, others, strict=True):
            if tolerance:
                np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance, err_msg=str(values))
            else:
                assert one.tobytes() == other.tobytes(), values
    return found


def _array(rng: np.random.Generator, func: PrimFunc, number: int, values: Mapping[str, int]) -> np.ndarray:
    buffer = func.buffers[number]
    shape = []
    for extent in buffer.shape:
        assert isinstance(extent, (IntImm, Var))
        shape.append(extent.value if isinstance(extent, IntImm) else values[extent.name])
    if buffer.dtype.is_float:
        return rng.standard_normal(shape).astype(str(buffer.dtype))
    return rng.integers(-100, 100, shape).astype(str(buffer.dtype))
