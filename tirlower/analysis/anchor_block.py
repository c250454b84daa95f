"""The block that a program is about: its heaviest reduction."""

from __future__ import annotations

import math

from tirlower.analysis.flops import estimate_flops
from tirlower.diagnostics import ArgumentTypeError
from tirlower.ir.expr import IntImm
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.query import each
from tirlower.ir.stmt import Block

__all__ = ["find_anchor_block"]


def find_anchor_block(mod: IRModule | PrimFunc) -> Block | None:
    """The block with an ``init`` that executes the most operations; None where no block has one.

    A product followed by elementwise blocks is anchored at the product. Of several reductions (the transforms and the
    product of a Winograd convolution) the one counts whose body, as :func:`estimate_flops` counts it, times the
    points of its iterators is the greatest; the first of equals. An extent that is no constant counts once.
    Raises :class:`ArgumentTypeError` for what is neither a function nor a module.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... def f(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    ...     for i, k in T.grid(4, 8):
    ...         with T.block("sum"):
    ...             vi, vk = T.axis.remap("SR", [i, k])
    ...             with T.init():
    ...                 B[vi] = T.float32(0)
    ...             B[vi] = B[vi] + A[vi, vk]
    ...     for i in range(4):
    ...         with T.block("double"):
    ...             vi = T.axis.spatial(4, i)
    ...             C[vi] = B[vi] * T.float32(2)
    ... ''')
    >>> find_anchor_block(func).name
    'sum'
    """
    if not isinstance(mod, (IRModule, PrimFunc)):
        raise ArgumentTypeError(f"an anchor block is that of a function or a module, got {mod!r}")
    functions = mod.functions.values() if isinstance(mod, IRModule) else (mod,)
    found = [block for func in functions for block in each(Block, func.body) if block.init is not None]
    return max(found, key=_operations, default=None)


def _operations(block: Block) -> float:
    extents = [it.domain.extent for it in block.iters]
    return estimate_flops(block.body) * math.prod(max(e.value, 0) for e in extents if isinstance(e, IntImm))
