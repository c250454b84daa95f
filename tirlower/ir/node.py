"""One declaration makes a node: fields with roles, from which everything else derives.

A node class states each field once, with a role:

- ``child``: a node (or tuple of nodes, or None) that is traversed, rewritten and compared;
- ``binds``: a variable or buffer that the node defines (compared up to renaming, refreshed when a body is copied);
- ``buffer_use``: a buffer that the node reads, writes or names, without defining it;
- ``data``: a plain value, compared by ``==``;
- ``attrs``: a mapping of annotations, normalised at construction and compared by structure;
- ``hint``: carried along, never compared (names, spans).

The decorator writes ``__init__`` and ``__slots__`` from the fields. ``Node.children``, ``Node.map_children``,
``Node.with_`` and, elsewhere, equality, hashing, printing and JSON read the same list, so no list of nodes can
forget one. Nodes are compared and hashed by identity.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Never, NoReturn, Self, TypeVar, cast, dataclass_transform

from tirlower.ir.text import script, show, text

if TYPE_CHECKING:
    from typing_extensions import disjoint_base
else:

    def disjoint_base(cls):
        """Say to the type checker that no class derives from this one and another: a node is an Expr or a Stmt."""
        return cls


__all__ = [
    "NODES",
    "REQUIRED",
    "Field",
    "Node",
    "Role",
    "attrs",
    "binds",
    "buffer_use",
    "child",
    "data",
    "disjoint_base",
    "hint",
    "node",
]

T = TypeVar("T")
N = TypeVar("N", bound="Node")
REQUIRED: Final = object()
"""The default of a field that has none, where fields before it have one: it is given by name then."""


class Role(enum.Enum):
    """What a field means to traversal and comparison (see the module's docstring)."""

    CHILD = "child"
    BINDS = "binds"
    BUFFER = "buffer_use"
    DATA = "data"
    ATTRS = "attrs"
    HINT = "hint"


class Field:
    """A field of a node class: its name, role, default, and conversion at construction."""

    __slots__ = ("convert", "default", "kw_only", "name", "role")

    def __init__(
        self,
        role: Role,
        default: object = REQUIRED,
        kw_only: bool = False,
        convert: Callable[[Never], object] | None = None,
    ) -> None:
        self.name = ""
        self.role = role
        self.default = default
        self.kw_only = kw_only
        self.convert = convert

    @property
    def required(self) -> bool:
        """Whether the constructor must be given it."""
        return self.default is REQUIRED

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self.role.value})"


# To the type checker a specifier gives a value of the field's type, so that `body: Stmt = child()` type-checks.
def _field(role: Role, default: object, kw_only: bool, convert: Callable[[Never], T] | None) -> T:
    return cast(T, Field(role, default, kw_only, convert))


def child(*, default: object = REQUIRED, kw_only: bool = False, convert: Callable[[Never], T] | None = None) -> T:
    """A child field: a node, a tuple of nodes, or None."""
    return _field(Role.CHILD, default, kw_only, convert)


def binds(*, default: object = REQUIRED, convert: Callable[[Never], T] | None = None) -> T:
    """A field that holds a variable or buffer (or a tuple of them) which the node defines."""
    return _field(Role.BINDS, default, False, convert)


def buffer_use(*, default: object = REQUIRED, convert: Callable[[Never], T] | None = None) -> T:
    """A field that holds a buffer used, not defined, by the node."""
    return _field(Role.BUFFER, default, False, convert)


def data(*, default: object = REQUIRED, kw_only: bool = False, convert: Callable[[Never], T] | None = None) -> T:
    """A field of plain data, compared by ``==``."""
    return _field(Role.DATA, default, kw_only, convert)


def attrs(*, default: object = REQUIRED, kw_only: bool = False, convert: Callable[[Never], T] | None = None) -> T:
    """A field that holds annotations."""
    return _field(Role.ATTRS, default, kw_only, convert)


def hint(*, default: object = REQUIRED, kw_only: bool = False, convert: Callable[[Never], T] | None = None) -> T:
    """A field that is carried along and never compared."""
    return _field(Role.HINT, default, kw_only, convert)


NODES: dict[str, type[Node]] = {}
"""Every node class by its name."""


class Node:
    """Base of all nodes. Compared by identity; built once and not changed."""

    __slots__ = ()

    fields: ClassVar[tuple[Field, ...]] = ()
    child_names: ClassVar[tuple[str, ...]] = ()
    is_leaf: ClassVar[bool] = True
    computed_slots: ClassVar[tuple[str, ...]] = ()
    cache_slots: ClassVar[tuple[str, ...]] = ()
    declares: ClassVar[bool] = False
    """Whether what it defines lives on behind it, in the scope around; other nodes close a scope of their own."""
    is_symbol: ClassVar[bool] = False
    """Whether it is defined by fields that bind it, and named everywhere else, as variables are."""
    binds_symbols: ClassVar[bool] = False
    """Whether what its fields bind are such nodes, and neither variables nor buffers."""
    is_closed: ClassVar[bool] = False
    """Whether nothing but variables reaches into it from around: it is compared and hashed once, wherever it stands."""
    node_name: ClassVar[str] = ""
    """The name in :data:`NODES`, where that is not the class's: a graph's Call stands beside the language's."""

    def check(self) -> None:
        """Raise if the fields do not fit together; called at the end of construction."""

    def children(self) -> Sequence[Node]:
        """The child nodes, in field order, tuples flattened, None left out."""
        return []

    def map_children(self, fn: Callable[[Never], Node]) -> Self:
        """The node with ``fn`` applied to each child; the same object if no child changed."""
        changed: dict[str, object] | None = None
        for name in self.child_names:
            old = getattr(self, name)
            if old is None:
                continue
            if old.__class__ is tuple:
                items = [fn(item) for item in old]
                for a, b in zip(old, items, strict=True):
                    if a is not b:
                        break
                else:
                    continue
                new: object = tuple(items)
            else:
                new = fn(old)
                if new is old:
                    continue
            if changed is None:
                changed = {}
            changed[name] = new
        return self if changed is None else self.with_(**changed)

    def with_(self, **changes: object) -> Self:
        """A copy with some fields changed; the same object if every given value already stands there."""
        for name, value in changes.items():
            if getattr(self, name) is not value:
                break
        else:
            return self
        args = {**self._values(), **changes}
        if len(args) > len(self.fields):
            unknown = next(name for name in changes if name not in self._values())
            raise TypeError(f"{type(self).__name__} has no field {unknown!r}")
        return type(self)(**args)

    def _values(self) -> dict[str, object]:
        """The values of all fields."""
        return {}

    def same_as(self, other: object) -> bool:
        """Whether it is the same object; :func:`structural_equal` asks whether two say the same."""
        return self is other

    def script(self, **options: object) -> str:
        """The node's text, as :func:`tirlower.script.printer.script` gives it with these options; a function's or
        module's parses back to an equal one."""
        return script(self, **options)

    def show(self, *style: str, **options: object) -> None:
        """Print the script, coloured where the terminal shows colours (see :func:`tirlower.script.printer.show`)."""
        show(self, *style, **options)

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


@dataclass_transform(field_specifiers=(child, binds, buffer_use, data, attrs, hint))
def node(cls: type[N]) -> type[N]:
    """Make a class of annotated fields a slotted node class (see the module's docstring)."""
    own: dict[str, Field] = {}
    namespace = dict(cls.__dict__)
    for name in inspect.get_annotations(cls):
        value = namespace.get(name)
        if isinstance(value, Field):
            value.name = name
            own[name] = value
            del namespace[name]
    inherited: dict[str, Field] = {}
    for base in reversed(cls.__mro__[1:]):
        for field in base.__dict__.get("own_fields", ()):
            inherited[field.name] = field
    namespace["own_fields"] = tuple(own.values())
    every = {**inherited, **own}
    positional = [f for f in every.values() if not f.kw_only]
    keyword = [f for f in every.values() if f.kw_only]
    fields = tuple(positional + keyword)
    taken = {slot for base in cls.__mro__[1:] for slot in getattr(base, "__slots__", ())}
    extra = (*namespace.get("computed_slots", ()), *namespace.get("cache_slots", ()))
    namespace["__slots__"] = tuple(name for name in (*own, *extra) if name not in taken)
    namespace["fields"] = fields
    namespace["child_names"] = tuple(f.name for f in fields if f.role is Role.CHILD)
    namespace["is_leaf"] = not namespace["child_names"]
    for key in ("__dict__", "__weakref__"):
        namespace.pop(key, None)
    namespace["__init__"] = _make_init(cls, fields)
    namespace["children"] = _make_children(namespace["child_names"])
    namespace["_values"] = _made(
        "_values", "self", ["return {" + ", ".join(f"{f.name!r}: self.{f.name}" for f in fields) + "}"]
    )
    made: type[N] = type(cls)(cls.__name__, cls.__bases__, namespace)  # type: ignore[misc]
    made.__qualname__ = cls.__qualname__
    NODES[made.node_name or cls.__name__] = made
    return made


def _make_init(cls: type[Node], fields: tuple[Field, ...]) -> object:
    """Compile ``__init__``: plain assignments, conversions, then ``check`` where defined."""

    def missing(name: str) -> NoReturn:
        order = ", ".join(f.name for f in fields if f.role is not Role.HINT or f.required)
        raise TypeError(f"{cls.__name__}() missing 1 required argument: {name!r}; the order is {cls.__name__}({order})")

    scope: dict[str, object] = {"REQUIRED": REQUIRED, "missing": missing}
    params: list[str] = []
    body: list[str] = []
    star = False
    optional = False
    for field in fields:
        if field.kw_only and not star:
            params.append("*")
            star = True
        if field.required and optional and not star:
            params.append(f"{field.name}=REQUIRED")
            body.insert(0, f"if {field.name} is REQUIRED: missing({field.name!r})")
        elif field.required:
            params.append(field.name)
        else:
            optional = True
            scope[f"_d_{field.name}"] = field.default
            params.append(f"{field.name}=_d_{field.name}")
        if field.convert is not None:
            scope[f"_c_{field.name}"] = field.convert
            body.append(f"self.{field.name} = _c_{field.name}({field.name})")
        else:
            body.append(f"self.{field.name} = {field.name}")
    body += [f"self.{slot} = None" for slot in getattr(cls, "cache_slots", ())]
    if cls.check is not Node.check:
        body.append("self.check()")
    return _made("__init__", f"self, {', '.join(params)}", body, scope)


def _make_children(names: tuple[str, ...]) -> object:
    """Compile ``children``."""
    body = ["found = []"]
    for name in names:
        body += [
            f"one = self.{name}",
            "if one.__class__ is tuple: found += one",
            "elif one is not None: found.append(one)",
        ]
    return _made("children", "self", [*body, "return found"], doc=Node.children.__doc__)


def _made(
    name: str, params: str, body: list[str], scope: dict[str, object] | None = None, doc: str | None = None
) -> object:
    """Compile a method: those that every walk calls are as fast as ones written by hand (a constructor: 0.4 to 0.6 us)."""
    names: dict[str, object] = {} if scope is None else scope
    exec(f"def {name}({params}):\n  " + "\n  ".join(body or ["pass"]), names)
    made = names[name]
    made.__doc__ = doc
    return made
