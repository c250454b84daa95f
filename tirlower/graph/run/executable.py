"""What compiling a graph makes: a callable, its kernels, and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tirlower.diagnostics import ArgumentTypeError
from tirlower.driver.kernel import Executable as Module
from tirlower.graph.core.nodes import Graph
from tirlower.graph.lower.driver import Lowered
from tirlower.graph.run.call import Call
from tirlower.ir import IntImm, IRModule, PrimFunc
from tirlower.ir.dtype import Array

__all__ = ["Executable", "GraphKernel"]


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


class Executable:
    """A compiled graph. Called with its inputs in order, or by name; gives its results as the traced function did.

    ``out=`` takes arrays for the results. A call from another thread while one is under way has memory of its own.
    """

    def __init__(
        self, graph: Graph, lowered: Lowered, module: Module, traced: Callable[[], Mapping[str, Graph]] = dict
    ) -> None:
        self.graph = graph
        self._traced = traced
        self.native = module
        self._lowered = lowered
        self._call = Call(lowered, module["main"])
        self._names = [v.name for v in graph.params]

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

    def __call__(self, *inputs: object, out: object = None, **named: object) -> object:
        """The results for some inputs: NumPy arrays, or arrays of libraries with DLPack.

        Raises :class:`tirlower.ArgumentError` and relatives, which name the tensor and the dim.
        """
        if named:
            inputs = (*inputs, *[named[n] for n in self._names[len(inputs) :] if n in named])
            unknown = [n for n in named if n not in self._names]
            if unknown:
                raise ArgumentTypeError(
                    f"{self.graph.name} has no input {unknown[0]!r}", help=f"it takes {', '.join(self._names)}"
                )
        given: Sequence[object] | None = None
        structure = self.graph.structure
        if out is not None:
            if isinstance(out, Mapping):
                given = [out[k] for k in structure]
            else:
                given = list(out) if isinstance(out, (tuple, list)) else [out]
        results = self._call(inputs, given)
        if structure == "one":
            return results[0]
        if isinstance(structure, tuple):
            return dict(zip(structure, results, strict=True))
        return tuple(results)

    def report(self) -> str:
        """A line for each kernel and the memory of a call, as text."""
        arena = self._lowered.storage.arena
        size = f"{arena.value / 1024:.1f} KB" if isinstance(arena, IntImm) else f"{arena} bytes"
        held = sum(c.nbytes for c in self._lowered.constants) / 1024
        lines = [f"{self.graph.name}: {len(self.kernels)} kernels, arena {size}, constants {held:.1f} KB"]
        for kernel in self.kernels.values():
            places = ", ".join(dict.fromkeys(o for o in kernel.origins if o))
            lines.append(f"  {kernel.name}: called {kernel.calls} times" + (f"  {places}" if places else ""))
        facts = [one.facts for one in self.graph.dims] + [f"{a} == {b}" for a, b in self.graph.assumed]
        if facts:
            lines.append("checked at the entry: " + "; ".join(facts))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<tirlower.graph.Executable {self.graph.name}: {len(self.kernels)} kernels>"
