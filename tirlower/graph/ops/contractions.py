"""Sums of products: matrix products, and whatever an equation of indices says."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tirlower.graph.core.dims import Extent, same_extent
from tirlower.graph.core.extents import shown
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import Formal, Reduction, accumulator, broadcast, compute, lead, sum_over
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.reductions import any_over
from tirlower.graph.ops.registry import common_dtype, macro, op
from tirlower.ir import Expr, Var, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import INT64

if TYPE_CHECKING:
    from tirlower.graph.ops.builder import GraphBuilder

__all__ = ["matmul", "parsed"]


@op("matmul")
def matmul(a: Formal, b: Formal) -> Generic:
    """Matrix product over the last two axes, batch axes broadcast; an operand of one axis is a row or a column."""
    if not a.ndim or not b.ndim:
        raise GraphError("matmul takes tensors of one axis or more, got a scalar", help="multiply by it: x * scalar")
    depth = same_extent(
        a.shape[-1],
        b.shape[-2] if b.ndim > 1 else b.shape[0],
        "matmul: the axes that are added up differ",
        "the last axis of the first operand is the last but one of the second: transpose one of them?",
    )
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.ndim > 1 else ()
    dtype = common_dtype(a, b)
    wide = accumulator(dtype)

    def element(*i: Var) -> Reduction:
        outer, row, column = i[: len(batch)], i[len(batch) : len(batch) + len(rows)], i[len(batch) + len(rows) :]

        def term(k: Var) -> Expr:
            left = a[(*lead(a, outer, max(a.ndim - 2, 0)), *row, k)].astype(wide)
            right = b[(*lead(b, outer, max(b.ndim - 2, 0)), k, *column)].astype(wide)
            return build.logical_and(left, right) if wide.is_bool else left * right

        return any_over(depth, term) if wide.is_bool else sum_over(depth, term)

    return compute((*batch, *rows, *columns), element, dtype)


@macro("gemm")
def gemm(
    b: GraphBuilder,
    a: Value,
    w: Value,
    c: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    trans_a: bool = False,
    trans_b: bool = False,
) -> Value:
    """alpha * a @ w + beta * c, the matrices transposed where it is said."""
    for x in (a, w):
        if len(x.shape) != 2:
            raise GraphError(f"gemm takes matrices, got {x.name} of shape {shown(x.shape)}")
    found = b.op("matmul", b.op("transpose", a) if trans_a else a, b.op("transpose", w) if trans_b else w)
    if alpha != 1:
        found = b.op("multiply", found, _weak(alpha, found))
    if c is None or beta == 0:
        return found
    return b.op("add", found, c if beta == 1 else b.op("multiply", c, _weak(beta, c)))


def _weak(number: float, x: Value) -> float:
    """A factor as a number of the operand's kind."""
    return number if x.dtype.is_float else int(number)


# Equations


def parsed(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The labels of the operands' axes and of the result's; ``...`` becomes labels of its own. Raises :class:`GraphError`.

    >>> parsed("...ij,jk", [3, 2])
    (['aij', 'jk'], 'aik')
    """
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise GraphError(f"einsum: the equation {equation!r} is of {len(terms)} operands, got {len(ranks)}")
    used = set(text) & set(string.ascii_letters)
    free = [c for c in string.ascii_letters if c not in used]
    spread = max(
        (rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks, strict=True) if "..." in t), default=0
    )
    if spread > len(free):
        raise GraphError(f"einsum: the equation {equation!r} has more axes than there are letters")
    more = "".join(free[: max(spread, 0)])
    labels: list[str] = []
    for n, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        own = rank - len(term.replace("...", ""))
        if own < 0 or (own and "..." not in term):
            raise GraphError(f"einsum: {term!r} in {equation!r} does not name the {rank} axes of operand {n}")
        labels.append(term.replace("...", more[len(more) - own :]))
    if arrow:
        out = right.replace("...", more)
    else:
        whole = "".join(labels)
        out = more + "".join(sorted(c for c in used if whole.count(c) == 1))
    known = set("".join(labels))
    for c in out:
        if c not in known or out.count(c) > 1:
            raise GraphError(f"einsum: {c!r} stands in the result of {equation!r} {'twice' if c in known else 'alone'}")
    for c in known:
        if c not in string.ascii_letters:
            raise GraphError(f"einsum: an axis is a letter, got {c!r} in {equation!r}")
    return labels, out


@op("contract")
def contract(a: Formal, b: Formal | None = None, *, equation: str) -> Generic:
    """Products of elements of one or two operands, summed over the labels that the result of the equation lacks."""
    operands = [a] if b is None else [a, b]
    labels, out = parsed(equation, [x.ndim for x in operands])
    sizes: dict[str, Extent] = {}
    for x, names in zip(operands, labels, strict=True):
        for n, (label, extent) in enumerate(zip(names, x.shape, strict=True)):
            known = sizes.get(label, 1)
            if isinstance(known, int) and known == 1:
                sizes[label] = extent
            elif not (isinstance(extent, int) and extent == 1):
                sizes[label] = same_extent(known, extent, f"einsum: axis {n} of {x.name}, {label!r}, has two extents")
    dtype = common_dtype(*operands)
    if dtype.is_bool:
        raise GraphError("einsum takes numbers, got bool", help="convert it with astype")
    wide = accumulator(dtype)
    summed = list(dict.fromkeys(c for names in labels for c in names if c not in out))

    def term(at: dict[str, Var]) -> Expr:
        found: Expr | None = None
        for x, names in zip(operands, labels, strict=True):
            own = tuple(
                const(0, INT64) if isinstance(e, int) and e == 1 else at[c] for c, e in zip(names, x.shape, strict=True)
            )
            value = x[own].astype(wide)
            found = value if found is None else found * value
        assert found is not None
        return found

    def element(*i: Var) -> Reduction | Expr:
        outer = dict(zip(out, i, strict=True))
        if not summed:
            return term(outer)
        extents = tuple(sizes[c] for c in summed)
        return sum_over(extents, lambda *k: term({**outer, **dict(zip(summed, k, strict=True))}))

    return compute(tuple(sizes[c] for c in out), element, dtype)


@macro("einsum")
def einsum(b: GraphBuilder, *xs: Value, equation: str) -> Value:
    """The sums of products that an equation says, as NumPy's einsum reads it; operands are taken from the left, two at a time."""
    labels, out = parsed(equation, [len(x.shape) for x in xs])
    first, rest = (xs[0], labels[0]), list(zip(xs[1:], labels[1:], strict=True))
    if not rest:
        return b.op("contract", first[0], equation=f"{first[1]}->{out}")
    while rest:
        x, names = rest.pop(0)
        needed = out + "".join(n for _, n in rest)
        kept = out if not rest else "".join(dict.fromkeys(c for c in first[1] + names if c in needed))
        first = b.op("contract", first[0], x, equation=f"{first[1]},{names}->{kept}"), kept
    return first[0]
