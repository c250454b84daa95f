"""Annotated reductions in scripts, and machine code of them: what tests of partial results share."""

from __future__ import annotations

from typing import Any

import tirlower as tl
from tirlower.ir import PrimFunc
from tirlower.script import parse

KINDS = ("parallel", "vectorized")
MARK = '{"tir.reduction": True}'


def loop(kind: str, extent: Any, start: Any = 0) -> str:
    """The header of an annotated loop in a script."""
    return f"T.{kind}({start}, {start} + {extent}, annotations={MARK})"


def reduce_by(kind: str, extent: int, update: str, dtype: str = "int32", start: int = 0) -> PrimFunc:
    """``update`` (of S[0] by A[i]) for each i."""
    return parse(f"""
@T.prim_func
def f(A: T.Buffer(({max(start + extent, 1)},), "{dtype}"), S: T.Buffer((1,), "{dtype}")):
    for i in {loop(kind, extent, start)}:
        {update}
""")


def native(func: PrimFunc, *args: Any, threads: int = 2) -> None:
    tl.build(func, target=tl.Target("llvm", num_threads=threads), schedule="none")(*args)
