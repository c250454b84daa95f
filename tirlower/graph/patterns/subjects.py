"""What patterns are asked about: values, groups of them, the nodes that make them, and their properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tirlower.graph.core.control import Call
from tirlower.graph.core.dims import DimEnv, Extent
from tirlower.graph.core.effects import KernelCall
from tirlower.graph.core.nodes import GraphNode, Op, Value
from tirlower.ir import Expr, PrimFunc, structural_equal
from tirlower.ir.stmt import normalize_attr

__all__ = [
    "Subject",
    "Test",
    "attributes",
    "equal_shapes",
    "has_attrs",
    "has_shape",
    "node_of",
    "of_value",
    "shape_text",
    "shown",
    "shown_node",
]

Subject: TypeAlias = "Value | tuple[Value, ...]"
"""What a pattern stands for: a value, or several: the operands of a variadic parameter, or all results of a node."""
Test: TypeAlias = Callable[[Subject, DimEnv], "str | None"]
"""None where a value has the property, else what it has instead."""


def node_of(subject: Subject) -> GraphNode | None:
    """The node whose only result, or all of whose results, these are; None for others."""
    if isinstance(subject, Value):
        return subject.node if subject.node is not None and len(subject.node.results) == 1 else None
    node = subject[0].node if len(subject) > 1 else None
    return node if node is not None and node.results == subject else None


def shown(subject: Subject) -> str:
    """What a value is made by, and its name, for messages: ``add at `v7```."""
    if isinstance(subject, tuple):
        whole = node_of(subject)
        if whole is None:
            return f"{len(subject)} values ({', '.join(v.name for v in subject)})"
        return shown_node(whole)
    if subject.node is None:
        return f"the input `{subject.name}`"
    if len(subject.node.results) > 1:
        return f"result {subject.index} of {shown_node(subject.node)}"
    return shown_node(subject.node)


def shown_node(node: GraphNode) -> str:
    """A node for messages: its operation and the name of its first result."""
    what = node.name if isinstance(node, (Op, KernelCall)) else type(node).__name__.lower()
    what = "a constant" if what == "const" else f"call of {node.graph.name}" if isinstance(node, Call) else what
    return f"{what} at `{node.results[0].name}`" if node.results else what


def shape_text(shape: Sequence[Extent | None]) -> str:
    """A shape for messages, with ``?`` for any extent."""
    return "[" + ", ".join("?" if e is None else str(e) for e in shape) + "]"


def of_value(test: Callable[[Value], bool]) -> Test:
    """The test of a property that values have by their type; several values have none."""

    def checked(subject: Subject, _: DimEnv) -> str | None:
        if not isinstance(subject, Value):
            return shown(subject)
        return None if test(subject) else f"{subject.type} ({shown(subject)})"

    return checked


def has_shape(wanted: Sequence[Extent | None]) -> Test:
    """The test of a shape, where None stands for any extent."""
    return lambda subject, env: of_value(lambda v: equal_shapes(wanted, v.shape, env))(subject, env)


def equal_shapes(wanted: Sequence[Extent | None], shape: Sequence[Extent], env: DimEnv) -> bool:
    """Whether two shapes are provably equal; None is equal to any extent."""
    return len(wanted) == len(shape) and all(
        w is None or env.equal(w, e) is True for w, e in zip(wanted, shape, strict=True)
    )


def has_attrs(wanted: Mapping[str, object]) -> Test:
    """The test of attributes of the node that makes a value."""
    normal = {key: normalize_attr(value) for key, value in wanted.items()}

    def test(subject: Subject, _: DimEnv) -> str | None:
        node = node_of(subject)
        if node is None:
            return shown(subject)
        attrs = attributes(node)
        for key, value in normal.items():
            if key not in attrs:
                return f"{shown_node(node)} without {key!r}"
            if not _same(attrs[key], value):
                return f"{key}={attrs[key]!r} ({shown_node(node)})"
        return None

    return test


def attributes(node: GraphNode) -> Mapping[str, object]:
    """The attributes of an operation, of the graph or of the prim func that a node calls; none of other nodes."""
    if isinstance(node, Op):
        return node.attrs
    if isinstance(node, Call):
        return node.graph.attrs
    return node.kernel.attrs if isinstance(node, KernelCall) and isinstance(node.kernel, PrimFunc) else {}


def _same(a: object, b: object) -> bool:
    # 1 and True are equal, and not the same attribute.
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Expr) or isinstance(b, Expr):
        return structural_equal(a, b)
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)
