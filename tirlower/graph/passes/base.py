"""What a pass over graphs is: a value with options, run under the same context as the passes over prim funcs.

>>> import tirlower as tl, tirlower.graph as tg
>>> g = tg.trace(lambda x: tg.nn.softmax(x), tg.spec((2, 3), "float32"))
>>> with tl.PassContext(trace=True) as ctx:
...     opened = tg.passes.Expand()(g)
>>> ctx.programs_after["Expand"] is opened
True
"""

from __future__ import annotations

from typing import ClassVar, overload

from tirlower.graph.core.module import Module
from tirlower.graph.core.nodes import Graph
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.errors import GraphError
from tirlower.graph.passes.inner import everywhere
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.registry import GRAPH_PASSES, declare
from tirlower.rewrite.rewrite import Rewrite
from tirlower.rewrite.running import PassInfo, run_pass
from tirlower.support.literals import literals

__all__ = ["GraphPass", "policy"]


def policy(ctx: PassContext) -> Numerics:
    """What a context lets passes do to numbers: its ``graph.numerics``."""
    return Numerics.of(ctx.option("graph.numerics"))


class GraphPass(Rewrite):
    """Base of passes over graphs: ``pass_(graph)`` gives a graph, the same object where nothing changes.

    A subclass states ``name`` (``graph.CSE``), ``numerics`` (what it may do to numbers; ``reaches`` where some of its
    rules may do more) and its options as fields, and defines :meth:`transform`. Options are given at construction or by ``PassContext(config={"graph.CSE": {...}})``; the
    constructor wins. Under a context whose ``graph.numerics`` does not admit its class a pass changes nothing.
    """

    numerics: ClassVar[Numerics] = Numerics.EXACT
    reaches: ClassVar[Numerics] = Numerics.EXACT
    """The class of the boldest of its rules: what it may do under a policy that admits them all."""
    keeps_debug: ClassVar[bool] = True
    """Whether assertions and prints say after it what they said before."""
    opt_level: ClassVar[int] = 0
    is_list: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Make its options known under its name."""
        super().__init_subclass__()
        cls.reaches = max(cls.reaches, cls.numerics)
        if cls.name:
            declare(cls.name, cls.declared)

    @property
    def info(self) -> PassInfo:
        """Name and level."""
        return PassInfo(self.name or type(self).__name__, self.opt_level)

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The rewriting itself, on one graph: those inside its nodes have been rewritten."""
        raise TypeError(f"{type(self).__name__} defines no transformation")

    def rewritten(self, program: Graph, ctx: PassContext) -> Graph:
        """The graph transformed, and those inside it, if the context's policy admits the pass."""
        if self.numerics > policy(ctx):
            return program
        return everywhere(program, lambda graph: self.transform(graph, ctx))

    def certify(self, before: Graph, after: Graph, ctx: PassContext) -> None:
        """Check that ``after`` is well formed and computes what ``before`` computes, as ``PassContext(validate=True)`` asks."""
        from tirlower.graph.passes.validate import validate_graphs

        validate_graphs(self, before, after, ctx, min(self.reaches, policy(ctx)))

    def construction(self) -> str | None:
        """The Python expression that makes this pass, in ``tg.passes``; None where a file of its own cannot name it."""
        kind = type(self)
        if kind.__module__ != f"tirlower.graph.passes.{GRAPH_PASSES.get(kind.__name__)}":
            return None
        options = literals(self.given)
        if len(options) != len(self.given):
            return None
        return f"{kind.__name__}({', '.join(f'{k}={v!r}' for k, v in options.items())})"

    @overload
    def __call__(self, graph: Graph, ctx: PassContext | None = None) -> Graph: ...

    @overload
    def __call__(self, graph: Module, ctx: PassContext | None = None) -> Module: ...

    def __call__(self, graph: Graph | Module, ctx: PassContext | None = None) -> Graph | Module:
        """Run the pass under a context, the current one unless given; over a module, on each of its graphs.

        Raises :class:`GraphError` for what is neither.
        """
        ctx = ctx or PassContext.current()
        if isinstance(graph, Module):
            return self.on_module(graph, ctx)
        if not isinstance(graph, Graph):
            raise GraphError(
                f"{self.info.name} takes a graph, got {type(graph).__name__}",
                help="tg.trace(function, *specs) makes a graph of a function",
            )
        return run_pass(self, graph, ctx)

    def on_module(self, module: Module, ctx: PassContext) -> Module:
        """The module with each of its graphs rewritten."""
        return module.with_(graphs={name: run_pass(self, graph, ctx) for name, graph in module.graphs.items()})
