"""Where a value stands in a tree: the way down to it, and the tree with another value there.

Nodes have no parents, and one node may stand in several places (a shared expression does): what names one place is the
way to it from the root. It prints as the messages of structural equality say it, ``body.stmts[0].extent``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar, cast

from tirlower.diagnostics import TirError
from tirlower.ir.expr import Expr, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.node import Node
from tirlower.ir.stmt import Stmt

__all__ = ["Key", "Path", "node_at", "places", "replace_at"]

Tree = TypeVar("Tree")


class Key(NamedTuple):
    """A step into a mapping: attributes, annotations, the functions of a module, the buffers of parameters."""

    value: object


Step: TypeAlias = "str | int | Key"
"""A field's name, an index into a tuple, a key of a mapping."""


@dataclass(frozen=True, slots=True)
class Path:
    """The steps from a root to what stands under it; without steps, the root itself.

    >>> print(Path(("body", "stmts", 0)) / "attrs" / Key("size"))
    body.stmts[0].attrs['size']
    """

    steps: tuple[Step, ...] = ()

    def __truediv__(self, step: Step) -> Path:
        return Path((*self.steps, step))

    def __str__(self) -> str:
        return "".join(map(_text, self.steps)).removeprefix(".")

    def chain(self, root: object) -> list[object]:
        """The values from a root down along the path, as far as the tree has them."""
        values = [root]
        for step in self.steps:
            value = values[-1]
            try:
                if step.__class__ is str:
                    values.append(getattr(value, step))
                elif isinstance(step, Key) and isinstance(value, dict):
                    values.append(value[step.value])
                elif isinstance(step, int) and isinstance(value, (tuple, list)):
                    values.append(value[step])
                else:
                    break
            except (AttributeError, KeyError, IndexError):
                break
        return values


def _text(step: Step) -> str:
    if isinstance(step, str):
        return f".{step}"
    at = step.value if isinstance(step, Key) else step
    return f"[{at.name if isinstance(at, Var) else repr(at)}]"


def _whole(root: object, path: Path) -> list[object]:
    """The values along a path that leads somewhere."""
    values = path.chain(root)
    if len(values) <= len(path.steps):
        end = f"`{Path(path.steps[: len(values) - 1])}`" if len(values) > 1 else "the root"
        raise TirError(
            f"nothing stands at `{path}`: the way ends at {end}, a {type(values[-1]).__name__}",
            help="a path is of the tree that it was made for; find the place anew in one that was rewritten",
        )
    return values


def node_at(root: object, path: Path) -> object:
    """What stands at a path (None where a field is empty). Raises :class:`TirError` where the tree has no such place."""
    value = root
    try:
        for step in path.steps:
            kind = step.__class__
            if kind is str:
                value = getattr(value, step)  # type: ignore[arg-type]
            elif kind is int and value.__class__ is tuple:
                value = value[step]  # type: ignore[index]
            else:
                return _whole(root, path)[-1]
    except (AttributeError, IndexError):
        return _whole(root, path)[-1]
    return value


def replace_at(root: Tree, path: Path, new: object) -> Tree:
    """The tree with another value at a path. What does not lie on the way there stays the same object.

    >>> from tirlower.ir import Add, Mul, Var
    >>> x, y, z = map(Var, "xyz")
    >>> print(replace_at(Add(Mul(x, y), z), Path(("a", "b")), z))
    x * z + z

    Raises :class:`TirError` where the tree has no such place, or a value of that kind cannot stand there.
    """
    values = _whole(root, path)
    for kind in (Expr, Stmt):
        if isinstance(values[-1], kind) and not isinstance(new, kind):
            wanted = "an expression" if kind is Expr else "a statement"
            raise TirError(f"{wanted} stands at `{path}`, and a {type(new).__name__} cannot take its place")
    for value, step, old in zip(values[-2::-1], path.steps[::-1], values[:0:-1], strict=True):
        new = value if new is old else _with(value, step, new)
    return cast(Tree, new)


def _with(value: object, step: Step, new: object) -> object:
    if isinstance(value, dict):
        return {**value, cast(Key, step).value: new}
    if isinstance(value, tuple | list):
        items = [*value]
        items[cast(int, step)] = new
        return type(value)(items)
    if isinstance(value, IRModule):
        attrs = value.attrs if step == "functions" else cast("dict[str, object]", new)
        return IRModule(cast("dict[str, PrimFunc]", new) if step == "functions" else value.functions, attrs)
    return cast(Node, value).with_(**{cast(str, step): new})


def places(root: Node, enter: Callable[[Node], bool] = lambda _: True) -> Iterator[tuple[Path, Node]]:
    """Every place under (and including) a root with the node that stands there, each before those inside it.

    A node that stands in several places comes several times. One for which ``enter`` is false is left out, and with it
    what is inside.

    >>> from tirlower.ir import Add, Mul, Var
    >>> x = Var("x")
    >>> [str(path) for path, node in places(Add(Mul(x, 2), x)) if node is x]
    ['a.a', 'b']
    """
    stack = [(Path(), root)]
    while stack:
        path, op = stack.pop()
        if not enter(op):
            continue
        yield path, op
        inside: list[tuple[Path, Node]] = []
        for name in op.child_names:
            value = getattr(op, name)
            if isinstance(value, tuple):
                inside += [(path / name / at, one) for at, one in enumerate(value)]
            elif value is not None:
                inside.append((path / name, value))
        stack += inside[::-1]
