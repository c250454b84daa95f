"""Indices beyond 64 bits: a call whose sizes could make one is refused."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.dtype import FLOAT64
from tirlower.ir.expr import Expr, const
from tirlower.ir.failure_message import failure
from tirlower.ir.func import PrimFunc
from tirlower.ir.stmt import Assert, seq
from tirlower.poly import Scop
from tirlower.poly.words import WORD_REACH

__all__ = ["require_words"]


def require_words(scop: Scop, body: PrimFunc) -> PrimFunc:
    """``body`` (the function with its guards) behind an assertion that its index arithmetic stays within 64 bits."""
    reach: Expr | None = None
    for part in scop.reaches:
        reach = part if reach is None else build.max_(reach, part)
    if reach is None:
        return body
    text = (
        f"{scop.func.name}: with these sizes its index arithmetic may leave int64: "
        "call it with smaller arrays, or take products of three and more sizes out of its subscripts and conditions"
    )
    fits = build.le(reach, const(float(WORD_REACH), FLOAT64))
    return body.with_body(seq(Assert(fits, failure("OverflowError", text), span=None), body.body))
