"""What index maps say of an operation: which element is read where, and what kind of operation that makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tirlower.ir import Add, BufferLoad, Cast, Expr, IntImm, Mul, Var

if TYPE_CHECKING:
    from tirlower.graph.ops.generic import Generic

__all__ = ["is_sum_of_products", "kind_of"]


def kind_of(generic: Generic) -> str:
    """The kind of an operation (:meth:`Generic.classify`)."""
    if generic.reduction:
        return "contraction" if is_sum_of_products(generic) else "reduction"
    order = tuple(it.var for it in generic.parallel)
    kinds = {_read_kind(load, order) for load in generic.loads()}
    for kind in ("injective", "broadcast"):
        if kind in kinds:
            return kind
    return "elementwise"


def _read_kind(load: BufferLoad, order: tuple[Var, ...]) -> str:
    """How a load reads: at the iteration's own place, with axes missing, or elsewhere."""
    if len(load.indices) == len(order) and all(i is v for i, v in zip(load.indices, order, strict=True)):
        return "elementwise"
    places = [order.index(i) for i in load.indices if i.__class__ is Var and i in order]
    own = all(isinstance(i, IntImm) or i in order for i in load.indices)
    return "broadcast" if own and places == sorted(set(places)) else "injective"


def is_sum_of_products(generic: Generic) -> bool:
    """Whether it adds up products of two loads, conversions looked through."""
    reducer = generic.reducer
    if reducer is None or len(generic.results) != 1 or not isinstance(reducer.result[0], Add):
        return False
    value = _bare(generic.results[0].value)
    return isinstance(value, Mul) and isinstance(_bare(value.a), BufferLoad) and isinstance(_bare(value.b), BufferLoad)


def _bare(value: Expr) -> Expr:
    while isinstance(value, Cast):
        value = value.value
    return value
