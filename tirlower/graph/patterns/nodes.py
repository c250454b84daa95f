"""The nodes of the pattern language: what a value may look like, and what may be said of it.

A pattern is an object, and one object stands for one value: the same wildcard at two places of a pattern matches where
both places have the same value. Patterns are built once and not changed; :mod:`tirlower.graph.patterns.build` has the
functions that make them, :mod:`tirlower.graph.patterns.match` says what each matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.dims import DimEnv, Extent, as_extent
from tirlower.graph.core.nodes import Graph, GraphNode, Op, TensorType, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.patterns.subjects import Subject, Test, has_attrs, has_shape, of_value, shape_text, shown
from tirlower.ir.dtype import Array, DataType

if TYPE_CHECKING:
    from tirlower.graph.patterns.constraints import PatternSeq
    from tirlower.graph.patterns.fusion import PatternCheckContext
    from tirlower.graph.patterns.match import Match

__all__ = [
    "Argument",
    "CallPattern",
    "ConstantPattern",
    "Constrained",
    "DFPattern",
    "DataflowVarPattern",
    "DominatorPattern",
    "ExprPattern",
    "NotPattern",
    "AndPattern",
    "OrPattern",
    "SameShapePattern",
    "ShapePattern",
    "TupleGetItemPattern",
    "TuplePattern",
    "VarPattern",
    "WildcardPattern",
    "as_pattern",
]

Argument: TypeAlias = "DFPattern | bool | int | float | Array | None"
"""What stands for an operand: a pattern, a number or an array for a constant, None for a parameter that is left out."""


@dataclass(frozen=True, eq=False)
class DFPattern:
    """Base of patterns. ``p | q``, ``p & q``, ``~p`` combine them, ``p[i]`` is a result of an operation that has several."""

    @property
    def parts(self) -> tuple[DFPattern, ...]:
        """The patterns that it is made of."""
        return tuple(p for f in fields(self) for p in _patterns_in(getattr(self, f.name)))

    @property
    def wanted(self) -> str:
        """What it looks for, in a word, for messages."""
        raise GraphError(f"{type(self).__name__} is no pattern by itself", help="give it a property `wanted`")

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        """The same pattern, made of others in the order of its parts: always a new object."""
        rest = iter(parts)
        return replace(self, **{f.name: _with_patterns(getattr(self, f.name), rest) for f in fields(self)})

    # Combining

    def __or__(self, other: DFPattern) -> OrPattern:
        """Either; the left one is tried first."""
        return OrPattern(self, as_pattern(other))

    def __and__(self, other: DFPattern) -> AndPattern:
        """Both, of one value."""
        return AndPattern(self, as_pattern(other))

    def __invert__(self) -> NotPattern:
        """Any value that the pattern alone does not match."""
        return NotPattern(self)

    def __getitem__(self, index: int) -> TupleGetItemPattern:
        """A result of an operation that has several."""
        return TupleGetItemPattern(self, index)

    def __iter__(self) -> Iterator[DFPattern]:
        raise TypeError("a pattern has no end: take results by their numbers, `p[0]`")

    def optional(self, option: Callable[[DFPattern], DFPattern]) -> OrPattern:
        """The pattern with something around it where that is there, else alone.

        >>> from tirlower.graph.patterns import is_op, wildcard
        >>> p = is_op("conv")(wildcard(), wildcard()).optional(lambda c: is_op("relu")(c))
        """
        return OrPattern(option(self), self)

    def dup(self) -> DFPattern:
        """The same pattern made of new objects, which may stand for other values."""
        made: dict[DFPattern, DFPattern] = {}
        stack = [self]
        while stack:
            one = stack[-1]
            missing = [p for p in one.parts if p not in made]
            if missing:
                stack += missing
                continue
            stack.pop()
            if one not in made:
                made[one] = one.with_parts([made[p] for p in one.parts])
        return made[self]

    # Properties

    def has_attr(self, attrs: Mapping[str, object]) -> Constrained:
        """The operation has these attributes, beside others; of a call, its graph has them."""
        return Constrained(self, f"attributes {dict(attrs)!r}", has_attrs(attrs))

    def has_dtype(self, dtype: DataType | str) -> Constrained:
        """The value is of a dtype."""
        kind = DataType(dtype)
        return Constrained(self, f"dtype {kind!s}", of_value(lambda v: v.dtype == kind))

    def has_shape(self, shape: Sequence[object]) -> Constrained:
        """The value has a shape: extents that are provably equal; None stands for any extent."""
        extents = tuple(None if e is None else as_extent(e) for e in shape)
        return Constrained(self, f"shape {shape_text(extents)}", has_shape(extents))

    def has_rank(self, rank: int) -> Constrained:
        """The value has so many axes."""
        return Constrained(self, f"rank {rank}", of_value(lambda v: len(v.shape) == rank))

    def has_ty(self, kind: TensorType) -> Constrained:
        """The value has a shape and a dtype."""
        typed = self.has_dtype(kind.dtype).has_shape(kind.shape)
        assert isinstance(typed.pattern, Constrained)
        tests = typed.pattern.test, typed.test
        return Constrained(self, f"type {kind}", lambda s, env: tests[0](s, env) or tests[1](s, env))

    def where(self, test: Callable[[Value], bool], wanted: str = "what a function asks for") -> Constrained:
        """A function of the value says yes; of several values, of the first."""

        def checked(subject: Subject, _: DimEnv) -> str | None:
            value = subject if isinstance(subject, Value) else subject[0] if subject else None
            return None if value is not None and test(value) else shown(subject)

        return Constrained(self, wanted, checked)

    def same_shape_as(self, *others: DFPattern) -> DFPattern:
        """The values of the patterns have the same shape, provably. In a context it is a constraint of the context."""
        from tirlower.graph.patterns.constraints import current

        context = current()
        if context is None:
            return SameShapePattern(self, others)
        context.same_shape((self, *others))
        return self

    # Edges of a context

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        """Used by."""
        return self._sequence().used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        """Used by nothing else."""
        return self._sequence().only_used_by(other)

    def used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """The other one reads it, as its operand of a number where one is given. A constraint of the context."""
        return self._sequence().used_by(other, index)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """The other one reads it, and nothing else does. A constraint of the context."""
        return self._sequence().only_used_by(other, index)

    def fork_to(self, *others: DFPattern) -> None:
        """Each of the others reads it. A constraint of the context."""
        for other in others:
            self.used_by(other)

    def _sequence(self) -> PatternSeq:
        from tirlower.graph.patterns.constraints import PatternSeq

        return PatternSeq((self,))

    # What is done with it

    def match(self, value: Value, graph: Graph | None = None) -> Match | None:
        """How the pattern matches a value, if it does. ``graph`` brings what is known of the dims.

        Raises :class:`GraphError` where that takes too many steps to say.
        """
        from tirlower.graph.patterns.match import Matcher

        return next(Matcher(graph).matches(self, value), None)

    def matches(self, value: Value, graph: Graph | None = None) -> Iterator[Match]:
        """All ways in which the pattern matches a value, in the order in which they are found."""
        from tirlower.graph.patterns.match import Matcher

        return Matcher(graph).matches(self, value)

    def partition(
        self,
        graph: Graph,
        attrs: Mapping[str, object] | None = None,
        check: Callable[[PatternCheckContext], bool] | None = None,
    ) -> Graph:
        """The graph with the matches of the pattern as composites of these attributes, found from the outputs."""
        from tirlower.graph.passes.partition import partition_pattern

        return partition_pattern(self, graph, attrs, check)

    def explain(self, value: Value, graph: Graph | None = None) -> str:
        """How far the best attempt came to match a value: what was wanted where, and what was found there."""
        from tirlower.graph.patterns.explain import explain

        return explain(self, value, graph)


def as_pattern(given: object) -> DFPattern:
    """A pattern; of a number or an array, that of the constant. Raises :class:`GraphError` for others."""
    if isinstance(given, DFPattern):
        return given
    if isinstance(given, (bool, int, float, np.ndarray, np.generic)):
        return ConstantPattern(given)
    raise GraphError(f"this is no pattern: {given!r}", help="wildcard(), is_op(name)(...), a number, an array")


@dataclass(frozen=True, eq=False)
class WildcardPattern(DFPattern):
    """Anything. What only a wildcard matches is an input of the match."""

    @property
    def wanted(self) -> str:
        return "anything"

    def __call__(self, *args: Argument, varg_default_wildcard: bool = False) -> CallPattern:
        """Any operation on such operands."""
        return CallPattern("any operation", lambda node: isinstance(node, Op))(
            *args, varg_default_wildcard=varg_default_wildcard
        )


@dataclass(frozen=True, eq=False)
class VarPattern(DFPattern):
    """An input of the graph, of a name or of any."""

    name: str | None = None

    @property
    def wanted(self) -> str:
        return "an input" if self.name is None else f"the input `{self.name}`"


@dataclass(frozen=True, eq=False)
class DataflowVarPattern(DFPattern):
    """A value that a node makes which is no constant."""

    @property
    def wanted(self) -> str:
        return "the result of an operation"


@dataclass(frozen=True, eq=False)
class ExprPattern(DFPattern):
    """One value, the object itself."""

    value: Value

    @property
    def wanted(self) -> str:
        return f"the value `{self.value.name}`"


@dataclass(frozen=True, eq=False)
class ConstantPattern(DFPattern):
    """A constant: any, one that is a number in every element, or one that equals an array."""

    value: object = None

    @property
    def wanted(self) -> str:
        if self.value is None:
            return "a constant"
        one = np.asarray(self.value)
        return f"the constant {one.item()!r}" if one.ndim == 0 else f"a constant of {one.dtype}{list(one.shape)}"

    def holds(self, data: ConstantData) -> bool:
        """Whether a constant is the wanted one; no where its array is not here."""
        if self.value is None:
            return True
        wanted = np.asarray(self.value)
        if wanted.ndim and wanted.shape != data.shape:
            return False
        if data.is_abstract:
            return bool(wanted.ndim) and ConstantData(wanted) == data
        found = data.numpy() if data.value is None else np.asarray(data.value, data.dtype.numpy)
        if not found.size:
            return bool(wanted.ndim)
        if wanted.ndim and isinstance(self.value, np.ndarray) and wanted.dtype != found.dtype:
            return False
        rounded = wanted.astype(found.dtype)
        if not wanted.ndim and found.dtype.kind in "biu" and wanted.item() != rounded.item():
            return False  # 0.5 is no integer
        return bool(np.all((found == rounded) | ((found != found) & (rounded != rounded))))


@dataclass(frozen=True, eq=False)
class ShapePattern(DFPattern):
    """A shape: as an argument, the attribute ``shape`` of the operation; elsewhere a value of that shape."""

    shape: tuple[Extent, ...]

    @property
    def wanted(self) -> str:
        return f"shape {shape_text(self.shape)}"


@dataclass(frozen=True, eq=False)
class CallPattern(DFPattern):
    """A node of some kind on operands; ``args`` is None where the operands do not matter.

    Called, it gives the pattern with operands: one argument for each parameter of the operation, None for one that is left
    out; :func:`~tirlower.graph.patterns.build.is_tuple` for a variadic one, or its operands one by one.
    """

    name: str
    """The kind of node, for messages; of operations, the operation."""
    accepts: Callable[[GraphNode], bool] = field(repr=False)
    args: tuple[DFPattern | None, ...] | None = None
    varg_default_wildcard: bool = False
    """Whether parameters beyond the arguments may be anything."""
    commutative: bool = False
    associative: bool = False
    """Whether the arguments are operands of a chain of such nodes, however they are grouped."""
    shape: tuple[Extent, ...] | None = None
    """What the attribute ``shape`` has to be."""
    inside: tuple[tuple[DFPattern, ...], tuple[DFPattern, ...]] | None = None
    """What the parameters and the results of the graph that is called look like."""

    @property
    def wanted(self) -> str:
        return self.name

    def __call__(self, *args: Argument, varg_default_wildcard: bool = False) -> CallPattern:
        """The pattern with operands. A single None stands for any operands."""
        if self.args is not None:
            raise GraphError(f"the pattern of {self.name} has operands already")
        if len(args) == 1 and args[0] is None:
            return replace(self)
        shapes = [a for a in args if isinstance(a, ShapePattern)]
        operands = tuple(None if a is None else as_pattern(a) for a in args if not isinstance(a, ShapePattern))
        if len(shapes) > 1:
            raise GraphError(f"the pattern of {self.name} has two shapes")
        if self.associative and (len(operands) < 2 or None in operands or varg_default_wildcard or shapes):
            raise GraphError(f"a chain of {self.name} is of two operands at least, each of them a pattern")
        shape = shapes[0].shape if shapes else None
        return replace(self, args=operands, shape=shape, varg_default_wildcard=varg_default_wildcard)


@dataclass(frozen=True, eq=False)
class TuplePattern(DFPattern):
    """The operands of a variadic parameter, or all results of a node: so many, in order or in any; None: any number."""

    fields: tuple[DFPattern, ...] | None
    unordered: bool = False

    @property
    def wanted(self) -> str:
        return "several values" if self.fields is None else f"{len(self.fields)} values"


@dataclass(frozen=True, eq=False)
class TupleGetItemPattern(DFPattern):
    """A result of a node that has several; ``index`` says which one, None any."""

    pattern: DFPattern
    index: int | None = None

    @property
    def wanted(self) -> str:
        which = "a result" if self.index is None else f"result {self.index}"
        return f"{which} of {self.pattern.wanted}"


@dataclass(frozen=True, eq=False)
class OrPattern(DFPattern):
    """Either of two patterns."""

    left: DFPattern
    right: DFPattern

    @property
    def wanted(self) -> str:
        return f"{self.left.wanted} or {self.right.wanted}"

    def __call__(self, *args: Argument, varg_default_wildcard: bool = False) -> OrPattern:
        """Either operation on the same operands: ``(is_op("relu") | is_op("gelu"))(x)``."""
        arms = []
        for arm in (self.left, self.right):
            if not isinstance(arm, (CallPattern, OrPattern)):
                raise GraphError(f"{arm.wanted} takes no operands")
            arms.append(arm(*args, varg_default_wildcard=varg_default_wildcard))
        return OrPattern(arms[0], arms[1])


@dataclass(frozen=True, eq=False)
class AndPattern(DFPattern):
    """Both of two patterns, of one value."""

    left: DFPattern
    right: DFPattern

    @property
    def wanted(self) -> str:
        return f"{self.left.wanted} and {self.right.wanted}"


@dataclass(frozen=True, eq=False)
class NotPattern(DFPattern):
    """What a pattern by itself does not match; the values of its parts are nobody's."""

    pattern: DFPattern

    @property
    def wanted(self) -> str:
        return f"no {self.pattern.wanted}"


@dataclass(frozen=True, eq=False)
class Constrained(DFPattern):
    """A pattern whose value has a property."""

    pattern: DFPattern
    what: str
    test: Test = field(repr=False)

    @property
    def wanted(self) -> str:
        return f"{self.pattern.wanted} with {self.what}"


@dataclass(frozen=True, eq=False)
class SameShapePattern(DFPattern):
    """A pattern whose value has the shape of the values of others; those that stand for nothing do not count."""

    pattern: DFPattern
    others: tuple[DFPattern, ...]

    @property
    def wanted(self) -> str:
        return f"{self.pattern.wanted} of the shape of {', '.join(p.wanted for p in self.others)}"


@dataclass(frozen=True, eq=False)
class DominatorPattern(DFPattern):
    """A value reached from one other only, through nodes that all match a pattern.

    Every way up from ``child`` goes through nodes that ``path`` matches, each by itself, and ends at the one value that
    ``parent`` matches, or at a constant; a way that ends at an input does not count.
    """

    parent: DFPattern
    path: DFPattern
    child: DFPattern

    @property
    def wanted(self) -> str:
        return f"{self.child.wanted} below {self.parent.wanted}"


def _patterns_in(value: object) -> Iterator[DFPattern]:
    """The patterns in a field: itself, or in tuples."""
    if isinstance(value, DFPattern):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _patterns_in(one)


def _with_patterns(value: object, rest: Iterator[DFPattern]) -> object:
    if isinstance(value, tuple):
        return tuple(_with_patterns(one, rest) for one in value)
    return next(rest) if isinstance(value, DFPattern) else value
