"""Backends by name, and the graph with what they take in their kernels.

A backend has patterns and a function that makes a kernel for each composite: a prim func, which may call a library by
``T.call_extern``, or the symbol of a function. It runs as machine code among the others.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tirlower.diagnostics import nearest_name
from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.control import Call
from tirlower.graph.core.effects import Extern, KernelCall
from tirlower.graph.core.nodes import Graph, GraphNode, Value
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.core.verify import verify
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder, rewritten
from tirlower.graph.ops.kernels import closed, numbers_of, scalars_of
from tirlower.graph.passes.base import GraphPass, policy
from tirlower.graph.passes.composites import backend_of, inline_calls, mapped
from tirlower.graph.passes.partition import Skipped, partition
from tirlower.graph.patterns.fusion import FusionPattern, PatternCheckContext, fusion_pattern
from tirlower.ir import Expr, PrimFunc, Var
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.options import option

__all__ = ["Backend", "Codegen", "Offload", "backend", "backend_names", "offload", "register_backend"]

Codegen: TypeAlias = Callable[[Graph, Mapping[str, object]], "PrimFunc | Extern | None"]
"""Makes the kernel of a composite from its graph and its attributes: operands, then results; None: it is not taken."""


@dataclass(frozen=True, eq=False)
class Backend:
    """A name, the patterns of what it takes (in order of priority), and the function that makes kernels of it.

    ``numerics`` is what its kernels may do to numbers: a library adds up in an order of its own.
    """

    name: str
    patterns: tuple[FusionPattern, ...]
    codegen: Codegen
    choices: Mapping[str, object]
    """The choices of :func:`tirlower.graph.passes.partition.partition` for its composites."""
    numerics: Numerics = Numerics.DEFAULT


_BACKENDS: dict[str, Backend] = {}
_SHIPPED = {"numpy": "reference", "openblas": "openblas"}
"""The modules of the backends that come with the package, each of which has a function ``backend``."""


def register_backend(
    name: str,
    patterns: Iterable[object],
    codegen: Codegen,
    constraints: Callable[[PatternCheckContext], bool] | None = None,
    *,
    numerics: str = "default",
    **choices: object,
) -> Backend:
    """Make a backend known under a name; one of that name is replaced.

    ``patterns`` are fusion patterns or tuples, whose names begin with the backend's and a dot; ``constraints`` is one more
    check of every match. ``numerics`` is what its kernels may do to numbers: it runs where the options admit that.
    ``choices`` are those of :func:`tirlower.graph.passes.partition.partition`. Raises :class:`GraphError` for other names,
    and ``ValueError`` for what is no pattern.
    """
    several = tuple(_within(name, fusion_pattern(p), constraints) for p in patterns)
    made = Backend(name, several, codegen, choices, Numerics.of(numerics))
    _BACKENDS[name] = made
    return made


def _within(
    name: str, pattern: FusionPattern, constraints: Callable[[PatternCheckContext], bool] | None
) -> FusionPattern:
    if pattern.name.split(".")[0] != name:
        raise GraphError(f"the patterns of the backend {name!r} are named {name}.…, got {pattern.name!r}")
    own = pattern.check
    if constraints is None:
        return pattern
    return replace(pattern, check=lambda c: constraints(c) and (own is None or own(c)))


def backend_names() -> list[str]:
    """The names of all backends, sorted."""
    return sorted({*_BACKENDS, *_SHIPPED})


def backend(name: str) -> Backend:
    """The backend of a name. Raises :class:`GraphError` where there is none, or where what it needs is not installed."""
    if name not in _BACKENDS:
        if name not in _SHIPPED:
            near = nearest_name(name, backend_names())
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(backend_names())}"
            raise GraphError(f"there is no backend {name!r}", help=hint)
        make: Callable[[], Backend] = importlib.import_module(f"tirlower.graph.backends.{_SHIPPED[name]}").backend
        _BACKENDS.setdefault(name, make())
    return _BACKENDS[name]


def offload(graph: Graph, names: Sequence[str], skipped: list[Skipped] | None = None) -> Graph:
    """The graph with kernels of backends for what they take, the first of them first; the same object for none.

    A composite that its backend does not take is opened again. Raises :class:`GraphError` for unknown backends.

    >>> import tirlower.graph as tg
    >>> g = tg.trace(lambda x: tg.exp(x) + 1, tg.spec((4,), "float32"))
    >>> [type(node).__name__ for node in offload(g, ["numpy"]).nodes]
    ['KernelCall', 'Const', 'KernelCall']
    """
    for name in names:
        one = backend(name)
        parted = partition(
            graph,
            one.patterns,
            None,
            bind_constants=False,
            annotate_codegen=False,
            entry_functions=None,
            skipped=skipped,
            **one.choices,
        )
        graph = graph if parted is graph else _compiled(parted, one)
    return graph


class Offload(GraphPass):
    """Let backends make kernels of what they take, the first of them first.

    >>> import tirlower.graph as tg
    >>> g = tg.trace(lambda x: tg.exp(x) + 1, tg.spec((4,), "float32"))
    >>> [type(node).__name__ for node in Offload(("numpy",))(g).nodes]
    ['KernelCall', 'Const', 'KernelCall']
    """

    name = "graph.Offload"
    reaches = Numerics.FAST
    backends: tuple[str, ...] = option(default=(), kw_only=False)

    def rewritten(self, program: Graph, ctx: PassContext) -> Graph:
        """The graph with the kernels of those backends that the context's policy admits, in graphs inside nodes too."""
        admitted = policy(ctx)
        return offload(program, [name for name in self.backends if backend(name).numerics <= admitted])

    def certify(self, before: Graph, after: Graph, ctx: PassContext) -> None:
        """Check that the result is whole: what a library computes, the reference cannot run."""
        verify(after)


def _compiled(graph: Graph, one: Backend) -> Graph:
    """The graph with a backend's kernels for its composites; each distinct one is made once."""
    kernels: dict[Graph, tuple[PrimFunc | Extern, tuple[Expr, ...]]] = {}
    for inside in inner_graphs(graph):
        if backend_of(inside) == one.name:
            made = one.codegen(inside, inside.attrs)
            if made is not None:
                kernels[inside] = _with_numbers(made, inside)

    def taken(builder: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if not isinstance(node, Call) or node.graph not in kernels:
            return None
        kernel, numbers = kernels[node.graph]
        fresh = tuple(Value.of(v.type, v.name) for v in node.results)
        builder.nodes.append(KernelCall(fresh, kernel, operands, numbers=numbers, origin=node.origin))
        return fresh

    return inline_calls(mapped(graph, lambda inside: rewritten(inside, taken)), lambda g: backend_of(g) == one.name)


def _with_numbers(kernel: PrimFunc | Extern, graph: Graph) -> tuple[PrimFunc | Extern, tuple[Expr, ...]]:
    """A kernel, and what it is given beside tensors: dims that are no extent of its tensors alone, by their names."""
    if isinstance(kernel, Extern):
        return kernel, ()
    kernel = closed(kernel)
    types = [v.type for v in (*graph.params, *graph.results)]
    found = numbers_of(kernel, types, named={d.name: d.var for d in graph.dims})
    plain = {e for b in kernel.buffer_map.values() for e in b.shape if isinstance(e, Var)}
    scalars = scalars_of(kernel)
    return kernel, () if plain.issuperset(scalars) else tuple(found[p] for p in scalars)
