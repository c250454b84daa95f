"""Whether a sum of floats may be added up in another order: a block's reduction axis says so, the annotation of a loop, or the
target."""

from __future__ import annotations

from tirlower.autoschedule.classify import Nest
from tirlower.ir.annotations import REDUCTION
from tirlower.ir.buffer import IterKind
from tirlower.ir.stmt import For
from tirlower.poly import Statement

__all__ = ["NO_PERMISSION", "any_order", "is_float_sum"]

NO_PERMISSION = (
    'sum kept in order: no permission; write a block with an R axis, or annotate the loop {"tir.reduction": True}, '
    "or build for a target with -fast-math-reassoc"
)


def is_float_sum(statement: Statement) -> bool:
    """Whether a statement updates what the order of its updates can be told from: a sum or a product of floats."""
    return statement.reduction is not None and not statement.reduction.reorders


def any_order(nest: Nest, statement: Statement) -> bool:
    """Whether the updates that a statement of a nest is may come in any order.

    >>> from tirlower.autoschedule.classify import nests_of
    >>> from tirlower.script import parse
    >>> plain, declared = nests_of(parse('''
    ... def f(A: T.Buffer((8,), "float32"), S: T.Buffer((1,), "float32"), P: T.Buffer((1,), "float32")):
    ...     for i in range(8):
    ...         S[0] = S[0] + A[i]
    ...     for i in range(8):
    ...         with T.block("P"):
    ...             v = T.axis.reduce(8, i)
    ...             P[0] = P[0] * A[v]
    ... '''))
    >>> [any_order(nest, nest.statements[0]) for nest in (plain, declared)]
    [False, True]
    """
    if nest.any_order or statement.reduction is None or statement.reduction.reorders:
        return True
    block = nest.block_of(statement)
    if block is not None and any(it.kind is IterKind.REDUCE for it in block.iters):
        return True
    return any(isinstance(loop.node, For) and bool(loop.node.annotations.get(REDUCTION)) for loop in statement.loops)
