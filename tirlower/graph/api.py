"""Compiling graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tirlower.driver.api import build
from tirlower.graph.backends.registry import offload
from tirlower.graph.core.nodes import Graph
from tirlower.graph.core.options import Options
from tirlower.graph.lower.driver import lower
from tirlower.graph.passes.default import DEFAULT, PLAIN
from tirlower.graph.run.executable import Executable
from tirlower.machine.target import Target
from tirlower.rewrite.context import PassContext

__all__ = ["Options", "compile"]


def compile(
    graph: Graph,
    target: str | Target = "llvm",
    options: Options = Options(),
    backends: Sequence[str] | None = None,
) -> Executable:
    """A graph as machine code: the graph rewritten, one kernel an operation, and a driver that calls them.

    ``backends`` are those of the options, given by themselves. The passes run under the current :class:`tirlower.PassContext`: its instruments, its trace, its configuration.
    Raises :class:`GraphError` for graphs that cannot be compiled, and what :func:`tirlower.build` raises.

    >>> import numpy as np
    >>> from tirlower.graph.ops.builder import GraphBuilder
    >>> b = GraphBuilder("rows")
    >>> exe = compile(b.finish(b.op("sum", b.param("x", (2, 3), "float32"), axis=1)))
    >>> exe(np.ones((2, 3), "float32"))
    array([3., 3.], dtype=float32)
    """
    pipeline = DEFAULT if options.optimize else PLAIN
    ctx = context(options)
    if backends is not None:
        options = replace(options, backends=tuple(backends))
    if options.numerics != "exact":  # a library adds up in an order of its own
        graph = offload(graph, options.backends)
    lowered = lower(pipeline.run(graph, ctx))
    module = build(lowered.module, target_for(target, options))
    return Executable(graph, lowered, module, partial(pipeline.trace, graph, ctx.quiet()))


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
