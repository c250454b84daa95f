"""OOBChecker: no access leaves its buffer in an iteration that runs."""

from __future__ import annotations

from tirlower.analysis.out_of_bounds import find_out_of_bounds
from tirlower.diagnostics import TransformError
from tirlower.ir.func import PrimFunc
from tirlower.rewrite.base import FuncPass
from tirlower.rewrite.context import PassContext

__all__ = ["OOBChecker"]


class OOBChecker(FuncPass):
    """Refuse functions with an access that leaves its buffer; functions come back as they are.

    What counts is that of :func:`tirlower.analysis.find_out_of_bounds`: an index for which an iteration is found that is
    outside, or whose bounds are outside with loops of symbolic extents. An access that may only be outside for some value of
    an argument passes: ``check_bounds`` of a build guards those.
    Raises :class:`TransformError` with a note for each access.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         B[i] = A[i + 1]
    ... ''')
    >>> try:
    ...     OOBChecker()(func)
    ... except TransformError as error:
    ...     print(error.message, error.notes, sep="\\n")
    the function 'f' accesses memory outside its buffers
    ["load of 'A': index i + 1 of dimension 0 runs from 1 to 8, outside 0 <= index < 8, for instance at i = 7"]
    """

    name = "tir.OOBChecker"

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Check a function."""
        found = find_out_of_bounds(func)
        if found:
            raise TransformError(
                f"the function {func.name!r} accesses memory outside its buffers",
                span=found[0].span,
                notes=[str(one) for one in found],
                help="guard the access with a condition, or change the loops or the buffer",
            )
        return func
