"""The IR as JSON text, and back: ``save_json`` and ``load_json``.

The text holds a table of nodes, each after the nodes that it refers to, so that reading is one pass and writing needs
no recursion. A node that several others share stands there once: sharing, and with it the identity of variables and
buffers, survives. What is written of a node are the fields that its class declares (:mod:`tirlower.ir.node`), where
it was written and what stands there by default left out; a new node class needs nothing here.

A value in the table is ``null``, true or false, a number, a string, a list, or an object of one key that says what it
is: ``{"n": 3}`` is node 3, ``{"t": "int32"}`` a dtype, ``{"f": "nan"}`` a float that JSON lacks, and so on.
"""

from __future__ import annotations

import base64
import binascii
import enum
import json
import math
from collections.abc import Callable, Collection, Iterable
from typing import Never, TypeGuard

import numpy as np

from tirlower.diagnostics import TirError, nearest_name
from tirlower.ir.buffer import IterKind
from tirlower.ir.dtype import Array, DataType, PointerType
from tirlower.ir.expr import IntImm
from tirlower.ir.func import IRModule
from tirlower.ir.functor import by_class
from tirlower.ir.node import NODES, Node
from tirlower.ir.op import GlobalVar, Op
from tirlower.ir.stmt import ForKind
from tirlower.machine.target import Target

__all__ = ["FORMAT_VERSION", "load_json", "save_json"]

FORMAT_VERSION = 2
"""Raised when texts of the earlier version can no longer be read."""

_ENUMS: dict[str, type[enum.Enum]] = {cls.__name__: cls for cls in (ForKind, IterKind)}
_MODULE = "IRModule"
_PLACES = ("span", "origin")
"""Where a node was written: of the process that wrote it, and no part of the program."""


def _is_shared(value: object) -> TypeGuard[Node | IRModule]:
    return isinstance(value, (Node, IRModule))


_LEAVES: frozenset[type] = frozenset((int, str, float, bool, type(None), DataType))
"""Classes of values below which no node stands."""


def _parts(value: Node | IRModule) -> dict[str, object]:
    """The fields of a node or module that are written."""
    if isinstance(value, IRModule):
        return {"functions": value.functions, "attrs": value.attrs}
    found: dict[str, object] = {}
    for field in value.fields:
        name, default = field.name, field.default
        part = getattr(value, name)
        # What stands there by default is left out: most nodes have no predicate, no annotations of their own.
        stands = part is default or (part.__class__ is str and part == default)
        if not stands and name not in _PLACES:
            found[name] = part
    return found


class _Writer:
    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.constants: dict[tuple[DataType, int], int] = {}
        self.table: list[object] = []

    def add(self, root: object) -> None:
        """Put the nodes under a value into the table, operands first."""
        stack: list[tuple[object, dict[str, object] | None]] = [(root, None)]
        places, leaves = self.places, _LEAVES
        while stack:
            value, parts = stack.pop()
            if parts is not None:  # a node whose operands are in the table
                fields = {name: self.value(part) for name, part in parts.items()}
                places[id(value)] = len(self.table)
                self.table.append([value.__class__.__name__, fields])
                continue
            below: Collection[object]
            if value.__class__ is IntImm:
                self.constant(value)
                continue
            if isinstance(value, (tuple, list)):
                below = value
            elif isinstance(value, dict):
                below = [one for item in value.items() for one in item]
            elif id(value) in places or not _is_shared(value):
                continue
            else:
                parts = _parts(value)
                stack.append((value, parts))
                below = parts.values()
            stack += [(one, None) for one in reversed([*below]) if one.__class__ not in leaves]

    def constant(self, value: IntImm) -> None:
        """Equal integers stand in the table once: they are most of a program's nodes, and nothing tells them apart."""
        same = (value.dtype, value.value)
        place = self.constants.get(same)
        if place is None:
            place = self.constants[same] = len(self.table)
            self.table.append(["IntImm", {"dtype": self.value(value.dtype), "value": value.value}])
        self.places[id(value)] = place

    def value(self, value: object) -> object:
        """A field's value; its nodes are in the table already."""
        if value is None or value is True or value is False or value.__class__ is int or value.__class__ is str:
            return value
        place = self.places.get(id(value))
        if place is not None:
            return {"n": place}
        if isinstance(value, enum.Enum) and type(value).__name__ in _ENUMS:
            return {"e": [type(value).__name__, value.name]}
        for kind in type(value).__mro__:
            encode = _ENCODE.get(kind)
            if encode is not None:
                return encode(self, value)
        raise TirError(
            f"an attribute value of type {type(value).__name__} has no form in JSON: {value!r}",
            origin="save_json",
            help="use numbers, strings, tuples, mappings, arrays or nodes",
        )


def _listed(writer: _Writer, value: Iterable[object]) -> list[object]:
    return [writer.value(item) for item in value]


_ENCODE: dict[type, Callable[[_Writer, object], object]] = by_class(
    {
        DataType: lambda _, value: {"t": str(value)},
        float: lambda _, value: value if math.isfinite(value) else {"f": str(value)},
        tuple: _listed,
        list: _listed,
        dict: lambda writer, value: {"d": _listed(writer, value.items())},
        PointerType: lambda _, value: {"p": [str(value.element), value.scope]},
        Op: lambda _, value: {"op": value.name},
        GlobalVar: lambda _, value: {"g": value.name},
        Target: lambda writer, value: {"target": writer.value(value.export())},
        np.ndarray: lambda _, value: {"a": _array_text(value)},
        bytes: lambda _, value: {"b": base64.b64encode(value).decode("ascii")},
    }
)
"""The forms of values that JSON has not, read back by :data:`_DECODE`."""


def _array_text(array: Array) -> list[object]:
    if array.dtype.hasobject or array.dtype.names is not None:
        raise TirError(f"an array of dtype {array.dtype} has no form in JSON", origin="save_json")
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    data = base64.b64encode(np.ascontiguousarray(little).tobytes()).decode("ascii")
    return [array.dtype.name, list(array.shape), data]


def save_json(value: object) -> str:
    """The JSON text of a node (a function, statement, expression, buffer ...), a module, or a tuple of them.

    Shared nodes stay shared; spans are left out. The cost is linear in the distinct nodes. Raises :class:`TirError`
    for an attribute value that has no form in JSON.

    >>> from tirlower.ir import Add, Var
    >>> x = Var("x")
    >>> back = load_json(save_json(Add(x, x)))
    >>> back.a is back.b, back.a.name, str(back.dtype)
    (True, 'x', 'int32')
    """
    writer = _Writer()
    writer.add(value)
    document = {"tirlower": FORMAT_VERSION, "root": writer.value(value), "nodes": writer.table}
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


def _bad(message: str, help: str | None = None) -> TirError:
    return TirError(message, origin="load_json", help=help)


class _Reader:
    def __init__(self) -> None:
        self.nodes: list[object] = []

    def node(self, entry: object) -> object:
        """Build the next node of the table."""
        place = len(self.nodes)
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) and type(entry[1]) is dict):
            raise _bad(f"node {place} is [kind, fields], got {_short(entry)}")
        kind: str = entry[0]
        fields = {name: self.value(part, f"field {name!r} of node {place} ({kind})") for name, part in entry[1].items()}
        cls = NODES.get(kind)
        if cls is None and kind != _MODULE:
            near = nearest_name(kind, NODES)
            raise _bad(f"node {place} is of an unknown kind {kind!r}", f"did you mean {near!r}?" if near else None)
        if cls is not None:
            known = [field.name for field in cls.fields]
            for name in fields:
                if name not in known or name in _PLACES:
                    raise _bad(f"node {place} ({kind}) has no field {name!r}", f"it has {', '.join(known)}")
            for field in cls.fields:
                if field.required and field.name not in fields:
                    raise _bad(f"node {place} ({kind}) lacks the field {field.name!r}")
        try:
            build: type = IRModule if cls is None else cls
            return build(**fields)
        except (TypeError, ValueError, AttributeError, KeyError, TirError) as error:
            reason = error.message if isinstance(error, TirError) else str(error)
            raise _bad(f"node {place} ({kind}) cannot be built: {reason}") from error

    def value(self, value: object, where: str) -> object:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, list):
            return tuple([self.value(item, where) for item in value])
        if isinstance(value, dict) and len(value) == 1:
            tag, content = next(iter(value.items()))
            if tag == "n":
                if not isinstance(content, int) or not 0 <= content < len(self.nodes):
                    raise _bad(f"{where} refers to node {_short(content)}, of {len(self.nodes)} before it")
                return self.nodes[content]
            if tag == "d":
                return self.mapping(content, where)
            if tag == "target":
                content = self.value(content, where)
            decode = _DECODE.get(tag)
            if decode is not None:
                try:
                    return decode(content)
                except (TypeError, ValueError, KeyError, IndexError, AttributeError, TirError) as error:
                    reason = error.message if isinstance(error, TirError) else str(error) or type(error).__name__
                    raise _bad(f"{where}: cannot read {_short(value)}: {reason}") from error
        raise _bad(f"{where}: cannot read {_short(value)}")

    def mapping(self, content: object, where: str) -> dict[object, object]:
        if not isinstance(content, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in content):
            raise _bad(f"{where}: a mapping is a list of pairs, got {_short(content)}")
        made: dict[object, object] = {}
        for key, item in content:
            read = self.value(key, where)
            if isinstance(read, (dict, np.ndarray)):
                raise _bad(f"{where}: {_short(key)} is no key of a mapping")
            made[read] = self.value(item, where)
        return made


def _array(content: tuple[str, tuple[int, ...], str]) -> Array:
    name, shape, text = content
    kind = np.dtype(name) if name in np.sctypeDict else DataType(name).numpy
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"the data of an array is base64: {error}") from error
    little = np.frombuffer(data, dtype=kind.newbyteorder("<")).reshape([int(extent) for extent in shape])
    return little.astype(kind)


_DECODE: dict[str, Callable[[Never], object]] = {
    "t": DataType,
    "f": lambda text: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[text],
    "p": lambda pair: PointerType(str(pair[0]), str(pair[1])),
    "e": lambda pair: _ENUMS[pair[0]][pair[1]],
    "op": Op.get,
    "g": lambda name: GlobalVar(str(name)),
    "target": Target,
    "a": _array,
    "b": lambda text: base64.b64decode(text, validate=True),
}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def load_json(text: str) -> object:
    """What :func:`save_json` wrote, structurally equal, with new variables and buffers.

    Raises :class:`TirError` for text that is no JSON, of another version, or that describes no well-typed nodes; it
    names the node and field.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise _bad(f"the text is no JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise _bad("the text nests lists or objects too deeply; save_json writes none that deep") from None
    if not isinstance(document, dict) or "tirlower" not in document:
        raise _bad("the text is no saved IR: it lacks the key 'tirlower'", "save_json writes what load_json reads")
    if document["tirlower"] != FORMAT_VERSION:
        raise _bad(f"the text has format version {_short(document['tirlower'])}, this is version {FORMAT_VERSION}")
    table = document.get("nodes")
    if not isinstance(table, list) or "root" not in document:
        raise _bad("the text lacks its table of nodes or its root")
    reader = _Reader()
    for entry in table:
        reader.nodes.append(reader.node(entry))
    return reader.value(document["root"], "the root")
