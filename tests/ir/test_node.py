"""One declaration of a node: constructor, traversal, copying."""

from __future__ import annotations

from typing import Any

import pytest

from tirlower import ir
from tirlower.ir.node import NODES, Node, Role, attrs, binds, buffer_use, child, data, hint, node


@pytest.fixture
def sample():
    before = dict(NODES)

    @node
    class Leaf(Node):
        value: int = data(convert=int)
        name: str = hint(default="leaf")

    @node
    class Pair(Node):
        left: Any = child()
        rest: tuple[Any, ...] = child(convert=tuple)
        kind: str = data(default="k")
        note: Any = hint(default=None, kw_only=True)
        extra: Any = child(default=None)

        def check(self) -> None:
            if self.kind == "bad":
                raise ValueError("kind is bad")

    yield Leaf, Pair
    NODES.clear()
    NODES.update(before)


def test_constructor(sample):
    Leaf, Pair = sample
    a = Leaf("7")
    assert a.value == 7 and a.name == "leaf"
    pair = Pair(a, [a, a], note="n")
    assert pair.rest == (a, a) and pair.kind == "k" and pair.note == "n" and pair.extra is None
    assert [f.name for f in Pair.fields] == ["left", "rest", "kind", "extra", "note"]
    assert Pair.child_names == ("left", "rest", "extra") and not Pair.is_leaf and Leaf.is_leaf
    with pytest.raises(TypeError):
        Pair(a)
    with pytest.raises(TypeError):
        Pair(a, [], "k", None, "note")
    with pytest.raises(ValueError, match="kind is bad"):
        Pair(a, [], "bad")
    with pytest.raises(AttributeError):
        a.other = 1


def test_identity(sample):
    Leaf, _ = sample
    a, b = Leaf(1), Leaf(1)
    assert a != b and a == a and len({a, b}) == 2


def test_children_and_map_children(sample):
    Leaf, Pair = sample
    a, b, c, d = (Leaf(k) for k in range(4))
    pair = Pair(a, (b, c), note="n", extra=d)
    assert list(pair.children()) == [a, b, c, d]
    assert list(Pair(a, ()).children()) == [a]
    assert pair.map_children(lambda x: x) is pair
    new = pair.map_children(lambda x: d if x is c else x)
    assert new is not pair and new.rest == (b, d) and new.left is a and new.note == "n"
    assert list(pair.children()) == [a, b, c, d]


def test_with(sample):
    Leaf, Pair = sample
    a, b = Leaf(1), Leaf(2)
    pair = Pair(a, (b,))
    assert pair.with_(left=a, kind=pair.kind) is pair
    new = pair.with_(left=b)
    assert new.left is b and new.rest is pair.rest
    with pytest.raises((TypeError, AttributeError), match="nope"):
        pair.with_(nope=1)
    with pytest.raises((TypeError, AttributeError), match="nope"):
        pair.with_(left=b, nope=1)


def test_fields_of_a_base_come_first():
    before = dict(NODES)
    try:

        @node
        class Base(Node):
            a: int = data()
            late: int = hint(default=0, kw_only=True)

        @node
        class Derived(Base):
            b: int = data()

        made = Derived(1, 2, late=3)
        assert (made.a, made.b, made.late) == (1, 2, 3) and NODES["Derived"] is Derived
        assert not hasattr(made, "__dict__")
    finally:
        NODES.clear()
        NODES.update(before)


def test_every_node_class_states_its_roles():
    for cls in NODES.values():
        assert len({f.name for f in cls.fields}) == len(cls.fields)
        assert cls.child_names == tuple(f.name for f in cls.fields if f.role is Role.CHILD)
        assert not hasattr(cls, "__dict__") or "__dict__" not in cls.__slots__


def test_specifiers_have_their_roles():
    roles = [child(), binds(), buffer_use(), data(), attrs(), hint()]
    assert [f.role for f in roles] == list(Role)
    assert child().required and not child(default=None).required and "child" in repr(child())


def test_expressions_have_no_truth():
    x = ir.Var("x")
    with pytest.raises(Exception, match="truth"):
        bool(x)
    assert (x == x) is True and (x == ir.Var("x")) is False and (x != x) is False
