"""Compiling graphs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tirlower.diagnostics import TirError, nearest_name
from tirlower.graph.core.module import Module
from tirlower.graph.core.nodes import Graph
from tirlower.graph.core.options import Options
from tirlower.graph.core.verify import verify
from tirlower.graph.errors import GraphError
from tirlower.graph.lower.driver import Lowered, lower
from tirlower.graph.passes.default import DEFAULT, PLAIN
from tirlower.graph.passes.pipeline import Pipeline, Step
from tirlower.graph.run.executable import Executable, built
from tirlower.graph.run.plan import check_plan
from tirlower.machine.target import Target
from tirlower.rewrite.context import PassContext

if TYPE_CHECKING:
    from tirlower.graph.run.tuning import GraphTuned
    from tirlower.tuning.search import Measure

__all__ = ["Options", "compile", "load", "tune"]


def compile(
    graph: Graph | Module,
    target: str | Target = "llvm",
    options: Options = Options(),
    backends: Sequence[str] | None = None,
    entry: str | None = None,
) -> Executable:
    """A graph as machine code: the graph rewritten, one kernel an operation, and a driver that calls them.

    Of a module it is the graph that ``entry`` names, or the first. ``backends`` are those of the options, given by
    themselves. The passes run under the current :class:`tirlower.PassContext`: its instruments, its trace, its configuration.
    Raises :class:`GraphError` for graphs that cannot be compiled, and what :func:`tirlower.build` raises.

    >>> import numpy as np
    >>> from tirlower.graph.ops.builder import GraphBuilder
    >>> b = GraphBuilder("rows")
    >>> exe = compile(b.finish(b.op("sum", b.param("x", (2, 3), "float32"), axis=1)))
    >>> exe(np.ones((2, 3), "float32"))
    array([3., 3.], dtype=float32)
    """
    if backends is not None:
        options = replace(options, backends=tuple(backends))
    verify(graph)  # a value of another graph would have memory that nobody writes
    graph, ctx = _entry(graph, entry), context(options)
    lowered = lower(_pipeline(options).run(graph, ctx))
    return _executable(graph, lowered, target_for(target, options), options, ctx)


def _entry(given: Graph | Module, name: str | None) -> Graph:
    graphs = given.graphs if isinstance(given, Module) else {given.name: given}
    if name is not None and name not in graphs:
        near = nearest_name(name, graphs)
        raise GraphError(
            f"there is no graph {name!r} to be the entry",
            help=f"did you mean {near!r}?" if near else f"the graphs: {', '.join(graphs)}",
        )
    return next(iter(graphs.values())) if name is None else graphs[name]


def tune(
    graph: Graph | Module,
    target: str | Target = "llvm",
    options: Options = Options(),
    *,
    executor: object = None,
    budget: float = 600.0,
    trials: int | None = None,
    cache: str = "readwrite",
    database: str | os.PathLike[str] | None = None,
    dims: Mapping[str, int] | None = None,
    measure: Measure | None = None,
) -> GraphTuned:
    """Measure what else the schedules of a graph's kernels could be, and keep the fastest: later compilations take them.

    Each kernel is searched as :func:`tirlower.tune` does it, with these arguments: those that do the most first, and longest, of
    ``budget`` seconds in all. ``trials`` are those of a kernel. Kernels of dims are measured at ``dims``; at typical values (a
    dim's first hint, or its largest) of those that are left out. ``options.tuned`` is the ``database``, where none is given.
    ``cache="only"`` measures nothing, and raises :class:`GraphError` for kernels of which nothing is kept.

    A kernel that cannot be measured by itself is told (``failed``), and stays as it is. Raises what :func:`compile` raises.

    >>> import tempfile, numpy as np, tirlower.graph as tg
    >>> from tirlower.tuning import Outcome
    >>> g = tg.trace(lambda x: np.maximum(x, 0).T + 1, tg.spec((256, 128), "float32"))
    >>> with tempfile.TemporaryDirectory() as folder:  # with a stand-in for the clock
    ...     found = tg.tune(g, "llvm -num_threads=1", database=f"{folder}/plans", trials=3,
    ...                     measure=lambda job: [Outcome(1e-3, 1e-3) for _ in job.plans])
    >>> len(found.kernels) > 0, found.failed
    (True, {})
    """
    from tirlower.graph.run.tuning import tuned_kernels
    from tirlower.tuning.apart import measured_apart

    exe = compile(graph, target, options)
    place = options.tuned if database is None else database
    path = None if place is None else os.fspath(place)
    return tuned_kernels(exe, dims or {}, executor, budget, trials, cache, path, measure or measured_apart)


def _executable(graph: Graph, lowered: Lowered, target: Target, options: Options, ctx: PassContext) -> Executable:
    check_plan(lowered)
    module = built(lowered.module, target, options)
    traced = partial(_pipeline(options).trace, graph, ctx.quiet())
    return Executable(graph, lowered, module, traced, target, options)


def _pipeline(options: Options) -> Pipeline:
    pipeline = DEFAULT if options.optimize else PLAIN
    if not options.backends:
        return pipeline
    from tirlower.graph.backends.registry import Offload

    why = "patterns look for one form of what is computed, with its constants known and its macros closed"
    return pipeline.with_step(Step(Offload(options.backends), why), before="Expand")


def load(path: str | os.PathLike[str]) -> Executable:
    """The compiled graph of a file that ``exe.save(path)`` wrote; its constants stay in the file, and are read as they are used.

    Where the file was made on a machine like this one, its machine code is in the disk cache; else it is compiled again. Raises
    :class:`GraphError`, which names the file, the place in it and what to do, for any other file; loading executes nothing of it.
    The graph of the file is lowered again: prim funcs that do something else, or at other places of memory, are refused too.
    What stays on trust is what the graph computes, and prim funcs that its author wrote for it.
    """
    from tirlower.graph.run.saving import read

    saved = read(path)
    # What a file says of a target may be no target of this version.
    try:
        target = Target(dict(saved.target))
        return _executable(saved.graph, saved.lowered, target, saved.options, context(saved.options))
    except TirError as error:
        raise GraphError(f"{os.fspath(path)!r} cannot be compiled: {error.message}", help=error.help) from error


def context(options: Options) -> PassContext:
    """The current context as options want it; what it configures itself wins."""
    ctx = PassContext.current().child()
    wanted: dict[str, object] = {
        "graph.numerics": options.numerics,
        "graph.FoldConstants": {"growth": float(options.constant_growth)},
    }
    ctx.config = {**wanted, **ctx.config}
    ctx.validate = ctx.validate or options.validate
    return ctx


def target_for(target: str | Target, options: Options) -> Target:
    """The target as options want it: so many threads; nothing contracted where no bit may change."""
    made = Target(target)
    if options.num_threads is not None:
        made = Target(made, num_threads=options.num_threads)
    return Target(made, fast_math_contract=False) if options.numerics == "exact" else made
