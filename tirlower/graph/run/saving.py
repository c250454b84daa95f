"""Compiled graphs in files: what ``exe.save(path)`` writes and ``tg.load(path)`` reads.

A file holds texts and arrays, and nothing that is executed when it is read: the graph as its user gave it and as it was
compiled, the prim funcs, how it was compiled, the constants aligned to a cache line. Machine code is made of them again, or
comes from the disk cache of the machine. The graph is lowered again: the plan of memory is made anew, and a file whose driver
does something else than the graph says is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import NoReturn, cast

import numpy as np

import tirlower
from tirlower.call.bind import aligned_empty
from tirlower.diagnostics import TirError
from tirlower.graph.backends.reference import PREFIX
from tirlower.graph.backends.registry import backend
from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.effects import Load, Store
from tirlower.graph.core.nodes import Const, Graph
from tirlower.graph.core.options import Options
from tirlower.graph.core.parser import parse
from tirlower.graph.core.printer import graph_text
from tirlower.graph.errors import GraphError
from tirlower.graph.lower.driver import Lowered, lower
from tirlower.graph.lower.printing import known_print
from tirlower.graph.run.archive import Archive, written_archive
from tirlower.ir import Call, IRModule, StringImm, structural_equal
from tirlower.ir.dtype import Array, DataType
from tirlower.ir.json_io import load_json, save_json
from tirlower.ir.query import each
from tirlower.llvm.codegen.symbols import registered_symbols

__all__ = ["FORMAT", "Saved", "differing", "read", "write"]

FORMAT = 2
"""Raised when files of the earlier version can no longer be read."""
GRAPH, COMPILED, KERNELS, ORIGINS, HOW, ARRAYS = (
    "graph.py",
    "compiled.py",
    "kernels.json",
    "origins.json",
    "how.json",
    "constants.txt",
)
EXTERNS = frozenset({"tir.call_extern", "tir.call_pure_extern"})
_MATH = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "floor",
    "fmax",
    "fmin",
    "fmod",
    "hypot",
    "ldexp",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "nearbyint",
    "nextafter",
    "pow",
    "remainder",
    "rint",
    "round",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "tgamma",
    "trunc",
]
MATH = frozenset([*_MATH, *(f"{name}f" for name in _MATH)])
"""Functions of C that compute a number from numbers: whoever wrote a file may call them."""


@dataclass(frozen=True)
class Saved:
    """What a file holds: the graph, what it was lowered to, for which target and how."""

    graph: Graph
    lowered: Lowered
    target: Mapping[str, object]
    options: Options


# Writing


def write(path: str | os.PathLike[str], what: Saved) -> None:
    """Write a compiled graph to a file, whole or not at all.

    Raises :class:`GraphError` where the file cannot be written, and for what has no text.
    """
    lowered = what.lowered
    back = [name for name in _externs(lowered.module) if name.startswith(PREFIX)]
    if back:
        raise GraphError(
            f"{what.graph.name} cannot be saved: the backend 'numpy' calls Python back ({back[0]})",
            help="compile it without that backend",
        )
    data = list(_constants([what.graph, lowered.graph], lowered))
    held = {one.digest: one for one in data if one.value is None or one.value != one.value}
    texts = {
        HOW: _json(
            {
                "tirlower.graph": FORMAT,
                "version": tirlower.__version__,
                "target": what.target,
                "options": _changed(what.options),
                "constants": {digest: [str(one.dtype), list(one.shape)] for digest, one in held.items()},
            }
        ),
        GRAPH: graph_text(what.graph, digits=64),
        COMPILED: graph_text(lowered.graph, digits=64),
        KERNELS: save_json(lowered.module),
        ORIGINS: _json([[n.origin for n in graph.nodes] for graph in (lowered.graph, *inner_graphs(lowered.graph))]),
    }
    for name, graph in ((GRAPH, what.graph), (COMPILED, lowered.graph)):
        read = parse(texts[name], held)
        _with_origins(read, [[n.origin for n in one.nodes] for one in (graph, *inner_graphs(graph))])
        if not structural_equal(read, graph) or (graph is lowered.graph and differing(lower(read), lowered.module)):
            raise GraphError(f"{graph.name} cannot be saved: its text is read back as another graph ({name})")
    arrays = [(digest, held[digest].numpy()) for digest in sorted(held)]
    written_archive(Path(path), texts, arrays, ARRAYS)


def _json(value: object) -> str:
    return json.dumps(value, allow_nan=False, indent=1)


def _changed(options: Options) -> dict[str, object]:
    """The options that are not as they are by default. Raises :class:`GraphError` for a value that no text has."""
    made: dict[str, object] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        if value == field.default or field.name == "tuned":  # a file of this machine
            continue
        made[field.name] = list(value) if isinstance(value, tuple) else value
    return made


def _constants(graphs: Sequence[Graph], lowered: Lowered) -> Iterator[ConstantData]:
    """All constants whose contents are here."""
    found: list[ConstantData] = [*lowered.constants, *(one.initial for one in lowered.states)]
    for graph in (*graphs, *inner_graphs(*graphs)):
        for node in graph.nodes:
            if isinstance(node, Const):
                found.append(node.data)
            elif isinstance(node, (Load, Store)):
                found.append((node.source if isinstance(node, Load) else node.target).initial)
    return (one for one in found if not one.is_abstract)


# Reading


def read(path: str | os.PathLike[str]) -> Saved:
    """What a file holds. Raises one :class:`GraphError`, which names the file and the place in it, where that is no compiled
    graph of this version; nothing of it is executed then, nor is anything else read or written.
    """
    with Archive(Path(path), (GRAPH, COMPILED, KERNELS, ORIGINS, HOW, ARRAYS)) as archive:
        return _Reader(archive).saved()


class _Reader:
    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.at = HOW

    def saved(self) -> Saved:
        """What the file holds."""
        try:
            return self._saved()
        except TirError as error:
            if repr(os.fspath(self.archive.path)) in error.message:
                raise
            self._fail(error.message, error, error.help)
        except (
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
            MemoryError,
        ) as error:
            self._fail(f"{type(error).__name__}: {error}", error)

    def _fail(self, what: str, error: BaseException, help: str | None = None) -> NoReturn:
        try:
            self.archive.fail(what, self.at, help)
        except GraphError as made:
            raise made from error

    def _saved(self) -> Saved:
        how = cast("dict[str, object]", self._json(HOW))
        _wanted(isinstance(how, dict) and "tirlower.graph" in how, "this is not how a graph was compiled")
        if how["tirlower.graph"] != FORMAT:
            self.archive.fail(
                f"it was written by another version ({how.get('version')!s:.20}, files of form {how['tirlower.graph']!s:.20})",
                help=f"this version ({tirlower.__version__}) reads files of form {FORMAT}: compile the graph again, and save it",
            )
        options = self._options(cast("Mapping[str, object]", how["options"]))
        store = self._store(cast("Mapping[str, Sequence[object]]", how["constants"]))
        graph = self._graph(GRAPH, store)
        same = self.archive.text(COMPILED) == self.archive.text(GRAPH)
        compiled = graph if same else self._graph(COMPILED, store)
        for name in options.backends:
            backend(name)
        lowered = self._lowered(compiled, how["version"] == tirlower.__version__)
        unknown = [
            name
            for name in _externs(lowered.module)
            if not known_print(name) and name not in (*MATH, *registered_symbols())
        ]
        if unknown:
            self.archive.fail(
                f"it calls {unknown[0]!r}, machine code that nothing has made known here",
                KERNELS,
                help=f"tirlower.register_symbol({unknown[0]!r}, function) before it is loaded",
            )
        target = cast("Mapping[str, object]", how["target"])
        _wanted(isinstance(target, dict) and graph.structure == compiled.structure, "the two graphs differ")
        return Saved(graph, lowered, target, options)

    def _json(self, member: str) -> object:
        self.at = member
        return json.loads(self.archive.text(member))

    def _options(self, given: Mapping[str, object]) -> Options:
        return replace(Options(), **{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})  # type: ignore[arg-type]

    def _store(self, kinds: Mapping[str, Sequence[object]]) -> dict[str, ConstantData]:
        """The constants by their digests, which are those of their contents."""
        self.at = ARRAYS
        store: dict[str, ConstantData] = {}
        found = self.archive.arrays(ARRAYS)
        _wanted(list(found) == sorted(kinds), "these are not the constants of the graph")
        for digest, raw in found.items():
            dtype, shape = kinds[digest]
            kind, extents = DataType(cast(str, dtype)), _extents(shape)
            _wanted(raw.nbytes == kind.numpy.itemsize * _product(extents), f"the constant {digest[:8]!r} is cut off")
            store[digest] = data = ConstantData(_aligned(raw).view(kind.numpy).reshape(extents))
            _wanted(data.digest == digest, f"the contents of the constant {digest[:8]!r} are others")
        return store

    def _graph(self, member: str, store: Mapping[str, ConstantData]) -> Graph:
        self.at = member
        return parse(self.archive.text(member), store)

    def _lowered(self, graph: Graph, is_of_this_version: bool) -> Lowered:
        """The graph lowered again. The prim funcs of the file have to be the same, unless another version lowered it, which
        may have done it otherwise: then they are left aside.
        """
        _with_origins(graph, cast("Sequence[Sequence[object]]", self._json(ORIGINS)))
        self.at = COMPILED
        lowered = lower(graph)
        self.at = KERNELS
        module = load_json(self.archive.text(KERNELS))
        if not is_of_this_version:
            return lowered
        if not isinstance(module, IRModule):
            raise GraphError("no prim funcs")
        other = differing(lowered, module)
        if other is not None:
            raise GraphError(
                f"{other!r} is not what the graph of the file is lowered to",
                help="the file was changed after it was written: save it again",
            )
        return replace(lowered, module=module)  # its text is that of which the machine code was kept


def _with_origins(graph: Graph, stated: Sequence[Sequence[object]]) -> None:
    """Say where the nodes of a graph that was read, and of graphs inside it, come from: messages of assertions name it."""
    for one, origins in zip((graph, *inner_graphs(graph)), stated, strict=True):
        for node, origin in zip(one.nodes, origins, strict=True):
            object.__setattr__(node, "origin", str(origin))


def differing(lowered: Lowered, module: IRModule) -> str | None:
    """The name of a prim func of a module that is not what a graph is lowered to; None where there is none."""
    if list(module) != list(lowered.module):
        return next(
            (name for name in (*lowered.module, *module) if name not in module or name not in lowered.module), ""
        )
    return next((name for name, func in lowered.module.items() if not structural_equal(func, module[name])), None)


def _wanted(holds: object, otherwise: str) -> None:
    if not holds:
        raise GraphError(otherwise)


def _extents(shape: object) -> tuple[int, ...]:
    if not isinstance(shape, list) or not all(type(e) is int and e >= 0 for e in shape):
        raise GraphError(f"{shape!r:.60} is no shape")
    return tuple(shape)


def _product(extents: Iterable[int]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total


def _aligned(raw: Array) -> Array:
    """Bytes as they lie in the file, or where another program has moved them there, a copy that is aligned."""
    if raw.ctypes.data % 64 == 0:
        return raw
    made = aligned_empty(raw.shape, np.uint8)
    made[...] = raw
    return made


def _externs(module: IRModule) -> list[str]:
    """The symbols of machine code that is called by name."""
    calls = [c for f in module.functions.values() for c in each(Call, f.body)]
    given = [c.args[0] for c in calls if getattr(c.op, "name", "") in EXTERNS]
    return list(dict.fromkeys(s.value if isinstance(s, StringImm) else str(s) for s in given))
