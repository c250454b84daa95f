"""Does an intrinsic's implementation do what its description says? Both are run; a difference is an error of who wrote them."""

from __future__ import annotations

import numpy as np

from tirlower.diagnostics import BadArgument, TirError
from tirlower.interp import interpret
from tirlower.ir.dtype import Array
from tirlower.ir.expr import IntImm
from tirlower.ir.func import PrimFunc
from tirlower.ir.tensor_intrin import TensorIntrin
from tirlower.validate.passes import WORK_LIMIT, estimated_work

__all__ = ["agreement"]

RUNS = 2


def agreement(intrin: TensorIntrin, name: str) -> str:
    """What is known of an implementation: how many runs agree, or why none was.

    The numbers are small and whole, so that sums are exact in any order. Raises :class:`BadArgument` where a run differs.
    """
    if estimated_work(intrin.desc) > WORK_LIMIT:
        return f"the implementation of {name} was not run: its description takes too long"
    for seed in range(RUNS):
        arrays = _arrays(intrin.desc, seed)
        if arrays is None:
            return f"the implementation of {name} was not run: no arguments can be made for it"
        try:
            wanted = _ran(intrin.desc, arrays)
            found = _ran(intrin.impl, arrays)
        except TirError as error:
            return f"the implementation of {name} was not run: {error.message}"
        for buffer, a, b in zip(intrin.desc.buffers, wanted, found, strict=True):
            differs = np.argwhere(~((a == b) | ((a != a) & (b != b))))
            if len(differs):
                at = tuple(int(i) for i in differs[0])
                raise BadArgument(
                    f"the implementation of {name} is not what its description says: {buffer.name}{list(at)} is {b[at]} "
                    f"where the description gives {a[at]}",
                    help="one of the two is wrong: they are compared on random arrays",
                )
    return f"the implementation of {name} agrees with its description in {RUNS} runs"


def _arrays(func: PrimFunc, seed: int) -> list[Array] | None:
    """Small whole numbers for each buffer; None where an extent is no number, or elements are vectors."""
    rng, made = np.random.default_rng(seed), []
    for buffer in func.buffers:
        shape = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]
        if len(shape) < len(buffer.shape) or buffer.dtype.is_vector or buffer.dtype.is_custom:
            return None
        low, high = (0, 2) if buffer.dtype.is_bool else (0 if buffer.dtype.is_uint else -4, 5)
        made.append(rng.integers(low, high, shape).astype(buffer.dtype.numpy))
    return made


def _ran(func: PrimFunc, arrays: list[Array]) -> list[Array]:
    copies = [array.copy() for array in arrays]
    interpret(func, *copies)
    return copies
