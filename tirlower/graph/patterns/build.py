"""The functions that make patterns: ``tg.dpl``, in the words of the field.

>>> import tirlower.graph as tg
>>> from tirlower.graph.patterns import is_op, wildcard
>>> x, w = wildcard(), wildcard()
>>> product = is_op("matmul")(x, w)
>>> layer = product.optional(lambda p: is_op("add")(p, wildcard()))
>>> g = tg.trace(lambda x, w, b: x @ w + b, tg.spec((4, 3), "float32"), tg.spec((3, 2), "float32"), tg.spec((2,), "float32"))
>>> found = layer.match(g.results[0])
>>> [node.name for node in found.nodes], [value.name for value in found.inputs], found[w].name
(['matmul', 'add'], ['x', 'w', 'b'], 'w')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tirlower.graph.core.control import Call
from tirlower.graph.core.dims import as_shape
from tirlower.graph.core.effects import Extern, KernelCall, Load
from tirlower.graph.core.nodes import GraphNode, Op, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.registry import definition
from tirlower.graph.patterns.nodes import (
    Argument,
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    VarPattern,
    WildcardPattern,
    as_pattern,
)
from tirlower.ir import PrimFunc

__all__ = [
    "FunctionPattern",
    "dominates",
    "is_call_dps_packed",
    "is_call_packed",
    "is_call_tir",
    "is_const",
    "is_dfv",
    "is_expr",
    "is_gv",
    "is_op",
    "is_shape",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "wildcard",
]


def wildcard() -> WildcardPattern:
    """Anything: an input of what is matched around it."""
    return WildcardPattern()


_ASSOCIATIVE: Final = frozenset(
    ["add", "multiply", "maximum", "minimum", "matmul"]
    + [f"{kind}_{name}" for kind in ("logical", "bitwise") for name in ("and", "or", "xor")]
)
"""Operations of which a chain is the same however it is grouped, rounding aside."""


def is_op(name: str, associative: bool = False) -> CallPattern:
    """An operation, on any operands; called with patterns of its operands, on such ones.

    Operands of commutative operations are tried in both orders. With ``associative`` it is a chain of the operation,
    called with two operands or more: those of the chain in any grouping, and in any order where the operation commutes.
    The nodes between have the dtype of the whole; they are covered, and no pattern stands for them. What is made of the
    match may be rounded in another order: say so by the numerics of a rule. Raises :class:`GraphError` for unknown
    operations, and for a chain of what cannot be grouped in another way.

    >>> import tirlower.graph as tg
    >>> g = tg.trace(lambda x, y, z: x + (tg.exp(y) + z), *[tg.spec((4,), "float32")] * 3)
    >>> a, b, c = wildcard(), wildcard(), wildcard()
    >>> match = is_op("add", associative=True)(a, b, is_op("exp")(c)).match(g.results[0])
    >>> [match[p].name for p in (a, b, c)], [node.name for node in match.nodes]
    (['x', 'z', 'y'], ['exp', 'add', 'add'])
    """
    found = definition(name)
    if associative and name not in _ASSOCIATIVE:
        raise GraphError(f"a chain of {name} is not the same in another grouping: it is not associative")

    def accepts(node: GraphNode) -> bool:
        return isinstance(node, Op) and node.name == name

    return CallPattern(name, accepts, commutative=found.commutative, associative=associative)


def is_const(value: object = None) -> ConstantPattern:
    """A constant: any one, one that is a number in every element, or one that equals an array."""
    return ConstantPattern(value)


def is_var(name: str | None = None) -> VarPattern:
    """An input of the graph."""
    return VarPattern(name)


def is_dfv() -> DataflowVarPattern:
    """A value that a node makes which is no constant."""
    return DataflowVarPattern()


def is_gv(name: str | None = None) -> CallPattern:
    """What a global holds, or the result of a graph that is called: of this name, or of any. Called with patterns of the
    operands, it is the call of a graph.
    """

    def accepts(node: GraphNode) -> bool:
        if isinstance(node, Load):
            return name in (None, node.source.name)
        return isinstance(node, Call) and name in (None, node.graph.name)

    return CallPattern("a global" if name is None else f"@{name}", accepts)


def is_call_tir(name: str | None = None, args: Sequence[Argument] | None = None) -> CallPattern:
    """The call of a prim func: of this name, or of any; on such operands, or on any."""
    return _kernel(name, args, PrimFunc, "a call of a prim func")


def is_call_dps_packed(name: str | None = None, args: Sequence[Argument] | None = None) -> CallPattern:
    """The call of a function of machine code that writes its results: of this symbol, or of any."""
    return _kernel(name, args, Extern, "a call of a symbol")


def is_call_packed(name: str | None = None, args: Sequence[Argument] | None = None) -> CallPattern:
    """The call of a kernel of either kind."""
    return _kernel(name, args, (PrimFunc, Extern), "a call of a kernel")


def _kernel(
    name: str | None, args: Sequence[Argument] | None, kinds: type | tuple[type, ...], what: str
) -> CallPattern:
    def accepts(node: GraphNode) -> bool:
        return isinstance(node, KernelCall) and isinstance(node.kernel, kinds) and name in (None, node.name)

    whole = CallPattern(what if name is None else f"{what} {name!r}", accepts)
    return whole if args is None else whole(*args)


def FunctionPattern(params: Sequence[DFPattern], body: DFPattern | Sequence[DFPattern]) -> CallPattern:
    """The call of a graph that looks so: patterns of its parameters in order, and of its results. Called with patterns of
    the operands, it asks for those too. (The name is that of the field.)

    >>> x = is_var()
    >>> square_of_anything = FunctionPattern([x], is_op("multiply")(x, x))(wildcard())
    """
    results = (body,) if isinstance(body, DFPattern) else tuple(body)
    return CallPattern("a call of a graph", lambda n: isinstance(n, Call), inside=(tuple(params), results))


def is_expr(value: Value) -> ExprPattern:
    """One value, the object itself. Raises :class:`GraphError` for what is no value."""
    if not isinstance(value, Value):
        raise GraphError(f"this is no value of a graph: {value!r}", help="is_const(array) is the pattern of a constant")
    return ExprPattern(value)


def is_tuple(fields: Sequence[object] | None, unordered: bool = False) -> TuplePattern:
    """The operands of a variadic parameter: these, in order or in any; None: any number of any."""
    return TuplePattern(None if fields is None else tuple(as_pattern(f) for f in fields), unordered)


def is_tuple_get_item(pattern: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """A result of an operation that has several: of a number, or any."""
    return TupleGetItemPattern(pattern, index)


def is_shape(dims: Sequence[object]) -> ShapePattern:
    """A shape: as an argument of an operation, its attribute ``shape``; elsewhere a value that has it."""
    return ShapePattern(as_shape(tuple(dims)))


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """A value that depends on one parent only, through nodes that all match ``path``.

    >>> fused = dominates(is_op("conv")(wildcard(), wildcard()), is_op("relu") | is_op("exp"), is_op("add"))
    """
    return DominatorPattern(parent, path, child)
