"""What compiling a graph makes: a callable, its kernels, and what it says of itself."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError
from tirlower.driver.api import build
from tirlower.driver.kernel import Executable as Module
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.nodes import Graph, GraphNode
from tirlower.graph.core.options import Options
from tirlower.graph.errors import GraphError
from tirlower.graph.lower.driver import Lowered, lower
from tirlower.graph.passes.late_constants import split, with_constants
from tirlower.graph.run.call import Call
from tirlower.graph.run.late_constants import LateConstants
from tirlower.graph.run.plan import Plan
from tirlower.ir import IRModule, PrimFunc
from tirlower.ir.dtype import Array
from tirlower.machine.target import Target
from tirlower.rewrite.context import PassContext

if TYPE_CHECKING:
    from tirlower.graph.run.profile import GraphProfile
    from tirlower.graph.run.report import Report
    from tirlower.graph.run.tracing import Tracing, Watched

__all__ = ["Executable", "GraphKernel", "built"]


def built(module: IRModule, target: Target, options: Options) -> Module:
    """The prim funcs of a graph, compiled; their plans are those of the database that the options name, if they do."""
    if options.tuned is None:
        return build(module, target)
    ctx = PassContext.current().child()
    ctx.config = {**ctx.config, "tir.auto.tuned": os.fspath(options.tuned)}
    with ctx:
        return build(module, target)


@dataclass(frozen=True)
class GraphKernel:
    """A kernel of a compiled graph: its prim func, and the operations that it is called for."""

    name: str
    func: PrimFunc
    origins: tuple[str, ...]

    @property
    def calls(self) -> int:
        """How often one call of the graph calls it."""
        return len(self.origins)


Hook: TypeAlias = "Callable[[GraphKernel, tuple[Array, ...], tuple[Array, ...]], object]"
"""What :meth:`Executable.trace` calls: with a kernel, what it read, and what it wrote."""


class Executable:
    """A compiled graph. Called with its inputs in order, or by name; gives its results as the traced function did.

    ``out=`` takes arrays for the results. A call from another thread while one is under way has memory of its own.
    """

    def __init__(
        self,
        graph: Graph,
        lowered: Lowered,
        module: Module,
        traced: Callable[[], Mapping[str, Graph]] = dict,
        target: Target = Target("llvm"),
        options: Options = Options(),
    ) -> None:
        self.graph = graph
        self.target = target
        self.options = options
        self._traced = traced
        self._names = [v.name for v in graph.params]
        self._late = LateConstants(graph, lowered)
        self._run_through(lowered, module, Call(lowered, module["main"]))

    def _run_through(self, lowered: Lowered, module: Module, call: Call) -> None:
        self.native = module
        self._lowered = lowered
        self._call = self._plain = call
        self.__dict__.pop("_watched", None)
        if self.options.trace:
            self._call = self._plain = self._watched.printing(call)

    @property
    def module(self) -> IRModule:
        """The prim funcs: ``main`` and the kernels."""
        return self._lowered.module

    @property
    def kernels(self) -> Mapping[str, GraphKernel]:
        """The kernels by name."""
        return {
            name: GraphKernel(name, self.module[name], tuple(op.origin for op in ops))
            for name, ops in self._lowered.calls.items()
        }

    @cached_property
    def graph_after(self) -> Mapping[str, Graph]:
        """The graph after each pass, by the pass's name (``CSE``, then ``CSE.2``): the passes run again when this is asked."""
        return self._traced()

    @property
    def state(self) -> Mapping[str, Array]:
        """What the states hold, by name: the arrays themselves, which may be written to between calls."""
        return self._call.states

    def reset(self) -> None:
        """Let the states hold what they held before the first call."""
        self._call.reset()

    def set_constant(self, name: str, value: object) -> None:
        """Give a constant of which the graph had no contents its contents; until all have them, calls raise.

        Raises :class:`GraphError` for a name that is no such constant's, one that is bound already, and an array of another
        dtype or shape.

        >>> import numpy as np, tirlower.graph as tg
        >>> exe = tg.compile(tg.parse('''
        ... @tg.graph
        ... def f(x: tg.Tensor((2,), "float32")):
        ...     w = tg.constant("float32", (2,), "5f3ac19e")
        ...     y: tg.Tensor((2,), "float32") = tg.multiply(x, w)
        ...     return y
        ... '''))
        >>> exe.set_constant("w", np.array([2, 3], "float32"))
        >>> exe(np.ones(2, "float32")).tolist()
        [2.0, 3.0]
        """
        for place, data in self._late.bind(name, value):
            self._plain.bind(place, data)

    def fold_constants(self) -> None:
        """Compute once what depends on constants alone, now that they are bound, and keep it as constants.

        What would take more than 64 KB more than what it is computed of stays as it is. A hook at work ends. Raises
        :class:`GraphError` for constants that are not bound.
        """
        bound = self._late.bound()
        late = split(self._lowered.graph, bound)
        if late is None:
            return
        first, values = late
        target = self.native["main"].target
        made = lower(first)
        results = Call(made, built(made.module, target, self.options)["main"])([], None)
        folded = {v: ConstantData(np.asarray(array)) for v, array in zip(values, results, strict=True)}
        lowered = lower(with_constants(self._lowered.graph, bound, folded))
        module = built(lowered.module, target, self.options)
        self._late = self._late.moved(lowered)
        self._run_through(lowered, module, self._call_of(lowered, module).with_states_of(self._plain))

    def _call_of(self, lowered: Lowered, module: Module) -> Call:
        """A call with the constants that are bound, and with states of its own."""
        call = Call(lowered, module["main"])
        for place, data in self._late.all_given():
            call.bind(place, data)
        return call

    def __call__(self, *inputs: object, out: object = None, **named: object) -> object:
        """The results for some inputs: NumPy arrays, or arrays of libraries with DLPack.

        Raises :class:`tirlower.ArgumentError` and relatives, which name the tensor and the dim.
        """
        if named:
            inputs = self._in_order(inputs, named)
        if out is None and self._call.single:
            return self._call.one(inputs)
        given: Sequence[object] | None = None
        structure = self.graph.structure
        if out is not None:
            if isinstance(out, Mapping):
                keys = structure if isinstance(structure, tuple) else ()
                if set(keys) != set(out):
                    raise ArgumentTypeError(
                        f"the results of {self.graph.name} are {', '.join(map(repr, keys)) or 'not named'}, got out= with "
                        f"{', '.join(map(repr, out))}",
                        help="give an array for each result, by its name where results have names",
                    )
                given = [out[k] for k in keys]
            else:
                given = list(out) if isinstance(out, (tuple, list)) else [out]
        results = self._call(inputs, given)
        if structure == "one":
            return results[0]
        if isinstance(structure, tuple):
            return dict(zip(structure, results, strict=True))
        return tuple(results)

    def _in_order(self, inputs: tuple[object, ...], named: Mapping[str, object]) -> tuple[object, ...]:
        unknown = [n for n in named if n not in self._names]
        if unknown:
            raise ArgumentTypeError(
                f"{self.graph.name} has no input {unknown[0]!r}", help=f"it takes {', '.join(self._names)}"
            )
        twice = [n for n in self._names[: len(inputs)] if n in named]
        if twice:
            raise ArgumentTypeError(
                f"{self.graph.name} is given the input {twice[0]!r} twice: by its place, and by its name",
                help="give each input once",
            )
        return (*inputs, *[named[n] for n in self._names[len(inputs) :] if n in named])

    def report(self, **dims: int) -> Report:
        """A line for each kernel, the memory of a call, and what each call checks; ``print`` shows a table.

        Operations and bytes are counted at ``dims``; without one, at its first hint or its largest value.
        """
        unknown = [name for name in dims if name not in [one.name for one in self.graph.dims]]
        if unknown:
            raise ArgumentTypeError(f"{self.graph.name} has no dim {unknown[0]!r}")
        from tirlower.graph.run.report import report_of

        return report_of(self._lowered, dims)

    @property
    def plan(self) -> Plan:
        """Where values live, at typical values of the dims (as :meth:`report` says)."""
        return self.report().plan

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Write a picture: ``.dot`` for Graphviz, ``.html`` a page with tables of kernels and memory and the same text.

        Raises :class:`GraphError` for another ending.
        """
        where = pathlib.Path(path)
        kernels: dict[GraphNode, str] = {op: name for name, ops in self._lowered.calls.items() for op in ops}
        from tirlower.graph.core.draw import dot_text, html_page

        text = dot_text(self._lowered.graph, kernels)
        if where.suffix == ".html":
            text = html_page(self.graph.name, self.report().tables(), text)
        elif where.suffix != ".dot":
            raise GraphError(f"a picture is written as .dot or .html, got {where.name!r}")
        where.write_text(text, encoding="utf-8")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, which :func:`tirlower.graph.load` reads; a file of that name is replaced when all is written.

        The file is a zip of texts (the graph, its prim funcs) and of the constants; states are in it as they are at first. Raises :class:`GraphError` where it cannot be written.

        >>> import tempfile, numpy as np, tirlower.graph as tg
        >>> exe = tg.compile(tg.trace(lambda x: x @ np.eye(3, dtype="float32"), tg.spec((2, 3), "float32")))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     exe.save(f"{folder}/eye.tg")
        ...     tg.load(f"{folder}/eye.tg")(np.ones((2, 3), "float32")).tolist()
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
        """
        from tirlower.graph.run import saving

        saving.write(path, saving.Saved(self.graph, self._lowered, self.target.export(), self.options))

    def profile(self, *inputs: object, rounds: int = 5, **named: object) -> GraphProfile:
        """The time of each kernel in calls with these inputs; ``print`` shows a table.

        >>> import numpy as np, tirlower.graph as tg
        >>> exe = tg.compile(tg.trace(lambda x: (x @ x).sum(axis=0), tg.spec((8, 8), "float32")))
        >>> sorted(one.name for one in exe.profile(np.ones((8, 8), "float32")).kernels)
        ['matmul_8x8', 'sum_8']
        """
        if rounds < 1:
            raise ArgumentValueError(f"rounds= is at least 1, got {rounds}")
        given = self._in_order(inputs, named)
        from tirlower.graph.run.profile import profile_of

        return profile_of(self._watched, lambda call: call(given), rounds, self._call_of(self._lowered, self.native))

    def trace(self, hook: Hook | None) -> Tracing:
        """Call ``hook(kernel, inputs, outputs)`` behind each kernel of the calls that follow, until ``trace(None)`` or the
        end of the block of ``with exe.trace(hook):``. The arrays are views, whose memory later kernels may use.

        >>> import numpy as np, tirlower.graph as tg
        >>> exe = tg.compile(tg.trace(lambda x: (x @ x).sum(axis=0), tg.spec((2, 2), "float32")))
        >>> with exe.trace(lambda kernel, inputs, outputs: print(kernel.name, outputs[0].tolist())):
        ...     _ = exe(np.ones((2, 2), "float32"))
        matmul_2x2 [[2.0, 2.0], [2.0, 2.0]]
        sum_2 [4.0, 4.0]
        """
        if hook is None:
            self._end_trace()
        else:
            kernels = self.kernels
            told = hook
            self._call = self._watched.call(
                lambda site, given, time: told(kernels[site.kernel], *given.views(site)), plain=self._plain
            )
        from tirlower.graph.run.tracing import Tracing

        return Tracing(self._end_trace)

    def _end_trace(self) -> None:
        self._call = self._plain

    @functools.cached_property
    def _watched(self) -> Watched:
        from tirlower.graph.run.tracing import Watched

        return Watched(self._lowered, self.native["main"].target)

    def __repr__(self) -> str:
        return f"<tirlower.graph.Executable {self.graph.name}: {len(self.kernels)} kernels>"
