"""Compiled graphs in files: what ``exe.save(path)`` writes and ``tg.load(path)`` reads.

A file holds texts and arrays, and nothing that is executed when it is read: the graph as its user gave it and as it was
compiled, the prim funcs and the plan of memory, how it was compiled, the constants aligned to a cache line. Machine code is
made of them again, or comes from the disk cache of the machine.
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
from tirlower.graph.core.effects import Global, Load, Store
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, TensorType, Value
from tirlower.graph.core.options import Options
from tirlower.graph.core.parser import parse
from tirlower.graph.core.printer import graph_text
from tirlower.graph.errors import GraphError
from tirlower.graph.lower.driver import Lowered
from tirlower.graph.lower.printing import known_print
from tirlower.graph.lower.storage import Storage
from tirlower.graph.run.archive import Archive, written_archive
from tirlower.ir import Call, Expr, IRModule, PrimFunc, StringImm, Var, structural_equal
from tirlower.ir.dtype import Array, DataType
from tirlower.ir.functor import substitute
from tirlower.ir.json_io import load_json, save_json
from tirlower.ir.query import each
from tirlower.llvm.codegen.symbols import registered_symbols

__all__ = ["FORMAT", "Saved", "read", "write"]

FORMAT = 1
"""Raised when files of the earlier version can no longer be read."""
GRAPH, COMPILED, KERNELS, PLAN, HOW, ARRAYS = (
    "graph.py",
    "compiled.py",
    "kernels.json",
    "plan.json",
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
    plan, values = _plan(lowered)
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
        KERNELS: save_json((lowered.module, lowered.storage.arena, tuple(values))),
        PLAN: _json(plan),
    }
    for name, graph in ((GRAPH, what.graph), (COMPILED, lowered.graph)):
        if not structural_equal(parse(texts[name], held), graph):
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
        if value == field.default or field.name == "tuned":  # what was measured is in the kernels
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


def _plan(lowered: Lowered) -> tuple[dict[str, object], list[object]]:
    """The plan of memory as JSON, in which values of the graph are places in it; and the values with their offsets."""
    places = {v: [n, k] for n, node in enumerate(lowered.graph.nodes) for k, v in enumerate(node.results)}
    number = {node: n for n, node in enumerate(lowered.graph.nodes)}
    offsets = lowered.storage.offsets
    plan: dict[str, object] = {
        "dims": [one.name for one in lowered.graph.dims],
        "places": [[places.get(value), *lowered.lifetimes[value]] for value in offsets],
        "constants": [_constant(n.results[0].name, n.data) for n in lowered.storage.constants],
        "states": [_constant(one.name, one.initial, one.mutable) for one in lowered.states],
        "calls": {name: [number.get(n, n.origin) for n in nodes] for name, nodes in lowered.calls.items()},
        "origins": [n.origin for n in lowered.graph.nodes],
    }
    # Values as they stand in the plan alone: of no node.
    return plan, [(Value.of(v.type, v.name), at) for v, at in offsets.items()]


def _constant(name: str, data: ConstantData, *more: object) -> list[object]:
    if data.is_abstract:
        return [name, str(data.dtype), list(data.shape), "late", data.digest, *more]
    held = data.value is None or data.value != data.value
    what = data.digest if held else np.asarray(data.value, data.dtype.numpy).tobytes().hex()
    return [name, str(data.dtype), list(data.shape), "digest" if held else "splat", what, *more]


# Reading


def read(path: str | os.PathLike[str]) -> Saved:
    """What a file holds. Raises one :class:`GraphError`, which names the file and the place in it, where that is no compiled
    graph of this version; nothing of it is executed then, nor is anything else read or written.
    """
    with Archive(Path(path), (GRAPH, COMPILED, KERNELS, PLAN, HOW, ARRAYS)) as archive:
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
        compiled = self._graph(COMPILED, store)
        for name in options.backends:
            backend(name)
        lowered = self._lowered(compiled, store)
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

    def _lowered(self, graph: Graph, store: Mapping[str, ConstantData]) -> Lowered:
        self.at = KERNELS
        module, arena, values = cast("tuple[object, object, object]", load_json(self.archive.text(KERNELS)))
        _wanted(isinstance(module, IRModule) and isinstance(arena, Expr) and isinstance(values, tuple), "no kernels")
        plan = cast("Mapping[str, Sequence[Sequence[object]]]", self._json(PLAN))
        _wanted(list(plan["dims"]) == [one.name for one in graph.dims], "the dims of the plan are others")
        module, known = _with_dims(cast(IRModule, module), [one.var for one in graph.dims])
        offsets: dict[Value, Expr] = {}
        lives: dict[Value, tuple[int, int]] = {}
        placed = cast("tuple[tuple[Value, Expr], ...]", values)
        for (place, first, last), (value, offset) in zip(plan["places"], placed, strict=True):
            found = value if place is None else self._value(graph, cast("Sequence[int]", place))
            _wanted(
                (found.dtype, len(found.extents)) == (value.dtype, len(value.extents)), f"{value.name!r} is another"
            )
            if found is value:
                found = Value(tuple(substitute(e, known) for e in value.extents), value.dtype, value.name)
            offsets[found] = substitute(offset, known)
            lives[found] = _number(first), _number(last)
        constants = [self._constant(one, store) for one in plan["constants"]]
        states = self._states(graph, [(self._constant(one, store), one[5]) for one in plan["states"]])
        origins = cast("Sequence[str]", plan["origins"])
        for node, origin in zip(graph.nodes, origins, strict=True):
            object.__setattr__(node, "origin", str(origin))
        written = {value: n for n, value in enumerate(graph.results)}
        storage = Storage(offsets, substitute(cast(Expr, arena), known), tuple(constants), written)
        lowered = Lowered(
            graph,
            module,
            storage,
            tuple(one.data for one in constants),
            tuple(one.var for one in graph.dims),
            self._calls(graph, cast("Mapping[str, Sequence[object]]", plan["calls"])),
            states,
            (),
            lives,
        )
        _fits(lowered)
        return lowered

    def _value(self, graph: Graph, place: Sequence[int]) -> Value:
        node, index = map(_number, place)
        return graph.nodes[node].results[index]

    def _constant(self, given: Sequence[object], store: Mapping[str, ConstantData]) -> Const:
        name, dtype, shape, how, what = given[:5]
        kind, extents = DataType(cast(str, dtype)), _extents(shape)
        if how == "splat":
            one = np.frombuffer(bytes.fromhex(cast(str, what)), kind.numpy)
            _wanted(one.size == 1, f"the number of {name!r} is none")
            data = ConstantData.splat(one[0].item(), extents, kind)
        elif how == "late":
            _wanted(isinstance(what, str) and len(what) >= 8, f"the constant {name!r} has no digest")
            data = ConstantData.abstract(cast(str, what), extents, kind)
        else:
            data = store[cast(str, what)]
            _wanted((data.dtype, data.shape) == (kind, extents), f"the constant {name!r} is another")
        return Const((Value.of(TensorType(data.shape, data.dtype), str(name)),), data)

    def _states(self, graph: Graph, stated: Sequence[tuple[Const, object]]) -> tuple[Global, ...]:
        """The states of the graph, in the order in which ``main`` takes them."""
        held: dict[str, Global] = {}
        for one in (graph, *inner_graphs(graph)):
            for node in one.nodes:
                if isinstance(node, (Load, Store)):
                    state = node.source if isinstance(node, Load) else node.target
                    held[state.name] = state
        made = [held[const.results[0].name] for const, _ in stated]
        for state, (const, mutable) in zip(made, stated, strict=True):
            _wanted(state.initial == const.data and state.mutable is mutable, f"the state {state.name!r} is another")
        return tuple(made)

    def _calls(self, graph: Graph, given: Mapping[str, Sequence[object]]) -> dict[str, tuple[GraphNode, ...]]:
        """The nodes that each kernel is called for; what is inside other nodes is there by its origin alone."""
        made: dict[str, tuple[GraphNode, ...]] = {}
        for name, several in given.items():
            nodes = [
                graph.nodes[_number(n)] if type(n) is int else Op((), name, (), (), {}, origin=str(n)) for n in several
            ]
            made[name] = tuple(nodes)
        return made


def _with_dims(module: IRModule, dims: Sequence[Var]) -> tuple[IRModule, dict[Var, Expr]]:
    """The module whose ``main`` has these dims as its last parameters, and what they stand for."""
    main = module["main"]
    count = len(main.params) - len(dims)
    known: dict[Var, Expr] = dict(zip(main.params[count:], dims, strict=True))
    if not known:
        return module, known
    renamed = cast(PrimFunc, substitute(main.with_(params=main.params[:count]), known))
    return IRModule({**module.functions, "main": renamed.with_(params=(*renamed.params, *dims))}, module.attrs), known


def _wanted(holds: object, otherwise: str) -> None:
    if not holds:
        raise GraphError(otherwise)


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise GraphError(f"{value!r} is no number of a node, a result or a step")
    return value


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


def _fits(lowered: Lowered) -> None:
    """Check that ``main`` takes what a call of the graph gives it."""
    main = lowered.module["main"]
    given = [
        *((v.name, v.dtype, v.extents) for v in (*lowered.graph.params, *lowered.graph.results)),
        *((n.results[0].name, n.data.dtype, n.results[0].extents) for n in lowered.storage.constants),
        *((s.name, s.dtype, s.extents) for s in lowered.states),
    ]
    taken = [main.buffer_map[p] for p in main.params if p in main.buffer_map]
    _wanted(len(taken) == len(given) + 1, f"main takes {len(taken)} arrays, and the graph has {len(given) + 1}")
    for (name, dtype, extents), buffer in zip(given, taken, strict=False):
        same = buffer.dtype == dtype and len(buffer.shape) == len(extents)
        numbers = [
            (getattr(a, "value", None), getattr(b, "value", None)) for a, b in zip(buffer.shape, extents, strict=False)
        ]
        _wanted(
            same and all(a == b for a, b in numbers), f"main takes {name!r} as {buffer.dtype!s}{list(buffer.shape)}"
        )
    for name in lowered.calls:
        _wanted(name in lowered.module, f"there is no kernel {name!r}")
